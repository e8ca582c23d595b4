//! Upwards: where a line is used to the full and no queue stands, more is tried.
//!
//! Principles: a step is good as soon as the queue that it would have made would have been seen,
//! so the noisier the delay, the larger the step; a line that never settles is not tried but
//! followed, by a short queue that is kept. Non-goals: what happens to a queue (`drain`).

use super::losses::SHOWS;
use super::{Context, DirectionState, FULL, LARGEST_FIRST, Outcome, PATIENCE, Phase, Step};
use crate::Direction;
use crate::control::rate_fit::{RateFit, SAME};
use crate::control::{Reason, Rule};

/// So much of a step the shaper's headroom takes, which leaves less of the line than it carries.
const HEADROOM: f64 = 0.01;
/// A step that is known to be smaller than this is waited for as if it were this one.
const STEP: f64 = 0.02;
/// How steps grow.
const GROWTH: f64 = 2.0;
const LONGEST_STEP: f64 = 0.5;
/// A first step is so large that a line which does not carry it shows a queue within about this time, s (decision 0139).
const SHOWS_WITHIN: f64 = 0.7;
/// Senders are given this time, s, to use a try.
const SHOWN: f64 = 1.0;
/// Between tries at most, s: what a line carries more is used within about this time. A try from us makes a queue,
/// one towards us only if more comes.
const PATIENT_UP: f64 = 3.0;
const PATIENT_DOWN: f64 = 2.0;
/// How far beyond what passes a line that never settles is opened while no queue stands.
/// From us that fills the line at once, towards us it takes senders round trips.
const FREE_UP: f64 = 0.25;
const FREE_DOWN: f64 = 0.35;
/// A queue kept there that is too short or too long is made right within this, s.
const FOLLOWS: f64 = 0.150;
/// A queue that stood while the line came to less than this share is made to end, or else it is none.
const SUSPECT: f64 = 0.7;
/// It is about to end if it is less than so much longer than a rise, s.
const ENDS: f64 = 0.003;

impl DirectionState {
    fn free(&self) -> f64 {
        match self.dir {
            Direction::Up => FREE_UP,
            Direction::Down => FREE_DOWN,
        }
    }

    /// A first step is as large as what shows within [`SHOWS_WITHIN`]: the noisier the line and the longer a packet takes,
    /// the larger. On a line that never settles a queue shows at once where it ends: no small steps.
    pub(super) fn first_step(&self, context: &Context) -> f64 {
        if self.is_volatile(context.now) {
            self.free()
        } else {
            let packet = self.capacity.map_or(0.0, |c| context.packet / c.0);
            let shows = (context.rise + context.wander + packet) / SHOWS_WITHIN;
            let shows = HEADROOM + shows.max(self.error).min(LARGEST_FIRST);
            let shows = match self.capacity {
                Some((c, _)) if self.shows_losses(context.now) => {
                    shows.max(self.step_without_losses(c))
                }
                _ => shows,
            };
            shows.max(self.stride) + 0.1 * self.volatility(context.now)
        }
    }

    fn longest_patience(&self) -> f64 {
        match self.dir {
            Direction::Up => PATIENT_UP,
            Direction::Down => PATIENT_DOWN,
        }
    }

    /// Keeps a short queue on a line that never settles: what it carries is known all the time.
    pub(super) fn follow(&mut self, queue: f64, standing_queue: f64, context: &Context) -> Outcome {
        let Some(RateFit { known, .. }) = self.estimate(f64::MIN, context) else {
            return Outcome::Nothing;
        };
        // What comes while the queue is about to end is less than the line carries.
        let slower = self
            .capacity
            .is_some_and(|c| known.capacity < (1.0 - SAME) * c.0);
        if slower && queue < context.rise + ENDS {
            return Outcome::Nothing;
        }
        // What was known before says nothing of a line that never settles.
        self.prior = None;
        let (before, volatility) = (self.known(), self.volatility);
        self.learn(known, context.now);
        let found = known.capacity;
        if found < SUSPECT * self.proved {
            self.proved = found;
            return self.doubt(before, volatility, context);
        }
        self.proved = self.proved.max(found);
        let more = ((standing_queue - queue) / FOLLOWS).clamp(-0.2, LONGEST_STEP);
        self.phase = Phase::ProbeUp(Step {
            level: found * (1.0 + more),
            next: self.first_step(context) * GROWTH,
            since: context.now,
            before: found,
        });
        Outcome::Changed(Reason::Following { dir: self.dir })
    }

