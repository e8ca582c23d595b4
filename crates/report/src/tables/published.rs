//! What others found about the same line, beside what was found here.

use evenkeel_core::result::{Figure, Published, ResultFile, Run};
use evenkeel_core::stats::median;

use super::{Column, Grid, Group, Line, NOTHING, column, heading, is_ours, words_column};
use crate::rows::Row;
use crate::words;

/// A figure's head, and its value in our runs, in its unit.
fn figure(figure: Figure, row: &Row<'_>, none: Option<&Row<'_>>) -> Option<f64> {
    let of = |f: fn(&Run) -> f64| median(&row.runs.iter().map(|r| f(r)).collect::<Vec<_>>());
    let f = row.factor.as_ref();
    match figure {
        Figure::PingMin => of(|r| r.ping_ms.min),
        Figure::PingAvg => Some(row.ping.median),
        Figure::PingMedian => of(|r| r.ping_ms.median),
        Figure::PingMax => of(|r| r.ping_ms.max),
        Figure::PingStddev => of(|r| r.ping_ms.stddev),
        Figure::PingFactor => f.and(none).map(|n| n.ping.median / row.ping.median),
        Figure::IncreaseAvg => (row.load != "idle").then_some(row.increase.median),
        Figure::IncreaseMedian => of(|r| r.increase_ms.median),
        Figure::IncreaseP90 => of(|r| r.increase_ms.p90),
        Figure::IncreaseFactor => f.map(|f| f.factor),
        Figure::GoodputDown => Some(row.down_kbit / 1000.0).filter(|v| *v > 0.0),
        Figure::GoodputUp => Some(row.up_kbit / 1000.0).filter(|v| *v > 0.0),
        Figure::GivenUpDown => f.and_then(|f| f.down_kept).map(|k| (1.0 - k) * 100.0),
        Figure::GivenUpUp => f.and_then(|f| f.up_kept).map(|k| (1.0 - k) * 100.0),
        Figure::Settle => row.settle_s,
    }
}

/// The columns that figures can have, in their order.
const FIGURES: [(Figure, Column); 15] = [
    (Figure::PingMin, column("Least", "ms")),
    (Figure::PingAvg, column("Average", "ms")),
    (Figure::PingMedian, column("Median", "ms")),
    (Figure::PingMax, column("Worst", "ms")),
    (Figure::PingStddev, column("Std dev", "ms")),
    (Figure::PingFactor, column("Ping", "times less")),
    (Figure::IncreaseAvg, column("Increase", "ms")),
    (Figure::IncreaseMedian, column("Increase", "median, ms")),
    (Figure::IncreaseP90, column("Increase", "p90, ms")),
    (Figure::IncreaseFactor, column("Factor", "")),
    (Figure::GoodputDown, column("Download", "Mbit/s")),
    (Figure::GoodputUp, column("Upload", "Mbit/s")),
    (Figure::GivenUpDown, column("Given up", "down, %")),
    (Figure::GivenUpUp, column("Given up", "up, %")),
    (Figure::Settle, column("Settled", "s")),
];

/// What others found, above what was found here.
pub(super) fn published(file: &ResultFile, rows: &[Row<'_>]) -> Grid {
    let measured = |p: &&Published| rows.iter().any(|r| r.load == p.load);
    let all: Vec<&Published> = file.published.iter().filter(measured).collect();
    let shown: Vec<(Figure, Column)> = FIGURES
        .into_iter()
        .filter(|(f, _)| all.iter().any(|p| p.figure == *f))
        .collect();
    let mut groups = Vec::new();
    let mut loads: Vec<&str> = rows.iter().map(|r| r.load).collect();
    loads.dedup();
    for load in loads {
        let of_load: Vec<&Published> = all.iter().copied().filter(|p| p.load == load).collect();
        let row = |name: &str| rows.iter().find(|r| r.load == load && r.condition == name);
        let mut lines: Vec<Line> = Vec::new();
        let ours = |lines: &mut Vec<Line>, condition: &str| {
            let Some(found) = row(condition) else { return };
            let mut cells = vec![format!("here: {}", words::plain(condition))];
            cells.extend(shown.iter().map(|(f, _)| {
                let value = figure(*f, found, row("none"));
                value.map_or(NOTHING.to_owned(), words::digits)
            }));
            lines.push(Line {
                cells,
                ours: is_ours(condition),
            });
        };
        let mut done: Vec<(&str, &str)> = Vec::new();
        let none_first = |none| {
            of_load
                .iter()
                .filter(move |p| (p.condition == "none") == none)
        };
        for p in none_first(true).chain(none_first(false)) {
            let key = (p.condition.as_str(), p.shaper.as_str());
            if done.contains(&key) {
                continue;
            }
            done.push(key);
            let by = if p.shaper.is_empty() {
                "no shaper".to_owned()
            } else {
                words::plain(&p.shaper)
            };
            let mut cells = vec![format!("published: {by}")];
            cells.extend(shown.iter().map(|(f, _)| {
                let theirs = |o: &&&Published| {
                    o.figure == *f && (o.condition.as_str(), o.shaper.as_str()) == key
                };
                of_load
                    .iter()
                    .find(theirs)
                    .map_or(NOTHING.to_owned(), |p| given(p))
            }));
            lines.push(Line { cells, ours: false });
            ours(&mut lines, key.0);
        }
        // Beside other people's designs, our own.
        if !done.is_empty() && done.iter().all(|d| d.0 != "evenkeel") {
            ours(&mut lines, "evenkeel");
        }
        if !lines.is_empty() {
            groups.push(Group {
                name: Some(heading(load)),
                lines,
            });
        }
    }
    let mut sources: Vec<String> = all.iter().map(|p| words::plain(&p.source)).collect();
    let mut seen: Vec<String> = Vec::new();
    sources.retain(|s| {
        let new = !seen.contains(s);
        seen.push(s.clone());
        new
    });
    Grid {
        title: "As published, and here",
        head: std::iter::once(words_column("Scenario"))
            .chain(shown.iter().map(|s| s.1))
            .collect(),
        groups,
        notes: vec![format!("Published figures: {}.", sources.join("; "))],
    }
}

/// A published value as it was given.
fn given(p: &Published) -> String {
    let number = |v: f64| {
        if v.is_finite() && v.abs() < 1e7 {
            let text = format!("{v:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            NOTHING.to_owned()
        }
    };
    let range = match p.to {
        Some(to) => format!("{}–{}", number(p.value), number(to)),
        None => number(p.value),
    };
    format!("{} {range}", words::plain(&p.qualifier))
        .trim_start()
        .to_owned()
}
