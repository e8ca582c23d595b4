//! A run of `ping`: probes on a beat, on a thread of its own, events through a channel.
//!
//! Principles: the beat is absolute, so it does not drift; a beat that was missed is missed, not
//! made up for; the channel is bounded, so a reader that stops stops the probes rather than
//! filling the memory. Non-goals: what becomes of the events.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::ping::arrivals::Arrivals;
use evenkeel_core::ping::sizes::Sizes;
use evenkeel_core::ping::track::Event;
use evenkeel_sys::poll::{Timer, Waker};
use evenkeel_sys::{Error, PacketOptions, clock, sched};

use super::{Kind, PingError, Pinger};

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Address, and port of UDP and TCP.
    pub target: SocketAddr,
    /// Kind of probe.
    pub kind: Kind,
    /// From one probe to the next; at least 1 ms.
    pub interval: Duration,
    /// The next probe as soon as one is answered, at the latest after 10 ms; `interval` is not
    /// looked at.
    pub flood: bool,
    /// How many; without end if absent.
    pub count: Option<u64>,
    /// When a probe is given up.
    pub timeout: Duration,
    /// So many may be under way at once; a beat at which they are is left out.
    pub in_flight: usize,
    /// Payload sizes.
    pub sizes: Sizes,
    /// Fields of the IP header.
    pub options: PacketOptions,
}

/// A run under way. It ends when dropped.
#[derive(Debug)]
pub struct Session {
    /// What becomes known, a few at a time, first nothing: the first probe was sent. Ends with
    /// the run.
    pub events: Receiver<Vec<Event>>,
    stop: Arc<Waker>,
    thread: Option<JoinHandle<Result<(), PingError>>>,
}

/// Stamping is switched on in the background when the first socket asks for it; a packet before
/// that is stamped when it is read.
const WARM_UP: Duration = Duration::from_millis(20);
/// Handfuls of events that wait for their reader.
const BACKLOG: usize = 1 << 10;
/// The reader is not woken more often: that would cost more than the probes.
const HANDFUL: Duration = Duration::from_millis(20);
/// The slowest beat of a flood.
const FLOOD: Duration = Duration::from_millis(10);

impl Session {
    /// Begins, in the calling thread's network namespace. `arrivals`: whoever knows when answers
    /// arrive, if anybody does.
    pub fn start(request: Request, arrivals: Option<Box<dyn Arrivals>>) -> Result<Self, PingError> {
        let sizes = request.sizes;
        let pinger = Pinger::open(
            request.target,
            request.kind,
            request.options,
            request.timeout,
            sizes.of(0),
            arrivals,
        )?;
        let stop = Arc::new(Waker::new()?);
        let stopped = Arc::clone(&stop);
        let (tell, events) = sync_channel(BACKLOG);
        let thread = std::thread::Builder::new()
            .name("ping".into())
            .spawn(move || run(request, pinger, &stopped, &tell))
            .map_err(|e| Error::io("start the ping thread", &e))?;
        Ok(Session {
            events,
            stop,
            thread: Some(thread),
        })
    }

    /// Sends no more and waits for what is under way. Events still come, until they end.
    pub fn stop(&self) {
        self.stop.wake();
    }

    /// Waits for its end, after the events have ended.
    pub fn finish(mut self) -> Result<(), PingError> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.wake();
    }
}

fn run(
    request: Request,
    mut pinger: Pinger,
    stop: &Waker,
    tell: &SyncSender<Vec<Event>>,
) -> Result<(), PingError> {
    // Without it probes only leave later, which the stamps take out again.
    let _ = sched::realtime_thread(20);
    let beat = if request.flood {
        FLOOD
    } else {
        request.interval
    };
    let tick = Timer::new()?;
    tick.every(clock::monotonic() + WARM_UP, beat)?;
    pinger.follow(&tick)?;
    pinger.watch(stop)?;
    let mut sent = 0;
    let mut sending = true;
    let (mut known, mut told): (Vec<Event>, _) = (Vec::new(), Duration::ZERO);
    while sending || pinger.open_probes() > 0 {
        let later = (!known.is_empty()).then(|| told + HANDFUL);
        let woken = pinger.wait(later)?;
        let mut answered = false;
        while let Some(event) = pinger.poll() {
            answered |= matches!(event, Event::Outcome(_));
            known.push(event);
        }
        if !known.is_empty() {
            let now = clock::monotonic();
            if now >= told + HANDFUL {
                told = now;
                if tell.send(std::mem::take(&mut known)).is_err() {
                    return Ok(());
                }
            }
        }
        if woken.woken {
            pinger.unwatch(stop)?;
            sending = false;
        }
        if woken.tick {
            tick.clear();
        }
        let due = woken.tick || request.flood && answered;
        let room = pinger.open_probes() < request.in_flight && !pinger.is_full();
        if sending && due && room {
            let size = request.sizes.of(sent);
            if let Err(errno) = pinger.send(size)?
                && sent == 0
            {
                return Err(pinger.unsent(size, errno));
            }
            if sent == 0 && tell.send(Vec::new()).is_err() {
                return Ok(());
            }
            sent += 1;
            sending = request.count.is_none_or(|n| sent < n);
        }
    }
    known.extend(std::iter::from_fn(|| pinger.poll()));
    // Nobody listens any more: then nobody misses it.
    let _ = tell.send(known);
    Ok(())
}