    /// Somewhere is a queue that may come from a try.
    pub(in crate::control) fn rest(&mut self, now: f64) {
        if let Phase::ProbeUp(_) = self.phase {
            self.phase = Phase::Steady;
            self.next_probe_up = now + self.patience;
        }
    }

    /// How long to wait for the effect of a step.
    pub(super) fn hold(&self, context: &Context) -> f64 {
        let packets = self.capacity.map_or(0.0, |c| 4.0 * context.packet / c.0);
        (2.0 * context.rtt + 2.0 * context.pace)
            .max(0.08)
            .max(packets)
    }

    pub(super) fn steady(&mut self, context: &Context) -> Outcome {
        let Some((capacity, _)) = self.capacity else {
            return Outcome::Nothing;
        };
        let quiet = context.now - self.quiet > self.hold(context) && self.run.is_empty();
        if context.now < self.next_probe_up || !quiet || capacity >= self.most {
            return Outcome::Nothing;
        }
        if self.used(capacity, context) < FULL {
            return Outcome::Nothing;
        }
        let first = self.first_step(context);
        self.phase = Phase::ProbeUp(Step {
            level: capacity * (1.0 + first),
            next: self.next_step(first, capacity * (1.0 + first), context),
            since: context.now,
            before: capacity,
        });
        Outcome::Changed(Reason::ProbingUp { dir: self.dir })
    }

    /// A step is good as soon as the queue that it would have made would have been seen.
    pub(super) fn probe_up(&mut self, step: Step, context: &Context) -> Outcome {
        let capacity = self.capacity.map_or(step.level, |c| c.0);
        if self.is_volatile(context.now) {
            return self.probe_up_volatile(step, capacity, context);
        }
        let shown = context.rise + context.wander + context.packet / capacity;
        // What an answer that comes now can know of.
        let known = context.now - context.rtt - context.pace;
        let time = known - step.since;
        // Losses show later than queues.
        let shows = if self.shows_losses(context.now) {
            SHOWS
        } else {
            0.0
        };
        if time <= shows {
            return Outcome::Nothing;
        }
        // What was so long ago is forgotten; it went on since.
        let bytes = self.meter.between(step.since, known);
        let reached = bytes.map_or_else(|| self.throughput(context), |bytes| bytes / time);
        let step = Step {
            before: self.falls_back_to(step, reached, context),
            ..step
        };
        if (reached / capacity - 1.0) * time > shown {
            self.proven(reached, context);
            return self.goes_on(step, step.level.max(reached * (1.0 + step.next)), context);
        }
        let due = 2.0 * shown / (step.level / capacity - 1.0).max(STEP) + 2.0 * context.rtt;
        let passes = self.throughput(context).max(reached);
        let wanted = passes > FULL * step.level;
        let wait = if passes > capacity {
            // More than is known to, which will show.
            due.max(SHOWN)
        } else if wanted {
            due
        } else if self.gives_time() && passes > FULL * capacity {
            // Senders may need some round trips for it, longer ones than that of what is probed.
            SHOWN.max(self.hold(context))
        } else {
            self.hold(context)
        };
        if time < wait {
            return Outcome::Nothing;
        }
        if wanted {
            // The step was too small to show.
            return self.goes_on(step, step.level * (1.0 + step.next), context);
        }
        // Nobody wants more now.
        if capacity > step.before * (1.0 + SAME) {
            self.changed(Some(step.before), capacity, context.now);
            self.patience = PATIENCE;
        }
        self.rests(context)
    }

    /// Whether senders are given time to use a try.
    fn gives_time(&self) -> bool {
        let is_given = self.dir == Direction::Up || self.has(Rule::FarSenders);
        is_given && self.others_lag == 0.0
    }

    /// The step after one of this size, which leads to `level`. Where losses are the evidence a step that is too large is
    /// lost altogether, and nothing but the loss shows that it is: steps do not grow there (decision 0105), and become as
    /// small as what they leave open (decision 0123).
    fn next_step(&self, step: f64, level: f64, context: &Context) -> f64 {
        if self.shows_losses(context.now) {
            let same = step.min(LARGEST_FIRST);
            same.max(self.step_without_losses(level))
        } else {
            (step * GROWTH).min(LONGEST_STEP)
        }
    }

