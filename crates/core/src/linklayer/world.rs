//! Drawn lines, and surveys of them in arithmetic.
//!
//! Principles: the same seed is the same line; packets pass the same [`Pipe`]s as in the emulator; ends
//! are no quicker than machines are (some hundred thousand packets a second, answers after some 10 us);
//! what others send comes at random. Non-goals: TCP.

use std::time::Duration;

use super::idle::{Stairs, Sweep};
use super::saturation::{MARKER, Saturation, Seen, Settings, Step, Train};
use super::survey::{Survey, survey};
use crate::framing::{Framing, Mode};
use crate::pipe::{Bucket, Buffer, Pipe, PipeConfig, RateTrace, SplitMix64, Verdict};
use crate::units::{Direction, PerDirection, Rate};

/// Echoes of a sweep are sent no faster.
const ECHO_GAP: Duration = Duration::from_millis(10);
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What answers at the other end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FarEnd {
    /// Everything, at once.
    Serves,
    /// Echoes of so many a second; nobody sends trains towards us.
    Limits(f64),
    /// As `Serves`, but nothing at all for 60 ms once in 700 ms.
    Stalls,
    /// Nothing.
    Silent,
}

/// A line and what disturbs it.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Which family of framings it is of.
    pub family: Family,
    /// How packets are framed.
    pub framing: PerDirection<Framing>,
    /// Link-layer rates.
    pub rate: PerDirection<Rate>,
    /// Tail drop beyond.
    pub buffer: PerDirection<Buffer>,
    /// Of the idle line.
    pub rtt: Duration,
    /// What is sold is less than that.
    pub bucket: Option<Bucket>,
    /// The largest IP packet.
    pub mtu: u32,
    /// Up to so much more delay each way.
    pub jitter: Duration,
    /// The share of the line that others use.
    pub others: f64,
    /// What the ends send at most, packets a second.
    pub pace: f64,
    /// The other end.
    pub far: FarEnd,
    /// Trains may take so many seconds of the line.
    pub budget: f64,
    /// Of everything random.
    pub seed: u64,
}

/// Framings by where they come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// 8 to 48 bytes in cells.
    Atm,
    /// 22, 26, 30 and 34 bytes, 64b/65b.
    Ptm,
    /// Ethernet's 38 bytes, with up to two tags.
    Ethernet,
    /// 18 bytes, at least 64.
    Docsis,
    /// 0 to 28 bytes.
    Plain,
}

impl Family {
    /// All.
    pub const ALL: [Family; 5] = [
        Family::Atm,
        Family::Ptm,
        Family::Ethernet,
        Family::Docsis,
        Family::Plain,
    ];

    /// As it is printed.
    pub fn words(self) -> &'static str {
        match self {
            Family::Atm => "ATM, 8 to 48 bytes",
            Family::Ptm => "PTM, 22 to 34 bytes",
            Family::Ethernet => "Ethernet, VLANs",
            Family::Docsis => "DOCSIS",
            Family::Plain => "plain, 0 to 28 bytes",
        }
    }
}

