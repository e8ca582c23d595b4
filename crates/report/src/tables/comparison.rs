//! The comparison: ping, increase and speed under each condition.

use super::grid::{Grid, Group, Line, NOTHING, column, grouped, words_column};
use crate::rows::{Row, Spread, is_ours, is_series};
use crate::words::{self, heading};

/// The comparison.
pub(crate) fn comparison(rows: &[Row<'_>]) -> Grid {
    if is_series(rows) {
        series(rows)
    } else {
        pairs(rows)
    }
}

/// A speed, and in brackets what was kept of that under `none`.
fn speed(kbit: f64, kept: Option<f64>) -> String {
    let kept = kept.map(|k| format!(" ({})", words::percent(k)));
    if kbit > 0.0 {
        format!("{}{}", words::mbit(kbit), kept.unwrap_or_default())
    } else {
        NOTHING.to_owned()
    }
}

fn spread(s: Spread, runs: usize, show: fn(f64) -> String) -> String {
    if runs > 1 {
        format!("{} ({}–{})", show(s.median), show(s.min), show(s.max))
    } else {
        show(s.median)
    }
}

/// Without and with evenkeel: a scenario each.
fn pairs(rows: &[Row<'_>]) -> Grid {
    let mut groups: Vec<Group> = Vec::new();
    let mut load = None;
    for row in rows {
        let f = row.factor.as_ref();
        let line = Line {
            cells: vec![
                words::scenario(row),
                words::ms(row.ping.median),
                spread(row.increase, row.runs.len(), words::ms),
                words::ms(row.increase_p99.median),
                f.map_or(NOTHING.to_owned(), |f| words::times(f.factor)),
                speed(row.down_kbit, f.and_then(|f| f.down_kept)),
                speed(row.up_kbit, f.and_then(|f| f.up_kept)),
            ],
            ours: false,
        };
        match groups.last_mut() {
            Some(group) if load == Some(row.load) => group.lines.push(line),
            _ => groups.push(Group {
                name: None,
                lines: vec![line],
            }),
        }
        load = Some(row.load);
    }
    Grid {
        head: vec![
            words_column("Scenario"),
            column("Ping", "ms"),
            column("Increase", "ms"),
            column("99 % below", "ms"),
            column("Factor", ""),
            column("Download", "Mbit/s"),
            column("Upload", "Mbit/s"),
        ],
        groups,
        ..Grid::default()
    }
}

/// Many conditions: by load, three digits.
fn series(rows: &[Row<'_>]) -> Grid {
    let settles = rows.iter().any(|r| r.settle_s.is_some());
    let mut head = vec![
        words_column("Condition"),
        column("Ping", "ms"),
        column("Increase", "ms"),
        column("99 % below", "ms"),
        column("Factor", ""),
        column("Download", "Mbit/s"),
        column("Upload", "Mbit/s"),
    ];
    if settles {
        head.push(column("Settled", "s"));
    }
    let line = |row: &Row<'_>| {
        let f = row.factor.as_ref();
        let mut cells = vec![
            words::plain(row.condition),
            words::digits(row.ping.median),
            spread(row.increase, row.runs.len(), words::digits),
            spread(row.increase_p99, row.runs.len(), words::digits),
            f.map_or(NOTHING.to_owned(), |f| words::times(f.factor)),
            speed(row.down_kbit, f.and_then(|f| f.down_kept)),
            speed(row.up_kbit, f.and_then(|f| f.up_kept)),
        ];
        if settles {
            cells.push(row.settle_s.map_or(NOTHING.to_owned(), words::seconds));
        }
        Line {
            cells,
            ours: is_ours(row.condition),
        }
    };
    Grid {
        head,
        groups: grouped(rows.iter().map(|r| (heading(r.load), line(r)))),
        ..Grid::default()
    }
}
