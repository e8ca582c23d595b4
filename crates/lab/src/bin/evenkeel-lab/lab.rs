//! `demo` and `lab`: experiments on emulated lines.
//!
//! Principles: long work shows where it is; Ctrl-C ends it with nothing left behind; what was
//! measured is printed as a table and written as `result.json`, a page, pictures and Markdown.
//! Non-goals: the instrument itself (crate `evenkeel-lab`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};
use evenkeel_core::result::ResultFile;
use evenkeel_lab::guest::Guests;
use evenkeel_lab::{
    CellCache, Engine, Experiment, LabError, Native, Progress, RunOptions, Runner, StateRoot,
    conditions,
};
use evenkeel_terminal::{Failure, StatusLine, cancelled_by_signals, print};

use crate::guests::{InsideArgs, Kernel};
use crate::progress;
use crate::today::today;

/// The demo's experiment, so that it works wherever the binary is.
const VDSL100: &str = include_str!("../../../../../experiments/vdsl100.toml");

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Directory for the report and its pictures
    #[arg(long, default_value = "evenkeel-demo")]
    out: PathBuf,
}

/// `lab`'s commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Run an experiment and report what was measured
    Run(Run),
    /// List the experiments in a directory
    List(List),
    /// The kernel for virtual time
    #[command(subcommand)]
    Kernel(Kernel),
    /// The controller of `run` on thousands of drawn lines, as fluids
    Lines(crate::lines::Lines),
    /// What `line` finds out of thousands of drawn lines, in arithmetic
    Framing(crate::framing::Framing),
    /// `evenkeel bench` against `evenkeel serve` on emulated lines, beside what those carried
    Bench(crate::bench::Bench),
    /// `run` in drawn homes, in virtual time with real TCP, beside evenkeel that was told the line
    Homes(crate::homes::Homes),
    /// What each rule of the controller of `run` is good for: drawn homes and fluids without it
    Ablation(crate::ablation::Ablation),
    /// What `run` calls in a guest
    #[command(hide = true)]
    Inside(InsideArgs),
}

/// Arguments of `lab run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The experiment's file (experiments/vdsl100.toml)
    experiment: PathBuf,
    /// Kernel to run on: native is the one that runs now, uml is Debian's user-mode-linux,
    /// virtual has a clock of its own (lab kernel build)
    #[arg(long, default_value = "native")]
    engine: Engine,
    /// Short loads
    #[arg(long)]
    quick: bool,
    /// Only these loads, in this order: down1,up1
    #[arg(long, value_delimiter = ',')]
    loads: Vec<String>,
    /// Only these conditions: none,evenkeel,evenkeel-cake,evenkeel-htb
    #[arg(long, value_delimiter = ',')]
    conditions: Vec<String>,
    /// How often each load is run under each condition
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Seed of everything random; the next repeat has the next number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure again what was measured before with the same code, kernel and seed
    #[arg(long)]
    fresh: bool,
    /// Directory for result.json, the report and its pictures
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the result file instead of the table
    #[arg(long)]
    json: bool,
}

/// Arguments of `lab list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Where experiments are
    #[arg(default_value = "experiments")]
    directory: PathBuf,
}

/// `evenkeel demo`.
pub(crate) fn demo(args: &Demo) -> Result<(), Failure> {
    let experiment = Experiment::parse(VDSL100, Path::new("experiments/vdsl100.toml"))?;
    eprintln!(
        "An emulated VDSL-100 line between network namespaces: {} down, {} up.\n\
         Each load runs without evenkeel and with it, told nothing; this takes less than two minutes.",
        experiment.line.down, experiment.line.up
    );
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    let options = RunOptions {
        quick: true,
        loads: names(&["down1", "up1", "rrul"]),
        conditions: names(&["none", "evenkeel-auto"]),
        command: "evenkeel demo".into(),
        ..RunOptions::default()
    };
    let cache = CellCache::nothing(&experiment);
    let mut result = natively(&experiment, &options, &cache, &*cancelled_by_signals()?)?;
    result.date = today();
    print(&evenkeel_report::table(&result))?;
    write(&result, &args.out)?;
    some_run_counts(&result)
}