/// A line of one family, the same for the same seed: 1/0.3 to 1000/200 Mbit/s. `noisy`: 2 ms of jitter and
/// 5 % of others' traffic.
pub fn draw(seed: u64, noisy: bool) -> Scene {
    let mut r = SplitMix64::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(4242));
    let log = |r: &mut SplitMix64, low: f64, high: f64| low * (high / low).powf(r.unit());
    let family = Family::ALL[(seed % 5) as usize];
    let of = |r: &mut SplitMix64, n: f64| (r.unit() * n) as i16;
    let framing = match family {
        Family::Atm if r.unit() < 0.5 => {
            let known = [8, 10, 14, 16, 24, 32, 40, 44, 48];
            Framing::new(Mode::Atm, known[of(&mut r, 9.0) as usize], 0)
        }
        Family::Atm => Framing::new(Mode::Atm, 8 + of(&mut r, 41.0), 0),
        Family::Ptm => Framing::new(Mode::Ptm, 22 + 4 * of(&mut r, 4.0), 0),
        Family::Ethernet => Framing::new(Mode::None, 38 + 4 * of(&mut r, 3.0), 84),
        Family::Docsis => Framing::new(Mode::None, 18, 64),
        Family::Plain => Framing::new(Mode::None, of(&mut r, 29.0), 0),
    };
    let place = r.unit();
    let down = 1e6 * 1000f64.powf(place);
    let up = (0.3e6 * (200.0 / 0.3f64).powf(place) * log(&mut r, 0.6, 1.6)).clamp(0.3e6, 200e6);
    let mtu = match (r.unit() * 10.0) as u32 {
        0 => 1280,
        1..=3 => 1492,
        _ => 1500,
    };
    let buffer = |r: &mut SplitMix64, rate: f64| {
        let time = Duration::from_secs_f64(log(r, 0.05, 1.0));
        let full = 8.0 * f64::from(framing.wire_len(mtu)) / rate;
        // No modem has fewer than a handful.
        let packets = (time.as_secs_f64() / full).max(8.0);
        match (r.unit() * 3.0) as u32 {
            0 => Buffer::Packets(packets.max(32.0) as u64),
            1 => Buffer::Bytes((packets * f64::from(framing.wire_len(mtu))) as u64),
            _ => Buffer::Time(Duration::from_secs_f64(packets * full)),
        }
    };
    Scene {
        family,
        framing: PerDirection {
            up: framing,
            down: framing,
        },
        rate: PerDirection {
            up: Rate::from_bps(up as u64),
            down: Rate::from_bps(down as u64),
        },
        buffer: PerDirection {
            up: buffer(&mut r, up),
            down: buffer(&mut r, down),
        },
        bucket: None,
        rtt: Duration::from_secs_f64(log(&mut r, 0.004, 0.06)),
        mtu,
        jitter: Duration::from_millis(if noisy { 2 } else { 0 }),
        others: if noisy { 0.05 } else { 0.0 },
        pace: log(&mut r, 3e5, 1.2e6),
        far: FarEnd::Serves,
        budget: 2.0,
        seed,
    }
}

/// A line and its ends at a moment.
#[derive(Debug)]
pub struct World {
    scene: Scene,
    pipes: PerDirection<Pipe>,
    /// When others send next.
    others: PerDirection<Duration>,
    now: Duration,
    random: SplitMix64,
    /// Answers that a hop that limits them still has.
    tokens: f64,
    asked: Duration,
    /// Seconds of the line that were used by us.
    used: PerDirection<f64>,
}

impl World {
    /// Before anything was sent.
    pub fn new(scene: &Scene) -> Self {
        let pipes = PerDirection::of(|d| {
            Pipe::new(PipeConfig {
                rate: RateTrace::constant(scene.rate[d]),
                framing: scene.framing[d],
                buffer: scene.buffer[d],
                bucket: scene.bucket,
                managed: None,
                turns: Duration::ZERO,
                delay: scene.rtt / 2,
                wander: Vec::new(),
                jitter: scene.jitter,
                loss: 0.0,
                seed: scene.seed.wrapping_mul(2) + u64::from(d == Direction::Up),
            })
        });
        World {
            scene: scene.clone(),
            pipes,
            others: PerDirection::default(),
            now: Duration::from_secs(1),
            random: SplitMix64::new(scene.seed ^ 0x5eed),
            tokens: 5.0,
            asked: Duration::ZERO,
            used: PerDirection::default(),
        }
    }

    /// The clock.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Seconds of each direction that we used.
    pub fn used(&self) -> PerDirection<f64> {
        self.used
    }

    fn exponential(&mut self, mean: f64) -> Duration {
        Duration::from_secs_f64(-mean * (1.0 - self.random.unit()).ln())
    }

