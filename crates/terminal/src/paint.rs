//! Colour where a terminal has it: a text is marked as it is made, and what shows it knows the marks.
//!
//! Principles: no colour says anything that no word says; none where stdout is no terminal, where `NO_COLOR` is set
//! (no-color.org) or `TERM` is `dumb`; the marks are the terminal's own (SGR of ECMA-48). Non-goals: themes.

use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// How a piece of text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// What it is about.
    Bold,
    /// What is seldom read.
    Dim,
    /// What is wrong.
    Red,
    /// What is as it should be.
    Green,
    /// What to mind.
    Yellow,
}

impl Ink {
    const ALL: [Ink; 5] = [Ink::Bold, Ink::Dim, Ink::Red, Ink::Green, Ink::Yellow];

    /// Its number in a terminal's language.
    fn code(self) -> &'static str {
        match self {
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Red => "31",
            Ink::Green => "32",
            Ink::Yellow => "33",
        }
    }

    fn style(self) -> Style {
        let style = Style::default();
        match self {
            Ink::Bold => style.add_modifier(Modifier::BOLD),
            Ink::Dim => style.add_modifier(Modifier::DIM),
            Ink::Red => style.fg(Color::Red),
            Ink::Green => style.fg(Color::Green),
            Ink::Yellow => style.fg(Color::Yellow),
        }
    }
}

/// Whether stdout shows colours.
pub fn is_coloured() -> bool {
    static COLOURED: OnceLock<bool> = OnceLock::new();
    *COLOURED.get_or_init(|| {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        io::stdout().is_terminal()
            && set("NO_COLOR").is_none()
            && set("TERM").is_none_or(|t| t != "dumb")
    })
}

/// `text` in `ink`, where stdout shows colours.
pub fn ink(ink: Ink, text: &str) -> String {
    if is_coloured() {
        marked(ink, text)
    } else {
        text.to_owned()
    }
}

fn marked(ink: Ink, text: &str) -> String {
    format!("\x1b[{}m{text}\x1b[0m", ink.code())
}

/// A line with marks, for a page.
pub(crate) fn spans(line: &str) -> Line<'static> {
    let mut all = Vec::new();
    let mut style = Style::default();
    for (n, part) in line.split("\x1b[").enumerate() {
        let text = match part.split_once('m').filter(|_| n > 0) {
            Some((code, text)) if code == "0" || of(code).is_some() => {
                style = of(code).map_or(Style::default(), Ink::style);
                text
            }
            _ => part,
        };
        if !text.is_empty() {
            all.push(Span::styled(text.to_owned(), style));
        }
    }
    Line::from(all)
}

fn of(code: &str) -> Option<Ink> {
    Ink::ALL.into_iter().find(|i| i.code() == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_styles() {
        let text = format!("a {} b", marked(Ink::Red, "wrong"));
        assert_eq!(text, "a \x1b[31mwrong\x1b[0m b");
        let line = spans(&text);
        let plain: String = line.spans.iter().map(|s| s.content.as_ref()).collect();
        assert_eq!(plain, "a wrong b");
        assert_eq!(line.spans[1].style.fg, Some(Color::Red));
        assert_eq!(line.spans[2].style, Style::default());
        // Where there is no terminal there are no marks.
        assert_eq!(ink(Ink::Bold, "x"), "x");
        assert_eq!(spans("plain").spans.len(), 1);
    }
}
