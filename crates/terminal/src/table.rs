//! Tables for a terminal, in one look: no borders, words to the left, figures to the right.
//!
//! Principles: where a table is too wide, words in its last column are wrapped; figures, names and
//! addresses never are. Drawing is `comfy-table`'s. Non-goals: rules and groups (who draws them
//! takes the lines and puts them between), colour.

use std::fmt;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};

/// Where there is no terminal.
const WIDTH: u16 = 100;
/// The last column is never narrower.
const LEAST: u16 = 24;
/// Blanks between columns.
const GAP: u16 = 2;

/// The head of a column.
#[derive(Debug, Clone)]
pub struct Column {
    name: String,
    side: CellAlignment,
}

/// Words, to the left.
pub fn words(name: impl Into<String>) -> Column {
    Column {
        name: name.into(),
        side: CellAlignment::Left,
    }
}

/// Figures, to the right.
pub fn figures(name: impl Into<String>) -> Column {
    Column {
        name: name.into(),
        side: CellAlignment::Right,
    }
}

/// A table; displayed, it ends with a line feed.
#[derive(Debug, Clone)]
pub struct Table(comfy_table::Table);

impl Table {
    /// A table that is as wide as it must be: one line for each row. A name may have several
    /// lines, as many as the others.
    pub fn new(head: &[Column]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(head.iter().map(|c| &c.name));
        for (column, head) in table.column_iter_mut().zip(head) {
            column.set_cell_alignment(head.side);
            column.set_padding((0, GAP));
        }
        if let Some(last) = table.column_iter_mut().last() {
            last.set_padding((0, 0));
        }
        Table(table)
    }

    /// As wide as the terminal, where it can be: words in the last column take several lines.
    #[must_use]
    pub fn wrapped(self) -> Self {
        let width = terminal_size::terminal_size().map_or(WIDTH, |(w, _)| w.0);
        self.within(width)
    }

    fn within(mut self, width: u16) -> Self {
        self.0
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
        for column in self.0.column_iter_mut() {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
        if let Some(last) = self.0.column_iter_mut().last() {
            last.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(LEAST)));
        }
        self
    }

    /// One more row.
    pub fn row<T: ToString>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.0
            .add_row(cells.into_iter().map(|c| c.to_string()).collect::<Vec<_>>());
    }

    /// The lines, the head first, without blanks at their ends.
    pub fn lines(&self) -> Vec<String> {
        self.0.lines().map(|l| l.trim_end().to_owned()).collect()
    }

    /// Columns of the longest line, with the blanks at its end.
    pub fn width(&self) -> usize {
        let widths = self.0.column_max_content_widths();
        let gaps = widths.len().saturating_sub(1) * usize::from(GAP);
        widths.into_iter().map(usize::from).sum::<usize>() + gaps
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines()
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[words("name"), figures("n"), figures("ms"), words("why")]);
        table.row(["first", "1", "10.25", "short"]);
        table.row([
            "größer",
            "100",
            "–",
            "a reason of more words than there is room for",
        ]);
        table.row(["", "", "", ""]);
        table
    }

    #[test]
    fn words_to_the_left_and_figures_to_the_right() {
        assert_eq!(
            table().to_string(),
            "name      n     ms  why\n\
             first     1  10.25  short\n\
             größer  100      –  a reason of more words than there is room for\n\
             \n"
        );
    }

    #[test]
    fn only_the_last_column_is_wrapped() {
        assert_eq!(
            table().within(50).to_string(),
            "name      n     ms  why\n\
             first     1  10.25  short\n\
             größer  100      –  a reason of more words than\n\
             \x20                   there is room for\n\
             \n"
        );
        // Too narrow for the others: those stay whole.
        let narrow = table().within(10).lines();
        assert!(
            narrow[1].starts_with("first     1  10.25  short"),
            "{narrow:?}"
        );
        assert!(
            narrow.iter().all(|l| l.chars().count() <= 20 + 24),
            "{narrow:?}"
        );
    }
}
