//! The first load of a direction of which nothing is known: it is opened as TCP opens a window.
//!
//! Until something is known of what we send, so much is let out, and twice as much as soon as an answer shows that
//! this has passed without a queue. So the first upload ever makes a queue of some round trips at most, whatever the
//! line and however deep its buffer (slow start, RFC 5681, section 3.1, of the whole line). Where large probes tell
//! beforehand what the line carries at least, it is opened from half of that (decision 0096), and again if what a queue
//! taught turns out to be wrong (decision 0136).
//!
//! Principles: what passed is never let out less again, held or not, but beside somebody whose bytes are not counted
//! yet; a queue that what we sent cannot explain is somebody else's and no reason to wait; acknowledgements of a
//! download are never held up; where nothing answers although much is sent, nothing is held at all. Non-goals: what the
//! queue says at which it ends (`drain`).

use super::{Context, DirectionState, Outcome, Phase};
use crate::Direction;
use crate::control::change::LEAST_IN_OPENING;
use crate::control::{Reason, Rule, SerializationRate};

/// What is let out at first, bytes/s: 256 kbit/s, which the slowest lines that are sold carry.
pub(super) const FIRST: f64 = 32_000.0;
/// Of what large probes say that the line carries at least, this share is let out at first (decision 0096).
const FIRST_SHARE: f64 = 0.5;
/// But no more than this, bytes/s: a packet takes 3 ms then, so that holding it costs little, while what sends a burst
/// faster than its rate (token buckets, radio) may carry much less than large probes say.
const FIRST_MOST: f64 = 512_000.0;
/// What was used to this share is tried.
const TRIED: f64 = 0.7;
/// What is sent is measured for so long, s, to see that it begins and that it goes on: few packets pass in the first.
const MEASURED: [f64; 2] = [0.2, 1.0];
/// From one step to the next, as a factor (RFC 5681, 3.1: twice for each round trip).
const GROWS: f64 = 2.0;
/// After a queue half of that, as a logarithm, and at least this.
const GROWS_LEAST: f64 = 1.19;
/// From this share on what is let out is used up.
const USED_UP: f64 = 0.85;
/// Then echoes of far ends are waited for so long, s, and so many round trips: they are asked after a few packets.
const ECHO_WAIT: f64 = 0.25;
const ROUND_TRIPS: f64 = 3.0;
/// A host whose bytes are not counted yet is waited for so long, s: they are counted after two of its reports, and all
/// know it a quarter of a second later (`sharing::group::KNOWS`); the rest is for beacons that get lost. Further
/// hosts that come meanwhile do not make it longer (decision 0096).
const NEWCOMERS_WAIT: f64 = 1.0;
/// A queue that what is let out makes has grown to more than a packet takes after so long, s (decision 0138).
const GROWN: f64 = 1.0;
/// What we sent explains a queue if it made this share of it at least.
const OWN: f64 = 0.4;

/// How far it is open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::control) struct Opening {
    /// What is let out, bytes/s.
    level: f64,
    /// Since when.
    since: f64,
    /// What the line likely carries, bytes/s, as far as large probes or a step say anything of it.
    likely: Option<f64>,
    /// The most that passed without a queue, bytes/s.
    passed: f64,
    /// How far the next step goes, as a factor.
    grows: f64,
    /// It is used up and there are no echoes, since; once that was too long, until there are some.
    unheard: Option<f64>,
    /// Somebody is there whose bytes are not counted yet, since.
    newcomers: Option<f64>,
}

impl Default for Opening {
    fn default() -> Self {
        Opening {
            level: FIRST,
            since: f64::MIN,
            likely: None,
            passed: 0.0,
            grows: GROWS,
            unheard: None,
            newcomers: None,
        }
    }
}

impl SerializationRate {
    /// What is taken for certain, bytes/s: half of what the line carries at least, and no more than [`FIRST_MOST`].
    fn certain(self) -> f64 {
        (FIRST_SHARE * self.at_least.bytes_per_sec() as f64).min(FIRST_MOST)
    }

    /// What is let out at first, bytes/s.
    fn opens_at(self) -> f64 {
        self.certain().max(FIRST)
    }

    /// The best estimate, bytes/s.
    fn likely_carries(self) -> f64 {
        self.likely.bytes_per_sec() as f64
    }

