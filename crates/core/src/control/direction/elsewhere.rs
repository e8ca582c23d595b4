//! A queue that is elsewhere: what a cut of this direction shows of whose it is, and how what it taught is forgotten.
//!
//! Principles: a bottleneck with a queue sends what it carries, so where less comes and the queue stays it is not here; what
//! was not heard of since a cut says nothing; of what ended before the cut can have been heard of nothing is kept. Non-goals:
//! whose queue it is before a cut (`attribution`), how deep a cut is (`drain`).

use super::{Context, DirectionState, Drain, Outcome, Phase, Refuted};
use crate::Direction;
use crate::control::Rule;
use crate::control::rate_fit::PACKETS;

/// How much comes is known over so long at least, s.
const SPAN: f64 = 0.060;
/// A queue that is this much of what it was did not follow.
const STILL: f64 = 0.8;
/// Towards us it keeps arrivals at what the line carries, so at more than this share of it.
const ARRIVES: f64 = 0.5;

/// The first queue towards us ever is somebody else's if it lasts so many times longer than it takes a line that carries
/// what came to send it, while less than this share of that comes.
const OUTLASTS: f64 = 1.5;
const COMES: f64 = 0.7;
/// It is as well if that share goes on to come after a cut. Senders hear of a cut after the queue, the base round trip and
/// so long, s: twice the 150 ms by which round trips to far ends are longer in drawn homes (decision 0102).
const HEARS: f64 = 0.3;
/// What comes from then on is measured over so long at least, s: fifteen packets of a call.
const LOOKED_AT: f64 = 0.3;
/// Then nothing is learned of up to so many times what came, for so long, s: at first, and at most.
const UNLIKE: f64 = 2.0;
const REFUTED: [f64; 2] = [2.0, 16.0];

impl DirectionState {
    /// Whether less comes since the cut although the queue is what it was, or longer: it is
    /// elsewhere, and that is known before a probe has passed it that was sent after the cut.
    pub(super) fn comes_less(&self, queue: f64, drain: &Drain, context: &Context) -> bool {
        let one = self.dir == Direction::Down && !self.is_attributed && !self.is_ambiguous;
        if !one || self.is_volatile(context.now) {
            return false;
        }
        let packets = PACKETS * context.packet / drain.capacity;
        let span = SPAN.max(4.0 * context.pace).max(packets);
        let heard = context.now - drain.cut > context.rtt + 2.0 * context.pace + span;
        let stays = queue > (1.5 * context.rise).max(STILL * drain.longest);
        let comes = self.meter.rate(span).unwrap_or(f64::MAX);
        // A queue of which nothing was heard since the cut may have gone, or be as long as it takes to hear of it.
        let is_fresh = self
            .latest
            .is_some_and(|p| p.came > drain.cut + context.rtt);
        is_fresh && heard && stays && comes < ARRIVES * drain.capacity
    }

    /// Whether the queue towards us, where directions are told apart, is what it was, or longer, and half of what came when
    /// the cut was made comes no more. A line that has become slower goes on to send what it carries as long as something
    /// waits; what we leave on a line that others fill is theirs (decision 0120).
    pub(super) fn yields(&self, queue: f64, drain: &Drain, context: &Context) -> bool {
        let one = self.dir == Direction::Down && self.is_attributed;
        let Some(p) = self.latest.filter(|_| one) else {
            return false;
        };
        if self.is_volatile(context.now) || queue < (1.5 * context.rise).max(STILL * drain.longest)
        {
            return false;
        }
        // What was under way at the cut comes until then, at the line's rate.
        let heard = drain.cut + context.rtt + drain.first;
        let packets = PACKETS * context.packet / drain.at_cut.max(1.0);
        let span = LOOKED_AT.max(4.0 * context.pace).max(packets);
        let before = self.meter.between(drain.cut, heard);
        let since = self.meter.between(p.came - span, p.came);
        let (Some(before), Some(since)) = (before, since) else {
            return false;
        };
        p.came > heard + span && since / span < ARRIVES * before / (heard - drain.cut)
    }

    /// Towards us a queue that stands keeps arrivals at what the line carries; where less comes and
    /// there still is a queue, it is elsewhere.
    pub(super) fn contradicts(
        &self,
        queue: f64,
        expected: f64,
        drain: &Drain,
        context: &Context,
    ) -> bool {
        let least = (2.0 * context.rise).max(0.15 * (context.now - drain.since));
        let one = self.dir == Direction::Down && !self.is_attributed && !self.is_ambiguous;
        one && expected > least && queue > 1.5 * context.rise
    }

