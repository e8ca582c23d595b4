//! The policer in this kernel, on literal packets (`BPF_PROG_TEST_RUN`): what is marked, what is
//! dropped and in which order, and how bytes of the line are counted.
//!
//! Principles: a line so slow that the time between two test packets is nothing to it, so that
//! levels follow from packets alone; what is expected is read from the packet that comes out and
//! from the counters. They need root and a kernel with eBPF.

use std::time::Duration;

use evenkeel_core::police::Policer;
use evenkeel_core::{Framing, Rate};
use evenkeel_datapath::values::Policed;
use evenkeel_datapath::{Maps, Programs};

/// `TC_ACT_UNSPEC`: the next filter decides.
const NEXT: u32 = u32::MAX;
/// `TC_ACT_SHOT`.
const DROP: u32 = 2;

struct Bench {
    programs: Programs,
    maps: Maps,
}

/// Takes hours for a packet, so that nothing drains during a test.
fn slow(framing: &str, burst_bytes: u64) -> Policer {
    let rate = Rate::from_bps(8);
    Policer {
        rate,
        framing: framing.parse().unwrap(),
        burst: rate.time_for(burst_bytes).unwrap(),
        // Whatever waits is too long.
        target: Duration::from_nanos(1),
        heavy: 0,
        mark: 0,
    }
}

impl Bench {
    fn new(policer: &Policer) -> Self {
        let mut programs = Programs::load(14).unwrap_or_else(|e| panic!("{e}"));
        let mut maps = programs.maps().unwrap();
        maps.set_policer(Some(policer)).unwrap();
        Bench { programs, maps }
    }

    /// What the program returned, the packet after it, and its fwmark.
    fn down(&self, packet: &[u8], segments: u32) -> (u32, Vec<u8>, u32) {
        // struct __sk_buff: mark at 8, gso_segs at 164, gso_size at 176.
        let mut context = [0u8; 192];
        if segments > 1 {
            context[164..168].copy_from_slice(&segments.to_ne_bytes());
            context[176..180].copy_from_slice(&1000u32.to_ne_bytes());
        }
        let ran = self
            .programs
            .test_run_out("ek_ingress", packet, &context)
            .unwrap();
        let mark = u32::from_ne_bytes(ran.context[8..12].try_into().unwrap());
        (ran.returned, ran.packet, mark)
    }

    fn returned(&self, packet: &[u8]) -> u32 {
        self.down(packet, 1).0
    }

    fn policed(&self) -> Policed {
        self.maps.policed().unwrap()
    }
}

fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum = words.sum::<u32>();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Ethernet, IPv4 with this TOS byte and a right checksum, and a body.
fn v4(tos: u8, proto: u8, body: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, tos];
    ip.extend((20 + body.len() as u16).to_be_bytes());
    ip.extend([0x12, 0x34, 0x40, 0, 57, proto, 0, 0]);
    ip.extend([198, 51, 100, 9, 192, 0, 2, 2]);
    let sum = checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    p.extend(ip);
    p.extend(body);
    p
}

fn v6(class: u8, proto: u8, body: &[u8]) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
    p.extend([0x60 | class >> 4, class << 4 | 0x0a, 0xbc, 0xde]);
    p.extend((body.len() as u16).to_be_bytes());
    p.extend([proto, 57]);
    p.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    p.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    p.extend(body);
    p
}

fn udp(payload: usize) -> Vec<u8> {
    let mut p = vec![0x1f, 0x90, 0x9c, 0x40];
    p.extend((8 + payload as u16).to_be_bytes());
    p.extend([0, 0]);
    p.resize(8 + payload, 0xaa);
    p
}

fn tcp(flags: u8, payload: usize) -> Vec<u8> {
    let mut p = vec![0x01, 0xbb, 0x9c, 0x41, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags];
    p.extend([1, 0, 0, 0, 0, 0]);
    p.resize(20 + payload, 0xaa);
    p
}

/// One packet begins the queues, so that the next one finds them standing.
fn fill_to_98(b: &Bench) {
    assert_eq!(b.returned(&v4(0, 17, &udp(100))), NEXT);
}

#[test]
fn off_it_does_nothing() {
    let mut b = Bench::new(&slow("none", 1));
    b.maps.set_policer(None).unwrap();
    let packet = v4(2, 17, &udp(1400));
    for _ in 0..50 {
        let (returned, after, mark) = b.down(&packet, 1);
        assert_eq!((returned, mark), (NEXT, 0));
        assert_eq!(after, packet);
    }
    assert_eq!(b.policed(), Policed::default());
}

