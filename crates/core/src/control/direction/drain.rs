//! A queue: whether it is one, what it says, and how it is made to go away.
//!
//! Principles: a cut at once, deep enough that the queue is gone soon, but towards us not before windows had the time to end
//! what may be a burst; what may be elsewhere teaches nothing before it did follow a cut. Non-goals: a queue that does not
//! follow one (`elsewhere`), going upwards (`probing_up`).

use super::{Context, DEEPEST, DirectionState, Drain, FULL, GUESSED, Outcome, Phase, Step};
use crate::Direction;
use crate::control::rate_fit::{Estimate, RateFit, SAME};
use crate::control::{Reason, Rule};

/// A queue as long as this, s, or as so many packets is drained by the deepest cut.
const DRAIN: f64 = 0.060;
const DRAIN_PACKETS: f64 = 4.0;
/// It may be deeper than [`DEEPEST`], down to this, while a queue is longer than [`LONG`], s, and than so many packets: what
/// waits there keeps flows going.
const DEEPER: f64 = 0.1;
const LONG: f64 = 0.25;
const LONG_PACKETS: f64 = 16.0;
/// What acknowledgements need is let out, up to this share of what the line carries by the latest that is known: a queue
/// is still drained by half of that (decision 0139).
const SHALLOWEST: f64 = 0.5;
/// A first estimate is not worse than this, as a share.
const VAGUE: f64 = 0.1;
/// So many queues in a row that go when this direction is cut are here.
const FOLLOWED_OFTEN: u32 = 3;

/// So many probes in a row that all waited for longer than half a packet takes, and than delays wander, met a queue,
/// however short: of single packets one in 256 would look so (decisions 0125 and 0128; not varied).
const MANY: usize = 8;
const HALF: f64 = 0.5;
/// Nothing stalls for longer than this, s: what stands longer is a queue, whatever explains it.
const STALLS: f64 = 1.0;
/// The same while little was sent of what large probes told that the line carries: that is somebody else's queue, unless
/// the line has become much slower, or lets bursts pass faster than its rate. A cut then shows which (decision 0136).
const STALLS_UNLIKELY: f64 = 4.0;
/// A queue is ours if we made this share of it.
const OWN: f64 = 0.4;

impl DirectionState {
    /// One more queue that goes when this direction is cut, and it is thought to be slower.
    pub(in crate::control) fn is_about_to_learn(&self) -> bool {
        self.followed + 1 >= FOLLOWED_OFTEN
    }

    /// Whether a queue is beyond doubt.
    pub(super) fn is_clear(&self, queue: f64, context: &Context) -> bool {
        let wanders = self.is_volatile(context.now) || self.run.is_persistent();
        wanders || queue > context.rise + context.wander
    }

    /// Whether a queue is long enough to be one. A packet in front of the probe is none, and on a
    /// slow line it takes long. A line that became slower shows it by a queue that grows fast; what
    /// passes between two bursts is less than it carries.
    pub(super) fn stands(&self, queue: f64, found: &Estimate, context: &Context) -> bool {
        let least = match self.capacity {
            None if !self.is_made_by_us(queue, found, context) => return false,
            None if found.error > VAGUE && !self.stands_long() => return false,
            _ if self.run.is_persistent() => 0.0,
            // What we sent is known for certain.
            _ if self.dir == Direction::Up && self.is_volatile(context.now) => 0.0,
            None => context.rise + context.wander,
            Some((c, _)) if found.capacity < (1.0 - SAME) * c => {
                // Where it often does become slower, waiting to be sure costs more than an error. A delay that lasts for longer
                // than anything stalls is a queue rather than noise (decision 0139).
                let certainly = if self.is_volatile(context.now) || self.stands_long() {
                    1.0
                } else {
                    2.0
                };
                (context.rise + certainly * context.wander).max(0.004)
            }
            Some(_) => 0.0,
        };
        let packet = context.packet / found.capacity;
        let half = HALF * packet + context.wander + context.beside;
        let packets = if self.never_ends(half, context) {
            0.0
        } else {
            2.0 * packet
        };
        queue >= least.max(packets + context.beside)
    }

