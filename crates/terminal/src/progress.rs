//! Where long work is, on stderr: one line that changes on a terminal, one line for each part that
//! begins elsewhere.
//!
//! Principles: several parts at once stand beside one another; a line is never longer than the
//! terminal, since one that wraps could not be taken back. Non-goals: what the work is.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};

/// Of a line that changes, in characters.
const WIDTH: usize = 79;

/// The line.
#[derive(Debug)]
pub struct StatusLine {
    live: bool,
    /// What is being done, by number: its name, and how far it is.
    parts: BTreeMap<usize, (String, String)>,
    shown: bool,
}

impl Default for StatusLine {
    fn default() -> Self {
        StatusLine::new()
    }
}

impl StatusLine {
    /// On stderr.
    pub fn new() -> Self {
        StatusLine {
            live: io::stderr().is_terminal(),
            parts: BTreeMap::new(),
            shown: false,
        }
    }

    /// Part `number`, called `name`, is at `doing`.
    pub fn show(&mut self, number: usize, name: &str, doing: &str) {
        let new = (name.to_owned(), doing.to_owned());
        let old = self.parts.insert(number, new.clone());
        if old.as_ref() == Some(&new) {
            return;
        }
        if self.live {
            eprint!("\r\x1b[K{}", self.line());
            let _ = io::stderr().flush();
            self.shown = true;
        } else if old.is_none_or(|(old, _)| old != name) {
            eprintln!("{name}");
        }
    }

    /// Part `number` has ended.
    pub fn end(&mut self, number: usize) {
        self.parts.remove(&number);
    }

    /// Takes the line back.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprint!("\r\x1b[K");
        }
    }

    fn line(&self) -> String {
        let parts = self.parts.values();
        let parts: Vec<String> = parts
            .map(|(name, doing)| format!("{name}: {doing}"))
            .collect();
        parts.join("   ").chars().take(WIDTH).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_beside_one_another_and_never_wrap() {
        let mut line = StatusLine::new();
        line.show(2, "[2/3] up1", "booting");
        line.show(1, "[1/3] down1", "idle line, 3 s left");
        assert_eq!(
            line.line(),
            "[1/3] down1: idle line, 3 s left   [2/3] up1: booting"
        );
        line.show(3, &"x".repeat(100), "");
        assert_eq!(line.line().chars().count(), WIDTH);
        line.end(1);
        line.end(3);
        assert_eq!(line.line(), "[2/3] up1: booting");
    }
}
