//! Which condition was right for the line, and why: computed, so that it is true of any file.
//!
//! Right is, among the conditions that fit into the line with full packets and under every load
//! come near the best one of that load, the one that gives up least of the goodput. Near is at
//! first nine tenths of the delay that the best one takes away; where each load has another best
//! one, nobody may come that near everywhere, and the bound is lowered and named. Principle: where nothing qualifies or nothing is known, it says so.
//! Non-goals: taste.

use evenkeel_core::result::ResultFile;

use crate::line_share::{SIZES, line};
use crate::rows::{Row, is_ours};
use crate::words;

/// How far from the best is still near, in per cent of the delay that the best one takes away:
/// the first bound that somebody keeps.
const NEAR: [u32; 4] = [10, 20, 30, 50];
/// Rates are whole kbit/s: so much above 1 still fits.
const FITS: f64 = 1.001;
/// Less than this, in ms, is nothing to be won.
const LEAST_MS: f64 = 1.0;

/// A condition that could be right.
struct Candidate<'a> {
    name: &'a str,
    /// Shares of the line with full packets, (down, up).
    full: Option<(f64, f64)>,
    /// Of the delay that the best one takes away, under the load where it is least.
    share: f64,
    /// Goodput missing, on average over loads and directions.
    given_up: f64,
}

impl Candidate<'_> {
    fn fits(&self) -> bool {
        self.full.is_some_and(|(d, u)| d <= FITS && u <= FITS)
    }

    /// What full packets take; `of` stands behind the first figure.
    fn fill(&self, of: &str) -> String {
        self.full.map_or(String::new(), |(down, up)| {
            format!(
                "{} %{of} down and {} % up",
                words::tenths(down),
                words::tenths(up)
            )
        })
    }
}

/// The verdict: none for fewer than two conditions beside `none`.
pub(crate) fn sentences(file: &ResultFile, rows: &[Row<'_>]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows
        .iter()
        .filter(|r| r.condition != "none" && r.factor.is_some())
    {
        if !names.contains(&row.condition) {
            names.push(row.condition);
        }
    }
    if names.len() < 2 {
        return Vec::new();
    }
    let won = |load: &str, condition: &str| {
        let row = rows
            .iter()
            .find(|r| r.load == load && r.condition == condition)?;
        let f = row.factor.as_ref()?;
        Some(f.increase_none_ms - f.increase_ms).filter(|v| v.is_finite())
    };
    // The loads under which there was something to be won, and the most that was.
    let mut loads: Vec<(&str, f64)> = Vec::new();
    for row in rows {
        if loads.iter().all(|l| l.0 != row.load) {
            let best = names
                .iter()
                .filter_map(|n| won(row.load, n))
                .reduce(f64::max);
            loads.extend(best.filter(|b| *b >= LEAST_MS).map(|b| (row.load, b)));
        }
    }
    if loads.is_empty() {
        return vec![format!(
            "No condition took away as much as {LEAST_MS} ms of delay: there was nothing to be won."
        )];
    }
    let all: Vec<Candidate<'_>> = names
        .iter()
        .filter_map(|name| candidate(file, rows, name, &loads, &won))
        .collect();
    let mut said = vec![verdict(file, &all)];
    said.extend(overfull(&all).filter(|_| !file.line.varies));
    said.extend(unlimited(file, &names));
    said
}

fn candidate<'a>(
    file: &ResultFile,
    rows: &[Row<'a>],
    name: &'a str,
    loads: &[(&str, f64)],
    won: &dyn Fn(&str, &str) -> Option<f64>,
) -> Option<Candidate<'a>> {
    let shares: Option<Vec<f64>> = loads
        .iter()
        .map(|(load, best)| Some(won(load, name)? / best))
        .collect();
    let mut lost: Vec<f64> = Vec::new();
    for row in rows.iter().filter(|r| r.condition == name) {
        let kept = row.factor.iter().flat_map(|f| [f.down_kept, f.up_kept]);
        lost.extend(kept.flatten().map(|k| (1.0 - k).max(0.0)));
    }
    let (down, up) = line(file);
    let facts = file.conditions.iter().find(|f| f.name == name);
    let full = facts.and_then(|f| Some((f.down?, f.up?)));
    Some(Candidate {
        name,
        full: full.map(|(d, u)| (d.fill(down, SIZES[0]), u.fill(up, SIZES[0]))),
        share: shares?.into_iter().fold(f64::INFINITY, f64::min),
        given_up: lost.iter().sum::<f64>() / lost.len().max(1) as f64,
    })
}

/// The one that gives up least, of those that pass.
fn best<'a, 'b>(of: &[&'b Candidate<'a>]) -> Option<&'b Candidate<'a>> {
    // Per mille: less is no difference, and then the lower delay counts.
    let key = |c: &Candidate<'_>| (c.given_up * 1000.0).round();
    of.iter()
        .copied()
        .min_by(|a, b| key(a).total_cmp(&key(b)).then(b.share.total_cmp(&a.share)))
}

