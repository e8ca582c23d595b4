//! The cells of an experiment: which there are, and what one brings.
//!
//! Principle: conditions alternate within a load, so that a noisy minute hits all of them.
//! Non-goals: running them (`run`, `cell`).

use std::time::Duration;

use evenkeel_core::result::Run;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::experiment::Experiment;

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Name of the condition.
    pub condition: String,
    /// Name of the load.
    pub load: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Seed of everything random in it.
    pub seed: u64,
    /// How long the load lasts.
    pub duration: Duration,
}

impl Cell {
    /// All of `experiment` and of the cell that its result depends on, beside kernel and code; `None`
    /// if there is no such load. Names, words and other loads are not in it.
    pub fn inputs(&self, experiment: &Experiment) -> Option<String> {
        let e = experiment;
        Some(format!(
            "{:?}; {} clients, {} beside, {:?}; {:?}; {:?}; {:?}; {:?}; {}, seed {}, {:?}",
            e.line,
            e.clients,
            e.beside,
            e.radio,
            e.servers,
            e.duration,
            e.probe,
            e.load_spec(&self.load)?,
            self.condition,
            self.seed,
            self.duration,
        ))
    }
}

/// What a cell brought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Release of the kernel that it ran on.
    pub kernel: String,
    /// What was measured.
    pub run: Run,
}

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
            command: String::new(),
        }
    }
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
