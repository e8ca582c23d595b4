//! Which answer belongs to which probe, and when a probe is given up.
//!
//! Principles: each probe gets exactly one [`Outcome`]; an answer after the timeout is *late*, a
//! second one *duplicate*, one from an address that was not asked *foreign*: each is counted and
//! none is a round trip. The steady clock decides on timeouts; a probe during whose flight the
//! wall clock was stepped is void, and no other. What is remembered is bounded, by number
//! ([`MEMORY`] probes) and by time (no answer comes after [`LIFETIME`]). Non-goals: bytes, sockets.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use super::{Clocks, Delays, Fate, Outcome};

/// So many probes are remembered at most, answered ones included; sequence numbers of 16 bits
/// stay unambiguous among them.
pub const MEMORY: usize = 1 << 15;
/// A probe that was given up is remembered for so long, so that a late answer or one more is told
/// from a stray one: no segment lives longer (RFC 9293, maximum segment lifetime).
pub const LIFETIME: Duration = Duration::from_secs(120);
/// The kernel's send stamps may come so much later than the answer.
const STAMP_GRACE: Duration = Duration::from_millis(10);
/// The wall clock may run so much faster or slower than the steady one: 1 ms, and 0.1 % of the
/// time between (NTP slews by at most 0.05 %).
const DRIFT: Duration = Duration::from_millis(1);

/// The two clocks are read so far apart at most.
const TOGETHER: Duration = Duration::from_micros(100);

/// Where on the way out the kernel took a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// Before our own queueing discipline.
    Sched,
    /// In the driver.
    Driver,
}

/// When an answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// The kernel's receive stamp, wall clock.
    Stamp(Duration),
    /// No stamp: when the program saw it.
    Seen,
    /// The kernel measured the round trip itself (TCP).
    Measured(Duration),
}

/// Something that came back for a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// A reply or an error.
    pub fate: Fate,
    /// Who sent it.
    pub from: Option<IpAddr>,
    /// Bytes of payload that came back.
    pub received: Option<u32>,
    /// Hops that it could still have gone.
    pub ttl: Option<u8>,
    /// When.
    pub time: Time,
    /// When it arrived, before our own ingress queue, steady clock; absent if that is not known.
    pub arrived: Option<Duration>,
    /// How long the target says that it held the probe.
    pub held: Duration,
}

/// What the tracker has to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The fate of a probe.
    Outcome(Outcome),
    /// When an answered probe reached the far side, by its clock, in ms since midnight (ICMP time
    /// stamps, RFC 792). Comes before the probe's outcome.
    Far(u64, u32),
    /// An answer after the timeout: probe, and how long after its sending.
    Late(u64, Duration),
    /// One more answer to an answered probe.
    Duplicate(u64),
    /// An answer with the right numbers from an address that was not asked.
    Foreign(u64, Option<IpAddr>),
    /// An answer that belongs to no probe that is remembered, or cannot be told to which.
    Stray,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing came yet.
    Open,
    /// Answered; its send stamps are still to come.
    Answered,
    /// It timed out.
    Lost,
    /// It has its outcome.
    Done,
}

/// As small as can be: thousands are remembered.
#[derive(Debug, Clone, Copy)]
struct Flight {
    size: u32,
    at: Clocks,
    sched: Option<Duration>,
    driver: Option<Duration>,
    state: State,
}

/// Probes under way and those of late.
#[derive(Debug)]
pub struct Tracker {
    target: IpAddr,
    timeout: Duration,
    flights: VecDeque<Flight>,
    /// Number of the first flight that is remembered.
    first: u64,
    /// All before it are over.
    settled: u64,
    open: usize,
    /// Answered ones that wait for stamps, and when the answer was seen.
    waiting: VecDeque<(u64, Answer, Clocks)>,
    events: VecDeque<Event>,
}

