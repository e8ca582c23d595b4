//! TCP bulk flows: real kernel TCP as load, both ends in this process, one thread for all.
//!
//! Principles: clients connect, so that flows pass masquerading; each flow has a port and a
//! listener of its own, so that ends are told apart without a protocol; goodput is what the
//! receiver's kernel hands over; bytes are never copied on the way in; nothing spins and
//! nothing blocks, so one thread on one CPU does in virtual time as well.
//! Non-goals: content, TLS, measuring latency.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::Direction;
use evenkeel_sys::poll::{Interest, Poller, Ready, Timer, Waker};
use evenkeel_sys::tcp::{Io, Tcp};
use evenkeel_sys::{Error, Netns, clock};

/// Length of the intervals in which goodput is counted.
pub const BIN: Duration = Duration::from_millis(100);
/// How often a bounded send buffer is filled up. Linux itself wakes a writer only when a third
/// of the buffer is free, which would make a saw of the standing queue that such a sender keeps.
const REFILL: Duration = Duration::from_millis(2);
/// At most this much at once, so that flows take turns.
const CHUNK: usize = 64 * 1024;

/// One bulk flow.
#[derive(Debug, Clone)]
pub struct Flow {
    /// For results and messages.
    pub name: String,
    /// Which way the data goes.
    pub direction: Direction,
    /// Where the server listens; the port is this flow's own.
    pub server: SocketAddr,
    /// From the start of the load to `connect`.
    pub start: Duration,
    /// Congestion control at both ends.
    pub congestion: String,
    /// Bytes that the sender keeps unacknowledged at most. `None`: as the kernel tunes it.
    pub send_buffer: Option<usize>,
    /// From `connect` until the connection is reset. `None`: as long as the load.
    pub lasts: Option<Duration>,
}

/// What a flow did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowOutcome {
    /// Its name.
    pub name: String,
    /// Payload bytes received in each [`BIN`] from the start of the load on.
    pub bins: Vec<u64>,
    /// Segments that its sender sent again.
    pub retransmits: u64,
    /// Why it ended early; empty if it did not.
    pub error: String,
}

impl FlowOutcome {
    /// Payload bytes received.
    pub fn bytes(&self) -> u64 {
        self.bins.iter().sum()
    }
}

/// Flows with their sockets made, not yet connecting.
#[derive(Debug)]
pub struct Load(Vec<Connection>);

impl Load {
    /// Makes the sockets of each flow in its client's and its server's namespace.
    pub fn prepare(flows: Vec<(Flow, &Netns, &Netns)>) -> Result<Self, Error> {
        let connections = flows.into_iter().map(|(flow, client, server)| {
            let listener = server.run(|| Tcp::listener(flow.server, &flow.congestion))??;
            let client = client.run(|| Tcp::new(flow.server, &flow.congestion))??;
            Ok(Connection {
                outcome: FlowOutcome {
                    name: flow.name.clone(),
                    ..FlowOutcome::default()
                },
                flow,
                listener: Some(listener),
                client,
                accepted: None,
                connecting: false,
                ended: false,
            })
        });
        connections.collect::<Result<_, Error>>().map(Load)
    }

    /// Runs the flows from `start` (steady clock) for `duration`, on a thread of its own.
    pub fn start(self, start: Duration, duration: Duration) -> Result<RunningLoad, Error> {
        let stop = Arc::new(Waker::new()?);
        let engine = Engine::new(self.0, start, duration, Arc::clone(&stop))?;
        let thread = std::thread::Builder::new()
            .name("load".into())
            .spawn(move || engine.run())
            .map_err(|e| Error::io("start the load thread", &e))?;
        Ok(RunningLoad {
            stop,
            thread: Some(thread),
        })
    }
}

/// Flows under way. They end when this is dropped.
#[derive(Debug)]
pub struct RunningLoad {
    stop: Arc<Waker>,
    thread: Option<JoinHandle<Result<Vec<FlowOutcome>, Error>>>,
}

impl RunningLoad {
    /// Waits for the end of the load; the connections are reset then.
    pub fn finish(mut self) -> Result<Vec<FlowOutcome>, Error> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.stop.wake();
    }
}

