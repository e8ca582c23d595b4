//! `lab ablation`: what each rule of the controller of `run` is good for.
//!
//! Principles: the same homes and the same lines as fluids are run with all rules and without each; what is shown is what
//! that changes, averaged over all of them, and in how many homes it shows at all; a rule that shows nowhere is to be
//! deleted. Non-goals: how right the controller is (`homes`, `lines`).

use std::path::Path;

use clap::Args;
use evenkeel_core::Rate;
use evenkeel_core::control::Rule;
use evenkeel_lab::conditions::without;
use evenkeel_lab::{Experiment, LabError};
use evenkeel_terminal::table::{self, Table};
use evenkeel_terminal::{Failure, cancelled_by_signals, print};
use serde::Serialize;

use crate::homes::{Judged, Kind, ORACLE, draw, judge, measure};
use crate::lines::{Changed, Drawn, all_changes};

/// The condition that has all rules.
const WITH_ALL: &str = "evenkeel-auto";
/// A rule shows in a home where the average increase changes by more than this factor and this many ms.
const SHOWS: (f64, f64) = (1.25, 0.5);
/// Or where goodput does by more than this share.
const SHOWS_GOODPUT: f64 = 0.05;

/// Arguments of `lab ablation`.
#[derive(Debug, Args)]
pub(crate) struct Ablation {
    /// How many homes; each is run with all rules and without each for 40 s
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    count: u64,
    /// How many lines as fluids, of each kind of change
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    lines: u64,
    /// Seed of the first home and the first line
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave out homes whose line is faster than this towards them: they take minutes each
    #[arg(long, value_name = "RATE")]
    at_most: Option<Rate>,
    /// Measure again what was measured before with the same code, kernel and seed
    #[arg(long)]
    fresh: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What homes came to.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct OfHomes {
    homes: u32,
    /// Mean of ln(1 + average increase in ms).
    log_increase: f64,
    /// Goodput of the oracle's that is missing, where that is more, as a share, on average.
    missing: f64,
    /// Homes in which the rule shows for the better, and for the worse.
    helps: u32,
    harms: u32,
}

/// What lines as fluids came to, averaged over all kinds of changes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct OfLines {
    used: f64,
    queue_ms: f64,
    starved: f64,
    queued: f64,
}

impl OfLines {
    fn of(rows: &[Changed]) -> Self {
        let n = rows.len().max(1) as f64;
        let mean = |f: fn(&Changed) -> f64| rows.iter().map(f).sum::<f64>() / n;
        OfLines {
            used: mean(|r| r.used),
            queue_ms: mean(|r| r.queue_ms),
            starved: mean(|r| r.starved),
            queued: mean(|r| r.queued),
        }
    }
}

/// What is done without, and what came of it.
#[derive(Debug, Serialize)]
struct Row {
    without: Option<&'static str>,
    homes: OfHomes,
    lines: OfLines,
}

/// Goodput that is missing in the direction where that is more; more than the oracle's is none.
fn missing(judged: &Judged) -> f64 {
    let most = judged.value(Kind::Down).max(judged.value(Kind::Up));
    most.clamp(0.0, 1.0)
}

/// Whether a home is better, or worse, with a rule than without it.
fn shows(with: &Judged, without: &Judged) -> (bool, bool) {
    let increase = |j: &Judged| j.increase_ms.first().copied().unwrap_or(0.0).max(0.0);
    let is_less = |a: &Judged, b: &Judged| {
        increase(b) > SHOWS.0 * increase(a) && increase(b) > increase(a) + SHOWS.1
            || missing(b) > missing(a) + SHOWS_GOODPUT
    };
    (is_less(with, without), is_less(without, with))
}

/// What is seen in each home of `judged` without a rule, or with all of them.
fn of_homes(judged: &[Vec<Judged>], rule: Option<Rule>) -> OfHomes {
    let name = rule.map_or_else(|| WITH_ALL.to_owned(), without);
    let mut sum = OfHomes::default();
    for home in judged {
        let of = |name: &str| home.iter().find(|j| j.condition == name);
        let (Some(with), Some(own)) = (of(WITH_ALL), of(&name)) else {
            continue;
        };
        let [increase, _] = own.increase_ms;
        let (helps, harms) = shows(with, own);
        sum.homes += 1;
        sum.log_increase += increase.max(0.0).ln_1p();
        sum.missing += missing(own);
        sum.helps += u32::from(helps && !harms);
        sum.harms += u32::from(harms && !helps);
    }
    let n = f64::from(sum.homes.max(1));
    sum.log_increase /= n;
    sum.missing /= n;
    sum
}

