//! Probes of several kinds beside one another on one thread, stamped by the kernel.
//!
//! Principles: each kind is isochronous, and none is sent at the same moment as another, so that
//! none waits behind another (a shaper that prefers ICMP would have the UDP probe pay for it); as
//! many are in flight as there are; a round trip runs from before our own queueing discipline
//! (`Stage::Sched`) to the kernel's receive stamp, without the time that the server held it; a late
//! answer counts, a second one does not; where somebody knows when answers arrived at this machine
//! ([`Arrivals`]), what they then waited in our own ingress queue is told apart; what is not
//! answered when the prober ends (it waits [`STRAGGLERS`] for that) is lost.
//! Non-goals: statistics (crate `evenkeel-core`), hop discovery.

mod sample;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::ping::arrivals::Arrivals;
use evenkeel_sys::poll::{Interest, Poller, Timer, Waker};
use evenkeel_sys::stamp::StampedSocket;
use evenkeel_sys::{Error, clock, sched};

use sample::wall_ahead;
pub use sample::{Form, Kind, Sample, Samples};
use stream::Stream;

/// How long the last probes may take to come back after the prober was told to stop.
pub const STRAGGLERS: Duration = Duration::from_secs(2);
/// From the start to the first probe.
const LEAD: Duration = Duration::from_millis(2);

/// What a prober saw.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// By kind, in the order that was asked for.
    pub kinds: Vec<Samples>,
    /// How far the wall clock was stepped meanwhile: round trips hold only without that.
    pub clock_step: Duration,
    /// Real-time priority was granted.
    pub realtime: bool,
}

/// Is told of each round trip as it comes: its kind's place, and itself.
pub type Heard = Box<dyn FnMut(usize, Duration) + Send>;

/// A running prober.
#[derive(Debug)]
pub struct Prober {
    stop: Arc<Waker>,
    thread: Option<JoinHandle<Result<Outcome, Error>>>,
}

/// A prober whose sockets are open.
pub struct Opened(Vec<Stream>);

impl Opened {
    /// Opens no sockets yet.
    pub const fn none() -> Self {
        Opened(Vec::new())
    }

    /// Adds a kind to `target`, in the calling thread's network namespace; `session` stands in the
    /// packets.
    pub fn add(&mut self, target: SocketAddr, session: u32, kind: Kind) -> Result<(), Error> {
        self.0.push(Stream::open(target, session, kind)?);
        Ok(())
    }

    /// Adds a kind of UDP in another form than ours, on a connected socket that has sent so many datagrams.
    pub fn add_formed(
        &mut self,
        socket: (StampedSocket, u32),
        kind: Kind,
        form: Box<dyn Form>,
    ) -> Result<(), Error> {
        self.0.push(Stream::formed(socket, kind, form)?);
        Ok(())
    }

    /// Begins to probe, if there is any kind.
    pub fn start(
        self,
        mut arrivals: Option<Box<dyn Arrivals>>,
        heard: Option<Heard>,
    ) -> Result<Prober, Error> {
        if let Some(arrivals) = &mut arrivals {
            for stream in &self.0 {
                arrivals.watch(stream.sender());
            }
        }
        let stop = Arc::new(Waker::new()?);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("prober".into())
            .spawn(move || run(self.0, arrivals.as_deref(), heard, &stopped))
            .map_err(|e| Error::io("start the prober thread", &e))?;
        Ok(Prober {
            stop,
            thread: Some(thread),
        })
    }
}

impl Prober {
    /// Sends no more, waits for what is under way and returns everything.
    pub fn finish(mut self) -> Result<Outcome, Error> {
        self.stop.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(Outcome::default()),
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop.wake();
    }
}

const TICK: u64 = 0;
const STOP: u64 = 1;
const END: u64 = 2;
const STREAM: u64 = 3;

/// Kinds begin within the shortest interval, evenly: where all intervals are its multiples, no two
/// are ever due together.
fn begin(streams: &mut [Stream], start: Duration) {
    let shortest = streams.iter().map(|s| s.kind.interval).min();
    let apart = shortest.unwrap_or_default() / streams.len().max(1) as u32;
    for (i, s) in (0..).zip(streams) {
        s.due = start + apart * i;
    }
}

fn run(
    mut streams: Vec<Stream>,
    arrivals: Option<&dyn Arrivals>,
    mut heard: Option<Heard>,
    stop: &Waker,
) -> Result<Outcome, Error> {
    // Without it probes leave late, which their stamps know.
    let realtime = sched::realtime_thread(20).is_ok();
    let ahead = wall_ahead();
    let (poller, tick, end) = (Poller::new()?, Timer::new()?, Timer::new()?);
    poller.add(&tick, TICK, Interest::Read)?;
    poller.add(stop, STOP, Interest::Read)?;
    poller.add(&end, END, Interest::Read)?;
    for (token, s) in (STREAM..).zip(&streams) {
        poller.add(&s.socket, token, Interest::Read)?;
    }
    let start = clock::monotonic() + LEAD;
    begin(&mut streams, start);
    let next = |streams: &[Stream]| streams.iter().map(|s| s.due).min().unwrap_or(start);
    tick.set(next(&streams))?;
    let mut ready = Vec::new();
    let mut stopping = false;
    loop {
        poller.wait(&mut ready)?;
        for r in &ready {
            match r.token {
                TICK => {
                    tick.clear();
                    if stopping {
                        continue;
                    }
                    let now = clock::monotonic();
                    for s in streams.iter_mut().filter(|s| s.due <= now) {
                        s.send()?;
                        // Beats that were missed are not made up for.
                        while s.due <= now {
                            s.due += s.kind.interval;
                        }
                    }
                    tick.set(next(&streams))?;
                }
                STOP => {
                    poller.remove(stop)?;
                    poller.remove(&tick)?;
                    stopping = true;
                    end.set(clock::monotonic() + STRAGGLERS)?;
                }
                END => streams.iter_mut().for_each(|s| s.open = 0),
                token => {
                    let i = (token - STREAM) as usize;
                    if let Some(s) = streams.get_mut(i) {
                        s.notices()?;
                        s.answers(arrivals, |rtt| {
                            if let Some(heard) = &mut heard {
                                heard(i, rtt);
                            }
                        })?;
                    }
                }
            }
        }
        if stopping && streams.iter().all(|s| s.open == 0) {
            break;
        }
    }
    // A stamp can come after its answer on another CPU.
    streams.iter_mut().try_for_each(Stream::notices)?;
    streams.iter().for_each(Stream::farewell);
    Ok(Outcome {
        kinds: streams.iter().map(Stream::samples).collect(),
        clock_step: wall_ahead().abs_diff(ahead),
        realtime,
    })
}
