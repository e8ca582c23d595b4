//! A call: UDP packets at a steady pace, with the delay of each and those that are lost.
//!
//! Principles: one way, because both ends have one clock here; sent times are taken before the
//! send, received ones by the kernel; the client sends first, so that calls pass masquerading.
//! Non-goals: codecs, and echo (that is the prober's).

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_sys::poll::{Interest, Poller, Timer};
use evenkeel_sys::stamp::StampedSocket;
use evenkeel_sys::{Error, Netns, clock, sched};

use crate::task::Task;
use evenkeel_core::Direction;

/// How long the last packets are waited for.
const STRAGGLERS: Duration = Duration::from_secs(2);
/// IPv4 and UDP.
const HEADERS: u16 = 28;
/// Sequence number and time.
const LEN: usize = 12;

/// A call to be.
#[derive(Debug, Clone)]
pub struct Call {
    /// For results and messages.
    pub name: String,
    /// Which way its packets go.
    pub direction: Direction,
    /// Where the server is; the port is this call's own.
    pub server: SocketAddr,
    /// From the start of the load to the first packet.
    pub start: Duration,
    /// From one packet to the next.
    pub interval: Duration,
    /// Bytes of its IP packets.
    pub packet: u16,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallOutcome {
    /// Its name.
    pub name: String,
    /// For each packet: when it was sent, from the start of the load, and how long it took;
    /// `None` if it never came.
    pub packets: Vec<(Duration, Option<Duration>)>,
}

const TICK: u64 = 0;
const STOP: u64 = 1;
const SOCKETS: u64 = 2;

impl Call {
    /// Places the call: it lasts from `start` (steady clock) for `duration`.
    pub fn begin(
        self,
        client: &Netns,
        server: &Netns,
        start: Duration,
        duration: Duration,
    ) -> Result<Task<CallOutcome>, Error> {
        let there = server.run(|| StampedSocket::udp(self.server))??;
        Task::start(client, "call", move |stop| {
            let any = SocketAddr::from(([0, 0, 0, 0], 0));
            let here = StampedSocket::udp(any)?;
            here.connect(self.server)?;
            // Without it delays grow by what the thread waits for a CPU.
            let _ = sched::realtime_thread(20);
            let (poller, tick) = (Poller::new()?, Timer::new()?);
            poller.add(&tick, TICK, Interest::Read)?;
            poller.add(stop.as_ref(), STOP, Interest::Read)?;
            poller.add(&here, SOCKETS, Interest::Read)?;
            poller.add(&there, SOCKETS + 1, Interest::Read)?;
            let line = Line {
                start,
                end: start + duration,
                here,
                there,
                poller,
                tick,
            };
            line.run(self)
        })
    }
}

struct Line {
    start: Duration,
    end: Duration,
    here: StampedSocket,
    there: StampedSocket,
    poller: Poller,
    tick: Timer,
}

impl Line {
    fn run(self, call: Call) -> Result<CallOutcome, Error> {
        let up = call.direction == Direction::Up;
        let mut sent: Vec<(Duration, Option<Duration>)> = Vec::new();
        let mut peer: Option<SocketAddr> = None;
        let payload = usize::from(call.packet.saturating_sub(HEADERS)).max(LEN);
        let mut packet = vec![0; payload];
        let mut buffer = vec![0; 2048];
        let mut ready = Vec::new();
        let mut next = self.start + call.start;
        let mut open = 0usize;
        // Through the masquerading, before the line is busy. A lost one costs the call's start.
        let hello = |s: &StampedSocket| s.send(&[0]);
        let _ = hello(&self.here);
        self.tick.set(next)?;
        loop {
            self.poller.wait(&mut ready)?;
            if ready.iter().any(|r| r.token == STOP) {
                return Ok(CallOutcome::default());
            }
            self.tick.clear();
            for socket in [&self.here, &self.there] {
                // Stamps of what was sent are of no interest, but they fill the queue.
                while let Ok(Some(_)) = socket.notice() {}
            }
            while let Ok(Some(r)) = self.there.receive(&mut buffer) {
                peer = r.from.or(peer);
                if up {
                    take(&buffer[..r.len], r.at, &mut sent, &mut open);
                }
            }
            while let Ok(Some(r)) = self.here.receive(&mut buffer) {
                if !up {
                    take(&buffer[..r.len], r.at, &mut sent, &mut open);
                }
            }
            let now = clock::monotonic();
            while next <= now && next < self.end {
                let seq = sent.len() as u32;
                let wall = clock::realtime();
                packet[..4].copy_from_slice(&seq.to_be_bytes());
                packet[4..LEN].copy_from_slice(&(wall.as_nanos() as u64).to_be_bytes());
                // What the own side drops is lost like anything else.
                let _ = match (up, peer) {
                    (true, _) => self.here.send(&packet),
                    (false, Some(to)) => self.there.send_to(&packet, to),
                    (false, None) => hello(&self.here),
                };
                sent.push((next.saturating_sub(self.start), None));
                open += 1;
                next += call.interval;
            }
            let last = self.end + STRAGGLERS;
            if now >= last || (now >= self.end && open == 0) {
                break;
            }
            self.tick.set(if next < self.end {
                next
            } else if now < self.end {
                self.end
            } else {
                last
            })?;
        }
        Ok(CallOutcome {
            name: call.name,
            packets: sent,
        })
    }
}

/// Notes what arrived.
fn take(
    data: &[u8],
    at: Option<Duration>,
    sent: &mut [(Duration, Option<Duration>)],
    open: &mut usize,
) {
    let (Some(seq), Some(time)) = (data.first_chunk::<4>(), data.get(4..LEN)) else {
        return;
    };
    let Ok(time) = <[u8; 8]>::try_from(time) else {
        return;
    };
    let tx = Duration::from_nanos(u64::from_be_bytes(time));
    let at = at.unwrap_or_else(clock::realtime);
    if let Some(p) = sent.get_mut(u32::from_be_bytes(*seq) as usize)
        && p.1.is_none()
    {
        p.1 = Some(at.saturating_sub(tx));
        *open -= 1;
    }
}