    /// One of our packets enters a direction at `at`; when it arrives.
    fn pass(&mut self, d: Direction, at: Duration, size: u32) -> Option<Duration> {
        while self.scene.others > 0.0 && self.others[d] < at {
            // Half of them full, half of them acknowledgements.
            let size = if self.random.unit() < 0.5 {
                self.scene.mtu
            } else {
                52
            };
            let f = self.scene.framing[d];
            let mean = f64::from(f.wire_len(self.scene.mtu) + f.wire_len(52)) * 4.0;
            let gap =
                self.exponential(mean / (self.scene.others * self.scene.rate[d].bps() as f64));
            self.pipes[d].enqueue(self.others[d], size);
            self.others[d] += gap;
        }
        let wire = f64::from(self.scene.framing[d].wire_len(size));
        self.used[d] += 8.0 * wire / self.scene.rate[d].bps() as f64;
        match self.pipes[d].enqueue(at, size) {
            Verdict::Depart { at } => Some(at),
            Verdict::Drop(_) => None,
        }
    }

    /// When the far end answers what comes at `at`.
    fn answers(&mut self, at: Duration) -> Option<Duration> {
        let at = at + self.exponential(10e-6);
        match self.scene.far {
            FarEnd::Serves => Some(at),
            FarEnd::Silent => None,
            FarEnd::Limits(rate) => {
                self.tokens =
                    (self.tokens + rate * at.saturating_sub(self.asked).as_secs_f64()).min(5.0);
                self.asked = at;
                (self.tokens >= 1.0).then(|| {
                    self.tokens -= 1.0;
                    at
                })
            }
            FarEnd::Stalls => {
                let phase = at.as_secs_f64() % 0.7;
                Some(at + Duration::from_secs_f64((0.06 - phase).max(0.0)))
            }
        }
    }

    fn later(&mut self, arrival: Option<Duration>) {
        self.now = arrival.map_or(self.now + PATIENCE, |a| self.now.max(a));
    }

    /// An echo; its round trip.
    pub fn echo(&mut self, size: u32) -> Option<Duration> {
        let sent = self.now.max(ECHO_GAP);
        let there = self.pass(Direction::Up, sent, size);
        let answered = there.and_then(|at| self.answers(at));
        let back = answered.and_then(|at| self.pass(Direction::Down, at, size));
        self.later(back);
        // The kernel stamps both ends.
        let stamped = self.exponential(3e-6);
        let rtt = back.map(|b| b.saturating_sub(sent) + stamped);
        self.now += ECHO_GAP.saturating_sub(rtt.unwrap_or_default());
        rtt
    }

    /// A train from us, or one that we ask for.
    pub fn train(&mut self, d: Direction, train: &Train, rest: Duration) -> Seen {
        let sent = self.now + rest;
        let mut at = sent;
        if d == Direction::Down {
            let there = self.pass(Direction::Up, sent, MARKER);
            let Some(asked) = there.and_then(|at| self.answers(at)) else {
                self.later(None);
                return Seen {
                    sent_in: Duration::ZERO,
                    took: None,
                    lost: None,
                };
            };
            at = asked;
        }
        let first = at;
        let each = f64::max(
            1.0 / self.scene.pace,
            train.spread.as_secs_f64() / f64::from(train.count.max(1)),
        );
        let mut lost = 0;
        for i in 0..train.count {
            lost += u32::from(self.pass(d, at, train.size(i)).is_none());
            at = first + Duration::from_secs_f64(each * f64::from(i + 1));
        }
        at += train.pause;
        let there = self.pass(d, at, MARKER);
        let back = match d {
            Direction::Down => there,
            Direction::Up => there
                .and_then(|at| self.answers(at))
                .and_then(|at| self.pass(Direction::Down, at, MARKER)),
        };
        self.later(back);
        let stamped = self.exponential(3e-6);
        Seen {
            sent_in: at.saturating_sub(first),
            took: back.map(|b| b.saturating_sub(sent) + stamped),
            // Who limits echoes does not count.
            lost: matches!(self.scene.far, FarEnd::Serves | FarEnd::Stalls).then_some(lost),
        }
    }
}

