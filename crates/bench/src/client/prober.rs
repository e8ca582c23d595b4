//! Probes of several kinds beside one another, stamped by the kernel.
//!
//! Principles: each kind is isochronous, and none is sent at the same moment as another; a round trip
//! runs from before our own queueing discipline to the kernel's receive stamp, without the time that
//! a server of ours held it; what does not come back within `STRAGGLERS` after the end is lost.
//! Non-goals: figures; the lab's judged prober ([`evenkeel_measure::probe`]).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_measure::packet::{LEN, Probe as Packet};
use evenkeel_report::bench::form::{Probe, Probes};
use evenkeel_sys::packet_options::PacketOptions;
use evenkeel_sys::poll::{Interest, Poller, Timer, Waker};
use evenkeel_sys::stamp::{Notice, Stage, StampedSocket};
use evenkeel_sys::{Error, clock, sched};
use nix::errno::Errno;

/// How long the last probes may take to come back.
const STRAGGLERS: Duration = Duration::from_secs(2);
/// The first probes switch the kernel's stamping on and are not counted.
const WARM_UP: usize = 2;

/// A kind of probe.
#[derive(Debug, Clone)]
pub struct Kind {
    /// Echo requests, rather than UDP.
    pub icmp: bool,
    /// DSCP in the upper six bits.
    pub tos: u8,
    /// What results call it.
    pub mark: &'static str,
    /// From one to the next.
    pub interval: Duration,
}

/// The latest round trip of the judged kind, for whoever shows it.
#[derive(Debug, Default)]
pub struct Latest {
    /// Round trips since somebody looked, us.
    since: Mutex<Vec<u64>>,
}

impl Latest {
    /// The median of those that came since the last call, ms.
    pub fn take(&self) -> Option<f64> {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = std::mem::take(&mut *since);
        all.sort_unstable();
        all.get(all.len() / 2).map(|us| *us as f64 / 1000.0)
    }

    /// One came.
    pub(crate) fn heard(&self, rtt: Duration) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.len() < 10_000 {
            since.push(rtt.as_micros() as u64);
        }
    }
}

/// A running prober.
#[derive(Debug)]
pub struct Prober {
    stop: Arc<Waker>,
    thread: Option<JoinHandle<Result<Outcome, Error>>>,
    /// What the judged kind sees now.
    pub latest: Arc<Latest>,
}

/// What a prober saw.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By kind, in the order of the kinds.
    pub probes: Vec<Probes>,
    /// How far the wall clock was stepped meanwhile.
    pub clock_step: Duration,
    /// Probes of each kind that this machine refused to send.
    pub not_sent: u64,
}

impl Prober {
    /// Probes `target`, in the calling thread's network namespace. `zero` is the wall clock at the
    /// run's beginning; `session` stands in the packets.
    pub fn start(
        target: SocketAddr,
        session: u32,
        kinds: &[Kind],
        zero: Duration,
    ) -> Result<Self, Error> {
        let mut streams = Vec::new();
        for kind in kinds {
            match Stream::open(target, session, kind) {
                Ok(s) => streams.push(s),
                // Not everybody may send echo requests.
                Err(e) if kind.icmp && !streams.is_empty() && e.is_permission() => {}
                Err(e) => return Err(e),
            }
        }
        let stop = Arc::new(Waker::new()?);
        let latest = Arc::new(Latest::default());
        let (stopped, shown) = (Arc::clone(&stop), Arc::clone(&latest));
        let thread = std::thread::Builder::new()
            .name("prober".into())
            .spawn(move || run(streams, zero, &stopped, &shown))
            .map_err(|e| Error::io("start the prober thread", &e))?;
        Ok(Prober {
            stop,
            thread: Some(thread),
            latest,
        })
    }

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

#[derive(Debug, Clone, Copy)]
struct Flight {
    user: Duration,
    sched: Option<Duration>,
    driver: Option<Duration>,
    /// Received here, and the server's two stamps.
    answer: Option<(Duration, Duration, Duration)>,
}

impl Flight {
    fn sent(&self) -> Duration {
        self.sched.unwrap_or(self.user)
    }

    fn rtt(&self) -> Option<Duration> {
        let (rx, server_rx, server_tx) = self.answer?;
        Some(evenkeel_measure::packet::round_trip(
            self.sent(),
            rx,
            server_rx,
            server_tx,
        ))
    }

    /// From here to the server by both clocks, ms.
    fn up_ms(&self) -> Option<f64> {
        let (_, server_rx, _) = self.answer?;
        let ns = |d: Duration| d.as_nanos() as i128;
        (!server_rx.is_zero()).then(|| (ns(server_rx) - ns(self.sent())) as f64 / 1e6)
    }
}

struct Stream {
    socket: StampedSocket,
    kind: Kind,
    v6: bool,
    session: u32,
    flights: Vec<Flight>,
    /// The probe for each `OPT_ID` that the kernel has given out.
    ids: Vec<u32>,
    open: usize,
    not_sent: u64,
    due: Duration,
}

impl Stream {
    fn open(target: SocketAddr, session: u32, kind: &Kind) -> Result<Self, Error> {
        let any: SocketAddr = if target.is_ipv6() {
            ([0u16; 8], 0).into()
        } else {
            ([0, 0, 0, 0], 0).into()
        };
        let socket = if kind.icmp {
            StampedSocket::echo(target.ip())?
        } else {
            StampedSocket::udp(any)?
        };
        let options = PacketOptions {
            tos: kind.tos,
            ..PacketOptions::default()
        };
        socket.set_options(target.ip(), &options)?;
        socket.connect(target)?;
        Ok(Stream {
            socket,
            kind: kind.clone(),
            v6: target.is_ipv6(),
            session,
            flights: Vec::new(),
            ids: Vec::new(),
            open: 0,
            not_sent: 0,
            due: Duration::ZERO,
        })
    }

