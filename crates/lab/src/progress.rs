//! Where a run is.
//!
//! Non-goal: showing it (the caller does).

use std::time::Duration;

use crate::cells::Cell;

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

/// Where a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub phase: Phase,
    /// Until that ends, on the clock of its kernel.
    pub left: Duration,
}

/// How far a cell has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its kernel boots.
    Starting,
    /// It is being measured.
    Running(Step),
    /// It was measured.
    Ended,
}

/// What there is to tell of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its number, from 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// Which try, from 1; more than 1 after a void run.
    pub attempt: u32,
    /// Why the try before was void; empty on the first.
    pub void: &'a str,
    /// How far it has come.
    pub stage: Stage,
}

impl Progress<'_> {
    /// Whether the load is on.
    pub fn is_loaded(&self) -> bool {
        matches!(self.stage, Stage::Running(s) if s.phase == Phase::Load)
    }
}
