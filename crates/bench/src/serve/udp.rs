//! Answers probes: as many bytes as came, with the kernel's stamp of when they came.
//!
//! Principles: an answer is never longer than its question, so a forged sender gains nothing; what
//! is no probe gets none; probes of no session are answered only where no token is asked for, and
//! only so many a second. Non-goals: ICMP (the kernel answers that).

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_measure::packet::Probe;
use evenkeel_sys::poll::{Interest, Poller, Waker};
use evenkeel_sys::stamp::StampedSocket;
use evenkeel_sys::{Error, clock, sched};

/// Probes without a session that are answered in a second: twenty probers at 5 ms.
const STRANGERS_PER_S: u32 = 4000;
/// The longest probe that is answered: a packet of an Ethernet.
const LONGEST: usize = 1500;

/// Which sessions there are, by the lower half of their number.
pub(super) type Sessions = Arc<Mutex<HashSet<u32>>>;

/// Answers on `local` until `stop` is woken; returns the port.
pub(super) fn start(
    local: SocketAddr,
    sessions: Sessions,
    strangers: bool,
    stop: Arc<Waker>,
) -> Result<std::thread::JoinHandle<()>, Error> {
    let socket = StampedSocket::udp(local)?;
    let poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Read)?;
    poller.add(stop.as_ref(), 1, Interest::Read)?;
    std::thread::Builder::new()
        .name("probes".into())
        .spawn(move || {
            let _stop = stop;
            // Without it answers only leave later, which the stamps take out again.
            let _ = sched::realtime_thread(20);
            serve(&socket, &poller, &sessions, strangers);
        })
        .map_err(|e| Error::io("start the thread that answers probes", &e))
}

fn serve(socket: &StampedSocket, poller: &Poller, sessions: &Sessions, strangers: bool) {
    let mut ready = Vec::new();
    let mut buffer = vec![0; 65_536];
    let (mut second, mut answered) = (Duration::ZERO, 0);
    loop {
        if poller.wait(&mut ready).is_err() || ready.iter().any(|r| r.token == 1) {
            return;
        }
        // The stamps of our own answers are of no interest, but they fill the queue.
        while let Ok(Some(_)) = socket.notice() {}
        while let Ok(Some(r)) = socket.receive(&mut buffer) {
            let answer = &mut buffer[..r.len];
            let (Some(from), Some(mut probe)) = (r.from, Probe::parse(answer)) else {
                continue;
            };
            let known = sessions
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&probe.session);
            if !known {
                let now = clock::monotonic();
                if now.saturating_sub(second) > Duration::from_secs(1) {
                    (second, answered) = (now, 0);
                }
                answered += 1;
                if !strangers || answered > STRANGERS_PER_S {
                    continue;
                }
            }
            if r.len > LONGEST {
                continue;
            }
            probe.server_rx = r.at.unwrap_or_else(clock::realtime);
            probe.server_tx = clock::realtime();
            probe.emit_into(answer);
            // A lost answer is a lost probe; the prober counts it.
            let _ = socket.send_to(answer, from);
        }
    }
}
