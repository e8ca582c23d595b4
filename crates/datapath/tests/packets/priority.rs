//! What is handed on to the queueing discipline, by tier and behaviour.

use evenkeel_core::classify::Tier;
use evenkeel_datapath::values::{End, PriorityMode, Reason, Rule};

use crate::bench::{ACK, Bench, TCP, THEM, UDP, US, key, stamps, tcp, udp, up4, v4};

#[test]
fn cake_gets_hints_only_where_it_needs_them() {
    let rules = [
        Rule {
            tier: 0,
            dscp: Some(46),
            cake_knows: true,
            ..Rule::default()
        },
        Rule {
            tier: 0,
            proto: Some(1),
            ..Rule::default()
        },
        Rule {
            tier: 3,
            ports: Some((End::Any, 6881, 6889)),
            ..Rule::default()
        },
    ];
    let b = Bench::with_rules(0, PriorityMode::CakeTin, &rules);
    let big = |to| tcp(1, to, ACK, &[], 1200);
    for (what, packet, tin) in [
        (
            "DSCP is CAKE's business",
            v4(US, THEM, TCP, 46, 0, &big(80)),
            0,
        ),
        ("ICMP", up4(&[8, 0, 0, 0, 0, 0, 0, 0], 1), 0xec0_0004),
        ("bulk", up4(&big(6881), TCP), 0xec0_0001),
        ("default", up4(&big(80), TCP), 0),
        ("small UDP", up4(&udp(1, 2, 60), UDP), 0),
        (
            "an empty acknowledgement",
            up4(&tcp(1, 6881, ACK, &[], 0), TCP),
            0,
        ),
    ] {
        assert_eq!(b.up(&packet).priority, tin, "{what}");
    }
}

#[test]
fn small_datagrams_and_acknowledgements_go_first_in_htb() {
    let b = Bench::new(0, PriorityMode::TierClass);
    let ack = tcp(1, 2, ACK, &stamps(1, 1), 0);
    assert_eq!(b.up(&up4(&ack, TCP)).priority, 0xec0_0010);
    assert_eq!(b.up(&up4(&udp(3, 4, 172), UDP)).priority, 0xec0_0010);
    let call = b.flow(key(UDP, 3, 4));
    assert_eq!(
        (call.tier, call.reason),
        (Tier::Voice, Reason::Small),
        "and is shown so"
    );
    assert_eq!(b.up(&up4(&udp(5, 6, 1200), UDP)).priority, 0xec0_0030);
    // Many small ones are no call.
    let mut last = 0;
    for _ in 0..1000 {
        last = b.up(&up4(&udp(3, 4, 172), UDP)).priority;
    }
    assert_eq!(last, 0xec0_0030);
    let flood = b.flow(key(UDP, 3, 4));
    assert_eq!(
        (flood.tier, flood.reason),
        (Tier::BestEffort, Reason::Default)
    );
}

#[test]
fn heavy_flows_have_buckets_of_their_own() {
    let b = Bench::new(0, PriorityMode::BucketClass);
    let mut seen = std::collections::BTreeSet::new();
    for port in 1000..1016 {
        let packet = up4(&tcp(port, 80, ACK, &[], 1400), TCP);
        let light = b.up(&packet).priority;
        assert!((0xec0_0310..0xec0_0314).contains(&light), "{light:x}");
        let mut heavy = 0;
        for _ in 0..60 {
            heavy = b.up(&packet).priority;
        }
        assert!((0xec0_0300..0xec0_0310).contains(&heavy), "{heavy:x}");
        assert_eq!(b.up(&packet).priority, heavy, "it stays there");
        seen.insert(heavy);
        let flow = b.flow(key(TCP, port, 80));
        assert!(flow.direction.up.heavy && !flow.direction.down.heavy);
    }
    assert_eq!(seen.len(), 16, "{seen:x?}");
    // The seventeenth shares one.
    let packet = up4(&tcp(2000, 80, ACK, &[], 1400), TCP);
    for _ in 0..60 {
        b.up(&packet);
    }
    let last = b.up(&packet).priority;
    assert!(seen.contains(&last));
}

#[test]
fn two_hundred_thousand_flows() {
    let b = Bench::new(0, PriorityMode::BucketClass);
    let mut packet = up4(&udp(1, 2, 60), UDP);
    for n in 0..200_000u32 {
        packet[16..20].copy_from_slice(&(0x0a00_0000 + n).to_be_bytes());
        b.up(&packet);
    }
    let counts = b.maps.counts().unwrap();
    assert_eq!((counts.new_flows, counts.full), (200_000, 0));
    let known = b.maps.flows().unwrap().len();
    assert!((10_000..=32_768).contains(&known), "{known}");
}