    /// Whether nothing is known, and all of many probes in a row waited for longer than `least`, s: the rest of a single
    /// packet is as often shorter than half of it, and what delays wander by is not in it. What stalled is answered at
    /// once.
    fn never_ends(&self, least: f64, context: &Context) -> bool {
        let ends = self.run.iter().last().zip(self.run.iter().next());
        let lasts = ends.map_or(0.0, |(last, first)| last.came - first.came);
        self.capacity.is_none()
            && self.has(Rule::NeverEnds)
            && self.run.len() >= MANY
            && lasts > HALF * MANY as f64 * context.pace
            && self.run.iter().all(|p| p.queue > least)
    }

    /// What stands has stood for longer than anything stalls.
    fn stands_long(&self) -> bool {
        let stalls = if self.sends_little() {
            STALLS_UNLIKELY
        } else {
            STALLS
        };
        self.latest.is_some_and(|p| p.left - self.clear > stalls)
    }

    /// Whether what we sent since the latest probe without a queue can have made this one, if the line carries what
    /// was `found`: else something stalled for a moment. Connections that pass are heard too seldom for that.
    fn is_made_by_us(&self, queue: f64, found: &Estimate, context: &Context) -> bool {
        if self.stands_long() {
            return true;
        }
        if self.sends_little() {
            return false;
        }
        let Some(p) = self
            .latest
            .filter(|_| self.dir == Direction::Up && context.probed)
        else {
            return true;
        };
        let slowest = (found.capacity * (1.0 - 2.0 * found.error).max(0.5)).max(self.passed());
        let made = self.meter.queue_since(self.clear, slowest, p.left);
        let made = made + context.packet / slowest + context.rise;
        made > OWN * queue
    }

    /// Towards us: whether less comes than the line carries, as far as is known, so that this is a burst, which goes by
    /// itself.
    fn goes_by_itself(&self, fit: &RateFit, context: &Context) -> bool {
        let may_be = self.dir == Direction::Down && self.has(Rule::Bursts);
        let Some((capacity, _)) = self.capacity.filter(|_| may_be) else {
            return false;
        };
        fit.most >= capacity && self.used(capacity, context) < FULL
    }

    pub(super) fn congested(&mut self, context: &Context) -> Outcome {
        let Some(rate_fit) = self.estimate(f64::MIN, context) else {
            return Outcome::Nothing;
        };
        let mut found = rate_fit.known;
        let known = self.known();
        let volatility = self.volatility;
        let queue = self.latest.map_or(0.0, |p| p.queue);
        if !self.stands(queue, &found, context)
            || self.goes_by_itself(&rate_fit, context)
            || self.was_refuted(found.capacity, context.now)
        {
            return Outcome::Nothing;
        }
        if self.dir == Direction::Up && rate_fit.level {
            // We know what we sent, not what arrived: what a full buffer threw away is no evidence.
            found.error = found.error.max(GUESSED);
            if let Some(k) = known {
                found.capacity = found.capacity.min(k.capacity);
            }
        }
        // What may be elsewhere must follow a cut before anything is learned from it.
        let learns = match known {
            None => true,
            Some(k) => self.is_attributed || found.capacity > (1.0 - SAME) * k.capacity,
        };
        if known.is_none() || learns && self.is_clear(queue, context) {
            self.learn(found, context.now);
        }
        let shown = self.shown_by_own_bytes(queue, context);
        if self.is_attributed {
            self.is_less(shown, context.now);
        }
        let capacity = self.capacity.map_or(found.capacity, |c| c.0);
        if let Phase::ProbeUp(Step { before, .. }) = self.phase {
            self.note_try(capacity, before);
        }
        if self.dir == Direction::Up && !self.is_volatile(context.now) {
            // From now on only probes behind the cut count.
            self.prior = self.known();
        }
        if self.phase == Phase::Steady && self.has(Rule::Caution) {
            self.caution.queue_came();
        }
        let capacity = match self.dir {
            Direction::Down if !self.is_attributed => capacity.min(self.throughput(context)),
            Direction::Up if !learns => capacity.min(found.capacity),
            _ => capacity,
        };
        self.cut(Drain {
            before: known,
            volatility,
            found: (!learns).then_some(found),
            shown: shown.filter(|_| !self.is_attributed),
            capacity,
            ..self.drain_now(context)
        })
    }