    /// Of bytes/s.
    #[cfg(test)]
    pub(in crate::control) fn of_test(at_least: f64, likely: f64) -> Self {
        SerializationRate {
            at_least: crate::Rate::from_bps(8 * at_least as u64),
            likely: crate::Rate::from_bps(8 * likely as u64),
        }
    }
}

/// How long echoes are waited for, s.
fn echo_wait(rtt: f64) -> f64 {
    ECHO_WAIT + ROUND_TRIPS * rtt
}

impl DirectionState {
    /// Large probes have told what the line carries: where nothing was let out yet, it is opened from there.
    pub(in crate::control) fn large_probes_told(&mut self, rate: SerializationRate) {
        if !self.has(Rule::LargeProbes) {
            return;
        }
        self.serialization_rate = Some(rate);
        if let Phase::Open(opening) = &mut self.phase
            && opening.since < 0.0
        {
            opening.level = rate.opens_at();
            opening.likely = Some(rate.likely_carries());
        }
    }

    /// What large probes told was of another way.
    pub(in crate::control) fn forget_large_probes(&mut self) {
        self.serialization_rate = None;
    }

    /// Nothing is known any more but that so much `passes`, bytes/s, and what large probes told.
    pub(super) fn open_again(&mut self, passes: f64) {
        let opens_at = self
            .serialization_rate
            .map_or(FIRST, SerializationRate::opens_at);
        self.phase = Phase::Open(Opening {
            level: passes.max(opens_at),
            likely: self
                .serialization_rate
                .map(SerializationRate::likely_carries),
            passed: passes,
            ..Opening::default()
        });
    }

    /// Whether so little was sent of late that a queue is hardly of that, as far as large probes told what the line carries
    /// (decision 0136).
    pub(super) fn sends_little(&self) -> bool {
        let sent = self.meter.rate(MEASURED[1]).unwrap_or(0.0);
        self.serialization_rate
            .is_some_and(|rate| sent < TRIED * rate.certain())
    }

    /// What the line likely carries while it is opened, bytes/s.
    pub(in crate::control) fn likely_carries(&self) -> Option<f64> {
        match self.phase {
            Phase::Open(opening) => opening.likely,
            _ => None,
        }
    }

    /// What is let out, bytes/s; `None`: it is not held.
    pub(super) fn let_out(&self, opening: Opening, context: &Context) -> Option<f64> {
        let waits = |since: f64| context.now - since < echo_wait(context.rtt);
        let is_heard = context.probed || opening.unheard.is_none_or(waits);
        let may_hold = self.dir == Direction::Up && self.has(Rule::Opening);
        let is_held = may_hold && context.known && is_heard;
        is_held.then_some(opening.level)
    }

    /// Held, and without an echo so far.
    pub(in crate::control) fn awaits_echoes(&self, rtt: f64, now: f64) -> bool {
        let unheard = match self.phase {
            Phase::Open(opening) => opening.unheard,
            _ => None,
        };
        unheard.is_some_and(|since| now - since < echo_wait(rtt))
    }

    /// Since when what is let out is used up without an echo.
    fn unheard(&self, opening: Opening, context: &Context) -> Option<f64> {
        let measured = MEASURED[usize::from(opening.unheard.is_some())];
        let is_used_up = || {
            let sent = self.meter.rate(measured).unwrap_or(0.0);
            sent > USED_UP * opening.level
        };
        match opening.unheard {
            _ if context.probed => None,
            Some(since) if context.now - since >= echo_wait(context.rtt) => Some(since),
            since => is_used_up().then(|| since.unwrap_or(context.now)),
        }
    }

    /// What this direction carries for certain although nothing else is known of it, bytes/s.
    pub(super) fn passed(&self) -> f64 {
        match self.phase {
            Phase::Open(opening) => opening.passed,
            _ => 0.0,
        }
    }

    /// What this direction carries as far as is known: at least so much, bytes/s.
    pub(in crate::control) fn known_to_carry(&self) -> Option<f64> {
        let passed = Some(self.passed()).filter(|p| *p > 0.0);
        self.capacity.map(|c| c.0).or(passed)
    }

