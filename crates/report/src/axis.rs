//! Axes: from values to places on a drawing, and the ticks between.
//!
//! Principles: ticks at 1, 2 or 5 times a power of ten, few of them; any input, however absurd,
//! gives a drawable axis and a bounded number of ticks. Non-goals: dates, categories.

/// One axis: a range of values, linear or logarithmic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    lo: f64,
    hi: f64,
    log: bool,
    step: f64,
}

/// Beyond this nothing measured can be; it keeps the arithmetic exact enough to draw.
const LARGEST: f64 = 1e12;

impl Axis {
    /// From 0 to a round value that is at least `hi`, with about `ticks` steps.
    pub(crate) fn from_zero(hi: f64, ticks: usize) -> Axis {
        let hi = sane(hi).max(1e-6);
        let step = round_up(hi / ticks.max(1) as f64, &[1.0, 2.0, 2.5, 5.0]);
        // A step more only if the last tick would lie clearly below the highest value.
        let steps = (hi / step - 1e-9).ceil().max(1.0);
        Axis {
            lo: 0.0,
            hi: steps * step,
            log: false,
            step,
        }
    }

    /// Exactly from `lo` to `hi`, with about `ticks` steps.
    pub(crate) fn exact(lo: f64, hi: f64, ticks: usize) -> Axis {
        let lo = sane(lo);
        let hi = sane(hi).max(lo + 1e-6 + lo.abs() * 1e-9);
        let step = round_up((hi - lo) / ticks.max(1) as f64, &[1.0, 2.0, 5.0]);
        Axis {
            lo,
            hi,
            log: false,
            step,
        }
    }

    /// For values from `lo` to `hi`: logarithmic if they are positive and span more than `factor`,
    /// else linear with a little room at both ends.
    pub(crate) fn for_spread(lo: f64, hi: f64, factor: f64, ticks: usize) -> Axis {
        let (lo, hi) = (sane(lo), sane(hi));
        if lo > 1e-6 && hi / lo > factor {
            Axis {
                lo: lo / 1.1,
                hi: hi * 1.1,
                log: true,
                step: 0.0,
            }
        } else {
            let room = (hi - lo).abs().max(0.1) * 0.03;
            Axis::exact((lo - room).max(0.0), hi + room, ticks)
        }
    }

    /// Where `v` lies: 0 at the low end, 1 at the high end; values outside stick to the ends.
    pub(crate) fn place(&self, v: f64) -> f64 {
        let share = if self.log {
            (v.max(self.lo) / self.lo).ln() / (self.hi / self.lo).ln()
        } else {
            (v - self.lo) / (self.hi - self.lo)
        };
        if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        }
    }

    /// The values that get a tick, ascending, with their labels.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        let values = if self.log {
            self.log_ticks()
        } else {
            self.linear_ticks()
        };
        let step = if self.log { 0.0 } else { self.step };
        values.into_iter().map(|v| (v, label(v, step))).collect()
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let first = (self.lo / self.step - 1e-9).ceil();
        (0..50)
            .map(|i| (first + f64::from(i)) * self.step)
            .take_while(|v| *v <= self.hi + self.step * 1e-9)
            .collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.hi / self.lo).log10();
        let marks: &[f64] = match decades {
            d if d < 0.9 => &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
            d if d < 1.5 => &[1.0, 2.0, 3.0, 5.0],
            d if d < 2.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let first = self.lo.log10().floor() as i32;
        (first..first + 20)
            .flat_map(|power| marks.iter().map(move |m| m * 10f64.powi(power)))
            .filter(|v| *v >= self.lo && *v <= self.hi)
            .collect()
    }
}

fn sane(v: f64) -> f64 {
    if v.is_finite() {
        v.clamp(-LARGEST, LARGEST)
    } else {
        0.0
    }
}

/// The smallest of `marks` and 10 times a power of ten that is at least `v`.
fn round_up(v: f64, marks: &[f64]) -> f64 {
    let power = 10f64.powf(v.max(1e-9).log10().floor());
    marks
        .iter()
        .map(|m| m * power)
        .find(|s| *s >= v * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// As many decimals as the step needs; for a logarithmic axis (step 0) as the value itself needs.
fn label(v: f64, step: f64) -> String {
    let exact = if step == 0.0 { v } else { step };
    let decimals = (0..6)
        .find(|d| {
            let scaled = exact * 10f64.powi(*d);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1e-9)
        })
        .unwrap_or(6) as usize;
    format!("{:.*}", decimals, v + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis) -> String {
        let ticks: Vec<String> = axis.ticks().into_iter().map(|t| t.1).collect();
        ticks.join(" ")
    }

    #[test]
    fn round_ticks() {
        assert_eq!(labels(&Axis::from_zero(104.2, 5)), "0 25 50 75 100 125");
        assert_eq!(labels(&Axis::from_zero(1.0, 4)), "0.00 0.25 0.50 0.75 1.00");
        assert_eq!(labels(&Axis::exact(0.0, 10.0, 5)), "0 2 4 6 8 10");
        let spread = |lo, hi| labels(&Axis::for_spread(lo, hi, 3.0, 5));
        assert_eq!(spread(9.1, 104.0), "10 20 30 50 100");
        assert_eq!(spread(0.5, 800.0), "1 10 100");
        assert_eq!(spread(56.0, 290.0), "60 80 100 150 200 250 300");
        assert_eq!(spread(1.1, 5.4), "1 1.5 2 2.5 3 4 5");
        assert_eq!(spread(56.0, 130.0), "60 80 100 120");
    }

    proptest! {
        #[test]
        fn any_input_gives_an_axis(lo: f64, hi: f64, v: f64, ticks in 0usize..20) {
            for axis in [
                Axis::from_zero(hi, ticks),
                Axis::exact(lo, hi, ticks),
                Axis::for_spread(lo, hi, 6.0, ticks),
            ] {
                prop_assert!((0.0..=1.0).contains(&axis.place(v)));
                let found = axis.ticks();
                prop_assert!(found.len() <= 80);
                prop_assert!(found.iter().all(|t| t.1.len() < 40));
            }
        }
    }
}
