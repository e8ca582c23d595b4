//! The line: a thread between two TUN or TAP devices that runs two [`Pipe`]s in real packets.
//!
//! Principles: a packet leaves when the pipe's arithmetic says, not when the thread happens to
//! wake; how far off it was nevertheless is recorded, and a run with much of it is void; the
//! devices are read eagerly, the queue is the pipe's. What a wake-up takes (some 50 us on an
//! idle machine, nothing in virtual time) is learned from the timer and taken out: timers are
//! set that much earlier, and a packet that woke the thread came that much earlier. A server's
//! round trip beyond the line's own is added behind the line on the way up, where it changes no
//! queue.
//! What the line carries at the moment can be read by who wants to know ([`Rates`]).
//! Non-goals: anything that looks into packets beyond length, addresses and protocol; what the
//! near hop answers (`hop`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::pipe::{Pipe, PipeConfig, PipeStats, Verdict};
use evenkeel_core::{PerDirection, Rate};
use evenkeel_sys::poll::{Interest, Poller, Timer, Waker};
use evenkeel_sys::tun::{Tun, TunKind};
use evenkeel_sys::{Error, clock, sched};

use crate::hop::{Hop, HopConfig, Treated};

/// What the line is between.
#[derive(Debug)]
pub struct Ends {
    /// In the provider's namespace.
    pub provider: Tun,
    /// In the gateway's namespace: the WAN device.
    pub gateway: Tun,
    /// What both are.
    pub kind: TunKind,
}

/// How it behaves.
#[derive(Debug, Clone)]
pub struct LineConfig {
    /// Towards the customer.
    pub down: PipeConfig,
    /// From the customer.
    pub up: PipeConfig,
    /// Round trip of servers beyond the line's, by address.
    pub beyond: Vec<(IpAddr, Duration)>,
    /// The provider lets no ICMP through, neither way.
    pub filters_icmp: bool,
    /// What is sent to this address never arrives.
    pub silent: Option<IpAddr>,
    /// The near hop and its ways, where they are not those of its kernel.
    pub hop: Option<(Ipv4Addr, HopConfig)>,
}

/// What the line carries now, as its thread saw it when it last woke.
#[derive(Debug, Clone, Default)]
pub struct Rates(Arc<[AtomicU64; 2]>);

impl Rates {
    /// Towards the customer, and from him; zero in an outage.
    pub fn now(&self) -> PerDirection<Rate> {
        let of = |i: usize| Rate::from_bps(self.0[i].load(Ordering::Relaxed));
        PerDirection {
            down: of(0),
            up: of(1),
        }
    }

    fn set(&self, down: Rate, up: Rate) {
        for (place, rate) in self.0.iter().zip([down, up]) {
            place.store(rate.bps(), Ordering::Relaxed);
        }
    }
}

/// What the emulator did since [`Emulator::mark`].
#[derive(Debug, Clone, Default)]
pub struct EmulatorReport {
    /// How far off their schedule packets left, median.
    pub lag_median: Duration,
    /// The same, 99th percentile.
    pub lag_p99: Duration,
    /// The same, 99.5th percentile.
    pub lag_p995: Duration,
    /// The same, worst.
    pub lag_max: Duration,
    /// Packets that the receiving side refused.
    pub refused: u64,
    /// Whether real-time priority was granted.
    pub realtime: bool,
    /// Towards the customer, since the start.
    pub down: PipeStats,
    /// From the customer, since the start.
    pub up: PipeStats,
}

/// A packet that the line carries: what is known of it when it has come.
#[derive(Debug, Clone, Copy)]
pub struct Carried<'a> {
    /// From the customer.
    pub up: bool,
    /// When it came, steady clock.
    pub came: Duration,
    /// When it arrives at the other end.
    pub arrives: Duration,
    /// The IP packet.
    pub ip: &'a [u8],
}

