//! The base: what a probe takes on a line without a queue, and how much that wanders.
//!
//! Principles: a smaller sample lowers the base at once; only samples from an idle line raise it,
//! so that a standing queue of ours is never learned; what the line does by itself while idle
//! (jitter, a wandering base) says from where on a rise means something. Non-goals: telling
//! whose queue it is.

use std::collections::VecDeque;

/// So much idle time decides about a higher base, s.
const SETTLE: f64 = 2.0;
/// Samples from an idle line before its noise is known.
const KNOWN: u32 = 12;
/// A rise that means something before the noise is known, s.
const UNKNOWN: f64 = 0.005;
/// Nothing below this is a rise, s.
const LEAST: f64 = 0.001;
/// A rise that means something is so many times the noise.
const NOISE: f64 = 1.5;
/// How fast noise is forgotten: half of it in so many seconds of idle line.
const HALF_LIFE: f64 = 20.0;

/// Base and noise of one delay.
#[derive(Debug, Clone, Default)]
pub(super) struct Base {
    least: Option<f64>,
    /// Samples of the idle line, of late: time and delay.
    idle: VecDeque<(f64, f64)>,
    /// A high mark of rises on the idle line, s.
    noise: f64,
    /// That mark when the stretch of [`SETTLE`] seconds of now began, and when that was.
    before: (f64, f64),
    samples: u32,
    last_idle: f64,
}

impl Base {
    /// The least delay, s.
    pub(super) fn value(&self) -> Option<f64> {
        self.least
    }

    /// A rise from which on there is a queue, s.
    pub(super) fn rise(&self) -> f64 {
        if self.samples < KNOWN {
            return UNKNOWN.max(self.noise);
        }
        (NOISE * self.noise).max(LEAST)
    }

    /// A delay that was seen at `at`; `idle`: with next to nothing on the line in both directions
    /// for some time. True if it moved the base up: a longer way, or somebody else's load.
    pub(super) fn sample(&mut self, at: f64, delay: f64, idle: bool) -> bool {
        let base = *self.least.get_or_insert(delay);
        if delay < base {
            self.least = Some(delay);
        }
        if !idle {
            self.idle.clear();
            return false;
        }
        self.samples = self.samples.saturating_add(1);
        let passed = (at - self.last_idle).clamp(0.0, 1.0);
        self.last_idle = at;
        self.noise *= 0.5f64.powf(passed / HALF_LIFE);
        self.idle.push_back((at, delay));
        let mut moved = false;
        if self.idle.front().is_some_and(|s| at - s.0 >= SETTLE) {
            while self.idle.front().is_some_and(|s| at - s.0 > SETTLE) {
                self.idle.pop_front();
            }
            let least = self.idle.iter().map(|s| s.1).fold(f64::MAX, f64::min);
            moved = least > base + self.rise();
            if least > base {
                self.least = Some(least);
            }
        }
        let above = delay - self.least.unwrap_or(delay);
        if self.samples <= KNOWN || at - self.before.1 >= SETTLE {
            self.before = (self.noise, at);
        }
        // What stands out is a burst or a queue of somebody's, not noise: it counts in part.
        let counted = above.min(2.0 * self.before.0.max(LEAST));
        self.noise = self.noise.max(counted);
        moved
    }

    /// Delays wander by so much whatever is sent.
    pub(super) fn wanders(&mut self, by: f64) {
        self.noise = self.noise.max(by / NOISE);
    }

    /// Delays did not follow what was done about them: this is no queue of ours.
    pub(super) fn move_to(&mut self, delay: f64) {
        self.least = Some(delay);
        self.idle.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(base: &mut Base, from: f64, n: u32, delay: impl Fn(u32) -> f64) -> f64 {
        for i in 0..n {
            base.sample(from + f64::from(i) * 0.1, delay(i), true);
        }
        from + f64::from(n) * 0.1
    }

    #[test]
    fn right_from_the_first_sample_and_lower_at_once() {
        let mut b = Base::default();
        b.sample(0.0, 0.020, true);
        assert_eq!(b.value(), Some(0.020));
        b.sample(0.1, 0.010, false);
        assert_eq!(b.value(), Some(0.010));
    }

    #[test]
    fn a_standing_queue_is_never_learned() {
        let mut b = Base::default();
        let mut t = idle(&mut b, 0.0, 30, |_| 0.010);
        for _ in 0..10_000 {
            t += 0.02;
            b.sample(t, 0.100, false);
        }
        assert_eq!(b.value(), Some(0.010));
    }

    #[test]
    fn a_queue_of_somebody_elses_is_no_noise() {
        let mut b = Base::default();
        let t = idle(&mut b, 0.0, 50, |i| 0.010 + f64::from(i % 3) * 0.001);
        let before = b.rise();
        idle(&mut b, t, 15, |i| 0.010 + 0.04 * f64::from(i));
        // Twice in each stretch, of which it may touch two.
        assert!(b.rise() < 4.01 * before, "{} {before}", b.rise());
        // Where a line begins to wander it is known after some seconds.
        let mut wanders = Base::default();
        let t = idle(&mut wanders, 0.0, 50, |_| 0.010);
        idle(&mut wanders, t, 150, |i| 0.010 + 0.015 * f64::from(i % 3));
        assert!(wanders.rise() > 0.025, "{}", wanders.rise());
    }

    #[test]
    fn another_route_is_followed_on_an_idle_line() {
        let mut b = Base::default();
        let t = idle(&mut b, 0.0, 30, |_| 0.010);
        idle(&mut b, t, 30, |_| 0.025);
        assert!((b.value().unwrap() - 0.025).abs() < 1e-9);
    }

    #[test]
    fn noise_of_the_line_says_what_a_rise_is() {
        let mut calm = Base::default();
        idle(&mut calm, 0.0, 50, |i| 0.010 + f64::from(i % 3) * 0.000_02);
        assert!((calm.rise() - LEAST).abs() < 1e-9);
        let mut mobile = Base::default();
        idle(&mut mobile, 0.0, 100, |i| {
            0.040 + f64::from(i * 7 % 11) * 0.001
        });
        assert!(mobile.rise() > 0.010, "{}", mobile.rise());
    }
}
