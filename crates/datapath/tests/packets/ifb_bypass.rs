//! Which small packets go past our ingress queue.

use std::time::{Duration, Instant};

use evenkeel_datapath::values::{End, PriorityMode, Rule};

use crate::bench::{ACK, Bench, NEXT, TCP, THEM, UDP, US, down4, line, tcp, udp, v4};

/// `TC_ACT_OK`: on to the stack, past the filter that redirects to the IFB.
pub(crate) const ON: u32 = 0;

/// What became of a packet that arrived.
fn arrives(b: &Bench, packet: &[u8]) -> u32 {
    b.programs.test_run("ek_ingress", packet, &[], 1).unwrap().0
}

#[test]
fn small_packets_of_light_flows_pass() {
    let rules = [Rule {
        tier: 3,
        ports: Some((End::Any, 6881, 6889)),
        ..Rule::default()
    }];
    let mut b = Bench::with_rules(0, PriorityMode::CakeTin, &rules);
    let call = down4(&udp(5004, 5005, 172), UDP);
    assert_eq!(arrives(&b, &call), NEXT, "windows hold nobody");
    b.maps.set_line(Some(line(100_000))).unwrap();
    let echo = v4(THEM, US, 1, 0, 0, &[0, 0, 0, 0, 0, 1, 0, 1]);
    for (what, packet, becomes) in [
        ("a call", &call, ON),
        ("an echo reply", &echo, ON),
        (
            "an acknowledgement",
            &down4(&tcp(80, 3, ACK, &[], 0), TCP),
            NEXT,
        ),
        ("bulk", &down4(&udp(6881, 4, 100), UDP), NEXT),
    ] {
        assert_eq!(arrives(&b, packet), becomes, "{what}");
    }
    assert_eq!(b.maps.counts().unwrap().bypassed, 2);
}

#[test]
fn small_packets_stay_behind_long_ones() {
    let mut b = Bench::new(0, PriorityMode::CakeTin);
    b.maps.set_line(Some(line(100_000))).unwrap();
    let since = Instant::now();
    assert_eq!(arrives(&b, &down4(&udp(1, 2, 1200), UDP)), NEXT);
    let small = down4(&udp(1, 2, 100), UDP);
    while arrives(&b, &small) != ON {
        assert!(since.elapsed() < Duration::from_secs(5), "it never passes");
        // One that waits holds the next back for a millisecond and two packets' time.
        std::thread::sleep(Duration::from_millis(5));
    }
    // What it was behind has left our queue.
    assert!(since.elapsed() >= Duration::from_millis(50));
}

#[test]
fn no_more_than_their_part_of_the_line_passes() {
    let mut b = Bench::new(0, PriorityMode::BucketClass);
    b.maps.set_line(Some(line(1000))).unwrap();
    let packets: Vec<_> = (1..200)
        .map(|port| down4(&udp(port, 9, 100), UDP))
        .collect();
    let passed = packets.iter().filter(|p| arrives(&b, p) == ON).count();
    // 142 bytes each, of which 390 may come at once; and the first is let through whole.
    assert!((3..=6).contains(&passed), "{passed}");
}

#[test]
fn behind_a_policer_there_is_no_queue_to_pass() {
    let mut b = Bench::new(0, PriorityMode::None);
    b.maps.set_line(Some(line(100_000))).unwrap();
    assert_eq!(arrives(&b, &down4(&udp(5004, 5005, 172), UDP)), NEXT);
    assert_eq!(b.maps.counts().unwrap().bypassed, 0);
}
