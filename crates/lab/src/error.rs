//! Why there is no result.
//!
//! Principles: each names its object and says what to do; errors of guests keep their words.
//! Non-goals: void runs, which are results.

use std::path::PathBuf;

use evenkeel_core::exit::{Exit, Exits};

use crate::guest::error::GuestError;

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
    /// A guest brought nothing.
    #[error(transparent)]
    Guest(GuestError),
    /// The caller asked to stop.
    #[error("stopped")]
    Cancelled,
}

impl From<GuestError> for LabError {
    fn from(e: GuestError) -> Self {
        match e {
            GuestError::Cancelled => LabError::Cancelled,
            e => LabError::Guest(e),
        }
    }
}

impl Exits for LabError {
    fn exit(&self) -> Exit {
        match self {
            LabError::Cancelled => Exit::Interrupted,
            LabError::Guest(e) => e.exit(),
            e if e.is_permission() => Exit::NotPermitted,
            LabError::Tool { .. } | LabError::Lacking { .. } => Exit::Lacking,
            LabError::Experiment { .. } | LabError::Unknown { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}

impl LabError {
    pub(crate) fn unknown<'a>(
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