fn verdict(file: &ResultFile, all: &[Candidate<'_>]) -> String {
    let varies = file.line.varies;
    let near = |within: u32| {
        let least = 1.0 - f64::from(within) / 100.0;
        all.iter().filter(move |c| c.share >= least)
    };
    let right_within =
        |within| -> Vec<&Candidate<'_>> { near(within).filter(|c| varies || c.fits()).collect() };
    let bounds = NEAR.map(|within| (within, right_within(within)));
    let found = bounds.into_iter().find(|b| !b.1.is_empty());
    let Some((within, right)) = found else {
        return nothing(all, &near(NEAR[0]).collect::<Vec<_>>());
    };
    let Some(first) = best(&right) else {
        return nothing(all, &[]);
    };
    let name = words::plain(first.name);
    let mut text = if varies {
        format!(
            "The line changes by itself, so no fixed limit is right for it; for what it did here \
             it was {name}."
        )
    } else {
        format!(
            "Right for this line was {name}: with full packets it takes {}, so that no standing \
             queue is left to the modem or the provider.",
            first.fill(" of the line")
        )
    };
    text += &if first.share >= 1.0 {
        " Under no load does another take away more delay.".to_owned()
    } else {
        format!(
            " Under every load it takes away {} or more of the delay that the best one takes away.",
            at_least(first.share)
        )
    };
    let cost = |c: &Candidate<'_>| format!("{} %", words::tenths(c.given_up));
    let given_up = cost(first);
    let average = "on average over the loads";
    text += &match (right.len(), varies) {
        (1, false) => format!(
            " No other fits and comes within {within} % of the best. It gives up {given_up} of the \
             goodput {average}."
        ),
        (1, true) => format!(
            " No other comes within {within} % of the best. It gives up {given_up} of the goodput \
             {average}."
        ),
        (n, _) => {
            let fit = if varies { "" } else { " fit and" };
            format!(
                " Of the {n} that{fit} come within {within} % of the best, it gives up least of \
                 the goodput: {given_up} {average}."
            )
        }
    };
    if is_ours(first.name) {
        let others = right.iter().copied().filter(|c| !is_ours(c.name));
        if let Some(other) = best(&others.collect::<Vec<_>>()) {
            let (other, cost) = (words::plain(other.name), cost(other));
            text += &format!(" Of other people's it is {other}, which gives up {cost}.");
        }
    } else if let Some(ours) = all.iter().find(|c| c.name == "evenkeel") {
        let cost = cost(ours);
        text += &if ours.share >= 1.0 {
            format!(" evenkeel takes away no less than any other and gives up {cost}.")
        } else {
            let share = at_least(ours.share.max(0.0));
            format!(" evenkeel takes away {share} or more and gives up {cost}.")
        };
    }
    text
}

/// A share as a whole percentage that it reaches.
fn at_least(share: f64) -> String {
    format!("{:.0} %", (share * 100.0).floor())
}

/// Why there is no right one.
fn nothing(all: &[Candidate<'_>], near: &[&Candidate<'_>]) -> String {
    let list = |of: Vec<&str>| words::plain(&of.join(", "));
    if all.iter().all(|c| c.full.is_none()) {
        return "Which one was right for this line cannot be said: what they limit is not recorded."
            .to_owned();
    }
    let fitting: Vec<&str> = all.iter().filter(|c| c.fits()).map(|c| c.name).collect();
    let near: Vec<&str> = near.iter().map(|c| c.name).collect();
    let mut why = Vec::new();
    why.push(if near.is_empty() {
        "none comes within 10 % of the best under every load".to_owned()
    } else {
        format!(
            "what comes within 10 % of the best ({}) does not keep within the line's rates",
            list(near)
        )
    });
    if fitting.is_empty() {
        why.push("none fits into the line with full packets".to_owned());
    } else {
        why.push(format!("what fits into the line: {}", list(fitting)));
    }
    format!("None was right for this line: {}.", why.join("; "))
}

/// Those that send more than the line carries.
fn overfull(all: &[Candidate<'_>]) -> Option<String> {
    let too_much: Vec<String> = all
        .iter()
        .filter(|c| c.full.is_some() && !c.fits())
        .map(|c| format!("{} ({})", words::plain(c.name), c.fill("")))
        .collect();
    (!too_much.is_empty()).then(|| {
        format!(
            "More than the line carries with full packets: {}. What is too much queues in the \
             modem or at the provider, where none of them can order it.",
            too_much.join(", ")
        )
    })
}

/// Those that limit nothing.
fn unlimited(file: &ResultFile, names: &[&str]) -> Option<String> {
    let none: Vec<String> = file
        .conditions
        .iter()
        .filter(|f| f.down.is_none() && f.up.is_none() && !is_ours(&f.name))
        .filter(|f| names.contains(&f.name.as_str()))
        .map(|f| words::plain(&f.name))
        .collect();
    (!none.is_empty()).then(|| {
        format!(
            "Without a limit, so that the queue stays in the modem: {}.",
            none.join(", ")
        )
    })
}
