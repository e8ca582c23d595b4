//! One direction of the line: what it carries, how that is known, and how fast it is used.
//!
//! Principles: a queue that stands at the bottleneck says what the bottleneck carries: the bytes
//! that left it divided by the time they took to leave. Towards the Internet they are those that
//! we sent, and left when the probe behind them did (`C = S / (dt + dd)`); towards us they are
//! those that arrived. After a cut the queue is drained, and how long that takes is known. The
//! line is tried upwards only where it is used to the full and no queue stands, by steps that
//! grow until one stands. Non-goals: the delay of whom (`mod.rs`), packets.

use std::collections::VecDeque;

use super::Reason;
use super::meter::Meter;

// Times are in seconds, rates in bytes per second on the line. Headroom is the plan's
// (`plan::Mode::shaped`); here a capacity is a capacity.

/// Evidence of a capacity: at least so many full packets.
const PACKETS: f64 = 8.0;
/// And at least over so long.
const SPAN: f64 = 0.030;
/// A run is looked back at so far.
const LOOK_BACK: f64 = 0.6;
/// Never cut below this share of the capacity: flows must go on to be heard.
const DEEPEST: f64 = 0.3;
/// A queue as long as this is drained by the deepest cut.
const DRAIN: f64 = 0.060;
/// First step of a try upwards, and how steps grow.
const STEP: f64 = 0.01;
const GROWTH: f64 = 1.6;
const LONGEST_STEP: f64 = 0.25;
/// Between tries: at least, at most while the line was seen to change of late, at most at all.
const PATIENCE: [f64; 3] = [1.0, 2.0, 10.0];
/// A line that changed within this time may change again.
const RESTLESS: f64 = 60.0;
/// Restlessness: what a change adds to it for each factor e, and how fast it is forgotten, s.
const UNREST: f64 = 0.7;
const CALMS: f64 = 8.0;
/// Within this after the first look, s, others correct it.
const CORRECTED: f64 = 2.0;
/// A line is followed rather than settled on from this much of it on.
const FOLLOWED: f64 = 0.3;
/// The queue that is kept on a line that never settles, s: it shows what the line carries now,
/// and is there to be sent when it carries more.
const KEPT: f64 = 0.025;
/// How far beyond what passes such a line is opened while no queue stands.
const FREE: f64 = 0.35;
/// A kept queue that is too short or too long is made right within this, s.
const FOLLOWS: f64 = 0.150;
/// Two estimates this close say the same.
const SAME: f64 = 0.04;

/// Which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dir {
    /// Towards the Internet.
    Up,
    /// Towards us.
    Down,
}

/// A probe as one direction saw it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// When it was sent.
    pub left: f64,
    /// When its answer came.
    pub came: f64,
    /// How long it waited at this direction's bottleneck.
    pub queue: f64,
}

/// What decisions need to know of the line as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around {
    pub now: f64,
    /// Base round trip to what is probed.
    pub rtt: f64,
    /// From which on a delay is a queue.
    pub rise: f64,
    /// From one probe to the next.
    pub pace: f64,
    /// Bytes of a full packet on the line.
    pub packet: f64,
}

/// What is being done with a direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// Nothing is known of its capacity: it is not shaped.
    Open,
    /// It is used as far as it is known.
    Steady,
    /// A queue is made to go away.
    Drain(Drain),
    /// It is tried whether it carries more.
    Try {
        /// What it is tried with.
        level: f64,
        /// The next step's size.
        step: f64,
        /// When that is due.
        next: f64,
        /// What it was known to carry.
        before: f64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drain {
    since: f64,
    /// The queue then.
    queue: f64,
    /// The capacity before this queue.
    before: Option<f64>,
    /// What the line was thought to carry then.
    capacity: f64,
    /// Cuts that did not shorten it.
    failures: u32,
}

/// What a look at a direction led to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Found {
    /// Nothing new.
    Nothing,
    /// Rates change, for this reason.
    Changed(Reason),
    /// The delay does not follow: so much of it is not ours.
    NotOurs(f64),
}

