//! Probes that are late: a queue shows itself before the first of them has passed it.
//!
//! On a slow line whose buffer holds a second the first answer comes after that second. Until
//! then it is known that what was sent before a probe has not left the bottleneck yet, so that
//! the line carries at most those bytes over the time that passed since; that is enough to send
//! less.
//!
//! Principles: only towards the Internet and only while nothing is known, so that nothing is lost
//! if it was an outage; a bound is never learned; a line that loses probes makes itself known by
//! those that never came although no queue stood. Non-goals: what the line carries (`rate_fit`).

use std::collections::VecDeque;

use super::{Context, DirectionState};
use crate::Direction;
use crate::control::Rule;
use crate::control::rate_fit::PACKETS;

/// A probe that is later than this tells of a queue, s.
const LATE: f64 = 0.25;
/// So many in a row must be missing.
const MISSING: usize = 4;
/// So many are remembered.
const REMEMBERED: usize = 256;
/// At first at most so many times what is being sent then is thought possible.
const AT_FIRST: f64 = 3.0;
/// A bound that is less lower than this share is the same one.
const LOWER: f64 = 0.9;

/// Probes under way.
#[derive(Debug, Clone, Default)]
pub(in crate::control) struct InFlight {
    /// When they were sent; those that were lost go when a later one is answered.
    sent: VecDeque<f64>,
    /// How late one was at most that no queue held up, s.
    lost: f64,
    /// When the latest answer came.
    came: Option<f64>,
}

impl InFlight {
    pub(in crate::control) fn sent(&mut self, now: f64) {
        self.sent.push_back(now);
        if self.sent.len() > REMEMBERED {
            self.sent.pop_front();
        }
    }

    /// By how much the oldest is later than the latest one that was answered: when it was sent,
    /// and s.
    fn oldest(&self, base: f64, now: f64) -> Option<(f64, f64)> {
        let sent = *self.sent.front()?;
        let due = self.came.map_or(sent, |came| sent.max(came - base));
        Some((sent, now - due - base))
    }

    /// The one sent at `sent` was answered; `free`: without having met a queue.
    pub(in crate::control) fn answered(&mut self, sent: f64, free: bool, base: f64, now: f64) {
        if free && let Some((_, overdue)) = self.oldest(base, now) {
            self.lost = self.lost.max(overdue);
        }
        self.came = Some(now);
        while self.sent.front().is_some_and(|&s| s <= sent) {
            self.sent.pop_front();
        }
    }

    /// The oldest, if it is late enough to tell of a queue.
    pub(in crate::control) fn overdue(&self, base: f64, now: f64) -> Option<(f64, f64)> {
        let least = LATE.max(2.0 * self.lost);
        self.oldest(base, now)
            .filter(|o| o.1 > least && self.sent.len() >= MISSING)
    }
}

impl DirectionState {
    /// A probe sent at `sent` has not come, though one that met no queue would have `late` s ago.
    /// True if less is to be sent now.
    pub(in crate::control) fn note_overdue(
        &mut self,
        sent: f64,
        overdue: f64,
        context: &Context,
    ) -> bool {
        let may_bound = self.dir == Direction::Up && self.has(Rule::OverdueProbes);
        if self.capacity.is_some() || !may_bound {
            return false;
        }
        let before = self.latest.map_or(f64::MIN, |p| p.left);
        let (Some(bytes), Some(behind)) =
            (self.meter.between(before, sent), self.meter.since(sent))
        else {
            return false;
        };
        // It must be possible to learn from it once it comes.
        if behind < PACKETS * context.packet {
            return false;
        }
        let first = AT_FIRST * behind / (context.now - sent);
        let carries = bytes.max(context.packet) / overdue;
        let lower = match self.bound {
            None => true,
            Some(bound) => carries < LOWER * bound,
        };
        if lower {
            self.bound = Some(self.bound.unwrap_or(first).min(carries));
        }
        lower
    }

    /// Whether less is sent since probes are late.
    pub(in crate::control) fn is_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// Nothing says any more that it is slow.
    pub(in crate::control) fn unbind(&mut self) {
        self.bound = None;
    }

    /// A probe came back that waited for `queue` s; a packet in front of it is no queue.
    pub(super) fn unbind_by(&mut self, queue: f64, context: &Context) {
        if self.bound.is_some_and(|b| queue < 1.5 * context.packet / b) {
            self.bound = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: f64 = 0.010;

    /// One each 20 ms.
    fn sends(probes: &mut InFlight, from: f64, to: f64) {
        let times = (0..).map(|n| from + 0.020 * f64::from(n));
        for at in times.take_while(|&t| t < to) {
            probes.sent(at);
        }
    }

    #[test]
    fn what_does_not_come_is_late() {
        let mut probes = InFlight::default();
        sends(&mut probes, 1.0, 1.5);
        assert_eq!(probes.overdue(BASE, 1.2), None);
        let (sent, overdue) = probes.overdue(BASE, 1.4).unwrap();
        assert!((sent - 1.0).abs() < 1e-9 && (overdue - 0.39).abs() < 1e-9);
        // Behind a queue of 200 ms it is so much less.
        probes.answered(1.0, false, BASE, 1.21);
        let (_, overdue) = probes.overdue(BASE, 1.5).unwrap();
        assert!((overdue - 0.29).abs() < 1e-9);
    }

    #[test]
    fn a_few_that_are_lost_are_not() {
        let mut probes = InFlight::default();
        for at in [1.0, 1.02, 1.04] {
            probes.sent(at);
        }
        assert_eq!(probes.overdue(BASE, 2.0), None);
    }

    #[test]
    fn where_many_are_lost_it_takes_twice_as_long() {
        let mut probes = InFlight::default();
        sends(&mut probes, 1.0, 1.39);
        assert!(probes.overdue(BASE, 1.4).is_some());
        probes.answered(1.38, true, BASE, 1.4);
        sends(&mut probes, 1.5, 2.5);
        assert_eq!(probes.overdue(BASE, 2.0), None);
        assert!(probes.overdue(BASE, 2.4).is_some());
    }
}
