//! What evenkeel's programs say of round trips, against the line's own arithmetic: on one
//! connection, on sixteen and on a thousand.
//!
//! Each connection sends a byte and gets one back, so that every time stamp is echoed at once.
//! Judged in virtual time.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_kernel::{Request, StateDir, clear, maps, shape};
use evenkeel_lab::addresses::server_address;
use evenkeel_lab::emulator::Emulator;
use evenkeel_lab::topology::{Topology, WAN};
use evenkeel_sys::poll::{Interest, Poller, Waker};
use evenkeel_sys::sched;

const PORT: u16 = 50_001;
const STOP: u64 = u64::MAX;
const LISTEN: u64 = u64::MAX - 1;

/// Sends every byte back, until woken.
fn echo(listener: &TcpListener, stop: &Waker) {
    let _ = sched::realtime_thread(20);
    listener.set_nonblocking(true).unwrap();
    let poller = Poller::new().unwrap();
    poller.add(listener, LISTEN, Interest::Read).unwrap();
    poller.add(stop, STOP, Interest::Read).unwrap();
    let mut all: Vec<TcpStream> = Vec::new();
    let mut ready = Vec::new();
    loop {
        poller.wait(&mut ready).unwrap();
        for r in &ready {
            match r.token {
                STOP => return,
                LISTEN => {
                    while let Ok((stream, _)) = listener.accept() {
                        stream.set_nonblocking(true).unwrap();
                        stream.set_nodelay(true).unwrap();
                        poller
                            .add(&stream, all.len() as u64, Interest::Read)
                            .unwrap();
                        all.push(stream);
                    }
                }
                n => {
                    let mut buffer = [0; 64];
                    if let Some(s) = all.get_mut(n as usize) {
                        match s.read(&mut buffer) {
                            Ok(0) | Err(_) => {
                                let _ = poller.remove(&*s);
                            }
                            Ok(n) => s.write_all(&buffer[..n]).unwrap(),
                        }
                    }
                }
            }
        }
    }
}

/// Opens `n` connections and has each say something, `rounds` times. They come back open: a
/// thousand that close at once are a burst that the emulator takes milliseconds to carry.
fn talk(n: usize, rounds: usize) -> Vec<TcpStream> {
    let server = SocketAddr::new(server_address(0), PORT);
    let mut all: Vec<TcpStream> = (0..n)
        .map(|_| {
            let stream = TcpStream::connect(server).unwrap();
            stream.set_nodelay(true).unwrap();
            stream
        })
        .collect();
    for _ in 0..rounds {
        // A few at a time: what is measured is the line, not a queue of our making.
        for some in all.chunks_mut(8) {
            for s in &mut *some {
                s.write_all(&[1]).unwrap();
                // Time stamps count in milliseconds.
                std::thread::sleep(Duration::from_micros(1100));
            }
            for s in some {
                s.read_exact(&mut [0]).unwrap();
            }
        }
    }
    all
}

/// Latest round trips of all connections, ms.
fn measured(n: usize, rounds: usize) -> Vec<f64> {
    let experiment = common::vdsl100();
    let (hosts, ends) = Topology::build(&experiment).unwrap();
    let emulator = Emulator::start(ends.line, experiment.line_config(1)).unwrap();
    let records = tempfile::tempdir().unwrap();
    let (dir, line) = (records.path().to_owned(), experiment.line.clone());
    let stop = Arc::new(Waker::new().unwrap());
    let until = Arc::clone(&stop);
    let server = SocketAddr::new(server_address(0), PORT);
    let serving = hosts.servers[0]
        .spawn("echo", move || {
            echo(&TcpListener::bind(server).unwrap(), &until);
        })
        .unwrap();
    let shaped = dir.clone();
    hosts
        .gateway
        .run(move || {
            let request = Request {
                framing: Some(line.framing),
                ..common::request(WAN, line.down, line.up)
            };
            shape(&StateDir::new(shaped), &request).unwrap();
        })
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    emulator.mark();
    let open = hosts.clients[0].run(|| talk(n, rounds)).unwrap();
    let found = hosts
        .gateway
        .run(move || {
            let maps = maps(WAN).unwrap().expect("this kernel takes eBPF");
            let flows = maps.flows().unwrap();
            clear(&StateDir::new(dir), WAN).unwrap();
            flows
        })
        .unwrap();
    emulator.finish().unwrap();
    drop(open);
    stop.wake();
    serving.join().unwrap().unwrap();
    let ours = found.iter().filter(|(k, _)| k.remote_port == PORT);
    ours.map(|(k, f)| {
        let rtt = f.direction.up.rtt.unwrap_or_else(|| panic!("{k:?}: {f:?}"));
        assert!(f.direction.up.rtt_count as usize > rounds / 2, "{f:?}");
        rtt.as_secs_f64() * 1000.0
    })
    .collect()
}

#[test]
fn passive_round_trips_are_the_lines() {
    if !common::in_virtual_time("passive_round_trips_are_the_lines") {
        return;
    }
    // A segment with one byte is 53 bytes of IP, 77 on the line each way.
    let truth = 9.2 + 77.0 * 8.0 / 40_143.0 + 77.0 * 8.0 / 109_341.0;
    for (n, rounds) in [(1, 50), (16, 10), (1000, 2)] {
        let mut off: Vec<_> = measured(n, rounds)
            .iter()
            .map(|rtt| (rtt - truth).abs())
            .collect();
        assert_eq!(off.len(), n);
        off.sort_by(f64::total_cmp);
        let (median, p95) = (off[n / 2], off[n * 95 / 100]);
        println!("| {n} | {median:.3} | {p95:.3} |");
        assert!(median <= 0.05 && p95 <= 0.2, "{n} connections");
    }
}