/// One direction.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub dir: Dir,
    pub meter: Meter,
    /// What the line carries, and since when that is known.
    pub capacity: Option<(f64, f64)>,
    pub phase: Phase,
    /// Probes since the queue stands.
    run: VecDeque<Point>,
    /// The latest probe.
    pub latest: Option<Point>,
    /// No queue since.
    quiet: f64,
    /// Tries: the next not before, and how long to wait after one that found nothing.
    next_try: f64,
    patience: f64,
    /// The capacity was found to be another one at this time.
    changed: f64,
    /// When the first capacity was found.
    first: f64,
    /// How much it changes, 0 to 1, and as of when.
    unrest: (f64, f64),
    /// Limits by the person.
    pub least: f64,
    pub most: f64,
    /// Highest queue seen while nothing was shaped.
    pub unshaped_queue: f64,
}

impl Way {
    pub(super) fn new(dir: Dir) -> Self {
        Way {
            dir,
            meter: Meter::default(),
            capacity: None,
            phase: Phase::Open,
            run: VecDeque::new(),
            latest: None,
            quiet: 0.0,
            next_try: 0.0,
            patience: PATIENCE[0],
            changed: f64::MIN,
            first: f64::MIN,
            unrest: (0.0, 0.0),
            least: 8_000.0,
            most: f64::MAX,
            unshaped_queue: 0.0,
        }
    }

    /// A capacity from elsewhere: a person's guess, or what was learned before.
    pub(super) fn believe(&mut self, capacity: f64, now: f64) {
        self.capacity = Some((self.bounded(capacity), now));
        self.phase = Phase::Steady;
        self.next_try = now;
    }

    fn bounded(&self, capacity: f64) -> f64 {
        capacity.min(self.most).max(self.least)
    }

    /// The capacity to shape by, and a factor by which to go below it.
    pub(super) fn target(&self, around: &Around) -> Option<(f64, f64)> {
        let (capacity, _) = self.capacity?;
        Some(match self.phase {
            Phase::Open => return None,
            Phase::Steady => (capacity, 1.0),
            Phase::Try { level, .. } => (self.bounded(level), 1.0),
            Phase::Drain(_) => {
                let queue = self.queue_now(around).unwrap_or(0.0) - self.kept(around.now);
                let long = DRAIN.max(4.0 * around.packet / capacity);
                (capacity, (1.0 - queue / long).clamp(DEEPEST, 1.0))
            }
        })
    }

    /// When a probe left the bottleneck.
    fn exit(&self, p: &Point) -> f64 {
        match self.dir {
            Dir::Up => p.left + p.queue,
            Dir::Down => p.came,
        }
    }

    /// Up to where its bytes are counted.
    fn mark(&self, p: &Point) -> f64 {
        match self.dir {
            Dir::Up => p.left,
            Dir::Down => p.came,
        }
    }

    /// A probe came back.
    pub(super) fn observe(&mut self, p: Point, around: &Around) {
        self.latest = Some(p);
        if p.queue > around.rise {
            self.run.push_back(p);
            self.quiet = around.now;
            if self.phase == Phase::Open {
                self.unshaped_queue = self.unshaped_queue.max(p.queue);
            }
        } else if p.queue < 0.7 * around.rise {
            self.run.clear();
        }
        while self
            .run
            .front()
            .is_some_and(|f| p.came - f.came > LOOK_BACK)
        {
            self.run.pop_front();
        }
    }

    /// What the bottleneck carries, from probes that all met a queue.
    fn estimate(&self, around: &Around) -> Option<f64> {
        let covered = self.meter.latest()?;
        let run: Vec<&Point> = self
            .run
            .iter()
            .filter(|p| self.mark(p) <= covered)
            .collect();
        let last = *run.last()?;
        let over = |first: &Point| {
            let bytes = self.meter.between(self.mark(first), self.mark(last))?;
            let time = self.exit(last) - self.exit(first);
            (time > 0.0).then_some((bytes, time))
        };
        let enough = |(bytes, time): &(f64, f64)| {
            *time >= SPAN.max(around.pace) && *bytes >= PACKETS * around.packet
        };
        // The shortest stretch that says something, and the longest: where they agree, the line
        // is what it was, and the longest is the most exact.
        let short = run.iter().rev().filter_map(|p| over(p)).find(enough)?;
        let long = run.iter().filter_map(|p| over(p)).find(enough)?;
        let (short, long) = (short.0 / short.1, long.0 / long.1);
        Some(if (short / long - 1.0).abs() < 2.0 * SAME {
            long
        } else {
            short
        })
    }

