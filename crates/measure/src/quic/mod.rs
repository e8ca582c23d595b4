//! A download or upload over UDP that behaves like QUIC: it backs off on loss and paces itself,
//! but no receive window in the middle of the path can hold it.
//!
//! Principles: recovery is a pure state machine; both ends on one thread that sleeps in one
//! place; the client sends first, so that flows pass masquerading. Non-goals: encryption,
//! streams, interoperation.

pub mod recovery;

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use evenkeel_sys::poll::{Interest, Poller, Timer};
use evenkeel_sys::{Error, Netns, clock};
use nix::sys::socket::{setsockopt, sockopt};

use crate::load::{BIN, FlowOutcome};
use crate::task::Task;
use evenkeel_core::Direction;
use recovery::{DATAGRAM, Receiver, Sender, When};

/// A flow to be.
#[derive(Debug, Clone)]
pub struct Quic {
    /// For results and messages.
    pub name: String,
    /// Which way the data goes.
    pub direction: Direction,
    /// Where the server is; the port is this flow's own.
    pub server: SocketAddr,
    /// From the start of the load to the first packet.
    pub start: Duration,
}

const TIMER: u64 = 0;
const STOP: u64 = 1;
const SOCKETS: u64 = 2;
/// Packets in a row before the other end gets its turn.
const BATCH: usize = 32;

const HELLO: u8 = 0;
const DATA: u8 = 1;
const ACK: u8 = 2;

impl Quic {
    /// Runs the flow from `start` (steady clock) for `duration`.
    pub fn begin(
        self,
        client: &Netns,
        server: &Netns,
        start: Duration,
        duration: Duration,
    ) -> Result<Task<FlowOutcome>, Error> {
        let there = server.run(|| socket(self.server))??;
        Task::start(client, "quic", move |stop| {
            let here = socket(SocketAddr::from(([0, 0, 0, 0], 0)))?;
            let (poller, timer) = (Poller::new()?, Timer::new()?);
            poller.add(&timer, TIMER, Interest::Read)?;
            poller.add(stop.as_ref(), STOP, Interest::Read)?;
            poller.add(&here, SOCKETS, Interest::Read)?;
            poller.add(&there, SOCKETS + 1, Interest::Read)?;
            let mut engine = Engine {
                from: start + self.start,
                quic: self,
                here,
                there,
                client: None,
                sender: Sender::default(),
                receiver: Receiver::default(),
                bins: Vec::new(),
                start,
                end: start + duration,
                packet: vec![0; DATAGRAM as usize],
            };
            let mut ready = Vec::new();
            loop {
                let now = clock::monotonic();
                if now >= engine.end {
                    return Ok(engine.outcome());
                }
                timer.set(engine.work(now).min(engine.end))?;
                poller.wait(&mut ready)?;
                for r in &ready {
                    match r.token {
                        STOP => return Ok(FlowOutcome::default()),
                        // It is set anew before the next wait, which takes note of it.
                        TIMER => {}
                        end => engine.receive(end == SOCKETS),
                    }
                }
            }
        })
    }
}

fn socket(local: SocketAddr) -> Result<UdpSocket, Error> {
    let made = UdpSocket::bind(local).and_then(|s| s.set_nonblocking(true).map(|()| s));
    let socket = made.map_err(|e| Error::io(format!("bind UDP {local}"), &e))?;
    // As much as the machine gives: this thread may have to wait for a CPU.
    let _ = setsockopt(&socket.as_fd(), sockopt::RcvBuf, &(4 << 20));
    Ok(socket)
}

struct Engine {
    quic: Quic,
    here: UdpSocket,
    there: UdpSocket,
    /// The client as the server sees it.
    client: Option<SocketAddr>,
    sender: Sender,
    receiver: Receiver,
    bins: Vec<u64>,
    start: Duration,
    from: Duration,
    end: Duration,
    packet: Vec<u8>,
}

impl Engine {
    fn up(&self) -> bool {
        self.quic.direction == Direction::Up
    }

    /// Does what is due at `now`; when to come back.
    fn work(&mut self, now: Duration) -> Duration {
        if now < self.from {
            return self.from;
        }
        if !self.up() && self.client.is_none() {
            self.send_from(true, &[HELLO]);
            return now + Duration::from_millis(200);
        }
        if self.receiver.due().is_some_and(|d| d <= now) {
            let (ranges, held) = self.receiver.acknowledge(now);
            let mut ack = vec![ACK];
            ack.extend((held.as_micros() as u32).to_be_bytes());
            for (low, high) in ranges {
                ack.extend(low.to_be_bytes());
                ack.extend(high.to_be_bytes());
            }
            self.send_from(!self.up(), &ack);
        }
        if self.sender.deadline().is_some_and(|d| d <= now) {
            self.sender.timeout(now);
        }
        let mut next = self.end;
        for left in (0..BATCH).rev() {
            match self.sender.when(now) {
                When::Now if left > 0 => {
                    let number = self.sender.send(now);
                    let mut packet = std::mem::take(&mut self.packet);
                    packet[0] = DATA;
                    packet[1..5].copy_from_slice(&number.to_be_bytes());
                    self.send_from(self.up(), &packet);
                    self.packet = packet;
                }
                When::Now => next = now,
                When::At(t) => {
                    next = t;
                    break;
                }
                When::Blocked => break,
            }
        }
        let due = [self.receiver.due(), self.sender.deadline()];
        due.into_iter().flatten().fold(next, Duration::min)
    }

    /// What the own side drops is lost like anything else.
    fn send_from(&self, client: bool, data: &[u8]) {
        let _ = if client {
            self.here.send_to(data, self.quic.server)
        } else if let Some(to) = self.client {
            self.there.send_to(data, to)
        } else {
            return;
        };
    }

    fn receive(&mut self, at_client: bool) {
        let mut buffer = [0; 2048];
        loop {
            let socket = if at_client { &self.here } else { &self.there };
            let Ok((len, from)) = socket.recv_from(&mut buffer) else {
                break;
            };
            if !at_client {
                self.client = Some(from);
            }
            self.take(&buffer[..len]);
        }
    }

    fn take(&mut self, data: &[u8]) {
        let now = clock::monotonic();
        let word = |at: usize| {
            let bytes = data.get(at..at + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        match data.first() {
            Some(&DATA) => {
                let Some(number) = word(1) else { return };
                if now >= self.end || !self.receiver.receive(now, number) {
                    return;
                }
                let bin = now.saturating_sub(self.start).as_nanos() / BIN.as_nanos();
                if self.bins.len() <= bin as usize {
                    self.bins.resize(bin as usize + 1, 0);
                }
                self.bins[bin as usize] += data.len() as u64;
            }
            Some(&ACK) => {
                let held = Duration::from_micros(word(1).unwrap_or(0).into());
                let ranges: Vec<(u32, u32)> = (0..Receiver::RANGES)
                    .map_while(|i| Some((word(5 + 8 * i)?, word(9 + 8 * i)?)))
                    .collect();
                self.sender.acknowledged(now, &ranges, held);
            }
            _ => {}
        }
    }

    fn outcome(mut self) -> FlowOutcome {
        let bins = self.end.saturating_sub(self.start).as_nanos() / BIN.as_nanos();
        self.bins.resize(bins as usize, 0);
        FlowOutcome {
            name: self.quic.name,
            bins: self.bins,
            retransmits: self.sender.lost(),
            error: String::new(),
        }
    }
}