    /// What was learned of a queue that turned out not to be here is forgotten.
    pub(super) fn not_here(&mut self, drain: &Drain, queue: f64, context: &Context) -> Outcome {
        self.run.clear();
        self.prior = None;
        self.followed = 0;
        let _ = self.drained(context);
        self.volatility = drain.volatility;
        if self.outlasts(drain, context) || self.is_first_of_ours(drain) {
            self.refute(drain, context.now);
            return Outcome::NotHere(queue);
        }
        if self.is_attributed && drain.longest - queue > context.rise {
            // Some of it was.
            self.capacity = Some((drain.at_cut, context.now));
            return Outcome::NotHere(queue);
        }
        match drain.confirmed.or(drain.before) {
            Some(known) => {
                self.capacity = Some((known.capacity, context.now));
                self.error = known.error;
            }
            None if !self.is_attributed && !drain.followed => {
                self.capacity = None;
                self.open_again(0.0);
            }
            None => {}
        }
        Outcome::NotHere(queue)
    }

    /// Whether less comes since the cut than the line was found to carry, and the queue should have gone long ago: others
    /// fill it. Only where nothing was known before; else the line may have become slower.
    pub(super) fn outlasts(&self, drain: &Drain, context: &Context) -> bool {
        let may_be = self.dir == Direction::Down && self.has(Rule::Refutation);
        if !may_be || drain.before.is_some() || !self.is_attributed {
            return false;
        }
        // A reflector that answers seldom says nothing of the time between two answers.
        let fall = self.expected_fall(drain.cut, drain.met, drain.at_cut);
        let is_much = fall > (1.0 - COMES) * (drain.met - drain.cut);
        is_much && fall > OUTLASTS * drain.longest + context.rtt
            || self.is_unresponsive(drain, context)
    }

    /// Whether it was the first queue ever of what we send: it did not follow cuts, so that it taught nothing (decision 0134).
    fn is_first_of_ours(&self, drain: &Drain) -> bool {
        self.dir == Direction::Up
            && self.is_attributed
            && drain.before.is_none()
            && self.has(Rule::Refutation)
    }

    /// Whether as much comes as before and the queue is what it was, long after whoever sends must have heard of the cut:
    /// what comes does not make the queue, and cutting it only makes one here.
    pub(super) fn is_unresponsive(&self, drain: &Drain, context: &Context) -> bool {
        let is_one = self.dir == Direction::Down && self.is_attributed;
        if !is_one || self.is_volatile(context.now) {
            return false;
        }
        let heard = drain.cut + OUTLASTS * drain.longest + context.rtt + HEARS;
        if drain.met < heard + LOOKED_AT {
            return false;
        }
        let comes = self.meter.between(heard, drain.met).unwrap_or(0.0);
        let stays = self.latest.is_some_and(|p| p.queue > STILL * drain.longest);
        stays && comes > COMES * drain.at_cut * (drain.met - heard)
    }

    /// From us, where directions are not told apart: whether the queue went faster than what was sent since the cut lets one of
    /// ours go, so that it was not made of that (decision 0130).
    pub(super) fn goes_too_fast(&self, drain: &Drain, context: &Context) -> bool {
        let one = self.dir == Direction::Up && !self.is_attributed && context.probed;
        let Some(p) = self.latest.filter(|_| one && drain.before.is_some()) else {
            return false;
        };
        if self.is_volatile(context.now) || self.others_lag > 0.0 {
            return false;
        }
        let explained = self.expected_fall(drain.cut, p.left.max(drain.cut), drain.at_cut);
        // One of the two probes may have had a packet in front.
        let unsure = std::f64::consts::SQRT_2 * context.noise + context.packet / drain.at_cut;
        drain.longest - p.queue > explained + unsure
    }

    /// The first capacity was none: it is forgotten, and not learned anew at once.
    pub(super) fn refute(&mut self, drain: &Drain, now: f64) {
        let wait = self.refuted.map_or(0.0, |r| 2.0 * r.wait);
        let wait = wait.clamp(REFUTED[0], REFUTED[1]);
        self.refuted = Some(Refuted {
            capacity: drain.at_cut,
            until: now + wait,
            wait,
        });
        // What passed while it stood is what the line carries at least.
        let passes = self.capacity.map_or(0.0, |c| c.0);
        self.capacity = None;
        self.open_again(passes);
    }

