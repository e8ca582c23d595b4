//! The live graph: the last probes as dots at the bottom of the terminal.
//!
//! Principles: braille dots, two probes and four levels to a character, plain ANSI, so that it
//! works over SSH; redrawn at most ten times a second; lines of text scroll above it. Without a
//! terminal there is none. Non-goals: a full screen.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use evenkeel_core::ping::{Fate, Outcome};

/// Lines of dots.
const ROWS: usize = 8;
/// Columns for the labels.
const LABEL: usize = 9;

/// One column of dots.
#[derive(Debug, Clone, Copy)]
enum Dot {
    Reply(Duration),
    Error(Duration),
    Lost,
}

/// What is shown.
#[derive(Debug)]
pub(crate) struct Graph {
    dots: VecDeque<Dot>,
    /// Lines on the screen now.
    drawn: usize,
}

impl Graph {
    pub(crate) fn new() -> Self {
        Graph {
            dots: VecDeque::new(),
            drawn: 0,
        }
    }

    /// One more probe.
    pub(crate) fn add(&mut self, o: &Outcome) {
        let dot = match (o.fate, o.delays) {
            (Fate::Reply, Some(d)) => Dot::Reply(d.felt),
            (fate, Some(d)) if fate.is_error() => Dot::Error(d.felt),
            (Fate::Timeout | Fate::Damaged, _) => Dot::Lost,
            _ => return,
        };
        self.dots.push_back(dot);
        // As many as the widest terminal that is cared for.
        if self.dots.len() > 1024 {
            self.dots.pop_front();
        }
    }

    /// Takes the old picture away, puts `text` in its place and the new one below.
    pub(crate) fn redraw(&mut self, text: &str, columns: usize) -> String {
        let mut out = self.clear();
        out += text;
        let lines = self.lines(columns);
        self.drawn = lines.len();
        for line in lines {
            out += &line;
            out.push('\n');
        }
        out
    }

    fn clear(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            n => format!("\x1b[{n}A\r\x1b[J"),
        }
    }

    fn lines(&self, columns: usize) -> Vec<String> {
        let width = columns.saturating_sub(LABEL + 2).clamp(10, 200);
        let skip = self.dots.len().saturating_sub(width * 2);
        let dots: Vec<Dot> = self.dots.iter().skip(skip).copied().collect();
        let times = || {
            dots.iter().filter_map(|d| match d {
                Dot::Reply(t) | Dot::Error(t) => Some(t.as_secs_f64() * 1000.0),
                Dot::Lost => None,
            })
        };
        let (low, high) = times().fold((f64::MAX, 0.0f64), |(l, h), t| (l.min(t), h.max(t)));
        let (low, high) = scale(if low > high { 0.0 } else { low }, high);
        let levels = ROWS * 4;
        let level = |t: Duration| {
            let share = (t.as_secs_f64() * 1000.0 - low) / (high - low);
            ((share * levels as f64) as usize).min(levels - 1)
        };
        // A cell holds its dots and the worst that is in it.
        let mut cells = vec![vec![(0u8, 0u8); width]; ROWS];
        let mut before = None;
        for (x, dot) in dots.iter().enumerate() {
            let (column, side) = (x / 2, x % 2);
            let (to, worst) = match dot {
                Dot::Reply(t) => (level(*t), 1),
                Dot::Error(t) => (level(*t), 2),
                Dot::Lost => (levels - 1, 3),
            };
            // From next to the dot before: a line. A loss stands alone.
            let from = match before {
                Some(b) if worst < 3 && b < to => b + 1,
                Some(b) if worst < 3 && b > to => b - 1,
                _ => to,
            };
            for level in from.min(to)..=from.max(to) {
                let cell = &mut cells[ROWS - 1 - level / 4][column];
                cell.0 |= braille(side, level % 4);
                cell.1 = cell.1.max(worst);
            }
            before = (worst < 3).then_some(to);
        }
        let mut lines = Vec::new();
        for (row, cells) in cells.iter().enumerate() {
            let label = match row {
                0 => format!("{high:.*} ms", digits(high - low)),
                r if r == ROWS - 1 => format!("{low:.*} ms", digits(high - low)),
                _ => String::new(),
            };
            let mut line = format!("\x1b[2m{label:>LABEL$} │\x1b[0m");
            let mut colour = 0;
            for (bits, worst) in cells {
                if *worst != colour && *worst != 0 {
                    colour = *worst;
                    let _ = write!(
                        line,
                        "\x1b[{}m",
                        ["0", "36", "33", "31"][usize::from(colour)]
                    );
                }
                line.push(match (bits, worst) {
                    (0, _) => ' ',
                    (_, 3) => '×',
                    (bits, _) => char::from_u32(0x2800 + u32::from(*bits)).unwrap_or(' '),
                });
            }
            lines.push(line.trim_end().to_owned() + "\x1b[0m");
        }
        lines
    }
}