    /// A queue that nobody tried for says that what was sent is more than the line carries. What was sent since the
    /// latest queue had gone says how much more.
    fn shown_by_own_bytes(&self, queue: f64, context: &Context) -> Option<f64> {
        let (capacity, p) = (self.capacity?.0, self.latest?);
        let is_told = self.dir == Direction::Up && self.has(Rule::OwnBytes);
        if !is_told || self.phase != Phase::Steady {
            return None;
        }
        let certain = queue - std::f64::consts::SQRT_2 * context.noise;
        let carries = self.meter.carries(self.settled, certain, p.left, capacity);
        (carries < capacity).then_some(carries)
    }

    /// The line carries less than was thought: what was known before is no evidence any more.
    fn is_less(&mut self, shown: Option<f64>, now: f64) {
        if let (Some(shown), Some((capacity, _))) = (shown, self.capacity)
            && shown < capacity
        {
            let shown = shown.max(self.least_in_a_group());
            self.capacity = Some((self.bounded(shown), now));
            self.prior = None;
        }
    }

    /// A queue that stood while the line came to less and less: perhaps the way has become longer.
    /// It is made to end, or else it is none, and the line is what it was `before`.
    pub(super) fn doubt(
        &mut self,
        before: Option<Estimate>,
        volatility: (f64, f64),
        context: &Context,
    ) -> Outcome {
        self.cut(Drain {
            before,
            volatility,
            doubted: Some(0.0),
            ..self.drain_now(context)
        })
    }

    /// The queue of now, by what the line is known to carry.
    pub(super) fn drain_now(&self, context: &Context) -> Drain {
        let queue = self.latest.map_or(0.0, |p| p.queue);
        let capacity = self.capacity.map_or(0.0, |c| c.0);
        Drain {
            cut: context.now,
            since: context.now,
            queue,
            first: queue,
            longest: queue,
            met: self.latest.map_or(context.now, |p| p.came),
            before: None,
            volatility: self.volatility,
            doubted: None,
            followed: self.is_attributed,
            confirmed: None,
            found: None,
            shown: None,
            at_cut: capacity,
            capacity,
            failures: 0,
        }
    }

    fn cut(&mut self, drain: Drain) -> Outcome {
        self.phase = Phase::Drain(drain);
        Outcome::Changed(Reason::Queue {
            dir: self.dir,
            queue_ms: drain.queue * 1e3,
        })
    }

    pub(super) fn drain(&mut self, mut drain: Drain, context: &Context) -> Outcome {
        let queue = self.latest.map_or(0.0, |p| p.queue);
        drain.longest = drain.longest.max(queue);
        let until_heard = context.rtt + drain.queue + 2.0 * context.pace;
        if self.run.is_empty() || queue < self.stays(&drain, context) {
            return self.has_gone(&drain, context);
        }
        drain.met = self.latest.map_or(drain.met, |p| p.came);
        if self.comes_less(queue, &drain, context)
            || self.has(Rule::Obedience)
                && (self.yields(queue, &drain, context) || self.is_unresponsive(&drain, context))
            || self.outlasts(&drain, context)
        {
            return self.not_here(&drain, queue, context);
        }
        let left = self.latest.map_or(0.0, |p| p.left);
        // A queue that stays as it is may be a full buffer, or none at all; a cut tells.
        let mut failed = false;
        // Answers that know of the cut. Before them the queue may still grow.
        if left <= drain.since {
            drain.queue = queue;
        } else if left > drain.since + 2.0 * context.pace {
            let expected = self.expected_fall(drain.since, left, drain.capacity);
            let heard = context.now - drain.since > until_heard;
            if self.contradicts(queue, expected, &drain, context) {
                return self.not_here(&drain, queue, context);
            }
            if heard && expected > (2.0 * context.rise).max(0.5 * drain.queue) {
                let fell = (drain.queue - queue) / expected;
                drain.followed = self.is_attributed || fell > 0.5;
                if fell > 0.5 {
                    drain.confirmed = self.known();
                }
                if fell < 0.25 {
                    drain.failures += 1;
                    failed = true;
                    drain
                        .doubted
                        .get_or_insert(self.standing_queue(context.now));
                    if drain.failures
                        >= if self.is_attributed || self.is_ambiguous {
                            3
                        } else {
                            1
                        }
                    {
                        return self.not_here(&drain, queue, context);
                    }
                }
                // What was sent until the latest probe left is known, unless others' bytes count as well.
                drain.since = match self.dir {
                    Direction::Up if context.probed && self.others_lag == 0.0 => left,
                    _ => context.now,
                };
                drain.queue = queue;
                if self.is_attributed || self.dir == Direction::Up {
                    let found = drain.found.map_or(f64::MAX, |f| f.capacity);
                    let known = self.capacity.map_or(drain.capacity, |c| c.0);
                    drain.capacity = known.min(found);
                }
            }
        }
        self.phase = Phase::Drain(drain);
        self.learn_while_draining(queue, &drain, failed, context);
        Outcome::Changed(Reason::Draining {
            dir: self.dir,
            queue_ms: queue * 1e3,
        })
    }

