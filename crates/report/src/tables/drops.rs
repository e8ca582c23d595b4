//! What was dropped, and what had to be sent again.

use evenkeel_core::result::Run;
use evenkeel_core::stats::median;

use super::grid::{Grid, Line, NOTHING, column, grouped, words_column};
use crate::rows::{Row, is_ours};
use crate::words::{self, heading};

/// Packets that each condition dropped under load, medians of its runs.
pub(super) fn drops(rows: &[Row<'_>]) -> Grid {
    let lines = rows.iter().filter_map(|row| {
        let of = |count: fn(&Run) -> Option<u64>| {
            let counts: Option<Vec<f64>> =
                row.runs.iter().map(|r| Some(count(r)? as f64)).collect();
            median(&counts?)
        };
        let show = |n: Option<f64>| n.map_or(NOTHING.to_owned(), |n| format!("{n:.0}"));
        let dropped = of(|r| Some(r.dropped_by_us));
        let again = of(|r| Some(r.retransmits));
        if row.runs.iter().all(|r| r.flows_kbit.is_empty()) {
            return None;
        }
        let cells = vec![
            words::plain(row.condition),
            show(dropped),
            show(of(|r| r.acks_dropped_by_us)),
            show(again),
        ];
        let ours = is_ours(row.condition);
        Some((heading(row.load), Line { cells, ours }))
    });
    Grid {
        title: "What was dropped",
        head: vec![
            words_column("Condition"),
            column("Dropped by it", "packets"),
            column("Policed", "empty ACKs"),
            column("Sent again", "segments"),
        ],
        groups: grouped(lines),
        notes: vec![
            "Dropped on the gateway, on purpose, CAKE's filtered acknowledgements among them; what \
             is sent again beyond that was lost in the buffers of the line. Empty \
             acknowledgements: of those that a policer dropped."
                .to_owned(),
        ],
    }
}
