//! The comparison as a table: for a terminal and as Markdown.
//!
//! Principles: one row per load and condition, as in the papers that evenkeel measures itself
//! against: scenario, ping, increase, factor, and what became of the speed. Both tables are made
//! from the same cells. Non-goals: colour (the caller knows whether it writes to a terminal).

use std::fmt::Write;

use evenkeel_core::result::ResultFile;

use crate::rows::{Row, Spread, rows};
use crate::words;

/// The heads of the columns. Without the unit in the second line they would be too wide.
pub(crate) const HEAD: [(&str, &str); 7] = [
    ("Scenario", ""),
    ("Ping", "ms"),
    ("Increase", "ms"),
    ("99 % below", "ms"),
    ("Factor", ""),
    ("Download", "Mbit/s"),
    ("Upload", "Mbit/s"),
];

/// The cells of one row, in the order of [`HEAD`].
pub(crate) fn cells(row: &Row<'_>) -> [String; 7] {
    let spread = |s: Spread| {
        if row.runs.len() > 1 {
            let (low, high) = (words::ms(s.min), words::ms(s.max));
            format!("{} ({low}–{high})", words::ms(s.median))
        } else {
            words::ms(s.median)
        }
    };
    let speed = |kbit: f64, kept: Option<f64>| {
        let kept = kept.map(|k| format!(" ({})", words::percent(k)));
        if kbit > 0.0 {
            format!("{}{}", words::mbit(kbit), kept.unwrap_or_default())
        } else {
            "–".to_owned()
        }
    };
    let f = row.factor.as_ref();
    [
        words::scenario(row),
        words::ms(row.ping.median),
        spread(row.increase),
        words::ms(row.increase_p99.median),
        f.map_or("–".to_owned(), |f| words::times(f.factor)),
        speed(row.down_kbit, f.and_then(|f| f.down_kept)),
        speed(row.up_kbit, f.and_then(|f| f.up_kept)),
    ]
}

/// The comparison for a terminal: Unicode, no colour, at most about 110 columns, ends with a
/// line feed. Void runs are left out and named below the table.
pub fn table(file: &ResultFile) -> String {
    let rows = rows(file);
    let lines: Vec<[String; 7]> = rows.iter().map(cells).collect();
    // What stands in brackets has a width of its own, so that the figures stay aligned.
    let mut widths = HEAD.map(|_| (0, 0));
    for line in &lines {
        for (i, (w, cell)) in widths.iter_mut().zip(line).enumerate() {
            let (figure, rest) = split(i, cell);
            *w = (w.0.max(width(figure)), w.1.max(width(rest)));
        }
    }
    for (w, (name, unit)) in widths.iter_mut().zip(HEAD) {
        w.0 = w.0.max(width(name).max(width(unit)).saturating_sub(w.1));
    }
    let mut out = String::new();
    put(&mut out, &widths, &HEAD.map(|h| h.0), true);
    put(&mut out, &widths, &HEAD.map(|h| h.1), true);
    let total: usize = widths.iter().map(|w| w.0 + w.1 + 2).sum();
    let rule = "─".repeat(total - 2);
    let mut load = None;
    for (row, line) in rows.iter().zip(&lines) {
        if load != Some(row.load) {
            let _ = writeln!(out, "{rule}");
            load = Some(row.load);
        }
        put(
            &mut out,
            &widths,
            &line.each_ref().map(String::as_str),
            false,
        );
    }
    let _ = writeln!(out, "{rule}");
    for note in words::notes(file, &rows) {
        let _ = writeln!(out, "{note}");
    }
    out
}

/// Writes one line: the first cell to the left, the others to the right, no blanks at its end.
/// The head has nothing in brackets: it stands over both parts.
fn put(out: &mut String, widths: &[(usize, usize); 7], cells: &[&str; 7], head: bool) {
    let mut line = String::new();
    for (i, (cell, (figure_width, rest_width))) in cells.iter().zip(widths).enumerate() {
        let full = figure_width + rest_width;
        let (figure, rest) = split(i, cell);
        let _ = match (i, head) {
            (0, _) => write!(line, "{cell:<full$}"),
            (_, true) => write!(line, "  {cell:>full$}"),
            _ => write!(line, "  {figure:>figure_width$}{rest:<rest_width$}"),
        };
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

/// A cell's figure, and what stands behind it in brackets with the blank before. Scenarios
/// (column 0) stay whole.
fn split(column: usize, cell: &str) -> (&str, &str) {
    match cell.find(" (") {
        Some(at) if column > 0 => cell.split_at(at),
        _ => (cell, ""),
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// The comparison as Markdown, for a README or `docs/results`: what was measured, the table,
/// the findings in words, and how to get it again. `date` is printed as it is.
pub fn markdown(file: &ResultFile, date: &str) -> String {
    let rows = rows(file);
    let mut out = format!("### {}\n\n", escape(&file.experiment));
    if !file.about.is_empty() {
        let _ = writeln!(out, "{}\n", escape(file.about.trim()));
    }
    let _ = writeln!(out, "The line: {}.\n", words::line(file));
    let head = HEAD.map(|(name, unit)| match unit {
        "" => name.to_owned(),
        unit => format!("{name}, {unit}"),
    });
    let _ = writeln!(out, "| {} |", head.join(" | "));
    let _ = writeln!(out, "|---|{}", "---:|".repeat(HEAD.len() - 1));
    for row in &rows {
        let cells = cells(row).map(|c| escape(&c));
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    let _ = writeln!(out);
    for finding in words::findings(&rows) {
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
    if !file.command.is_empty() {
        let command = words::plain(&file.command).replace('`', "'");
        let _ = writeln!(out, "Command: `{command}`  ");
    }
    let kernel = match file.kernel.as_str() {
        "" => "not recorded".to_owned(),
        release => escape(release),
    };
    let _ = writeln!(
        out,
        "Kernel: {kernel} ({}). Date: {}. Seeds: {}.",
        escape(&words::engine(&file.engine)),
        escape(date),
        words::seeds(file),
    );
    out
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
