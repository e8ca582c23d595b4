//! Ceilings and guarantees, by what HTB's classes let through, and marks on the way out, by what arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_core::plan::{Backend, Feature, ceiling_minor};
use evenkeel_kernel::Session;
use evenkeel_sys::tun::{Tun, TunKind};

use crate::world::{Wan, World, everywhere, ip, request};

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
    let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
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
    everywhere("ceilings_are_exact_and_change_in_place", |w| {
        if !runs_here(w) {
            return;
        }
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
                (rate / ceiling - 1.0).abs() <= 0.01,
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
        assert!((rate / 1e6 - 1.0).abs() <= 0.02, "{rate}");
        let rate = rate_of(3, 2);
        assert!(rate > 3.9e6, "{rate}");
        stop.store(true, Ordering::Relaxed);
        for load in loads {
            load.join().unwrap();
        }
        w.clear();
    });
}

#[test]
fn marks_are_written_on_the_way_out() {
    everywhere("marks_are_written_on_the_way_out", |w| {
        if !w.caps.has(Feature::Bpf) || w.wan != Wan::Veth {
            return;
        }
        // What leaves is read at a second device.
        let tun = Tun::open("out", TunKind::Tun).unwrap();
        ip("link set out up");
        ip("addr add 10.8.0.1/24 dev out");
        let mut r = request("50mbit", "8mbit", "none:14");
        r.device = "out".into();
        r.rules = vec![
            "voice udp port 7001 set-dscp ef".parse().unwrap(),
            "bulk udp port 7002".parse().unwrap(),
            "bulk set-dscp cs1".parse().unwrap(),
        ];
        w.shape(&r).unwrap();
        for (port, ecn, dscp) in [(7001, 1, 46), (7002, 2, 8), (7003, 0, 0)] {
            let socket = std::net::UdpSocket::bind("10.8.0.1:0").unwrap();
            socket.connect(("10.8.0.2", port)).unwrap();
            nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Ipv4Tos, &ecn)
                .unwrap();
            socket.send(b"x").unwrap();
            let mut buffer = [0; 2000];
            let end = Instant::now() + Duration::from_secs(10);
            let packet = loop {
                assert!(Instant::now() < end, "{port}: nothing left");
                match tun.read(&mut buffer).unwrap() {
                    Some(n) if buffer[0] == 0x45 && buffer[9] == 17 => break &buffer[..n],
                    _ => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            assert_eq!((packet[1] >> 2, packet[1] & 3), (dscp, ecn as u8), "{port}");
            let words = packet[..20]
                .chunks(2)
                .map(|c| u32::from(u16::from_be_bytes([c[0], c[1]])));
            let sum: u32 = words.sum();
            assert_eq!(
                (sum & 0xffff) + (sum >> 16),
                0xffff,
                "{port}: header checksum"
            );
        }
        evenkeel_kernel::clear(&w.dir, "out").unwrap();
    });
}