impl Tracker {
    /// For probes of `target`, each given up after `timeout`.
    pub fn new(target: IpAddr, timeout: Duration) -> Self {
        Tracker {
            target,
            timeout,
            flights: VecDeque::new(),
            first: 0,
            settled: 0,
            open: 0,
            waiting: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The number that the next probe gets.
    pub fn next(&self) -> u64 {
        self.first + self.flights.len() as u64
    }

    /// Probes without a fate.
    pub fn open(&self) -> usize {
        self.open
    }

    /// No more may be sent until some have their fate.
    pub fn is_full(&self) -> bool {
        self.open >= MEMORY
    }

    /// A probe of `size` bytes is about to be sent.
    pub fn sent(&mut self, size: u32, now: Clocks) -> u64 {
        self.forget(now);
        self.flights.push_back(Flight {
            size,
            at: now,
            sched: None,
            driver: None,
            state: State::Open,
        });
        self.open += 1;
        self.next() - 1
    }

    /// This machine did not send it after all.
    pub fn unsent(&mut self, seq: u64) {
        if self.flight(seq).is_some_and(|f| f.state == State::Open) {
            self.finish(seq, Fate::Unsent, None, false);
        }
    }

    /// The kernel stamped a probe on its way out.
    pub fn stamp(&mut self, seq: u64, stamp: Stamp, at: Duration) {
        let Some(f) = self.flight_mut(seq) else {
            return;
        };
        // A stamp from before the send is some other probe's: numbers are out of step.
        if at < f.at.wall {
            return;
        }
        match stamp {
            Stamp::Sched => f.sched = Some(at),
            Stamp::Driver => f.driver = Some(at),
        }
        if f.state == State::Answered
            && f.sched.is_some()
            && f.driver.is_some()
            && let Some(at) = self.waiting.iter().position(|w| w.0 == seq)
            && let Some((_, answer, seen)) = self.waiting.remove(at)
        {
            self.settle(seq, answer, seen);
        }
    }

    /// The far side says when probe `seq` reached it, ms since midnight.
    pub fn far(&mut self, seq: u64, ms: u32) {
        if self.flight(seq).is_some_and(|f| f.state == State::Open) {
            self.events.push_back(Event::Far(seq, ms));
        }
    }

    /// Something came back for probe `seq`.
    pub fn answer(&mut self, seq: u64, answer: Answer, now: Clocks) {
        let target = self.target;
        let Some(f) = self.flight_mut(seq) else {
            self.events.push_back(Event::Stray);
            return;
        };
        let from_target = answer.from.is_none_or(|from| from == target);
        // Errors come from anywhere on the path; all else only from where it was sent.
        if !answer.fate.is_error() && !from_target {
            self.events.push_back(Event::Foreign(seq, answer.from));
            return;
        }
        match f.state {
            State::Open => {
                let stamped = f.sched.is_some() && f.driver.is_some();
                if stamped || matches!(answer.time, Time::Measured(_)) {
                    self.settle(seq, answer, now);
                } else {
                    f.state = State::Answered;
                    self.waiting.push_back((seq, answer, now));
                }
            }
            State::Lost => {
                let after = now.mono.saturating_sub(f.at.mono);
                self.events.push_back(Event::Late(seq, after));
            }
            State::Answered | State::Done => self.events.push_back(Event::Duplicate(seq)),
        }
    }

    /// An answer came that nobody can say whose it is.
    pub fn stray(&mut self) {
        self.events.push_back(Event::Stray);
    }

    /// Time has passed: gives up what is due.
    pub fn advance(&mut self, now: Clocks) {
        while let Some((seq, answer, seen)) = self.waiting.front().copied() {
            if now.mono < seen.mono + STAMP_GRACE {
                break;
            }
            self.waiting.pop_front();
            self.settle(seq, answer, seen);
        }
        loop {
            self.skip_settled();
            let Some(f) = self.flight(self.settled) else {
                break;
            };
            if now.mono < f.at.mono + self.timeout || f.state != State::Open {
                break;
            }
            self.finish(self.settled, Fate::Timeout, None, false);
            let lost = self.settled;
            if let Some(f) = self.flight_mut(lost) {
                f.state = State::Lost;
            }
        }
    }

    /// When [`Self::advance`] has something to do next, steady clock.
    pub fn deadline(&mut self) -> Option<Duration> {
        self.skip_settled();
        let stamps = self.waiting.front().map(|w| w.2.mono + STAMP_GRACE);
        let timeout = self
            .flight(self.settled)
            .filter(|f| f.state == State::Open)
            .map(|f| f.at.mono + self.timeout);
        stamps.into_iter().chain(timeout).min()
    }

    /// The next thing to tell.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The probe that a sequence number of 16 bits means: the latest that ends with it.
    pub fn unwrap16(&self, sequence: u16) -> Option<u64> {
        let last = self.next().checked_sub(1)?;
        let back = u64::from((last as u16).wrapping_sub(sequence));
        last.checked_sub(back).filter(|seq| *seq >= self.first)
    }

    /// The same for 32 bits.
    pub fn unwrap32(&self, sequence: u32) -> Option<u64> {
        let last = self.next().checked_sub(1)?;
        let back = u64::from((last as u32).wrapping_sub(sequence));
        last.checked_sub(back).filter(|seq| *seq >= self.first)
    }

    /// Payload bytes of probe `seq`, if it is remembered.
    pub fn size_of(&self, seq: u64) -> Option<u32> {
        self.flight(seq).map(|f| f.size)
    }

    /// How many of its two send stamps a probe has; 2 if it is not remembered.
    pub fn stamps_of(&self, seq: u64) -> u8 {
        self.flight(seq).map_or(2, |f| {
            u8::from(f.sched.is_some()) + u8::from(f.driver.is_some())
        })
    }

    /// Whether probe `seq` has no fate yet.
    pub fn is_open(&self, seq: u64) -> bool {
        self.flight(seq)
            .is_some_and(|f| matches!(f.state, State::Open | State::Answered))
    }

    /// Forgets those that nothing is expected of any more.
    fn forget(&mut self, now: Clocks) {
        while self.settled > self.first
            && let Some(oldest) = self.flights.front()
        {
            let kept = self.timeout.saturating_add(LIFETIME);
            let over = now.mono.saturating_sub(oldest.at.mono) >= kept;
            if !over && self.flights.len() < MEMORY {
                break;
            }
            self.flights.pop_front();
            self.first += 1;
        }
    }

    fn skip_settled(&mut self) {
        while self
            .flight(self.settled)
            .is_some_and(|f| matches!(f.state, State::Done | State::Lost))
        {
            self.settled += 1;
        }
    }

    /// The outcome of an answered probe.
    fn settle(&mut self, seq: u64, answer: Answer, seen: Clocks) {
        let Some(f) = self.flight(seq).copied() else {
            return;
        };
        let ahead = |c: Clocks| c.wall.as_nanos() as i128 - c.mono.as_nanos() as i128;
        let between = seen.mono.saturating_sub(f.at.mono);
        let tolerated = (DRIFT + between / 1000).as_nanos();
        let stepped = (ahead(seen) - ahead(f.at)).unsigned_abs() > tolerated;
        let mut stamped = f.sched.is_some();
        let delays = match answer.time {
            Time::Measured(rtt) => {
                stamped = true;
                Some(Delays {
                    felt: rtt,
                    queue: None,
                    path: None,
                    ingress: None,
                })
            }
            _ if stepped => None,
            time => {
                let came = if let Time::Stamp(at) = time {
                    at
                } else {
                    stamped = false;
                    seen.wall
                };
                let since = |from: Duration| came.saturating_sub(from).saturating_sub(answer.held);
                let queue = f.sched.zip(f.driver).map(|(s, d)| d.saturating_sub(s));
                // One from before the send, or after the answer, is that of another probe.
                let arrived = answer.arrived.filter(|a| *a >= f.at.mono);
                let ingress = arrived.and_then(|a| {
                    let at = seen.wall.checked_sub(seen.mono.checked_sub(a)?)?;
                    (at <= came + TOGETHER).then(|| came.saturating_sub(at))
                });
                let waited = ingress.unwrap_or_default();
                Some(Delays {
                    felt: since(f.sched.unwrap_or(f.at.wall)),
                    queue,
                    path: f.driver.map(|d| since(d).saturating_sub(waited)),
                    ingress,
                })
            }
        };
        let fate = match (answer.fate, delays) {
            (_, None) => Fate::Void,
            (fate, _) => fate,
        };
        self.finish(seq, fate, Some((answer, delays)), stamped);
    }

    fn finish(
        &mut self,
        seq: u64,
        fate: Fate,
        answer: Option<(Answer, Option<Delays>)>,
        stamped: bool,
    ) {
        let Some(f) = self.flight_mut(seq) else {
            return;
        };
        f.state = State::Done;
        let outcome = Outcome {
            seq,
            sent: f.sched.unwrap_or(f.at.wall),
            size: f.size,
            fate,
            from: answer.and_then(|a| a.0.from),
            received: answer.and_then(|a| a.0.received),
            ttl: answer.and_then(|a| a.0.ttl),
            delays: answer.and_then(|a| a.1),
            stamped,
        };
        self.open -= 1;
        self.events.push_back(Event::Outcome(outcome));
    }

    fn flight(&self, seq: u64) -> Option<&Flight> {
        self.flights.get(seq.checked_sub(self.first)? as usize)
    }

    fn flight_mut(&mut self, seq: u64) -> Option<&mut Flight> {
        self.flights.get_mut(seq.checked_sub(self.first)? as usize)
    }
}

#[cfg(test)]
#[path = "track_tests.rs"]
mod tests;
