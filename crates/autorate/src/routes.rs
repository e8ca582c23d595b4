//! The default routes of this machine, as /proc shows them, and who the next hop is.
//!
//! Principles: what is parsed is an argument, so that it can be tested; IPv4 before IPv6, since its
//! routers answer more kinds of probes. Non-goals: routing tables other than the main one.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use evenkeel_kernel::Neighbour;
use evenkeel_sys::{DeviceName, PacketOptions};

/// `RTF_REJECT` of linux/route.h: a route that leads nowhere.
const REJECT: u32 = 0x200;

/// A way to everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DefaultRoute {
    /// The lowest is preferred.
    metric: u32,
    device: String,
    /// Absent where there is only one who could be meant (ppp).
    hop: Option<IpAddr>,
    is_ipv6: bool,
}

/// Those of `/proc/net/route`, the preferred one first.
fn ipv4(routes: &str) -> Vec<DefaultRoute> {
    // proc_net_route: device, destination, gateway, flags, two counters, metric, mask; addresses
    // in hex as they are in memory. `*` is a route that leads nowhere.
    let one = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[device, "00000000", hop, _, _, _, metric, "00000000", ..] = &fields[..] else {
            return None;
        };
        let hop = Ipv4Addr::from(u32::from_str_radix(hop, 16).ok()?.to_ne_bytes());
        (device != "*").then_some(DefaultRoute {
            metric: metric.parse().ok()?,
            device: device.to_owned(),
            hop: (!hop.is_unspecified()).then_some(hop.into()),
            is_ipv6: false,
        })
    };
    sorted(routes.lines().skip(1).filter_map(one).collect())
}

/// Those of `/proc/net/ipv6_route`, the preferred one first.
fn ipv6(routes: &str) -> Vec<DefaultRoute> {
    // rt6_info_route (net/ipv6/route.c): destination and its length, source and its length, next
    // hop, metric, two counters, flags, all in hex; device. A source is what a provider's router
    // gave us: those routes are as good.
    let one = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[to, "00", _, _, hop, metric, _, _, flags, device] = &fields[..] else {
            return None;
        };
        let hex = |text| u32::from_str_radix(text, 16).ok();
        let hop = Ipv6Addr::from(u128::from_str_radix(hop, 16).ok()?);
        let leads = hex(flags)? & REJECT == 0 && u128::from_str_radix(to, 16) == Ok(0);
        leads.then_some(DefaultRoute {
            metric: hex(metric)?,
            device: device.to_owned(),
            hop: (!hop.is_unspecified()).then_some(hop.into()),
            is_ipv6: true,
        })
    };
    sorted(routes.lines().filter_map(one).collect())
}

/// The kernel's own order among equals stays.
fn sorted(mut all: Vec<DefaultRoute>) -> Vec<DefaultRoute> {
    all.sort_by_key(|r| r.metric);
    all
}

/// Those of now, of the calling thread's namespace.
fn default_routes() -> Vec<DefaultRoute> {
    let read = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    let mut all = ipv4(&read("route").unwrap_or_default());
    // A kernel may lack IPv6.
    all.extend(ipv6(&read("ipv6_route").unwrap_or_default()));
    all
}

/// The next hops of the default routes through `device`, the preferred one first.
pub(crate) fn next_hops(device: &str) -> Vec<IpAddr> {
    let routes = default_routes().into_iter();
    let through = routes.filter(|r| r.device == device);
    through.filter_map(|r| r.hop).collect()
}

/// The device of the default route; the preferred one, if there are several, and one of IPv4
/// before one of IPv6.
pub fn default_device() -> Option<String> {
    default_routes().into_iter().next().map(|r| r.device)
}

/// What makes packets to `address` leave by `device`, if that has a default route: another may have
/// a better one. Without one what leads out stands above the device (PPPoE, a bridge), and the
/// routes know better.
pub(crate) fn leave_by(device: &str, address: IpAddr) -> PacketOptions {
    let leads = |r: &DefaultRoute| r.device == device && r.is_ipv6 == address.is_ipv6();
    let leads_out = default_routes().iter().any(leads);
    PacketOptions {
        device: DeviceName::new(device).ok().filter(|_| leads_out),
        ..PacketOptions::default()
    }
}

