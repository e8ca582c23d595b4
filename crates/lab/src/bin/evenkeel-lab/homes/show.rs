//! What all homes came to, for people: regrets as distributions, and the worst homes.
//!
//! Principles: a limit is shown beside what is beyond it; so is what the homes have in common in which
//! it is. Non-goals: judging (`judge`), in how many homes a limit must hold (`limits`).

use std::fmt::Write as _;

use evenkeel_core::result::ResultFile;
use evenkeel_core::stats::Summary;
use evenkeel_terminal::table::{self, Table};
use serde::Serialize;

use super::draw::Home;
use super::judge::{Judged, Kind};
use super::limits;

/// The condition whose worst homes are shown.
const OURS: &str = "evenkeel-auto";
/// So many of them.
const WORST: usize = 10;

/// A home and what it came to.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub seed: u64,
    pub about: String,
    pub kinds: Vec<&'static str>,
    pub judged: Vec<Judged>,
    #[serde(skip)]
    pub home: Home,
    #[serde(skip)]
    pub result: ResultFile,
}

impl Outcome {
    fn of(&self, condition: &str) -> Option<&Judged> {
        self.judged.iter().find(|j| j.condition == condition)
    }

    /// How many limits the worst regret is, of ours.
    fn badness(&self) -> f64 {
        let worst = self.of(OURS).and_then(Judged::worst);
        worst.map_or(0.0, super::judge::Regret::times)
    }
}

/// The homes where ours is worst, that first.
pub(super) fn worst(outcomes: &[Outcome]) -> Vec<&Outcome> {
    let mut all: Vec<&Outcome> = outcomes.iter().filter(|o| o.badness() > 1.0).collect();
    all.sort_by(|a, b| b.badness().total_cmp(&a.badness()));
    all.truncate(WORST);
    all
}

/// All of it.
pub(super) fn summary(outcomes: &[Outcome], failed: usize) -> String {
    let mut text = String::new();
    let homes: Vec<&Outcome> = outcomes.iter().filter(|o| !o.judged.is_empty()).collect();
    if !homes.is_empty() {
        regrets(&mut text, &homes);
        kept(&mut text, &homes);
        by_kind(&mut text, &homes);
    }
    let void = outcomes.iter().filter(|o| o.judged.is_empty()).count();
    if void > 0 {
        let _ = writeln!(text, "Void, and in no figure: {void} homes.");
    }
    if failed > 0 {
        let _ = writeln!(
            text,
            "Not measured to the end, and in no figure: {failed} homes."
        );
    }
    let worst = worst(outcomes);
    if worst.is_empty() {
        let _ = writeln!(text, "{OURS} is within every limit in every home.");
        return text;
    }
    let _ = writeln!(
        text,
        "Worst homes of {OURS} (evenkeel lab homes --count 1 --seed N):"
    );
    for outcome in worst {
        let _ = writeln!(text, "{:>6}  {}", outcome.seed, outcome.about);
        let judged = outcome.of(OURS).into_iter().flat_map(|j| &j.regrets);
        let noticed: Vec<String> = judged
            .filter(|r| r.times() > 1.0)
            .map(|r| {
                let (value, limit) = (r.value * r.kind.scale(), r.limit * r.kind.scale());
                format!("{} {value:.1} (limit {limit:.1})", r.kind.name())
            })
            .collect();
        let _ = writeln!(text, "        {}", noticed.join("; "));
    }
    text
}

/// Regrets as distributions.
fn regrets(text: &mut String, homes: &[&Outcome]) {
    let heads = ["median", "p90", "p99", "worst", "beyond limit"];
    let words = ["", "condition"].map(table::words);
    let mut shown = Table::new(&[&words[..], &heads.map(table::figures)].concat());
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        let mut label = kind.name();
        for condition in conditions(homes) {
            let regrets: Vec<_> = homes
                .iter()
                .filter_map(|o| o.of(condition)?.regrets.get(n))
                .collect();
            let values: Vec<f64> = regrets.iter().map(|r| r.value * kind.scale()).collect();
            let Some(s) = Summary::of(&values) else {
                continue;
            };
            let beyond = regrets.iter().filter(|r| r.times() > 1.0).count();
            let share = 100.0 * beyond as f64 / regrets.len().max(1) as f64;
            let figures = [s.median, s.p90, s.p99, s.max].map(|v| format!("{v:.1}"));
            let mut cells = vec![label.to_owned(), condition.to_owned()];
            cells.extend(figures);
            cells.push(format!("{share:.0} %"));
            shown.row(cells);
            label = "";
        }
    }
    let _ = writeln!(
        text,
        "{} homes: regret beside evenkeel that is told the line at each moment\n{shown}",
        homes.len()
    );
}

/// In how many homes each limit holds.
fn kept(text: &mut String, homes: &[&Outcome]) {
    let names = conditions(homes);
    let mut heads = vec![table::words("limit"), table::figures("must")];
    heads.extend(names.iter().map(|name| table::figures(*name)));
    let mut shown = Table::new(&heads);
    for limit in &limits::ALL {
        let mut cells = vec![
            limit.name.to_owned(),
            format!("{:.0} %", limit.must * 100.0),
        ];
        for name in &names {
            let judged = homes.iter().filter_map(|o| o.of(name));
            let share = limits::share(limit, judged);
            cells.push(format!("{:.1} %", share * 100.0));
        }
        shown.row(cells);
    }
    let _ = writeln!(text, "In how many homes a limit holds\n{shown}");
}

/// What homes have in common that are beyond a limit, of ours.
fn by_kind(text: &mut String, homes: &[&Outcome]) {
    let mut kinds: Vec<&str> = homes.iter().flat_map(|o| o.kinds.iter().copied()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let heads = ["homes", "beyond a limit"].map(table::figures);
    let mut shown = Table::new(&[&[table::words("homes with")][..], &heads].concat());
    let mut row = |name: &str, of: Vec<&&Outcome>| {
        let beyond = of.iter().filter(|o| o.badness() > 1.0).count();
        if !of.is_empty() {
            shown.row([name.to_owned(), of.len().to_string(), beyond.to_string()]);
        }
    };
    for kind in kinds {
        row(
            kind,
            homes.iter().filter(|o| o.kinds.contains(&kind)).collect(),
        );
    }
    row(
        "nothing of that",
        homes.iter().filter(|o| o.kinds.is_empty()).collect(),
    );
    let _ = writeln!(
        text,
        "Kinds of homes, and in how many {OURS} is beyond a limit\n{shown}"
    );
}

/// Those that were run, in their order.
fn conditions<'a>(homes: &[&'a Outcome]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for judged in homes.iter().flat_map(|o| &o.judged) {
        if !found.contains(&judged.condition.as_str()) {
            found.push(&judged.condition);
        }
    }
    found
}
