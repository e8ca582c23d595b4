//! What is known of a direction's capacity, and how it is learned from a queue.
//!
//! Principles: an estimate has a standard error; what agrees with what was known is averaged with it, what does not replaces
//! it; a queue that may have been elsewhere, or have gone between its probes, is vague evidence. Non-goals: when a queue is
//! one (`rate_fit`, `drain`), and what is done about it.

use super::{Context, DirectionState, HIDES, Phase};
use crate::Direction;
use crate::control::Rule;
use crate::control::rate_fit::{Estimate, Point, RateFit, SAME};

/// On a line that never settles probes are looked back at so far, s, or over so many packets.
const RECENT: f64 = 0.2;
const RECENT_PACKETS: f64 = 16.0;
/// What was learned from a queue that may have been elsewhere is off by so much at least.
pub(super) const UNSURE: f64 = 0.05;
/// No evidence is better than this: lines are not that even.
const BEST: f64 = 0.01;
/// One queue makes a line that others use as well less by this factor at most.
const LEAST_IN_A_GROUP: f64 = 0.7;
/// And by this one while somebody has just come whose bytes are not counted yet: the queue is his (decision 0089).
const LEAST_WITH_NEWCOMER: f64 = 0.9;

impl DirectionState {
    /// A capacity from elsewhere: a person's guess, or what was learned before.
    pub(in crate::control) fn believe(&mut self, capacity: f64, now: f64) {
        self.capacity = Some((self.bounded(capacity), now));
        self.phase = Phase::Steady;
        self.next_probe_up = now;
    }

    /// Within the person's limits, bytes/s.
    pub(super) fn bounded(&self, capacity: f64) -> f64 {
        capacity.min(self.most).max(self.least)
    }

    /// The capacity and how sure it is; `None`: nothing is known.
    pub(super) fn known(&self) -> Option<Estimate> {
        self.capacity.map(|(capacity, _)| Estimate {
            capacity,
            error: self.error,
        })
    }

    /// What was learned from the queue that stands now. On a line that never settles what was some time ago says nothing.
    fn known_of_this_queue(&self, now: f64) -> Option<Estimate> {
        let since = self.run.iter().next()?.came;
        let (_, learned) = self.capacity?;
        self.known()
            .filter(|_| learned >= since && !self.is_volatile(now))
    }

    /// What the bottleneck carries, from probes that all met a queue, sent at `from` or later.
    pub(super) fn estimate(&self, from: f64, context: &Context) -> Option<RateFit> {
        // On a line that never settles what was some time ago says nothing, unless nothing else is known.
        let recent = if self.is_volatile(context.now) && self.capacity.is_some() {
            let packets = self.capacity.map_or(0.0, |c| context.packet / c.0);
            let recent = RECENT.max(RECENT_PACKETS * packets + 2.0 * context.pace);
            self.latest.map_or(f64::MIN, |p| p.left - recent)
        } else {
            f64::MIN
        };
        let from = from.max(recent);
        let fit = self.run.rate_fit(
            &self.meter,
            from,
            context.noise,
            context.pace,
            context.packet,
        );
        let mut fit = fit.or_else(|| self.first_capacity(context))?;
        // Senders far away burst and pause, so between two queues there may be none.
        match (self.dir, self.capacity) {
            (Direction::Down, Some((known, _))) if self.is_volatile(context.now) => {
                fit.known.capacity = fit.known.capacity.max(known.min(fit.most));
            }
            // Answers that hardly wander show how long a first queue is, and so when there was none (decision 0110).
            (Direction::Down, known) if known.is_some() || context.wander > HIDES => {
                let unseen = 0.5 * (fit.most / fit.known.capacity - 1.0);
                fit.known.error = fit.known.error.max(unseen);
            }
            _ => (),
        }
        Some(fit)
    }

    /// What the line carries if nothing else is known: what we sent since a probe that met no queue made this one. A
    /// packet may be in front of each probe.
    fn first_capacity(&self, context: &Context) -> Option<RateFit> {
        let p = self.latest.filter(|_| {
            self.dir == Direction::Up
                && self.has(Rule::FirstQueue)
                && self.capacity.is_none()
                && self.clear > f64::MIN
        })?;
        let sent = self.meter.between(self.clear, p.left)?;
        let (time, queue) = (p.left - self.clear, p.queue - context.rise);
        let capacity = self
            .meter
            .carries((self.clear, 0.0), queue, p.left, sent / time);
        let noise = context.noise.max(context.packet / capacity);
        // What stalled is answered at once, so that each waits for less than the one before.
        let explained = |p: &Point| {
            let made = self.meter.queue_after((self.clear, 0.0), capacity, p.left);
            (p.queue - context.rise - made).abs() < 2.0 * noise
        };
        let error = noise / time;
        let is_made = queue > 0.0 && error < 0.2 && self.run.iter().all(explained);
        is_made.then_some(RateFit {
            known: Estimate { capacity, error },
            most: capacity,
            level: false,
        })
    }

