//! The prober: UDP probes and ICMP echoes in turn, stamped by the kernel.
//!
//! Principles: each kind is isochronous and stands in the middle between two of the other, so
//! that neither waits behind the other (a shaper that prefers ICMP would have the UDP probe pay
//! for it); on a thread of its own, as many in flight as there are; a round trip runs from before
//! our own queueing discipline (`Stage::Sched`) to the kernel's receive stamp; a late answer
//! counts, a second one does not; where somebody knows when answers arrived at this machine
//! ([`Arrivals`]), what they then waited in our own ingress queue is told apart; what is not
//! answered when the prober ends (it waits [`STRAGGLERS`] for that) is lost.
//! Non-goals: statistics (crate `evenkeel-core`), hop discovery.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::ping::arrivals::{Arrivals, Sender};
use evenkeel_sys::poll::{Interest, Poller, Timer, Waker};
use evenkeel_sys::stamp::{Notice, Stage, StampedSocket};
use evenkeel_sys::{Error, clock, sched};
use nix::errno::Errno;

use crate::packet::{LEN, Probe, round_trip};

/// How long the last probes may take to come back after the prober was told to stop.
pub const STRAGGLERS: Duration = Duration::from_secs(2);
/// The first probes switch the kernel's stamping on and are not counted.
const WARM_UP: usize = 2;
/// A clock that moved this much against the steady one was stepped.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// What to probe.
#[derive(Debug, Clone, Copy)]
pub struct ProbeConfig {
    /// Address and port of an [`crate::echo::Echo`]; ICMP echo goes to the same address.
    pub target: SocketAddr,
    /// From one probe to the next of its kind.
    pub interval: Duration,
    /// Send ICMP echoes between the UDP probes.
    pub icmp: bool,
}

/// What became of one probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// When it was sent, wall clock.
    pub sent: Duration,
    /// Its round trip; `None` if it was lost.
    pub rtt: Option<Duration>,
    /// How much of that the answer waited in our own ingress queue; `None` if it is not known.
    pub held: Option<Duration>,
}

/// All probes of one kind.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// In the order of sending.
    pub probes: Vec<Sample>,
    /// Answers beyond the first to the same probe.
    pub duplicates: u64,
    /// Answers that came after the answer to a later probe.
    pub reordered: u64,
    /// Probes that the local system refused to send; they are among the lost.
    pub not_sent: u64,
    /// Probes whose send stamp never came; user space's time of sending stands in.
    pub unstamped: u64,
}

/// What the prober saw.
#[derive(Debug, Clone, Default)]
pub struct ProbeOutcome {
    /// The judged probe.
    pub udp: Samples,
    /// ICMP echo; empty if not asked for.
    pub icmp: Samples,
    /// The wall clock was stepped meanwhile: nothing of this counts.
    pub clock_stepped: bool,
    /// Real-time priority was granted.
    pub realtime: bool,
}

/// A running prober.
#[derive(Debug)]
pub struct Prober {
    stop: Arc<Waker>,
    thread: Option<JoinHandle<Result<ProbeOutcome, Error>>>,
}

impl Prober {
    /// Starts to probe, in the calling thread's network namespace.
    pub fn start(config: ProbeConfig) -> Result<Self, Error> {
        Self::start_with(config, None)
    }

    /// The same with somebody who knows when answers arrive.
    pub fn start_with(
        config: ProbeConfig,
        mut arrivals: Option<Box<dyn Arrivals>>,
    ) -> Result<Self, Error> {
        let any: SocketAddr = if config.target.is_ipv6() {
            ([0u16; 8], 0).into()
        } else {
            ([0, 0, 0, 0], 0).into()
        };
        let mut streams = vec![Stream::new(StampedSocket::udp(any)?, config, false)?];
        if config.icmp {
            let socket = StampedSocket::echo(config.target.ip())?;
            streams.push(Stream::new(socket, config, true)?);
        }
        if let Some(arrivals) = &mut arrivals {
            for stream in &streams {
                arrivals.watch(stream.sender);
            }
        }
        let stop = Arc::new(Waker::new()?);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("prober".into())
            .spawn(move || run(config, streams, arrivals.as_deref(), &stopped))
            .map_err(|e| Error::io("start the prober thread", &e))?;
        Ok(Prober {
            stop,
            thread: Some(thread),
        })
    }

