//! How times spread, in constant memory.
//!
//! Principles: number, smallest, largest, mean and standard deviation are exact (Welford 1962);
//! percentiles come from a histogram whose steps are at most 0.1 % of the value, so they are that
//! exact and no more (microseconds are exact below 2 ms). Non-goals: keeping the samples (the
//! log does).

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::Summary;

/// Significant decimal digits of percentiles.
const DIGITS: u8 = 3;
/// Beyond an hour a round trip is not told apart.
const LONGEST: u64 = 3_600_000_000_000;

/// Times seen so far.
#[derive(Debug, Clone)]
pub struct Spread {
    n: u64,
    mean: f64,
    squares: f64,
    min: Duration,
    max: Duration,
    histogram: Option<Histogram<u64>>,
}

impl Default for Spread {
    fn default() -> Self {
        Self::new()
    }
}

impl Spread {
    /// None yet.
    pub fn new() -> Self {
        Spread {
            n: 0,
            mean: 0.0,
            squares: 0.0,
            min: Duration::MAX,
            max: Duration::ZERO,
            histogram: Histogram::new(DIGITS).ok(),
        }
    }

    /// One more.
    pub fn add(&mut self, time: Duration) {
        self.n += 1;
        let ms = time.as_secs_f64() * 1000.0;
        let off = ms - self.mean;
        self.mean += off / self.n as f64;
        self.squares += off * (ms - self.mean);
        self.min = self.min.min(time);
        self.max = self.max.max(time);
        if let Some(h) = &mut self.histogram {
            let ns = u64::try_from(time.as_nanos()).unwrap_or(LONGEST);
            // It grows to the largest value, which is bounded, so this cannot fail.
            let _ = h.record(ns.min(LONGEST));
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.n
    }

    /// The smallest. `None` if there are none.
    pub fn min(&self) -> Option<Duration> {
        (self.n > 0).then_some(self.min)
    }

    /// In ms. `None` if there are none.
    pub fn summary(&self) -> Option<Summary> {
        if self.n == 0 {
            return None;
        }
        let (min, max) = (
            self.min.as_secs_f64() * 1000.0,
            self.max.as_secs_f64() * 1000.0,
        );
        let quantile = |q: f64| {
            let ns = self
                .histogram
                .as_ref()
                .map_or(0, |h| h.value_at_quantile(q));
            (ns as f64 / 1e6).clamp(min, max)
        };
        Some(Summary {
            n: self.n as usize,
            min,
            avg: self.mean.clamp(min, max),
            median: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max,
            stddev: if self.n > 1 {
                (self.squares / (self.n - 1) as f64).max(0.0).sqrt()
            } else {
                0.0
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_by_hand() {
        let mut s = Spread::new();
        assert_eq!((s.summary(), s.min(), s.count()), (None, None, 0));
        for ms in [4, 1, 3, 2, 5] {
            s.add(Duration::from_millis(ms));
        }
        assert_eq!((s.min(), s.count()), (Some(Duration::from_millis(1)), 5));
        let s = s.summary().unwrap();
        assert_eq!((s.n, s.min, s.max), (5, 1.0, 5.0));
        assert!((s.avg - 3.0).abs() < 1e-9 && (s.stddev - 2.5f64.sqrt()).abs() < 1e-9);
        assert!((s.median - 3.0).abs() < 0.003, "{}", s.median);
    }

    #[test]
    fn a_single_time_is_every_figure() {
        let mut s = Spread::default();
        s.add(Duration::from_millis(7));
        let s = s.summary().unwrap();
        for figure in [s.min, s.avg, s.median, s.p90, s.p95, s.p99, s.max] {
            assert!((figure - 7.0).abs() < 1e-12, "{s:?}");
        }
        assert_eq!((s.n, s.stddev), (1, 0.0));
    }

    /// 1 to 200 ms: so many per cent of them are at most twice as many ms.
    #[test]
    fn each_percentile_is_its_own() {
        let mut s = Spread::new();
        for ms in 1..=200 {
            s.add(Duration::from_millis(ms));
        }
        let s = s.summary().unwrap();
        for (figure, ms) in [
            (s.median, 100.0),
            (s.p90, 180.0),
            (s.p95, 190.0),
            (s.p99, 198.0),
        ] {
            assert!((figure - ms).abs() <= ms * 0.001, "{figure} {ms}");
        }
    }

    /// An hour is the longest that percentiles tell; the largest value itself stays exact.
    #[test]
    fn beyond_an_hour_percentiles_say_an_hour() {
        let mut s = Spread::new();
        s.add(Duration::ZERO);
        s.add(Duration::from_secs(7200));
        s.add(Duration::MAX);
        let s = s.summary().unwrap();
        assert!((s.median - 3_600_000.0).abs() < 3_600.0, "{}", s.median);
        assert!((s.p99 - 3_600_000.0).abs() < 3_600.0, "{}", s.p99);
        assert!(s.max > 1e20);
    }

    proptest! {
        #[test]
        fn as_exact_as_promised(ns in prop::collection::vec(0u64..5_000_000_000, 1..300)) {
            let mut s = Spread::new();
            for v in &ns {
                s.add(Duration::from_nanos(*v));
            }
            let s = s.summary().unwrap();
            let mut sorted = ns.clone();
            sorted.sort_unstable();
            let rank = |q: f64| sorted[((sorted.len() as f64 * q).ceil() as usize).max(1) - 1];
            for (got, q) in [(s.median, 0.5), (s.p90, 0.9), (s.p99, 0.99)] {
                let want = rank(q) as f64 / 1e6;
                prop_assert!((got - want).abs() <= want * 0.001 + 1e-6, "{} {}", got, want);
            }
            let exact = Summary::of(&ns.iter().map(|v| *v as f64 / 1e6).collect::<Vec<_>>()).unwrap();
            prop_assert!((s.avg - exact.avg).abs() <= exact.avg * 1e-9 + 1e-9);
            prop_assert!((s.stddev - exact.stddev).abs() <= exact.stddev * 1e-6 + 1e-6);
        }
    }
}