#[derive(Debug)]
struct Connection {
    flow: Flow,
    listener: Option<Tcp>,
    client: Tcp,
    accepted: Option<Tcp>,
    connecting: bool,
    ended: bool,
    outcome: FlowOutcome,
}

impl Connection {
    /// (sender, receiver), as far as they exist.
    fn ends(&self) -> (Option<&Tcp>, Option<&Tcp>) {
        match self.flow.direction {
            Direction::Up => (Some(&self.client), self.accepted.as_ref()),
            Direction::Down => (self.accepted.as_ref(), Some(&self.client)),
        }
    }

    /// The first reason counts.
    fn end(&mut self, why: &str) {
        if !self.ended {
            self.ended = true;
            why.clone_into(&mut self.outcome.error);
        }
    }
}

const LISTENER: u64 = 0;
const CLIENT: u64 = 1;
const ACCEPTED: u64 = 2;
const ENDS: u64 = 4;
const TIMER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

struct Engine {
    connections: Vec<Connection>,
    poller: Poller,
    timer: Timer,
    start: Duration,
    end: Duration,
    zeros: Vec<u8>,
    /// Keeps the waker open that the poller waits for.
    _stop: Arc<Waker>,
}

impl Engine {
    fn new(
        connections: Vec<Connection>,
        start: Duration,
        duration: Duration,
        stop: Arc<Waker>,
    ) -> Result<Self, Error> {
        let (poller, timer) = (Poller::new()?, Timer::new()?);
        poller.add(&timer, TIMER, Interest::Read)?;
        poller.add(stop.as_ref(), STOP, Interest::Read)?;
        for (i, c) in (0..).zip(&connections) {
            if let Some(l) = &c.listener {
                poller.add(l, i * ENDS + LISTENER, Interest::Read)?;
            }
        }
        Ok(Engine {
            connections,
            poller,
            timer,
            start,
            end: start + duration,
            zeros: vec![0; CHUNK],
            _stop: stop,
        })
    }

    fn run(mut self) -> Result<Vec<FlowOutcome>, Error> {
        let mut ready = Vec::new();
        let mut next = self.start;
        self.timer.set(next)?;
        // Read once for each wake, for where the clock is not free.
        let mut now = clock::monotonic();
        while now < self.end {
            if now >= next {
                next = self.on_time(now)?;
                self.timer.set(next)?;
            }
            self.poller.wait(&mut ready)?;
            now = clock::monotonic();
            for r in &ready {
                match r.token {
                    // It is set anew before the next wait, which takes note of it.
                    TIMER => {}
                    STOP => return Ok(Vec::new()),
                    _ => self.on_ready(*r, now)?,
                }
            }
        }
        for c in &mut self.connections {
            let again = c.ends().0.map_or(0, Tcp::retransmits);
            c.outcome.retransmits = c.outcome.retransmits.max(again);
            let begun = c.flow.start < self.end.saturating_sub(self.start);
            if begun && c.accepted.is_none() {
                c.end("it did not connect");
            }
            let bins = self.end.saturating_sub(self.start).as_nanos() / BIN.as_nanos();
            c.outcome.bins.resize(bins as usize, 0);
            c.client.reset_on_close();
            if let Some(a) = &c.accepted {
                a.reset_on_close();
            }
        }
        Ok(self.connections.into_iter().map(|c| c.outcome).collect())
    }

    /// Connects what is due and fills bounded send buffers; when to come back.
    fn on_time(&mut self, now: Duration) -> Result<Duration, Error> {
        let mut next = self.end;
        for (i, c) in (0..).zip(&mut self.connections) {
            let due = self.start + c.flow.start;
            if !c.connecting {
                if now < due {
                    next = next.min(due);
                    continue;
                }
                c.connecting = true;
                if let Some(b) = c.flow.send_buffer
                    && c.flow.direction == Direction::Up
                {
                    c.client.set_send_buffer(2 * b)?;
                }
                if let Some(lasts) = c.flow.lasts {
                    next = next.min(due + lasts);
                }
                c.client.connect(c.flow.server)?;
                let interest = match (c.flow.direction, c.flow.send_buffer) {
                    (Direction::Down, _) => Interest::Read,
                    (Direction::Up, None) => Interest::Write,
                    (Direction::Up, Some(_)) => Interest::Errors,
                };
                self.poller.add(&c.client, i * ENDS + CLIENT, interest)?;
            }
            if let (Some(lasts), false) = (c.flow.lasts, c.ended) {
                if now >= due + lasts {
                    hang_up(&self.poller, c)?;
                    continue;
                }
                next = next.min(due + lasts);
            }
            if let (Some(limit), false) = (c.flow.send_buffer, c.ended) {
                next = next.min(now + REFILL);
                let Some(sender) = c.ends().0 else { continue };
                let room = limit.saturating_sub(sender.unacknowledged());
                if fill(sender, &self.zeros, room) == Io::Closed {
                    c.end("the connection was closed while sending");
                }
            }
        }
        Ok(next)
    }

