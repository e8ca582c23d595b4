//! The tables of a report, as cells: the comparison, cost and gain, published figures, drops, calls
//! and pages.
//!
//! Principles: a terminal, Markdown and a page show the same cells; two conditions are a
//! scenario each, as in the papers; more are grouped by load, under the names that a command
//! takes. Non-goals: how a table is drawn (`text`, `html`), numbers (`rows`, `verdict`).

mod comparison;
mod cost;
mod drops;
mod flows;
mod published;

use evenkeel_core::result::ResultFile;

use crate::rows::Row;
use crate::words;

pub(crate) use comparison::comparison;

use cost::{cost, told};
use drops::drops;
use flows::{calls, pages, shares};
use published::published;

/// IP packets whose share of the line is shown, bytes: a full one, and a small one.
pub(crate) const SIZES: [u32; 2] = [1500, 100];

/// A table.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    /// Stands above it; empty for the comparison, which comes first.
    pub(crate) title: &'static str,
    pub(crate) head: Vec<Column>,
    pub(crate) groups: Vec<Group>,
    /// Sentences below it.
    pub(crate) notes: Vec<String>,
}

/// The head of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// Words, not figures: to the left.
    pub(crate) words: bool,
    /// Only where there is room, not on a terminal.
    pub(crate) roomy: bool,
}

/// Lines that belong together.
#[derive(Debug)]
pub(crate) struct Group {
    /// What they have in common; `None` draws a rule only.
    pub(crate) name: Option<String>,
    pub(crate) lines: Vec<Line>,
}

/// One line.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) cells: Vec<String>,
    /// It is evenkeel's, among others.
    pub(crate) ours: bool,
}

/// What has no figure.
const NOTHING: &str = "–";

const fn words_column(name: &'static str) -> Column {
    Column {
        name,
        unit: "",
        words: true,
        roomy: false,
    }
}

const fn column(name: &'static str, unit: &'static str) -> Column {
    Column {
        name,
        unit,
        words: false,
        roomy: false,
    }
}

/// Whether a condition is evenkeel.
pub(crate) fn is_ours(condition: &str) -> bool {
    condition.starts_with("evenkeel")
}

/// Whether there is more than evenkeel and nothing to compare.
pub(crate) fn is_series(rows: &[Row<'_>]) -> bool {
    rows.iter()
        .any(|r| !matches!(r.condition, "none" | "evenkeel"))
}

/// Puts `lines`, each with its group's name, into groups, in the order of first appearance.
fn grouped(lines: impl Iterator<Item = (String, Line)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (name, line) in lines {
        match groups.iter_mut().find(|g| g.name.as_ref() == Some(&name)) {
            Some(group) => group.lines.push(line),
            None => groups.push(Group {
                name: Some(name),
                lines: vec![line],
            }),
        }
    }
    groups
}

/// What a group of this load is called.
pub(crate) fn heading(load: &str) -> String {
    words::capital(&words::load(load))
}

/// Everything after the comparison, in the order of reading; what has nothing to say is not there.
pub(crate) fn more(file: &ResultFile, rows: &[Row<'_>]) -> Vec<Grid> {
    [
        told(file, rows),
        cost(file, rows),
        published(file, rows),
        drops(rows),
        shares(rows),
        calls(rows),
        pages(rows),
    ]
    .into_iter()
    .filter(|grid| !grid.groups.is_empty())
    .collect()
}