/// The bit of a dot: `side` 0 is left; `level` 0 is the lowest (Unicode 1.1, braille patterns).
fn braille(side: usize, level: usize) -> u8 {
    const BITS: [[u8; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
    BITS[side][level]
}

/// Round ends of the axis around `low..=high`, not closer together than a tenth of a millisecond.
fn scale(low: f64, high: f64) -> (f64, f64) {
    let span = (high - low).max(0.1);
    let step = 10f64.powf(span.log10().floor());
    let step = [0.1, 0.2, 0.5, 1.0]
        .into_iter()
        .map(|m| m * step * 2.0)
        .find(|s| span / s <= 8.0)
        .unwrap_or(step * 2.0);
    let low = (low / step).floor() * step;
    let high = (high / step).ceil() * step;
    (low, high.max(low + span))
}

/// Decimals that a span needs.
fn digits(span: f64) -> usize {
    match span {
        s if s < 1.0 => 2,
        s if s < 10.0 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(fate: Fate, us: u64) -> Outcome {
        Outcome {
            seq: 0,
            sent: Duration::ZERO,
            size: 0,
            fate,
            from: None,
            received: None,
            ttl: None,
            delays: fate.is_timed().then_some(evenkeel_core::ping::Delays {
                felt: Duration::from_micros(us),
                queue: None,
                path: None,
                ingress: None,
            }),
            stamped: true,
        }
    }

    #[test]
    fn dots_between_round_ends() {
        let mut g = Graph::new();
        for us in [10_000, 11_000, 14_000, 19_500] {
            g.add(&outcome(Fate::Reply, us));
        }
        g.add(&outcome(Fate::Timeout, 0));
        let lines = g.lines(40);
        assert_eq!(lines.len(), ROWS);
        assert!(lines[0].contains(" 20 ms"), "{}", lines[0]);
        assert!(
            lines[0].contains('×') && lines[0].contains("\x1b[31m"),
            "{}",
            lines[0]
        );
        assert!(lines[ROWS - 1].contains(" 10 ms"), "{}", lines[ROWS - 1]);
        // At the bottom left 10 ms, and the line up to 11 ms.
        assert!(lines[ROWS - 1].contains('\u{2878}'), "{}", lines[ROWS - 1]);
        let first = g.redraw("a line\n", 40);
        assert!(first.starts_with("a line\n"));
        assert!(g.redraw("", 40).starts_with("\x1b[8A\r\x1b[J"));
    }

    #[test]
    fn any_terminal_and_any_times() {
        let mut g = Graph::new();
        for columns in [0, 1, 12, 80, 5000] {
            assert_eq!(g.lines(columns).len(), ROWS);
        }
        for us in [0, 1, u64::from(u32::MAX), 17] {
            g.add(&outcome(Fate::Expired, us));
            assert_eq!(g.lines(80).len(), ROWS);
        }
    }

    #[test]
    fn round_ends() {
        assert_eq!(scale(10.0, 19.5), (10.0, 20.0));
        assert_eq!(scale(0.0, 0.0), (0.0, 0.1));
        let (low, high) = scale(9.21, 9.27);
        assert!(
            low <= 9.21 && high >= 9.27 && high - low < 0.5,
            "{low} {high}"
        );
    }
}