/// What a survey of a drawn line came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What method A says.
    pub stairs: Stairs,
    /// All together.
    pub survey: Survey,
    /// Its trains.
    pub saturation: PerDirection<Saturation>,
    /// How long it took, s.
    pub lasted: f64,
    /// Seconds of each direction that it used.
    pub used: PerDirection<f64>,
}

/// Surveys a drawn line: the sweep, and trains both ways.
pub fn run(scene: &Scene) -> Outcome {
    let mut world = World::new(scene);
    let began = world.now();
    let mut sweep = Sweep::new(scene.mtu).at_most(2);
    while let Some(size) = sweep.next() {
        let rtt = world.echo(size);
        sweep.seen(size, rtt);
    }
    let swept = world.used();
    let mut found = None;
    let saturation = PerDirection::of(|d| {
        let mut s = Saturation::new(Settings {
            mtu: scene.mtu,
            // Echoes count as well.
            budget: 0.95 * scene.budget - swept[d],
            patience: Duration::from_secs_f64(3.0 + 2.0 * scene.budget),
            ..Settings::default()
        })
        .likely(found);
        while let Step::Send(train, rest) = s.next(world.now()) {
            let seen = world.train(d, &train, rest);
            s.seen(world.now(), seen);
        }
        found = found.or(s.verdict().framing);
        s
    });
    let verdicts = saturation.as_ref().map(|s| Some(s.verdict()));
    Outcome {
        stairs: sweep.found(),
        survey: survey(sweep.found(), verdicts),
        saturation,
        lasted: world.now().saturating_sub(began).as_secs_f64(),
        used: world.used(),
    }
}

/// Method A alone on a drawn line.
pub fn sweep(scene: &Scene) -> Stairs {
    let mut world = World::new(scene);
    let mut sweep = Sweep::new(scene.mtu);
    while let Some(size) = sweep.next() {
        let rtt = world.echo(size);
        sweep.seen(size, rtt);
    }
    sweep.found()
}

/// How right one direction's verdict is.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Right {
    /// A framing was found.
    pub found: bool,
    /// Its mode is the line's.
    pub mode: bool,
    /// It charges every packet of 40 bytes and more what the line does.
    pub exact: bool,
    /// How far the overhead is off, bytes.
    pub off: u32,
    /// How far the capacity is off, as a share.
    pub capacity: f64,
}

/// Whether two framings charge every packet of 40 bytes and more the same.
fn alike(a: Framing, b: Framing, mtu: u32) -> bool {
    (40..=mtu).all(|l| a.wire_len(l) == b.wire_len(l))
}