    /// The share of the capacity that is let out while a queue is drained.
    pub(super) fn cut_to(&self, drain: &Drain, capacity: f64, context: &Context) -> f64 {
        let packet = context.packet / capacity;
        let drained = DRAIN.max(DRAIN_PACKETS * packet);
        if self.waits_for_windows(drain, drained, context) {
            return 1.0;
        }
        // A cut that is none would tell nothing, as would taking away what is not used.
        let carries = if self.is_attributed {
            capacity
        } else {
            drain.capacity.min(capacity)
        };
        let waits = self.waits(carries, context).unwrap_or(0.0);
        let queue = waits - self.stays(drain, context);
        let deepest = if queue > LONG.max(LONG_PACKETS * packet) {
            DEEPER
        } else {
            DEEPEST
        };
        let used = (carries / capacity).max(deepest);
        let cut = used * (1.0 - queue / drained).clamp(deepest, 1.0);
        let acknowledges = self.acknowledges(context) / capacity;
        cut.max(acknowledges.min(SHALLOWEST * carries / capacity))
    }

    /// Whether a queue towards us is given the time in which windows end it. They bound what is under way, so a queue that
    /// came of a burst is gone a round trip later; only what stays then is cut for. Where the line is not known to change
    /// all the time a queue may also mean that it has just become slower. So only one that is shorter than `drained`, s, is
    /// waited for there, and only if what the line carries was known before; and one that may be elsewhere is not, since
    /// whether it follows a cut is what tells (decision 0103).
    fn waits_for_windows(&self, drain: &Drain, drained: f64, context: &Context) -> bool {
        let goes = context.rtt + drain.longest + 2.0 * context.pace;
        let may_be_burst = self.is_attributed && drain.before.is_some() && drain.longest < drained;
        self.dir == Direction::Down
            && self.has(Rule::WindowsWait)
            && (may_be_burst || self.is_volatile(context.now))
            && context.now - drain.cut < goes
    }

    /// The queue is gone: by the cut, or before that can have been heard of.
    fn has_gone(&mut self, drain: &Drain, context: &Context) -> Outcome {
        let heard = context.now - drain.cut >= context.rtt + drain.longest;
        if self.dir == Direction::Down
            && !self.is_attributed
            && !heard
            && !self.is_volatile(context.now)
        {
            return self.went_by_itself(drain, context);
        }
        if self.goes_too_fast(drain, context) {
            return self.went_by_itself(drain, context);
        }
        if self.outlasts(drain, context) {
            let ended = self.went_by_itself(drain, context);
            self.refute(drain, context.now);
            return ended;
        }
        if !self.is_ambiguous {
            self.is_less(drain.shown, context.now);
        }
        if let Some(found) = drain.found.filter(|_| !self.is_ambiguous) {
            self.followed += 1;
            if self.followed >= FOLLOWED_OFTEN {
                self.followed = 0;
                self.learn(found, context.now);
            }
        }
        if drain.followed {
            self.losses.held(drain.longest * drain.capacity);
        }
        self.drained(context)
    }

