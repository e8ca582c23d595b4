//! Running an experiment: which cells, in which order, how often, and when to give up.
//!
//! Principles: conditions alternate within a load, so that a noisy minute hits all of them;
//! a void run is made again up to twice and then stays in the result as void; the caller can
//! stop at any time, and what was measured until then is kept. Non-goals: reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::result::{ConditionFacts, ResultFile, Run, VERSION};
use evenkeel_sys::clock;

use crate::experiment::Experiment;
use crate::guest::Answer;
use crate::{Cell, Kept, LabError, Shaper, cell, judge};

/// How often a void run is made again.
const RETRIES: u32 = 2;
/// How soon a request to stop is seen.
const SLICE: Duration = Duration::from_millis(100);

/// What of an experiment to run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOptions {
    /// Short loads.
    pub quick: bool,
    /// Names of loads, in order; empty: all of the experiment's.
    pub loads: Vec<String>,
    /// Names of conditions, in order; empty: all of the experiment's.
    pub conditions: Vec<String>,
    /// How often each cell is run; at least once.
    pub repeat: u32,
    /// Seed of the first repeat; the next one has the next number.
    pub seed: u64,
    /// What this kernel is called in the result: `native`, `uml` or `virtual`.
    pub engine: String,
    /// The command that makes the result again.
    pub command: String,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            quick: false,
            loads: Vec::new(),
            conditions: Vec::new(),
            repeat: 1,
            seed: 1,
            engine: "native".into(),
            command: String::new(),
        }
    }
}

/// What a cell is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Probing the idle line.
    Idle,
    /// Probing under load.
    Load,
    /// Waiting for the last probes.
    Finish,
}

/// Where a run is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// The cell under way.
    pub cell: &'a Cell,
    /// Its number, from 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// Which try, from 1; more than 1 after a void run.
    pub attempt: u32,
    /// Why the try before was void; empty on the first.
    pub void: &'a str,
    /// What it does.
    pub phase: Phase,
    /// Until the phase ends.
    pub left: Duration,
}

/// The cells that `options` choose, in the order of running.
pub fn cells(experiment: &Experiment, options: &RunOptions) -> Result<Vec<Cell>, LabError> {
    let loads: Vec<String> = if options.loads.is_empty() {
        experiment.loads.iter().map(|l| l.name.clone()).collect()
    } else {
        options.loads.clone()
    };
    if let Some(bad) = loads.iter().find(|l| experiment.load_spec(l).is_none()) {
        let known = experiment.loads.iter().map(|l| &l.name);
        return Err(LabError::unknown("load", bad, known));
    }
    let conditions = if options.conditions.is_empty() {
        &experiment.conditions
    } else {
        &options.conditions
    };
    let seconds = if options.quick {
        experiment.duration.quick_s
    } else {
        experiment.duration.full_s
    };
    let mut cells = Vec::new();
    for repeat in 0..options.repeat.max(1) {
        for load in &loads {
            for condition in conditions {
                cells.push(Cell {
                    condition: condition.clone(),
                    load: load.clone(),
                    repeat,
                    seed: options.seed.wrapping_add(u64::from(repeat)),
                    duration: Duration::from_secs_f64(seconds),
                });
            }
        }
    }
    Ok(cells)
}

/// Runs what `options` choose and `kept` does not have. `shapers` are the conditions beside
/// `none`.
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    shapers: &mut [Box<dyn Shaper>],
    kept: &Kept,
    progress: &mut dyn FnMut(&Progress<'_>),
    cancel: &AtomicBool,
) -> Result<ResultFile, LabError> {
    let cells = cells(experiment, options)?;
    if let Some(bad) = cells.iter().find(|c| !is_known(&c.condition, shapers)) {
        let known = known_conditions(shapers);
        return Err(LabError::unknown("condition", &bad.condition, known.iter()));
    }
    let kernel = kernel_release();
    let mut runs: Vec<Run> = Vec::new();
    for (number, cell) in (1..).zip(&cells) {
        if let Some(answer) = kept.find(cell) {
            runs.push(answer.run);
            continue;
        }
        let mut attempt = 1;
        let mut void = String::new();
        let run = loop {
            let of = cells.len();
            let mut tell = |phase, left| {
                progress(&Progress {
                    cell,
                    number,
                    of,
                    attempt,
                    void: &void,
                    phase,
                    left,
                });
            };
            let run = run_cell(experiment, cell, shapers, &mut tell, cancel)?;
            if run.instrument.void.is_empty() || attempt > RETRIES {
                break run;
            }
            attempt += 1;
            void = run.instrument.void;
        };
        let kernel = kernel.clone();
        let answer = Answer { kernel, run };
        kept.keep(cell, &answer);
        runs.push(answer.run);
    }
    Ok(ResultFile {
        version: VERSION,
        experiment: experiment.name.clone(),
        about: experiment.about.clone(),
        engine: options.engine.clone(),
        command: options.command.clone(),
        kernel,
        date: String::new(),
        line: experiment.line_facts(),
        conditions: condition_facts(experiment, &runs, shapers),
        published: experiment.published.clone(),
        factors: judge::factors(&runs),
        runs,
    })
}

/// What the conditions of `runs` are, each once, in their order.
pub fn condition_facts(
    experiment: &Experiment,
    runs: &[Run],
    shapers: &[Box<dyn Shaper>],
) -> Vec<ConditionFacts> {
    let mut found: Vec<ConditionFacts> = Vec::new();
    for run in runs {
        if found.iter().all(|f| f.name != run.condition) {
            found.extend(experiment.condition_facts(&run.condition, shapers));
        }
    }
    found
}

/// Runs one cell once; the run may be void.
pub fn run_cell(
    experiment: &Experiment,
    cell: &Cell,
    shapers: &mut [Box<dyn Shaper>],
    progress: &mut dyn FnMut(Phase, Duration),
    cancel: &AtomicBool,
) -> Result<Run, LabError> {
    let known = known_conditions(shapers);
    let shaper = shapers.iter_mut().find(|s| s.name() == cell.condition);
    if shaper.is_none() && cell.condition != NONE {
        return Err(LabError::unknown(
            "condition",
            &cell.condition,
            known.iter(),
        ));
    }
    let mut wait = |phase, until: Duration| loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(LabError::Cancelled);
        }
        let left = until.saturating_sub(clock::monotonic());
        progress(phase, left);
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(SLICE));
    };
    cell::run(experiment, cell, shaper.map(AsMut::as_mut), &mut wait)
}

/// The condition that changes nothing.
pub(crate) const NONE: &str = "none";

fn is_known(condition: &str, shapers: &[Box<dyn Shaper>]) -> bool {
    condition == NONE || shapers.iter().any(|s| s.name() == condition)
}

fn known_conditions(shapers: &[Box<dyn Shaper>]) -> Vec<String> {
    let names = shapers.iter().map(|s| s.name().to_owned());
    std::iter::once(NONE.to_owned()).chain(names).collect()
}

fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}
