//! `lab lines`: the controller of `run` on lines drawn from ranges, as fluids.
//!
//! Principles: the same seeds are the same lines; what is counted is what the controller promises
//! (capacity within 5 % at the end of loads in which the line was full for 3 s and ten round trips;
//! never below half the truth for 3 s or twelve round trips while loaded; no queue over 50 ms or three packets for longer
//! than 2 s or eight round trips). Non-goals: the model of lines and senders
//! (`evenkeel_core::fluid`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use evenkeel_core::Direction;
use evenkeel_core::control::Rule;
use evenkeel_core::fluid::{Change, Judged, Scene, draw, draw_change, run};
use evenkeel_terminal::table::{Table, figures, words};
use evenkeel_terminal::{Failure, print};
use serde::Serialize;

/// TCP's own start from ten packets to half of 300 Mbit/s takes so many round trips at 600 ms (RFC 6928, RFC 5681).
const START: f64 = 12.0;

/// Arguments of `lab lines`.
#[derive(Debug, Args)]
pub(crate) struct Lines {
    /// How many lines; each is loaded on and off for five minutes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
    /// Seed of the first
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Lines on which something happens instead: they fall, rise, are shared ...; 100 s each
    #[arg(long)]
    changes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which lines are drawn, and what the controller does without.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drawn {
    pub(crate) seed: u64,
    pub(crate) count: u64,
    pub(crate) without: Option<Rule>,
}

impl Drawn {
    fn of(args: &Lines) -> Self {
        Drawn {
            seed: args.seed,
            count: args.count,
            without: None,
        }
    }
}

/// What directions of one kind came to.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Sum {
    directions: u64,
    looks: u64,
    right: u64,
    starved: u64,
    queued: u64,
}

impl Sum {
    fn add(&mut self, scene: &Scene, j: &Judged) {
        self.directions += 1;
        self.looks += u64::from(j.looks);
        self.right += u64::from(j.right);
        self.starved += u64::from(j.starved > f64::max(3.0, START * scene.rtt));
        self.queued += u64::from(j.queued > f64::max(2.0, 8.0 * scene.rtt));
    }

    fn join(&mut self, other: &Sum) {
        self.directions += other.directions;
        self.looks += other.looks;
        self.right += other.right;
        self.starved += other.starved;
        self.queued += other.queued;
    }
}

/// Directions by what the far side tells, from us and towards us.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Sums {
    stamped_up: Sum,
    stamped_down: Sum,
    unstamped_up: Sum,
    unstamped_down: Sum,
}

impl Sums {
    fn rows(&mut self) -> [(&'static str, &mut Sum); 4] {
        [
            ("upload, far side stamps", &mut self.stamped_up),
            ("download, far side stamps", &mut self.stamped_down),
            ("upload, without stamps", &mut self.unstamped_up),
            ("download, without stamps", &mut self.unstamped_down),
        ]
    }
}

/// `evenkeel lab lines`.
pub(crate) fn lines(args: &Lines) -> Result<(), Failure> {
    if args.changes {
        return changes(args);
    }
    let mut sums = sums(Drawn::of(args));
    if args.json {
        return print(&(serde_json::to_string_pretty(&sums).map_err(Failure::work)? + "\n"));
    }
    let percent = |part: u64, of: u64| format!("{:.1} %", 100.0 * part as f64 / of.max(1) as f64);
    let heads = ["directions", "capacity right", "starved", "queued"];
    let mut table = Table::new(&[vec![words("")], heads.map(figures).to_vec()].concat());
    for (name, s) in sums.rows() {
        table.row([
            name.to_owned(),
            s.directions.to_string(),
            percent(s.right, s.looks),
            percent(s.starved, s.directions),
            percent(s.queued, s.directions),
        ]);
    }
    print(&format!(
        "{} lines of 0.3 Mbit/s to 2 Gbit/s, 2 to 600 ms, five minutes each\n{table}",
        args.count
    ))
}

/// What the lines that are drawn came to.
fn sums(drawn: Drawn) -> Sums {
    let next = AtomicU64::new(0);
    let all = Mutex::new(Sums::default());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..workers {
            s.spawn(|| {
                let mut own = Sums::default();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= drawn.count {
                        break;
                    }
                    let mut scene = draw(drawn.seed.wrapping_add(n));
                    scene.without = drawn.without;
                    let judged = run(&scene, &mut |_, _| {});
                    let rows = own.rows();
                    let first = if scene.stamps { 0 } else { 2 };
                    for ((_, sum), j) in rows.into_iter().skip(first).zip(judged) {
                        sum.add(&scene, &j);
                    }
                }
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                for ((_, sum), (_, own)) in all.rows().into_iter().zip(own.rows()) {
                    sum.join(own);
                }
            });
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What is heard of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Heard {
    /// The far side stamps probes.
    Stamps,
    /// Round trips of probes.
    RoundTrips,
    /// Only round trips of connections that pass.
    Connections,
}

impl Heard {
    const ALL: [Heard; 3] = [Heard::Stamps, Heard::RoundTrips, Heard::Connections];

    fn words(self) -> &'static str {
        match self {
            Heard::Stamps => "stamps",
            Heard::RoundTrips => "round trips",
            Heard::Connections => "connections",
        }
    }
}

/// What one kind of change came to, in one direction, where so much is heard.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Changed {
    change: &'static str,
    heard: &'static str,
    direction: Direction,
    lines: u64,
    /// Share of loads at whose end the capacity was right.
    right: f64,
    /// What passed, of what could have, on average.
    pub(crate) used: f64,
    /// Mean queue, ms.
    pub(crate) queue_ms: f64,
    /// Share of lines that were below half of their rate for 4 s.
    pub(crate) starved: f64,
    /// Share of lines on which a queue stood for 3 s.
    pub(crate) queued: f64,
}

