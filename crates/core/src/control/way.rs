//! One direction of the line: what it carries, how that is known, and how fast it is used.
//!
//! Principles: a queue that stands at the bottleneck says what the bottleneck carries: the bytes
//! that left it divided by the time they took to leave. Towards the Internet they are those that
//! we sent, and left when the probe behind them did (`C = S / (dt + dd)`); towards us they are
//! those that arrived. After a cut the queue is drained, and how long that takes is known. The
//! line is tried upwards only where it is used to the full and no queue stands, by steps that
//! grow until one stands. Non-goals: the delay of whom (`mod.rs`), packets.

use super::Reason;
use super::meter::Meter;
use super::slope::{Known, Point, Run, SAME, Slope};

// Times are in seconds, rates in bytes per second on the line. Headroom is the plan's
// (`plan::Mode::shaped`); here a capacity is a capacity.

/// Never cut below this share of the capacity: flows must go on to be heard.
const DEEPEST: f64 = 0.3;
/// Or below this while a queue is longer than [`LONG`], s: what waits there keeps them going.
const DEEPER: f64 = 0.1;
const LONG: f64 = 0.25;
/// A queue as long as this is drained by the deepest cut.
const DRAIN: f64 = 0.060;
/// First step of a try upwards, of which the headroom takes half, and how steps grow.
const STEP: f64 = 0.02;
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
/// Its probes are looked back at so far, s.
const RECENT: f64 = 0.2;
/// How far beyond what passes such a line is opened while no queue stands.
const FREE: f64 = 0.35;
/// A kept queue that is too short or too long is made right within this, s.
const FOLLOWS: f64 = 0.150;
/// A first estimate is not worse than this, as a share.
const VAGUE: f64 = 0.1;
/// How far a guess from elsewhere, or an upper bound, may be off.
const GUESSED: f64 = 0.3;
/// Or what was learned from a queue that may have been elsewhere.
const UNSURE: f64 = 0.05;
/// No evidence is better than this: lines are not that even.
const BEST: f64 = 0.01;
/// A try shows a queue within about this time, s, if the line does not carry it.
const SHOWN: f64 = 1.0;

/// Which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dir {
    /// Towards the Internet.
    Up,
    /// Towards us.
    Down,
}

/// What decisions need to know of the line as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around {
    pub now: f64,
    /// Base round trip to what is probed.
    pub rtt: f64,
    /// From which on a delay is a queue.
    pub rise: f64,
    /// So much of that because delays wander by themselves.
    pub wander: f64,
    /// From one probe to the next.
    pub pace: f64,
    /// How far a single probe's delay is off, s.
    pub noise: f64,
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
        /// Since when.
        since: f64,
        /// What it was known to carry when the first step was made.
        before: f64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drain {
    /// The first cut.
    cut: f64,
    since: f64,
    /// The queue then.
    queue: f64,
    /// What was known before this queue.
    before: Option<Known>,
    /// It followed a cut, so it is here.
    followed: bool,
    /// What it says if it is.
    found: Option<Known>,
    /// What the line was thought to carry at the cut, and then.
    at_cut: f64,
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
    /// The delay does not follow: so much of it is not in this direction.
    NotHere(f64),
}

