//! What this host wants of a direction.
//!
//! Principles: who is held by his share wants whatever there is, in the tier that sends most; who is not, wants twice
//! what he has, so that he can grow as TCP's windows do. Non-goals: what he gets.

use std::time::Duration;

use super::{Demand, TIERS};
use crate::Rate;

/// Rates are taken over so long, s.
const SPAN: f64 = 0.09;
/// And at least over what so many bytes take at what may be used, 4 packets of 1500: of a slow share less than one passes in
/// the time above, and whichever tier that is of would be the only one (decision 0141; four was not varied).
const BYTES: f64 = 6000.0;
/// Held by his share: from this part of it on, or while packets wait for so long.
const HELD: f64 = 0.85;
const WAITS: Duration = Duration::from_millis(4);
/// It holds for so long after that, s: TCP sends less for a moment after a loss.
const STAYS: f64 = 0.4;

/// What is known of it.
#[derive(Debug, Clone, Default)]
pub struct DemandEstimator {
    /// When bytes were counted, s, and how many by tier.
    counted: Option<(f64, [f64; TIERS])>,
    /// bit/s.
    rates: [f64; TIERS],
    held: Option<f64>,
}

impl DemandEstimator {
    /// So many bytes were sent by tier until `now`, where `bound` may be used, and what comes now waits for `waits` in
    /// our own queue.
    pub fn look(
        &mut self,
        now: Duration,
        sent: [f64; TIERS],
        bound: Option<Rate>,
        waits: Duration,
    ) {
        let now = now.as_secs_f64();
        if let Some((at, before)) = self.counted {
            let span = now - at;
            if span < SPAN {
                return;
            }
            let least = bound.map_or(0.0, |b| BYTES * 8.0 / b.bps().max(1) as f64);
            let part = span / span.max(least);
            for ((rate, a), b) in self.rates.iter_mut().zip(before).zip(sent) {
                *rate += ((b - a).max(0.0) * 8.0 / span - *rate) * part;
            }
        }
        self.counted = Some((now, sent));
        let all: f64 = self.rates.iter().sum();
        let full = bound.is_some_and(|b| all > HELD * b.bps() as f64);
        if full || waits > WAITS {
            self.held = Some(now);
        } else if self.held.is_some_and(|held| now - held > STAYS) {
            self.held = None;
        }
    }

    /// What it wants now.
    pub fn demand(&self) -> Demand {
        let mut wants = self.rates.map(|r| Rate::from_bps((2.0 * r).round() as u64));
        if self.held.is_some() {
            let most = (0..TIERS).max_by(|a, b| self.rates[*a].total_cmp(&self.rates[*b]));
            wants[most.unwrap_or(0)] = Rate::MAX;
        }
        Demand(wants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Single packets of an upload between light ones, as on a share of 160 kbit/s, where each takes nearly a tenth of a second.
    #[test]
    fn what_wants_all_is_the_same_tier_at_each_look() {
        let mut a = DemandEstimator::default();
        let mut sent = [0.0; TIERS];
        let bound = Some(Rate::from_kbit(160));
        for n in 1..=200u64 {
            sent[0] += 250.0;
            sent[2] += if n % 4 == 0 { 0.0 } else { 1696.0 };
            let waits = Duration::from_millis(50);
            a.look(Duration::from_millis(100 * n), sent, bound, waits);
            let all = a.demand().0.map(|d| d == Rate::MAX);
            assert!(n < 10 || all == [false, false, true, false], "{n}: {all:?}");
        }
    }

    #[test]
    fn who_is_held_wants_all_there_is() {
        let mut a = DemandEstimator::default();
        let mut sent = [0.0; TIERS];
        let bound = Some(Rate::from_kbit(800));
        let mut second = |from: u64, bytes: [f64; TIERS], a: &mut DemandEstimator| {
            for n in 1..=10 {
                for (s, b) in sent.iter_mut().zip(bytes) {
                    *s += b / 10.0;
                }
                a.look(
                    Duration::from_millis(1000 * from + 100 * n),
                    sent,
                    bound,
                    Duration::ZERO,
                );
            }
        };
        second(0, [1000.0, 0.0, 20_000.0, 0.0], &mut a);
        assert_eq!(a.demand().0.map(Rate::kbit), [16, 0, 320, 0]);
        second(1, [1000.0, 0.0, 99_000.0, 0.0], &mut a);
        assert_eq!((a.demand().0[0].kbit(), a.demand().0[2]), (16, Rate::MAX));
        second(2, [1000.0, 0.0, 0.0, 0.0], &mut a);
        assert_eq!(a.demand().0.map(Rate::kbit), [16, 0, 0, 0]);
    }
}