    /// Takes what the queue says meanwhile for the line's rate, or remembers it until the queue has
    /// followed the cut. `failed`: the last cut did not shorten it.
    fn learn_while_draining(&mut self, queue: f64, drain: &Drain, failed: bool, context: &Context) {
        let from = match self.dir {
            Direction::Up => drain.cut,
            Direction::Down => f64::MIN,
        };
        let known = self.capacity.map_or(f64::MAX, |c| c.0);
        if let Some(rate_fit) = self.estimate(from, context)
            && (self.dir == Direction::Down
                || !rate_fit.level
                || failed && rate_fit.known.capacity < known)
            && self.is_clear(queue, context)
            && self.stands(queue, &rate_fit.known, context)
        {
            // A cut of ours makes less of what the others send, and that is known late.
            let is_less = rate_fit.known.capacity < drain.at_cut;
            if self.dir == Direction::Up && self.others_lag > 0.0 && is_less {
                return;
            }
            if drain.followed || rate_fit.known.capacity > (1.0 - SAME) * drain.at_cut {
                self.learn(rate_fit.known, context.now);
            } else if let (Direction::Up, Phase::Drain(drain)) = (self.dir, &mut self.phase) {
                drain.found = Some(rate_fit.known);
            }
        }
    }

    /// Nothing is heard any more of the queue that is drained: the line is what it was before, as far as is known.
    pub(in crate::control) fn end_cut(&mut self, context: &Context) -> Outcome {
        let Phase::Drain(drain) = self.phase else {
            return Outcome::Nothing;
        };
        self.capacity = self.capacity.map(|(c, at)| (c.max(drain.at_cut), at));
        self.run.clear();
        self.latest = None;
        self.drained(context)
    }

    /// By how much the queue must have become shorter for a probe sent at `left`, if the line `carries` so much: a
    /// bottleneck with a queue sends what it can, so less than that means that the queue had an end.
    pub(super) fn expected_fall(&self, since: f64, left: f64, carries: f64) -> f64 {
        match self.meter.between(since, left) {
            Some(bytes) => (left - since - bytes / carries).max(0.0),
            None => 0.0,
        }
    }

