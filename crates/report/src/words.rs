//! Results in words and figures that a person understands.
//!
//! Principles: every sentence is made from the numbers of the rows, the worse cases included;
//! what was left out is said and why. Names from a file reach a terminal without control
//! characters. Non-goals: markup (see `text` and `html`).

use evenkeel_core::result::{Factor, INCREASE_FLOOR_MS, ResultFile};

use crate::rows::{Row, is_ours, is_series, repeats, void_runs};

/// A load, as the first half of a scenario: `Upload`, `4 downloads`.
pub(crate) fn load(name: &str) -> String {
    match kind(name) {
        Load::Idle => "Idle".to_owned(),
        Load::Down(1) => "Download".to_owned(),
        Load::Up(1) => "Upload".to_owned(),
        Load::Down(n) => format!("{n} downloads"),
        Load::Up(n) => format!("{n} uploads"),
        Load::Both => "4 down + 4 up".to_owned(),
        Load::Other => plain(name),
    }
}

/// A load, as the beginning of a sentence or the end of a title: `while uploading`.
pub(crate) fn during(name: &str) -> String {
    match kind(name) {
        Load::Idle => "on the idle line".to_owned(),
        Load::Down(1) => "while downloading".to_owned(),
        Load::Up(1) => "while uploading".to_owned(),
        Load::Down(n) => format!("during {n} downloads"),
        Load::Up(n) => format!("during {n} uploads"),
        Load::Both => "during 4 downloads and 4 uploads".to_owned(),
        Load::Other => format!("under load {}", plain(name)),
    }
}

/// A condition, as the second half of a scenario: `without evenkeel`.
pub(crate) fn condition(name: &str) -> String {
    match name {
        "none" => "without evenkeel".to_owned(),
        "evenkeel" => "with evenkeel".to_owned(),
        "evenkeel-auto" => "with evenkeel, told nothing".to_owned(),
        "sqm-htb" => "with SQM (HTB)".to_owned(),
        "inetgw" => "with trafficcontrol-inetgw".to_owned(),
        "wondershaper" => "with Wondershaper".to_owned(),
        other => match other.strip_prefix("cake-") {
            Some(share) if share.bytes().all(|c| c.is_ascii_digit()) => {
                format!("with CAKE at {share} %")
            }
            _ => format!("with {}", plain(other)),
        },
    }
}

/// `Upload, without evenkeel`.
pub(crate) fn scenario(row: &Row<'_>) -> String {
    format!("{}, {}", load(row.load), condition(row.condition))
}

/// The same with its first letter in upper case.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|c| c.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

/// What a group of this load is called.
pub(crate) fn heading(name: &str) -> String {
    capital(&load(name))
}

/// `text` in lines of at most `most` characters, if its words allow.
pub(crate) fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `text` without anything that a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// Milliseconds for a table: two decimals, never `-0.00`.
pub(crate) fn ms(v: f64) -> String {
    if v.is_finite() {
        format!("{:.2}", (v * 100.0).round() / 100.0 + 0.0)
    } else {
        "–".to_owned()
    }
}

/// A figure with three digits, two decimals at most.
pub(crate) fn digits(v: f64) -> String {
    match v.abs() {
        a if !a.is_finite() => "–".to_owned(),
        a if a < 9.995 => format!("{:.2}", (v * 100.0).round() / 100.0 + 0.0),
        a if a < 99.95 => format!("{v:.1}"),
        _ => format!("{v:.0}"),
    }
}

/// A time that it took to settle, s.
pub(crate) fn seconds(v: f64) -> String {
    if v.is_finite() {
        format!("{:.1}", v.max(0.0))
    } else {
        "–".to_owned()
    }
}

/// A share as a percentage with one decimal; `%` stands elsewhere.
pub(crate) fn tenths(share: f64) -> String {
    if share.is_finite() {
        format!("{:.1}", (share * 1000.0).round() / 10.0 + 0.0)
    } else {
        "–".to_owned()
    }
}

/// Milliseconds for a sentence: three digits at most.
fn about_ms(v: f64) -> String {
    match v {
        v if v < INCREASE_FLOOR_MS => format!("less than {INCREASE_FLOOR_MS} ms"),
        v if v < 10.0 => format!("{v:.1} ms"),
        v => format!("{v:.0} ms"),
    }
}

/// A rate of kbit/s as Mbit/s, three or four digits.
pub(crate) fn mbit(kbit: f64) -> String {
    match kbit / 1000.0 {
        v if !v.is_finite() => "–".to_owned(),
        v if v < 9.995 => format!("{v:.2}"),
        v => format!("{v:.1}"),
    }
}

