//! `lab run` on other kernels, and building the one for virtual time.
//!
//! The process that was called boots a guest for each cell, as many at once as the engine
//! bears; in it the same program runs as `lab inside`, which is not for people. Results come
//! together in the order of the cells.
//!
//! Principles: the first failure ends everything; where the work is stands on stderr.
//! Non-goals: the guests themselves (`evenkeel_lab::guest`).

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::{Args, Subcommand};
use evenkeel_core::result::{ResultFile, Run, VERSION};
use evenkeel_lab::guest::{self, Answer, Engine, GuestError, Inside, Job, Step};
use evenkeel_lab::{
    Cell, Experiment, Kept, Phase, RunOptions, cells, condition_facts, judge, run_cell,
};
use evenkeel_terminal::{Failure, cancelled_by_signals};

use crate::lab::{self, StateRoot};

/// How often a cell is made again whose run is void. In virtual time it would be the same.
const RETRIES: u32 = 2;
/// Later than this, in virtual time, something is wrong with the clock: a system call takes 1 ns
/// (one that fails 1 us), so packets that are due at once leave as many ns apart.
const MAX_VIRTUAL_LAG_MS: f64 = 0.01;

/// Of a line that changes, in characters.
const WIDTH: usize = 79;

/// `lab kernel`'s commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Kernel {
    /// Build the kernel for virtual time from Debian's source: some six minutes, once
    Build(Build),
}

/// Arguments of `lab kernel build`.
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// Build it even if it is there
    #[arg(long)]
    force: bool,
}

/// Arguments of `lab inside`.
#[derive(Debug, Args)]
pub(crate) struct InsideArgs {
    /// Where job and experiment are
    directory: PathBuf,
}

/// `evenkeel lab kernel build`.
pub(crate) fn build(args: &Build) -> Result<(), Failure> {
    let cancel = cancelled_by_signals()?;
    let live = io::stderr().is_terminal();
    let mut phase = String::new();
    let built = guest::build(
        args.force,
        &mut |step, line| {
            if live {
                let line: String = format!("{step}: {line}").chars().take(WIDTH).collect();
                eprint!("\r\x1b[K{line}");
            } else if step != phase {
                eprintln!("{step} ...");
            }
            step.clone_into(&mut phase);
        },
        &cancel,
    );
    if live && !phase.is_empty() {
        eprint!("\r\x1b[K");
    }
    let built = built?;
    let word = if built.cached { "is there" } else { "is built" };
    eprintln!(
        "The kernel for virtual time {word}: {}",
        built.path.display()
    );
    Ok(())
}

/// Runs in guests what of an experiment `kept` does not have; `text` is its file's.
pub(crate) fn run(
    experiment: &Experiment,
    text: &str,
    engine: Engine,
    options: &RunOptions,
    kept: &Kept,
    cancel: &AtomicBool,
) -> Result<ResultFile, Failure> {
    let cells = cells(experiment, options)?;
    lab::known_conditions(&cells)?;
    let lab = guest::Lab::new(engine, text)?;
    let meter = Meter::new(&cells);
    let answers = all(&cells, lab.at_once(), cancel, &|n, cell, worker, stop| {
        if let Some(answer) = kept.find(cell) {
            return Ok(answer);
        }
        let job = Job::new(engine, cell);
        let answer = lab.run(&job, worker, &mut |step| meter.show(n, step), stop);
        meter.done(n);
        if let Ok(answer) = &answer {
            kept.keep(cell, answer);
        }
        answer
    });
    meter.finish();
    drop(lab);
    let answers = answers?;
    let kernel = answers
        .first()
        .map(|a| a.kernel.clone())
        .unwrap_or_default();
    let runs: Vec<Run> = answers.into_iter().map(|a| a.run).collect();
    Ok(ResultFile {
        version: VERSION,
        experiment: experiment.name.clone(),
        about: experiment.about.clone(),
        engine: engine.name().to_owned(),
        command: options.command.clone(),
        kernel,
        date: String::new(),
        line: experiment.line_facts(),
        conditions: condition_facts(experiment, &runs, &lab::shapers(Path::new("/"))),
        published: experiment.published.clone(),
        factors: judge::factors(&runs),
        runs,
    })
}

/// Number and cell, worker, flag to stop.
type Work<'a> = dyn Fn(usize, &Cell, usize, &AtomicBool) -> Result<Answer, GuestError> + Sync + 'a;

