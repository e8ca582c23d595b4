//! `lab framing`: what `evenkeel line` finds on drawn lines, in arithmetic.
//!
//! Principles: the same seeds are the same lines; a verdict counts as wrong when the mode is, or the overhead
//! is more than four bytes off, however sure it was; no verdict is not wrong, but counted. Non-goals: the
//! estimators and the model of lines (`evenkeel_core::linklayer`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use evenkeel_core::Direction;
use evenkeel_core::linklayer::idle::Stairs;
use evenkeel_core::linklayer::world::{Family, FarEnd, Outcome, Scene, draw, judge, run, sweep};
use evenkeel_terminal::table::{Table, figures, words};
use evenkeel_terminal::{Failure, print};
use serde::Serialize;

/// Arguments of `lab framing`.
#[derive(Debug, Args)]
pub(crate) struct Framing {
    /// How many lines, 1/0.3 to 1000/200 Mbit/s, of all framings that tc-cake(8) has a word for
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
    /// Seed of the first
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Lines with 2 ms of jitter each way, of which others use 5 %
    #[arg(long)]
    noisy: bool,
    /// What answers: serves, limits (three echoes a second, no trains back), stalls, silent
    #[arg(long, default_value = "serves", value_parser = ["serves", "limits", "stalls", "silent"])]
    far_end: String,
    /// Trains may take so many seconds of the line each way
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = budget)]
    budget: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What directions of one family came to.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Sum {
    directions: u64,
    found: u64,
    mode: u64,
    within_4: u64,
    exact: u64,
    capacity: u64,
    wrong: u64,
    /// The most that was seen: s of time, and s of what the line carries.
    lasted: f64,
    used: f64,
    /// Full packets lose so much to what is assumed where nothing was found, added up.
    price: f64,
    /// Lines of which echoes of many sizes alone say what is so, nothing, or what is not so.
    echoes_right: u64,
    echoes_silent: u64,
    echoes_wrong: u64,
}

impl Sum {
    fn add(&mut self, scene: &Scene, o: &Outcome, d: Direction) {
        let v = &o.survey.direction[d];
        let right = judge(scene, d, v);
        self.directions += 1;
        self.found += u64::from(right.found);
        self.mode += u64::from(right.found && right.mode);
        self.within_4 += u64::from(right.found && right.mode && right.off <= 4);
        self.exact += u64::from(right.exact);
        self.capacity += u64::from(right.found && right.capacity <= 0.005);
        self.wrong += u64::from(right.found && !(right.mode && right.off <= 4));
        self.lasted = self.lasted.max(o.lasted);
        self.used = self.used.max(o.used[d]);
        self.price += v.price(scene.mtu);
    }

    fn add_echoes(&mut self, scene: &Scene, stairs: Stairs) {
        let cells = scene.family == Family::Atm;
        let place = match stairs {
            Stairs::Cells { overhead, .. } if cells && overhead == scene.framing.up.overhead => {
                &mut self.echoes_right
            }
            Stairs::Straight { .. } if !cells => &mut self.echoes_right,
            Stairs::Unknown | Stairs::Fast => &mut self.echoes_silent,
            _ => &mut self.echoes_wrong,
        };
        *place += 1;
    }

    fn join(&mut self, o: &Sum) {
        self.directions += o.directions;
        self.found += o.found;
        self.mode += o.mode;
        self.within_4 += o.within_4;
        self.exact += o.exact;
        self.capacity += o.capacity;
        self.wrong += o.wrong;
        self.lasted = self.lasted.max(o.lasted);
        self.used = self.used.max(o.used);
        self.price += o.price;
        self.echoes_right += o.echoes_right;
        self.echoes_silent += o.echoes_silent;
        self.echoes_wrong += o.echoes_wrong;
    }
}

fn budget(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if (0.5..=60.0).contains(&v) => Ok(v),
        _ => Err("it is no number of seconds from 0.5 to 60".into()),
    }
}

/// `evenkeel lab framing`.
pub(crate) fn framing(args: &Framing) -> Result<(), Failure> {
    let sums = survey(args);
    if args.json {
        return print(&(serde_json::to_string_pretty(&sums).map_err(Failure::work)? + "\n"));
    }
    let percent = |part: u64, of: u64| match of {
        0 => "–".to_owned(),
        of => format!("{:.1} %", 100.0 * part as f64 / of as f64),
    };
    let heads = [
        "directions",
        "known",
        "mode right",
        "exact",
        "within 4",
        "rate 0.5 %",
        "wrong",
        "longest",
        "most used",
        "price",
        "echoes alone",
        "silent",
        "wrong",
    ];
    let mut table = Table::new(&[vec![words("")], heads.map(figures).to_vec()].concat());
    let mut all = Sum::default();
    for sum in sums.values() {
        all.join(sum);
    }
    let rows = sums.iter().map(|(f, s)| (f.words(), s));
    for (name, s) in rows.chain([("all", &all)]) {
        let lines = s.echoes_right + s.echoes_silent + s.echoes_wrong;
        let unknown = (s.directions - s.found).max(1) as f64;
        table.row([
            name.to_owned(),
            s.directions.to_string(),
            percent(s.found, s.directions),
            percent(s.mode, s.found),
            percent(s.exact, s.found),
            percent(s.within_4, s.found),
            percent(s.capacity, s.found),
            s.wrong.to_string(),
            format!("{:.1} s", s.lasted),
            format!("{:.2} s", s.used),
            format!("{:.1} %", 100.0 * s.price / unknown),
            percent(s.echoes_right, lines),
            percent(s.echoes_silent, lines),
            s.echoes_wrong.to_string(),
        ]);
    }
    print(&format!(
        "{} lines of 1/0.3 to 1000/200 Mbit/s{}; right: of what is known; most used: of the line's seconds\n{table}",
        args.count,
        if args.noisy {
            ", 2 ms of jitter each way, others use 5 %"
        } else {
            ""
        }
    ))
}

fn survey(args: &Framing) -> BTreeMap<Family, Sum> {
    let far = match args.far_end.as_str() {
        "limits" => FarEnd::Limits(3.0),
        "stalls" => FarEnd::Stalls,
        "silent" => FarEnd::Silent,
        _ => FarEnd::Serves,
    };
    let next = AtomicU64::new(0);
    let all: Mutex<BTreeMap<Family, Sum>> = Mutex::default();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..workers {
            s.spawn(|| {
                let mut own: BTreeMap<Family, Sum> = BTreeMap::new();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= args.count {
                        break;
                    }
                    let scene = Scene {
                        far,
                        budget: args.budget,
                        ..draw(args.seed.wrapping_add(n), args.noisy)
                    };
                    let outcome = run(&scene);
                    let sum = own.entry(scene.family).or_default();
                    for d in Direction::BOTH {
                        sum.add(&scene, &outcome, d);
                    }
                    sum.add_echoes(&scene, sweep(&scene));
                }
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                for (family, sum) in own {
                    all.entry(family).or_default().join(&sum);
                }
            });
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}
