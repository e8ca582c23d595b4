//! A table as cells: its head, its groups of lines, the notes below it.
//!
//! Principle: a cell is its text; a column says how it is to stand. Non-goals: what stands in a
//! table (one file each), and how one is drawn (`text`, `html`).

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
pub(super) const NOTHING: &str = "–";

/// The head of a column of words.
pub(super) const fn words_column(name: &'static str) -> Column {
    Column {
        name,
        unit: "",
        words: true,
        roomy: false,
    }
}

/// The head of a column of figures.
pub(super) const fn column(name: &'static str, unit: &'static str) -> Column {
    Column {
        name,
        unit,
        words: false,
        roomy: false,
    }
}

/// Puts `lines`, each with its group's name, into groups, in the order of first appearance.
pub(super) fn grouped(lines: impl Iterator<Item = (String, Line)>) -> Vec<Group> {
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
