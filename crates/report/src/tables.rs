//! The tables of a report, as cells: the comparison, cost and gain, published figures, calls and
//! pages.
//!
//! Principles: a terminal, Markdown and a page show the same cells; two conditions are a
//! scenario each, as in the papers; more are grouped by load, under the names that a command
//! takes. Non-goals: how a table is drawn (`text`, `html`), numbers (`rows`, `verdict`).

use std::collections::BTreeMap;

use evenkeel_core::result::{
    Call, Charge, ConditionFacts, Figure, Pages, Published, ResultFile, Run,
};
use evenkeel_core::stats::median;

use crate::rows::{Row, Spread};
use crate::{verdict, words};

/// IP packets whose share of the line is shown, bytes: a full one, and a small one.
pub(crate) const SIZES: [u32; 2] = [1500, 100];

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
const NOTHING: &str = "–";

const fn words_column(name: &'static str) -> Column {
    Column {
        name,
        unit: "",
        words: true,
        roomy: false,
    }
}

const fn column(name: &'static str, unit: &'static str) -> Column {
    Column {
        name,
        unit,
        words: false,
        roomy: false,
    }
}

/// Whether a condition is evenkeel.
pub(crate) fn is_ours(condition: &str) -> bool {
    condition.starts_with("evenkeel")
}