/// Is told of each packet that the line carries, in the order in which they come.
pub type Watcher = Box<dyn FnMut(Carried<'_>) + Send>;

/// A running line. It stops when dropped.
#[derive(Debug)]
pub struct Emulator {
    stop: Arc<Waker>,
    mark: Arc<Waker>,
    rates: Rates,
    thread: Option<JoinHandle<Result<EmulatorReport, Error>>>,
}

impl Emulator {
    /// Starts to carry packets.
    pub fn start(ends: Ends, config: LineConfig) -> Result<Self, Error> {
        Self::watched(ends, config, None)
    }

    /// The same with somebody who is told of each packet.
    pub fn watched(
        ends: Ends,
        config: LineConfig,
        watcher: Option<Watcher>,
    ) -> Result<Self, Error> {
        let (stop, mark) = (Arc::new(Waker::new()?), Arc::new(Waker::new()?));
        let mut line = Line::new(ends, config, Arc::clone(&stop), Arc::clone(&mark))?;
        line.watcher = watcher;
        let rates = line.rates.clone();
        let thread = std::thread::Builder::new()
            .name("line".into())
            .spawn(move || line.run())
            .map_err(|e| Error::io("start the line's thread", &e))?;
        Ok(Emulator {
            stop,
            mark,
            rates,
            thread: Some(thread),
        })
    }

    /// What it carries, at any time.
    pub fn rates(&self) -> Rates {
        self.rates.clone()
    }

    /// What counts begins now: the lag so far is forgotten, changes of the line start.
    pub fn mark(&self) {
        self.mark.wake();
    }

    /// Stops the line; what is on it is gone.
    pub fn finish(mut self) -> Result<EmulatorReport, Error> {
        self.stop.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(report)) => report,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(EmulatorReport::default()),
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.wake();
    }
}

/// A packet on its way. The order is that of departure.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Departure {
    at: Duration,
    order: u64,
    up: bool,
    packet: Vec<u8>,
}

const PROVIDER: u64 = 0;
const GATEWAY: u64 = 1;
const TIMER: u64 = 2;
const STOP: u64 = 3;
const MARK: u64 = 4;
/// Packets read from one device before the other one and the timer get their turn.
const BATCH: usize = 64;

/// How many packets one device hands over at a wake. To ask it for one more is a system call that
/// most often brings nothing, and system calls are what virtual time costs.
#[derive(Debug, Clone, Copy)]
struct Coming {
    /// So many there were the last time.
    found: usize,
    /// At which wake that was.
    at: u64,
}

impl Coming {
    const NONE: Coming = Coming { found: 1, at: 0 };

    /// How many to ask for. One that is ready twice in a row had more, and is emptied.
    fn expected(self, wake: u64) -> usize {
        if wake == self.at + 1 {
            BATCH
        } else {
            self.found
        }
    }
}

struct Line {
    ends: Ends,
    down: Pipe,
    up: Pipe,
    beyond: Vec<(IpAddr, Duration)>,
    filters_icmp: bool,
    silent: Option<IpAddr>,
    hop: Option<Hop>,
    rates: Rates,
    under_way: BinaryHeap<Reverse<Departure>>,
    order: u64,
    /// What waking up takes: the running median of the timer's wakes.
    wake: Duration,
    /// When the thread last went to sleep.
    slept: Duration,
    /// The clock as last read: once for each wake and each packet, for where it is not free.
    now: Duration,
    /// How the packets of each end come: down, up.
    coming: [Coming; 2],
    wakes: u64,
    lag: Lag,
    refused: u64,
    watcher: Option<Watcher>,
    poller: Poller,
    timer: Timer,
    mark: Arc<Waker>,
    /// Keeps the waker open that the poller waits for.
    _stop: Arc<Waker>,
}

impl Line {
    fn new(
        ends: Ends,
        config: LineConfig,
        stop: Arc<Waker>,
        mark: Arc<Waker>,
    ) -> Result<Self, Error> {
        let (poller, timer) = (Poller::new()?, Timer::new()?);
        poller.add(&ends.provider, PROVIDER, Interest::Read)?;
        poller.add(&ends.gateway, GATEWAY, Interest::Read)?;
        poller.add(&timer, TIMER, Interest::Read)?;
        poller.add(stop.as_ref(), STOP, Interest::Read)?;
        poller.add(mark.as_ref(), MARK, Interest::Read)?;
        let (mut down, mut up) = (Pipe::new(config.down), Pipe::new(config.up));
        let rates = Rates::default();
        rates.set(down.sustained(Duration::ZERO), up.sustained(Duration::ZERO));
        Ok(Line {
            ends,
            down,
            up,
            rates,
            hop: config.hop.map(|(address, hop)| Hop::new(hop, address)),
            beyond: config.beyond,
            filters_icmp: config.filters_icmp,
            silent: config.silent,
            under_way: BinaryHeap::new(),
            order: 0,
            wake: Duration::ZERO,
            slept: Duration::ZERO,
            now: clock::monotonic(),
            coming: [Coming::NONE; 2],
            wakes: 0,
            lag: Lag::new(),
            refused: 0,
            watcher: None,
            poller,
            timer,
            mark,
            _stop: stop,
        })
    }

