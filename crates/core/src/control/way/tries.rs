//! Upwards: where a line is used to the full and no queue stands, more is tried.
//!
//! Principles: a step is good as soon as the queue that it would have made would have been seen,
//! so the noisier the delay, the larger the step; a line that never settles is not tried but
//! followed, by a short queue that is kept. Non-goals: what happens to a queue (`drain`).

use super::{Around, Dir, Found, LARGEST_FIRST, PATIENCE, Phase, Way};
use crate::control::Reason;
use crate::control::slope::{SAME, Slope};

/// Used to the full: this share of what may be used.
const FULL: f64 = 0.9;
/// First step of a try, of which the headroom takes half, and how steps grow.
const STEP: f64 = 0.02;
const GROWTH: f64 = 1.6;
const LONGEST_STEP: f64 = 0.25;
/// A try shows a queue within about this time, s, if the line does not carry it.
const SHOWN: f64 = 1.0;
/// A line that changed within this time, s, may change again.
const RESTLESS: f64 = 60.0;
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

impl Way {
    fn free(&self) -> f64 {
        match self.dir {
            Dir::Up => FREE_UP,
            Dir::Down => FREE_DOWN,
        }
    }

    /// The noisier the line, the larger the step that shows. On a line that never settles a queue
    /// shows at once where it ends: no small steps.
    pub(super) fn first_step(&self, around: &Around) -> f64 {
        if self.is_restless(around.now) {
            self.free()
        } else {
            let shows = (around.rise / SHOWN).max(self.error).min(LARGEST_FIRST);
            shows.max(STEP).max(self.stride) + 0.1 * self.restless(around.now)
        }
    }

    pub(super) fn longest_patience(&self, now: f64) -> f64 {
        if now - self.changed < RESTLESS {
            PATIENCE[1]
        } else {
            PATIENCE[2]
        }
    }

    /// Keeps a short queue on a line that never settles: what it carries is known all the time.
    pub(super) fn follow(&mut self, queue: f64, kept: f64, around: &Around) -> Found {
        let Some(Slope { known, .. }) = self.estimate(f64::MIN, around) else {
            return Found::Nothing;
        };
        // What comes while the queue is about to end is less than the line carries.
        let slower = self
            .capacity
            .is_some_and(|c| known.capacity < (1.0 - SAME) * c.0);
        if slower && queue < around.rise + ENDS {
            return Found::Nothing;
        }
        // What was known before says nothing of a line that never settles.
        self.prior = None;
        let (before, unrest) = (self.known(), self.unrest);
        self.learn(known, around.now);
        let found = known.capacity;
        if found < SUSPECT * self.proved {
            self.proved = found;
            return self.doubt(before, unrest, around);
        }
        self.proved = self.proved.max(found);
        let more = ((kept - queue) / FOLLOWS).clamp(-0.2, LONGEST_STEP);
        self.phase = Phase::Try {
            level: found * (1.0 + more),
            step: self.first_step(around) * GROWTH,
            since: around.now,
            before: found,
        };
        Found::Changed(Reason::Following { dir: self.dir })
    }

    /// Somewhere is a queue that may come from a try.
    pub(in crate::control) fn rest(&mut self, now: f64) {
        if let Phase::Try { .. } = self.phase {
            self.phase = Phase::Steady;
            self.next_try = now + self.patience;
        }
    }

    /// How long to wait for the effect of a step.
    pub(super) fn hold(&self, around: &Around) -> f64 {
        let packets = self.capacity.map_or(0.0, |c| 4.0 * around.packet / c.0);
        (2.0 * around.rtt + 2.0 * around.pace)
            .max(0.08)
            .max(packets)
    }

    pub(super) fn steady(&mut self, around: &Around) -> Found {
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
    pub(super) fn try_more(
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
                level: proven * (1.0 + self.free()),
                step,
                since: around.now,
                before: proven,
            };
            return Found::Changed(Reason::Following { dir: self.dir });
        }
        // What an answer that comes now can know of.
        let known = around.now - around.rtt - around.pace;
        let time = known - since;
        if time <= 0.0 {
            return Found::Nothing;
        }
        // What was so long ago is forgotten; it went on since.
        let bytes = self.meter.between(since, known);
        let bytes = bytes.unwrap_or_else(|| time * self.throughput(around));
        let reached = bytes / time;
        let shown = around.rise + around.wander + around.packet / capacity;
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
        self.next_try =
            around.now + 0.5 * self.patience * (1.0 - self.restless(around.now)).powi(2);
        Found::Changed(Reason::Proven { dir: self.dir })
    }
}
