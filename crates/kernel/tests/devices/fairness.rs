//! A host with eight flows gets as much as a host with one, on the backend that knows hosts.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use evenkeel_core::plan::Backend;

use crate::world::{Wan, everywhere, ip, request};

/// Both hosts always have something to send, so that only the discipline decides.
#[test]
fn hosts_share_equally_whatever_their_flows() {
    everywhere("hosts_share_equally_whatever_their_flows", |w| {
        if w.backend != Backend::Cake || w.wan != Wan::Veth {
            return;
        }
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
            (one / eight - 1.0).abs() <= 0.1,
            "one flow {one}, eight flows {eight} bytes"
        );
    });
}
