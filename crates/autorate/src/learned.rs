//! What a direction carried of late, for the next start.
//!
//! Principles: a moment's trouble must not become the rate that the next start begins with, so what counts is the
//! mean of the last minute of evidence, in proportions, since rates differ by factors; while nothing shows what the
//! line carries no time passes. Non-goals: what it carries now (`evenkeel_core::control`).

use evenkeel_core::Rate;
use evenkeel_core::control::DirectionView;

/// The mean is over so much time with evidence, s.
const MINUTE: f64 = 60.0;
/// Evidence that is older says nothing of now, s: a line that is used to the full is tried each ten seconds.
const FRESH: f64 = 15.0;

/// The mean capacity of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Learned {
    /// Logarithm of bit/s.
    mean: f64,
    /// Seconds that it stands for, up to a [`MINUTE`].
    known: f64,
}

impl Learned {
    /// What an earlier run learned counts as a minute.
    pub(crate) fn before(rate: Option<Rate>) -> Self {
        rate.map_or(Learned::default(), |rate| Learned {
            mean: (rate.bps() as f64).ln(),
            known: MINUTE,
        })
    }

    /// `span` seconds have passed.
    pub(crate) fn look(&mut self, view: &DirectionView, span: f64) {
        let Some(capacity) = view.capacity.filter(|c| c.bps() > 0) else {
            return;
        };
        if view.age_s > FRESH || span <= 0.0 {
            return;
        }
        self.known = (self.known + span).min(MINUTE);
        let now = (capacity.bps() as f64).ln();
        self.mean += (now - self.mean) * (span / self.known).min(1.0);
    }

    /// The mean, if anything is known.
    pub(crate) fn rate(&self) -> Option<Rate> {
        (self.known > 0.0).then(|| Rate::from_bps(self.mean.exp().round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(learned: &mut Learned, kbit: u64, age_s: f64, seconds: u32) {
        let view = DirectionView {
            capacity: Some(Rate::from_kbit(kbit)),
            age_s,
            throughput: Rate::from_kbit(0),
            queue_ms: 0.0,
            unshaped_queue_ms: 0.0,
        };
        for _ in 0..2 * seconds {
            learned.look(&view, 0.5);
        }
    }

    fn mbit(learned: &Learned) -> f64 {
        learned.rate().map_or(0.0, |r| r.bps() as f64 / 1e6)
    }

    #[test]
    fn a_moment_of_trouble_is_not_the_next_start() {
        let mut learned = Learned::default();
        assert_eq!(learned.rate(), None);
        look(&mut learned, 20_000, 1.0, 1);
        assert!((mbit(&learned) - 20.0).abs() < 0.01);
        look(&mut learned, 20_000, 1.0, 120);
        // A tenth for two seconds, and then nobody loads the line for an hour.
        look(&mut learned, 2_000, 1.0, 2);
        look(&mut learned, 2_000, 60.0, 3600);
        assert!(mbit(&learned) > 18.0, "{}", mbit(&learned));
        // A line that did become slower is learned.
        look(&mut learned, 5_000, 1.0, 300);
        assert!((mbit(&learned) - 5.0).abs() < 0.1, "{}", mbit(&learned));
    }

    #[test]
    fn what_was_learned_before_counts_as_a_minute() {
        let mut learned = Learned::before(Some(Rate::from_kbit(20_000)));
        look(&mut learned, 2_000, 1.0, 2);
        assert!(mbit(&learned) > 18.0, "{}", mbit(&learned));
    }
}
