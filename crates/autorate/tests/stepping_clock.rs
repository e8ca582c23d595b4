//! A hop whose clock is stepped: its time stamps are not used, and that is said.
//!
//! The hop is a TUN device and a thread in a namespace. Needs root; without it the test says so and
//! passes.

mod common;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use evenkeel_sys::tun::{Tun, TunKind};
use evenkeel_sys::{Netns, clock};
use evenkeel_wire::packet::{Ip, IpHeader, TimestampMessage};

use common::{Running, command, root};

const WAN: &str = "wan";
const HOP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// To the hop and back.
const TRIP: Duration = Duration::from_millis(10);
/// Milliseconds of a day.
const DAY: u128 = 86_400_000;

/// The answer to a time stamp request, by a clock that is so many ms ahead.
fn answer(packet: &[u8], ahead: u32) -> Option<Vec<u8>> {
    let ip = Ip::parse(packet).ok()?;
    let header = ip.header();
    if header.destination != IpAddr::V4(HOP) {
        return None;
    }
    let asked = TimestampMessage::parse(ip.payload()).ok()?;
    let now = (clock::realtime().as_millis() % DAY) as u32 + ahead;
    let reply = TimestampMessage {
        reply: true,
        times: [asked.times[0], now, now],
        ..asked
    };
    let back = IpHeader {
        source: header.destination,
        destination: header.source,
        ..header
    };
    back.build(&reply.build())
}

/// Answers until `stop`.
fn hop(tun: &Tun, ahead: &AtomicU32, stop: &AtomicBool) {
    let mut buffer = [0; 2048];
    let mut late: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        while let Some(n) = tun.read(&mut buffer).unwrap() {
            let answer = answer(&buffer[..n], ahead.load(Ordering::Relaxed));
            late.extend(answer.map(|a| (Instant::now() + TRIP, a)));
        }
        while late.front().is_some_and(|l| l.0 <= Instant::now()) {
            if let Some((_, answer)) = late.pop_front() {
                tun.write(&answer).unwrap();
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_clock_that_is_stepped_is_not_believed() {
    if !root("a_clock_that_is_stepped_is_not_believed") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let gateway = Netns::new("gateway").unwrap();
    let open = || {
        let tun = Tun::open(WAN, TunKind::Tun).unwrap();
        command("ip addr add 192.0.2.1/24 dev wan");
        command("ip link set wan up");
        command("ip route add default via 192.0.2.2");
        tun
    };
    let tun = gateway.run(open).unwrap();
    let (ahead, stop) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (clock, over) = (Arc::clone(&ahead), Arc::new(AtomicBool::new(false)));
    let end = Arc::clone(&over);
    let answers = std::thread::spawn(move || hop(&tun, &clock, &end));
    let running = Running::start(&gateway, WAN, dir.path(), &stop);
    running.until("a reflector", |l| {
        l.starts_with("probing 192.0.2.2, which stamps")
    });
    // It was asked often by then, and found true.
    running.until("others", |l| l == "kept in reserve: nothing");
    ahead.store(500, Ordering::Relaxed);
    let says = "the time stamps of 192.0.2.2 contradict its round trips";
    running.until("a contradiction", |l| l.starts_with(says));
    stop.store(true, Ordering::Relaxed);
    running.ends_well();
    over.store(true, Ordering::Relaxed);
    answers.join().unwrap();
}
