//! What a shaped device gives to classes and hosts: ceilings and guarantees by what HTB's classes let through, hosts'
//! shares by what arrives.
//!
//! Principles: judged in virtual time, because a sender that the machine keeps from running sends less than its share.
//! Non-goals: what is planned, changed and taken back (the tests of `evenkeel-kernel`, whose world this is).

mod common;
#[allow(dead_code, reason = "this file uses a part")]
#[path = "../../kernel/tests/devices/world.rs"]
mod world;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_core::plan::{Backend, Feature, ceiling_minor};
use evenkeel_kernel::Session;

use world::{Wan, World, everywhere, ip, request};

/// Bytes that the class of a ceiling has let out, and when that was.
fn passed(limit: u8) -> (u64, Instant) {
    let mut session = Session::open().unwrap();
    let wan = session.link("wan").unwrap().unwrap();
    let classes = session.classes(wan.index).unwrap();
    let of = |c: &&evenkeel_wire::ClassInfo| c.classid.minor() == ceiling_minor(limit);
    (classes.iter().find(of).unwrap().stats.bytes, Instant::now())
}

/// Sends about 11 Mbit/s to a port until told to stop.
fn load(port: u16, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let stop = Arc::clone(stop);
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.connect(("10.9.0.2", port)).unwrap();
    socket.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..6 {
                let _ = socket.send(&[0; 1200]);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

fn runs_here(w: &World) -> bool {
    w.caps.has(Feature::Bpf) && w.backend != Backend::Cake && w.wan == Wan::Veth
}

#[test]
fn ceilings_are_exact_and_change_in_place() {
    if !common::in_virtual_time("ceilings_are_exact_and_change_in_place") {
        return;
    }
    let judged = AtomicUsize::new(0);
    everywhere("ceilings_are_exact_and_change_in_place", |w| {
        if !runs_here(w) {
            return;
        }
        judged.fetch_add(1, Ordering::Relaxed);
        let told = |rules: &[&str]| {
            let mut r = request("50mbit", "8mbit", "none:14");
            r.rules = rules.iter().map(|r| r.parse().unwrap()).collect();
            w.shape(&r).unwrap()
        };
        told(&[
            "any udp port 7001 max 2mbit",
            "bulk udp port 7002",
            "bulk max 10%",
        ]);
        let stop = Arc::new(AtomicBool::new(false));
        let loads = [7001, 7002, 7003].map(|port| load(port, &stop));
        let rate_of = |limit: u8, seconds: u64| {
            let (before, from) = passed(limit);
            std::thread::sleep(Duration::from_secs(seconds));
            let (after, to) = passed(limit);
            (after - before) as f64 * 8.0 / (to - from).as_secs_f64()
        };
        std::thread::sleep(Duration::from_secs(1));
        let both = std::thread::scope(|s| {
            let (one, two) = (s.spawn(|| rate_of(1, 10)), s.spawn(|| rate_of(2, 10)));
            [one.join().unwrap(), two.join().unwrap()]
        });
        // A tenth of what is shaped to: 99.5 % of 8 Mbit/s.
        for (rate, ceiling) in both.into_iter().zip([2e6, 796e3]) {
            println!("{:?}: {:.0} of {ceiling} bit/s", w.backend, rate);
            assert!(
                (rate / ceiling - 1.0).abs() <= 0.001,
                "{:?}: {rate} of {ceiling}",
                w.backend
            );
        }
        // One more, and another rate, while packets pass.
        let shaped = told(&[
            "any udp port 7001 max 1mbit",
            "bulk udp port 7002",
            "bulk max 10%",
            "any udp port 7003 min 4mbit",
        ]);
        assert!(shaped.in_place);
        std::thread::sleep(Duration::from_secs(1));
        let rate = rate_of(1, 4);
        assert!((rate / 1e6 - 1.0).abs() <= 0.002, "{rate}");
        let rate = rate_of(3, 2);
        assert!(rate > 3.98e6, "{rate}");
        stop.store(true, Ordering::Relaxed);
        for load in loads {
            load.join().unwrap();
        }
        w.clear();
    });
    assert_eq!(judged.into_inner(), 2, "HTB with fq_codel and with buckets");
}

/// A host with eight flows gets as much as a host with one, on the backend that knows hosts: both always have something to send, so that only the discipline decides.
#[test]
fn hosts_share_equally_whatever_their_flows() {
    if !common::in_virtual_time("hosts_share_equally_whatever_their_flows") {
        return;
    }
    let judged = AtomicUsize::new(0);
    everywhere("hosts_share_equally_whatever_their_flows", |w| {
        if w.backend != Backend::Cake || w.wan != Wan::Veth {
            return;
        }
        judged.fetch_add(1, Ordering::Relaxed);
        ip("addr add 10.9.0.3/24 dev wan");
        let far = w.far();
        let receiver = |port: u16| {
            let socket = far
                .ns
                .run(move || UdpSocket::bind(("10.9.0.2", port)).unwrap())
                .unwrap();
            socket
                .set_read_timeout(Some(Duration::from_millis(500)))
                .unwrap();
            socket
        };
        let receivers = [receiver(5001), receiver(5002)];
        w.shape(&request("50mbit", "4mbit", "ethernet")).unwrap();
        let sender = |host: &str, port: u16| {
            let socket = UdpSocket::bind((host, 0)).unwrap();
            socket.connect(("10.9.0.2", port)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let mut senders = vec![sender("10.9.0.1", 5001)];
        senders.extend((0..8).map(|_| sender("10.9.0.3", 5002)));
        let counters = receivers.map(|socket| {
            std::thread::spawn(move || {
                let mut buffer = [0; 2048];
                let mut total = 0u64;
                while let Ok(n) = socket.recv(&mut buffer) {
                    total += n as u64;
                }
                total
            })
        });
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(6) {
            // A full send buffer refuses more: each socket keeps its queue filled.
            for socket in &senders {
                while socket.send(&[0; 1200]).is_ok() {}
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        w.clear(); // what still waits is dropped, and the receivers see an end
        let [one, eight] = counters.map(|c| c.join().unwrap() as f64);
        assert!(one + eight > 1_000_000.0, "{one} and {eight} bytes arrived");
        assert!(
            (one / eight - 1.0).abs() <= 0.02,
            "one flow {one}, eight flows {eight} bytes"
        );
    });
    assert_eq!(judged.into_inner(), 2, "CAKE with our programs and without");
}
