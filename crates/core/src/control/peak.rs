//! The most that a direction carried of late.
//!
//! Principles: a maximum that is forgotten by halves, so that what follows it never falls at once. Non-goals: what the
//! direction carries now (`direction`), what follows from it (`plan`).

/// The maximum halves in so long, s: CoDel's interval on a line that is followed by pulses (decision 0140).
const HALF_LIFE: f64 = 4.0;

/// A maximum of rates, bytes/s, as of a time, s.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peak {
    rate: f64,
    at: f64,
}

impl Peak {
    /// The maximum at `now`, this rate among the others.
    pub(super) fn with(&mut self, rate: f64, now: f64) -> f64 {
        let left = self.rate * (-(now - self.at).max(0.0) / HALF_LIFE).exp2();
        *self = Peak {
            rate: left.max(rate),
            at: now,
        };
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_every_half_life_down_to_what_is_carried() {
        let mut peak = Peak::default();
        let table = [
            (0.0, 100.0, 100.0),
            (0.0, 800.0, 800.0),
            (2.0 * HALF_LIFE, 100.0, 200.0),
            (4.0 * HALF_LIFE, 100.0, 100.0),
            // A clock that goes backwards forgets nothing.
            (0.0, 50.0, 100.0),
        ];
        for (now, rate, most) in table {
            assert!((peak.with(rate, now) - most).abs() < 1e-9, "{now}");
        }
    }
}
