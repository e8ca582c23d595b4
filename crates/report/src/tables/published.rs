//! What others found about the same line, beside what was found here.

use evenkeel_core::result::{Figure, Published, ResultFile, Run};
use evenkeel_core::stats::median;

use super::grid::{Column, Grid, Group, Line, NOTHING, column, words_column};
use crate::rows::{Row, is_ours};
use crate::words::{self, heading};

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
    let table = Table::of(file, rows);
    let mut loads: Vec<&str> = rows.iter().map(|r| r.load).collect();
    loads.dedup();
    let groups = loads.into_iter().map(|load| Group {
        name: Some(heading(load)),
        lines: table.lines(load),
    });
    Grid {
        title: "As published, and here",
        head: std::iter::once(words_column("Scenario"))
            .chain(table.shown.iter().map(|s| s.1))
            .collect(),
        groups: groups.filter(|g| !g.lines.is_empty()).collect(),
        notes: vec![format!("Published figures: {}.", table.sources())],
    }
}

/// Whose a published figure is: its condition and the shaper that was used.
fn whose(p: &Published) -> (&str, &str) {
    (&p.condition, &p.shaper)
}

/// What goes into the table.
struct Table<'a> {
    rows: &'a [Row<'a>],
    /// Published figures of loads that were measured here.
    published: Vec<&'a Published>,
    /// The columns that have one.
    shown: Vec<(Figure, Column)>,
}

impl<'a> Table<'a> {
    fn of(file: &'a ResultFile, rows: &'a [Row<'a>]) -> Self {
        let measured = |p: &&Published| rows.iter().any(|r| r.load == p.load);
        let published: Vec<&Published> = file.published.iter().filter(measured).collect();
        let shown = FIGURES
            .into_iter()
            .filter(|(f, _)| published.iter().any(|p| p.figure == *f))
            .collect();
        Table {
            rows,
            published,
            shown,
        }
    }

    /// The lines of a load: each of others with ours below it, those without a shaper first.
    fn lines(&self, load: &str) -> Vec<Line> {
        let all = self.published.iter().copied();
        let (none, shaped): (Vec<&Published>, Vec<_>) = all
            .filter(|p| p.load == load)
            .partition(|p| p.condition == "none");
        let of_load = [none, shaped].concat();
        let mut lines = Vec::new();
        let mut done: Vec<(&str, &str)> = Vec::new();
        for p in &of_load {
            if !done.contains(&whose(p)) {
                done.push(whose(p));
                lines.push(self.theirs(p, &of_load));
                lines.extend(self.ours(load, &p.condition));
            }
        }
        // Beside other people's designs, our own.
        if !done.is_empty() && done.iter().all(|d| d.0 != "evenkeel") {
            lines.extend(self.ours(load, "evenkeel"));
        }
        lines
    }

    /// All that was published for the condition and the shaper of `one`.
    fn theirs(&self, one: &Published, of_load: &[&Published]) -> Line {
        let by = if one.shaper.is_empty() {
            "no shaper".to_owned()
        } else {
            words::plain(&one.shaper)
        };
        let mut cells = vec![format!("published: {by}")];
        cells.extend(self.shown.iter().map(|(f, _)| {
            let found = of_load
                .iter()
                .find(|o| o.figure == *f && whose(o) == whose(one));
            found.map_or(NOTHING.to_owned(), |p| given(p))
        }));
        Line { cells, ours: false }
    }

    /// What was found here under a condition; nothing if it was not measured.
    fn ours(&self, load: &str, condition: &str) -> Option<Line> {
        let row = |name: &str| {
            let of = |r: &&Row<'_>| r.load == load && r.condition == name;
            self.rows.iter().find(of)
        };
        let found = row(condition)?;
        let mut cells = vec![format!("here: {}", words::plain(condition))];
        cells.extend(self.shown.iter().map(|(f, _)| {
            let value = figure(*f, found, row("none"));
            value.map_or(NOTHING.to_owned(), words::digits)
        }));
        Some(Line {
            cells,
            ours: is_ours(condition),
        })
    }

    /// Where the figures were published, each once.
    fn sources(&self) -> String {
        let mut sources: Vec<String> = Vec::new();
        for p in &self.published {
            let source = words::plain(&p.source);
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources.join("; ")
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