    pub(super) fn was_refuted(&self, found: f64, now: f64) -> bool {
        let refutes = |r: Refuted| now < r.until && found < UNLIKE * r.capacity;
        self.capacity.is_none() && self.refuted.is_some_and(refutes)
    }

    /// It ended before the cut was heard of, so it may well have been elsewhere: what it taught is
    /// forgotten.
    pub(super) fn went_by_itself(&mut self, drain: &Drain, context: &Context) -> Outcome {
        let ended = self.drained(context);
        self.prior = None;
        self.volatility = drain.volatility;
        self.capacity = drain.before.map(|k| (k.capacity, context.now));
        match drain.before {
            Some(before) => self.error = before.error,
            None => self.open_again(0.0),
        }
        ended
    }

    /// The queue that is drained is known to be elsewhere. False if none is.
    pub(in crate::control) fn gives_up(&mut self, context: &Context) -> bool {
        let Phase::Drain(drain) = self.phase else {
            return false;
        };
        let _ = self.not_here(&drain, drain.longest, context);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::rate_fit::Point;

    /// What is thought that the line carries, by tenths of a second, where 100 kB/s come until a queue of 100 ms stands,
    /// which it does whatever comes; `obeys`: no more than is let through comes from then on.
    fn learned(obeys: bool) -> Vec<Option<f64>> {
        let mut way = DirectionState::new(Direction::Down);
        let (mut bytes, mut all) = (0.0, Vec::new());
        for n in 0..150 {
            let now = f64::from(n) * 0.02;
            let stands = now > 1.0;
            let context = Context::of_test(now);
            let lets = way.target(&context).map_or(1e5, |(c, factor)| c * factor);
            bytes += 0.02 * if obeys { lets.min(1e5) } else { 1e5 };
            way.meter.note(now, bytes);
            let point = Point {
                left: now - context.rtt,
                came: now,
                queue: if stands { 0.1 } else { 0.0 },
            };
            way.observe(point, &context);
            let _ = way.decide(&context, true);
            if n % 5 == 0 {
                all.push(way.capacity.map(|c| c.0));
            }
        }
        all
    }

    #[test]
    fn a_first_queue_of_ours_that_follows_no_cut_teaches_nothing() {
        let mut way = DirectionState::new(Direction::Up);
        let (mut bytes, mut believed) = (0.0, false);
        for n in 0..250 {
            let now = f64::from(n) * 0.02;
            let context = Context::of_test(now);
            let (capacity, factor) = way.target(&context).unwrap_or((1e5, 1.0));
            bytes += 0.02 * (capacity * factor).min(1e5);
            way.meter.note(now, bytes);
            let point = Point {
                left: now - context.rtt,
                came: now,
                queue: if now > 1.0 { 0.1 } else { 0.0 },
            };
            way.observe(point, &context);
            let _ = way.decide(&context, true);
            believed |= way.capacity.is_some();
            if let (true, Phase::Open(_), None) = (believed, way.phase, way.capacity) {
                // What was sent beside it has passed, and is not opened again from the least.
                assert!(way.known_to_carry() > Some(1e4));
                return;
            }
        }
        panic!("believed: {believed}, {:?}", way.capacity);
    }

    #[test]
    fn a_first_queue_that_outlasts_what_came_is_somebody_elses() {
        // What goes on to come, as calls do, is not held up for a queue that it does not make either.
        for obeys in [true, false] {
            let all = learned(obeys);
            assert!(all.iter().any(Option::is_some), "{all:?}");
            assert_eq!(all.last(), Some(&None), "{all:?}");
        }
    }

    /// Whether a queue of 100 ms towards us that stays after a cut for so long, s, is thought to be others', where 1 MB/s
    /// come until what was under way at the cut has come, and so much of it from then on.
    fn is_others(share: f64, lasts: f64) -> bool {
        let mut way = DirectionState::new(Direction::Down);
        way.believe(1e6, 0.0);
        let mut drain = None;
        for n in 0..250 {
            let t = f64::from(n) * 0.01;
            let context = Context::of_test(t);
            let obeys = (t - 1.0 - context.rtt - 0.1).max(0.0);
            way.meter.note(t, 1e6 * (t - (1.0 - share) * obeys));
            let point = Point {
                left: t - context.rtt,
                came: t,
                queue: if (0.9..1.0 + lasts).contains(&t) {
                    0.1
                } else {
                    0.0
                },
            };
            way.observe(point, &context);
            if n == 100 {
                drain = Some(way.drain_now(&context));
            }
            if let Some(drain) = &mut drain
                && !way.run.is_empty()
            {
                drain.met = t;
                if way.yields(0.1, drain, &context) || way.is_unresponsive(drain, &context) {
                    return true;
                }
            }
        }
        false
    }

    #[test]
    fn a_queue_that_stays_while_what_comes_obeys_a_cut_is_others() {
        assert!(is_others(0.3, 0.7));
        // A line that has become slower goes on to send what it carries until the queue has gone.
        assert!(!is_others(1.0, 0.7));
        assert!(!is_others(0.7, 0.7));
        // What does not obey a cut is not helped by it.
        assert!(is_others(1.0, 1.0));
    }

    /// Whether a queue of 10 ms that is gone 40 ms after a cut to this share went faster than what was sent lets one of ours go.
    fn goes_too_fast(cut_to: f64, is_attributed: bool) -> bool {
        let mut way = DirectionState::new(Direction::Up);
        way.believe(1e6, 0.0);
        way.is_attributed = is_attributed;
        for n in 0..200 {
            let t = f64::from(n) * 0.01;
            way.meter
                .note(t, 1e6 * (t.min(1.0) + cut_to * (t - 1.0).max(0.0)));
        }
        let mut drain = None;
        for (left, queue) in [(0.99, 0.010), (1.04, 0.0)] {
            let context = Context::of_test(left + 0.04);
            let came = context.now;
            way.latest = Some(Point { left, came, queue });
            let before = way.known();
            drain = drain.or(Some(Drain {
                cut: 1.0,
                before,
                ..way.drain_now(&context)
            }));
        }
        way.goes_too_fast(&drain.unwrap(), &Context::of_test(1.08))
    }

    #[test]
    fn a_queue_that_goes_faster_than_a_cut_explains_is_not_ours() {
        // In 40 ms what is sent makes a queue of ours shorter by 2 ms, and by 10.
        assert!(goes_too_fast(0.95, false));
        assert!(!goes_too_fast(0.75, false));
        assert!(
            !goes_too_fast(0.95, true),
            "it is known to be in this direction"
        );
    }

    #[test]
    fn a_queue_lasts_until_the_latest_answer_that_met_it() {
        // 100 ms stand at a first cut, and a tenth of the line comes from then on. An answer comes half a second later.
        let is_believed = |queue: f64| {
            let mut way = DirectionState::new(Direction::Down);
            way.believe(1e6, 0.0);
            for n in 0..200 {
                let t = f64::from(n) * 0.01;
                way.meter
                    .note(t, 1e6 * t.min(1.0) + 1e5 * (t - 1.0).max(0.0));
            }
            let mut drain = None;
            for (came, queue) in [(1.0, 0.1), (1.5, queue)] {
                let context = Context::of_test(came);
                let left = came - context.rtt;
                way.observe(Point { left, came, queue }, &context);
                if let Some(drain) = drain {
                    let _ = way.drain(drain, &context);
                }
                drain = drain.or(Some(way.drain_now(&context)));
            }
            way.capacity.is_some()
        };
        // It may have gone at any time since the answer before.
        assert!(is_believed(0.0));
        assert!(!is_believed(0.1));
    }

    #[test]
    fn what_was_not_heard_of_since_a_cut_is_not_elsewhere() {
        // Less comes since the cut, as on a line that has just become slower, and the queue may be the other direction's.
        let mut way = DirectionState::new(Direction::Down);
        way.believe(1e6, 0.0);
        way.is_attributed = false;
        for n in 0..200 {
            let t = f64::from(n) * 0.01;
            way.meter
                .note(t, 1e6 * t.min(1.0) + 1e5 * (t - 1.0).max(0.0));
        }
        let context = Context::of_test(1.99);
        let mut elsewhere = |came: f64| {
            way.latest = Some(Point {
                left: 0.95,
                came,
                queue: 0.1,
            });
            let drain = Drain {
                cut: 1.0,
                ..way.drain_now(&context)
            };
            way.comes_less(0.1, &drain, &context)
        };
        assert!(!elsewhere(1.0));
        assert!(elsewhere(1.5));
    }
}
