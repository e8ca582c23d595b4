//! How far below its estimate a direction is held, because queues came that nobody tried for.
//!
//! An estimate is off by a standard error, and what it is too high by stands in the buffer: a queue comes
//! again and again, each is drained, and none shows the rate to be wrong, since it is right within its error
//! (decision 0117). That a queue came is the evidence: the rate is rather too high than too low.
//!
//! Principles: a number that queues raise and full use without a queue lowers, bounded by what estimates are off by; what
//! is known of the capacity stays, and so does a line that is not used. Non-goals: queues that a try made, which say
//! what the line carries.

/// What a queue that nobody tried for adds: half of what the best estimate is off by (1 %, `capacity`).
const STEP: f64 = 0.005;
/// The most: two standard errors of it. What is off by more is corrected by what its queue shows.
const MOST: f64 = 0.02;
/// Half of it is forgotten in so many seconds of full use without a queue: a queue each few seconds keeps it, one by
/// chance costs little.
const HALF: f64 = 4.0;

/// The share of the estimate that is left free, and as of when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Caution {
    share: f64,
    at: f64,
}

impl Caution {
    /// What is left free now, 0 to [`MOST`].
    pub(super) fn share(self) -> f64 {
        self.share
    }

    /// A queue came while the line was shaped to its estimate.
    pub(super) fn queue_came(&mut self) {
        self.share = (self.share + STEP).min(MOST);
    }

    /// It is `now`; since the latest look the line was used to the full, and no queue came.
    pub(super) fn looked(&mut self, now: f64, full_without_queue: bool) {
        if full_without_queue {
            self.share *= 0.5f64.powf((now - self.at).max(0.0) / HALF);
        }
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(caution: Caution, share: f64) -> bool {
        (caution.share() - share).abs() < 1e-12
    }

    #[test]
    fn queues_raise_it_to_a_bound_and_full_use_lowers_it() {
        let mut caution = Caution::default();
        caution.looked(10.0, true);
        assert!(is(caution, 0.0));
        caution.queue_came();
        assert!(is(caution, 0.005));
        caution.looked(14.0, true);
        assert!(is(caution, 0.0025));
        for n in 1..20 {
            caution.queue_came();
            caution.looked(14.0 + 0.3 * f64::from(n), true);
        }
        assert!((0.018..=0.02).contains(&caution.share()));
    }

    #[test]
    fn a_line_that_is_not_used_stays_as_it_is() {
        let mut caution = Caution::default();
        caution.queue_came();
        caution.looked(3600.0, false);
        assert!(is(caution, 0.005));
        caution.looked(3604.0, true);
        assert!(is(caution, 0.0025));
    }

    /// One each twenty seconds costs a quarter of a per cent on average.
    #[test]
    fn a_queue_now_and_then_costs_little() {
        let mut caution = Caution::default();
        let mut sum = 0.0;
        for tenth in 0..2000 {
            if tenth % 200 == 0 {
                caution.queue_came();
            }
            caution.looked(f64::from(tenth) / 10.0, true);
            sum += caution.share() / 2000.0;
        }
        assert!(sum < 0.0025, "{sum}");
    }
}
