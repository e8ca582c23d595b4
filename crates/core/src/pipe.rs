//! One direction of a line: a rate, a buffer in front of it and a delay behind it.
//!
//! A packet waits in a FIFO of bytes, is serialised at the line's rate with the line's framing,
//! and arrives after a fixed delay plus jitter. The one model drives the emulator between two
//! TUN devices and every simulator.
//!
//! Principles: a departure comes from arithmetic (end of serialisation plus delay), never from
//! when somebody looked; packets keep their order; all randomness comes from the seed.
//! Non-goals: moving packets (the caller holds them), queue disciplines other than tail drop,
//! contention for a shared medium.

use std::collections::VecDeque;
use std::time::Duration;

use crate::framing::Framing;
use crate::units::Rate;

const NS_PER_S: u128 = 1_000_000_000;

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

fn nanos(ns: u128) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
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
    /// Most bytes on the wire that were waiting at once.
    pub max_backlog: u64,
}

/// One direction of a line.
#[derive(Debug, Clone)]
pub struct Pipe {
    config: PipeConfig,
    random: SplitMix64,
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
        Pipe {
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
        if backlog > 0 && self.is_full(wire) {
            self.stats.tail_drops += 1;
            return Verdict::Drop(DropReason::Tail);
        }
        let start = self.clock.max(self.free_at);
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
            Buffer::Time(t) => {
                let now = self.since_begin(self.clock);
                bytes > self.config.rate.at(now).0.bytes_in(t)
            }
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
mod tests {
    use super::*;
    use crate::framing::Mode;
    use proptest::prelude::*;

    fn pipe(rate: RateTrace, buffer: Buffer) -> Pipe {
        Pipe::new(PipeConfig {
            rate,
            framing: Framing::default(),
            buffer,
            delay: Duration::from_millis(4),
            wander: Vec::new(),
            jitter: Duration::ZERO,
            loss: 0.0,
            seed: 1,
        })
    }

    const FULL: Verdict = Verdict::Drop(DropReason::Tail);

    fn ms(v: u64) -> Duration {
        Duration::from_millis(v)
    }

    #[test]
    fn idle_packet_takes_serialisation_and_delay() {
        // VDSL-100 upload: 1500 + 22 bytes, 24 of 64b/65b, 12368 bits at 40.143 Mbit/s.
        let mut p = pipe(
            RateTrace::constant(Rate::from_kbit(40_143)),
            Buffer::Bytes(1 << 20),
        );
        p.config.framing = Framing::new(Mode::Ptm, 22, 0);
        let ns = (12_368u64 * 1_000_000).div_ceil(40_143);
        let at = ms(1) + Duration::from_nanos(ns) + ms(4);
        assert_eq!(p.enqueue(ms(1), 1500), Verdict::Depart { at });
    }

    #[test]
    fn tail_drop_arithmetic() {
        // 8 Mbit/s is a byte each microsecond; 30 ms are 30000 bytes, 30 packets of 1000.
        for buffer in [Buffer::Bytes(30_000), Buffer::Time(ms(30))] {
            let mut p = pipe(RateTrace::constant(Rate::from_kbit(8_000)), buffer);
            for i in 1..=30 {
                let at = ms(i) + ms(4);
                assert_eq!(p.enqueue(Duration::ZERO, 1000), Verdict::Depart { at });
            }
            let full = Verdict::Drop(DropReason::Tail);
            assert_eq!(p.enqueue(Duration::ZERO, 1000), full);
            assert_eq!(p.enqueue(Duration::from_micros(999), 1000), full);
            assert_eq!(p.enqueue(ms(1), 1000), Verdict::Depart { at: ms(35) });
            assert_eq!((p.stats().tail_drops, p.stats().max_backlog), (2, 30_000));
        }
    }

    #[test]
    fn a_buffer_of_packets_counts_packets() {
        let mut p = pipe(
            RateTrace::constant(Rate::from_kbit(8_000)),
            Buffer::Packets(3),
        );
        for (len, fits) in [(1500, true), (40, true), (1500, true), (40, false)] {
            let v = p.enqueue(Duration::ZERO, len);
            assert_eq!(v != Verdict::Drop(DropReason::Tail), fits, "{len}");
        }
        assert!(matches!(p.enqueue(ms(2), 40), Verdict::Depart { .. }));
    }

    #[test]
    fn traces_begin_when_told() {
        let steps = vec![
            (ms(0), Rate::from_kbit(8_000)),
            (ms(10), Rate::from_kbit(800)),
        ];
        let mut p = pipe(
            RateTrace::steps(steps, None).unwrap(),
            Buffer::Bytes(1 << 20),
        );
        p.config.wander = vec![(ms(0), ms(1)), (ms(10), ms(3))];
        p.begin(ms(1000));
        // Before and just after: 1 ms for 1000 bytes, 4 + 1 ms of delay.
        for t in [500, 1005] {
            assert_eq!(p.enqueue(ms(t), 1000), Verdict::Depart { at: ms(t + 6) });
        }
        // From 1010 on: 10 ms for 1000 bytes, 4 + 3 ms.
        assert_eq!(p.enqueue(ms(1010), 1000), Verdict::Depart { at: ms(1027) });
    }

    #[test]
    fn a_packet_larger_than_the_buffer_passes_an_empty_line() {
        let mut p = pipe(
            RateTrace::constant(Rate::from_kbit(8_000)),
            Buffer::Bytes(100),
        );
        assert!(matches!(
            p.enqueue(Duration::ZERO, 1000),
            Verdict::Depart { .. }
        ));
        assert_eq!(
            p.enqueue(Duration::ZERO, 20),
            Verdict::Drop(DropReason::Tail)
        );
    }

    #[test]
    fn steps_outage_and_period() {
        let mbit = |v: u64| Rate::from_kbit(v * 8_000); // v bytes each microsecond
        let t = RateTrace::steps(
            vec![
                (ms(0), mbit(1)),
                (ms(10), Rate::from_bps(0)),
                (ms(20), mbit(2)),
            ],
            Some(ms(30)),
        )
        .unwrap();
        assert_eq!(t.finish(ms(0), 10_000), ms(10));
        assert_eq!(t.finish(ms(5), 7_000), ms(21));
        assert_eq!(t.finish(ms(12), 20_000), ms(30));
        assert_eq!(t.finish(ms(29), 3_000), ms(31));
        assert_eq!(
            t.at(ms(61)),
            (Rate::from_kbit(8_000), Some(ms(70))),
            "the third period"
        );
        assert_eq!(t.peak(), mbit(2));
    }

    #[test]
    fn a_list_of_steps_is_refused_for_what_is_wrong_with_it() {
        let rate = Rate::from_kbit(8);
        for (steps, period, why) in [
            (vec![], None, TraceError::Start),
            (vec![(ms(1), rate)], None, TraceError::Start),
            (
                vec![(ms(0), rate), (ms(0), rate)],
                None,
                TraceError::Order(ms(0)),
            ),
            (
                vec![(ms(0), rate), (ms(5), rate), (ms(4), rate)],
                None,
                TraceError::Order(ms(4)),
            ),
            (
                vec![(ms(0), rate), (ms(9), Rate::from_bps(0))],
                None,
                TraceError::Dead,
            ),
            (
                vec![(ms(0), rate), (ms(9), rate)],
                Some(ms(9)),
                TraceError::Period(ms(9)),
            ),
        ] {
            assert_eq!(RateTrace::steps(steps, period), Err(why));
        }
        let steps = vec![(ms(0), rate), (ms(9), rate)];
        assert!(RateTrace::steps(steps, Some(ms(10))).is_ok());
    }

    /// 8 kbit/s are a byte each millisecond.
    #[test]
    fn a_step_begins_at_its_time() {
        let (slow, fast) = (Rate::from_kbit(8), Rate::from_kbit(80));
        let trace = RateTrace::steps(vec![(ms(0), slow), (ms(10), fast)], None).unwrap();
        let just_before = Duration::from_nanos(9_999_999);
        assert_eq!(trace.at(ms(0)), (slow, Some(ms(10))));
        assert_eq!(trace.at(just_before), (slow, Some(ms(10))));
        assert_eq!(trace.at(ms(10)), (fast, None));
        // Ten bytes fill the first step, the eleventh takes a tenth of the time.
        assert_eq!(trace.finish(ms(0), 10), ms(10));
        assert_eq!(trace.finish(ms(0), 11), ms(10) + Duration::from_micros(100));
        assert_eq!(RateTrace::constant(Rate::from_bps(0)).peak().bps(), 1);
    }

    #[test]
    fn a_line_tells_how_long_a_packet_waits() {
        // 1000 bytes take a millisecond.
        let rate = RateTrace::constant(Rate::from_kbit(8_000));
        let mut p = pipe(rate, Buffer::Bytes(1 << 20));
        assert_eq!(p.wait(ms(7)), ms(0));
        for _ in 0..3 {
            p.enqueue(ms(10), 1000);
        }
        for (now, wait) in [(10, 3), (12, 1), (13, 0), (20, 0)] {
            assert_eq!(p.wait(ms(now)), ms(wait), "{now}");
        }
        // What was seen already is not asked for again.
        assert_eq!(p.wait(ms(0)), ms(3));
        for (now, bytes) in [(10, 3000), (11, 2000), (12, 1000), (13, 0)] {
            assert_eq!(p.backlog(ms(now)), bytes, "{now}");
        }
    }

    #[test]
    fn what_has_passed_is_counted() {
        let rate = RateTrace::constant(Rate::from_kbit(8_000));
        let mut p = pipe(rate, Buffer::Bytes(2000));
        p.config.framing = Framing::new(Mode::None, 10, 0);
        for len in [990, 490, 500, 40] {
            p.enqueue(ms(0), len);
        }
        p.config.loss = 1.0;
        p.enqueue(ms(100), 90);
        p.config.loss = 0.0;
        p.enqueue(ms(200), 190);
        let stats = PipeStats {
            packets: 3 + 1,
            wire_bytes: 1000 + 500 + 50 + 200,
            tail_drops: 1,
            losses: 1,
            max_backlog: 1550,
        };
        assert_eq!(p.stats(), stats);
    }

    /// The reference implementation's numbers (Vigna, splitmix64.c) for the seeds 1234567 and 0.
    #[test]
    fn the_generator_is_splitmix64() {
        let mut random = SplitMix64::new(1_234_567);
        for expected in [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ] {
            assert_eq!(random.next_u64(), expected);
        }
        let mut random = SplitMix64::new(0);
        assert_eq!(random.next_u64(), 0xE220_A839_7B1D_CDAF);
        // The upper 53 bits of that number and of the next one, as shares of 2^53.
        let of_53_bits = |bits: u64| bits as f64 / 9_007_199_254_740_992.0;
        let mut random = SplitMix64::new(0);
        assert!((random.unit() - of_53_bits(0xE220_A839_7B1D_CDAF >> 11)).abs() < 1e-15);
        assert!((random.unit() - of_53_bits(0x6E78_9E6A_A1B9_65F4 >> 11)).abs() < 1e-15);
    }

    /// Without loss the first number is the first packet's jitter: 0.883311 for seed 0.
    #[test]
    fn jitter_adds_its_share_to_the_delay() {
        let mut p = pipe(
            RateTrace::constant(Rate::from_kbit(8_000)),
            Buffer::Bytes(1 << 20),
        );
        p.config.jitter = Duration::from_secs(1);
        p.random = SplitMix64::new(0);
        let Verdict::Depart { at } = p.enqueue(ms(10), 1000) else {
            panic!("lost");
        };
        let more = at.as_secs_f64() - 0.015;
        assert!((more - 0.883_310_808).abs() < 1e-8, "{more}");
    }

    /// A packet is lost if its number, which is below 1, is below the share: never at 0, always
    /// at 1.
    #[test]
    fn the_share_of_lost_packets_is_a_bound() {
        let number = SplitMix64::new(0).unit();
        for (share, lost) in [
            (0.0, false),
            (number, false),
            (number + 1e-12, true),
            (1.0, true),
        ] {
            let rate = RateTrace::constant(Rate::from_kbit(8_000));
            let mut p = pipe(rate, Buffer::Bytes(1 << 20));
            p.random = SplitMix64::new(0);
            p.config.loss = share;
            let verdict = p.enqueue(ms(0), 1000);
            assert_eq!(verdict == Verdict::Drop(DropReason::Loss), lost, "{share}");
        }
    }

    #[test]
    fn a_buffer_of_time_follows_the_rate() {
        // 10 ms are 10000 bytes at first, 1000 from 100 ms after the traces began.
        let steps = vec![
            (ms(0), Rate::from_kbit(8_000)),
            (ms(100), Rate::from_kbit(800)),
        ];
        let trace = RateTrace::steps(steps, None).unwrap();
        for (now, fit) in [(50, 10), (150, 10), (200, 1)] {
            let mut p = pipe(trace.clone(), Buffer::Time(ms(10)));
            p.begin(ms(60));
            let passed = (0..20).filter(|_| p.enqueue(ms(now), 1000) != FULL);
            assert_eq!(passed.count(), fit, "{now}");
        }
    }

    #[test]
    fn loss_and_jitter_follow_the_seed() {
        let run = |seed| {
            let mut p = pipe(
                RateTrace::constant(Rate::from_kbit(80_000)),
                Buffer::Bytes(1 << 30),
            );
            p.config.jitter = ms(3);
            p.config.loss = 0.1;
            p.random = SplitMix64::new(seed);
            let v: Vec<_> = (0..5000).map(|i| p.enqueue(ms(i), 100)).collect();
            (v, p.stats().losses)
        };
        let (a, lost) = run(7);
        assert_eq!(a, run(7).0);
        assert_ne!(a, run(8).0);
        assert!((400..600).contains(&lost), "{lost}");
        for (i, v) in (0..).zip(&a) {
            if let Verdict::Depart { at } = v {
                let more = at.saturating_sub(ms(i) + ms(4) + Duration::from_micros(10));
                assert!(more <= ms(3), "{more:?}");
            }
        }
    }

    /// Random arrivals: gap in us, IP length.
    fn arrivals() -> impl Strategy<Value = Vec<(u64, u32)>> {
        proptest::collection::vec((0u64..3000, 20u32..1500), 1..300)
    }

    proptest! {
        #[test]
        fn order_rate_and_queue_are_bounded(
            arrivals in arrivals(), kbit in 100u64..200_000, buffer in 2_000u64..200_000, atm: bool,
        ) {
            let rate = Rate::from_kbit(kbit);
            let mut p = pipe(RateTrace::constant(rate), Buffer::Bytes(buffer));
            if atm { p.config.framing = Framing::new(Mode::Atm, 40, 0); }
            let framing = p.config.framing;
            let mut now = Duration::ZERO;
            let mut passed: Vec<(Duration, u64)> = Vec::new();
            for (gap, len) in arrivals {
                now += Duration::from_micros(gap);
                if let Verdict::Depart { at } = p.enqueue(now, len) {
                    let wire = u64::from(framing.wire_len(len));
                    let own = rate.time_for(wire).unwrap();
                    // FIFO; no earlier than serialisation and delay allow; queue <= buffer/rate.
                    prop_assert!(passed.last().is_none_or(|l| l.0 <= at));
                    prop_assert!(at >= now + own + ms(4));
                    let bound = rate.time_for(buffer.max(wire)).unwrap();
                    // Each packet's end is rounded up by less than a nanosecond.
                    prop_assert!(at <= now + ms(4) + bound + Duration::from_nanos(300));
                    passed.push((at, wire));
                }
            }
            // Over any interval between two departures no more passes than the rate allows.
            for i in 0..passed.len() {
                let mut sum = 0;
                for j in i + 1..passed.len() {
                    sum += passed[j].1;
                    prop_assert!(sum * 8 <= rate.bps() * passed[j].0.saturating_sub(passed[i].0).as_nanos() as u64 / 1_000_000_000 + 1);
                }
            }
        }

        #[test]
        fn jitter_never_reorders(arrivals in arrivals(), seed: u64) {
            let mut p = pipe(RateTrace::constant(Rate::from_kbit(50_000)), Buffer::Bytes(1 << 20));
            p.config.jitter = ms(20);
            p.random = SplitMix64::new(seed);
            let mut now = Duration::ZERO;
            let mut last = Duration::ZERO;
            for (gap, len) in arrivals {
                now += Duration::from_micros(gap);
                if let Verdict::Depart { at } = p.enqueue(now, len) {
                    prop_assert!(at >= last);
                    last = at;
                }
            }
        }

        #[test]
        fn time_running_backwards_is_harmless(times in proptest::collection::vec(0u64..1_000_000, 1..100)) {
            let mut p = pipe(RateTrace::constant(Rate::from_kbit(1_000)), Buffer::Bytes(10_000));
            let mut last = Duration::ZERO;
            for t in times {
                if let Verdict::Depart { at } = p.enqueue(Duration::from_micros(t), 500) {
                    prop_assert!(at > last);
                    last = at;
                }
            }
        }
    }

    /// A line that repeats may rest at its end, but not for ever.
    #[test]
    fn some_step_of_a_line_carries_something() {
        let trace = |kbit: [u64; 2], period: Option<u64>| {
            let steps = [0, 1].map(|s| {
                let rate = Rate::from_kbit(kbit[s as usize]);
                (Duration::from_secs(s), rate)
            });
            RateTrace::steps(steps.into(), period.map(Duration::from_secs))
        };
        for kbit in [[1, 1], [1, 0], [0, 1]] {
            assert!(trace(kbit, Some(2)).is_ok(), "{kbit:?}");
        }
        assert_eq!(trace([0, 0], Some(2)), Err(TraceError::Dead));
        assert_eq!(trace([1, 0], None), Err(TraceError::Dead));
    }
}