    fn run(&mut self) -> Result<EmulatorReport, Error> {
        let realtime = sched::realtime_thread(30).is_ok();
        // Until `mark` it stands at its first steps, however long that takes.
        self.down.begin(Duration::MAX);
        self.up.begin(Duration::MAX);
        let mut buffer = vec![0; 65_536];
        let mut ready = Vec::new();
        // What the timer is set to, and for which departure.
        let (mut set, mut set_for) = (Duration::MAX, Duration::MAX);
        loop {
            self.slept = self.now;
            self.poller.wait(&mut ready)?;
            self.now = clock::monotonic();
            self.wakes += 1;
            let (mut early, mut fired) = (Duration::ZERO, false);
            for r in &ready {
                match r.token {
                    PROVIDER => self.read(false, &mut buffer)?,
                    GATEWAY => self.read(true, &mut buffer)?,
                    TIMER => {
                        fired = true;
                        early = self.wake;
                        // Set in the past, it says nothing of waking up.
                        if set > self.slept {
                            self.woken_late(self.now.saturating_sub(set));
                        }
                        set_for = Duration::MAX;
                    }
                    MARK => {
                        self.lag = Lag::new();
                        self.poller.remove(self.mark.as_ref())?;
                        self.begin();
                    }
                    _ => {
                        return Ok(EmulatorReport {
                            lag_median: self.lag.quantile(0.5),
                            lag_p99: self.lag.quantile(0.99),
                            lag_p995: self.lag.quantile(0.995),
                            lag_max: self.lag.max,
                            refused: self.refused,
                            realtime,
                            down: self.down.stats(),
                            up: self.up.stats(),
                        });
                    }
                }
            }
            self.write(early)?;
            self.rates
                .set(self.down.rate(self.now), self.up.rate(self.now));
            match self.under_way.peek() {
                // Setting it takes note of its having fired as well.
                Some(Reverse(next)) if next.at != set_for => {
                    set_for = next.at;
                    set = next.at.saturating_sub(self.wake);
                    self.timer.set(set)?;
                }
                None if fired => self.timer.clear(),
                _ => {}
            }
        }
    }

    /// Starts what the line does over time.
    fn begin(&mut self) {
        let now = clock::monotonic();
        self.down.begin(now);
        self.up.begin(now);
        if let Some(hop) = &mut self.hop {
            hop.begin(now);
        }
    }

    /// Follows the median: a step up for each longer wake, a step down for each shorter one.
    /// Less than a step is none: in virtual time nothing is to be taken out.
    fn woken_late(&mut self, lag: Duration) {
        const STEP: Duration = Duration::from_micros(1);
        self.wake = if lag >= self.wake + STEP {
            (self.wake + STEP).min(Duration::from_micros(100))
        } else {
            self.wake.saturating_sub(STEP)
        };
    }

    fn read(&mut self, up: bool, buffer: &mut [u8]) -> Result<(), Error> {
        let expected = self.coming[usize::from(up)].expected(self.wakes);
        let mut found = 0;
        while found < expected {
            let (from, pipe) = if up {
                (&self.ends.gateway, &mut self.up)
            } else {
                (&self.ends.provider, &mut self.down)
            };
            let Some(n) = from.read(buffer)? else { break };
            let packet = &mut buffer[..n];
            let header = self.ends.kind.header_len();
            if found > 0 {
                self.now = clock::monotonic();
            }
            found += 1;
            if let Some(hop) = self.hop.as_ref().filter(|_| !up) {
                hop.stamps(packet.get_mut(header..).unwrap_or_default(), self.now);
            }
            let ip = packet.get(header..).unwrap_or_default();
            if self.filters_icmp && is_icmp(ip)
                || up && self.silent.is_some() && destination(ip) == self.silent
            {
                continue;
            }
            let came = self.now.saturating_sub(self.wake).max(self.slept);
            let Verdict::Depart { mut at } = pipe.enqueue(came, ip.len() as u32) else {
                continue;
            };
            if up && let Some(hop) = &mut self.hop {
                let busy = [&self.up, &self.down]
                    .iter()
                    .any(|p| !p.wait(came).is_zero());
                match hop.treats(ip, at, busy) {
                    Treated::Passes => {}
                    Treated::Later(by) => at += by,
                    Treated::Ignored => continue,
                }
            }
            if up && let Some(to) = destination(ip) {
                at += self
                    .beyond
                    .iter()
                    .find(|b| b.0 == to)
                    .map_or(Duration::ZERO, |b| b.1);
            }
            if let Some(watcher) = &mut self.watcher {
                watcher(Carried {
                    up,
                    came,
                    arrives: at,
                    ip,
                });
            }
            self.order += 1;
            self.under_way.push(Reverse(Departure {
                at,
                order: self.order,
                up,
                packet: packet.to_vec(),
            }));
        }
        self.coming[usize::from(up)] = Coming {
            found: found.max(1),
            at: self.wakes,
        };
        Ok(())
    }