/// `evenkeel lab lines --changes`: each kind of change on as many lines.
fn changes(args: &Lines) -> Result<(), Failure> {
    let rows = all_changes(Drawn::of(args));
    if args.json {
        return print(&(serde_json::to_string_pretty(&rows).map_err(Failure::work)? + "\n"));
    }
    let heads = ["capacity right", "used", "mean queue", "starved", "queued"];
    let mut columns = ["", "heard", "direction"].map(words).to_vec();
    columns.extend(heads.map(figures));
    let mut table = Table::new(&columns);
    for r in &rows {
        table.row([
            r.change.to_owned(),
            r.heard.to_owned(),
            r.direction.to_string(),
            format!("{:.1} %", 100.0 * r.right),
            format!("{:.1} %", 100.0 * r.used),
            format!("{:.1} ms", r.queue_ms),
            format!("{:.1} %", 100.0 * r.starved),
            format!("{:.1} %", 100.0 * r.queued),
        ]);
    }
    print(&format!(
        "{} lines of 0.5 to 300 Mbit/s for each row, 100 s each; starved: below half for 4 s; queued: for 3 s\n{table}",
        args.count
    ))
}

/// Each kind of change, where each kind of thing is heard, in both directions.
pub(crate) fn all_changes(drawn: Drawn) -> Vec<Changed> {
    let mut rows = Vec::new();
    for change in Change::ALL {
        for heard in Heard::ALL {
            for d in Direction::BOTH {
                rows.push(changed(drawn, change, heard, d));
            }
        }
    }
    rows
}

fn changed(drawn: Drawn, change: Change, heard: Heard, d: Direction) -> Changed {
    let next = AtomicU64::new(0);
    let all: Mutex<Vec<Judged>> = Mutex::default();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..workers {
            s.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= drawn.count {
                        break;
                    }
                    let mut scene = draw_change(drawn.seed.wrapping_add(n), change, d);
                    scene.without = drawn.without;
                    scene.stamps = heard == Heard::Stamps;
                    scene.silent = heard == Heard::Connections;
                    let judged = run(&scene, &mut |_, _| {})[d];
                    all.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(judged);
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    // In an order of their own: the same lines are the same figures to the last digit.
    all.sort_by(|a, b| a.passed.total_cmp(&b.passed));
    let lines = all.len() as f64;
    let mean = |f: fn(&Judged) -> f64| all.iter().map(f).sum::<f64>() / lines;
    let sum = |f: fn(&Judged) -> u32| f64::from(all.iter().map(f).sum::<u32>());
    Changed {
        change: change.words(),
        heard: heard.words(),
        direction: d,
        lines: drawn.count,
        right: sum(|j| j.right) / sum(|j| j.looks).max(1.0),
        used: mean(|j| j.passed / j.possible.max(1.0)),
        // The load lasts for 96 s.
        queue_ms: mean(|j| 1e3 * j.queue / 96.0),
        starved: mean(|j| f64::from(u8::from(j.starved > 4.0))),
        queued: mean(|j| f64::from(u8::from(j.queued > 3.0))),
    }
}