/// Whether there is more than evenkeel and nothing to compare.
pub(crate) fn is_series(rows: &[Row<'_>]) -> bool {
    rows.iter()
        .any(|r| !matches!(r.condition, "none" | "evenkeel"))
}

/// Puts `lines`, each with its group's name, into groups, in the order of first appearance.
fn grouped(lines: impl Iterator<Item = (String, Line)>) -> Vec<Group> {
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

/// What a group of this load is called.
pub(crate) fn heading(load: &str) -> String {
    words::capital(&words::load(load))
}

/// The comparison.
pub(crate) fn comparison(rows: &[Row<'_>]) -> Grid {
    if is_series(rows) {
        series(rows)
    } else {
        pairs(rows)
    }
}

/// A speed, and in brackets what was kept of that under `none`.
fn speed(kbit: f64, kept: Option<f64>) -> String {
    let kept = kept.map(|k| format!(" ({})", words::percent(k)));
    if kbit > 0.0 {
        format!("{}{}", words::mbit(kbit), kept.unwrap_or_default())
    } else {
        NOTHING.to_owned()
    }
}

fn spread(s: Spread, runs: usize, show: fn(f64) -> String) -> String {
    if runs > 1 {
        format!("{} ({}–{})", show(s.median), show(s.min), show(s.max))
    } else {
        show(s.median)
    }
}

/// Without and with evenkeel: a scenario each.
fn pairs(rows: &[Row<'_>]) -> Grid {
    let mut groups: Vec<Group> = Vec::new();
    let mut load = None;
    for row in rows {
        let f = row.factor.as_ref();
        let line = Line {
            cells: vec![
                words::scenario(row),
                words::ms(row.ping.median),
                spread(row.increase, row.runs.len(), words::ms),
                words::ms(row.increase_p99.median),
                f.map_or(NOTHING.to_owned(), |f| words::times(f.factor)),
                speed(row.down_kbit, f.and_then(|f| f.down_kept)),
                speed(row.up_kbit, f.and_then(|f| f.up_kept)),
            ],
            ours: false,
        };
        match groups.last_mut() {
            Some(group) if load == Some(row.load) => group.lines.push(line),
            _ => groups.push(Group {
                name: None,
                lines: vec![line],
            }),
        }
        load = Some(row.load);
    }
    Grid {
        head: vec![
            words_column("Scenario"),
            column("Ping", "ms"),
            column("Increase", "ms"),
            column("99 % below", "ms"),
            column("Factor", ""),
            column("Download", "Mbit/s"),
            column("Upload", "Mbit/s"),
        ],
        groups,
        ..Grid::default()
    }
}

/// Many conditions: by load, three digits.
fn series(rows: &[Row<'_>]) -> Grid {
    let settles = rows.iter().any(|r| r.settle_s.is_some());
    let mut head = vec![
        words_column("Condition"),
        column("Ping", "ms"),
        column("Increase", "ms"),
        column("99 % below", "ms"),
        column("Factor", ""),
        column("Download", "Mbit/s"),
        column("Upload", "Mbit/s"),
    ];
    if settles {
        head.push(column("Settled", "s"));
    }
    let line = |row: &Row<'_>| {
        let f = row.factor.as_ref();
        let mut cells = vec![
            words::plain(row.condition),
            words::digits(row.ping.median),
            spread(row.increase, row.runs.len(), words::digits),
            spread(row.increase_p99, row.runs.len(), words::digits),
            f.map_or(NOTHING.to_owned(), |f| words::times(f.factor)),
            speed(row.down_kbit, f.and_then(|f| f.down_kept)),
            speed(row.up_kbit, f.and_then(|f| f.up_kept)),
        ];
        if settles {
            cells.push(row.settle_s.map_or(NOTHING.to_owned(), words::seconds));
        }
        Line {
            cells,
            ours: is_ours(row.condition),
        }
    };
    Grid {
        head,
        groups: grouped(rows.iter().map(|r| (heading(r.load), line(r)))),
        ..Grid::default()
    }
}

/// Everything after the comparison, in the order of reading; what has nothing to say is not there.
pub(crate) fn more(file: &ResultFile, rows: &[Row<'_>]) -> Vec<Grid> {
    [
        told(file, rows),
        cost(file, rows),
        published(file, rows),
        shares(rows),
        calls(rows),
        pages(rows),
    ]
    .into_iter()
    .filter(|grid| !grid.groups.is_empty())
    .collect()
}

/// What each condition was told, and how full that makes the line.
fn told(file: &ResultFile, rows: &[Row<'_>]) -> Grid {
    let facts: Vec<&ConditionFacts> = file
        .conditions
        .iter()
        .filter(|f| f.name != "none" && rows.iter().any(|r| r.condition == f.name))
        .collect();
    let share = |limit: Option<Charge>, line: Charge, size| {
        let fill = limit.filter(|_| !file.line.varies)?.fill(line, size);
        fill.is_finite().then(|| words::tenths(fill))
    };
    let (down, up) = verdict::line(file);
    let lines: Vec<Line> = facts
        .into_iter()
        .map(|f| {
            let told = if f.told.is_empty() {
                "nothing"
            } else {
                &f.told
            };
            let mut cells = vec![
                words::plain(&f.name),
                words::plain(&f.about),
                words::plain(told),
            ];
            for size in SIZES {
                for (limit, line) in [(f.down, down), (f.up, up)] {
                    cells.push(share(limit, line, size).unwrap_or(NOTHING.to_owned()));
                }
            }
            Line {
                cells,
                ours: is_ours(&f.name),
            }
        })
        .collect();
    let group = Group { name: None, lines };
    Grid {
        title: "What each was told, and how full that makes the line",
        head: vec![
            words_column("Condition"),
            Column {
                roomy: true,
                ..words_column("What it is")
            },
            words_column("Told by hand"),
            column("Down", "%, 1500 B"),
            column("Up", "%, 1500 B"),
            column("Down", "%, 100 B"),
            column("Up", "%, 100 B"),
        ],
        groups: if group.lines.is_empty() {
            Vec::new()
        } else {
            vec![group]
        },
        notes: vec![
            if file.line.varies {
                "The line changes by itself: no limit is a fixed share of it."
            } else {
                "The share of the line that packets of that size take when they come at the limit \
                 that was set. Above 100 % the queue stays in the modem or at the provider."
            }
            .to_owned(),
        ],
    }
}

/// Bandwidth given up against latency won.
fn cost(file: &ResultFile, rows: &[Row<'_>]) -> Grid {
    let lines = rows.iter().filter_map(|row| {
        let f = row.factor.as_ref()?;
        let none = rows
            .iter()
            .find(|r| r.load == row.load && r.condition == "none")?;
        let given_up =
            |kept: Option<f64>| kept.map_or(NOTHING.to_owned(), |k| words::tenths(1.0 - k));
        let won = |figure: fn(&Row<'_>) -> f64| words::digits(figure(none) - figure(row));
        let cells = vec![
            words::plain(row.condition),
            given_up(f.down_kept),
            given_up(f.up_kept),
            won(|r| r.increase.median),
            won(|r| r.increase_p99.median),
            words::times(f.factor),
        ];
        let ours = is_ours(row.condition);
        Some((heading(row.load), Line { cells, ours }))
    });
    let mut notes = vec![
        "Against none: the goodput that is missing (below zero: there is more), and how much \
         less the ping rises."
            .to_owned(),
    ];
    notes.extend(verdict::sentences(file, rows));
    Grid {
        title: "What it costs and what it brings",
        head: vec![
            words_column("Condition"),
            column("Given up", "down, %"),
            column("Given up", "up, %"),
            column("Won", "average, ms"),
            column("Won", "99 %, ms"),
            column("Factor", ""),
        ],
        groups: grouped(lines),
        notes,
    }
}

/// A figure's head, and its value in our runs, in its unit.
fn figure(figure: Figure, row: &Row<'_>, none: Option<&Row<'_>>) -> Option<f64> {
    let of = |f: fn(&Run) -> f64| median(&row.runs.iter().map(|r| f(r)).collect::<Vec<_>>());
    let f = row.factor.as_ref();
    match figure {
        Figure::PingMin => of(|r| r.ping_ms.min),
        Figure::PingAvg => Some(row.ping.median),
        Figure::PingMedian => of(|r| r.ping_ms.median),
        Figure::PingMax => of(|r| r.ping_ms.max),
        Figure::PingStddev => of(|r| r.ping_ms.stddev),
        Figure::PingFactor => f.and(none).map(|n| n.ping.median / row.ping.median),
        Figure::IncreaseAvg => (row.load != "idle").then_some(row.increase.median),
        Figure::IncreaseMedian => of(|r| r.increase_ms.median),
        Figure::IncreaseP90 => of(|r| r.increase_ms.p90),
        Figure::IncreaseFactor => f.map(|f| f.factor),
        Figure::GoodputDown => Some(row.down_kbit / 1000.0).filter(|v| *v > 0.0),
        Figure::GoodputUp => Some(row.up_kbit / 1000.0).filter(|v| *v > 0.0),
        Figure::GivenUpDown => f.and_then(|f| f.down_kept).map(|k| (1.0 - k) * 100.0),
        Figure::GivenUpUp => f.and_then(|f| f.up_kept).map(|k| (1.0 - k) * 100.0),
        Figure::Settle => row.settle_s,
    }
}

/// The columns that figures can have, in their order.
const FIGURES: [(Figure, Column); 15] = [
    (Figure::PingMin, column("Least", "ms")),
    (Figure::PingAvg, column("Average", "ms")),
    (Figure::PingMedian, column("Median", "ms")),
    (Figure::PingMax, column("Worst", "ms")),
    (Figure::PingStddev, column("Std dev", "ms")),
    (Figure::PingFactor, column("Ping", "times less")),
    (Figure::IncreaseAvg, column("Increase", "ms")),
    (Figure::IncreaseMedian, column("Increase", "median, ms")),
    (Figure::IncreaseP90, column("Increase", "p90, ms")),
    (Figure::IncreaseFactor, column("Factor", "")),
    (Figure::GoodputDown, column("Download", "Mbit/s")),
    (Figure::GoodputUp, column("Upload", "Mbit/s")),
    (Figure::GivenUpDown, column("Given up", "down, %")),
    (Figure::GivenUpUp, column("Given up", "up, %")),
    (Figure::Settle, column("Settled", "s")),
];

/// What others found, above what was found here.
fn published(file: &ResultFile, rows: &[Row<'_>]) -> Grid {
    let measured = |p: &&Published| rows.iter().any(|r| r.load == p.load);
    let all: Vec<&Published> = file.published.iter().filter(measured).collect();
    let shown: Vec<(Figure, Column)> = FIGURES
        .into_iter()
        .filter(|(f, _)| all.iter().any(|p| p.figure == *f))
        .collect();
    let mut groups = Vec::new();
    let mut loads: Vec<&str> = rows.iter().map(|r| r.load).collect();
    loads.dedup();
    for load in loads {
        let of_load: Vec<&Published> = all.iter().copied().filter(|p| p.load == load).collect();
        let row = |name: &str| rows.iter().find(|r| r.load == load && r.condition == name);
        let mut lines: Vec<Line> = Vec::new();
        let ours = |lines: &mut Vec<Line>, condition: &str| {
            let Some(found) = row(condition) else { return };
            let mut cells = vec![format!("here: {}", words::plain(condition))];
            cells.extend(shown.iter().map(|(f, _)| {
                let value = figure(*f, found, row("none"));
                value.map_or(NOTHING.to_owned(), words::digits)
            }));
            lines.push(Line {
                cells,
                ours: is_ours(condition),
            });
        };
        let mut done: Vec<(&str, &str)> = Vec::new();
        let none_first = |none| {
            of_load
                .iter()
                .filter(move |p| (p.condition == "none") == none)
        };
        for p in none_first(true).chain(none_first(false)) {
            let key = (p.condition.as_str(), p.shaper.as_str());
            if done.contains(&key) {
                continue;
            }
            done.push(key);
            let by = if p.shaper.is_empty() {
                "no shaper".to_owned()
            } else {
                words::plain(&p.shaper)
            };
            let mut cells = vec![format!("published: {by}")];
            cells.extend(shown.iter().map(|(f, _)| {
                let theirs = |o: &&&Published| {
                    o.figure == *f && (o.condition.as_str(), o.shaper.as_str()) == key
                };
                of_load
                    .iter()
                    .find(theirs)
                    .map_or(NOTHING.to_owned(), |p| given(p))
            }));
            lines.push(Line { cells, ours: false });
            ours(&mut lines, key.0);
        }
        // Beside other people's designs, our own.
        if !done.is_empty() && done.iter().all(|d| d.0 != "evenkeel") {
            ours(&mut lines, "evenkeel");
        }
        if !lines.is_empty() {
            groups.push(Group {
                name: Some(heading(load)),
                lines,
            });
        }
    }
    let mut sources: Vec<String> = all.iter().map(|p| words::plain(&p.source)).collect();
    let mut seen: Vec<String> = Vec::new();
    sources.retain(|s| {
        let new = !seen.contains(s);
        seen.push(s.clone());
        new
    });
    Grid {
        title: "As published, and here",
        head: std::iter::once(words_column("Scenario"))
            .chain(shown.iter().map(|s| s.1))
            .collect(),
        groups,
        notes: vec![format!("Published figures: {}.", sources.join("; "))],
    }
}

/// A published value as it was given.
fn given(p: &Published) -> String {
    let number = |v: f64| {
        if v.is_finite() && v.abs() < 1e7 {
            let text = format!("{v:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            NOTHING.to_owned()
        }
    };
    let range = match p.to {
        Some(to) => format!("{}–{}", number(p.value), number(to)),
        None => number(p.value),
    };
    format!("{} {range}", words::plain(&p.qualifier))
        .trim_start()
        .to_owned()
}

/// The flows of one direction (the first part of their names), together.
fn by_direction<T>(flows: &BTreeMap<String, T>) -> BTreeMap<&str, Vec<&T>> {
    let mut found: BTreeMap<&str, Vec<&T>> = BTreeMap::new();
    for (name, flow) in flows {
        let direction = name.split('/').next().unwrap_or_default();
        found.entry(direction).or_default().push(flow);
    }
    found
}

/// The median over the runs of a figure that some may lack.
fn over_runs(values: impl Iterator<Item = Option<f64>>, show: fn(f64) -> String) -> String {
    let values: Vec<f64> = values.flatten().collect();
    median(&values).map_or(NOTHING.to_owned(), show)
}

/// `v` weighted by `n`.
fn mean(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), (v, w)| (sum + v * w, n + w));
    (n > 0.0).then(|| sum / n)
}

/// The largest, if there is any.
fn worst(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

/// One line per load, direction and condition that has flows of a kind.
fn flow_lines<'a, T>(
    rows: &'a [Row<'a>],
    flows: fn(&Run) -> &BTreeMap<String, T>,
    cells: impl Fn(&[Vec<&T>]) -> Vec<String>,
) -> Vec<Group> {
    let mut lines = Vec::new();
    for row in rows {
        let mut directions: BTreeMap<&str, Vec<Vec<&T>>> = BTreeMap::new();
        for run in &row.runs {
            for (direction, found) in by_direction(flows(run)) {
                directions.entry(direction).or_default().push(found);
            }
        }
        for (direction, runs) in directions {
            let mut line = vec![words::plain(row.condition)];
            line.extend(cells(&runs));
            let way = match direction {
                "down" => "to the customer",
                "up" => "from the customer",
                other => other,
            };
            let group = format!("{}, {}", heading(row.load), words::plain(way));
            let ours = is_ours(row.condition);
            lines.push((group, Line { cells: line, ours }));
        }
    }
    // A direction's conditions stand together.
    grouped(lines.into_iter())
}

/// Jain's index of fairness (1984): 1 if all are equal, 1/n if one has everything.
fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    (squares > 0.0).then(|| sum * sum / squares / values.len() as f64)
}

/// The long flows of a run by direction, and within it by who talks to whom.
fn parties(run: &Run) -> BTreeMap<&str, BTreeMap<&str, Vec<f64>>> {
    let mut found: BTreeMap<&str, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for (name, kbit) in &run.flows_kbit {
        // Direction, client and server, number; other kinds of flows have letters there.
        if let Some((direction, rest)) = name.split_once('/')
            && let Some((party, number)) = rest.rsplit_once('/')
            && number.bytes().all(|b| b.is_ascii_digit())
        {
            let of = found.entry(direction).or_default();
            of.entry(party).or_default().push(*kbit);
        }
    }
    found
}

/// Who got what, where there is something to share: several hosts or servers in one direction.
fn shares(rows: &[Row<'_>]) -> Grid {
    let mut lines = Vec::new();
    for row in rows {
        let runs: Vec<_> = row.runs.iter().map(|r| parties(r)).collect();
        let Some(first) = runs.first() else { continue };
        for (direction, all) in first.iter().filter(|d| d.1.len() > 1) {
            for (party, flows) in all {
                let of = |figure: &dyn Fn(&[f64], f64) -> Option<f64>| {
                    let values = runs.iter().map(|run| {
                        let all = run.get(direction)?;
                        figure(all.get(party)?, all.values().flatten().sum())
                    });
                    values.collect::<Vec<_>>()
                };
                let sum = |of: &[f64]| of.iter().sum::<f64>();
                let cells = vec![
                    words::plain(row.condition),
                    words::plain(&party.replace('/', ", ")),
                    flows.len().to_string(),
                    over_runs(of(&|f, _| Some(sum(f))).into_iter(), words::mbit),
                    over_runs(
                        of(&|f, total| (total > 0.0).then(|| sum(f) / total)).into_iter(),
                        words::tenths,
                    ),
                    if flows.len() > 1 {
                        over_runs(of(&|f, _| jain(f)).into_iter(), |v| format!("{v:.3}"))
                    } else {
                        NOTHING.to_owned()
                    },
                ];
                let way = match *direction {
                    "down" => "to the customer",
                    "up" => "from the customer",
                    other => other,
                };
                let group = format!("{}, {}", heading(row.load), words::plain(way));
                let ours = is_ours(row.condition);
                lines.push((group, Line { cells, ours }));
            }
        }
    }
    Grid {
        title: "Who got what",
        head: vec![
            words_column("Condition"),
            words_column("Between"),
            column("Flows", ""),
            column("Goodput", "Mbit/s"),
            column("Share", "%"),
            column("Jain", ""),
        ],
        groups: grouped(lines.into_iter()),
        notes: vec![
            "Shares are of the direction's goodput; Jain's index is among the flows of one line: 1 \
             if all are equal."
                .to_owned(),
        ],
    }
}

/// What calls met.
fn calls(rows: &[Row<'_>]) -> Grid {
    let cells = |runs: &[Vec<&Call>]| {
        let sent = |calls: &[&Call]| calls.iter().map(|c| c.sent as f64).sum::<f64>();
        let delays = |calls: &[&Call], f: fn(&evenkeel_core::Summary) -> f64| {
            let of = calls.iter().filter_map(|c| c.delay_ms.as_ref());
            of.map(|d| (f(d), d.n as f64)).collect::<Vec<_>>()
        };
        vec![
            over_runs(
                runs.iter().map(|c| mean(delays(c, |d| d.avg).into_iter())),
                words::digits,
            ),
            over_runs(
                runs.iter()
                    .map(|c| worst(delays(c, |d| d.p99).into_iter().map(|d| d.0))),
                words::digits,
            ),
            over_runs(
                runs.iter()
                    .map(|c| mean(c.iter().map(|c| (c.jitter_ms, c.sent as f64)))),
                words::digits,
            ),
            over_runs(
                runs.iter().map(|c| {
                    let lost: f64 = c.iter().map(|c| c.lost as f64).sum();
                    let sent = sent(c);
                    (sent > 0.0).then(|| lost / sent)
                }),
                words::tenths,
            ),
        ]
    };
    Grid {
        title: "Calls",
        head: vec![
            words_column("Condition"),
            column("Delay", "ms"),
            column("99 % below", "ms"),
            column("Jitter", "ms"),
            column("Lost", "%"),
        ],
        groups: flow_lines(rows, |r| &r.calls, cells),
        notes: vec![
            "One way, from sender to receiver; of several calls the worst 99 %.".to_owned(),
        ],
    }
}

/// How long short connections took.
fn pages(rows: &[Row<'_>]) -> Grid {
    let cells = |runs: &[Vec<&Pages>]| {
        let times = |pages: &[&Pages], f: fn(&evenkeel_core::Summary) -> f64| {
            let of = pages.iter().filter_map(|p| p.time_ms.as_ref());
            of.map(|t| (f(t), t.n as f64)).collect::<Vec<_>>()
        };
        let sum = |f: fn(&Pages) -> u64| {
            let all = runs
                .iter()
                .map(|p| Some(p.iter().map(|p| f(p) as f64).sum()));
            over_runs(all, |v| format!("{v:.0}"))
        };
        let slowest = |f: fn(&evenkeel_core::Summary) -> f64| {
            let of = runs
                .iter()
                .map(|p| worst(times(p, f).into_iter().map(|t| t.0)));
            over_runs(of, words::digits)
        };
        vec![
            format!("{} of {}", sum(|p| p.finished), sum(|p| p.begun)),
            over_runs(
                runs.iter()
                    .map(|p| mean(times(p, |t| t.median).into_iter())),
                words::digits,
            ),
            slowest(|t| t.p95),
            slowest(|t| t.p99),
        ]
    };
    Grid {
        title: "Pages",
        head: vec![
            words_column("Condition"),
            column("Finished", ""),
            column("Median", "ms"),
            column("95 % below", "ms"),
            column("99 % below", "ms"),
        ],
        groups: flow_lines(rows, |r| &r.pages, cells),
        notes: vec!["Short connections, from connect to the last byte.".to_owned()],
    }
}
