//! Streams of a load over plain TCP, on one thread.
//!
//! Principles: downloads are counted as the kernel hands them over and never copied; of uploads the
//! receiver tells what arrived, and until it does what it acknowledged stands in; at the end nothing of
//! a stream stays on the line. Non-goals: what streams begin with (that is their far end's).

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_report::bench::form::{BIN_S, Way};
use evenkeel_sys::poll::{Interest, Poller, Timer, Waker};
use evenkeel_sys::tcp::{self, Io};
use evenkeel_sys::{Error, clock};

/// At most so much at once, so that streams take turns.
const CHUNK: usize = 64 * 1024;
const TURNS: usize = 8;
/// How often the kernel is asked for round trips and acknowledged bytes.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes that were moved so far, for whoever shows it.
#[derive(Debug, Default)]
pub struct Live {
    /// To here.
    pub down: AtomicU64,
    /// From here.
    pub up: AtomicU64,
}

/// A stream that is connected.
#[derive(Debug)]
pub struct LoadStream {
    /// Its socket, which does not block.
    pub socket: TcpStream,
    /// Which way.
    pub way: Way,
    /// What results call it.
    pub mark: String,
    /// What is sent first.
    pub head: Vec<u8>,
}

/// What became of it.
#[derive(Debug)]
pub struct StreamOutcome {
    /// Its socket, as long as it is open.
    pub socket: Option<TcpStream>,
    /// Which way.
    pub way: Way,
    /// What results call it.
    pub mark: String,
    /// When its head was sent, s since the run's beginning.
    pub began: f64,
    /// Bytes received, or acknowledged by the other side, in each [`BIN_S`].
    pub bytes: Vec<u64>,
    /// Round trips of an upload, s and ms.
    pub rtt_ms: Vec<(f64, f64)>,
    /// Segments of an upload that were sent again.
    pub retransmits: u64,
    /// When the other side ended it.
    pub ended: Option<f64>,
}

impl StreamOutcome {
    /// Ends it at once: what is still in its buffers is not sent.
    pub fn close(&mut self) {
        if let Some(socket) = self.socket.take() {
            tcp::reset_on_close(&socket);
        }
    }
}

/// A load under way.
#[derive(Debug)]
pub struct Load {
    stop: Arc<Waker>,
    thread: Option<JoinHandle<Result<Vec<StreamOutcome>, Error>>>,
}

impl Load {
    /// Starts it now. `zero` is the steady clock at the run's beginning.
    pub fn start(streams: Vec<LoadStream>, zero: Duration, live: Arc<Live>) -> Result<Self, Error> {
        let stop = Arc::new(Waker::new()?);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("load".into())
            .spawn(move || run(streams, zero, &live, &stopped))
            .map_err(|e| Error::io("start the load's thread", &e))?;
        Ok(Load {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends it. The sockets are in what is returned.
    pub fn finish(mut self) -> Result<Vec<StreamOutcome>, Error> {
        self.stop.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcomes)) => outcomes,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.wake();
    }
}

/// Adds `bytes` to the bin of `at` (s).
pub fn count(bins: &mut Vec<u64>, at: f64, bytes: u64) {
    let bin = (at.max(0.0) / BIN_S) as usize;
    if bins.len() <= bin {
        bins.resize(bin + 1, 0);
    }
    bins[bin] += bytes;
}

struct Running {
    outcome: StreamOutcome,
    acked: u64,
}

const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

fn run(
    streams: Vec<LoadStream>,
    zero: Duration,
    live: &Live,
    stop: &Waker,
) -> Result<Vec<StreamOutcome>, Error> {
    let (poller, timer) = (Poller::new()?, Timer::new()?);
    poller.add(stop, STOP, Interest::Read)?;
    poller.add(&timer, TIMER, Interest::Read)?;
    timer.every(clock::monotonic() + LOOK, LOOK)?;
    let payload = crate::payload(CHUNK);
    let seconds = || clock::monotonic().saturating_sub(zero).as_secs_f64();
    let mut running = Vec::new();
    for (token, s) in (0..).zip(streams) {
        // A head is shorter than any socket's buffer.
        let sent = (&s.socket).write_all(&s.head).is_ok();
        let began = seconds();
        let interest = match s.way {
            Way::Down => Interest::Read,
            Way::Up => Interest::Write,
        };
        if sent {
            poller.add(&s.socket, token, interest)?;
        }
        let acked = tcp::info(&s.socket).map_or(0, |i| i.acked) + s.head.len() as u64;
        running.push(Running {
            outcome: StreamOutcome {
                socket: Some(s.socket),
                way: s.way,
                mark: s.mark,
                began,
                bytes: Vec::new(),
                rtt_ms: Vec::new(),
                retransmits: 0,
                ended: (!sent).then_some(began),
            },
            acked,
        });
    }
    let mut ready = Vec::new();
    loop {
        poller.wait(&mut ready)?;
        let now = seconds();
        for r in &ready {
            match r.token {
                STOP => {
                    for s in &mut running {
                        look(s, now, live);
                    }
                    return Ok(running.into_iter().map(|s| s.outcome).collect());
                }
                TIMER => {
                    timer.clear();
                    for s in &mut running {
                        look(s, now, live);
                    }
                }
                token => {
                    let Some(s) = running.get_mut(token as usize) else {
                        continue;
                    };
                    let ended = r.error || !turn(&mut s.outcome, now, &payload, live);
                    if ended {
                        if let Some(socket) = &s.outcome.socket {
                            let _ = poller.remove(socket);
                        }
                        s.outcome.ended = Some(now);
                    }
                }
            }
        }
    }
}

/// Moves what can be moved; `false` once the other side has ended it.
fn turn(s: &mut StreamOutcome, now: f64, payload: &[u8], live: &Live) -> bool {
    let Some(socket) = &s.socket else {
        return false;
    };
    let mut socket = socket;
    for _ in 0..TURNS {
        match s.way {
            Way::Down => match tcp::discard(socket, TURNS * CHUNK) {
                Io::Moved(n) => {
                    count(&mut s.bytes, now, n as u64);
                    live.down.fetch_add(n as u64, Ordering::Relaxed);
                }
                Io::Later => return true,
                Io::Closed => return false,
            },
            Way::Up => match socket.write(payload) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            },
        }
    }
    true
}

/// What the kernel knows of an upload.
fn look(s: &mut Running, now: f64, live: &Live) {
    let o = &mut s.outcome;
    if o.way == Way::Down || o.ended.is_some() {
        return;
    }
    let Some(info) = o.socket.as_ref().and_then(tcp::info) else {
        return;
    };
    let moved = info.acked.saturating_sub(s.acked);
    s.acked = s.acked.max(info.acked);
    // They came since the last look.
    count(
        &mut o.bytes,
        (now - LOOK.as_secs_f64() / 2.0).max(o.began),
        moved,
    );
    live.up.fetch_add(moved, Ordering::Relaxed);
    o.rtt_ms.push((now, info.rtt.as_secs_f64() * 1000.0));
    o.retransmits = info.retransmits;
}
