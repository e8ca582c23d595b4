//! Answers UDP probes, with the time stamps that take its own slowness out of the round trip.
//!
//! Principles: answers are as long as questions, so a forged sender gains nothing; what is not a
//! probe gets no answer, nor what the one who started it does not admit.
//! Non-goals: whom to answer, ICMP (the kernel answers that).

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use evenkeel_sys::poll::{Interest, Poller, Waker};
use evenkeel_sys::stamp::StampedSocket;
use evenkeel_sys::{Error, clock, sched};

use crate::packet::Probe;

/// A running echo server. It stops when dropped.
#[derive(Debug)]
pub struct Echo {
    stop: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

/// Whether a probe is answered; the second is its length, bytes.
pub type Admits = Box<dyn FnMut(&Probe, usize) -> bool + Send>;

impl Echo {
    /// Answers everybody on `local`, which is in the calling thread's network namespace.
    pub fn start(local: SocketAddr) -> Result<Self, Error> {
        Self::start_with(local, Box::new(|_, _| true))
    }

    /// Answers what `admits` lets through.
    pub fn start_with(local: SocketAddr, admits: Admits) -> Result<Self, Error> {
        let socket = StampedSocket::udp(local)?;
        let stop = Arc::new(Waker::new()?);
        let poller = Poller::new()?;
        poller.add(&socket, 0, Interest::Read)?;
        poller.add(stop.as_ref(), 1, Interest::Read)?;
        let thread = std::thread::Builder::new()
            .name("echo".into())
            .spawn(move || {
                // Without it the answers only leave later, which the stamps take out again.
                let _ = sched::realtime_thread(20);
                serve(&socket, &poller, admits);
            })
            .map_err(|e| Error::io("start the echo thread", &e))?;
        Ok(Echo {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.wake();
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

fn serve(socket: &StampedSocket, poller: &Poller, mut admits: Admits) {
    let mut ready = Vec::new();
    let mut buffer = vec![0; 65_536];
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
            if !admits(&probe, r.len) {
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