/// One direction.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub dir: Dir,
    pub meter: Meter,
    /// What the line carries, and since when that is known.
    pub capacity: Option<(f64, f64)>,
    /// The standard error of that, as a share.
    error: f64,
    /// What was known before this queue.
    prior: Option<Known>,
    pub phase: Phase,
    /// Probes since the queue stands.
    run: Run,
    /// The latest probe.
    pub latest: Option<Point>,
    /// No queue since.
    quiet: f64,
    /// Tries: the next not before, and how long to wait after one that found nothing.
    pub next_try: f64,
    patience: f64,
    /// The capacity was found to be another one at this time.
    changed: f64,
    /// When the first capacity was found.
    first: f64,
    /// How much it changes, 0 to 1, and as of when.
    unrest: (f64, f64),
    /// A queue is known to be in this direction.
    pub sure: bool,
    /// It may be in either, and both are cut.
    pub shared: bool,
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
            error: GUESSED,
            prior: None,
            phase: Phase::Open,
            run: Run::new(dir),
            latest: None,
            quiet: 0.0,
            next_try: 0.0,
            patience: PATIENCE[0],
            changed: f64::MIN,
            first: f64::MIN,
            unrest: (0.0, 0.0),
            sure: true,
            shared: false,
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
                let deepest = if queue > LONG { DEEPER } else { DEEPEST };
                (capacity, (1.0 - queue / long).clamp(deepest, 1.0))
            }
        })
    }

    /// A probe came back.
    pub(super) fn observe(&mut self, p: Point, around: &Around) {
        self.latest = Some(p);
        let prior = self.known().filter(|_| !self.is_restless(around.now));
        let began = self.run.is_empty();
        let open = self.phase == Phase::Open;
        if self.run.push(p, around.rise, around.pace, open) {
            if began {
                self.prior = prior;
            }
            self.quiet = around.now;
            if open {
                self.unshaped_queue = self.unshaped_queue.max(p.queue);
            }
        }
    }

    fn known(&self) -> Option<Known> {
        self.capacity.map(|(capacity, _)| Known {
            capacity,
            error: self.error,
        })
    }

    /// What the bottleneck carries, from probes that all met a queue, sent at `from` or later.
    fn estimate(&self, from: f64, around: &Around) -> Option<Slope> {
        // On a line that never settles what was some time ago says nothing.
        let recent = if self.is_restless(around.now) {
            self.latest.map_or(f64::MIN, |p| p.left - RECENT)
        } else {
            f64::MIN
        };
        let from = from.max(recent);
        self.run
            .slope(&self.meter, from, around.noise, around.pace, around.packet)
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

    /// Takes a capacity for true, or a mean with what was known before this queue if both can be.
    fn learn(&mut self, found: Known, now: f64) {
        let found = Known {
            capacity: self.bounded(found.capacity),
            error: found.error.max(BEST),
        };
        let found = Known {
            error: if self.sure { found.error } else { found.error.max(UNSURE) },
            ..found
        };
        let value = match self.prior {
            Some(prior) if prior.agrees(&found) => prior.with(&found),
            _ => found,
        };
        let before = self.capacity.map(|c| c.0);
        if before.is_none_or(|b| (value.capacity / b - 1.0).abs() >= SAME) {
            self.changed(before, value.capacity, now);
        }
        self.capacity = Some((value.capacity, now));
        self.error = value.error.max(BEST);
    }

    /// So much was seen to pass without a queue.
    fn proven(&mut self, reached: f64, around: &Around) {
        self.capacity = Some((self.bounded(reached), around.now));
        self.prior = None;
    }

    fn changed(&mut self, before: Option<f64>, found: f64, now: f64) {
        self.changed = now;
        let Some(before) = before else {
            self.first = now;
            return;
        };
        let by = (found / before).ln().abs();
        // First looks are corrected, and small changes are no unrest.
        if self.sure && by > 0.1 && now - self.first > CORRECTED {
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

    /// The noisier the line, the larger the step that shows. On a line that never settles a queue
    /// shows at once where it ends: no small steps.
    fn first_step(&self, around: &Around) -> f64 {
        if self.is_restless(around.now) {
            FREE
        } else {
            let shows = (around.rise / SHOWN).max(self.error).min(0.1);
            shows.max(STEP) + 0.1 * self.restless(around.now)
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
                since,
                before,
            } if self.run.is_empty() => self.try_more(level, step, since, before, around),
            _ => Found::Nothing,
        }
    }

    /// Keeps a short queue on a line that never settles: what it carries is known all the time.
    fn follow(&mut self, queue: f64, kept: f64, around: &Around) -> Found {
        let Some(Slope { known, .. }) = self.estimate(f64::MIN, around) else {
            return Found::Nothing;
        };
        // What was known before says nothing of a line that never settles.
        self.prior = None;
        self.learn(known, around.now);
        let found = known.capacity;
        let more = ((kept - queue) / FOLLOWS).clamp(-0.2, LONGEST_STEP);
        self.phase = Phase::Try {
            level: found * (1.0 + more),
            step: self.first_step(around) * GROWTH,
            since: around.now,
            before: found,
        };
        Found::Changed(Reason::Following { dir: self.dir })
    }

    /// Whether a queue can be ours at all.
    pub(super) fn is_loaded(&self, around: &Around) -> bool {
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

    /// Whether a queue is beyond doubt.
    fn is_clear(&self, queue: f64, around: &Around) -> bool {
        let wanders = self.is_restless(around.now) || self.run.is_persistent();
        wanders || queue > around.rise + around.wander
    }

    /// Whether a queue is long enough to be one. A packet in front of the probe is none, and on a
    /// slow line it takes long. A line that became slower shows it by a queue that grows fast; what
    /// passes between two bursts is less than it carries.
    fn stands(&self, queue: f64, found: &Known, around: &Around) -> bool {
        let least = match self.capacity {
            None if found.error > VAGUE => return false,
            _ if self.run.is_persistent() => 0.0,
            None => around.rise + around.wander,
            Some((c, _)) if found.capacity < (1.0 - SAME) * c => {
                (around.rise + 2.0 * around.wander).max(0.004)
            }
            Some(_) => 0.0,
        };
        queue >= least.max(2.0 * around.packet / found.capacity)
    }

    fn congested(&mut self, around: &Around) -> Found {
        let Some(slope) = self.estimate(f64::MIN, around) else {
            return Found::Nothing;
        };
        let mut found = slope.known;
        let known = self.known();
        let queue = self.latest.map_or(0.0, |p| p.queue);
        if !self.stands(queue, &found, around) {
            return Found::Nothing;
        }
        if self.dir == Dir::Up && slope.level {
            // We know what we sent, not what arrived: what a full buffer threw away is no evidence.
            found.error = found.error.max(GUESSED);
            if let Some(k) = known {
                found.capacity = found.capacity.min(k.capacity);
            }
        }
        // What may be elsewhere must follow a cut before anything is learned from it.
        let learns = match known {
            None => true,
            Some(k) => self.sure || found.capacity > (1.0 - SAME) * k.capacity,
        };
        if known.is_none() || learns && self.is_clear(queue, around) {
            self.learn(found, around.now);
        }
        let capacity = self.capacity.map_or(found.capacity, |c| c.0);
        if let Phase::Try { before, .. } = self.phase {
            // The try ended where it began: the line is what it was.
            self.patience = if (capacity / before - 1.0).abs() < SAME {
                (2.0 * self.patience).min(self.longest_patience(around.now))
            } else {
                PATIENCE[0]
            };
        }
        if self.dir == Dir::Up && !self.is_restless(around.now) {
            // From now on only probes behind the cut count.
            self.prior = self.known();
        }
        self.phase = Phase::Drain(Drain {
            cut: around.now,
            since: around.now,
            queue,
            before: known,
            followed: self.sure,
            found: (!learns).then_some(found),
            at_cut: capacity,
            capacity: match self.dir {
                Dir::Down if !self.sure => capacity.min(self.throughput(around)),
                _ => capacity,
            },
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
            if let Some(found) = drain.found.filter(|_| !self.shared) {
                self.learn(found, around.now);
            }
            return self.drained(around);
        }
        let left = self.latest.map_or(0.0, |p| p.left);
        // Answers that know of the cut. Before them the queue may still grow.
        if left <= drain.since {
            drain.queue = queue;
            self.phase = Phase::Drain(drain);
        } else if left > drain.since + 2.0 * around.pace {
            let expected = self.expected_fall(&drain, left);
            let heard = around.now - drain.since > until_heard;
            if self.contradicts(queue, expected, &drain, around) {
                return self.not_here(&drain, queue, around);
            }
            if heard && expected > (2.0 * around.rise).max(0.5 * drain.queue) {
                let fell = (drain.queue - queue) / expected;
                drain.followed = self.sure || fell > 0.5;
                if fell < 0.25 {
                    drain.failures += 1;
                    if drain.failures >= if self.sure || self.shared { 3 } else { 1 } {
                        return self.not_here(&drain, queue, around);
                    }
                }
                drain.since = around.now;
                drain.queue = queue;
                if self.sure || self.dir == Dir::Up {
                    drain.capacity = self.capacity.map_or(drain.capacity, |c| c.0);
                }
                self.phase = Phase::Drain(drain);
            }
        }
        let from = match self.dir {
            Dir::Up => drain.cut,
            Dir::Down => f64::MIN,
        };
        let known = self.capacity.map_or(f64::MAX, |c| c.0);
        if let Some(slope) = self.estimate(from, around)
            && (self.dir == Dir::Down || !slope.level || slope.known.capacity < known)
            && self.is_clear(queue, around)
            && self.stands(queue, &slope.known, around)
        {
            if drain.followed || slope.known.capacity > (1.0 - SAME) * drain.at_cut {
                self.learn(slope.known, around.now);
            } else if let (Dir::Up, Phase::Drain(drain)) = (self.dir, &mut self.phase) {
                drain.found = Some(slope.known);
            }
        }
        Found::Changed(Reason::Draining {
            dir: self.dir,
            queue_ms: queue * 1e3,
        })
    }

    /// Towards us a queue that stands keeps arrivals at what the line carries; where less comes and
    /// there still is a queue, it is elsewhere.
    fn contradicts(&self, queue: f64, expected: f64, drain: &Drain, around: &Around) -> bool {
        let least = (2.0 * around.rise).max(0.15 * (around.now - drain.since));
        let one = self.dir == Dir::Down && !self.sure && !self.shared;
        one && expected > least && queue > 1.5 * around.rise
    }

    /// What was learned of a queue that turned out not to be here is forgotten.
    fn not_here(&mut self, drain: &Drain, queue: f64, around: &Around) -> Found {
        self.run.clear();
        self.prior = None;
        let _ = self.drained(around);
        match drain.before {
            Some(before) => {
                self.capacity = Some((before.capacity, around.now));
                self.error = before.error;
            }
            None if !self.sure && !drain.followed => {
                self.capacity = None;
                self.phase = Phase::Open;
            }
            None => {}
        }
        Found::NotHere(queue)
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

    /// Somewhere is a queue that may come from a try.
    pub(super) fn rest(&mut self, now: f64) {
        if let Phase::Try { .. } = self.phase {
            self.phase = Phase::Steady;
            self.next_try = now + self.patience;
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
        let first = self.first_step(around);
        self.phase = Phase::Try {
            level: capacity * (1.0 + first),
            step: (first * GROWTH).min(LONGEST_STEP),
            since: around.now,
            before: capacity,
        };
        Found::Changed(Reason::Trying { dir: self.dir })
    }

    /// A step is good as soon as the queue that it would have made would have been seen.
    fn try_more(
        &mut self,
        level: f64,
        step: f64,
        since: f64,
        before: f64,
        around: &Around,
    ) -> Found {
        let capacity = self.capacity.map_or(level, |c| c.0);
        if self.is_restless(around.now) {
            if around.now < since + self.hold(around) {
                return Found::Nothing;
            }
            let proven = self.throughput(around).max(capacity);
            self.proven(proven, around);
            self.phase = Phase::Try {
                level: proven * (1.0 + FREE),
                step,
                since: around.now,
                before: proven,
            };
            return Found::Changed(Reason::Following { dir: self.dir });
        }
        // What an answer that comes now can know of.
        let known = around.now - around.rtt - around.pace;
        let time = known - since;
        let Some(bytes) = self.meter.between(since, known).filter(|_| time > 0.0) else {
            return Found::Nothing;
        };
        let reached = bytes / time;
        let shown = around.rise + around.packet / capacity;
        if bytes / capacity - time > shown {
            self.proven(reached, around);
            self.phase = Phase::Try {
                level: level.max(reached * (1.0 + step)),
                step: (step * GROWTH).min(LONGEST_STEP),
                since: around.now,
                before,
            };
            return Found::Changed(Reason::Trying { dir: self.dir });
        }
        let due = 2.0 * shown / (level / capacity - 1.0).max(STEP) + 2.0 * around.rtt;
        let passes = self.throughput(around).max(reached);
        let wanted = passes > FULL * level;
        let wait = if passes > capacity {
            // More than is known to, which will show.
            due.max(SHOWN)
        } else if wanted {
            due
        } else {
            self.hold(around)
        };
        if time < wait {
            return Found::Nothing;
        }
        if wanted {
            // The step was too small to show.
            self.phase = Phase::Try {
                level: level * (1.0 + step),
                step: (step * GROWTH).min(LONGEST_STEP),
                since: around.now,
                before,
            };
            return Found::Changed(Reason::Trying { dir: self.dir });
        }
        // Nobody wants more now.
        if capacity > before * (1.0 + SAME) {
            self.changed(Some(before), capacity, around.now);
            self.patience = PATIENCE[0];
        }
        self.phase = Phase::Steady;
        self.next_try = around.now + 0.5 * self.patience * (1.0 - self.restless(around.now)).powi(2);
        Found::Changed(Reason::Proven { dir: self.dir })
    }
}

/// Used to the full: this share of what may be used.
const FULL: f64 = 0.9;
