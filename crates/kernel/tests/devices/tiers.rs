//! Each kind of packet goes to its tier: sent through the device, seen in the kernel's counters.

use std::io::Write as _;
use std::net::UdpSocket;

use evenkeel_core::classify::Tier;
use evenkeel_core::plan::{Backend, Feature};
use evenkeel_kernel::status;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
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

/// A control group's traffic moves from tier to tier while it runs, as the rules change.
#[test]
fn a_rule_moves_a_control_group() {
    everywhere("a_rule_moves_a_control_group", |w| {
        if !w.caps.has(Feature::Bpf) {
            return;
        }
        // A thread of its own has mounts of its own.
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let quiet = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, quiet, None::<&str>).unwrap();
        let place = tempfile::tempdir().unwrap();
        let nothing = MsFlags::empty();
        mount(
            Some("none"),
            place.path(),
            Some("cgroup2"),
            nothing,
            None::<&str>,
        )
        .unwrap();
        // Found by the first mount of its kind, which may be another one: it is the same tree.
        let name = format!("evenkeel-test-{}-{:?}", std::process::id(), w.wan);
        let group = place.path().join(&name);
        std::fs::create_dir(&group).unwrap();
        let spec = |tier: &str| {
            let rule = format!("{tier} cgroup /{name}");
            let mut r = request("50mbit", "10mbit", "ptm:30");
            r.rules = vec!["voice udp port 9".parse().unwrap(), rule.parse().unwrap()];
            r
        };
        match w.shape(&spec("voice")) {
            Err(e) if e.to_string().contains("cannot tell control groups") => {
                let _ = writeln!(std::io::stderr(), "SKIP a_rule_moves_a_control_group: {e}");
                std::fs::remove_dir(&group).unwrap();
                return;
            }
            shaped => shaped.unwrap(),
        };
        // Large datagrams, fifty a second, from within the group.
        let script = format!(
            "echo $$ >{}/cgroup.procs; exec bash -c 'exec 9>/dev/udp/10.9.0.2/44444; \
             while head -c 1200 /dev/zero >&9; do sleep 0.02; done'",
            group.display()
        );
        let mut child = std::process::Command::new("sh")
            .args(["-c", &script])
            .spawn()
            .unwrap();
        for (turn, tier) in [Tier::Voice, Tier::Bulk, Tier::Video]
            .into_iter()
            .enumerate()
        {
            let word = ["voice", "bulk", "video"][turn];
            let shaped = w.shape(&spec(word)).unwrap();
            assert!(shaped.in_place, "{word}");
            let packets = |t: Tier| {
                let all = status(&w.dir, Some("wan")).unwrap();
                let of = all[0].up.tiers.iter().find(|c| c.tier == t);
                of.map_or(0, |c| c.packets)
            };
            let before = packets(tier);
            let moved = (0..500).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                packets(tier) >= before + 5
            });
            assert!(moved, "{:?} {:?}: nothing in {word}", w.backend, w.wan);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        w.clear();
        // The kernel takes a moment to empty it.
        let gone = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            std::fs::remove_dir(&group).is_ok()
        });
        assert!(gone, "{} is still there", group.display());
    });
}