    /// How long what is sent now would wait at the bottleneck: as measured, and for our own
    /// direction carried on with what was sent since.
    fn queue_now(&self, around: &Around) -> Option<f64> {
        let p = self.latest?;
        if self.dir == Dir::Down {
            return Some(p.queue);
        }
        let (capacity, _) = self.capacity?;
        let sent = self.meter.since(p.left)?;
        let until = self.meter.latest()?;
        let gone = (until - p.left).max(0.0);
        let beyond = (around.now - until).max(0.0);
        Some((p.queue + sent / capacity - gone - beyond * 0.5).max(0.0))
    }

    /// Bytes per second of late.
    pub(super) fn throughput(&self, around: &Around) -> f64 {
        let packets = self.capacity.map_or(0.0, |c| 16.0 * around.packet / c.0);
        let span = packets.max(0.1).max(2.0 * around.pace).min(2.0);
        self.meter.rate(span).unwrap_or(0.0)
    }

    /// The share of `rate` that is used.
    fn used(&self, rate: f64, around: &Around) -> f64 {
        self.throughput(around) / rate.max(1.0)
    }

    /// Takes a capacity for true.
    fn learn(&mut self, found: f64, now: f64) {
        let found = self.bounded(found);
        let before = self.capacity.map(|c| c.0);
        let same = before.is_some_and(|b| (found / b - 1.0).abs() < SAME);
        if !same {
            self.changed(before, found, now);
        }
        let value = match before {
            // Two looks at the same thing.
            Some(b) if same => 0.5 * (b + found),
            _ => found,
        };
        self.capacity = Some((value, now));
    }

    fn changed(&mut self, before: Option<f64>, found: f64, now: f64) {
        self.changed = now;
        let Some(before) = before else {
            self.first = now;
            return;
        };
        let by = (found / before).ln().abs();
        // First looks are corrected, and small changes are no unrest.
        if by > 0.1 && now - self.first > CORRECTED {
            let more = UNREST * by;
            self.unrest = ((self.restless(now) + more).min(1.0), now);
        }
    }

    /// How much the line changes, 0 to 1.
    fn restless(&self, now: f64) -> f64 {
        let (unrest, at) = self.unrest;
        unrest * 0.5f64.powf((now - at).max(0.0) / CALMS)
    }

    /// Whether it is followed rather than settled on.
    fn is_restless(&self, now: f64) -> bool {
        self.restless(now) >= FOLLOWED
    }

    /// The queue that is kept on purpose.
    pub(super) fn kept(&self, now: f64) -> f64 {
        let unrest = self.restless(now);
        KEPT * (unrest - FOLLOWED).max(0.0) / (1.0 - FOLLOWED)
    }

    /// On a line that never settles a queue shows at once where it ends: no small steps.
    fn first_step(&self, now: f64) -> f64 {
        if self.is_restless(now) {
            FREE
        } else {
            STEP + 0.1 * self.restless(now)
        }
    }

    fn longest_patience(&self, now: f64) -> f64 {
        if now - self.changed < RESTLESS {
            PATIENCE[1]
        } else {
            PATIENCE[2]
        }
    }