    /// Takes a capacity for true, or a mean with what was known before this queue if both can be.
    pub(super) fn learn(&mut self, found: Estimate, now: f64) {
        let found = Estimate {
            capacity: self.bounded(found.capacity),
            error: found.error.max(BEST),
        };
        let found = Estimate {
            error: if self.is_attributed {
                found.error
            } else {
                found.error.max(UNSURE)
            },
            ..found
        };
        let value = match (self.prior, self.known_of_this_queue(now)) {
            (Some(prior), _) if prior.agrees(&found) => prior.with(&found),
            // A worse look takes nothing back that a better one has shown (decision 0129).
            (_, Some(known)) if found.error > known.error && known.agrees(&found) => Estimate {
                error: known.error,
                ..known.with(&found)
            },
            _ => found,
        };
        let before = self.capacity.map(|c| c.0);
        let value = Estimate {
            capacity: value.capacity.max(self.least_in_a_group()),
            ..value
        };
        if before.is_none_or(|b| (value.capacity / b - 1.0).abs() >= SAME) {
            self.changed(before, found.capacity, now);
        }
        self.capacity = Some((value.capacity, now));
        self.error = value.error.max(BEST);
    }

    /// Where others' bytes are known late, a queue that is a stranger's seems to say that the line carries next to
    /// nothing: one queue says no less than this, bytes/s.
    pub(super) fn least_in_a_group(&self) -> f64 {
        match self.capacity {
            Some((capacity, _)) if self.has_newcomer => LEAST_WITH_NEWCOMER * capacity,
            Some((capacity, _)) if self.others_lag > 0.0 => LEAST_IN_A_GROUP * capacity,
            _ => 0.0,
        }
    }

    /// So much was seen to pass without a queue.
    pub(super) fn proven(&mut self, reached: f64, context: &Context) {
        self.capacity = Some((self.bounded(reached), context.now));
        self.alone = self.alone.max(reached);
        self.tested = reached;
        self.losses.refuted_by(reached);
        self.prior = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How unsure a first estimate of a download is, where answers wander by so much. Each 70 ms one met a queue of 40 ms.
    fn error_of_first(wander: f64) -> f64 {
        let mut way = DirectionState::new(Direction::Down);
        let at = |now| Context {
            wander,
            pace: 0.07,
            ..Context::of_test(now)
        };
        for came in (1..20).map(|n| 0.07 * f64::from(n)) {
            way.meter.note(came, 1e6 * came);
            let left = came - at(came).rtt;
            let queue = 0.04;
            way.observe(Point { left, came, queue }, &at(came));
        }
        way.estimate(0.0, &at(1.33)).unwrap().known.error
    }

    /// What is known after a first look, and another one at the queue that stands since then.
    fn known_after(looks: [(f64, f64); 2], since: f64) -> Estimate {
        let mut way = DirectionState::new(Direction::Down);
        way.is_attributed = true;
        let (left, came, queue) = (since - 0.06, since, 0.04);
        way.run
            .push(Point { left, came, queue }, 0.005, 0.02, false);
        for (capacity, error) in looks {
            way.learn(Estimate { capacity, error }, 1.0);
        }
        way.known().unwrap()
    }

    #[test]
    fn a_worse_look_at_a_queue_takes_nothing_back() {
        let known = known_after([(1e6, 0.02), (0.7e6, 0.2)], 0.9);
        assert!(known.capacity > 0.99e6, "{known:?}");
        assert!((known.error - 0.02).abs() < 1e-9, "{known:?}");
        // What both say cannot be, and what is better: the line has become slower.
        for error in [0.03, 0.01] {
            let known = known_after([(1e6, 0.02), (0.7e6, error)], 0.9);
            assert!((known.capacity - 0.7e6).abs() < 1.0, "{error}");
        }
        let better = known_after([(0.9e6, 0.2), (1e6, 0.02)], 0.9);
        assert!((better.capacity - 1e6).abs() < 1.0, "{better:?}");
        // What was known before this queue came was no look at it.
        let another = known_after([(1e6, 0.02), (0.7e6, 0.2)], 1.1);
        assert!((another.capacity - 0.7e6).abs() < 1.0, "{another:?}");
    }

    #[test]
    fn what_jitter_may_have_hidden_between_first_queues_makes_them_vague() {
        assert!(error_of_first(0.5 * HIDES) < 0.01);
        assert!(error_of_first(2.0 * HIDES) > 0.04);
    }
}