    fn send(&mut self) -> Result<(), Error> {
        let seq = self.flights.len() as u32;
        let packet = Packet {
            session: self.session,
            seq,
            server_rx: Duration::ZERO,
            server_tx: Duration::ZERO,
        };
        self.flights.push(Flight {
            user: clock::realtime(),
            sched: None,
            driver: None,
            answer: None,
        });
        self.open += 1;
        let once = |s: &Self| {
            if s.kind.icmp {
                s.socket.send(&packet.emit_echo(s.v6))
            } else {
                s.socket.send(&packet.emit())
            }
        };
        let mut sent = once(self);
        if sent.is_err() && sent != Err(Errno::ENOBUFS) {
            // An ICMP error about an earlier probe fails the next send: drain it, try once more.
            self.notices()?;
            sent = once(self);
        }
        if sent.is_err() {
            self.not_sent += 1;
        }
        // Dropped by our own queueing discipline: an id was given out nevertheless.
        if matches!(sent, Ok(()) | Err(Errno::ENOBUFS)) {
            self.ids.push(seq);
        }
        Ok(())
    }

    fn notices(&mut self) -> Result<(), Error> {
        while let Some(notice) = self.socket.notice()? {
            let Notice::Sent { id, stage, at } = notice else {
                continue;
            };
            let seq = self.ids.get(id as usize).map(|s| *s as usize);
            if let Some(f) = seq.and_then(|s| self.flights.get_mut(s))
                && at >= f.user
            {
                match stage {
                    Stage::Sched => f.sched = Some(at),
                    Stage::Driver => f.driver = Some(at),
                }
            }
        }
        Ok(())
    }

    fn answers(&mut self, latest: Option<&Latest>) -> Result<(), Error> {
        let mut buffer = [0; 2 * LEN];
        while let Some(r) = self.socket.receive(&mut buffer)? {
            let at = r.at.unwrap_or_else(clock::realtime);
            let data = &buffer[..r.len];
            let packet = if self.kind.icmp {
                Packet::parse_echo(data, self.v6)
            } else {
                Packet::parse(data)
            };
            let Some(p) = packet.filter(|p| p.session == self.session) else {
                continue;
            };
            let Some(f) = self
                .flights
                .get_mut(p.seq as usize)
                .filter(|f| f.answer.is_none())
            else {
                continue;
            };
            f.answer = Some((at, p.server_rx, p.server_tx));
            self.open -= 1;
            if let (Some(latest), Some(rtt)) = (latest, f.rtt()) {
                latest.heard(rtt);
            }
        }
        Ok(())
    }

    fn probes(&self, zero: Duration) -> Probes {
        let ms = |d: Duration| d.as_secs_f64() * 1000.0;
        let counted = self.flights.get(WARM_UP..).unwrap_or_default().iter();
        Probes {
            kind: if self.kind.icmp { "ICMP" } else { "UDP" }.into(),
            mark: self.kind.mark.into(),
            probes: counted
                .map(|f| Probe {
                    t: f.sent().saturating_sub(zero).as_secs_f64(),
                    rtt: f.rtt().map(ms),
                    up: f.up_ms(),
                    own: f.driver.map(|d| ms(d.saturating_sub(f.sent()))),
                })
                .collect(),
        }
    }
}

const TICK: u64 = 0;
const STOP: u64 = 1;
const END: u64 = 2;
const STREAM: u64 = 3;

fn wall_ahead() -> Duration {
    clock::realtime().saturating_sub(clock::monotonic())
}

fn run(
    mut streams: Vec<Stream>,
    zero: Duration,
    stop: &Waker,
    latest: &Latest,
) -> Result<Outcome, Error> {
    // Without it probes leave late, which their stamps know.
    let _ = sched::realtime_thread(20);
    let ahead = wall_ahead();
    let (poller, tick, end) = (Poller::new()?, Timer::new()?, Timer::new()?);
    poller.add(&tick, TICK, Interest::Read)?;
    poller.add(stop, STOP, Interest::Read)?;
    poller.add(&end, END, Interest::Read)?;
    let start = clock::monotonic() + Duration::from_millis(5);
    let kinds = streams.len().max(1) as u32;
    for (i, s) in streams.iter_mut().enumerate() {
        poller.add(&s.socket, STREAM + i as u64, Interest::Read)?;
        s.due = start + s.kind.interval * i as u32 / kinds;
    }
    let mut ready = Vec::new();
    let mut stopping = false;
    let next = |streams: &[Stream]| streams.iter().map(|s| s.due).min().unwrap_or(start);
    tick.set(next(&streams))?;
    loop {
        poller.wait(&mut ready)?;
        for r in &ready {
            match r.token {
                TICK if !stopping => {
                    tick.clear();
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
                TICK => tick.clear(),
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
                        s.answers((i == 0).then_some(latest))?;
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
    Ok(Outcome {
        probes: streams.iter().map(|s| s.probes(zero)).collect(),
        clock_step: wall_ahead().abs_diff(ahead),
        not_sent: streams.iter().map(|s| s.not_sent).sum(),
    })
}
