//! `line` over emulated lines in virtual time: sockets and kernel are real, and what is not exact is our fault.
//!
//! Principles: the test starts itself again in a guest whose clock stands still while anybody computes;
//! twelve lines by name. Non-goals: noise (`evenkeel-lab lab framing --noisy`).

mod common;
mod emulated;
#[path = "../../lab/tests/common/mod.rs"]
mod guests;

use std::time::Duration;

use emulated::{Kind, world};
use evenkeel_core::Direction;
use evenkeel_core::framing::Framing;
use evenkeel_core::pipe::Buffer;

/// Name, framing, kbit/s towards us and from us, and what is not usual.
fn cells() -> Vec<(&'static str, &'static str, u64, u64, Kind)> {
    let usual = Kind::default();
    let packets = |n| Kind {
        buffer: Buffer::Packets(n),
        ..Kind::default()
    };
    let mtu = |mtu| Kind {
        mtu,
        ..Kind::default()
    };
    let far = Kind {
        rtt: Duration::from_millis(60),
        ..Kind::default()
    };
    vec![
        ("adsl, PPPoE", "pppoe-llcsnap", 16_000, 1_000, mtu(1492)),
        ("adsl, PPPoA", "pppoa-vcmux", 8_000, 448, usual.clone()),
        ("adsl2, of seed 002", "atm:40", 21_181, 1_171, packets(60)),
        (
            "sdsl, bridged",
            "bridged-llcsnap",
            2_304,
            2_304,
            usual.clone(),
        ),
        ("isdn-slow", "none:8", 1_000, 300, packets(40)),
        (
            "vdsl, PPPoE, VLAN",
            "pppoe-ptm:ether-vlan",
            50_000,
            10_000,
            mtu(1492),
        ),
        (
            "vdsl, bridged",
            "bridged-ptm",
            100_000,
            40_000,
            usual.clone(),
        ),
        ("cable", "docsis", 250_000, 25_000, usual.clone()),
        ("cable, far away", "docsis", 50_000, 5_000, far),
        (
            "fibre, Ethernet",
            "ethernet",
            100_000,
            100_000,
            usual.clone(),
        ),
        (
            "fibre, VLAN",
            "ethernet:ether-vlan",
            200_000,
            50_000,
            packets(1000),
        ),
        ("tunnel, MTU 1280", "none:28", 20_000, 4_000, mtu(1280)),
    ]
}

#[test]
fn twelve_lines_are_known_exactly() {
    if !guests::in_virtual_time("twelve_lines_are_known_exactly") {
        return;
    }
    let mut wrong = Vec::new();
    for (name, framing, down, up, kind) in cells() {
        let truth: Framing = framing.parse().unwrap();
        println!("--- {name}: {truth}");
        let w = world(name, framing, down, up, &kind).unwrap();
        let _server = w.serve();
        let form = w.measure(Some("10.23.0.2"));
        for (d, kbit) in [(Direction::Up, up), (Direction::Down, down)] {
            let way = form.direction(d).unwrap();
            let rate = way.verdict.rate.map_or(0.0, |r| r.bps() as f64);
            let off = (rate / (1000.0 * kbit as f64) - 1.0).abs();
            if way.verdict.framing != Some(truth) || off > 0.005 || way.mtu != Some(kind.mtu) {
                wrong.push(format!("{name} {d}: {way:?}"));
            }
            // Once the framing is right, tiny, huge and mixed packets make the same slope, within 1 % of it.
            let grew: Vec<f64> = way.slopes.iter().map(|s| s.grew / s.expected).collect();
            if grew.len() != 3 || grew.iter().any(|g| (g - 1.0).abs() > 0.01) {
                wrong.push(format!("{name} {d}: {:?}", way.slopes));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Seed 002's experiment on its line, framing and rates found before: the overhead below which latency rises
/// is the line's, and the rate is.
#[test]
fn a_walk_finds_the_knee() {
    use std::sync::atomic::AtomicBool;

    use evenkeel_bench::line::walk::{Walk, text, walk};
    if !guests::in_virtual_time("a_walk_finds_the_knee") {
        return;
    }
    let kind = Kind {
        buffer: Buffer::Time(Duration::from_millis(200)),
        ..Kind::default()
    };
    let w = world("a_walk_finds_the_knee", "atm:40", 21_181, 1_171, &kind).unwrap();
    let _server = w.serve();
    let form = w.measure(Some("10.23.0.2"));
    let records = tempfile::tempdir().unwrap();
    let over = Walk {
        device: "wan",
        server: "10.23.0.2",
        token: "",
        rates: evenkeel_core::PerDirection {
            up: form.up.as_ref().unwrap().assumed_rate.unwrap(),
            down: form.down.as_ref().unwrap().assumed_rate.unwrap(),
        },
        framing: form.framing().0,
        state_dir: records.path(),
        overheads: vec![48, 44, 40, 36, 32],
        percents: vec![94, 96, 98, 99, 100, 102, 104],
    };
    let never = AtomicBool::new(false);
    let paths = w
        .near
        .run(|| walk(&over, &never, &mut |_| {}))
        .unwrap()
        .unwrap();
    println!("{}", text(&paths));
    assert_eq!(paths[0].knee, Some(40.0));
    let rate = paths[1].knee.unwrap();
    assert!((97.0..=102.0).contains(&rate), "{rate}");
    // It is as it was.
    assert_eq!(
        std::fs::read_dir(records.path()).map_or(0, Iterator::count),
        0
    );
}
