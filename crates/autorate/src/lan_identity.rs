//! What all hosts of a LAN see alike of it: the hardware address of its gateway, and its network.
//!
//! Principles: read once, when a device is shaped; what is parsed is an argument; IPv4 where there is a gateway of it, so that
//! all hosts choose alike. By IPv6 alone the gateway is all there is: hosts have many networks at once. Non-goals: secrets.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::profile::met;
use crate::routes::next_hops;

/// What is alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LanIdentity {
    /// The gateway.
    pub(crate) hop: IpAddr,
    /// The gateway's hardware address, as text.
    pub(crate) gateway: Vec<u8>,
    /// The network, and its mask; nothing by IPv6.
    pub(crate) network: Vec<u8>,
}

impl LanIdentity {
    /// Of the LAN that `device` is on; or why it is on none.
    pub(crate) fn of(device: &str) -> Result<Self, String> {
        // IPv4 stands first.
        let hop = next_hops(device).into_iter().next();
        let hop = hop.ok_or_else(|| format!("{device} has no gateway"))?;
        let gateway = met(device);
        if gateway == hop.to_string() {
            return Err(format!(
                "the gateway {hop} does not say its hardware address"
            ));
        }
        let network = match hop {
            IpAddr::V4(hop) => {
                let routes = fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
                let network = network(&routes, device, hop);
                bytes(network.ok_or_else(|| format!("{device} has no network with {hop} in it"))?)
            }
            IpAddr::V6(_) => Vec::new(),
        };
        Ok(LanIdentity {
            hop,
            gateway: gateway.into_bytes(),
            network,
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

/// Devices of `/proc/net/if_inet6` that have an address of the link (RFC 4291, section 2.5.6): hosts behind them know us by
/// it.
pub(crate) fn ipv6_links(addresses: &str) -> Vec<String> {
    let one = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[address, _, _, _, _, device] = &fields[..] else {
            return None;
        };
        let address = Ipv6Addr::from(u128::from_str_radix(address, 16).ok()?);
        address.is_unicast_link_local().then(|| device.to_owned())
    };
    let mut all: Vec<String> = addresses.lines().filter_map(one).collect();
    all.sort();
    all.dedup();
    all
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

    #[test]
    fn links_have_an_address_of_the_link() {
        let text = "00000000000000000000000000000001 01 80 10 80       lo
20010db8000000000000000000000001 03 40 00 80    wlan0
fe800000000000000000000000000001 02 40 20 80     eth0
fe800000000000000000000000000002 02 40 20 80     eth0
nonsense
";
        assert_eq!(ipv6_links(text), ["eth0"]);
    }
}