/// `evenkeel lab run`.
pub(crate) fn run(args: &Run) -> Result<(), Failure> {
    let experiment = Experiment::load(&args.experiment)?;
    let options = RunOptions {
        quick: args.quick,
        loads: args.loads.clone(),
        conditions: args.conditions.clone(),
        repeat: args.repeat,
        seed: args.seed,
        command: command_line(),
    };
    if let Some(out) = &args.out {
        // An unwritable place is better known before an hour of work than after it.
        fs::create_dir_all(out)
            .map_err(|e| Failure::work(format_args!("create {}: {e}", out.display())))?;
    }
    let cache = cache(&experiment, &options, args)?;
    let cancel = cancelled_by_signals()?;
    let mut result = if args.engine == Engine::Native {
        natively(&experiment, &options, &cache, &cancel)?
    } else {
        let text = fs::read_to_string(&args.experiment)
            .map_err(|e| Failure::work(format_args!("{}: {e}", args.experiment.display())))?;
        let guests = Guests::new(args.engine, &text)?;
        measure(&experiment, &options, &guests, &cache, &cancel)?
    };
    result.date = today();
    if args.json {
        print(&(serde_json::to_string(&result).map_err(Failure::work)? + "\n"))?;
    } else {
        print(&evenkeel_report::table(&result))?;
    }
    if let Some(out) = &args.out {
        write(&result, out)?;
    }
    some_run_counts(&result)
}

/// The cells that were measured before, and a word on them.
fn cache(experiment: &Experiment, options: &RunOptions, args: &Run) -> Result<CellCache, Failure> {
    let cells = evenkeel_lab::cells(experiment, options)?;
    let cache = CellCache::open(experiment, args.engine, !args.fresh).map_err(LabError::from)?;
    cache.prune();
    let known = cells.iter().filter(|c| cache.find(c).is_some()).count();
    if known > 0 {
        let of = cells.len();
        eprintln!("Measured before: {known} of {of} (--fresh measures them again).");
    }
    Ok(cache)
}

/// A result of which nothing may be published is a failure, though it is shown.
fn some_run_counts(result: &ResultFile) -> Result<(), Failure> {
    if result.runs.iter().any(|r| r.instrument.void.is_empty()) {
        return Ok(());
    }
    Err(Failure::work(
        "every run is void: the machine was too busy to measure; end other work and run it again",
    ))
}

/// `evenkeel lab list`.
pub(crate) fn list(args: &List) -> Result<(), Failure> {
    let directory = args.directory.display();
    let entries = fs::read_dir(&args.directory)
        .map_err(|e| Failure::work(format_args!("read {directory}: {e}")))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|p| p.extension().is_some_and(|x| x == "toml"));
    files.sort();
    let shapers = conditions::all(Path::new("/"));
    let mut text = String::new();
    for file in files {
        let e = Experiment::load(&file)?;
        let loads: Vec<_> = e.loads.iter().map(|l| l.name.as_str()).collect();
        let line = e.line_facts();
        let varies = if line.varies { ", it changes" } else { "" };
        text += &format!(
            "{}: {}\n  line        {}/{} kbit/s, framing {}, {} ms{varies}\n  loads       {}\n",
            file.display(),
            e.about,
            line.down.kbit(),
            line.up.kbit(),
            line.framing,
            line.rtt_ms,
            loads.join(", "),
        );
        for (i, name) in e.conditions.iter().enumerate() {
            let head = if i == 0 { "conditions" } else { "" };
            let told = e.condition_facts(name, &shapers).map(|f| f.told);
            let told = match told.as_deref() {
                None => "there is none of that name",
                Some("") => "told nothing",
                Some(told) => told,
            };
            text += &format!("  {head:<11} {name:<18} {told}\n");
        }
    }
    print(&text)
}

/// Measures on the kernel that runs now.
fn natively(
    experiment: &Experiment,
    options: &RunOptions,
    cache: &CellCache,
    cancel: &AtomicBool,
) -> Result<ResultFile, Failure> {
    let state = StateRoot::new()?;
    let mut shapers = conditions::all(state.path());
    let runner = Native::new(experiment, &mut shapers);
    measure(experiment, options, &runner, cache, cancel)
}

fn measure(
    experiment: &Experiment,
    options: &RunOptions,
    runner: &dyn Runner,
    cache: &CellCache,
    cancel: &AtomicBool,
) -> Result<ResultFile, Failure> {
    let mut line = StatusLine::new();
    let mut show = |p: &Progress<'_>| {
        let again = if p.attempt > 1 {
            format!(" (again, attempt {}: the machine was too busy)", p.attempt)
        } else {
            String::new()
        };
        let name = format!(
            "[{}/{}] {}, {}{again}",
            p.number, p.of, p.cell.load, p.cell.condition
        );
        progress::show(&mut line, p, &name);
    };
    let result = evenkeel_lab::run(experiment, options, runner, cache, &mut show, cancel);
    line.clear();
    Ok(result?)
}

/// Writes everything into `out` and says where to look.
pub(crate) fn write(result: &ResultFile, out: &Path) -> Result<(), Failure> {
    evenkeel_report::write_all(result, out).map_err(Failure::work)?;
    eprintln!(
        "The report with pictures: {}",
        out.join("report.html").display()
    );
    Ok(())
}

/// The command as it was typed, with the program's name rather than its path.
fn command_line() -> String {
    std::iter::once("evenkeel".to_owned())
        .chain(std::env::args().skip(1))
        .collect::<Vec<_>>()
        .join(" ")
}