    /// Sends no more, waits for what is under way and returns everything.
    pub fn finish(mut self) -> Result<ProbeOutcome, Error> {
        self.stop.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(ProbeOutcome::default()),
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop.wake();
    }
}

/// One probe on its way.
#[derive(Debug, Clone, Copy)]
struct Flight {
    /// User space's time of sending.
    user: Duration,
    sched: Option<Duration>,
    /// When the answer came, and the server's two stamps.
    answer: Option<(Duration, Duration, Duration)>,
    held: Option<Duration>,
}

/// Probes of one kind.
struct Stream {
    socket: StampedSocket,
    sender: Sender,
    icmp: bool,
    v6: bool,
    session: u32,
    flights: Vec<Flight>,
    /// The probe for each `OPT_ID` that the kernel has given out.
    ids: Vec<u32>,
    open: usize,
    highest: u32,
    duplicates: u64,
    reordered: u64,
    not_sent: u64,
}

impl Stream {
    fn new(socket: StampedSocket, config: ProbeConfig, icmp: bool) -> Result<Self, Error> {
        socket.connect(config.target)?;
        let port = socket.local_port()?;
        Ok(Stream {
            socket,
            sender: if icmp {
                Sender::Icmp(port)
            } else {
                Sender::Udp(port)
            },
            icmp,
            v6: config.target.is_ipv6(),
            session: clock::realtime().as_nanos() as u32,
            flights: Vec::new(),
            ids: Vec::new(),
            open: 0,
            highest: 0,
            duplicates: 0,
            reordered: 0,
            not_sent: 0,
        })
    }

    fn send(&mut self) -> Result<(), Error> {
        let seq = self.flights.len() as u32;
        let probe = Probe {
            session: self.session,
            seq,
            server_rx: Duration::ZERO,
            server_tx: Duration::ZERO,
        };
        self.flights.push(Flight {
            user: clock::realtime(),
            sched: None,
            answer: None,
            held: None,
        });
        self.open += 1;
        let once = |s: &Self| {
            if s.icmp {
                s.socket.send(&probe.emit_echo(s.v6))
            } else {
                s.socket.send(&probe.emit())
            }
        };
        let mut sent = once(self);
        if sent.is_err() && sent != Err(Errno::ENOBUFS) {
            // An ICMP error about an earlier probe fails the next send: drain it, try once more.
            self.notices()?;
            sent = once(self);
        }
        match sent {
            Ok(()) => self.ids.push(seq),
            // Dropped by our own queueing discipline, after an id was given out.
            Err(Errno::ENOBUFS) => {
                self.ids.push(seq);
                self.not_sent += 1;
            }
            Err(_) => self.not_sent += 1,
        }
        Ok(())
    }

    fn notices(&mut self) -> Result<(), Error> {
        while let Some(notice) = self.socket.notice()? {
            if let Notice::Sent {
                id,
                stage: Stage::Sched,
                at,
            } = notice
            {
                let seq = self.ids.get(id as usize).map(|s| *s as usize);
                if let Some(f) = seq.and_then(|s| self.flights.get_mut(s)) {
                    // A stamp from before the send is some other probe's: ids are out of step.
                    if at >= f.user {
                        f.sched = Some(at);
                    }
                }
            }
        }
        Ok(())
    }

