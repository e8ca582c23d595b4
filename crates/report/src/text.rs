//! The tables for a terminal and as Markdown.
//!
//! Principles: the cells are made once (`tables`), for here and for the page; a terminal gets
//! 110 columns at most of what a result usually holds, and no colour (the caller knows whether it
//! writes to one). Non-goals: what stands in the cells.

use std::fmt::Write;

use evenkeel_core::result::ResultFile;
use evenkeel_terminal::table::{self, Table};

use crate::rows::{Row, is_series, rows};
use crate::tables::{Column, Grid, comparison, more};
use crate::{verdict, words};

/// The result for a terminal: Unicode, no colour, ends with a line feed. Void runs are left out
/// and named below the comparison. Cost and gain, published figures, calls and pages follow
/// where more than evenkeel is compared.
pub fn table(file: &ResultFile) -> String {
    let rows = rows(file);
    let mut out = drawn(&comparison(&rows));
    for note in words::notes(file, &rows) {
        let _ = writeln!(out, "{note}");
    }
    if is_series(&rows) {
        for grid in more(file, &rows) {
            let _ = write!(out, "\n{}\n{}", grid.title, drawn(&grid));
            for note in &grid.notes {
                for line in words::wrap(note, 108) {
                    let _ = writeln!(out, "{line}");
                }
            }
        }
    }
    out
}

/// A grid for a terminal, a rule above and below each group.
fn drawn(grid: &Grid) -> String {
    let shown: Vec<usize> = (0..grid.head.len())
        .filter(|i| !grid.head[*i].roomy)
        .collect();
    let head: Vec<Column> = shown.iter().map(|i| grid.head[*i]).collect();
    // Where lines stand under a name, evenkeel's are pointed at.
    let marked = grid.groups.iter().any(|g| g.lines.iter().any(|l| l.ours));
    let cells = |line: &crate::tables::Line| -> Vec<String> {
        let mut cells: Vec<String> = shown
            .iter()
            .map(|i| line.cells.get(*i).cloned().unwrap_or_default())
            .collect();
        if let Some(first) = cells.first_mut().filter(|_| marked) {
            *first = format!("{}{first}", if line.ours { "> " } else { "  " });
        }
        cells
    };
    // What stands in brackets has a width of its own, so that the figures stay aligned.
    let mut brackets = vec![0; head.len()];
    for line in grid.groups.iter().flat_map(|g| &g.lines) {
        for ((width, cell), column) in brackets.iter_mut().zip(cells(line)).zip(&head) {
            *width = split(column, &cell).1.chars().count().max(*width);
        }
    }
    let mut table = Table::new(&head.iter().map(name).collect::<Vec<_>>());
    for line in grid.groups.iter().flat_map(|g| &g.lines) {
        let cells = cells(line);
        let cells = cells.iter().zip(&brackets).zip(&head);
        table.row(cells.map(|((cell, width), column)| {
            let (figure, rest) = split(column, cell);
            format!("{figure}{rest:<width$}")
        }));
    }
    let lines = table.lines();
    let count = grid.groups.iter().map(|g| g.lines.len()).sum::<usize>();
    let (names, mut lines) = lines.split_at(lines.len().saturating_sub(count));
    let rule = "─".repeat(table.width());
    let mut out = names.join("\n") + "\n";
    for group in &grid.groups {
        let _ = writeln!(out, "{rule}");
        if let Some(name) = &group.name {
            let _ = writeln!(out, "{name}");
        }
        let own;
        (own, lines) = lines.split_at(group.lines.len().min(lines.len()));
        for line in own {
            let _ = writeln!(out, "{line}");
        }
    }
    let _ = writeln!(out, "{rule}");
    out
}

/// The head of a column: its name above its unit.
fn name(column: &Column) -> table::Column {
    let name = format!("{}\n{}", column.name, column.unit);
    if column.words {
        table::words(name)
    } else {
        table::figures(name)
    }
}

/// A cell's figure, and what stands behind it in brackets with the blank before. Words stay
/// whole.
pub(crate) fn split<'a>(column: &Column, cell: &'a str) -> (&'a str, &'a str) {
    match cell.find(" (") {
        Some(at) if !column.words => cell.split_at(at),
        _ => (cell, ""),
    }
}

/// The result as Markdown, for a README or `docs/results`: what was measured, the tables,
/// the findings in words, and how to get it again.
pub fn markdown(file: &ResultFile) -> String {
    let rows = rows(file);
    let mut out = format!("### {}\n\n", escape(&file.experiment));
    if !file.about.is_empty() {
        let _ = writeln!(out, "{}\n", escape(file.about.trim()));
    }
    let _ = writeln!(out, "The line: {}.\n", words::line(file));
    marked_down(&mut out, &comparison(&rows));
    let _ = writeln!(out);
    for finding in findings(file, &rows) {
        let _ = writeln!(out, "- {}", escape(&finding));
    }
    let _ = writeln!(out);
    for note in words::notes(file, &rows) {
        let _ = writeln!(out, "{}", escape(&note));
    }
    let _ = writeln!(
        out,
        "Judged on an unmarked UDP probe to a port that no rule names.\n"
    );
    for grid in more(file, &rows) {
        let _ = writeln!(out, "#### {}\n", grid.title);
        marked_down(&mut out, &grid);
        let _ = writeln!(out);
        for note in &grid.notes {
            let _ = writeln!(out, "{}\n", escape(note));
        }
    }
    if !file.command.is_empty() {
        let command = words::plain(&file.command).replace('`', "'");
        let _ = writeln!(out, "Command: `{command}`  ");
    }
    let recorded = |text: &str| match text {
        "" => "not recorded".to_owned(),
        text => escape(text),
    };
    let _ = writeln!(
        out,
        "Kernel: {} ({}). Date: {}. Seeds: {}.",
        recorded(&file.kernel),
        escape(&words::engine(&file.engine)),
        recorded(&file.date),
        words::seeds(file),
    );
    out
}

/// What it means, in sentences: evenkeel's rows, and which condition was right.
pub(crate) fn findings(file: &ResultFile, rows: &[Row<'_>]) -> Vec<String> {
    let mut found = words::findings(rows);
    found.extend(verdict::sentences(file, rows).into_iter().take(1));
    found
}

/// A grid as Markdown: groups are lines of their own, evenkeel's lines are bold.
fn marked_down(out: &mut String, grid: &Grid) {
    let head: Vec<String> = grid
        .head
        .iter()
        .map(|c| match c.unit {
            "" => c.name.to_owned(),
            unit => format!("{}, {unit}", c.name),
        })
        .collect();
    let _ = writeln!(out, "| {} |", head.join(" | "));
    let sides = grid
        .head
        .iter()
        .map(|c| if c.words { "---|" } else { "---:|" });
    let _ = writeln!(out, "|{}", sides.collect::<String>());
    for group in &grid.groups {
        if let Some(name) = &group.name {
            let rest = " |".repeat(grid.head.len());
            let _ = writeln!(out, "| *{}*{rest}", escape(name));
        }
        for line in &group.lines {
            let cells: Vec<String> = line
                .cells
                .iter()
                .map(|cell| match escape(cell) {
                    cell if line.ours && !cell.is_empty() => format!("**{cell}**"),
                    cell => cell,
                })
                .collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }
}

/// `text` in one line, without what Markdown or HTML in it would obey.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in words::plain(text).chars() {
        if matches!(c, '\\' | '|' | '`' | '*' | '_' | '<' | '[' | ']' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
