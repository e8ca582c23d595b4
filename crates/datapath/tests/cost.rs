//! What the programs cost: nanoseconds per packet beside an empty program in the same run.
//!
//! Principles: ratios and differences within one run, the least of several, because a machine is
//! never quiet; the flow is known, as those of nearly all packets are.

use evenkeel_core::plan::Line;
use evenkeel_core::police::Policer;
use evenkeel_datapath::layout::{Hand, Side};
use evenkeel_datapath::{NOTHING, Programs};

/// IPv4 and TCP with time stamps, as of a long download's acknowledgements.
fn ack(payload: usize) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let length = 52 + payload as u16;
    p.extend([0x45, 0]);
    p.extend(length.to_be_bytes());
    p.extend([0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 2, 198, 51, 100, 9]);
    p.extend([
        0x9c, 0x40, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0x10, 1, 0, 0, 0, 0, 0,
    ]);
    p.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
    p.resize(p.len() + payload, 0xaa);
    p
}

#[test]
fn the_programs_cost_little() {
    let mut programs = Programs::load(14).unwrap_or_else(|e| panic!("{e}"));
    programs.load_nothing().unwrap();
    let mut maps = programs.maps().unwrap();
    let context = [0u8; 192];
    let line = Line {
        down: "100mbit".parse().unwrap(),
        up: "40mbit".parse().unwrap(),
        framing: "ptm:30".parse().unwrap(),
    };
    let policer = Policer::new(&line, 1500, 0);
    for (what, hand, policer) in [
        ("CAKE", Hand::Cake, None),
        ("HTB, tiers", Hand::Tiers, None),
        ("HTB, buckets", Hand::Buckets, None),
        ("policed", Hand::Nothing, Some(&policer)),
    ] {
        let side = Side { hand, major: 0xec0 };
        maps.set_sides([side, side]).unwrap();
        maps.set_policer(policer).unwrap();
        for (name, payload) in [("ek_egress", 0), ("ek_ingress", 1448)] {
            let packet = ack(payload);
            let least = |program: &str| {
                (0..20)
                    .map(|_| {
                        programs
                            .test_run(program, &packet, &context, 20_000)
                            .unwrap()
                            .2
                    })
                    .min()
                    .unwrap()
            };
            let (nothing, ours) = (least(NOTHING), least(name));
            let cost = ours.saturating_sub(nothing);
            println!("| {what} | {name} | {ours} | {nothing} | {cost} |");
            // The aim is 120; a machine that is busy with other tests takes longer.
            assert!(cost <= 360, "{what} {name}: {cost} ns");
        }
    }
}
