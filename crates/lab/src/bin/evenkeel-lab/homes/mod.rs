//! `lab homes`: `run` in homes that nobody chose, in virtual time with real TCP.
//!
//! Principles: the same seeds are the same homes; each is run without anything, with CAKE at 95 % of
//! what was sold, with evenkeel that is told what the line carries at each moment, and with evenkeel
//! that was told nothing, for the first time and again; what is shown is what that costs beside the one
//! that is told, over all homes, and the homes where it costs most, so that a person can run them alone. What was
//! measured before is not measured again. Non-goals: the model of lines alone, which is faster (`lines`).

mod draw;
mod judge;
mod limits;
mod show;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use evenkeel_core::result::ResultFile;
use evenkeel_lab::guest::Guests;
use evenkeel_lab::{CellCache, Engine, Experiment, LabError, Progress, RunOptions};
use evenkeel_terminal::table::{self, Table};
use evenkeel_terminal::{Failure, StatusLine, cancelled_by_signals, print};
use serde::Serialize;

use crate::progress;
use crate::today::today;
use draw::CONDITIONS;
pub(crate) use draw::{Home, draw};
#[cfg(test)]
pub(crate) use judge::Regret;
pub(crate) use judge::{Judged, Kind};
use show::{Outcome, summary};

/// What the others are judged beside.
pub(crate) const ORACLE: &str = "evenkeel-oracle";
/// Beside what those are judged who share a line.
const NONE: &str = "none";

/// Arguments of `lab homes`.
#[derive(Debug, Args)]
pub(crate) struct Homes {
    /// How many homes; each is run under five conditions for 40 s
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    count: u64,
    /// Seed of the first
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these conditions beside evenkeel-oracle: evenkeel-auto,none
    #[arg(long, value_delimiter = ',')]
    conditions: Vec<String>,
    /// Measure again what was measured before with the same code, kernel and seed
    #[arg(long)]
    fresh: bool,
    /// Directory for the worst homes: their files, and reports with pictures; with --list for the files of all
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the homes and measure none
    #[arg(long)]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A home that is only drawn, for programs.
#[derive(Debug, Serialize)]
struct Listed {
    seed: u64,
    about: String,
    kinds: Vec<&'static str>,
}

/// The homes that are drawn, and in the directory that was asked for the experiment's file of each.
fn list(seeds: Range<u64>, args: &Homes) -> Result<(), Failure> {
    let mut homes = Vec::new();
    for seed in seeds {
        let home = draw(seed)?;
        if let Some(out) = &args.out {
            write_file(&home, out)?;
        }
        let Home { about, kinds, .. } = home;
        homes.push(Listed { seed, about, kinds });
    }
    if args.json {
        return print(&(serde_json::to_string_pretty(&homes).map_err(Failure::work)? + "\n"));
    }
    let mut table = Table::new(&[table::figures("seed"), table::words("home")]);
    for home in homes {
        table.row([home.seed.to_string(), home.about]);
    }
    print(&table.to_string())
}

/// `evenkeel lab homes`.
pub(crate) fn homes(args: &Homes) -> Result<(), Failure> {
    let seeds = args.seed..args.seed.saturating_add(args.count);
    if let Some(out) = &args.out {
        // An unwritable place is better known before an hour of work than after it.
        fs::create_dir_all(out)
            .map_err(|e| Failure::work(format_args!("create {}: {e}", out.display())))?;
    }
    if args.list {
        return list(seeds, args);
    }
    let cancel = cancelled_by_signals()?;
    let (mut outcomes, mut failed) = (Vec::new(), Vec::new());
    let conditions = conditions(args);
    for seed in seeds {
        let home = draw(seed)?;
        let done = (outcomes.len() + failed.len() + 1, args.count);
        let result = match measure(&home, &conditions, args.fresh, done, &cancel) {
            // What was measured until then is shown.
            Err(LabError::Cancelled) if !outcomes.is_empty() => break,
            // A flow that gets nothing at all says something of this home, and nothing of the next.
            Err(e) if !matches!(e, LabError::Cancelled) && args.count > 1 => {
                eprintln!("home {seed}: {e}: {}", home.about);
                failed.push(e);
                continue;
            }
            result => result?,
        };
        outcomes.push(judge(&home, result));
    }
    if outcomes.is_empty()
        && let Some(e) = failed.pop()
    {
        return Err(e.into());
    }
    if let Some(out) = &args.out {
        for outcome in show::worst(&outcomes) {
            keep(outcome, out)?;
        }
    }
    if args.json {
        return print(&(serde_json::to_string_pretty(&outcomes).map_err(Failure::work)? + "\n"));
    }
    print(&summary(&outcomes, failed.len()))
}

/// Those that were asked for, and the oracle before them.
fn conditions(args: &Homes) -> Vec<String> {
    if args.conditions.is_empty() {
        return CONDITIONS.iter().map(|&c| c.to_owned()).collect();
    }
    let mut conditions = args.conditions.clone();
    conditions.retain(|c| c != ORACLE);
    conditions.insert(0, ORACLE.to_owned());
    conditions
}

/// Runs one home; `done`: which one of how many it is.
pub(crate) fn measure(
    home: &Home,
    conditions: &[String],
    fresh: bool,
    done: (usize, u64),
    cancel: &AtomicBool,
) -> Result<ResultFile, LabError> {
    let experiment = Experiment::parse(&home.text, Path::new("home.toml"))?;
    let options = RunOptions {
        conditions: conditions.to_vec(),
        seed: home.seed,
        command: format!("evenkeel lab homes --count 1 --seed {}", home.seed),
        ..RunOptions::default()
    };
    let cache = CellCache::open(&experiment, Engine::Virtual, !fresh)?;
    let guests = Guests::new(Engine::Virtual, &home.text)?;
    let mut line = StatusLine::new();
    let mut show = |p: &Progress<'_>| {
        let name = format!("[home {} of {}] {}", done.0, done.1, p.cell.condition);
        progress::show(&mut line, p, &name);
    };
    let result = evenkeel_lab::run(&experiment, &options, &guests, &cache, &mut show, cancel);
    line.clear();
    let mut result = result?;
    result.date = today();
    Ok(result)
}

