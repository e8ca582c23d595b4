//! What cells are run on: this machine's kernel, or guests.
//!
//! Principle: a runner runs one cell once; order, repetition and the result are the caller's
//! (`run`). Non-goals: what a cell does (`cell`).

use std::sync::atomic::AtomicBool;

use evenkeel_core::result::ConditionFacts;

use crate::cells::{Answer, Cell};
use crate::engine::Engine;
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::progress::Step;

/// Runs cells.
pub trait Runner: Sync {
    /// Which kernel they run on.
    fn engine(&self) -> Engine;

    /// How many may run at once.
    fn at_once(&self) -> usize;

    /// Every condition that it knows, as it is on the line of `experiment`.
    fn conditions(&self, experiment: &Experiment) -> Vec<ConditionFacts>;

    /// Runs `cell` once; the run may be void. `worker` (from 0) is one of those that run at once.
    /// `tell` hears how far the cell has come, `None` before it has begun. Errors: it could not be
    /// measured, or `cancel` was set.
    fn run(
        &self,
        cell: &Cell,
        worker: usize,
        tell: &mut dyn FnMut(Option<Step>),
        cancel: &AtomicBool,
    ) -> Result<Answer, LabError>;
}
