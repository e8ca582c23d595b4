//! What single flows met: who got what, calls, pages.

use std::collections::BTreeMap;

use evenkeel_core::result::{Call, Pages, Run};
use evenkeel_core::stats::median;

use super::grid::{Grid, Group, Line, NOTHING, column, grouped, words_column};
use crate::rows::{Row, is_ours};
use crate::words::{self, heading};

/// The flows of one direction (the first part of their names), together.
fn by_direction<T>(flows: &BTreeMap<String, T>) -> BTreeMap<&str, Vec<&T>> {
    let mut found: BTreeMap<&str, Vec<&T>> = BTreeMap::new();
    for (name, flow) in flows {
        let direction = name.split('/').next().unwrap_or_default();
        found.entry(direction).or_default().push(flow);
    }
    found
}

/// The median over the runs of a figure that some may lack.
fn over_runs(values: impl Iterator<Item = Option<f64>>, show: fn(f64) -> String) -> String {
    let values: Vec<f64> = values.flatten().collect();
    median(&values).map_or(NOTHING.to_owned(), show)
}

/// `v` weighted by `n`.
fn mean(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), (v, w)| (sum + v * w, n + w));
    (n > 0.0).then(|| sum / n)
}

/// The largest, if there is any.
fn worst(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

/// One line per load, direction and condition that has flows of a kind.
fn flow_lines<'a, T>(
    rows: &'a [Row<'a>],
    flows: fn(&Run) -> &BTreeMap<String, T>,
    cells: impl Fn(&[Vec<&T>]) -> Vec<String>,
) -> Vec<Group> {
    let mut lines = Vec::new();
    for row in rows {
        let mut directions: BTreeMap<&str, Vec<Vec<&T>>> = BTreeMap::new();
        for run in &row.runs {
            for (direction, found) in by_direction(flows(run)) {
                directions.entry(direction).or_default().push(found);
            }
        }
        for (direction, runs) in directions {
            let mut line = vec![words::plain(row.condition)];
            line.extend(cells(&runs));
            let way = match direction {
                "down" => "to the customer",
                "up" => "from the customer",
                other => other,
            };
            let group = format!("{}, {}", heading(row.load), words::plain(way));
            let ours = is_ours(row.condition);
            lines.push((group, Line { cells: line, ours }));
        }
    }
    // A direction's conditions stand together.
    grouped(lines.into_iter())
}

/// Jain's index of fairness (1984): 1 if all are equal, 1/n if one has everything.
fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    (squares > 0.0).then(|| sum * sum / squares / values.len() as f64)
}

/// The long flows of a run by direction, and within it by who talks to whom.
fn parties(run: &Run) -> BTreeMap<&str, BTreeMap<&str, Vec<f64>>> {
    let mut found: BTreeMap<&str, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for (name, kbit) in &run.flows_kbit {
        // Direction, client and server, number; other kinds of flows have letters there.
        if let Some((direction, rest)) = name.split_once('/')
            && let Some((party, number)) = rest.rsplit_once('/')
            && number.bytes().all(|b| b.is_ascii_digit())
        {
            let of = found.entry(direction).or_default();
            of.entry(party).or_default().push(*kbit);
        }
    }
    found
}

