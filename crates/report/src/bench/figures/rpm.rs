//! Responsiveness under working conditions, of draft-ietf-ippm-responsiveness-09.
//!
//! Principle: the draft's own words name what is computed. Non-goals: taking the samples (crate `evenkeel-bench`).

use evenkeel_core::Summary;
use serde::Serialize;

use crate::bench::form::RpmSamples;

/// Responsiveness under working conditions, round trips per minute.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rpm {
    /// The mean of both.
    pub rpm: f64,
    /// On connections of their own.
    pub foreign: Option<f64>,
    /// On connections that load the line.
    pub loaded: Option<f64>,
    /// The load was stable.
    pub stable: bool,
    /// How sure it is.
    pub confidence: Confidence,
}

/// The draft's confidence in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The load was shorter than the four intervals that count.
    Low,
    /// It was as long, and goodput or responsiveness not stable.
    Medium,
    /// Both were stable.
    High,
}

/// The mean of all but the highest 5 % (`TM` of draft-ietf-ippm-responsiveness-09).
fn trimmed_mean(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let kept = ((sorted.len() as f64 * 0.95).ceil() as usize).min(sorted.len());
    (kept > 0).then(|| sorted[..kept].iter().sum::<f64>() / kept as f64)
}

/// The draft's `MAD`: so many intervals of 1 s count.
const MAD: u32 = 4;
/// Its `SDT`: what varies by less is stable.
const SDT: f64 = 0.05;

/// RPM of the probes since `from`, and how sure it is. The load began at `load`, s.
pub(super) fn rpm(s: &RpmSamples, load: f64) -> Option<Rpm> {
    let end = s.from + f64::from(MAD);
    let (rpm, foreign, loaded) = responsiveness(s, s.from, end)?;
    let before: Vec<f64> = (0..MAD)
        .map(|i| s.from - f64::from(i))
        .filter(|from| *from >= load)
        .filter_map(|from| Some(responsiveness(s, from, from + f64::from(MAD))?.0))
        .collect();
    let steady = before.len() == MAD as usize
        && Summary::of(&before).is_some_and(|all| all.stddev < SDT * rpm);
    let latest = s.http_foreign.iter().map(|v| v.0).fold(0.0, f64::max);
    Some(Rpm {
        rpm,
        foreign,
        loaded,
        stable: s.stable,
        confidence: match (s.stable && steady, latest - load) {
            (true, _) => Confidence::High,
            (false, length) if length >= f64::from(MAD - 1) => Confidence::Medium,
            _ => Confidence::Low,
        },
    })
}

/// RPM of the probes that were sent in `from..to`: the mean of foreign and loaded, and these apart.
/// Without TLS foreign probes are of two parts instead of three, as the draft says.
fn responsiveness(s: &RpmSamples, from: f64, to: f64) -> Option<(f64, Option<f64>, Option<f64>)> {
    let trimmed = |of: &[(f64, f64)]| {
        let inside = of.iter().filter(|v| (from..to).contains(&v.0));
        trimmed_mean(&inside.map(|v| v.1).collect::<Vec<_>>())
    };
    let foreign = trimmed(&s.tcp_foreign)
        .zip(trimmed(&s.http_foreign))
        .map(|(tcp, http)| match trimmed(&s.tls_foreign) {
            Some(tls) => 60_000.0 / ((tcp + tls + http) / 3.0),
            None => 60_000.0 / f64::midpoint(tcp, http),
        });
    let loaded = trimmed(&s.http_self).map(|http| 60_000.0 / http);
    let rpm = match (foreign, loaded) {
        (Some(f), Some(l)) => f64::midpoint(f, l),
        (one, other) => one.or(other)?,
    };
    Some((rpm, foreign, loaded))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 values: the highest is left out; of 10 none is.
    #[test]
    fn the_trimmed_mean() {
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(trimmed_mean(&twenty), Some(10.0));
        assert_eq!(trimmed_mean(&twenty[..10]), Some(5.5));
        assert_eq!(trimmed_mean(&[]), None);
    }

    #[test]
    fn rpm_by_hand() {
        let at = |v: f64| vec![(0.0, 1e6), (10.0, v), (11.0, v)];
        let mut s = RpmSamples {
            from: 9.0,
            stable: true,
            tcp_foreign: at(20.0),
            tls_foreign: at(40.0),
            http_foreign: at(30.0),
            http_self: at(100.0),
            ..RpmSamples::default()
        };
        let r = rpm(&s, 0.0).unwrap();
        assert_eq!(
            (r.foreign, r.loaded, r.rpm),
            (Some(2000.0), Some(600.0), 1300.0)
        );
        s.tls_foreign.clear();
        assert_eq!(rpm(&s, 0.0).unwrap().foreign, Some(2400.0));
        s.http_self.clear();
        assert_eq!(rpm(&s, 0.0).map(|r| r.rpm), Some(2400.0));
        assert_eq!(rpm(&RpmSamples::default(), 0.0), None);
    }

    #[test]
    fn confidence_is_the_drafts() {
        let series = |last: f64| -> Vec<(f64, f64)> {
            let at = |i: i32| f64::from(i) / 10.0;
            (0..200)
                .map(|i| (at(i), if i < 185 { 50.0 } else { last }))
                .collect()
        };
        let samples = |last, stable| RpmSamples {
            from: 16.0,
            stable,
            tcp_foreign: series(last),
            http_foreign: series(last),
            http_self: series(last),
            ..RpmSamples::default()
        };
        let of = |s: &RpmSamples, load| rpm(s, load).unwrap().confidence;
        assert_eq!(of(&samples(50.0, true), 5.0), Confidence::High);
        assert_eq!(of(&samples(50.0, false), 5.0), Confidence::Medium);
        assert_eq!(of(&samples(500.0, true), 5.0), Confidence::Medium);
        assert_eq!(of(&samples(50.0, true), 15.0), Confidence::Medium);
        assert_eq!(of(&samples(50.0, true), 17.5), Confidence::Low);
    }
}