/// All homes under all conditions.
fn homes(args: &Ablation) -> Result<Vec<Vec<Judged>>, Failure> {
    let cancel = cancelled_by_signals()?;
    let mut conditions = vec![ORACLE.to_owned(), WITH_ALL.to_owned()];
    conditions.extend(Rule::ALL.map(without));
    let mut drawn = Vec::new();
    let mut seed = args.seed;
    while (drawn.len() as u64) < args.count {
        let home = draw(seed)?;
        let down = Experiment::parse(&home.text, Path::new("home.toml"))?
            .line_facts()
            .down;
        if args.at_most.is_none_or(|most| down <= most) {
            drawn.push(home);
        }
        seed = seed.saturating_add(1);
    }
    let mut judged = Vec::new();
    for (n, home) in drawn.iter().enumerate() {
        let done = (n + 1, args.count);
        match measure(home, &conditions, args.fresh, done, &cancel) {
            Ok(result) => judged.push(judge(home, result).judged),
            Err(LabError::Cancelled) => return Err(LabError::Cancelled.into()),
            // A flow that gets nothing at all says something of this home, and nothing of the next.
            Err(e) => eprintln!("home {}: {e}: {}", home.seed, home.about),
        }
    }
    Ok(judged)
}

/// `evenkeel lab ablation`.
pub(crate) fn ablation(args: &Ablation) -> Result<(), Failure> {
    let judged = homes(args)?;
    let rules = std::iter::once(None).chain(Rule::ALL.map(Some));
    let rows: Vec<Row> = rules
        .map(|rule| Row {
            without: rule.map(Rule::name),
            homes: of_homes(&judged, rule),
            lines: OfLines::of(&all_changes(Drawn {
                seed: args.seed,
                count: args.lines,
                without: rule,
            })),
        })
        .collect();
    if args.json {
        return print(&(serde_json::to_string_pretty(&rows).map_err(Failure::work)? + "\n"));
    }
    print(&show(&rows, args))
}

/// For people.
fn show(rows: &[Row], args: &Ablation) -> String {
    let heads = [
        "increase",
        "missing",
        "helps",
        "harms",
        "used",
        "mean queue",
        "starved",
        "queued",
    ];
    let mut columns = vec![table::words("without")];
    columns.extend(heads.map(table::figures));
    let mut shown = Table::new(&columns);
    for row in rows {
        let (h, l) = (row.homes, row.lines);
        let is_all = row.without.is_none();
        let homes = |n: u32| if is_all { String::new() } else { n.to_string() };
        shown.row([
            row.without.unwrap_or("nothing").to_owned(),
            format!("{:.2} ms", h.log_increase.exp_m1()),
            format!("{:.1} %", 100.0 * h.missing),
            homes(h.helps),
            homes(h.harms),
            format!("{:.2} %", 100.0 * l.used),
            format!("{:.1} ms", l.queue_ms),
            format!("{:.1} %", 100.0 * l.starved),
            format!("{:.1} %", 100.0 * l.queued),
        ]);
    }
    let homes = rows.first().map_or(0, |r| r.homes.homes);
    format!(
        "{homes} homes: the geometric mean of increases, goodput of the oracle's that is missing, in how many the rule \
         helps and harms.\n{} lines as fluids of each kind of change: what is used, the mean queue, and the share that \
         starved and that queued.\n{shown}",
        args.lines
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::homes::Regret;

    fn judged(condition: &str, increase: f64, up: f64) -> Judged {
        Judged {
            condition: condition.to_owned(),
            increase_ms: [increase, 1.0],
            regrets: vec![Regret {
                kind: Kind::Up,
                value: up,
                limit: 0.15,
            }],
        }
    }

    #[test]
    fn a_rule_shows_where_a_home_is_worse_without_it() {
        let name = without(Rule::Caution);
        let home = |with: (f64, f64), own: (f64, f64)| {
            vec![
                judged(WITH_ALL, with.0, with.1),
                judged(&name, own.0, own.1),
            ]
        };
        let homes = [
            home((2.0, 0.0), (4.0, 0.0)),
            home((2.0, 0.2), (2.0, 0.0)),
            home((0.2, 0.0), (0.4, 0.0)),
            // Less delay for less goodput is neither.
            home((2.0, 0.3), (4.0, 0.0)),
        ];
        let found = of_homes(&homes, Some(Rule::Caution));
        assert_eq!((found.homes, found.helps, found.harms), (4, 1, 1));
        let with_all = of_homes(&homes, None);
        assert_eq!((with_all.helps, with_all.harms), (0, 0));
        assert!((with_all.missing - 0.125).abs() < 1e-9);
    }
}
