//! Bytes on the line over time, in one direction.
//!
//! Principles: readings of a counter that only grows; between two readings bytes came evenly; a
//! question beyond the readings has no answer. Non-goals: who the bytes belonged to.

use std::collections::VecDeque;
use std::time::Duration;

/// Readings that are older are forgotten.
const MEMORY: Duration = Duration::from_secs(10);

/// What leaves is looked for in so many halvings: to a thousandth.
const HALVINGS: u32 = 9;

/// Readings of one direction's counter.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter {
    /// Time in seconds, and bytes on the line until then.
    readings: VecDeque<(f64, f64)>,
}

impl Meter {
    /// The counter stood at `bytes`. One that went back, or a time that did, starts anew.
    pub(super) fn note(&mut self, at: f64, bytes: f64) {
        if let Some(&(last, before)) = self.readings.back() {
            if at <= last {
                return;
            }
            if bytes < before {
                self.readings.clear();
            }
        }
        self.readings.push_back((at, bytes));
        while self.readings.len() > 2
            && self
                .readings
                .front()
                .is_some_and(|r| at - r.0 > MEMORY.as_secs_f64())
        {
            self.readings.pop_front();
        }
    }

    /// The time of the latest reading.
    pub(super) fn latest(&self) -> Option<f64> {
        self.readings.back().map(|r| r.0)
    }

    /// Where the counter stood at `t`.
    pub(super) fn until(&self, t: f64) -> Option<f64> {
        let next = self.readings.partition_point(|r| r.0 < t);
        let (t1, b1) = *self.readings.get(next)?;
        if t1 - t < 1e-9 {
            return Some(b1);
        }
        let (t0, b0) = *self.readings.get(next.checked_sub(1)?)?;
        Some(b0 + (b1 - b0) * (t - t0) / (t1 - t0))
    }

    /// How long what came from `since` until `t` waits then where `carries` bytes per second leave, s.
    pub(super) fn queue_since(&self, since: f64, carries: f64, t: f64) -> f64 {
        self.queue_after((since, 0.0), carries, t)
    }

    /// The same if what comes at a time waits for so long, s.
    pub(super) fn queue_after(&self, (since, waits): (f64, f64), carries: f64, t: f64) -> f64 {
        let mut before = (since, self.until(since));
        let mut queue = waits;
        let steps = self.readings.iter().filter(|r| r.0 > since && r.0 <= t);
        for &(at, bytes) in steps {
            if let (since, Some(known)) = before {
                queue = (queue + (bytes - known) / carries - (at - since)).max(0.0);
            }
            before = (at, Some(bytes));
        }
        queue
    }

    /// What leaves, bytes per second, if what comes at the time of `from` waits for so long as `from` says, and what
    /// comes at `t` for `queue` s; at most `most`, and not below half of it.
    pub(super) fn carries(&self, from: (f64, f64), queue: f64, t: f64, most: f64) -> f64 {
        let (mut low, mut high) = (0.5 * most, most);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if self.queue_after(from, middle, t) >= queue {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Bytes from `a` to `b`.
    pub(super) fn between(&self, a: f64, b: f64) -> Option<f64> {
        Some(self.until(b)? - self.until(a)?)
    }

    /// Bytes since `a`, until the latest reading.
    pub(super) fn since(&self, a: f64) -> Option<f64> {
        Some(self.readings.back()?.1 - self.until(a)?)
    }

    /// Bytes per second over the latest `span` seconds; less where there are fewer readings.
    pub(super) fn rate(&self, span: f64) -> Option<f64> {
        let (end, bytes) = *self.readings.back()?;
        let (first, before) = *self.readings.front()?;
        let start = end - span;
        let (start, before) = if start <= first {
            (first, before)
        } else {
            (start, self.until(start)?)
        };
        (end > start).then(|| (bytes - before) / (end - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenly_between_readings_and_nothing_beyond() {
        let mut m = Meter::default();
        for (t, b) in [(1.0, 0.0), (2.0, 100.0), (3.0, 300.0)] {
            m.note(t, b);
        }
        assert_eq!(m.between(1.5, 2.5), Some(150.0));
        assert_eq!(m.since(2.0), Some(200.0));
        assert_eq!(m.rate(1.0), Some(200.0));
        assert_eq!(m.rate(9.0), Some(150.0));
        assert_eq!(m.between(0.5, 2.0), None);
        assert_eq!(m.between(2.0, 3.5), None);
    }

    #[test]
    fn what_waits_is_what_came_too_fast() {
        let mut m = Meter::default();
        for (t, b) in [(1.0, 0.0), (2.0, 100.0), (3.0, 400.0), (4.0, 450.0)] {
            m.note(t, b);
        }
        for (t, waits) in [(2.0, 0.0), (3.0, 0.5), (4.0, 0.0)] {
            assert!((m.queue_since(1.0, 200.0, t) - waits).abs() < 1e-9);
        }
        let carries = m.carries((1.0, 0.0), 0.5, 3.0, 300.0);
        assert!((carries / 200.0 - 1.0).abs() < 2e-3, "{carries}");
        assert!((m.carries((1.0, 0.0), 0.0, 2.0, 300.0) - 300.0).abs() < 1e-9);
    }

    #[test]
    fn a_counter_that_goes_back_starts_anew() {
        let mut m = Meter::default();
        m.note(1.0, 500.0);
        m.note(2.0, 10.0);
        m.note(3.0, 20.0);
        m.note(2.5, 90.0); // late: ignored
        assert_eq!(m.rate(9.0), Some(10.0));
    }
}
