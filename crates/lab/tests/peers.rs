//! Every peer on a real kernel: it can be set up on TUN and Ethernet devices, counts, and goes
//! without a trace. On a kernel that lacks what it is made of, it says what.
//!
//! Runs here and, started by the last test, in User Mode Linux, which has everything.

mod common;

use evenkeel_core::result::LineFacts;
use evenkeel_kernel::Session;
use evenkeel_lab::peers::{Lacks, Peer};
use evenkeel_lab::{Shaper, ShaperError, Site};
use evenkeel_sys::Netns;
use evenkeel_sys::tun::{Tun, TunKind};

/// Devices and disciplines of this namespace.
fn seen() -> Vec<String> {
    let mut session = Session::open().unwrap();
    let links = session.links().unwrap();
    let mut all: Vec<String> = links.iter().map(|l| l.name.clone()).collect();
    for link in &links {
        for q in session.qdiscs(link.index).unwrap() {
            all.push(format!(
                "{} {} {} {}",
                link.name, q.kind, q.parent, q.handle
            ));
        }
    }
    all
}

fn site(line: (&str, &str, &str)) -> Site {
    Site {
        wan: "wan".into(),
        lan: Vec::new(),
        far: Vec::new(),
        line: LineFacts {
            down: line.0.parse().unwrap(),
            up: line.1.parse().unwrap(),
            framing: line.2.parse().unwrap(),
            rtt_ms: 20.0,
            down_buffer_ms: 100.0,
            up_buffer_ms: 100.0,
            varies: false,
            best: None,
        },
        rates: evenkeel_lab::emulator::Rates::default(),
    }
}

const LINES: [(&str, &str, &str); 3] = [
    ("21181kbit", "1171kbit", "atm:40"),
    ("384kbit", "128kbit", "none:18:mpu64"),
    ("1000mbit", "500mbit", "pppoe-ptm"),
];

/// What is there while the peer is; an error if it is refused.
fn once(peer: &mut Peer, line: (&str, &str, &str)) -> Result<Vec<String>, ShaperError> {
    let before = seen();
    let applied = peer.apply(&site(line));
    let during = seen();
    if applied.is_ok() {
        assert_eq!(peer.dropped()?.packets, 0, "{}", peer.name());
    }
    peer.clear()?;
    // The kernel's own default may be there again under another kind; ours may not.
    let ours = |s: &String| s.contains("ifb") || s.ends_with(" 1:") || s.ends_with(" ffff:");
    let left: Vec<_> = seen().into_iter().filter(ours).collect();
    assert!(left.is_empty(), "{}: {left:?}", peer.name());
    assert_eq!(seen().len(), before.len(), "{}", peer.name());
    applied.map(|()| during)
}

#[test]
fn every_peer_comes_and_goes() {
    if !common::root("every_peer_comes_and_goes") {
        return;
    }
    for kind in [TunKind::Tun, TunKind::Tap] {
        let ns = Netns::new("gateway").unwrap();
        ns.run(|| {
            let _tun = Tun::open("wan", kind).unwrap();
            evenkeel_sys::ifreq::set_up("wan").unwrap();
            for mut peer in Peer::all() {
                for line in LINES {
                    match once(&mut peer, line) {
                        Ok(during) => {
                            let made = during.iter().any(|s| s.ends_with(" 1:"));
                            assert!(made, "{}: {during:?}", peer.name());
                        }
                        Err(e) if e.is::<Lacks>() && !common::is_guest() => {
                            assert!(e.to_string().contains("CONFIG_"), "{e}");
                        }
                        Err(e) => panic!("{} on {line:?}: {e}", peer.name()),
                    }
                }
            }
        })
        .unwrap();
    }
}

#[test]
fn in_user_mode_linux() {
    if common::is_guest() || !common::root("in_user_mode_linux") {
        return;
    }
    common::in_guest("every_peer_comes_and_goes", &[]);
}