/// What is behind a device: the hardware address of the next hop, or else its address, or else
/// `none`.
pub(crate) fn gateway(hop: Option<IpAddr>, neighbours: &[Neighbour]) -> String {
    let Some(hop) = hop else {
        return "none".into();
    };
    let known = |n: &&Neighbour| n.address == hop && n.hardware.iter().any(|byte| *byte != 0);
    match neighbours.iter().find(known) {
        Some(n) => {
            let bytes: Vec<String> = n.hardware.iter().map(|b| format!("{b:02x}")).collect();
            bytes.join(":")
        }
        None => hop.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(address: [u8; 4]) -> String {
        format!("{:08X}", u32::from_ne_bytes(address))
    }

    /// Device, next hop and metric.
    fn seen(routes: &[DefaultRoute]) -> Vec<(&str, String, u32)> {
        let hop = |r: &DefaultRoute| r.hop.map_or("none".into(), |h| h.to_string());
        let all = routes.iter();
        all.map(|r| (r.device.as_str(), hop(r), r.metric)).collect()
    }

    #[test]
    fn ipv4_routes() {
        let text = format!(
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
vpn 00000000 00000000 0001 0 0 0 00000080 0 0 0
lan 00000000 {} 0003 0 0 600 00000000 0 0 0
wan 00000000 {} 0003 0 0 100 00000000 0 0 0
ppp 00000000 00000000 0001 0 0 700 00000000 0 0 0
*   00000000 00000000 0200 0 0 50 00000000 0 0 0
wan {} 00000000 0001 0 0 0 00FFFFFF 0 0 0
",
            hex([192, 0, 2, 9]),
            hex([192, 0, 2, 3]),
            hex([192, 0, 2, 0]),
        );
        let expected = [
            ("wan", "192.0.2.3".to_owned(), 100),
            ("lan", "192.0.2.9".to_owned(), 600),
            ("ppp", "none".to_owned(), 700),
        ];
        assert_eq!(seen(&ipv4(&text)), expected);
        assert_eq!(ipv4(""), []);
    }

    /// As Linux 6.18 prints it: networks, routers' routes, one with a source, ppp's, the one that
    /// leads nowhere.
    #[test]
    fn ipv6_routes() {
        let text = "\
20010db8000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001      wan
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000003 00000000 00450003      lan
00000000000000000000000000000000 00 20010db8000000000000000000000000 38 fe80000000000000000000fffe000002 00000200 00000001 00000000 00000003      wan
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 00000401 00000001 00000000 00000001      ppp
00000000000000000000000000000000 03 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000001 00000001 00000000 00000003      vpn
00000000000000000000000000000001 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000001 00000001 00000000 00000003      odd
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
";
        let expected = [
            ("wan", "fe80::ff:fe00:2".to_owned(), 0x200),
            ("lan", "fe80::1".to_owned(), 0x400),
            ("ppp", "none".to_owned(), 0x401),
        ];
        assert_eq!(seen(&ipv6(text)), expected);
        assert_eq!(ipv6("what\nis this"), []);
    }

    #[test]
    fn a_line_is_known_by_its_gateway() {
        let neighbour = |address: &str, hardware: &[u8]| Neighbour {
            ifindex: 7,
            address: address.parse().unwrap(),
            hardware: hardware.to_vec(),
        };
        let all = [
            neighbour("192.0.2.7", &[0x52, 0x54, 0, 0, 0, 7]),
            neighbour("192.0.2.2", &[]),
            neighbour("192.0.2.4", &[0; 6]),
            neighbour("192.0.2.3", &[0x52, 0x54, 0, 0xab, 0xcd, 0xef]),
            neighbour("fe80::1", &[2, 0, 0, 0, 0, 1]),
        ];
        for (hop, name) in [
            ("192.0.2.3", "52:54:00:ab:cd:ef"),
            ("192.0.2.2", "192.0.2.2"),
            ("192.0.2.4", "192.0.2.4"),
            ("192.0.2.5", "192.0.2.5"),
            ("fe80::1", "02:00:00:00:00:01"),
            ("fe80::2", "fe80::2"),
        ] {
            assert_eq!(gateway(hop.parse().ok(), &all), name);
        }
        assert_eq!(gateway(None, &all), "none");
    }
}