#[test]
fn what_is_ecn_capable_is_marked() {
    for ecn in [1, 2] {
        for body in [udp(1400), udp(50)] {
            let b = Bench::new(&Policer {
                target: Duration::from_hours(10),
                ..slow("none", 1_000_000)
            });
            fill_to_98(&b);
            // Nothing waits longer than the target: above 98 % alone is no offence.
            let packet = v4(0xb8 | ecn, 17, &body);
            assert_eq!(b.down(&packet, 1).1, packet);
        }
        for (v6_too, packet) in [
            (false, v4(0xb8 | ecn, 17, &udp(1400))),
            (true, v6(0xb8 | ecn, 17, &udp(1400))),
        ] {
            // The queue is over its target, but not eight times: 128 bytes passed.
            let b = Bench::new(&Policer {
                target: Rate::from_bps(8).time_for(100).unwrap(),
                ..slow("none", 1_000_000)
            });
            fill_to_98(&b);
            let (returned, after, _) = b.down(&packet, 1);
            assert_eq!(returned, NEXT);
            let mut expected = packet.clone();
            if v6_too {
                expected[15] |= 0x30;
            } else {
                expected[15] |= 3;
                expected[24..26].fill(0);
                let sum = checksum(&expected[14..34]).to_be_bytes();
                expected[24..26].copy_from_slice(&sum);
            }
            assert_eq!(after, expected, "IPv6 {v6_too}");
            let policed = b.policed();
            assert_eq!((policed.marked, policed.dropped()), (1, 0));
            // Told once, it is left alone until that can have worked.
            let (returned, after, _) = b.down(&packet, 1);
            assert_eq!((returned, after), (NEXT, packet));
        }
    }
}

#[test]
fn what_is_not_ecn_capable_is_dropped_if_it_is_long_and_gets_the_mark() {
    let policer = Policer {
        target: Rate::from_bps(8).time_for(100).unwrap(),
        mark: 20,
        ..slow("none", 1_000_000)
    };
    for (packet, dropped) in [
        (v4(0, 17, &udp(1400)), true),
        (v6(0, 17, &udp(1400)), true),
        (v4(0, 6, &tcp(0x10, 1400)), true),
        (v4(0, 17, &udp(996)), true), // 1024 bytes
        (v4(0, 17, &udp(995)), false),
        (v4(0, 6, &tcp(0x10, 0)), false),
        (v6(0, 6, &tcp(0x10, 0)), false),
    ] {
        let b = Bench::new(&policer);
        fill_to_98(&b);
        let (returned, after, mark) = b.down(&packet, 1);
        assert_eq!(after, packet);
        let policed = b.policed();
        if dropped {
            assert_eq!((returned, policed.large, policed.flagged), (DROP, 1, 0));
            // One at a time: the next of the same flow passes.
            let (returned, _, mark) = b.down(&packet, 1);
            assert_eq!((returned, mark), (NEXT, 20));
        } else {
            assert_eq!((returned, mark), (NEXT, 20));
            assert_eq!((policed.dropped(), policed.flagged), (0, 1));
        }
    }
}

/// A flow that was told is left alone while another one's turn comes, also one without stamps.
#[test]
fn flows_are_told_in_turns() {
    let b = Bench::new(&Policer {
        target: Rate::from_bps(8).time_for(100).unwrap(),
        ..slow("none", 100_000_000)
    });
    fill_to_98(&b);
    let mut flows = [v4(0, 17, &udp(1400)), v4(0, 17, &udp(1400))];
    flows[1][34] ^= 0x55; // another port
    let told = |n: usize| b.returned(&flows[n]) == DROP;
    let since = std::time::Instant::now();
    assert!(told(0));
    // Unknown round trips count as 100 ms: this one is left alone for three of them.
    while !told(1) {
        assert!(
            since.elapsed() < Duration::from_secs(5),
            "its turn never came"
        );
        let again = told(0);
        assert!(!again || since.elapsed() >= Duration::from_millis(300));
    }
}