/// Compares what was found with the line.
pub fn judge(scene: &Scene, d: Direction, v: &super::Verdict) -> Right {
    let truth = scene.framing[d];
    let Some(found) = v.framing else {
        return Right::default();
    };
    let rate = v.rate.map_or(0.0, |r| r.bps() as f64);
    Right {
        found: true,
        mode: found.mode == truth.mode,
        exact: found.mode == truth.mode && alike(found, truth, scene.mtu),
        off: found.overhead.abs_diff(truth.overhead).into(),
        capacity: (rate / scene.rate[d].bps() as f64 - 1.0).abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `evenkeel-lab lab framing` does with more of them.
    #[test]
    fn quiet_lines_are_known() {
        let (mut directions, mut exact) = (0, 0);
        for seed in 0..60 {
            let scene = draw(seed, false);
            let o = run(&scene);
            assert!(o.lasted <= 20.0, "{seed}: {} s", o.lasted);
            for d in Direction::BOTH {
                let v = &o.survey.direction[d];
                let right = judge(&scene, d, v);
                assert!(o.used[d] <= 2.1, "{seed} {d}: {} s", o.used[d]);
                assert!(
                    !right.found || right.mode && right.off <= 4,
                    "{seed} {d}: {} {v:?}",
                    scene.framing[d]
                );
                assert!(
                    !right.found || right.capacity < 0.005,
                    "{seed} {d}: {} {v:?}",
                    scene.rate[d]
                );
                directions += 1;
                exact += u32::from(right.exact);
            }
        }
        assert!(
            f64::from(exact) >= 0.95 * f64::from(directions),
            "{exact} of {directions}"
        );
    }

    /// What is not known is not said: 2 ms of jitter and 5 % of others' traffic.
    #[test]
    fn noisy_lines_are_known_or_not_but_never_wrong() {
        for seed in 0..60 {
            let scene = draw(seed, true);
            let o = run(&scene);
            for d in Direction::BOTH {
                let right = judge(&scene, d, &o.survey.direction[d]);
                assert!(
                    !right.found || right.mode && right.off <= 4,
                    "{seed} {d}: {:?}",
                    o.survey
                );
            }
        }
    }

    /// With 300 rates of lines without cells, and as many with them.
    #[test]
    fn echoes_see_cells_where_there_are_some_and_nowhere_else() {
        for seed in 0..300 {
            let scene = draw(seed, seed % 2 == 1);
            match (scene.family, sweep(&scene)) {
                (Family::Atm, Stairs::Cells { overhead, .. }) => {
                    assert_eq!(overhead, scene.framing.up.overhead, "{seed}");
                }
                (Family::Atm, Stairs::Straight { .. }) => panic!("{seed}: cells were not seen"),
                (_, Stairs::Cells { .. }) => panic!("{seed}: false cells"),
                _ => {}
            }
        }
    }

    /// Hops that limit, stall or say nothing.
    #[test]
    fn strange_far_ends_make_nothing_wrong() {
        for far in [FarEnd::Limits(3.0), FarEnd::Stalls, FarEnd::Silent] {
            for seed in 0..40 {
                let scene = Scene {
                    far,
                    ..draw(seed, false)
                };
                let o = run(&scene);
                for d in Direction::BOTH {
                    let right = judge(&scene, d, &o.survey.direction[d]);
                    assert!(
                        !right.found || right.mode && right.off <= 4,
                        "{far:?} {seed} {d}: {:?}",
                        o.survey
                    );
                }
            }
        }
    }

    /// More than is sold passes for a while, or is dropped: that is said, and no framing.
    #[test]
    fn buckets_are_no_lines() {
        use crate::pipe::BucketKind;
        for (kind, burst, why) in [
            (BucketKind::Shaper, 60_000, "token bucket"),
            (BucketKind::Shaper, 1_000_000, "token bucket"),
            (BucketKind::Policer, 20_000, "dropped rather than queued"),
        ] {
            let mut scene = draw(3, false);
            scene.rate = scene.rate.map(|_| Rate::from_kbit(100_000));
            scene.buffer = scene.buffer.map(|_| Buffer::Time(Duration::from_secs(1)));
            scene.bucket = Some(Bucket {
                kind,
                rate: Rate::from_kbit(20_000),
                burst,
            });
            let v = run(&scene).saturation.up.verdict();
            assert_eq!(v.framing, None, "{kind:?} {burst}");
            let said = v.why.clone().unwrap();
            // Tokens that come back between trains make delays that fit nothing.
            let nothing = burst > 100_000 && said.contains("fit no framing");
            assert!(said.contains(why) || nothing, "{kind:?} {burst}: {said}");
        }
    }

    /// One direction in cells, the other one not.
    #[test]
    fn directions_may_differ() {
        for seed in [1, 6, 11, 16] {
            let mut scene = draw(seed, false);
            scene.rate.up = Rate::from_kbit(1000);
            scene.rate.down = Rate::from_kbit(50_000);
            scene.buffer = scene
                .buffer
                .map(|_| Buffer::Time(Duration::from_millis(300)));
            scene.framing.up = Framing::new(Mode::Atm, 32, 0);
            scene.framing.down = Framing::new(Mode::Ptm, 26, 0);
            let o = run(&scene);
            assert_eq!(
                o.saturation.up.verdict().framing,
                Some(scene.framing.up),
                "{seed}"
            );
            assert_eq!(
                o.saturation.down.verdict().framing,
                Some(scene.framing.down),
                "{seed}"
            );
        }
    }
}
