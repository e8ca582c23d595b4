//! The default routes of this machine, as /proc shows them.
//!
//! Principle: what is parsed is an argument, so that it can be tested. Non-goals: IPv6, and
//! routing tables other than the main one.

use std::fs;
use std::net::Ipv4Addr;

/// Devices of the default routes and their next hops, the preferred one first.
fn default_routes(routes: &str) -> Vec<(&str, Ipv4Addr)> {
    // proc_net_route: device, destination, gateway, flags, two counters, metric, mask; addresses
    // in hex as they are in memory. `*` is a route that leads nowhere.
    let mut all: Vec<(u32, &str, Ipv4Addr)> = routes
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let &[device, "00000000", hop, _, _, _, metric, "00000000", ..] = &fields[..] else {
                return None;
            };
            let hop = u32::from_str_radix(hop, 16).ok()?.to_ne_bytes();
            (device != "*").then_some((metric.parse().ok()?, device, Ipv4Addr::from(hop)))
        })
        .collect();
    all.sort_by_key(|r| r.0);
    all.into_iter().map(|(_, d, hop)| (d, hop)).collect()
}

/// The next hop of the default route through `device`, if it has one.
pub(crate) fn next_hop(device: &str) -> Option<Ipv4Addr> {
    let routes = fs::read_to_string("/proc/thread-self/net/route").ok()?;
    let hop = default_routes(&routes)
        .into_iter()
        .find(|r| r.0 == device)?;
    Some(hop.1).filter(|h| !h.is_unspecified())
}

/// The device of the default route; the preferred one, if there are several.
pub fn default_device() -> Option<String> {
    let routes = fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
    default_routes(&routes).first().map(|r| r.0.to_owned())
}

/// What is behind `device`: the hardware address of the default route's next hop, or else its
/// address, or else `none`.
pub(crate) fn gateway(routes: &str, neighbours: &str, device: &str) -> String {
    let routes = default_routes(routes);
    let hop = routes.iter().find(|r| r.0 == device).map(|r| r.1);
    let Some(hop) = hop.filter(|h| !h.is_unspecified()) else {
        return "none".into();
    };
    // proc_net_arp: address, type, flags, hardware address, mask, device; all zero until known.
    let hardware = neighbours.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[address, _, _, hardware, _, on] = &fields[..] else {
            return None;
        };
        let known = hardware.chars().any(|c| !"0:".contains(c));
        (known && on == device && address.parse() == Ok(hop)).then(|| hardware.to_owned())
    });
    hardware.unwrap_or_else(|| hop.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARP: &str = "IP address HW type Flags HW address Mask Device
192.0.2.7 0x1 0x2 52:54:00:00:00:07 * wan
192.0.2.2 0x1 0x0 00:00:00:00:00:00 * wan
192.0.2.3 0x1 0x2 52:54:00:00:00:03 * lan
192.0.2.3 0x1 0x2 52:54:00:AB:cd:EF * wan
";

    fn hex(address: [u8; 4]) -> String {
        format!("{:08X}", u32::from_ne_bytes(address))
    }

    fn routes(hop: [u8; 4]) -> String {
        format!(
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
vpn 00000000 00000000 0001 0 0 0 00000080 0 0 0
lan 00000000 {} 0003 0 0 600 00000000 0 0 0
wan 00000000 {} 0003 0 0 100 00000000 0 0 0
*   00000000 00000000 0200 0 0 50 00000000 0 0 0
wan {} 00000000 0001 0 0 0 00FFFFFF 0 0 0
",
            hex([192, 0, 2, 9]),
            hex(hop),
            hex([192, 0, 2, 0]),
        )
    }

    #[test]
    fn a_line_is_known_by_device_and_gateway() {
        let told = |hop| gateway(&routes(hop), ARP, "wan");
        assert_eq!(told([192, 0, 2, 3]), "52:54:00:AB:cd:EF");
        assert_eq!(told([192, 0, 2, 2]), "192.0.2.2");
        assert_eq!(told([0, 0, 0, 0]), "none");
        assert_eq!(gateway("", "", "wan"), "none");
        let devices: Vec<_> = default_routes(&routes([192, 0, 2, 3]))
            .iter()
            .map(|r| r.0.to_owned())
            .collect();
        assert_eq!(devices, ["wan", "lan"]);
    }
}
