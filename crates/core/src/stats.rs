//! Summaries of samples: what a table of latencies says.
//!
//! Principles: computed from the raw samples, never from buckets; percentiles by linear
//! interpolation between order statistics (type 7 of Hyndman & Fan 1996, the default of R and
//! NumPy), so that other tools agree to the last digit. Non-goals: streaming estimates.

use serde::{Deserialize, Serialize};

/// n, location, tail and spread of a set of samples, in the samples' unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub n: usize,
    /// Smallest.
    pub min: f64,
    /// Arithmetic mean.
    pub avg: f64,
    /// 50th percentile.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// Sample standard deviation (n - 1); 0 for a single sample.
    pub stddev: f64,
}

impl Summary {
    /// Summarises `samples`, in any order. `None` if there are none or one is not finite.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        if samples.is_empty() || samples.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let avg = sorted.iter().sum::<f64>() / n as f64;
        let squares: f64 = sorted.iter().map(|v| (v - avg).powi(2)).sum();
        Some(Summary {
            n,
            min: sorted[0],
            avg,
            median: quantile_sorted(&sorted, 0.5),
            p90: quantile_sorted(&sorted, 0.9),
            p95: quantile_sorted(&sorted, 0.95),
            p99: quantile_sorted(&sorted, 0.99),
            max: sorted[n - 1],
            stddev: if n > 1 {
                (squares / (n - 1) as f64).sqrt()
            } else {
                0.0
            },
        })
    }
}

/// The `q` quantile (0..=1) of ascending `sorted`. An empty slice gives NaN.
pub fn quantile_sorted(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let low = at.floor() as usize;
    let high = (low + 1).min(last);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

/// The median of `values`, in any order. `None` if there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    Summary::of(values).map(|s| s.median)
}

/// Jain's fairness index of shares: 1 if all are equal, 1/n if one has everything
/// (Jain, Chiu, Hawe 1984). `None` if there are none or all are zero.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|v| v * v).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_by_hand() {
        let s = Summary::of(&[4.0, 1.0, 3.0, 2.0, 5.0]).unwrap();
        assert_eq!(
            (s.n, s.min, s.avg, s.median, s.max),
            (5, 1.0, 3.0, 3.0, 5.0)
        );
        assert!((s.p90 - 4.6).abs() < 1e-12 && (s.p99 - 4.96).abs() < 1e-12);
        assert!((s.stddev - 2.5f64.sqrt()).abs() < 1e-12);
        let one = Summary::of(&[7.5]).unwrap();
        assert_eq!((one.median, one.p99, one.stddev), (7.5, 7.5, 0.0));
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn fairness() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
        // 6^2 / (3 * 14)
        assert_eq!(jain(&[1.0, 2.0, 3.0]), Some(36.0 / 42.0));
    }

    #[test]
    fn between_two_samples() {
        assert_eq!(median(&[4.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
        let sorted = [10.0, 20.0, 40.0];
        for (q, value) in [
            (-1.0, 10.0),
            (0.0, 10.0),
            (0.25, 15.0),
            (0.75, 30.0),
            (2.0, 40.0),
        ] {
            assert!((quantile_sorted(&sorted, q) - value).abs() < 1e-12, "{q}");
        }
        assert!(quantile_sorted(&[], 0.5).is_nan());
        // 20 + 0.9 * 20, of positions 0, 1, 2
        let s = Summary::of(&sorted).unwrap();
        assert!((s.p95 - 38.0).abs() < 1e-12, "{}", s.p95);
    }

    proptest! {
        #[test]
        fn ordered(v in proptest::collection::vec(-1e6f64..1e6, 1..200)) {
            let s = Summary::of(&v).unwrap();
            let chain = [s.min, s.median, s.p90, s.p95, s.p99, s.max];
            prop_assert!(chain.windows(2).all(|w| w[0] <= w[1]));
            prop_assert!(s.min - 1e-6 <= s.avg && s.avg <= s.max + 1e-6);
        }
    }
}
