//! Emulated lines, experiments, and hosts to run them on.
//!
//! A newcomer's way in: [`Experiment::load`] reads a file, [`run()`] makes every cell of it
//! (condition, load, repeat) on hosts of its own and returns the result file.
//!
//! Principles: real kernel TCP and real queueing disciplines around a line that is arithmetic;
//! nothing of this machine is touched and nothing is left behind; a spoilt run is void, never
//! published. Non-goals: the conditions themselves (the caller brings a [`Shaper`] for each).

pub mod conditions;
pub mod emulator;
pub mod experiment;
pub mod guest;
pub mod judge;
pub mod net;
pub mod pages;
pub mod peers;
pub mod topology;
pub mod witness;

mod cell;
mod code;
mod identity;
mod kept;
mod run;

use std::path::PathBuf;

use evenkeel_core::exit::{Exit, Exits};
use evenkeel_core::result::{ConditionFacts, LineFacts};

pub use cell::{Cell, Site};
pub use code::code_of;
pub use experiment::Experiment;
pub use kept::Kept;
pub use run::{Phase, Progress, RunOptions, cells, condition_facts, run, run_cell};

/// What makes a condition: something that is applied to the gateway before the load.
///
/// All methods are called on a thread inside the gateway's network namespace, not always the
/// same one. Threads that it starts from there stay in that namespace.
pub trait Shaper: Send {
    /// The condition's name (`evenkeel`).
    fn name(&self) -> &str;
    /// What it is, and what it would be told on a line whose device puts `link_header` bytes
    /// before the IP packet. Without more to say, its name.
    fn facts(&self, _line: &LineFacts, _link_header: u16) -> ConditionFacts {
        ConditionFacts {
            name: self.name().to_owned(),
            ..ConditionFacts::default()
        }
    }
    /// Sets up shaping. It is called once for each cell, on a gateway that was never shaped.
    fn apply(&mut self, site: &Site) -> Result<(), ShaperError>;
    /// What it dropped since `apply`.
    fn dropped(&mut self) -> Result<Dropped, ShaperError>;
    /// Takes everything back.
    fn clear(&mut self) -> Result<(), ShaperError>;
}

/// What a condition dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Packets, by its queueing disciplines and policers.
    pub packets: u64,
    /// Empty acknowledgements among those that it policed; `None` if it does not tell them apart.
    pub acks: Option<u64>,
}

/// Whatever a shaper has to complain about.
pub type ShaperError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// An experiment's file cannot be read.
    #[error("{}: {why}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
    /// An experiment's file is wrong.
    #[error("{}: {why}", path.display())]
    Experiment {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// Something was asked for that there is not.
    #[error("there is no {kind} {name:?} (there are: {known})")]
    Unknown {
        /// `load` or `condition`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The kernel refused something.
    #[error(transparent)]
    System(#[from] evenkeel_sys::Error),
    /// A program that is needed did not do its work.
    #[error("run {tool}: {why} ({tool} is in package {package})")]
    Tool {
        /// The program.
        tool: &'static str,
        /// Where it comes from.
        package: &'static str,
        /// What it said.
        why: String,
    },
    /// A condition could not be set up or taken back.
    #[error("{what} condition {condition}: {why}")]
    Condition {
        /// Which one.
        condition: String,
        /// `apply`, `clear`, ...
        what: String,
        /// What the shaper said.
        why: String,
    },
    /// The kernel lacks what a condition is made of.
    #[error("condition {condition}: {why}")]
    Lacking {
        /// Which one.
        condition: String,
        /// What the shaper said.
        why: String,
    },
    /// A flow of the load failed.
    #[error("flow {flow}: {why}")]
    Flow {
        /// Which one.
        flow: String,
        /// What happened.
        why: String,
    },
    /// The probes of a whole phase are lost.
    #[error("no probe came back on the line of condition {condition}, load {load}")]
    NoProbes {
        /// Of the cell.
        condition: String,
        /// Of the cell.
        load: String,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Cancelled,
}

impl Exits for LabError {
    fn exit(&self) -> Exit {
        match self {
            LabError::Cancelled => Exit::Interrupted,
            e if e.is_permission() => Exit::NotPermitted,
            LabError::Tool { .. } | LabError::Lacking { .. } => Exit::Lacking,
            LabError::Experiment { .. } | LabError::Unknown { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}

impl LabError {
    fn unknown<'a>(
        kind: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a String>,
    ) -> Self {
        LabError::Unknown {
            kind,
            name: name.to_owned(),
            known: known.cloned().collect::<Vec<_>>().join(", "),
        }
    }

    /// Whether rights are missing.
    pub fn is_permission(&self) -> bool {
        matches!(self, LabError::System(e) if e.is_permission())
    }
}
