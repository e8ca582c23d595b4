//! One direction of a line: a rate, a buffer in front of it and a delay behind it.
//!
//! A packet passes a policer if there is one, waits in a FIFO of bytes that may be managed, is
//! serialised at the line's rate (or at what a token bucket leaves of it) with the line's framing,
//! and arrives after a fixed delay plus jitter, or at the next turn of a medium that has turns. The one model drives the emulator between two
//! TUN devices and every simulator.
//!
//! Principles: a departure comes from arithmetic (end of serialisation plus delay), never from
//! when somebody looked; packets keep their order; all randomness comes from the seed.
//! Non-goals: moving packets (the caller holds them), queues of several flows, who else wants a
//! shared medium.

use std::collections::VecDeque;
use std::time::Duration;

use crate::framing::Framing;
use crate::units::Rate;

mod arithmetic;
mod bucket;
mod codel;

pub use bucket::{Bucket, BucketKind};
pub use codel::CoDel;

use arithmetic::{FULL_PACKET, NS_PER_S, nanos};
use bucket::Tokens;

/// A rate over time, constant between steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateTrace {
    /// Start of each step and the rate from there on; the first is at zero.
    steps: Vec<(Duration, Rate)>,
    /// After this time the trace starts again. `None`: the last step lasts.
    period: Option<Duration>,
}

/// Why a list of steps is not a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// No step, or the first one does not start at 0.
    #[error("a trace starts with a step at 0")]
    Start,
    /// Steps are not in ascending order of time.
    #[error("the step at {0:?} does not come after the one before it")]
    Order(Duration),
    /// Nothing would ever leave the line again.
    #[error("the line stays at rate 0 for ever")]
    Dead,
    /// The period is not longer than the start of the last step.
    #[error("the period {0:?} ends before the last step begins")]
    Period(Duration),
}

impl RateTrace {
    /// Always `rate`, which is not zero.
    pub fn constant(rate: Rate) -> Self {
        RateTrace {
            steps: vec![(Duration::ZERO, rate.max(Rate::from_bps(1)))],
            period: None,
        }
    }

    /// Steps of (start, rate), ascending from zero; rate 0 is an outage. With a `period` the
    /// steps repeat.
    pub fn steps(
        steps: Vec<(Duration, Rate)>,
        period: Option<Duration>,
    ) -> Result<Self, TraceError> {
        if steps.first().is_none_or(|s| s.0 != Duration::ZERO) {
            return Err(TraceError::Start);
        }
        if let Some(w) = steps.windows(2).find(|w| w[1].0 <= w[0].0) {
            return Err(TraceError::Order(w[1].0));
        }
        let last = steps[steps.len() - 1];
        if let Some(p) = period.filter(|p| *p <= last.0) {
            return Err(TraceError::Period(p));
        }
        let alive = match period {
            Some(_) => steps.iter().any(|s| s.1.bps() > 0),
            None => last.1.bps() > 0,
        };
        if !alive {
            return Err(TraceError::Dead);
        }
        Ok(RateTrace { steps, period })
    }

    /// The rate at time `t`, and when it changes next.
    pub fn at(&self, t: Duration) -> (Rate, Option<Duration>) {
        let base = self.period.map_or(Duration::ZERO, |p| {
            let whole = t.as_nanos() / p.as_nanos().max(1);
            nanos(whole * p.as_nanos())
        });
        let within = t.saturating_sub(base);
        let i = self.steps.partition_point(|s| s.0 <= within).max(1) - 1;
        let next = self.steps.get(i + 1).map(|s| s.0).or(self.period);
        (self.steps[i].1, next.map(|n| base + n))
    }

    /// The highest rate of the trace.
    pub fn peak(&self) -> Rate {
        self.steps.iter().map(|s| s.1).max().unwrap_or_default()
    }

    /// When `bytes` whose serialisation starts at `start` have left, rounded up to a nanosecond.
    fn finish(&self, start: Duration, bytes: u32) -> Duration {
        // In bit-nanoseconds per second: bits left, times 1e9.
        let mut left = u128::from(bytes) * 8 * NS_PER_S;
        let mut t = start;
        loop {
            let (rate, until) = self.at(t);
            let rate = u128::from(rate.bps());
            let Some(until) = until else {
                return t + nanos(left.div_ceil(rate.max(1)));
            };
            let room = rate * until.saturating_sub(t).as_nanos();
            if left <= room {
                return t + nanos(left.div_ceil(rate.max(1)));
            }
            left -= room;
            t = until;
        }
    }
}