    pub(super) fn drained(&mut self, context: &Context) -> Outcome {
        self.phase = Phase::Steady;
        self.settles(context.now);
        self.next_probe_up =
            context.now + self.patience * (1.0 - self.volatility(context.now)).powi(2);
        self.quiet = context.now;
        Outcome::Changed(Reason::Drained { dir: self.dir })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::SerializationRate;
    use crate::control::rate_fit::Point;

    /// What is let out of what the line carries, so long after a cut for a queue of so many s; `known`: what it carries was
    /// known before.
    fn let_out(dir: Direction, queue: f64, known: bool, after: f64) -> f64 {
        let mut way = DirectionState::new(dir);
        way.believe(1e6, 0.0);
        for n in 0..200 {
            way.meter.note(f64::from(n) * 0.01, 1e4 * f64::from(n));
        }
        way.latest = Some(Point {
            left: 1.9,
            came: 1.94,
            queue,
        });
        let context = Context::of_test(1.95);
        let drain = Drain {
            before: way.known().filter(|_| known),
            ..way.drain_now(&context)
        };
        way.phase = Phase::Drain(drain);
        let later = Context::of_test(1.95 + after);
        way.target(&later).map_or(0.0, |(_, factor)| factor)
    }

    #[test]
    fn windows_are_waited_for_where_a_queue_is_short() {
        let (up, down) = (Direction::Up, Direction::Down);
        assert!(let_out(down, 0.02, true, 0.05) > 0.99);
        // A round trip and the queue later it stands: it does not come of what was under way.
        assert!(let_out(down, 0.02, true, 0.15) < 0.8);
        // A long one may mean that the line has become slower, and of one that is not known nothing is to be hoped.
        assert!(let_out(down, 0.07, true, 0.05) < 0.5);
        assert!(let_out(down, 0.02, false, 0.05) < 0.8);
        assert!(let_out(up, 0.02, true, 0.05) < 1.0);
    }

    /// The share of what the line is thought to carry that it is held at, after a queue that came in this phase.
    fn held_after_a_queue(phase: Phase) -> f64 {
        let mut way = DirectionState::new(Direction::Down);
        way.believe(1e6, 0.0);
        way.phase = phase;
        for came in (1..30).map(|n| 0.07 * f64::from(n)) {
            way.meter.note(came, 1e6 * came);
            let context = Context::of_test(came);
            let left = came - context.rtt;
            let queue = if came < 1.0 { 0.0 } else { 0.04 };
            way.observe(Point { left, came, queue }, &context);
        }
        let context = Context::of_test(2.03);
        way.congested(&context);
        assert!(way.is_draining());
        let (held, _) = way.target(&context).unwrap();
        held / way.capacity.unwrap().0
    }

    #[test]
    fn a_queue_that_nobody_tried_for_makes_cautious() {
        assert!((held_after_a_queue(Phase::Steady) - 0.995).abs() < 1e-9);
        let step = Step {
            level: 1.1e6,
            next: 0.2,
            since: 0.5,
            before: 1e6,
        };
        assert!((held_after_a_queue(Phase::ProbeUp(step)) - 1.0).abs() < 1e-9);
    }

    /// Whether something is learned of an upload of 40 kB/s, where a packet takes 38 ms, while probes wait for so long by turns.
    fn learns_of(waits: [f64; 2]) -> bool {
        let mut way = DirectionState::new(Direction::Up);
        for n in 0..100 {
            let now = f64::from(n) * 0.05;
            way.looks(now, 4e4 * now, waits[n as usize % 2]);
        }
        way.capacity.is_some()
    }

    #[test]
    fn what_never_ends_is_a_queue_even_of_less_than_two_packets() {
        assert!(learns_of([0.030, 0.034]));
        // Longer than half a packet, which takes 19 ms, but by less than the 4 ms that delays wander by.
        assert!(!learns_of([0.021, 0.034]));
        assert!(!learns_of([0.012, 0.034]));
        assert!(!learns_of([0.001, 0.034]));
    }

    /// When a queue that begins after a second is first taken for one of 60 kB/s that are sent, s; large probes `told`.
    fn believed_at(dir: Direction, told: Option<f64>) -> Option<f64> {
        let mut way = DirectionState::new(dir);
        if let Some(told) = told {
            way.large_probes_told(SerializationRate::of_test(told, told));
        }
        (1..400).map(|n| f64::from(n) * 0.02).find(|now| {
            let queue = (now - 1.0).clamp(0.0, 0.6);
            way.looks(*now, 60e3 * now, queue);
            way.capacity.is_some()
        })
    }

    #[test]
    fn a_queue_beside_little_of_what_large_probes_told_is_hardly_ours() {
        for dir in [Direction::Up, Direction::Down] {
            let soon = believed_at(dir, None).unwrap();
            assert!(soon < 3.0, "{dir:?}: {soon}");
            assert_eq!(believed_at(dir, Some(100e3)), Some(soon));
            // 60 of 900 kB/s, and yet it is tried whether the line has become so slow.
            let late = believed_at(dir, Some(900e3)).unwrap();
            assert!(late > 5.0 && late < 7.0, "{dir:?}: {late}");
        }
    }

    #[test]
    fn a_long_queue_that_does_not_follow_is_known_soon() {
        let (mut way, mut bytes, mut cut) = (DirectionState::new(Direction::Up), 0.0, None);
        way.believe(1e6, 0.0);
        for n in 1..=600 {
            let now = f64::from(n) * 0.02;
            let let_out = way
                .target(&Context::of_test(now))
                .map_or(1e6, |t| t.0 * t.1);
            bytes += 0.02 * let_out;
            way.looks(now, bytes, if now > 2.0 { 1.8 } else { 0.0 });
            match (cut, way.is_draining()) {
                (None, true) => cut = Some(now),
                (Some(cut), false) => {
                    // 6.5 s; 8.5 if what was sent before each look did not count.
                    assert!(now - cut < 7.0, "{}", now - cut);
                    return;
                }
                _ => (),
            }
        }
        panic!("it is thought to be ours: {cut:?}");
    }
}
