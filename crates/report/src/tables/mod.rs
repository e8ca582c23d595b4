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
mod grid;
mod published;

use evenkeel_core::result::ResultFile;

use crate::rows::Row;

pub(crate) use comparison::comparison;
pub(crate) use grid::{Column, Grid, Line};

use cost::{cost, told};
use drops::drops;
use flows::{calls, pages, shares};
use published::published;

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
