//! Round trip against size: the line through the smallest round trip of each size.
//!
//! Principles: the minimum of each size, because queues only ever add; ordinary least squares
//! with 95 % confidence intervals (Student's t), so that a poor fit shows; nothing is estimated
//! from fewer than three sizes. Non-goals: telling the two directions apart.

use std::collections::BTreeMap;
use std::time::Duration;

/// What was seen of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizeRow {
    /// Probes sent.
    pub sent: u64,
    /// Answers that were timed.
    pub answered: u64,
    /// The smallest round trip.
    pub min: Option<Duration>,
}

/// A value and the half width of its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// It lies within this much of the value, 95 times of 100.
    pub within: f64,
}

/// The line through the minima.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Sizes that it goes through.
    pub sizes: usize,
    /// Microseconds for each byte of payload.
    pub slope: Estimate,
    /// Microseconds for no payload.
    pub intercept: Estimate,
    /// Pearson's correlation of size and smallest round trip.
    pub correlation: f64,
}

impl Fit {
    /// Through the smallest round trips. `None` below three sizes.
    pub fn through(rows: &BTreeMap<u32, SizeRow>) -> Option<Fit> {
        let points: Vec<(f64, f64)> = rows
            .iter()
            .filter_map(|(size, r)| Some((f64::from(*size), r.min?.as_secs_f64() * 1e6)))
            .collect();
        let k = points.len();
        if k < 3 {
            return None;
        }
        let n = k as f64;
        let (mx, my) = (
            points.iter().map(|p| p.0).sum::<f64>() / n,
            points.iter().map(|p| p.1).sum::<f64>() / n,
        );
        let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
        let syy: f64 = points.iter().map(|p| (p.1 - my).powi(2)).sum();
        let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
        let slope = sxy / sxx;
        let intercept = my - slope * mx;
        let rest: f64 = points
            .iter()
            .map(|p| (p.1 - intercept - slope * p.0).powi(2))
            .sum();
        let spread = (rest / (n - 2.0)).sqrt();
        let t = student(k - 2);
        Some(Fit {
            sizes: k,
            slope: Estimate {
                value: slope,
                within: t * spread / sxx.sqrt(),
            },
            intercept: Estimate {
                value: intercept,
                within: t * spread * (1.0 / n + mx * mx / sxx).sqrt(),
            },
            correlation: if syy > 0.0 {
                sxy / (sxx * syy).sqrt()
            } else {
                0.0
            },
        })
    }

    /// The rate in kbit/s at which a byte takes the slope's time, with the ends of its interval.
    /// It is that of all ways that carry the payload together: 1/up + 1/down for echoes, whose
    /// every link counts. `None` if the slope may be zero.
    pub fn kbit(&self) -> Option<(f64, f64, f64)> {
        let Estimate { value, within } = self.slope;
        let rate = |us_per_byte: f64| 8000.0 / us_per_byte;
        (value > within).then(|| (rate(value), rate(value + within), rate(value - within)))
    }
}