/// How much may wait in front of the line, the packet being sent included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// This many bytes on the wire.
    Bytes(u64),
    /// What the line carries in this time, at the rate of the moment.
    Time(Duration),
    /// This many packets, however long.
    Packets(u64),
}

/// What one direction of a line is.
#[derive(Debug, Clone, PartialEq)]
pub struct PipeConfig {
    /// Link-layer rate.
    pub rate: RateTrace,
    /// How packets are framed.
    pub framing: Framing,
    /// Tail drop beyond this.
    pub buffer: Buffer,
    /// What is sold is less than the rate: who sends more is policed or shaped.
    pub bucket: Option<Bucket>,
    /// The buffer is managed by `CoDel`, beside tail drop.
    pub managed: Option<CoDel>,
    /// A medium that has turns: what has been serialised arrives with the next one, and one comes
    /// this often. Zero: no turns.
    pub turns: Duration,
    /// From the end of serialisation to arrival.
    pub delay: Duration,
    /// More of it over time: start of each step, ascending from zero, and how much from there
    /// on. Packets do not overtake each other.
    pub wander: Vec<(Duration, Duration)>,
    /// Up to this much more, evenly distributed; packets do not overtake each other.
    pub jitter: Duration,
    /// Share of packets lost on the line after serialisation, 0..1.
    pub loss: f64,
    /// Seed of jitter and loss.
    pub seed: u64,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It arrives at the other end at this time.
    Depart {
        /// On the clock of `enqueue`'s `now`.
        at: Duration,
    },
    /// It does not arrive.
    Drop(DropReason),
}

/// Why a packet does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The buffer is full.
    Tail,
    /// Lost on the line; it took its time there.
    Loss,
    /// More than the policer lets pass.
    Policed,
    /// The managed queue took it out.
    Managed,
}

/// What has passed so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PipeStats {
    /// Packets that arrive.
    pub packets: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// Packets dropped because the buffer was full.
    pub tail_drops: u64,
    /// Packets lost on the line.
    pub losses: u64,
    /// Packets that a policer dropped.
    pub policed: u64,
    /// Packets that a managed queue dropped.
    pub managed_drops: u64,
    /// Most bytes on the wire that were waiting at once.
    pub max_backlog: u64,
}

/// One direction of a line.
#[derive(Debug, Clone)]
pub struct Pipe {
    config: PipeConfig,
    random: SplitMix64,
    tokens: Option<Tokens>,
    codel: Option<codel::State>,
    /// End of serialisation and wire length of what is waiting or being sent.
    waiting: VecDeque<(Duration, u32)>,
    backlog: u64,
    /// Latest `now` seen.
    clock: Duration,
    /// When the line is free again.
    free_at: Duration,
    /// When the traces began.
    begun: Duration,
    last_arrival: Duration,
    stats: PipeStats,
}

impl Pipe {
    /// An empty line.
    pub fn new(config: PipeConfig) -> Self {
        let random = SplitMix64::new(config.seed);
        let packet = config.rate.finish(Duration::ZERO, FULL_PACKET);
        Pipe {
            tokens: config.bucket.map(Tokens::new),
            codel: config.managed.map(|c| codel::State::new(c, packet)),
            config,
            random,
            waiting: VecDeque::new(),
            backlog: 0,
            clock: Duration::ZERO,
            free_at: Duration::ZERO,
            begun: Duration::ZERO,
            last_arrival: Duration::ZERO,
            stats: PipeStats::default(),
        }
    }

