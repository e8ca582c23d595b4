//! Cells on the kernel that runs now, one after the other.
//!
//! Principle: the caller can stop a cell at any time; what it set up goes all the same.
//! Non-goals: what a cell is made of (`cell`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::result::{ConditionFacts, Run};
use evenkeel_sys::clock;

use crate::cell;
use crate::cells::{Answer, Cell};
use crate::engine::Engine;
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::progress::{Phase, Step};
use crate::runner::Runner;
use crate::shaper::{NONE, Shaper};

/// How soon a request to stop is seen.
const SLICE: Duration = Duration::from_millis(100);

/// This machine's kernel, with the conditions beside `none`.
pub struct Native<'a> {
    experiment: &'a Experiment,
    shapers: Mutex<&'a mut [Box<dyn Shaper>]>,
}

impl<'a> Native<'a> {
    /// For cells of `experiment`.
    pub fn new(experiment: &'a Experiment, shapers: &'a mut [Box<dyn Shaper>]) -> Self {
        Native {
            experiment,
            shapers: Mutex::new(shapers),
        }
    }
}

impl Runner for Native<'_> {
    fn engine(&self) -> Engine {
        Engine::Native
    }

    fn at_once(&self) -> usize {
        1
    }

    fn conditions(&self, experiment: &Experiment) -> Vec<ConditionFacts> {
        experiment.all_conditions(&self.shapers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn run(
        &self,
        cell: &Cell,
        _: usize,
        tell: &mut dyn FnMut(Option<Step>),
        cancel: &AtomicBool,
    ) -> Result<Answer, LabError> {
        let mut shapers = self.shapers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tell = |phase, left| tell(Some(Step { phase, left }));
        let run = run_cell(self.experiment, cell, &mut shapers, &mut tell, cancel)?;
        let kernel = kernel_release();
        Ok(Answer { kernel, run })
    }
}

/// Runs one cell once; the run may be void.
pub fn run_cell(
    experiment: &Experiment,
    cell: &Cell,
    shapers: &mut [Box<dyn Shaper>],
    progress: &mut dyn FnMut(Phase, Duration),
    cancel: &AtomicBool,
) -> Result<Run, LabError> {
    let shaper = shapers.iter_mut().find(|s| s.name() == cell.condition);
    if shaper.is_none() && cell.condition != NONE {
        let names = shapers.iter().map(|s| s.name().to_owned());
        let known: Vec<String> = std::iter::once(NONE.to_owned()).chain(names).collect();
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

/// Of the kernel that runs now.
pub(crate) fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}