/// Who got what, where there is something to share: several hosts or servers in one direction.
pub(super) fn shares(rows: &[Row<'_>]) -> Grid {
    let mut lines = Vec::new();
    for row in rows {
        let runs: Vec<_> = row.runs.iter().map(|r| parties(r)).collect();
        let Some(first) = runs.first() else { continue };
        for (direction, all) in first.iter().filter(|d| d.1.len() > 1) {
            for (party, flows) in all {
                let of = |figure: &dyn Fn(&[f64], f64) -> Option<f64>| {
                    let values = runs.iter().map(|run| {
                        let all = run.get(direction)?;
                        figure(all.get(party)?, all.values().flatten().sum())
                    });
                    values.collect::<Vec<_>>()
                };
                let sum = |of: &[f64]| of.iter().sum::<f64>();
                let cells = vec![
                    words::plain(row.condition),
                    words::plain(&party.replace('/', ", ")),
                    flows.len().to_string(),
                    over_runs(of(&|f, _| Some(sum(f))).into_iter(), words::mbit),
                    over_runs(
                        of(&|f, total| (total > 0.0).then(|| sum(f) / total)).into_iter(),
                        words::tenths,
                    ),
                    if flows.len() > 1 {
                        over_runs(of(&|f, _| jain(f)).into_iter(), |v| format!("{v:.3}"))
                    } else {
                        NOTHING.to_owned()
                    },
                ];
                let way = match *direction {
                    "down" => "to the customer",
                    "up" => "from the customer",
                    other => other,
                };
                let group = format!("{}, {}", heading(row.load), words::plain(way));
                let ours = is_ours(row.condition);
                lines.push((group, Line { cells, ours }));
            }
        }
    }
    Grid {
        title: "Who got what",
        head: vec![
            words_column("Condition"),
            words_column("Between"),
            column("Flows", ""),
            column("Goodput", "Mbit/s"),
            column("Share", "%"),
            column("Jain", ""),
        ],
        groups: grouped(lines.into_iter()),
        notes: vec![
            "Shares are of the direction's goodput; Jain's index is among the flows of one line: 1 \
             if all are equal."
                .to_owned(),
        ],
    }
}

/// What calls met.
pub(super) fn calls(rows: &[Row<'_>]) -> Grid {
    let cells = |runs: &[Vec<&Call>]| {
        let sent = |calls: &[&Call]| calls.iter().map(|c| c.sent as f64).sum::<f64>();
        let delays = |calls: &[&Call], f: fn(&evenkeel_core::Summary) -> f64| {
            let of = calls.iter().filter_map(|c| c.delay_ms.as_ref());
            of.map(|d| (f(d), d.n as f64)).collect::<Vec<_>>()
        };
        vec![
            over_runs(
                runs.iter().map(|c| mean(delays(c, |d| d.avg).into_iter())),
                words::digits,
            ),
            over_runs(
                runs.iter()
                    .map(|c| worst(delays(c, |d| d.p99).into_iter().map(|d| d.0))),
                words::digits,
            ),
            over_runs(
                runs.iter()
                    .map(|c| mean(c.iter().map(|c| (c.jitter_ms, c.sent as f64)))),
                words::digits,
            ),
            over_runs(
                runs.iter().map(|c| {
                    let lost: f64 = c.iter().map(|c| c.lost as f64).sum();
                    let sent = sent(c);
                    (sent > 0.0).then(|| lost / sent)
                }),
                words::tenths,
            ),
        ]
    };
    Grid {
        title: "Calls",
        head: vec![
            words_column("Condition"),
            column("Delay", "ms"),
            column("99 % below", "ms"),
            column("Jitter", "ms"),
            column("Lost", "%"),
        ],
        groups: flow_lines(rows, |r| &r.calls, cells),
        notes: vec![
            "One way, from sender to receiver; of several calls the worst 99 %.".to_owned(),
        ],
    }
}

/// How long short connections took.
pub(super) fn pages(rows: &[Row<'_>]) -> Grid {
    let cells = |runs: &[Vec<&Pages>]| {
        let times = |pages: &[&Pages], f: fn(&evenkeel_core::Summary) -> f64| {
            let of = pages.iter().filter_map(|p| p.time_ms.as_ref());
            of.map(|t| (f(t), t.n as f64)).collect::<Vec<_>>()
        };
        let sum = |f: fn(&Pages) -> u64| {
            let all = runs
                .iter()
                .map(|p| Some(p.iter().map(|p| f(p) as f64).sum()));
            over_runs(all, |v| format!("{v:.0}"))
        };
        let slowest = |f: fn(&evenkeel_core::Summary) -> f64| {
            let of = runs
                .iter()
                .map(|p| worst(times(p, f).into_iter().map(|t| t.0)));
            over_runs(of, words::digits)
        };
        vec![
            format!("{} of {}", sum(|p| p.finished), sum(|p| p.begun)),
            over_runs(
                runs.iter()
                    .map(|p| mean(times(p, |t| t.median).into_iter())),
                words::digits,
            ),
            slowest(|t| t.p95),
            slowest(|t| t.p99),
        ]
    };
    Grid {
        title: "Pages",
        head: vec![
            words_column("Condition"),
            column("Finished", ""),
            column("Median", "ms"),
            column("95 % below", "ms"),
            column("99 % below", "ms"),
        ],
        groups: flow_lines(rows, |r| &r.pages, cells),
        notes: vec!["Short connections, from connect to the last byte.".to_owned()],
    }
}
