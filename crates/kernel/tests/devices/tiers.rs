//! Each kind of packet goes to its tier: sent through the device, seen in the kernel's counters.

use std::net::UdpSocket;

use evenkeel_core::classify::Tier;
use evenkeel_core::plan::{Backend, Feature};
use evenkeel_kernel::status;
use nix::sys::socket::{setsockopt, sockopt};

use crate::world::{World, everywhere, ip, request};

/// Where the one packet went that `send` sent, all others standing still.
fn tier_of(w: &World, what: &str, send: impl Fn()) -> Tier {
    let counts = || -> Vec<(Tier, u64)> {
        let all = status(&w.dir, Some("wan")).unwrap();
        all[0]
            .up
            .tiers
            .iter()
            .map(|t| (t.tier, t.packets))
            .collect()
    };
    let before = counts();
    send();
    for _ in 0..1000 {
        let moved: Vec<Tier> = before
            .iter()
            .zip(counts())
            .filter(|(a, b)| b.1 > a.1)
            .map(|(a, _)| a.0)
            .collect();
        match moved[..] {
            [] => std::thread::sleep(std::time::Duration::from_millis(1)),
            [tier] => return tier,
            _ => panic!("{what}: more than one packet moved: {moved:?}"),
        }
    }
    panic!("{what}: the packet never left");
}

/// IPv4 and IPv6: TOS, mark, port, payload; and the tier for HTB and for CAKE, which keeps small
/// packets in their own tier's first places instead.
#[test]
fn packets_go_to_their_tiers() {
    use Tier::{BestEffort, Bulk, Video, Voice};
    everywhere("packets_go_to_their_tiers", |w| {
        let programs = w.caps.has(Feature::Bpf);
        let marks = programs || w.caps.has(Feature::U32Mark);
        let marked = |tier| if marks { tier } else { BestEffort };
        let hints = programs || w.caps.has(Feature::Skbedit);
        let hinted = |tier| {
            if w.backend != Backend::Cake || hints {
                tier
            } else {
                BestEffort
            }
        };
        let small = if w.backend == Backend::Cake {
            BestEffort
        } else {
            Voice
        };
        let delay = if w.backend == Backend::Cake && !hints {
            Video
        } else {
            Voice
        };
        w.shape(&request("50mbit", "10mbit", "ptm:30")).unwrap();
        let mut families = vec![("10.9.0.1", "10.9.0.2")];
        if std::path::Path::new("/proc/sys/net/ipv6/conf/wan/disable_ipv6").exists() {
            quiet_ipv6(w);
            families.push(("fd09::1", "fd09::2"));
        }
        for (from, to) in families {
            for (what, tos, mark, port, size, tier) in [
                ("plain", 0, 0, 44811, 1000, BestEffort),
                ("small", 0, 0, 44811, 100, small),
                ("just too large", 0, 0, 44811, 256, BestEffort),
                ("DNS", 0, 0, 53, 600, hinted(Voice)),
                ("minimum delay", 0x10, 0, 44811, 1000, delay),
                ("EF", 0xb8, 0, 44811, 1000, Voice),
                ("EF with ECT", 0xb9, 0, 44811, 1000, Voice),
                ("CS4", 0x80, 0, 44811, 1000, Voice),
                ("AF41", 0x88, 0, 44811, 1000, Video),
                ("AF21", 0x48, 0, 44811, 1000, Video),
                ("AF11", 0x28, 0, 44811, 1000, BestEffort),
                ("CS1", 0x20, 0, 44811, 1000, Bulk),
                ("LE", 0x04, 0, 44811, 1000, Bulk),
                ("bulk and small", 0x20, 0, 44811, 60, Bulk),
                ("mark 10", 0, 10, 44811, 1000, marked(Voice)),
                (
                    "mark 11 before EF",
                    0xb8,
                    11,
                    44811,
                    1000,
                    if marks { BestEffort } else { Voice },
                ),
                ("mark 12", 0, 12, 44811, 1000, marked(Bulk)),
                ("mark 13", 0, 13, 44811, 1000, BestEffort),
            ] {
                let socket = UdpSocket::bind((from, 0)).unwrap();
                socket.connect((to, port)).unwrap();
                if from.contains(':') {
                    setsockopt(&socket, sockopt::Ipv6TClass, &tos).unwrap();
                } else {
                    setsockopt(&socket, sockopt::Ipv4Tos, &tos).unwrap();
                }
                setsockopt(&socket, sockopt::Mark, &mark).unwrap();
                let what = format!(
                    "{:?} {:?} programs {programs} {from} {what}",
                    w.backend, w.wan
                );
                let got = tier_of(w, &what, || {
                    socket.send(&vec![0; size]).unwrap();
                });
                assert_eq!(got, tier, "{what}");
            }
        }
        w.clear();
    });
}

/// IPv6 on the WAN device without a packet that we did not send.
fn quiet_ipv6(w: &World) {
    for (key, value) in [
        ("dad_transmits", "0"),
        ("router_solicitations", "0"),
        ("mldv2_unsolicited_report_interval", "100000000"),
    ] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/wan/{key}"), value);
    }
    std::fs::write("/proc/sys/net/ipv6/conf/wan/addr_gen_mode", "1").unwrap();
    std::fs::write("/proc/sys/net/ipv6/conf/wan/disable_ipv6", "0").unwrap();
    ip("-6 addr add fd09::1/64 dev wan nodad");
    if w.wan == crate::world::Wan::Veth {
        ip("-6 neigh replace fd09::2 lladdr 02:00:00:00:00:02 dev wan");
    }
    // Reports of the groups joined just now go out within a moment; wait until none does.
    let packets = || status(&w.dir, Some("wan")).unwrap()[0].up.packets;
    let mut last = packets();
    let mut still = 0;
    while still < 20 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let now = packets();
        still = if now == last { still + 1 } else { 0 };
        last = now;
    }
}