    /// Looks at what is known now; `may_try`: the other direction rests.
    pub(super) fn decide(&mut self, around: &Around, may_try: bool) -> Found {
        let kept = self.kept(around.now);
        let queue = self.latest.map_or(0.0, |p| p.queue);
        match self.phase {
            Phase::Drain(drain) => self.drain(drain, around),
            Phase::Steady | Phase::Try { .. }
                if kept > 0.0 && queue < kept + around.rise && !self.run.is_empty() =>
            {
                self.follow(queue, kept, around)
            }
            _ if self.run.len() >= 2 && self.is_loaded(around) => self.congested(around),
            Phase::Steady if may_try => self.steady(around),
            Phase::Try {
                level,
                step,
                next,
                before,
            } if around.now >= next => self.try_more(level, step, before, around),
            _ => Found::Nothing,
        }
    }

    /// Keeps a short queue on a line that never settles: what it carries is known all the time.
    fn follow(&mut self, queue: f64, kept: f64, around: &Around) -> Found {
        let Some(found) = self.estimate(around) else {
            return Found::Nothing;
        };
        self.learn(found, around.now);
        let more = ((kept - queue) / FOLLOWS).clamp(-0.2, LONGEST_STEP);
        self.phase = Phase::Try {
            level: found * (1.0 + more),
            step: self.first_step(around.now) * GROWTH,
            next: around.now + self.hold(around),
            before: found,
        };
        Found::Changed(Reason::Following { dir: self.dir })
    }

    /// Whether a queue can be ours at all.
    fn is_loaded(&self, around: &Around) -> bool {
        let Some((capacity, _)) = self.capacity else {
            return true;
        };
        let least = match self.dir {
            // We know what we send.
            Dir::Up => 0.5,
            // A line that became slower brings less.
            Dir::Down => 0.1,
        };
        self.used(capacity, around) >= least
    }

    fn congested(&mut self, around: &Around) -> Found {
        let Some(found) = self.estimate(around) else {
            return Found::Nothing;
        };
        let before = match self.phase {
            Phase::Try { before, .. } => Some(before),
            _ => self.capacity.map(|c| c.0),
        };
        let queue = self.latest.map_or(0.0, |p| p.queue);
        // A packet in front of the probe is no queue, and on a slow line it takes long. A line that
        // became much slower shows it by a queue that grows fast.
        let known = self.capacity.map_or(f64::MAX, |c| c.0);
        let least = match self.phase {
            Phase::Open => 2.0 * around.rise,
            _ if found < 0.9 * known => (3.0 * around.rise).max(0.004),
            _ => 0.0,
        };
        if queue < least.max(2.0 * around.packet / found) {
            return Found::Nothing;
        }
        if let (Phase::Try { .. }, Some(before)) = (self.phase, before) {
            // The try ended where it began: the line is what it was.
            self.patience = if (found / before - 1.0).abs() < SAME {
                (2.0 * self.patience).min(self.longest_patience(around.now))
            } else {
                PATIENCE[0]
            };
            self.capacity = Some((before, around.now));
        }
        self.learn(found, around.now);
        self.phase = Phase::Drain(Drain {
            since: around.now,
            queue,
            before,
            capacity: self.capacity.map_or(found, |c| c.0),
            failures: 0,
        });
        Found::Changed(Reason::Queue {
            dir: self.dir,
            queue_ms: queue * 1e3,
        })
    }

    fn drain(&mut self, mut drain: Drain, around: &Around) -> Found {
        let queue = self.latest.map_or(0.0, |p| p.queue);
        let until_heard = around.rtt + drain.queue + 2.0 * around.pace;
        if self.run.is_empty() || queue < self.kept(around.now) {
            return self.drained(around);
        }
        let left = self.latest.map_or(0.0, |p| p.left);
        // Answers that know of the cut.
        if left > drain.since + 2.0 * around.pace {
            let expected = self.expected_fall(&drain, left);
            if expected > (2.0 * around.rise).max(0.5 * drain.queue)
                && around.now - drain.since > until_heard
            {
                if queue > drain.queue - 0.25 * expected {
                    drain.failures += 1;
                    if drain.failures >= 3 {
                        if let Some(before) = drain.before {
                            self.capacity = Some((self.bounded(before), around.now));
                        }
                        self.run.clear();
                        let _ = self.drained(around);
                        return Found::NotOurs(queue);
                    }
                }
                drain.since = around.now;
                drain.queue = queue;
                drain.capacity = self.capacity.map_or(drain.capacity, |c| c.0);
                self.phase = Phase::Drain(drain);
            }
        }
        // More than it was thought to carry would rather be what a full buffer threw away: we know
        // what we sent, not what arrived.
        let known = self.capacity.map_or(f64::MAX, |c| c.0);
        if let Some(found) = self.estimate(around)
            && (self.dir == Dir::Down || found < known * (1.0 + SAME))
        {
            self.learn(found, around.now);
        }
        Found::Changed(Reason::Draining {
            dir: self.dir,
            queue_ms: queue * 1e3,
        })
    }

