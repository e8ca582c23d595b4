//! Reports of ping logs: statistics, round trips over time, their distribution; several files
//! compared.
//!
//! Principles: replies and errors that answered both are round trips, but are counted apart;
//! everything comes from the logs; runs of different times are laid over one another from their
//! starts on. Non-goals: loads and conditions (result files have those).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_core::Summary;
use evenkeel_core::ping::Fate;
use evenkeel_core::ping::fit::Fit;
use evenkeel_core::ping::log::{Log, is_log};
use evenkeel_core::ping::tally::Tally;
use evenkeel_core::ping::track::Event;
use maud::{Markup, PreEscaped, html as markup};
use serde::Serialize;

use crate::axis::Axis;
use crate::chart::{Drawing, Layout, Level, Line, NARROW, Panel, WIDE};
use crate::figures::{range, single, steps};
use crate::theme::{LIGHT, inline, standalone};
use crate::{Error, html, put, raster};

/// A ping log, if `path` is one; `None` if it is something else that can be read.
pub fn read(path: &Path) -> Result<Option<Log>, Error> {
    let bytes = fs::read(path).map_err(|source| Error::Io {
        what: "read",
        path: path.to_owned(),
        source,
    })?;
    let text = String::from_utf8_lossy(&bytes);
    if !is_log(&text) {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|e| Error::Format {
        path: path.to_owned(),
        why: format!("{e}"),
    })
}

/// One log with its name and what it came to.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    sent: u64,
    replies: u64,
    errors: u64,
    lost: u64,
    /// Round trips of all that was answered, exact.
    rtt_ms: Option<Summary>,
    /// The same by what the answer was.
    by_fate_ms: Vec<(String, Summary)>,
    own_queue_ms: Option<Summary>,
    path_ms: Option<Summary>,
    own_ingress_ms: Option<Summary>,
    #[serde(skip)]
    tally: Tally,
}