    fn on_ready(&mut self, event: Ready, now: Duration) -> Result<(), Error> {
        let flow = event.token / ENDS;
        let Some(c) = self.connections.get_mut(flow as usize) else {
            return Ok(());
        };
        if event.token % ENDS == LISTENER {
            return accept(&self.poller, c, flow * ENDS + ACCEPTED);
        }
        let sends = (event.token % ENDS == CLIENT) == (c.flow.direction == Direction::Up);
        let Some(socket) = (if sends { c.ends().0 } else { c.ends().1 }) else {
            return Ok(());
        };
        let io = if event.error || event.hangup {
            Io::Closed
        } else if sends && event.writable {
            fill(socket, &self.zeros, usize::MAX)
        } else if !sends && event.readable {
            socket.discard(1 << 20)
        } else {
            Io::Later
        };
        match io {
            Io::Closed => {
                let why = socket.take_error().map_or("closed", |e| e.desc());
                self.poller.remove(socket)?;
                c.end(&format!("connection to {}: {why}", c.flow.server));
            }
            Io::Moved(n) if !sends => {
                if now < self.end {
                    let bin = now.saturating_sub(self.start).as_nanos() / BIN.as_nanos();
                    let bins = &mut c.outcome.bins;
                    if bins.len() <= bin as usize {
                        bins.resize(bin as usize + 1, 0);
                    }
                    bins[bin as usize] += n as u64;
                }
            }
            Io::Moved(_) | Io::Later => {}
        }
        Ok(())
    }
}

/// Ends a flow whose time is over, so that nothing of it stays in its sender.
fn hang_up(poller: &Poller, c: &mut Connection) -> Result<(), Error> {
    c.outcome.retransmits = c.ends().0.map_or(0, Tcp::retransmits);
    // One that did not get through in its time is no error: the line was full.
    c.end("");
    poller.remove(&c.client)?;
    if let Some(l) = c.listener.take() {
        poller.remove(&l)?;
    }
    if let Some(a) = c.accepted.take() {
        poller.remove(&a)?;
        a.reset_on_close();
    }
    Ok(())
}

/// Takes the one connection that a flow's listener is for, and waits for its `token`.
fn accept(poller: &Poller, c: &mut Connection, token: u64) -> Result<(), Error> {
    let Some(listener) = &c.listener else {
        return Ok(());
    };
    let Some(accepted) = listener.accept()? else {
        return Ok(());
    };
    poller.remove(listener)?;
    let interest = match (c.flow.direction, c.flow.send_buffer) {
        (Direction::Up, _) => Interest::Read,
        (Direction::Down, None) => Interest::Write,
        (Direction::Down, Some(b)) => {
            accepted.set_send_buffer(2 * b)?;
            Interest::Errors
        }
    };
    poller.add(&accepted, token, interest)?;
    c.accepted = Some(accepted);
    c.listener = None;
    Ok(())
}

/// Hands `sender` up to `room` bytes, but no more than a few chunks at once.
fn fill(sender: &Tcp, zeros: &[u8], room: usize) -> Io {
    let mut left = room.min(16 * CHUNK);
    while left > 0 {
        match sender.send(&zeros[..left.min(zeros.len())]) {
            Io::Moved(n) => left = left.saturating_sub(n),
            Io::Later => return Io::Later,
            Io::Closed => return Io::Closed,
        }
    }
    Io::Moved(room)
}
