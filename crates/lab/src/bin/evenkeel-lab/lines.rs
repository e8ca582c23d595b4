//! `lab lines`: the controller of `run` on lines drawn from ranges, as fluids.
//!
//! Principles: the same seeds are the same lines; what is counted is what the controller promises
//! (capacity within 5 % at the end of loads in which the line was full for 3 s and ten round trips;
//! never below half the truth for 3 s while loaded; no queue over 50 ms or three packets for longer
//! than 2 s or eight round trips). Non-goals: the model of lines and senders
//! (`evenkeel_core::fluid`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use evenkeel_core::fluid::{Judged, Scene, draw, run};
use evenkeel_terminal::table::{Table, figures, words};
use evenkeel_terminal::{Failure, print};
use serde::Serialize;

/// Arguments of `lab lines`.
#[derive(Debug, Args)]
pub(crate) struct Lines {
    /// How many lines; each is loaded on and off for five minutes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
    /// Seed of the first
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
        self.starved += u64::from(j.starved > 3.0);
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
    let next = AtomicU64::new(0);
    let all = Mutex::new(Sums::default());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..workers {
            s.spawn(|| {
                let mut own = Sums::default();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= args.count {
                        break;
                    }
                    let scene = draw(args.seed.wrapping_add(n));
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
    let mut sums = all.into_inner().unwrap_or_else(PoisonError::into_inner);
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
