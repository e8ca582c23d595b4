//! When answers to probes arrive: which packets are answers, and to whom.

use std::time::Duration;

use evenkeel_core::ping::arrivals::{Arrivals as _, Sender};
use evenkeel_datapath::values::PriorityMode;

use crate::bench::{
    Bench, NEXT, SYN, TCP, THEM, UDP, US, down4, tcp, them6, udp, up4, us6, v4, v6,
};
use crate::ifb_bypass::ON;

const ICMP: u8 = 1;
const ICMP6: u8 = 58;
/// Port and identifier of the prober.
const OURS: u16 = 0x1234;

/// A datagram with the payload of probe `number`, as it was sent or as it came back.
fn probe(from: u16, to: u16, number: u32) -> Vec<u8> {
    let mut datagram = udp(from, to, 40);
    datagram[8..16].copy_from_slice(b"EKp1\0\0\0\x07");
    datagram[16..20].copy_from_slice(&number.to_be_bytes());
    datagram
}

fn echo(kind: u8, identifier: u16, sequence: u16) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    message.extend(identifier.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    message
}

/// An ICMP error about a packet.
fn error(kind: u8, packet: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0], packet].concat()
}

fn down6(body: &[u8], proto: u8) -> Vec<u8> {
    v6(them6(), us6(), proto, 0, body)
}

/// Answers of all kinds: what they are, to whom, and to which number.
fn answers() -> Vec<(&'static str, Vec<u8>, Sender, Option<u32>)> {
    let (udp_sender, icmp_sender) = (Sender::Udp(OURS), Sender::Icmp(OURS));
    let sent_echo = up4(&echo(8, OURS, 4), ICMP);
    let sent_echo6 = v6(us6(), them6(), ICMP6, 0, &echo(128, OURS, 5));
    let sent = up4(&probe(OURS, 7, 70_000), UDP);
    let sent6 = v6(us6(), them6(), UDP, 0, &probe(OURS, 7, 8));
    let with_options = {
        let mut p = sent.clone();
        p[0] = 0x46;
        p.splice(20..20, [1, 1, 1, 1]);
        p
    };
    vec![
        ("UDP", down4(&probe(7, OURS, 1), UDP), udp_sender, Some(1)),
        ("UDP, short", down4(&udp(7, OURS, 5), UDP), udp_sender, None),
        (
            "UDP of IPv6",
            down6(&probe(7, OURS, 1), UDP),
            udp_sender,
            Some(1),
        ),
        ("echo", down4(&echo(0, OURS, 2), ICMP), icmp_sender, Some(2)),
        (
            "time stamp",
            down4(&echo(14, OURS, 3), ICMP),
            icmp_sender,
            Some(3),
        ),
        (
            "echo of IPv6",
            down6(&echo(129, OURS, 3), ICMP6),
            icmp_sender,
            Some(3),
        ),
        (
            "error, echo",
            down4(&error(11, &sent_echo), ICMP),
            icmp_sender,
            Some(4),
        ),
        (
            "error, echo of IPv6",
            down6(&error(3, &sent_echo6), ICMP6),
            icmp_sender,
            Some(5),
        ),
        (
            "error, UDP",
            down4(&error(3, &sent), ICMP),
            udp_sender,
            Some(70_000),
        ),
        (
            "error, options",
            down4(&error(3, &with_options), ICMP),
            udp_sender,
            Some(70_000),
        ),
        (
            "error, UDP of IPv6",
            down6(&error(1, &sent6), ICMP6),
            udp_sender,
            Some(8),
        ),
        // Eight bytes quoted.
        (
            "error, little",
            down4(&error(11, &sent[..28]), ICMP),
            udp_sender,
            None,
        ),
        (
            "error, little of IPv6",
            down6(&error(3, &sent6[..48]), ICMP6),
            udp_sender,
            None,
        ),
    ]
}

#[test]
fn answers_of_all_kinds_are_stamped() {
    for (what, packet, sender, number) in answers() {
        let mut bench = Bench::new(0, PriorityMode::None);
        bench.down(&packet);
        assert_eq!(
            bench.maps.arrived(sender, number),
            None,
            "{what}: nobody asked"
        );
        bench.maps.watch(sender);
        bench.down(&packet);
        let first = bench.maps.arrived(sender, number);
        assert!(first.is_some(), "{what}");
        // A second answer does not count; of those without a number the latest does.
        bench.down(&packet);
        let second = bench.maps.arrived(sender, number);
        assert_eq!(second == first, number.is_some(), "{what}");
        assert!(second >= first && second < first.map(|t| t + Duration::from_secs(60)));
    }
}

#[test]
fn what_is_no_answer_is_not_stamped() {
    let mut bench = Bench::new(0, PriorityMode::None);
    let (udp_sender, icmp_sender) = (Sender::Udp(OURS), Sender::Icmp(OURS));
    bench.maps.watch(udp_sender);
    bench.maps.watch(icmp_sender);
    let mut other = probe(7, OURS, 1);
    other[8] = b'e';
    let sent = up4(&probe(OURS, 7, 1), UDP);
    let tcp = up4(&tcp(OURS, 80, SYN, &[], 0), TCP);
    for packet in [
        down4(&other, UDP),
        down4(&probe(7, OURS + 1, 1), UDP),
        down4(&echo(0, OURS + 1, 1), ICMP),
        down4(&echo(0, OURS, 1)[..7], ICMP),
        // A later fragment has no header.
        v4(THEM, US, ICMP, 0, 100, &echo(0, OURS, 1)),
        down4(&error(3, &tcp), ICMP),
        down4(&error(3, &sent[..27]), ICMP),
        down4(&error(3, &sent[..12]), ICMP),
    ] {
        bench.down(&packet);
        for number in [Some(0), Some(1), None] {
            for sender in [udp_sender, icmp_sender] {
                assert_eq!(bench.maps.arrived(sender, number), None, "{packet:?}");
            }
        }
    }
}

/// What becomes of a packet that arrives for who watches [`OURS`], the last of so many times in a row.
fn becomes(at_once: bool, packet: &[u8], times: u32) -> u32 {
    let mut bench = Bench::new(0, PriorityMode::CakeTin);
    if at_once {
        bench.maps = bench.maps.with_answers_at_once();
    }
    bench.maps.watch(Sender::Icmp(OURS));
    // No window holds anybody, so that nothing else goes past the queue.
    let ran = bench.programs.test_run("ek_ingress", packet, &[], times);
    ran.unwrap().0
}

#[test]
fn answers_to_who_sets_the_shaper_do_not_wait_at_it() {
    let answer = down4(&echo(0, OURS, 1), ICMP);
    assert_eq!(becomes(true, &answer, 1), ON);
    assert_eq!(becomes(false, &answer, 1), NEXT);
    let nobodys = down4(&echo(0, OURS + 1, 1), ICMP);
    assert_eq!(becomes(true, &nobodys, 1), NEXT);
}

#[test]
fn little_gets_past_the_shaper_as_an_answer() {
    let large = down4(&[echo(0, OURS, 1), vec![0; 300]].concat(), ICMP);
    assert_eq!(becomes(true, &large, 1), NEXT);
    let again = down4(&echo(0, OURS, 1), ICMP);
    assert_eq!(becomes(true, &again, 100), NEXT);
}