    /// Hands over what is due, `early` at most before its time.
    fn write(&mut self, early: Duration) -> Result<(), Error> {
        while let Some(Reverse(next)) = self.under_way.peek() {
            if next.at > self.now + early {
                break;
            }
            let Some(Reverse(d)) = self.under_way.pop() else {
                break;
            };
            self.lag.add(self.now.abs_diff(d.at));
            let to = if d.up {
                &self.ends.provider
            } else {
                &self.ends.gateway
            };
            if !to.write(&d.packet)? {
                self.refused += 1;
            }
            self.now = clock::monotonic();
        }
        Ok(())
    }
}

/// Where an IP packet goes to; `None` for anything else.
fn destination(ip: &[u8]) -> Option<IpAddr> {
    match ip.first()? >> 4 {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(ip.get(16..20)?).ok()?)),
        6 => Some(IpAddr::from(<[u8; 16]>::try_from(ip.get(24..40)?).ok()?)),
        _ => None,
    }
}

/// Messages of ICMP that a provider may filter; neighbours of IPv6 go on finding each other.
fn is_icmp(ip: &[u8]) -> bool {
    match ip.first().map(|b| b >> 4) {
        Some(4) => ip.get(9) == Some(&1),
        Some(6) => {
            ip.get(6) == Some(&58) && ip.get(40).is_some_and(|t| matches!(t, 1..=4 | 128 | 129))
        }
        _ => false,
    }
}

/// Lateness counted in steps of 10 us up to 100 ms.
#[derive(Debug)]
struct Lag {
    counts: Vec<u64>,
    max: Duration,
}

impl Lag {
    const STEP: Duration = Duration::from_micros(10);

    fn new() -> Self {
        Lag {
            counts: vec![0; 10_000],
            max: Duration::ZERO,
        }
    }

    fn add(&mut self, lag: Duration) {
        let last = self.counts.len() - 1;
        let i = (lag.as_nanos() / Self::STEP.as_nanos()) as usize;
        self.counts[i.min(last)] += 1;
        self.max = self.max.max(lag);
    }

    /// The upper end of the step in which the `q` quantile lies, but at most the worst.
    fn quantile(&self, q: f64) -> Duration {
        let wanted = (self.counts.iter().sum::<u64>() as f64 * q).ceil() as u64;
        let mut seen = 0;
        for (i, n) in (1..).zip(&self.counts) {
            seen += n;
            if seen >= wanted {
                return (Self::STEP * i).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations() {
        let mut v4 = vec![0x45; 20];
        v4[16..20].copy_from_slice(&[198, 18, 0, 2]);
        assert_eq!(destination(&v4), Some("198.18.0.2".parse().unwrap()));
        let mut v6 = vec![0x60; 40];
        v6[24..40].copy_from_slice(&[1; 16]);
        assert_eq!(destination(&v6), Some(IpAddr::from([1u8; 16])));
        for n in 0..20 {
            assert_eq!(destination(&v4[..n]), None);
        }
        assert_eq!(destination(&[0, 1, 8, 0]), None, "ARP");
        assert!(!is_icmp(&v4) && !is_icmp(&v6) && !is_icmp(&[]));
        v4[9] = 1;
        v6[6] = 58;
        v6.push(128);
        assert!(is_icmp(&v4) && is_icmp(&v6));
        v6[40] = 135;
        assert!(!is_icmp(&v6), "neighbour solicitation");
    }

    #[test]
    fn quantiles_of_lag() {
        let mut lag = Lag::new();
        for i in 1..=1000 {
            lag.add(Duration::from_micros(i));
        }
        assert_eq!(lag.quantile(0.99), Duration::from_millis(1));
        assert_eq!(lag.quantile(0.5), Duration::from_micros(510));
        lag.add(Duration::from_secs(9));
        assert_eq!(lag.max, Duration::from_secs(9));
        assert_eq!(Lag::new().quantile(0.99), Duration::ZERO);
    }
}