/// Above 100 %: long packets go first, then whatever is no empty acknowledgement, those last.
#[test]
fn acknowledgements_go_last() {
    let long = v4(0, 17, &udp(1400));
    let short = v4(0, 17, &udp(172)); // 200 bytes
    let ack = v4(0, 6, &tcp(0x10, 0));
    let syn = v4(0, 6, &tcp(0x02, 0));
    let b = Bench::new(&Policer {
        // Only the levels above 100 % decide.
        target: Duration::from_hours(10_000),
        ..slow("none", 10_000)
    });
    let mut passed = 0;
    let mut levels = Vec::new();
    // What passes fills the queue by 200 bytes.
    while b.returned(&ack) == NEXT {
        passed += 40;
        let before = b.policed();
        let fate = [&long, &short, &syn].map(|p| b.returned(p) == NEXT);
        let after = b.policed();
        assert_eq!(after.acks, 0, "an acknowledgement before others");
        assert_eq!(
            after.dropped() - before.dropped(),
            fate.iter().filter(|p| !**p).count() as u64
        );
        passed += [1428, 200, 40]
            .iter()
            .zip(fate)
            .map(|(n, passed)| if passed { *n } else { 0 })
            .sum::<u32>();
        if levels.last().is_none_or(|l: &(u32, [bool; 3])| l.1 != fate) {
            levels.push((passed, fate));
        }
        assert!(passed < 100_000, "it never ends");
    }
    let fates: Vec<_> = levels.iter().map(|l| l.1).collect();
    assert_eq!(fates[..2], [[true; 3], [false, true, true]], "{levels:?}");
    // The burst may be full between a short one and the next.
    let (last, between) = fates[2..].split_last().unwrap();
    assert_eq!(*last, [false; 3], "{levels:?}");
    assert!(between.iter().all(|f| *f == [false, true, false]));
    // Half a burst, a burst, and two of them.
    assert!((5000..8000).contains(&levels[1].0), "{levels:?}");
    assert!((10_000..10_400).contains(&levels[2].0), "{levels:?}");
    assert!((20_000..20_100).contains(&passed), "{passed}");
    assert_eq!(b.policed().acks, 1);
}

/// Whatever else has come: where an acknowledgement of an upload is dropped, a long packet would be
/// as well.
#[test]
fn no_acknowledgement_is_dropped_where_a_long_packet_passes() {
    let long: Vec<_> = [0, 1]
        .into_iter()
        .flat_map(|ecn| [v4(ecn, 17, &udp(1400)), v4(ecn, 6, &tcp(0x10, 1400))])
        .collect();
    let short = v4(0, 17, &udp(172));
    let ack = v4(0, 6, &tcp(0x10, 0));
    for seed in 1..=5u64 {
        let b = Bench::new(&slow("atm:40", 3000 * seed));
        let mut random = seed;
        let mut dropped = 0;
        for step in 0..1000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            match random >> 61 {
                0..=2 => {
                    b.returned(&long[step % long.len()]);
                }
                3 => {
                    b.returned(&short);
                }
                _ if b.returned(&ack) == NEXT => {}
                _ => {
                    dropped += 1;
                    for packet in &long {
                        assert_ne!(b.returned(packet), NEXT, "seed {seed}, step {step}");
                    }
                }
            }
        }
        // Nothing but acknowledgements has passed for long then.
        assert_eq!(b.policed().acks, dropped, "seed {seed}");
        assert!(dropped > 0, "seed {seed}");
    }
}

/// The counted bytes are those of `Framing::wire_len`, for each segment of a super-packet.
#[test]
fn bytes_are_those_of_the_line() {
    for framing in [
        "none",
        "none:18:mpu64",
        "none:-4",
        "atm:40",
        "atm:10",
        "ptm:30",
    ] {
        let f: Framing = framing.parse().unwrap();
        for payload in [12, 15, 16, 17, 500, 1000, 1400] {
            let b = Bench::new(&slow(framing, 1));
            let packet = v4(0, 6, &tcp(0x10, payload));
            // The first passes and is over two bursts; the second is dropped and counted.
            while b.returned(&packet) == NEXT {}
            let expected = f.wire_len(40 + payload as u32);
            assert_eq!(
                b.policed().bytes,
                u64::from(expected),
                "{framing} {payload}"
            );
        }
        // Three segments of 1000, 1000 and 500 bytes.
        let b = Bench::new(&slow(framing, 1));
        let packet = v4(0, 6, &tcp(0x10, 2500));
        while b.down(&packet, 3).0 == NEXT {}
        let expected = 2 * f.wire_len(1040) + f.wire_len(540);
        let policed = b.policed();
        assert_eq!(policed.bytes, u64::from(expected), "{framing}");
        assert_eq!(policed.large + policed.small, 3);
    }
}