/// The 97.5 % quantile of Student's t with `df` degrees of freedom: a table up to 30, beyond it
/// the first terms of Cornish and Fisher's expansion (error below 0.001).
fn student(df: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    const Z: f64 = 1.959_964;
    if let Some(t) = df.checked_sub(1).and_then(|i| TABLE.get(i)) {
        return *t;
    }
    let df = df as f64;
    let second = 5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z;
    Z + (Z.powi(3) + Z) / (4.0 * df) + second / (96.0 * df * df)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(points: &[(u32, f64)]) -> BTreeMap<u32, SizeRow> {
        points
            .iter()
            .map(|(size, us)| {
                let min = Some(Duration::from_secs_f64(us / 1e6));
                let (sent, answered) = (1, 1);
                (
                    *size,
                    SizeRow {
                        sent,
                        answered,
                        min,
                    },
                )
            })
            .collect()
    }

    /// The example of many textbooks: x 1..5, y 2 4 5 4 5: slope 0.6, intercept 2.2,
    /// standard errors 0.2828 and 0.9381, t(3) = 3.182, r = 0.7746.
    #[test]
    fn worked_by_hand() {
        let fit = Fit::through(&rows(&[(1, 2.0), (2, 4.0), (3, 5.0), (4, 4.0), (5, 5.0)])).unwrap();
        assert!((fit.slope.value - 0.6).abs() < 1e-9);
        assert!((fit.intercept.value - 2.2).abs() < 1e-9);
        assert!((fit.slope.within - 3.182 * 0.282_843).abs() < 1e-4);
        assert!((fit.intercept.within - 3.182 * 0.938_083).abs() < 1e-4);
        assert!((fit.correlation - 0.774_597).abs() < 1e-6);
        assert_eq!(fit.kbit(), None, "the slope may be zero");
    }

    #[test]
    fn a_line_of_8_mbit_has_1_us_a_byte() {
        let points: Vec<_> = (0..10)
            .map(|i| (i * 100, 500.0 + f64::from(i) * 100.0))
            .collect();
        let fit = Fit::through(&rows(&points)).unwrap();
        let (rate, low, high) = fit.kbit().unwrap();
        assert!((rate - 8000.0).abs() < 1e-3 && low <= rate && rate <= high);
        assert_eq!(Fit::through(&rows(&points[..2])), None);
    }

    /// y = x + 1 at 1 and 3, and half a microsecond off at 2: slope 1, intercept 7/6; the
    /// residuals are -1/6, 1/3, -1/6, their squares add up to 1/6; one degree of freedom.
    #[test]
    fn three_sizes_are_enough_and_two_are_not() {
        let points = [(1, 2.0), (2, 3.5), (3, 4.0)];
        let fit = Fit::through(&rows(&points)).unwrap();
        assert_eq!(fit.sizes, 3);
        assert!((fit.slope.value - 1.0).abs() < 1e-9);
        assert!((fit.intercept.value - 7.0 / 6.0).abs() < 1e-9);
        let spread = (1.0f64 / 6.0).sqrt();
        assert!((fit.slope.within - 12.706 * spread / 2f64.sqrt()).abs() < 1e-6);
        let at_zero = (1.0f64 / 3.0 + 4.0 / 2.0).sqrt();
        assert!((fit.intercept.within - 12.706 * spread * at_zero).abs() < 1e-6);
        assert_eq!(Fit::through(&rows(&points[..2])), None);
        // A size of which nothing came back is none.
        let mut silent = rows(&points);
        silent.get_mut(&2).unwrap().min = None;
        assert_eq!(Fit::through(&silent), None);
    }

    #[test]
    fn what_size_does_not_change_has_no_correlation_and_no_rate() {
        let fit = Fit::through(&rows(&[(0, 5.0), (100, 5.0), (200, 5.0)])).unwrap();
        assert_eq!((fit.slope.value, fit.correlation), (0.0, 0.0));
        assert_eq!(fit.kbit(), None);
    }

    /// A byte in 2 us is 4 Mbit/s, in 1 us 8, in 3 us 2.67.
    #[test]
    fn the_rate_has_the_ends_of_the_slopes_interval() {
        let of = |value, within| Fit {
            sizes: 3,
            slope: Estimate { value, within },
            intercept: Estimate {
                value: 0.0,
                within: 0.0,
            },
            correlation: 1.0,
        };
        let (rate, low, high) = of(2.0, 1.0).kbit().unwrap();
        assert!((rate - 4000.0).abs() < 1e-9, "{rate}");
        assert!((low - 8000.0 / 3.0).abs() < 1e-9, "{low}");
        assert!((high - 8000.0).abs() < 1e-9, "{high}");
        assert_eq!(of(1.0, 1.0).kbit(), None, "it may be zero");
        assert_eq!(of(-2.0, 1.0).kbit(), None, "it is below zero");
    }

    /// Beyond the table: tables of other books, and Abramowitz and Stegun 26.7.5 with
    /// (x^3 + x) / 4 = 2.372271279 and (5 x^5 + 16 x^3 + 3 x) / 96 = 2.822498705 for x = 1.959964.
    #[test]
    fn students_quantiles() {
        for (df, t) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (29, 2.045),
            (30, 2.042),
        ] {
            assert!((student(df) - t).abs() < 1e-9, "{df}");
        }
        for (df, t) in [(31, 2.0395), (40, 2.0211), (60, 2.0003), (120, 1.9799)] {
            assert!((student(df) - t).abs() < 2e-4, "{df}: {}", student(df));
            let n = df as f64;
            let expanded = 1.959_964 + 2.372_271_279 / n + 2.822_498_705 / (n * n);
            assert!((student(df) - expanded).abs() < 1e-9, "{df}");
        }
    }

    proptest! {
        /// Whatever is asked, the line's own figures are found within the interval or close by.
        #[test]
        fn finds_the_line(slope in 0.01f64..50.0, base in 1.0f64..1e5, n in 3u32..40) {
            let points: Vec<_> =
                (0..n).map(|i| (i * 64, base + slope * f64::from(i * 64))).collect();
            let fit = Fit::through(&rows(&points)).unwrap();
            prop_assert!((fit.slope.value - slope).abs() < slope * 1e-3 + 1e-3);
            prop_assert!((fit.intercept.value - base).abs() < base * 1e-3 + 0.1);
        }
    }
}