    /// An IP packet of `ip_len` bytes reaches the buffer at `now`. Times before the latest one
    /// seen count as the latest one.
    pub fn enqueue(&mut self, now: Duration, ip_len: u32) -> Verdict {
        let wire = self.config.framing.wire_len(ip_len);
        let backlog = self.backlog(now);
        if let Some(t) = self.tokens.as_mut().filter(|t| t.is_policer())
            && !t.take(self.clock, wire)
        {
            self.stats.policed += 1;
            return Verdict::Drop(DropReason::Policed);
        }
        if backlog > 0 && self.is_full(wire) {
            self.stats.tail_drops += 1;
            return Verdict::Drop(DropReason::Tail);
        }
        let mut start = self.clock.max(self.free_at);
        if let Some(codel) = &mut self.codel
            && codel.drops(start, start.saturating_sub(self.clock))
        {
            self.stats.managed_drops += 1;
            return Verdict::Drop(DropReason::Managed);
        }
        if let Some(t) = self.tokens.as_mut().filter(|t| !t.is_policer()) {
            start = t.wait(start, wire);
        }
        let since = self.since_begin(start);
        let took = self.config.rate.finish(since, wire).saturating_sub(since);
        let finish = start + took;
        self.free_at = finish;
        self.waiting.push_back((finish, wire));
        self.backlog += u64::from(wire);
        self.stats.max_backlog = self.stats.max_backlog.max(self.backlog);
        if self.config.loss > 0.0 && self.random.unit() < self.config.loss {
            self.stats.losses += 1;
            return Verdict::Drop(DropReason::Loss);
        }
        let mut at = finish + self.config.delay + self.wander(finish);
        if !self.config.jitter.is_zero() {
            at += self.config.jitter.mul_f64(self.random.unit());
        }
        if !self.config.turns.is_zero() {
            let turn = self.config.turns.as_nanos();
            at = nanos(at.as_nanos().div_ceil(turn) * turn);
        }
        at = at.max(self.last_arrival);
        self.last_arrival = at;
        self.stats.packets += 1;
        self.stats.wire_bytes += u64::from(wire);
        Verdict::Depart { at }
    }

    /// Bytes on the wire that are waiting or being sent at `now`.
    pub fn backlog(&mut self, now: Duration) -> u64 {
        self.clock = self.clock.max(now);
        while let Some(&(finish, wire)) = self.waiting.front() {
            if finish > self.clock {
                break;
            }
            self.waiting.pop_front();
            self.backlog -= u64::from(wire);
        }
        self.backlog
    }

    /// How long a packet that arrives at `now` waits before its serialisation starts.
    pub fn wait(&self, now: Duration) -> Duration {
        self.free_at.saturating_sub(now.max(self.clock))
    }

    /// What the line carries at `now` for who has traffic: the rate of the trace, and no more than is
    /// sold where that is policed, or shaped and the burst is used up.
    pub fn rate(&self, now: Duration) -> Rate {
        let rate = self.config.rate.at(self.since_begin(now)).0;
        self.tokens.as_ref().map_or(rate, |t| t.rate(rate, now))
    }

    /// What who sends all the time can count on from `now` on: as [`Pipe::rate`], but it does not follow
    /// each token that comes and goes.
    pub fn sustained(&mut self, now: Duration) -> Rate {
        let rate = self.config.rate.at(self.since_begin(now)).0;
        let tokens = self.tokens.as_mut();
        tokens.map_or(rate, |t| t.sustained(rate, now))
    }

    /// What has passed so far.
    pub fn stats(&self) -> PipeStats {
        self.stats
    }

    /// The traces begin at `now`; before they stand at their first steps. A pipe that was never
    /// told begins at zero.
    pub fn begin(&mut self, now: Duration) {
        self.begun = now;
    }

    /// Where the traces are at `t`.
    fn since_begin(&self, t: Duration) -> Duration {
        t.saturating_sub(self.begun)
    }

    /// The delay on top of the usual one at `t`.
    fn wander(&self, t: Duration) -> Duration {
        let t = self.since_begin(t);
        let past = self.config.wander.partition_point(|s| s.0 <= t);
        let step = past.checked_sub(1).and_then(|i| self.config.wander.get(i));
        step.map_or(Duration::ZERO, |s| s.1)
    }

    /// Whether `wire` bytes more do not fit into the buffer.
    fn is_full(&self, wire: u32) -> bool {
        let bytes = self.backlog + u64::from(wire);
        match self.config.buffer {
            Buffer::Bytes(b) => bytes > b,
            Buffer::Time(t) => bytes > self.rate(self.clock).bytes_in(t),
            Buffer::Packets(n) => self.waiting.len() as u64 >= n,
        }
    }
}

/// `SplitMix64` (Steele, Lea, Flood 2014): small, and enough for jitter and loss.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Evenly distributed in 0..1, of 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests;
