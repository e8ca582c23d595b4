//! Marks on the way out, by what arrives.

use std::time::{Duration, Instant};

use evenkeel_core::plan::Feature;
use evenkeel_sys::tun::{Tun, TunKind};

use crate::world::{Wan, everywhere, ip, request};

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
