//! Bursts and splitting are right for fast lines: 900 Mbit/s of TCP gets 95 % of what HTB leaves
//! it, through super-packets that are split on the way.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use evenkeel_core::plan::Backend;
use evenkeel_sys::sched;

use crate::world::{Wan, everywhere, request};

const SLICE: Duration = Duration::from_millis(250);
const SLICES: u32 = 16;

#[test]
fn nine_hundred_megabits() {
    everywhere("nine_hundred_megabits", |w| {
        if w.wan != Wan::Veth || w.backend == Backend::Cake {
            return;
        }
        let far = w.far();
        w.shape(&request("900mbit", "900mbit", "ethernet")).unwrap();

        let listener = far
            .ns
            .run(|| TcpListener::bind("10.9.0.2:0").unwrap())
            .unwrap();
        let to = listener.local_addr().unwrap();
        let since = Instant::now();
        // What the line does is asked, not what other programs leave of the processors.
        let _ = sched::realtime_thread(20);
        let reader = std::thread::spawn(move || {
            let _ = sched::realtime_thread(20);
            let (mut socket, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 1 << 18];
            let mut slices = vec![0u64];
            loop {
                let n = socket.read(&mut buffer).unwrap();
                if n == 0 {
                    return slices;
                }
                let slice = since.elapsed().div_duration_f64(SLICE) as usize;
                slices.resize(slices.len().max(slice + 1), 0);
                slices[slice] += n as u64;
            }
        });
        let mut socket = TcpStream::connect(to).unwrap();
        let data = vec![0; 1 << 18];
        while since.elapsed() < SLICE * SLICES {
            socket.write_all(&data).unwrap();
        }
        drop(socket);
        let slices = reader.join().unwrap();
        let took = since.elapsed();
        let mbit = |bytes: u64, took: Duration| bytes as f64 * 8.0 / took.as_secs_f64() / 1e6;
        // The best slice: whoever else wants the processors does not want them all the time.
        let best = mbit(*slices.iter().max().unwrap(), SLICE);
        let mean = mbit(slices.iter().sum(), took);
        // Shaped to 99.5 % of the line; 1448 of 1538 bytes of a full frame are payload.
        let possible = 900.0 * 0.995 * 1448.0 / 1538.0;
        assert!(
            best >= 0.95 * possible && mean <= possible * 1.02,
            "{best:.0} at best, {mean:.0} on average, of {possible:.0} Mbit/s"
        );
        // What left the shaper were frames: not one super-packet reached the other side.
        let (bytes, packets) = far.ns.run(|| received("peer")).unwrap();
        assert!(
            packets > 1000 && bytes / packets <= 1514,
            "{bytes} bytes in {packets} packets"
        );
        w.clear();
    });
}

/// Bytes and packets that a device of this thread's namespace has received.
fn received(device: &str) -> (u64, u64) {
    let all = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = all
        .lines()
        .find_map(|l| l.trim().strip_prefix(device)?.strip_prefix(':'))
        .unwrap();
    let mut numbers = line.split_whitespace().map(|n| n.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}