/// What each condition costs beside the oracle.
pub(crate) fn judge(home: &Home, result: ResultFile) -> Outcome {
    let counts = |r: &&evenkeel_core::result::Run| r.instrument.void.is_empty();
    let of = |name| {
        result
            .runs
            .iter()
            .filter(counts)
            .find(|r| r.condition == name)
    };
    let (oracle, none) = (of(ORACLE), of(NONE));
    let judged = oracle.map_or_else(Vec::new, |oracle| {
        let others = result.runs.iter().filter(counts);
        let others = others.filter(|r| r.condition != ORACLE);
        others
            .map(|run| Judged::of(run, oracle, none, &result.line))
            .collect()
    });
    Outcome {
        seed: home.seed,
        about: home.about.clone(),
        kinds: home.kinds.clone(),
        judged,
        home: home.clone(),
        result,
    }
}

/// Writes a home's file and the report of what was measured there.
fn keep(outcome: &Outcome, out: &Path) -> Result<(), Failure> {
    let dir = write_file(&outcome.home, out)?;
    evenkeel_report::write_all(&outcome.result, &dir).map_err(Failure::work)?;
    Ok(())
}

/// Writes the experiment's file of a home into a directory of its own, which is returned.
fn write_file(home: &Home, out: &Path) -> Result<PathBuf, Failure> {
    let dir = out.join(format!("home-{}", home.seed));
    fs::create_dir_all(&dir)
        .map_err(|e| Failure::work(format_args!("create {}: {e}", dir.display())))?;
    let file = dir.join("home.toml");
    fs::write(&file, &home.text)
        .map_err(|e| Failure::work(format_args!("write {}: {e}", file.display())))?;
    Ok(dir)
}
