//! Why a guest brought nothing.
//!
//! Principle: what is missing comes with the command that brings it. Non-goals: runs that are
//! void, which are answers.

use evenkeel_core::exit::{Exit, Exits};

use crate::engine::Engine;

/// Why a guest brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A program, package or kernel is not there.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What.
        what: String,
        /// The command that brings it.
        remedy: String,
    },
    /// This machine refused something.
    #[error("{what}: {why}")]
    Host {
        /// Doing what, on which object.
        what: String,
        /// The system's words.
        why: String,
    },
    /// A step of building a kernel failed.
    #[error("build a kernel: {step}: {last}")]
    Build {
        /// Which.
        step: String,
        /// The tool's last words.
        last: String,
    },
    /// A guest ended before its cell did, or was ended.
    #[error("{cell} on {engine}: {why}; the guest's last lines: {last}")]
    Died {
        /// Which cell.
        cell: String,
        /// On which engine.
        engine: Engine,
        /// What happened.
        why: String,
        /// From its console and from the program in it.
        last: String,
    },
    /// The program in the guest ended with an error of its own.
    #[error("{line}")]
    Inside {
        /// Its exit code.
        code: u8,
        /// Its line.
        line: String,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Cancelled,
}

impl Exits for GuestError {
    fn exit(&self) -> Exit {
        match self {
            GuestError::Cancelled => Exit::Interrupted,
            GuestError::Missing { .. } | GuestError::Inside { code: 4, .. } => Exit::Lacking,
            GuestError::Inside { code: 2, .. } => Exit::Usage,
            GuestError::Inside { code: 3, .. } => Exit::NotPermitted,
            _ => Exit::Failed,
        }
    }
}

impl GuestError {
    pub(crate) fn host(what: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        GuestError::Host {
            what: what.to_string(),
            why: why.to_string(),
        }
    }
}