/// Does `work` for each cell, `at_once` at a time; the answers in the order of the cells, or the
/// first failure.
fn all(
    cells: &[Cell],
    at_once: usize,
    cancel: &AtomicBool,
    work: &Work<'_>,
) -> Result<Vec<Answer>, GuestError> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let done: Mutex<Vec<(usize, Answer)>> = Mutex::new(Vec::new());
    let failure: Mutex<Option<GuestError>> = Mutex::new(None);
    std::thread::scope(|s| {
        for worker in 0..at_once.min(cells.len()) {
            let (next, stop, done, failure) = (&next, &stop, &done, &failure);
            s.spawn(move || {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(n) else { break };
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    match work(n, cell, worker, stop) {
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
            while !stop.load(Ordering::Relaxed) && lock(&done).len() < cells.len() {
                if cancel.load(Ordering::Relaxed) {
                    stop.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
    });
    if let Some(e) = lock(&failure).take() {
        return Err(e);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(GuestError::Cancelled);
    }
    let mut done = std::mem::take(&mut *lock(&done));
    done.sort_by_key(|d| d.0);
    Ok(done.into_iter().map(|d| d.1).collect())
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `evenkeel lab inside`: the guest's part.
pub(crate) fn inside(args: &InsideArgs) -> Result<(), Failure> {
    let mut exchange = Inside::open(&args.directory)?;
    let job = exchange.job()?;
    let experiment = Experiment::load(&exchange.experiment())?;
    let state = StateRoot::new()?;
    let mut shapers = lab::shapers(state.path());
    let cell = job.cell();
    let never = AtomicBool::new(false);
    let mut attempt = 0;
    let run = loop {
        let mut tell = |phase, left| exchange.step(phase, left);
        let mut run = run_cell(&experiment, &cell, &mut shapers, &mut tell, &never)?;
        if job.engine == Engine::Virtual {
            virtual_instrument(&mut run);
        }
        attempt += 1;
        let good = run.instrument.void.is_empty();
        if good || job.engine == Engine::Virtual || attempt > RETRIES {
            break run;
        }
    };
    let kernel = fs::read_to_string(Path::new("/proc/sys/kernel/osrelease"))
        .map(|s| s.trim().to_owned())
        .unwrap_or_default();
    exchange.answer(&Answer { kernel, run })?;
    Ok(())
}

/// In virtual time nothing but the clock can spoil a run, and there is no CPU to be busy.
fn virtual_instrument(run: &mut Run) {
    let i = &mut run.instrument;
    (i.cpu_busy, i.cpu_steal) = (0.0, 0.0);
    if i.void.is_empty() && i.lag_max_ms > MAX_VIRTUAL_LAG_MS {
        i.void = format!("the line lagged by {} ms in virtual time", i.lag_max_ms);
    }
}

/// Where the work is, on stderr: what every guest does on a terminal, one line per cell that
/// begins or ends elsewhere.
struct Meter {
    live: bool,
    cells: Vec<String>,
    /// What each cell does; absent if it has not begun or has ended.
    now: Mutex<Vec<Option<String>>>,
}

impl Meter {
    fn new(cells: &[Cell]) -> Self {
        Meter {
            live: io::stderr().is_terminal(),
            cells: cells
                .iter()
                .map(|c| format!("{}, {}", c.load, c.condition))
                .collect(),
            now: Mutex::new(vec![None; cells.len()]),
        }
    }

    fn show(&self, n: usize, step: Option<Step>) {
        let text = match step {
            None => "booting".to_owned(),
            Some(s) => {
                let left = s.left.as_secs_f64().ceil();
                match s.phase {
                    Phase::Idle => format!("idle {left:.0} s"),
                    Phase::Load => format!("load {left:.0} s"),
                    Phase::Finish => "last probes".to_owned(),
                }
            }
        };
        let mut now = lock(&self.now);
        let Some(mine) = now.get_mut(n) else { return };
        if mine.as_deref() == Some(&text) {
            return;
        }
        let begins = mine.is_none();
        *mine = Some(text);
        if self.live {
            let line: Vec<String> = (1..)
                .zip(self.cells.iter().zip(&*now))
                .filter_map(|(i, (cell, does))| {
                    let of = self.cells.len();
                    does.as_ref().map(|d| format!("[{i}/{of}] {cell}: {d}"))
                })
                .collect();
            // A line that wraps could not be taken back.
            let line: String = line.join("   ").chars().take(WIDTH).collect();
            eprint!("\r\x1b[K{line}");
            let _ = io::stderr().flush();
        } else if begins {
            eprintln!("[{}/{}] {}", n + 1, self.cells.len(), self.cells[n]);
        }
    }

    fn done(&self, n: usize) {
        if let Some(mine) = lock(&self.now).get_mut(n) {
            *mine = None;
        }
    }

    fn finish(&self) {
        if self.live {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cell(load: &str) -> Cell {
        Cell {
            condition: "none".into(),
            load: load.into(),
            repeat: 0,
            seed: 1,
            duration: Duration::from_secs(1),
        }
    }

    fn died(cell: &Cell) -> GuestError {
        GuestError::Inside {
            code: 1,
            line: cell.load.clone(),
        }
    }

    #[test]
    fn the_first_failure_ends_everything() {
        let cells: Vec<Cell> = ["a", "b", "c", "d"].map(cell).to_vec();
        let begun = AtomicUsize::new(0);
        let never = AtomicBool::new(false);
        let failed = all(&cells, 1, &never, &|n, cell, _, _| {
            begun.store(n, Ordering::Relaxed);
            Err(died(cell))
        });
        assert_eq!(failed.unwrap_err().to_string(), "a");
        assert_eq!(begun.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn being_stopped_by_another_is_not_the_reason() {
        let cells: Vec<Cell> = ["a", "b"].map(cell).to_vec();
        let never = AtomicBool::new(false);
        let failed = all(&cells, 2, &never, &|n, cell, _, stop| {
            if n == 1 {
                return Err(died(cell));
            }
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(GuestError::Cancelled)
        });
        assert_eq!(failed.unwrap_err().to_string(), "b");
    }

    #[test]
    fn the_caller_stops_all() {
        let cells: Vec<Cell> = ["a", "b"].map(cell).to_vec();
        let now = AtomicBool::new(true);
        let failed = all(&cells, 1, &now, &|_, _, _, stop| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(GuestError::Cancelled)
        });
        assert!(matches!(failed, Err(GuestError::Cancelled)));
    }
}
