//! The guest's part of a cell: reads the job, measures, leaves the answer.
//!
//! Principle: the same code measures here and natively. Non-goals: trying again, which is the
//! business of whoever booted the guest.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use evenkeel_core::result::Run;

use super::exchange::Inside;
use crate::cells::Answer;
use crate::conditions;
use crate::engine::Engine;
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::native::{kernel_release, run_cell};
use crate::state_root::StateRoot;

/// Later than this, in virtual time, something is wrong with the clock: a system call takes 1 ns
/// (one that fails 1 us), so packets that are due at once leave as many ns apart.
const MAX_VIRTUAL_LAG_MS: f64 = 0.01;

/// Runs the cell whose job lies in `directory`, and leaves the answer there.
pub fn run_inside(directory: &Path) -> Result<(), LabError> {
    let mut exchange = Inside::open(directory)?;
    let job = exchange.job()?;
    let experiment = Experiment::load(&exchange.experiment())?;
    let state = StateRoot::new()?;
    let mut shapers = conditions::all(state.path());
    let cell = job.cell();
    let never = AtomicBool::new(false);
    let mut tell = |phase, left| exchange.step(phase, left);
    let mut run = run_cell(&experiment, &cell, &mut shapers, &mut tell, &never)?;
    if job.engine == Engine::Virtual {
        virtual_instrument(&mut run);
    }
    let kernel = kernel_release();
    Ok(exchange.answer(&Answer { kernel, run })?)
}

/// In virtual time nothing but the clock can spoil a run, and there is no CPU to be busy.
fn virtual_instrument(run: &mut Run) {
    let i = &mut run.instrument;
    (i.cpu_busy, i.cpu_steal) = (0.0, 0.0);
    if i.void.is_empty() && i.lag_max_ms > MAX_VIRTUAL_LAG_MS {
        i.void = format!("the line lagged by {} ms in virtual time", i.lag_max_ms);
    }
}