/// How many times, for a table or a sentence: `9.8`, `105`.
pub(crate) fn times(factor: f64) -> String {
    match factor {
        v if v < 0.095 => format!("{v:.3}"),
        v if v < 0.95 => format!("{v:.2}"),
        v if v < 19.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// A share as a whole percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// One paragraph for each row that can be compared with `none`: evenkeel's own if there are any,
/// else all.
pub(crate) fn findings(rows: &[Row<'_>]) -> Vec<String> {
    let ours = |row: &Row<'_>| is_ours(row.condition);
    let any = rows.iter().any(ours);
    rows.iter()
        .filter(|row| ours(row) || !any)
        .filter_map(|row| {
            let text = finding(row, row.factor.as_ref()?);
            Some(match row.settle_s {
                Some(s) if s < 0.05 => format!("{text} The ping settled at once."),
                Some(s) => format!("{text} The ping settled after {} s.", seconds(s)),
                None => text,
            })
        })
        .collect()
}

fn finding(row: &Row<'_>, f: &Factor) -> String {
    let verdict = match f.factor {
        v if v >= 1.05 && f.increase_ms < INCREASE_FLOOR_MS => {
            format!("at least {} times less", times(v))
        }
        v if v >= 1.05 => format!("{} times less", times(v)),
        v if v > 0.95 => "no difference".to_owned(),
        v => format!("{} times more", times(1.0 / v)),
    };
    format!(
        "{}, a call would have waited {} longer; {} {}: that is {verdict}. {}",
        capital(&during(row.load)),
        about_ms(f.increase_none_ms),
        condition(row.condition),
        about_ms(f.increase_ms),
        kept(f),
    )
    .trim_end()
    .to_owned()
}

/// What became of the speed.
fn kept(f: &Factor) -> String {
    let sides = [("download", f.down_kept), ("upload", f.up_kept)];
    let mut slower = Vec::new();
    let mut faster = Vec::new();
    for (side, share) in sides {
        match share {
            Some(v) if v < 1.005 => slower.push(format!("{} of the {side} speed", percent(v))),
            Some(v) => faster.push(format!("The {side} ran {} faster.", percent(v - 1.0))),
            None => {}
        }
    }
    if !slower.is_empty() {
        let verb = if slower.len() > 1 { "were" } else { "was" };
        faster.push(format!("{} {verb} kept.", slower.join(" and ")));
    }
    faster.join(" ")
}

/// What the figures are: repeats, what was left out, what was lost.
pub(crate) fn notes(file: &ResultFile, rows: &[Row<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    match repeats(rows) {
        (0, 0) => notes.push("No run counts.".to_owned()),
        (1, 1) => notes.push("One run each.".to_owned()),
        (a, b) if a == b => notes.push(format!(
            "Each figure is the median of {a} runs; the range over the runs stands in brackets."
        )),
        (a, b) => notes.push(format!(
            "Each figure is the median of {a} to {b} runs; the range over the runs stands in brackets."
        )),
    }
    let series = is_series(rows);
    let name = |name: &str| if series { plain(name) } else { condition(name) };
    for run in void_runs(file) {
        notes.push(format!(
            "Left out: {}, {}, run {}: {}.",
            load(&run.load),
            name(&run.condition),
            u64::from(run.repeat) + 1,
            plain(run.instrument.void.trim_end_matches('.')),
        ));
    }
    for row in rows.iter().filter(|r| r.lost > 0) {
        notes.push(format!(
            "{}, {}: {} of {} probes were lost; each counts as the worst value.",
            load(row.load),
            name(row.condition),
            row.lost,
            row.probes,
        ));
    }
    notes
}

/// The line, in a sentence.
pub(crate) fn line(file: &ResultFile) -> String {
    let l = &file.line;
    format!(
        "{} Mbit/s down and {} Mbit/s up at the link layer, framing {}, {} ms round trip when empty, \
         buffers of {:.0} ms down and {:.0} ms up",
        mbit(l.down.bps() as f64 / 1000.0),
        mbit(l.up.bps() as f64 / 1000.0),
        l.framing,
        l.rtt_ms,
        l.down_buffer_ms,
        l.up_buffer_ms,
    )
}

/// Where it ran, in a few words.
pub(crate) fn engine(name: &str) -> String {
    match name {
        "native" => "the machine's own kernel".to_owned(),
        "uml" => "User Mode Linux".to_owned(),
        "virtual" => "User Mode Linux in virtual time".to_owned(),
        other => plain(other),
    }
}

/// The seeds of the runs, each once, in ascending order.
pub(crate) fn seeds(file: &ResultFile) -> String {
    let mut seeds: Vec<u64> = file.runs.iter().map(|r| r.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let shown: Vec<String> = seeds.iter().take(12).map(u64::to_string).collect();
    let more = if seeds.len() > 12 { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

enum Load {
    Idle,
    Down(u32),
    Up(u32),
    Both,
    Other,
}

fn kind(name: &str) -> Load {
    let flows = |prefix: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
    match name {
        "idle" => Load::Idle,
        "rrul" => Load::Both,
        _ => match (flows("down"), flows("up")) {
            (Some(n), _) => Load::Down(n),
            (_, Some(n)) => Load::Up(n),
            _ => Load::Other,
        },
    }
}