    /// Lets out more once it is known that what was let out has passed.
    pub(super) fn open(&mut self, mut opening: Opening, context: &Context) -> Outcome {
        // A download that begins comes twice as fast a round trip later. The level is what is in force: a smaller rise would
        // not be set (`change`).
        let acknowledges = GROWS * self.acknowledges(context);
        if acknowledges > (1.0 + LEAST_IN_OPENING) * opening.level {
            opening.level = acknowledges;
        }
        opening.unheard = self.unheard(opening, context);
        opening.newcomers = opening.newcomers.filter(|_| self.has_newcomer);
        self.phase = Phase::Open(opening);
        let Some(level) = self.let_out(opening, context) else {
            self.phase = Phase::Open(self.went_unheld(opening, context));
            return Outcome::Nothing;
        };
        if !context.probed {
            return Outcome::Nothing;
        }
        if !self.is_somebody_elses(opening, context) {
            return self.falls_back(opening.passed, opening, context);
        }
        if context.now - opening.since < self.others_lag {
            return Outcome::Nothing;
        }
        // On a line that carries half of it a queue shows after that.
        let shows = context.rise + context.packet / level;
        // What the latest answer can know of.
        let told = self.latest.map_or(f64::MIN, |p| p.left);
        let back = shows.max(2.0 * context.rtt + context.pace);
        let span = told - opening.since.max(told - back);
        if span < 0.99 * shows {
            return Outcome::Nothing;
        }
        let sent = self.meter.between(told - span, told).unwrap_or(0.0);
        if sent < TRIED * level * span {
            return Outcome::Nothing;
        }
        // A queue that is not seen yet may hold some of it.
        let carries = sent / (span + context.rise + context.wander);
        let level = level * opening.grows;
        self.phase = Phase::Open(Opening {
            level,
            since: context.now,
            likely: Some(GROWS * level),
            passed: if self.is_clear_of_queues(context) {
                opening.passed.max(carries)
            } else {
                opening.passed
            },
            ..opening
        });
        Outcome::Changed(Reason::Opening { dir: self.dir })
    }

    /// It is not held, for want of echoes: what has passed where the latest answer met no queue is let out once there are
    /// some.
    fn went_unheld(&self, opening: Opening, context: &Context) -> Opening {
        let over = MEASURED[1];
        let told = self
            .latest
            .filter(|_| self.dir == Direction::Up && self.is_clear_of_queues(context));
        let sent = told.and_then(|p| self.meter.between(p.left - over, p.left));
        // A queue that is not seen yet may hold some of it.
        let carries = sent.unwrap_or(0.0) / (over + context.rise + context.wander);
        Opening {
            level: opening.level.max(carries),
            passed: opening.passed.max(carries),
            ..opening
        }
    }

    /// Somebody is there whose bytes are not counted yet: a queue says nothing of what the line carries.
    pub(super) fn awaits_newcomers(&self, opening: Opening, context: &Context) -> bool {
        let waits = |since: f64| context.now - since < NEWCOMERS_WAIT;
        self.dir == Direction::Up && self.has_newcomer && opening.newcomers.is_none_or(waits)
    }

    /// While their bytes are waited for it is opened as ever, but after a queue as little is let out as at first.
    pub(super) fn opens_beside_newcomers(
        &mut self,
        opening: Opening,
        context: &Context,
    ) -> Outcome {
        let since = opening.newcomers.unwrap_or(context.now);
        let opening = Opening {
            newcomers: Some(since),
            ..opening
        };
        self.phase = Phase::Open(opening);
        match self.falls_back(0.0, opening, context) {
            Outcome::Nothing => self.open(opening, context),
            known => known,
        }
    }

    /// A queue stands that what was let out has made, and it is not known yet what the line carries: no more is let
    /// out than what `passed` without one.
    fn falls_back(&mut self, passed: f64, opening: Opening, context: &Context) -> Outcome {
        let level = passed.max(self.acknowledges(context)).max(FIRST);
        // A packet in front of a probe is no queue.
        let least = context.rise + 2.0 * context.packet / opening.level;
        let stands = self.run.len() >= 2 && self.latest.is_some_and(|p| p.queue > least);
        if !stands || level >= opening.level {
            return Outcome::Nothing;
        }
        self.phase = Phase::Open(Opening {
            level,
            since: context.now,
            likely: (passed > 0.0).then_some(GROWS * level).or(opening.likely),
            grows: opening.grows.sqrt().max(GROWS_LEAST),
            ..opening
        });
        Outcome::Changed(Reason::Opening { dir: self.dir })
    }

