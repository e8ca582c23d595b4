//! A server under abuse: it serves the rest, and amplifies nothing.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use common::{never, options, sh, world};
use evenkeel_bench::client::{self, Test};
use evenkeel_bench::proto::{self, Request};
use evenkeel_bench::serve::Limits;
use evenkeel_measure::packet::Probe;
use evenkeel_report::bench::figures::figures;

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 4096
}

#[test]
fn a_thousand_connections_and_worse() {
    let Some(w) = world("a_thousand_connections_and_worse", 1000, 1000) else {
        return;
    };
    let _server = w.serve("", Limits::default(), false);
    w.near
        .run(|| sh("ip addr add 10.23.0.9/24 dev v0"))
        .unwrap();
    let before = resident();
    // From the address that will measure later: nothing. From another one: a thousand.
    let held = w
        .near
        .run(|| {
            let mut held = Vec::new();
            for i in 0..1000 {
                let socket = nix::sys::socket::socket(
                    nix::sys::socket::AddressFamily::Inet,
                    nix::sys::socket::SockType::Stream,
                    nix::sys::socket::SockFlag::SOCK_CLOEXEC,
                    None,
                )
                .unwrap();
                let from: nix::sys::socket::SockaddrIn = "10.23.0.9:0"
                    .parse::<std::net::SocketAddrV4>()
                    .unwrap()
                    .into();
                let to: nix::sys::socket::SockaddrIn = "10.23.0.2:7000"
                    .parse::<std::net::SocketAddrV4>()
                    .unwrap()
                    .into();
                nix::sys::socket::bind(socket.as_raw_fd(), &from).unwrap();
                if nix::sys::socket::connect(socket.as_raw_fd(), &to).is_err() {
                    continue;
                }
                let mut stream = TcpStream::from(socket);
                stream
                    .set_write_timeout(Some(Duration::from_millis(200)))
                    .unwrap();
                // Silent; garbage; a frame that is too long; a request for everything, never read.
                let _ = match i % 4 {
                    0 => Ok(0),
                    1 => stream.write(&[0xff; 300]),
                    2 => stream.write(b"EKb1c\xff\xff\xff\xff{"),
                    _ => stream.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"),
                };
                held.push(stream);
            }
            held
        })
        .unwrap();
    assert!(held.len() > 100);
    // Meanwhile somebody else measures.
    let mut o = options("10.23.0.2:7000", Test::Both);
    (o.streams, o.seconds) = (Some(2), 2);
    let b = w
        .near
        .run(|| client::run(&o, &never(), &mut |_| {}))
        .unwrap()
        .unwrap();
    let f = figures(&b);
    assert!(
        f.down_mbit.unwrap() > 10.0 && f.up_mbit.unwrap() > 10.0,
        "{:?} {:?}",
        f.down_mbit,
        f.up_mbit
    );
    assert!(f.loss < 0.05, "{}", f.loss);
    drop(held);
    let grown = resident().saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes more");
}

#[test]
fn connections_are_limited_by_address() {
    let Some(w) = world("connections_are_limited_by_address", 100, 100) else {
        return;
    };
    let limits = Limits {
        per_client: 3,
        ..Limits::default()
    };
    let _server = w.serve("", limits, false);
    let open = || {
        let mut s = TcpStream::connect("10.23.0.2:7000").unwrap();
        s.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let hello = Request::Hello {
            version: proto::VERSION,
            token: String::new(),
        };
        let mut first = b"EKb1c".to_vec();
        first.extend(proto::emit(&hello));
        let mut b = [0; 4];
        let answered = s
            .write_all(&first)
            .and_then(|()| s.read_exact(&mut b))
            .is_ok();
        (s, answered)
    };
    w.near
        .run(|| {
            let held: Vec<_> = (0..5).map(|_| open()).collect();
            let answered: Vec<bool> = held.iter().map(|h| h.1).collect();
            assert_eq!(answered, [true, true, true, false, false]);
        })
        .unwrap();
}

/// Nobody gets more bytes than he sent, and what is no probe gets none.
#[test]
fn udp_amplifies_nothing() {
    let Some(w) = world("udp_amplifies_nothing", 100, 100) else {
        return;
    };
    let _server = w.serve("", Limits::default(), false);
    w.near
        .run(|| {
            let s = UdpSocket::bind("10.23.0.1:0").unwrap();
            s.connect("10.23.0.2:7000").unwrap();
            s.set_read_timeout(Some(Duration::from_millis(300)))
                .unwrap();
            let probe = Probe {
                session: 1,
                seq: 2,
                server_rx: Duration::ZERO,
                server_tx: Duration::ZERO,
            }
            .emit();
            let mut long = probe.to_vec();
            long.resize(1400, 7);
            let mut oversized = probe.to_vec();
            oversized.resize(9000, 7);
            let mut b = vec![0; 65_536];
            for (question, answered) in [
                (&probe[..], true),
                (&probe[..12], true),
                (&long, true),
                (&oversized, false),
                (&b"EKp1"[..], false),
                (&b"anything"[..], false),
                (&[][..], false),
            ] {
                s.send(question).unwrap();
                let answer = s.recv(&mut b);
                assert_eq!(answer.is_ok(), answered, "{} bytes", question.len());
                assert!(answer.unwrap_or(0) <= question.len());
            }
        })
        .unwrap();
}
