//! Running an experiment: which cells, how many at once, how often, and when to give up.
//!
//! Principles: the first failure ends everything; a void run is made again up to twice, where that
//! can help, and then stays in the result as void; results come together in the order of the
//! cells; the caller can stop at any time, and what was measured until then is kept. Non-goals:
//! where a cell runs (`runner`), reports.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::result::{ConditionFacts, ResultFile, Run, VERSION};

use crate::cell_cache::CellCache;
use crate::cells::{Answer, Cell, RunOptions, cells};
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::metrics;
use crate::progress::{Progress, Stage, Step};
use crate::runner::Runner;

/// How often a void run is made again.
const RETRIES: u32 = 2;
/// How soon a request to stop is seen.
const SLICE: Duration = Duration::from_millis(50);

/// Runs what `options` choose and `cache` does not have.
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    runner: &dyn Runner,
    cache: &CellCache,
    progress: &mut (dyn FnMut(&Progress<'_>) + Send),
    cancel: &AtomicBool,
) -> Result<ResultFile, LabError> {
    let cells = cells(experiment, options)?;
    let known = runner.conditions(experiment);
    let is_known = |c: &Cell| known.iter().any(|f| f.name == c.condition);
    // Before anything is set up or booted for it.
    if let Some(bad) = cells.iter().find(|c| !is_known(c)) {
        let names = known.iter().map(|f| &f.name);
        return Err(LabError::unknown("condition", &bad.condition, names));
    }
    let measuring = Measuring {
        cells: &cells,
        runner,
        cache,
        progress: Mutex::new(progress),
    };
    let at_once = runner.at_once();
    let answers = all(cells.len(), at_once, cancel, &|n, worker, stop| {
        measuring.cell(n, worker, stop)
    })?;
    let kernel = answers
        .first()
        .map(|a| a.kernel.clone())
        .unwrap_or_default();
    let runs: Vec<Run> = answers.into_iter().map(|a| a.run).collect();
    Ok(ResultFile {
        version: VERSION,
        experiment: experiment.name.clone(),
        about: experiment.about.clone(),
        engine: runner.engine().name().to_owned(),
        command: options.command.clone(),
        kernel,
        date: String::new(),
        line: experiment.line_facts(),
        conditions: facts_of(&runs, &known),
        published: experiment.published.clone(),
        factors: metrics::factors(&runs),
        runs,
    })
}

/// What the conditions of `runs` are, each once, in their order.
fn facts_of(runs: &[Run], known: &[ConditionFacts]) -> Vec<ConditionFacts> {
    let mut found: Vec<ConditionFacts> = Vec::new();
    for run in runs {
        if found.iter().all(|f| f.name != run.condition) {
            found.extend(known.iter().find(|f| f.name == run.condition).cloned());
        }
    }
    found
}

/// What measuring a cell needs.
struct Measuring<'a> {
    cells: &'a [Cell],
    runner: &'a dyn Runner,
    cache: &'a CellCache,
    progress: Mutex<&'a mut (dyn FnMut(&Progress<'_>) + Send)>,
}

impl Measuring<'_> {
    /// Cell `n` from the cache, or measured, again while it is void.
    fn cell(&self, n: usize, worker: usize, stop: &AtomicBool) -> Result<Answer, LabError> {
        let cell = &self.cells[n];
        if let Some(answer) = self.cache.find(cell) {
            return Ok(answer);
        }
        let tries = if self.runner.engine().repeats_void_runs() {
            RETRIES + 1
        } else {
            1
        };
        let (mut attempt, mut void) = (1, String::new());
        let answer = loop {
            let mut tell = |step: Option<Step>| {
                let stage = step.map_or(Stage::Starting, Stage::Running);
                self.tell(n, attempt, &void, stage);
            };
            let answer = self.runner.run(cell, worker, &mut tell, stop)?;
            let why = &answer.run.instrument.void;
            if why.is_empty() || attempt >= tries {
                break answer;
            }
            attempt += 1;
            void.clone_from(why);
        };
        self.tell(n, attempt, &void, Stage::Ended);
        self.cache.keep(cell, &answer);
        Ok(answer)
    }

    fn tell(&self, n: usize, attempt: u32, void: &str, stage: Stage) {
        (lock(&self.progress))(&Progress {
            cell: &self.cells[n],
            number: n + 1,
            of: self.cells.len(),
            attempt,
            void,
            stage,
        });
    }
}

/// What is done for a cell: its number (from 0), worker, flag to stop.
type Work<'a> = dyn Fn(usize, usize, &AtomicBool) -> Result<Answer, LabError> + Sync + 'a;

/// Does `work` for so many `cells`, `at_once` at a time; the answers in the order of the cells, or
/// the first failure.
fn all(
    cells: usize,
    at_once: usize,
    cancel: &AtomicBool,
    work: &Work<'_>,
) -> Result<Vec<Answer>, LabError> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let done: Mutex<Vec<(usize, Answer)>> = Mutex::new(Vec::new());
    let failure: Mutex<Option<LabError>> = Mutex::new(None);
    std::thread::scope(|s| {
        for worker in 0..at_once.min(cells) {
            let (next, stop, done, failure) = (&next, &stop, &done, &failure);
            s.spawn(move || {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= cells || stop.load(Ordering::Relaxed) {
                        break;
                    }
                    match work(n, worker, stop) {
                        Ok(a) => lock(done).push((n, a)),
                        Err(e) => {
                            // Others are stopped by this one; theirs is not the reason.
                            lock(failure).get_or_insert(e);
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        // The caller's flag reaches the workers through theirs.
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) && lock(&done).len() < cells {
                if cancel.load(Ordering::Relaxed) {
                    stop.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(SLICE);
            }
        });
    });
    if let Some(e) = lock(&failure).take() {
        return Err(e);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(LabError::Cancelled);
    }
    let mut done = std::mem::take(&mut *lock(&done));
    done.sort_by_key(|d| d.0);
    Ok(done.into_iter().map(|d| d.1).collect())
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(cell: usize) -> LabError {
        LabError::Flow {
            flow: cell.to_string(),
            why: "test".into(),
        }
    }

    #[test]
    fn the_first_failure_ends_everything() {
        let begun = AtomicUsize::new(0);
        let never = AtomicBool::new(false);
        let ended = all(4, 1, &never, &|n, _, _| {
            begun.store(n, Ordering::Relaxed);
            Err(failed(n))
        });
        assert_eq!(ended.unwrap_err().to_string(), "flow 0: test");
        assert_eq!(begun.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn being_stopped_by_another_is_not_the_reason() {
        let never = AtomicBool::new(false);
        let ended = all(2, 2, &never, &|n, _, stop| {
            if n == 1 {
                return Err(failed(n));
            }
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(LabError::Cancelled)
        });
        assert_eq!(ended.unwrap_err().to_string(), "flow 1: test");
    }

    #[test]
    fn the_caller_stops_all() {
        let now = AtomicBool::new(true);
        let ended = all(2, 1, &now, &|_, _, stop| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(LabError::Cancelled)
        });
        assert!(matches!(ended, Err(LabError::Cancelled)));
    }
}