/// Round trips in ms by seconds since the first probe; gaps are losses.
fn series(log: &Log) -> Vec<(f64, Option<f64>)> {
    let start = log
        .outcomes
        .iter()
        .map(|o| o.sent)
        .min()
        .unwrap_or_default();
    let mut points: Vec<_> = log
        .outcomes
        .iter()
        .filter(|o| o.fate.is_timed() || o.fate == Fate::Timeout)
        .map(|o| {
            let time = o.delays.filter(|_| o.fate.is_timed());
            let at = o.sent.saturating_sub(start).as_secs_f64();
            (at, time.map(|d| ms(d.felt)))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1000.0
}

fn row(name: &str, log: &Log) -> Row {
    let mut tally = Tally::new();
    for o in &log.outcomes {
        tally.add(&Event::Outcome(*o));
    }
    let exact = |of: &dyn Fn(Fate) -> bool| {
        let times = log.outcomes.iter().filter(|o| of(o.fate));
        let times: Vec<f64> = times.filter_map(|o| Some(ms(o.delays?.felt))).collect();
        Summary::of(&times)
    };
    let part = |which: fn(&evenkeel_core::ping::Delays) -> Option<Duration>| {
        let all = log.outcomes.iter().filter(|o| o.fate.is_timed());
        let times: Vec<f64> = all.filter_map(|o| which(&o.delays?).map(ms)).collect();
        Summary::of(&times)
    };
    let fates: Vec<Fate> = tally.all_times().map(|(f, _)| f).collect();
    Row {
        name: name.to_owned(),
        sent: tally.sent,
        replies: tally.replies,
        errors: tally.errors,
        lost: tally.lost,
        rtt_ms: exact(&Fate::is_timed),
        by_fate_ms: fates
            .iter()
            .filter_map(|f| Some((f.to_string(), exact(&|g| g == *f)?)))
            .collect(),
        own_queue_ms: part(|d| d.queue),
        path_ms: part(|d| d.path),
        own_ingress_ms: part(|d| d.ingress),
        tally,
    }
}

const HEAD: [&str; 13] = [
    "Log", "Sent", "Replies", "Errors", "Lost", "Min", "Avg", "Max", "Stddev", "Median", "p90",
    "p95", "p99",
];

fn cells(r: &Row) -> Vec<String> {
    let mut cells = vec![r.name.clone()];
    cells.extend([r.sent, r.replies, r.errors].map(|n| n.to_string()));
    let could = r.sent.max(1) as f64;
    cells.push(match r.lost {
        0 => "0".into(),
        n => format!("{n} ({:.1} %)", n as f64 * 100.0 / could),
    });
    match r.rtt_ms {
        None => cells.extend((0..8).map(|_| "–".to_owned())),
        Some(s) => {
            let all = [s.min, s.avg, s.max, s.stddev, s.median, s.p90, s.p95, s.p99];
            cells.extend(all.map(|v| format!("{v:.3}")));
        }
    }
    cells
}

/// The statistics as a table in Markdown, ms.
pub fn table(logs: &[(String, Log)]) -> String {
    let mut text = format!("| {} |\n|---|", HEAD.join(" | "));
    text += &"---:|".repeat(HEAD.len() - 1);
    text.push('\n');
    for (name, log) in logs {
        let cells = cells(&row(name, log));
        let cells: Vec<_> = cells.iter().map(|c| c.replace('|', "/")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// The statistics as JSON.
pub fn json(logs: &[(String, Log)]) -> String {
    let rows: Vec<Row> = logs.iter().map(|(name, log)| row(name, log)).collect();
    serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n"
}

/// The colour of a log: the light first one is for what others are compared with.
fn place(i: usize, logs: &[(String, Log)]) -> usize {
    if logs.len() == 1 { 1 } else { i }
}

fn legend(logs: &[(String, Log)]) -> Vec<(usize, String)> {
    let crosses = |log: &Log| {
        log.outcomes
            .iter()
            .filter(|o| o.fate == Fate::Timeout)
            .count()
    };
    let names = logs.iter().enumerate().map(|(i, (name, log))| {
        let lost = match crosses(log) {
            0 => String::new(),
            n => format!(" (× {n} lost)"),
        };
        (place(i, logs), format!("{name}{lost}"))
    });
    names.collect()
}

/// A line for each log.
fn lines(points: Vec<Vec<(f64, Option<f64>)>>, logs: &[(String, Log)]) -> Vec<Line> {
    let lines = points.into_iter().enumerate().map(|(i, points)| Line {
        colour: place(i, logs),
        points,
    });
    lines.collect()
}

fn over_time(logs: &[(String, Log)], layout: Layout) -> Option<Drawing> {
    let all: Vec<_> = logs.iter().map(|(_, log)| series(log)).collect();
    let (_, end) = range(all.iter().flatten().map(|p| p.0))?;
    let (_, high) = range(all.iter().flatten().filter_map(|p| p.1))?;
    let levels = logs.iter().enumerate().filter_map(|(i, (name, log))| {
        let avg = row(name, log).rtt_ms?.avg;
        Some(Level {
            colour: Some(place(i, logs)),
            y: avg,
            label: format!("avg {avg:.*}", if avg < 100.0 { 2 } else { 1 }),
        })
    });
    let panel = Panel {
        x: Axis::exact(0.0, end, layout.x_ticks),
        y: Axis::from_zero(high, 5),
        y_label: "Round trip (ms)".into(),
        x_label: Some("Seconds since the first probe".into()),
        stroked: false,
        levels: levels.collect(),
        crosses: all
            .iter()
            .enumerate()
            .map(|(i, s)| {
                let lost = s.iter().filter(|p| p.1.is_none());
                (place(i, logs), lost.map(|p| p.0).collect())
            })
            .collect(),
        lines: lines(all, logs),
    };
    Some(single(
        layout,
        "Round trips over time",
        &legend(logs),
        &panel,
    ))
}

fn distribution(logs: &[(String, Log)], layout: Layout) -> Option<Drawing> {
    let all: Vec<Vec<f64>> = logs
        .iter()
        .map(|(_, log)| {
            let mut v: Vec<f64> = series(log).iter().filter_map(|p| p.1).collect();
            v.sort_by(f64::total_cmp);
            v
        })
        .collect();
    let (lo, hi) = range(all.iter().flatten().copied())?;
    let panel = Panel {
        x: Axis::for_spread(lo, hi, 6.0, layout.x_ticks / 2 + 1),
        y: Axis::from_zero(1.0, 4),
        y_label: "Share of the answers that came within".into(),
        x_label: Some("Round trip (ms)".into()),
        stroked: true,
        levels: Vec::new(),
        crosses: Vec::new(),
        lines: all
            .iter()
            .enumerate()
            .filter(|(_, v)| !v.is_empty())
            .map(|(i, v)| Line {
                colour: place(i, logs),
                points: steps(v, lo, hi),
            })
            .collect(),
    };
    let title = "Distribution of the round trips";
    Some(single(layout, title, &legend(logs), &panel))
}

fn by_size(logs: &[(String, Log)], layout: Layout) -> Option<Drawing> {
    let rows: Vec<Row> = logs.iter().map(|(name, log)| row(name, log)).collect();
    if rows.iter().all(|r| r.tally.sizes.len() < 3) {
        return None;
    }
    let points: Vec<Vec<(f64, Option<f64>)>> = rows
        .iter()
        .map(|r| {
            let sizes = r.tally.sizes.iter();
            sizes.map(|(s, r)| (f64::from(*s), r.min.map(ms))).collect()
        })
        .collect();
    let (_, widest) = range(points.iter().flatten().map(|p| p.0))?;
    let (_, high) = range(points.iter().flatten().filter_map(|p| p.1))?;
    let panel = Panel {
        x: Axis::from_zero(widest, layout.x_ticks),
        y: Axis::from_zero(high, 5),
        y_label: "Smallest round trip (ms)".into(),
        x_label: Some("Bytes of payload".into()),
        stroked: false,
        levels: Vec::new(),
        crosses: Vec::new(),
        lines: lines(points, logs),
    };
    let legend: Vec<_> = logs
        .iter()
        .enumerate()
        .map(|(i, l)| (place(i, logs), l.0.clone()))
        .collect();
    Some(single(
        layout,
        "Smallest round trip by size",
        &legend,
        &panel,
    ))
}

type Draw = fn(&[(String, Log)], Layout) -> Option<Drawing>;
const FIGURES: [(&str, Draw); 3] = [
    ("ping-time", over_time),
    ("ping-ecdf", distribution),
    ("ping-size", by_size),
];

/// The page. Complete: it refers to nothing else.
pub fn page(logs: &[(String, Log)]) -> String {
    let rows: Vec<Row> = logs.iter().map(|(name, log)| row(name, log)).collect();
    let title = match logs {
        [(name, _)] => format!("Ping: {name}"),
        _ => "Pings compared".to_owned(),
    };
    let body = markup! {
        @for (name, log) in logs {
            p {
                @if logs.len() != 1 { (name) ": " }
                (log.about("title").unwrap_or_default())
            }
        }
        table {
            thead {
                tr { @for head in HEAD { th scope="col" { (head) } } }
            }
            tbody {
                @for row in &rows {
                    tr {
                        th scope="row" { (row.name) }
                        @for (head, cell) in HEAD.iter().zip(cells(row)).skip(1) {
                            td data-label=(head) { span { (cell) } }
                        }
                    }
                }
            }
        }
        p.notes { "Times in ms." }
        @for (_, draw) in FIGURES {
            @for (layout, class) in [(WIDE, "wide"), (NARROW, "narrow")] {
                @if let Some(drawing) = draw(logs, layout) {
                    (PreEscaped(inline(&drawing, class, "Round trips")))
                }
            }
        }
        @for row in &rows { (details(row)) }
        p.notes {
            "A round trip runs from before this machine's queueing discipline to the kernel's \
             receive stamp. Own queue: from there to the driver. Path: from the driver to the \
             receive stamp, without this machine's own ingress queue where that is known. Errors \
             (TTL expired, port unreachable) are timed and are no replies."
        }
    };
    html::page(&title, &body)
}

/// The parts of a log's round trips, and the line through a sweep.
fn details(r: &Row) -> Markup {
    let parts = r.by_fate_ms.iter().map(|(f, s)| (f.as_str(), s));
    let own = [
        ("own queue", &r.own_queue_ms),
        ("path", &r.path_ms),
        ("own ingress queue", &r.own_ingress_ms),
    ];
    let own = own.iter().filter_map(|(n, s)| Some((*n, s.as_ref()?)));
    let fit = Some(&r.tally.sizes).filter(|sizes| sizes.len() > 2);
    markup! {
        h2 { (r.name) }
        ul {
            @for (name, s) in parts.chain(own) {
                li {
                    (name) ": " (s.n) " times, "
                    (format_args!(
                        "{:.3} ms on average, median {:.3}, 99 % within {:.3}, at most {:.3}",
                        s.avg, s.median, s.p99, s.max
                    ))
                }
            }
            @if let Some(fit) = fit.and_then(Fit::through) {
                li {
                    (format_args!(
                        "By size: {:.4} ± {:.4} us a byte, {:.1} ± {:.1} us without payload, \
                         correlation {:.4} (95 % confidence)",
                        fit.slope.value,
                        fit.slope.within,
                        fit.intercept.value,
                        fit.intercept.within,
                        fit.correlation
                    ))
                }
            }
        }
    }
}

fn draw_png(drawing: &Drawing, path: PathBuf, written: &mut Vec<PathBuf>) -> Result<(), Error> {
    let png = raster::png(&standalone(drawing, &LIGHT)).map_err(|why| Error::Draw {
        path: path.clone(),
        why,
    })?;
    put(path, &png, written)
}

/// Writes `out`: a page (`.html`), the picture over time (`.png`), the statistics (`.json`), or
/// all of them into a directory. Returns what it wrote.
pub fn write(logs: &[(String, Log)], out: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut written = Vec::new();
    match out.extension().and_then(|e| e.to_str()) {
        Some("html") => put(out.to_owned(), page(logs).as_bytes(), &mut written)?,
        Some("json") => put(out.to_owned(), json(logs).as_bytes(), &mut written)?,
        Some("png") => match over_time(logs, WIDE) {
            Some(drawing) => draw_png(&drawing, out.to_owned(), &mut written)?,
            None => {
                return Err(Error::Draw {
                    path: out.to_owned(),
                    why: "no probe was answered".into(),
                });
            }
        },
        _ => {
            fs::create_dir_all(out).map_err(|source| Error::Io {
                what: "create",
                path: out.to_owned(),
                source,
            })?;
            put(
                out.join("statistics.json"),
                json(logs).as_bytes(),
                &mut written,
            )?;
            put(out.join("report.html"), page(logs).as_bytes(), &mut written)?;
            for (stem, draw) in FIGURES {
                if let Some(drawing) = draw(logs, WIDE) {
                    draw_png(&drawing, out.join(format!("{stem}.png")), &mut written)?;
                }
            }
        }
    }
    Ok(written)
}
