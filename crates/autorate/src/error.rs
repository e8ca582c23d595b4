//! Why a line is not followed any more.
//!
//! Principles: errors of the crates below keep their words. Non-goals: sorting those anew.

use std::path::PathBuf;

use evenkeel_core::exit::{Exit, Exits};

/// What ends the daemon, or keeps it from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused to shape, or the device is not there.
    #[error(transparent)]
    Kernel(#[from] evenkeel_kernel::Error),
    /// Probes cannot be sent or heard.
    #[error(transparent)]
    Probes(#[from] evenkeel_sys::Error),
    /// Somebody has taken away what was set up.
    #[error("{device}: {what}; somebody removes it again and again")]
    Damaged {
        /// Which device.
        device: String,
        /// What is missing, in words.
        what: String,
    },
    /// The file with the model of a line cannot be used.
    #[error("read {}: {why}; delete it, it is only a view", path.display())]
    Model {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Exits for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Kernel(e) => e.exit(),
            Error::Probes(_) | Error::Damaged { .. } | Error::Model { .. } => Exit::Failed,
        }
    }
}
