//! What a table of a result file says: one row per load and condition, medians over the repeats.
//!
//! Principles: void runs never enter a figure, and are named; everything is computed from the
//! runs, not from the file's own `factors`, so that a hand-edited file cannot contradict itself.
//! Non-goals: any form of output.

use evenkeel_core::result::{Factor, ResultFile, Run, factors};
use evenkeel_core::stats::median;

/// A median with the smallest and the largest value that went into it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    fn of(runs: &[&Run], figure: impl Fn(&Run) -> f64) -> Spread {
        let values: Vec<f64> = runs.iter().map(|r| figure(r)).collect();
        let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap_or(f64::NAN);
        Spread {
            median: median(&values).unwrap_or(f64::NAN),
            min: fold(f64::min),
            max: fold(f64::max),
        }
    }
}

/// One load under one condition.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) load: &'a str,
    pub(crate) condition: &'a str,
    /// The runs that count, at least one, in the file's order.
    pub(crate) runs: Vec<&'a Run>,
    /// Averages of the runs, ms.
    pub(crate) ping: Spread,
    /// Averages of the runs, ms.
    pub(crate) increase: Spread,
    /// 99th percentiles of the runs, ms.
    pub(crate) increase_p99: Spread,
    /// Goodput, kbit/s.
    pub(crate) down_kbit: f64,
    /// Goodput, kbit/s.
    pub(crate) up_kbit: f64,
    /// Until the increase is where it stays, s, median of the runs that settled; absent for idle
    /// and if none did.
    pub(crate) settle_s: Option<f64>,
    /// Probes lost, over all runs that count.
    pub(crate) lost: u64,
    /// Probes sent, over all runs that count.
    pub(crate) probes: u64,
    /// Against `none`; absent for `none` itself, for idle and where `none` is missing.
    pub(crate) factor: Option<Factor>,
}

impl<'a> Row<'a> {
    /// The run whose average increase is the median's neighbour: the one that is drawn.
    pub(crate) fn typical(&self) -> Option<&'a Run> {
        let distance = |r: &Run| (r.increase_ms.avg - self.increase.median).abs();
        self.runs
            .iter()
            .copied()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

/// Keeps the first appearance of each name.
fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// The loads in the order of the file.
pub(crate) fn loads(file: &ResultFile) -> Vec<&str> {
    unique(file.runs.iter().map(|r| r.load.as_str()))
}

/// The conditions, `none` first, then in the order of the file.
pub(crate) fn conditions(file: &ResultFile) -> Vec<&str> {
    let mut found = unique(file.runs.iter().map(|r| r.condition.as_str()));
    found.sort_by_key(|c| *c != "none");
    found
}

/// Every row that has at least one run that counts: by load, `none` first.
pub(crate) fn rows(file: &ResultFile) -> Vec<Row<'_>> {
    let factors = factors(&file.runs);
    let mut rows = Vec::new();
    for load in loads(file) {
        for condition in conditions(file) {
            let runs: Vec<&Run> = file
                .runs
                .iter()
                .filter(|r| r.load == load && r.condition == condition && counts(r))
                .collect();
            if runs.is_empty() {
                continue;
            }
            let factor = factors
                .iter()
                .find(|f| f.load == load && f.condition == condition);
            rows.push(Row {
                load,
                condition,
                ping: Spread::of(&runs, |r| r.ping_ms.avg),
                increase: Spread::of(&runs, |r| r.increase_ms.avg),
                increase_p99: Spread::of(&runs, |r| r.increase_ms.p99),
                down_kbit: Spread::of(&runs, |r| r.down_kbit).median,
                up_kbit: Spread::of(&runs, |r| r.up_kbit).median,
                settle_s: median(&runs.iter().filter_map(|r| r.settle_s).collect::<Vec<_>>()),
                lost: runs.iter().fold(0, |sum, r| r.lost.saturating_add(sum)),
                probes: runs
                    .iter()
                    .fold(0, |sum, r| (r.ping_ms.n as u64).saturating_add(sum)),
                factor: factor.cloned(),
                runs,
            });
        }
    }
    rows
}

/// The runs that do not count.
pub(crate) fn void_runs(file: &ResultFile) -> impl Iterator<Item = &Run> {
    file.runs.iter().filter(|r| !counts(r))
}

/// Fewest and most repeats over the rows.
pub(crate) fn repeats(rows: &[Row<'_>]) -> (usize, usize) {
    let counts = || rows.iter().map(|r| r.runs.len());
    (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
}

fn counts(run: &Run) -> bool {
    run.instrument.void.is_empty()
}

/// Whether a condition is evenkeel.
pub(crate) fn is_ours(condition: &str) -> bool {
    condition.starts_with("evenkeel")
}

/// Whether there is more than evenkeel and nothing to compare.
pub(crate) fn is_series(rows: &[Row<'_>]) -> bool {
    rows.iter()
        .any(|r| !matches!(r.condition, "none" | "evenkeel"))
}
