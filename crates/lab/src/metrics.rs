//! From samples to the figures of a result: summaries, settling, factors.
//!
//! Principles: pure; judged on the UDP probe from the start of the connections on; a lost probe
//! counts as the worst round trip seen in that run, or [`LOST_MS`] if none came back at all.
//! Non-goals: tables and pictures (crate `evenkeel-report`).

use std::time::Duration;

use evenkeel_core::Summary;
use evenkeel_core::result::{Factor, Run};
use evenkeel_core::stats::median;
use evenkeel_measure::load::BIN;
use evenkeel_measure::probe::{STRAGGLERS, Sample};

/// What a lost probe counts in a run in which none came back: the time for which was waited.
pub const LOST_MS: f64 = STRAGGLERS.as_millis() as f64;
/// The increase has settled when it stays this near to its final median ...
const SETTLED_MS: f64 = 5.0;
/// ... for this long, s.
const SETTLED_S: f64 = 1.0;

/// Time (s) and round trip (ms) of each probe sent in `from..to`, relative to `from`.
pub fn series(samples: &[Sample], from: Duration, to: Duration) -> Vec<(f64, Option<f64>)> {
    let inside = samples.iter().filter(|s| from <= s.sent && s.sent < to);
    inside
        .map(|s| {
            let rtt = s.rtt.map(|r| r.as_secs_f64() * 1000.0);
            (s.sent.saturating_sub(from).as_secs_f64(), rtt)
        })
        .collect()
}

/// Round trips in ms with each lost probe as the worst, and how many were lost.
pub fn round_trips(series: &[(f64, Option<f64>)]) -> (Vec<f64>, u64) {
    let answered = series.iter().filter_map(|s| s.1);
    let worst = answered.fold(None, |w: Option<f64>, v| Some(w.map_or(v, |w| w.max(v))));
    let worst = worst.unwrap_or(LOST_MS);
    let lost = series.iter().filter(|s| s.1.is_none()).count() as u64;
    (series.iter().map(|s| s.1.unwrap_or(worst)).collect(), lost)
}

/// When the round trip has settled: from then on it stays, for a second, within 5 ms of the
/// median of the run's last third. `None` if it never does.
pub fn settle_s(series: &[(f64, Option<f64>)]) -> Option<f64> {
    let end = series.last()?.0;
    let (rtt, _) = round_trips(series);
    let last: Vec<f64> = series
        .iter()
        .zip(&rtt)
        .filter(|(s, _)| s.0 >= end * 2.0 / 3.0)
        .map(|(_, v)| *v)
        .collect();
    let wanted = median(&last)?;
    let mut since: Option<f64> = None;
    for ((t, _), v) in series.iter().zip(&rtt) {
        if (v - wanted).abs() > SETTLED_MS {
            since = None;
            continue;
        }
        let start = *since.get_or_insert(*t);
        if t - start >= SETTLED_S {
            return Some(start);
        }
    }
    None
}

/// Goodput over time (end of the interval in s, kbit/s), from payload bytes per [`BIN`].
pub fn goodput_series<'a>(flows: impl Iterator<Item = &'a [u64]>) -> Vec<(f64, f64)> {
    let mut sums: Vec<u64> = Vec::new();
    for bins in flows {
        sums.resize(sums.len().max(bins.len()), 0);
        for (sum, n) in sums.iter_mut().zip(bins) {
            *sum += n;
        }
    }
    let width = BIN.as_secs_f64();
    (1..)
        .zip(sums)
        .map(|(i, n)| (f64::from(i) * width, n as f64 * 8.0 / 1000.0 / width))
        .collect()
}

/// Mean of a goodput series, kbit/s.
pub fn mean_kbit(series: &[(f64, f64)]) -> f64 {
    let sum = series.iter().fold(0.0, |sum, s| sum + s.1); // an empty `sum()` is -0
    sum / series.len().max(1) as f64
}

/// The summary of `values` less `base`.
pub fn increase(values: &[f64], base: f64) -> Option<Summary> {
    let less: Vec<f64> = values.iter().map(|v| v - base).collect();
    Summary::of(&less)
}

/// Every condition against `none`, by load, in the order of the runs. Void runs do not count.
pub fn factors(runs: &[Run]) -> Vec<Factor> {
    let good = || runs.iter().filter(|r| r.instrument.void.is_empty());
    let middle = |condition: &str, load: &str, value: fn(&Run) -> f64| {
        let of = good().filter(|r| r.condition == condition && r.load == load);
        median(&of.map(value).collect::<Vec<_>>())
    };
    let mut done: Vec<(&str, &str)> = Vec::new();
    let mut factors = Vec::new();
    for r in good().filter(|r| r.condition != "none" && r.load != "idle") {
        let (condition, load) = (r.condition.as_str(), r.load.as_str());
        if done.contains(&(condition, load)) {
            continue;
        }
        done.push((condition, load));
        let both = |value| {
            Some((
                middle("none", load, value)?,
                middle(condition, load, value)?,
            ))
        };
        let Some((without, with)) = both(|r| r.increase_ms.avg) else {
            continue;
        };
        let kept = |value| both(value).filter(|b| b.0 > 0.0).map(|b| b.1 / b.0);
        factors.push(Factor {
            condition: condition.to_owned(),
            load: load.to_owned(),
            increase_none_ms: without,
            increase_ms: with,
            // Below the prober's resolution an increase is as good as a hundredth of a ms.
            factor: without / with.max(0.01),
            down_kept: kept(|r| r.down_kbit),
            up_kept: kept(|r| r.up_kbit),
        });
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_probe_counts_as_the_worst() {
        let s = [(0.0, Some(9.0)), (0.1, None), (0.2, Some(40.0))];
        assert_eq!(round_trips(&s), (vec![9.0, 40.0, 40.0], 1));
        assert_eq!(round_trips(&[(0.0, None)]), (vec![2000.0], 1));
    }

    #[test]
    fn settling() {
        // 100 ms for 1.5 s, a second of calm broken once, then 10 ms.
        let at = |i: u32| f64::from(i) * 0.1;
        let value = |i| match i {
            0..15 | 20 => 100.0,
            _ => 10.0 + f64::from(i % 3),
        };
        let s: Vec<_> = (0..100).map(|i| (at(i), Some(value(i)))).collect();
        assert!((settle_s(&s).unwrap() - 2.1).abs() < 1e-9);
        let wild: Vec<_> = (0..100)
            .map(|i| (at(i), Some(f64::from(i % 2) * 50.0)))
            .collect();
        assert_eq!(settle_s(&wild), None);
        assert_eq!(settle_s(&[]), None);
    }

    #[test]
    fn goodput_in_kbit() {
        let flows: [&[u64]; 2] = [&[12_500, 0], &[12_500, 25_000, 50_000]];
        let s = goodput_series(flows.into_iter());
        let kbit: Vec<f64> = s.iter().map(|s| s.1).collect();
        assert_eq!(kbit, [2000.0, 2000.0, 4000.0]);
        assert!((s[2].0 - 0.3).abs() < 1e-9);
        assert!((mean_kbit(&s) - 8000.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn only_what_was_sent_inside_counts() {
        let ms = Duration::from_millis;
        let sample = |sent, rtt: Option<u64>| Sample {
            sent: ms(sent),
            rtt: rtt.map(ms),
            held: None,
            own: None,
            there: None,
        };
        let samples = [
            sample(9, Some(1)),
            sample(10, Some(2)),
            sample(15, None),
            sample(20, Some(3)),
        ];
        assert_eq!(
            series(&samples, ms(10), ms(20)),
            [(0.0, Some(2.0)), (0.005, None)]
        );
    }
}