    /// By how much the queue must have become shorter for a probe sent at `left`: a bottleneck
    /// with a queue sends what it can, so less than that means that the queue had an end.
    fn expected_fall(&self, drain: &Drain, left: f64) -> f64 {
        let time = left - drain.since;
        match self.meter.between(drain.since, left) {
            Some(bytes) => (time - bytes / drain.capacity).max(0.0),
            None => 0.0,
        }
    }

    fn drained(&mut self, around: &Around) -> Found {
        self.phase = Phase::Steady;
        self.next_try = around.now + self.patience * (1.0 - self.restless(around.now)).powi(2);
        self.quiet = around.now;
        Found::Changed(Reason::Drained { dir: self.dir })
    }

    /// How long to wait for the effect of a step.
    fn hold(&self, around: &Around) -> f64 {
        let packets = self.capacity.map_or(0.0, |c| 4.0 * around.packet / c.0);
        (2.0 * around.rtt + 2.0 * around.pace)
            .max(0.08)
            .max(packets)
    }

    fn steady(&mut self, around: &Around) -> Found {
        let Some((capacity, _)) = self.capacity else {
            return Found::Nothing;
        };
        let quiet = around.now - self.quiet > self.hold(around) && self.run.is_empty();
        if around.now < self.next_try || !quiet || capacity >= self.most {
            return Found::Nothing;
        }
        if self.used(capacity, around) < FULL {
            return Found::Nothing;
        }
        let first = self.first_step(around.now);
        let level = capacity * (1.0 + first);
        self.phase = Phase::Try {
            level,
            step: (first * GROWTH).min(LONGEST_STEP),
            next: around.now + self.hold(around),
            before: capacity,
        };
        Found::Changed(Reason::Trying { dir: self.dir })
    }

    fn try_more(&mut self, level: f64, step: f64, before: f64, around: &Around) -> Found {
        // Not yet told apart from a queue.
        if !self.run.is_empty() {
            return Found::Nothing;
        }
        let reached = self.throughput(around);
        if self.is_restless(around.now) {
            let proven = reached.max(before);
            self.capacity = Some((self.bounded(proven), around.now));
            self.phase = Phase::Try {
                level: proven * (1.0 + FREE),
                step,
                next: around.now + self.hold(around),
                before: proven,
            };
            return Found::Changed(Reason::Following { dir: self.dir });
        }
        if reached < FULL * level {
            // Nobody wants more now. What went through without a queue is proven.
            let proven = reached.max(before);
            if proven > before * (1.0 + SAME) {
                self.changed(Some(before), proven, around.now);
                self.patience = PATIENCE[0];
            }
            self.capacity = Some((self.bounded(proven), around.now));
            self.phase = Phase::Steady;
            self.next_try =
                around.now + 0.5 * self.patience * (1.0 - self.restless(around.now)).powi(2);
            return Found::Changed(Reason::Proven { dir: self.dir });
        }
        let higher = level * (1.0 + step);
        self.capacity = Some((self.bounded(level / (1.0 + step / GROWTH)), around.now));
        self.phase = Phase::Try {
            level: higher,
            step: (step * GROWTH).min(LONGEST_STEP),
            next: around.now + self.hold(around),
            before,
        };
        Found::Changed(Reason::Trying { dir: self.dir })
    }
}

/// Used to the full: this share of what may be used.
const FULL: f64 = 0.9;