    fn answers(&mut self, arrivals: Option<&dyn Arrivals>) -> Result<(), Error> {
        let mut buffer = [0; 2 * LEN];
        while let Some(r) = self.socket.receive(&mut buffer)? {
            let at = r.at.unwrap_or_else(clock::realtime);
            let data = &buffer[..r.len];
            let probe = if self.icmp {
                Probe::parse_echo(data, self.v6)
            } else {
                Probe::parse(data)
            };
            let Some(p) = probe.filter(|p| p.session == self.session) else {
                continue;
            };
            let Some(f) = self.flights.get_mut(p.seq as usize) else {
                continue;
            };
            if f.answer.is_some() {
                self.duplicates += 1;
                continue;
            }
            f.answer = Some((at, p.server_rx, p.server_tx));
            // An echo's number is of 16 bits.
            let number = if self.icmp { p.seq & 0xffff } else { p.seq };
            f.held = arrivals
                .and_then(|a| a.arrived(self.sender, Some(number)))
                .map(|arrived| at.saturating_sub(arrived + wall_ahead()));
            self.open -= 1;
            if p.seq < self.highest {
                self.reordered += 1;
            }
            self.highest = self.highest.max(p.seq);
        }
        Ok(())
    }

    fn samples(&self) -> Samples {
        let counted = self.flights.get(WARM_UP..).unwrap_or_default();
        let probes = counted.iter().map(|f| {
            let tx = f.sched.unwrap_or(f.user);
            Sample {
                sent: tx,
                rtt: f
                    .answer
                    .map(|(rx, server_rx, server_tx)| round_trip(tx, rx, server_rx, server_tx)),
                held: f.held,
            }
        });
        Samples {
            probes: probes.collect(),
            duplicates: self.duplicates,
            reordered: self.reordered,
            not_sent: self.not_sent,
            unstamped: counted.iter().filter(|f| f.sched.is_none()).count() as u64,
        }
    }
}

const TICK: u64 = 0;
const STOP: u64 = 1;
const END: u64 = 2;
const STREAM: u64 = 3;

/// How far the wall clock is ahead of the steady one.
fn wall_ahead() -> Duration {
    clock::realtime().saturating_sub(clock::monotonic())
}

fn run(
    config: ProbeConfig,
    mut streams: Vec<Stream>,
    arrivals: Option<&dyn Arrivals>,
    stop: &Waker,
) -> Result<ProbeOutcome, Error> {
    let realtime = sched::realtime_thread(20).is_ok();
    let ahead = wall_ahead();
    let (poller, tick, end) = (Poller::new()?, Timer::new()?, Timer::new()?);
    poller.add(&tick, TICK, Interest::Read)?;
    poller.add(stop, STOP, Interest::Read)?;
    poller.add(&end, END, Interest::Read)?;
    for (token, s) in (STREAM..).zip(&streams) {
        poller.add(&s.socket, token, Interest::Read)?;
    }
    let between = config.interval / streams.len() as u32;
    tick.every(clock::monotonic() + between, between)?;
    let mut turns = (0..streams.len()).cycle();
    let mut ready = Vec::new();
    let mut stopping = false;
    loop {
        poller.wait(&mut ready)?;
        for r in &ready {
            match r.token {
                TICK => {
                    tick.clear();
                    if !stopping && let Some(s) = turns.next().and_then(|i| streams.get_mut(i)) {
                        s.send()?;
                    }
                }
                STOP => {
                    poller.remove(stop)?;
                    poller.remove(&tick)?;
                    stopping = true;
                    end.set(clock::monotonic() + STRAGGLERS)?;
                }
                END => streams.iter_mut().for_each(|s| s.open = 0),
                token => {
                    if let Some(s) = streams.get_mut((token - STREAM) as usize) {
                        s.notices()?;
                        s.answers(arrivals)?;
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
    let moved = wall_ahead().abs_diff(ahead);
    let mut samples = streams.iter().map(Stream::samples);
    Ok(ProbeOutcome {
        udp: samples.next().unwrap_or_default(),
        icmp: samples.next().unwrap_or_default(),
        clock_stepped: moved > CLOCK_STEP,
        realtime,
    })
}
