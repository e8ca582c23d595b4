//! The live graph: the last probes as dots at the bottom of the terminal.
//!
//! Principles: braille dots, two probes and four levels to a character; redrawn at most ten times
//! a second. Non-goals: the terminal (`evenkeel_terminal::live`), where lines of text scroll above
//! it.

use std::collections::VecDeque;
use std::time::Duration;

use evenkeel_core::ping::{Fate, Outcome};
use evenkeel_terminal::live::{Color, Line, Span, Style};

/// Lines of dots.
pub(crate) const ROWS: usize = 8;
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
}

impl Graph {
    pub(crate) fn new() -> Self {
        Graph {
            dots: VecDeque::new(),
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

    /// The picture, [`ROWS`] lines.
    pub(crate) fn lines(&self, columns: usize) -> Vec<Line<'static>> {
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
            let dim = Style::new().fg(Color::DarkGray);
            let mut line = vec![Span::styled(format!("{label:>LABEL$} │"), dim)];
            for (bits, worst) in cells {
                let dots = match (bits, worst) {
                    (0, _) => ' ',
                    (_, 3) => '×',
                    (bits, _) => char::from_u32(0x2800 + u32::from(*bits)).unwrap_or(' '),
                };
                let colour = [Color::Reset, Color::Cyan, Color::Yellow, Color::Red];
                let style = Style::new().fg(colour[usize::from(*worst)]);
                line.push(Span::styled(dots.to_string(), style));
            }
            lines.push(Line::from(line));
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
        let (top, bottom) = (lines[0].to_string(), lines[ROWS - 1].to_string());
        assert!(top.contains(" 20 ms"), "{top}");
        let lost = lines[0].spans.iter().find(|s| s.content == "×");
        assert_eq!(lost.unwrap().style.fg, Some(Color::Red));
        assert!(bottom.contains(" 10 ms"), "{bottom}");
        // At the bottom left 10 ms, and the line up to 11 ms.
        assert!(bottom.contains('\u{2878}'), "{bottom}");
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
