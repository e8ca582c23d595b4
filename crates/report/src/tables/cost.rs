//! What each condition was told, what it costs and what it brings.

use evenkeel_core::result::{Charge, ConditionFacts, ResultFile};

use super::grid::{Column, Grid, Group, Line, NOTHING, column, grouped, words_column};
use crate::line_share::SIZES;
use crate::rows::{Row, is_ours};
use crate::words::{self, heading};
use crate::{line_share, verdict};

/// What each condition was told, and how full that makes the line.
pub(super) fn told(file: &ResultFile, rows: &[Row<'_>]) -> Grid {
    let facts: Vec<&ConditionFacts> = file
        .conditions
        .iter()
        .filter(|f| f.name != "none" && rows.iter().any(|r| r.condition == f.name))
        .collect();
    let share = |limit: Option<Charge>, line: Charge, size| {
        let fill = limit.filter(|_| !file.line.varies)?.fill(line, size);
        fill.is_finite().then(|| words::tenths(fill))
    };
    let (down, up) = line_share::line(file);
    let lines: Vec<Line> = facts
        .into_iter()
        .map(|f| {
            let told = if f.told.is_empty() {
                "nothing"
            } else {
                &f.told
            };
            let mut cells = vec![
                words::plain(&f.name),
                words::plain(&f.about),
                words::plain(told),
            ];
            for size in SIZES {
                for (limit, line) in [(f.down, down), (f.up, up)] {
                    cells.push(share(limit, line, size).unwrap_or(NOTHING.to_owned()));
                }
            }
            Line {
                cells,
                ours: is_ours(&f.name),
            }
        })
        .collect();
    let group = Group { name: None, lines };
    Grid {
        title: "What each was told, and how full that makes the line",
        head: vec![
            words_column("Condition"),
            Column {
                roomy: true,
                ..words_column("What it is")
            },
            words_column("Told by hand"),
            column("Down", "%, 1500 B"),
            column("Up", "%, 1500 B"),
            column("Down", "%, 100 B"),
            column("Up", "%, 100 B"),
        ],
        groups: if group.lines.is_empty() {
            Vec::new()
        } else {
            vec![group]
        },
        notes: vec![
            if file.line.varies {
                "The line changes by itself: no limit is a fixed share of it."
            } else {
                "The share of the line that packets of that size take when they come at the limit \
                 that was set. Above 100 % the queue stays in the modem or at the provider."
            }
            .to_owned(),
        ],
    }
}

/// Bandwidth given up against latency won.
pub(super) fn cost(file: &ResultFile, rows: &[Row<'_>]) -> Grid {
    let lines = rows.iter().filter_map(|row| {
        let f = row.factor.as_ref()?;
        let none = rows
            .iter()
            .find(|r| r.load == row.load && r.condition == "none")?;
        let given_up =
            |kept: Option<f64>| kept.map_or(NOTHING.to_owned(), |k| words::tenths(1.0 - k));
        let won = |figure: fn(&Row<'_>) -> f64| words::digits(figure(none) - figure(row));
        let cells = vec![
            words::plain(row.condition),
            given_up(f.down_kept),
            given_up(f.up_kept),
            won(|r| r.increase.median),
            won(|r| r.increase_p99.median),
            words::times(f.factor),
        ];
        let ours = is_ours(row.condition);
        Some((heading(row.load), Line { cells, ours }))
    });
    let mut notes = vec![
        "Against none: the goodput that is missing (below zero: there is more), and how much \
         less the ping rises."
            .to_owned(),
    ];
    notes.extend(verdict::sentences(file, rows));
    Grid {
        title: "What it costs and what it brings",
        head: vec![
            words_column("Condition"),
            column("Given up", "down, %"),
            column("Given up", "up, %"),
            column("Won", "average, ms"),
            column("Won", "99 %, ms"),
            column("Factor", ""),
        ],
        groups: grouped(lines),
        notes,
    }
}
