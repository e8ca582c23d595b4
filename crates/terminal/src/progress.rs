//! Where long work is, on stderr: a line for each running part on a terminal, one line for each part
//! that begins elsewhere.
//!
//! Principles: parts stand below one another in the order of their numbers; a line is never longer
//! than the terminal, and all are taken back at the end. Drawing is `indicatif`'s. Non-goals: what
//! the work is.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The lines.
#[derive(Debug)]
pub struct StatusLine {
    live: bool,
    /// What is drawn: nothing where stderr is no terminal.
    drawn: MultiProgress,
    /// What is being done, by number: its name, and its line.
    parts: BTreeMap<usize, (String, ProgressBar)>,
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
            drawn: MultiProgress::new(),
            parts: BTreeMap::new(),
        }
    }

    /// Part `number`, called `name`, is at `doing`.
    pub fn show(&mut self, number: usize, name: &str, doing: &str) {
        let above = self.parts.range(..number).count();
        let (old, line) = self
            .parts
            .entry(number)
            .or_insert_with(|| (String::new(), new_line(&self.drawn, above)));
        if !self.live && *old != name {
            eprintln!("{name}");
        }
        name.clone_into(old);
        let text = format!("{name}: {doing}");
        if line.message() != text {
            line.set_message(text);
        }
    }

    /// Part `number` has ended.
    pub fn end(&mut self, number: usize) {
        if let Some((_, line)) = self.parts.remove(&number) {
            line.finish_and_clear();
            self.drawn.remove(&line);
        }
    }

    /// Takes the lines back.
    pub fn clear(&mut self) {
        while let Some(number) = self.parts.keys().next().copied() {
            self.end(number);
        }
    }
}

/// A line below `above` others, cut at the terminal's width.
fn new_line(lines: &MultiProgress, above: usize) -> ProgressBar {
    let line = lines.insert(above, ProgressBar::new_spinner());
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        line.set_style(style);
    }
    line
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, ProgressDrawTarget};

    use super::*;

    #[test]
    fn parts_stand_below_one_another_and_never_wrap() {
        let screen = InMemoryTerm::new(10, 40);
        // As often as told: the usual target leaves out what follows too soon.
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(screen.clone()), 255);
        let mut line = StatusLine {
            live: true,
            drawn: MultiProgress::with_draw_target(target),
            parts: BTreeMap::new(),
        };
        let pause = || std::thread::sleep(std::time::Duration::from_millis(50));
        line.show(2, "[2/3] up1", "booting");
        pause();
        line.show(1, "[1/3] down1", "idle line, 3 s left");
        pause();
        assert_eq!(
            screen.contents(),
            "[1/3] down1: idle line, 3 s left\n[2/3] up1: booting"
        );
        line.show(3, &"x".repeat(100), "");
        pause();
        assert_eq!(screen.contents().lines().count(), 3);
        assert!(
            screen
                .contents()
                .ends_with(&format!("\n{}", "x".repeat(40)))
        );
        line.end(1);
        pause();
        line.end(3);
        assert_eq!(screen.contents(), "[2/3] up1: booting");
        line.clear();
        assert_eq!(screen.contents(), "");
    }
}