    /// What a try that fails goes back to: where losses are the evidence, what has passed for [`SHOWS`] without any.
    fn falls_back_to(&self, step: Step, reached: f64, context: &Context) -> f64 {
        if self.shows_losses(context.now) {
            step.before.max(reached.min(step.level))
        } else {
            step.before
        }
    }

    fn goes_on(&mut self, step: Step, level: f64, context: &Context) -> Outcome {
        self.phase = Phase::ProbeUp(Step {
            level,
            next: self.next_step(step.next, level, context),
            since: context.now,
            before: step.before,
        });
        Outcome::Changed(Reason::ProbingUp { dir: self.dir })
    }

    /// A try is over: one that ended where it began says that the line is what it was.
    pub(super) fn note_try(&mut self, capacity: f64, before: f64) {
        self.patience = if (capacity / before - 1.0).abs() < SAME {
            self.stride = 0.0;
            (2.0 * self.patience).min(self.longest_patience())
        } else {
            PATIENCE
        };
    }

    /// The same on a line that never settles, where it is opened further for as long as it is used.
    fn probe_up_volatile(&mut self, step: Step, capacity: f64, context: &Context) -> Outcome {
        if context.now < step.since + self.hold(context) {
            return Outcome::Nothing;
        }
        let passes = self.throughput(context);
        if passes < FULL * capacity {
            // Nobody wants more now.
            return self.rests(context);
        }
        let proven = passes.max(capacity);
        self.proven(proven, context);
        self.phase = Phase::ProbeUp(Step {
            level: proven * (1.0 + self.free()),
            since: context.now,
            before: proven,
            ..step
        });
        Outcome::Changed(Reason::Following { dir: self.dir })
    }

    /// The try is over: so much went through.
    fn rests(&mut self, context: &Context) -> Outcome {
        self.phase = Phase::Steady;
        self.settles(context.now);
        self.next_probe_up =
            context.now + 0.5 * self.patience * (1.0 - self.volatility(context.now)).powi(2);
        Outcome::Changed(Reason::Proven { dir: self.dir })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The direction so long after a try began, s, on a line of which so much is used, and which changes so much.
    fn after_a_try(
        dir: Direction,
        volatility: f64,
        level: f64,
        lasts: f64,
        used: f64,
    ) -> DirectionState {
        let began = 9.0;
        let mut way = DirectionState::new(dir);
        way.believe(1e6, 0.0);
        way.volatility = (volatility, began);
        for n in 0..=(100.0 * lasts) as u32 {
            let t = began + f64::from(n) * 0.01;
            way.meter.note(t, used * 1e6 * t);
        }
        let step = Step {
            level: level * 1e6,
            next: 2.0 * (level - 1.0),
            since: began,
            before: 1e6,
        };
        way.phase = Phase::ProbeUp(step);
        let _ = way.probe_up(step, &Context::of_test(began + lasts));
        way
    }

    #[test]
    fn senders_have_time_to_use_a_step() {
        for dir in Direction::BOTH {
            let phase = |lasts, used| after_a_try(dir, 0.0, 1.12, lasts, used).phase;
            assert!(matches!(phase(0.3, 0.97), Phase::ProbeUp(_)), "{dir}");
            assert_eq!(phase(0.3, 0.5), Phase::Steady, "{dir}");
            // But not for ever.
            assert_eq!(phase(1.2, 0.97), Phase::Steady, "{dir}");
        }
    }

    #[test]
    fn what_passed_in_a_try_is_tested() {
        let way = |used| after_a_try(Direction::Up, 0.0, 1.12, 0.5, used);
        assert!(way(1.1).is_tested());
        assert!(!way(0.97).is_tested());
    }

    #[test]
    fn a_line_that_never_settles_is_tried_for_as_long_as_it_is_used() {
        let phase = |used| after_a_try(Direction::Up, 1.0, 1.25, 1.0, used).phase;
        assert!(matches!(phase(1.2), Phase::ProbeUp(_)));
        assert_eq!(phase(0.1), Phase::Steady);
    }
}
