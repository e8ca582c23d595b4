//! What all hosts of a LAN see alike of it: the hardware address of its gateway, and its network.
//!
//! Principles: read once, when a device is shaped; what is parsed is an argument. Non-goals: IPv6, whose hosts have many
//! networks at once; secrets.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use crate::profile::met;
use crate::routes::next_hops;

/// What is alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LanIdentity {
    /// The gateway.
    pub(crate) hop: Ipv4Addr,
    /// The gateway's hardware address, as text.
    pub(crate) gateway: Vec<u8>,
    /// The network, and its mask.
    pub(crate) network: Vec<u8>,
}

impl LanIdentity {
    /// Of the LAN that `device` is on; or why it is on none.
    pub(crate) fn of(device: &str) -> Result<Self, String> {
        let hop = next_hops(device).into_iter().find_map(|hop| match hop {
            IpAddr::V4(hop) => Some(hop),
            IpAddr::V6(_) => None,
        });
        let hop = hop.ok_or_else(|| format!("{device} has no IPv4 gateway"))?;
        let gateway = met(device);
        if gateway == hop.to_string() {
            return Err(format!(
                "the gateway {hop} does not say its hardware address"
            ));
        }
        let routes = fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
        let network = network(&routes, device, hop)
            .ok_or_else(|| format!("{device} has no network with {hop} in it"))?;
        Ok(LanIdentity {
            hop,
            gateway: gateway.into_bytes(),
            network: bytes(network),
        })
    }
}

/// As in the neighbours of who is on the link.
pub(crate) fn hardware_text(address: &[u8]) -> String {
    let bytes: Vec<String> = address.iter().map(|b| format!("{b:02x}")).collect();
    bytes.join(":")
}

fn hex(text: &str) -> Option<Ipv4Addr> {
    let number = u32::from_str_radix(text, 16).ok()?;
    Some(Ipv4Addr::from(number.to_ne_bytes()))
}

/// Devices of `/proc/net/route` that have a network behind them, and that with its mask.
fn behind(routes: &str) -> Vec<(String, Ipv4Addr, Ipv4Addr)> {
    let one = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[name, to, via, _, _, _, _, mask, ..] = &fields[..] else {
            return None;
        };
        let (to, via, mask) = (hex(to)?, hex(via)?, hex(mask)?);
        let is_network = via.is_unspecified() && !mask.is_unspecified();
        is_network.then(|| (name.to_owned(), to, mask))
    };
    routes.lines().skip(1).filter_map(one).collect()
}

fn bytes((network, mask): (Ipv4Addr, Ipv4Addr)) -> Vec<u8> {
    [network.octets(), mask.octets()].concat()
}

/// All networks of this machine, by device.
pub(crate) fn networks(routes: &str) -> Vec<(String, Vec<u8>)> {
    let all = behind(routes).into_iter();
    all.map(|(device, network, mask)| (device, bytes((network, mask))))
        .collect()
}

/// The network behind `device` that `hop` is in, of `/proc/net/route`: the narrowest.
fn network(routes: &str, device: &str, hop: Ipv4Addr) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let fits = |to: Ipv4Addr, mask: Ipv4Addr| u32::from(hop) & u32::from(mask) == u32::from(to);
    let all = behind(routes).into_iter();
    let all = all.filter(|(name, to, mask)| name == device && fits(*to, *mask));
    all.map(|(_, to, mask)| (to, mask))
        .max_by_key(|(_, mask)| *mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_is_the_one_with_the_gateway_in_it() {
        let hex = |a: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(a));
        let (net, mask, hop) = (
            hex([192, 168, 7, 0]),
            hex([255, 255, 255, 0]),
            hex([192, 168, 7, 1]),
        );
        let text = format!(
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 {hop} 0003 0 0 100 00000000 0 0 0
eth0 {net} 00000000 0001 0 0 100 {mask} 0 0 0
wlan0 {net} 00000000 0001 0 0 600 {mask} 0 0 0
"
        );
        let found = network(&text, "eth0", Ipv4Addr::new(192, 168, 7, 1));
        let expected = (
            Ipv4Addr::new(192, 168, 7, 0),
            Ipv4Addr::new(255, 255, 255, 0),
        );
        assert_eq!(found, Some(expected));
        assert_eq!(network(&text, "eth0", Ipv4Addr::new(192, 168, 8, 1)), None);
        assert_eq!(network(&text, "ppp0", Ipv4Addr::new(192, 168, 7, 1)), None);
        assert_eq!(network("", "eth0", Ipv4Addr::LOCALHOST), None);
    }
}