    /// Whether there is no queue, or what we sent cannot have made it: the line carries what has passed already.
    fn is_somebody_elses(&self, opening: Opening, context: &Context) -> bool {
        let Some(p) = self.latest.filter(|_| !self.is_clear_of_queues(context)) else {
            return true;
        };
        // A packet in front of the probe takes so long, as far as is known. A queue of ours would have grown meanwhile.
        let likely = opening.likely.unwrap_or(0.0).max(opening.level);
        let explained = p.queue + context.elsewhere <= context.rise + context.packet / likely;
        if !context.is_apart && explained && context.now - opening.since > GROWN {
            return true;
        }
        let certain = self
            .serialization_rate
            .map_or(0.5 * FIRST, SerializationRate::certain);
        let passes = opening.passed.max(certain);
        let made = self.meter.queue_since(self.clear, passes, p.left) + context.packet / passes;
        made + context.rise < OWN * (p.queue + context.elsewhere)
    }

    /// No queue stands here, nor one in the other direction that may be here.
    fn is_clear_of_queues(&self, context: &Context) -> bool {
        self.run.is_empty() && context.elsewhere < context.rise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_opened_from_half_of_what_it_carries_at_least() {
        let level = |carries: f64| {
            let mut way = DirectionState::new(Direction::Up);
            way.large_probes_told(SerializationRate::of_test(carries, carries));
            match way.phase {
                Phase::Open(opening) => opening.level as u32,
                _ => 0,
            }
        };
        assert_eq!(level(200e3), 100_000);
        assert_eq!(level(30e3), 32_000);
        assert_eq!(level(9e6), 512_000);
    }

    #[test]
    fn what_large_probes_told_outlasts_what_turned_out_wrong() {
        let mut way = DirectionState::new(Direction::Up);
        way.large_probes_told(SerializationRate::of_test(200e3, 300e3));
        way.believe(12e3, 0.0);
        way.phase = Phase::Steady;
        let opened = |way: &DirectionState| {
            let let_out = way.opened(&Context::of_test(1.0));
            (let_out.unwrap_or_default() as u32, way.likely_carries())
        };
        way.open_again(0.0);
        assert_eq!(opened(&way), (100_000, Some(300e3)));
        way.open_again(150e3);
        assert_eq!(opened(&way), (150_000, Some(300e3)));
        // Another way is another line.
        way.forget_large_probes();
        way.open_again(0.0);
        assert_eq!(opened(&way), (FIRST as u32, None));
    }

    #[test]
    fn what_is_let_out_at_first_says_nothing_of_the_line() {
        let mut way = DirectionState::new(Direction::Up);
        assert_eq!(way.likely_carries(), None);
        way.large_probes_told(SerializationRate::of_test(50e3, 80e3));
        assert_eq!(way.likely_carries(), Some(80e3));
        // A step that is made for what passed without a queue.
        let mut way = DirectionState::new(Direction::Up);
        for step in 0..30 {
            let now = 1.0 + 0.02 * f64::from(step);
            way.meter.note(now, FIRST * now);
            let (left, came, queue) = (now - 0.04, now, 0.0);
            let context = Context::of_test(now);
            way.observe(
                crate::control::rate_fit::Point { left, came, queue },
                &context,
            );
            let _ = way.decide(&context, true);
        }
        assert_eq!(way.likely_carries(), Some(GROWS * 2.0 * FIRST));
        way.phase = Phase::Steady;
        assert_eq!(way.likely_carries(), None);
    }

    /// What is let out after some seconds, bytes/s, if what is let out at first is used while probes wait for `queue` s.
    fn let_out_while_probes_wait(queue: f64) -> Option<f64> {
        let mut way = DirectionState::new(Direction::Up);
        way.large_probes_told(SerializationRate::of_test(1e5, 1e5));
        for n in 1..150 {
            let now = 0.02 * f64::from(n);
            let context = Context {
                is_apart: false,
                ..Context::of_test(now)
            };
            way.meter.note(now, 5e4 * now);
            let (left, came) = (now - context.rtt - queue, now);
            way.observe(
                crate::control::rate_fit::Point { left, came, queue },
                &context,
            );
            let _ = way.decide(&context, true);
        }
        way.opened(&Context::of_test(3.0))
    }

    #[test]
    fn a_packet_in_front_of_probes_keeps_nothing_from_being_opened() {
        assert_eq!(let_out_while_probes_wait(0.0), Some(1e5));
        // A full packet takes 15 ms.
        assert_eq!(let_out_while_probes_wait(0.010), Some(1e5));
        assert!(let_out_while_probes_wait(0.040) < Some(1e5));
    }

    #[test]
    fn acknowledgements_of_a_download_that_begins_are_not_held_up() {
        let let_out = |comes: f64| {
            let mut way = DirectionState::new(Direction::Up);
            let context = Context {
                comes,
                ..Context::of_test(1.0)
            };
            let _ = way.decide(&context, true);
            way.opened(&context).unwrap_or_default() as u32
        };
        assert_eq!(let_out(0.0), FIRST as u32);
        // Twice what they need now: a round trip later as much more comes.
        assert_eq!(let_out(2e6), 280_000);
    }

    #[test]
    fn what_is_let_out_is_used_up_where_it_is_full() {
        // Acknowledgements of a download that comes a fifth faster after a while: the level is what is in force.
        let mut way = DirectionState::new(Direction::Up);
        let (mut in_force, mut sent) = (0.0, 0.0);
        for step in 0..500 {
            let now = 1.0 + 0.01 * f64::from(step);
            sent += 0.01 * in_force;
            way.meter.note(now, sent);
            let context = Context {
                comes: if step < 30 { 1.0e6 } else { 1.2e6 },
                probed: false,
                ..Context::of_test(now)
            };
            let _ = way.decide(&context, true);
            let Some(level) = way.opened(&context) else {
                return;
            };
            if level > (1.0 + LEAST_IN_OPENING) * in_force {
                in_force = level;
            }
        }
        panic!("held for ever at {in_force} bytes/s without an echo");
    }

    #[test]
    fn what_was_let_out_is_known_better_than_what_probes_say() {
        let mut way = DirectionState::new(Direction::Up);
        let opened = Opening {
            level: 2.0 * FIRST,
            since: 1.0,
            ..Opening::default()
        };
        for phase in [Phase::Open(opened), Phase::Steady] {
            way.phase = phase;
            way.large_probes_told(SerializationRate::of_test(1e6, 1e6));
            assert_eq!(way.phase, phase);
        }
    }

    #[test]
    fn what_passed_while_nothing_was_held_is_let_out_once_there_are_echoes() {
        let opened = |queue: f64| {
            let mut way = DirectionState::new(Direction::Up);
            way.phase = Phase::Open(Opening {
                unheard: Some(0.0),
                ..Opening::default()
            });
            for tenth in 0..30 {
                let t = f64::from(tenth) / 10.0;
                way.meter.note(t, 1e6 * t);
            }
            let context = Context {
                probed: false,
                ..Context::of_test(2.6)
            };
            let point = crate::control::rate_fit::Point {
                left: 2.5,
                came: 2.6,
                queue,
            };
            way.observe(point, &context);
            assert_eq!(way.opened(&context), None);
            let _ = way.decide(&context, true);
            way.opened(&Context::of_test(2.7)).unwrap_or_default() as u32
        };
        assert_eq!(opened(0.001), 991_080);
        assert_eq!(opened(0.020), FIRST as u32);
    }

    #[test]
    fn beside_somebody_whose_bytes_are_not_counted_a_queue_teaches_nothing() {
        let mut way = DirectionState::new(Direction::Up);
        let opened = Opening {
            level: 512e3,
            since: 1.0,
            passed: 400e3,
            ..Opening::default()
        };
        way.phase = Phase::Open(opened);
        way.has_newcomer = true;
        for (n, left) in (0..).zip([1.0, 1.02, 1.04]) {
            let point = crate::control::rate_fit::Point {
                left,
                came: left + 0.04,
                queue: 0.03 + 0.01 * f64::from(n),
            };
            way.observe(point, &Context::of_test(left + 0.04));
            let _ = way.decide(&Context::of_test(left + 0.04), true);
        }
        assert!(way.capacity.is_none());
        let level = |way: &DirectionState| match way.phase {
            Phase::Open(opening) => (opening.level as u32, opening.newcomers.is_some()),
            _ => (0, false),
        };
        assert_eq!(level(&way), (32_000, true));
        assert_eq!(way.likely_carries(), None);
        // Not for ever, and for a whole second again after all were counted.
        let Phase::Open(opening) = way.phase else {
            panic!("{:?}", way.phase)
        };
        assert!(!way.awaits_newcomers(opening, &Context::of_test(2.1)));
        way.has_newcomer = false;
        let _ = way.open(opening, &Context::of_test(2.2));
        assert!(!level(&way).1);
    }
}
