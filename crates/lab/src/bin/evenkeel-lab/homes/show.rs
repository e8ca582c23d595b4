//! What all homes came to, for people: regrets as distributions, and the worst homes.
//!
//! Principles: homes whose rates change stand apart, since what was told once is no oracle there; a
//! limit is shown beside what is beyond it. Non-goals: judging (`judge`).

use std::fmt::Write as _;

use evenkeel_core::result::ResultFile;
use evenkeel_core::stats::Summary;
use evenkeel_terminal::table::{self, Table};
use serde::Serialize;

use super::draw::Home;
use super::judge::{Judged, Kind};

/// The condition whose worst homes are shown.
const OURS: &str = "evenkeel-auto";
/// So many of them.
const WORST: usize = 10;

/// A home and what it came to.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub seed: u64,
    pub about: String,
    pub changes: bool,
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
pub(super) fn summary(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for (changes, name) in [
        (false, "rates stay"),
        (true, "rates change (told what is sold)"),
    ] {
        let homes: Vec<&Outcome> = outcomes.iter().filter(|o| o.changes == changes).collect();
        if !homes.is_empty() {
            group(&mut text, name, &homes);
        }
    }
    let void = outcomes.iter().filter(|o| o.judged.is_empty()).count();
    if void > 0 {
        let _ = writeln!(text, "Void, and in no figure: {void} homes.");
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

fn group(text: &mut String, name: &str, homes: &[&Outcome]) {
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
        "{} homes whose {name}: regret beside evenkeel that was told\n{shown}",
        homes.len()
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
