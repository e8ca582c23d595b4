//! A span as a picture of characters: what passed against what the line carried, and the latency felt.
//!
//! Principles: a column is the same time everywhere, and one that was not watched is empty; bars are the most that
//! passed, so that a short load is seen; a scale ends at a round figure. Non-goals: colours, pictures in files.

use std::fmt::Write as _;

use evenkeel_core::units::rounded::three_digits;

use crate::Minute;
use crate::book::merge;
use crate::minute::ms;

/// Columns of figures to the left.
const MARGIN: usize = 7;
/// Rows of one picture.
const ROWS: usize = 6;
/// Eighths of a row.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws `minutes` of `from..to` in `width` columns. `clock` gives the words for a time below the picture.
pub fn draw(
    minutes: &[Minute],
    (from, to): (u64, u64),
    width: usize,
    clock: &dyn Fn(u64) -> String,
) -> String {
    // What a clock may say, so that nothing overflows.
    let (from, to) = (from.min(1 << 40), to.min(1 << 40));
    let columns = width.saturating_sub(MARGIN + 1).clamp(10, 400);
    let all = columns_of(minutes, (from, to), columns);
    let kbit = |of: fn(&Minute) -> u32| -> Vec<Option<f64>> {
        all.iter()
            .map(|c| c.as_ref().map(|m| f64::from(of(m))))
            .collect()
    };
    let mut text = String::new();
    let down = (kbit(|m| m.down.most_kbit), kbit(|m| m.down.capacity_kbit));
    let up = (kbit(|m| m.up.most_kbit), kbit(|m| m.up.capacity_kbit));
    text += &rates("download", &down.0, &down.1);
    text += &rates("upload", &up.0, &up.1);
    let felt: Vec<Option<f64>> = all
        .iter()
        .map(|c| c.as_ref().map(|m| ms(m.worst_cms)))
        .collect();
    let idle: Vec<Option<f64>> = all
        .iter()
        .map(|c| c.as_ref().map(|m| ms(m.base_cms)))
        .collect();
    text += "latency felt, ms: the worst (bars), idle (–)\n";
    text += &chart(&felt, &idle);
    text + &axis((from, to), columns, clock)
}

fn rates(name: &str, passed: &[Option<f64>], carries: &[Option<f64>]) -> String {
    let top = most(passed).max(most(carries));
    let (unit, scale) = if top >= 1000.0 {
        ("Mbit/s", 1000.0)
    } else {
        ("kbit/s", 1.0)
    };
    let scaled = |of: &[Option<f64>]| -> Vec<Option<f64>> {
        of.iter().map(|v| v.map(|v| v / scale)).collect()
    };
    format!("{name}, {unit}: the most that passed (bars), what the line carried (–)\n")
        + &chart(&scaled(passed), &scaled(carries))
}

fn most(of: &[Option<f64>]) -> f64 {
    of.iter().flatten().copied().fold(0.0, f64::max)
}

/// One mean minute for each column.
fn columns_of(minutes: &[Minute], (from, to): (u64, u64), columns: usize) -> Vec<Option<Minute>> {
    let span = to.saturating_sub(from).max(1);
    let mut parts: Vec<Vec<Minute>> = vec![Vec::new(); columns];
    for m in minutes {
        let at = u128::from(m.begins().saturating_sub(from)) * columns as u128 / u128::from(span);
        if m.seconds > 0
            && let Some(part) = parts.get_mut(at as usize)
        {
            part.push(*m);
        }
    }
    let mut all: Vec<Option<Minute>> = parts.iter().map(|p| merge(p)).collect();
    // Columns that are shorter than a minute show the minute that they are in.
    let in_a_column = span / columns as u64;
    if in_a_column < 60 {
        let mut held: Option<(u64, Minute)> = None;
        for (n, column) in all.iter_mut().enumerate() {
            let at = from + n as u64 * span / columns as u64;
            match (*column, held) {
                (Some(m), _) => held = Some((m.begins(), m)),
                (None, Some((begins, m))) if at < begins + 60 => *column = Some(m),
                _ => {}
            }
        }
    }
    all
}

/// A scale's end: 1, 2 or 5 times a power of ten, not below `most`.
fn top(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(most.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0].map(|s| s * power);
    steps
        .into_iter()
        .find(|s| *s >= most * 0.999)
        .unwrap_or(10.0 * power)
}

/// Bars with a line.
fn chart(bars: &[Option<f64>], line: &[Option<f64>]) -> String {
    let top = top(most(bars).max(most(line)));
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let label = match row {
            r if r == ROWS - 1 => three_digits(top),
            0 => "0".to_owned(),
            _ => String::new(),
        };
        let mut drawn = String::new();
        for (bar, mark) in bars.iter().zip(line) {
            let eighths = |v: f64| (v / top * ROWS as f64 * 8.0).round() as i64;
            let height = bar.map_or(0, eighths) - 8 * row as i64;
            let at = mark
                .filter(|m| *m > 0.0)
                .map(|m| (eighths(m) - 1).max(0) / 8);
            let is_mark = at == Some(row as i64) && height < 8;
            drawn.push(if is_mark {
                '–'
            } else {
                BARS[height.clamp(0, 8) as usize]
            });
        }
        let line = format!("{label:>MARGIN$} {drawn}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Times below.
fn axis((from, to): (u64, u64), columns: usize, clock: &dyn Fn(u64) -> String) -> String {
    let span = to.saturating_sub(from);
    let mut line = vec![' '; columns];
    let mut free = 0;
    for part in 0..=4u64 {
        let words: Vec<char> = clock(from + span * part / 4).chars().collect();
        let at = columns * part as usize / 4;
        let at = at
            .saturating_sub(words.len() / 2)
            .min(columns.saturating_sub(words.len()));
        if at < free {
            continue;
        }
        for (place, c) in line.iter_mut().skip(at).zip(&words) {
            *place = *c;
        }
        free = at + words.len() + 2;
    }
    let line: String = line.into_iter().collect();
    format!("{:MARGIN$} {}\n", "", line.trim_end())
}
