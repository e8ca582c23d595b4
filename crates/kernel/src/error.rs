//! What went wrong, on which object, in the kernel's words, and what to do.
//!
//! Principles: one line each; the exit code follows from the kind of trouble. Non-goals:
//! recovering, which the caller of the failed step does.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use evenkeel_core::exit::{Exit, Exits};
use evenkeel_core::plan::PlanError;

/// A failed operation on a device or the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Rights are missing.
    #[error("{what}: {words}; it needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN)")]
    NotPermitted {
        /// What was tried on which object.
        what: String,
        /// The kernel's words.
        words: String,
    },
    /// The kernel refused.
    #[error("{what}: {words}")]
    Refused {
        /// What was tried on which object.
        what: String,
        /// The kernel's words, and what to do if known.
        words: String,
        /// The kernel's error number.
        errno: i32,
    },
    /// The device's name is no device.
    #[error("{0}: no such device; `ip link` lists those there are")]
    NoDevice(String),
    /// The device is not one to shape.
    #[error("{device}: {why}")]
    Unfit {
        /// Which.
        device: String,
        /// Why, and what to do.
        why: String,
    },
    /// The device is down.
    #[error("{device}: it is down; bring it up first (ip link set {device} up)")]
    Down {
        /// Which.
        device: String,
    },
    /// Somebody else's discipline is in the way.
    #[error(
        "{device}: {found} is there and is not evenkeel's; --replace removes it (it will not come back by itself)"
    )]
    Foreign {
        /// Where.
        device: String,
        /// What, as tc prints it.
        found: String,
    },
    /// Another evenkeel is at it.
    #[error("{device}: {holder} holds this device; wait for it, or end it (kill or Ctrl-C)")]
    Busy {
        /// Which.
        device: String,
        /// Whose it is: `process 123 (evenkeel run eth0)`.
        holder: String,
    },
    /// The device went while it was shaped.
    #[error("{0}: the device has gone; what was set up for it is taken back")]
    Gone(String),
    /// A record that cannot be read.
    #[error("{device}: the record {} cannot be used: {why}; nothing was changed; delete the file, then `evenkeel clear {device}` removes what it finds", path.display())]
    Corrupt {
        /// The device it should be about.
        device: String,
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The file system refused.
    #[error("{what}: {words}")]
    File {
        /// What was tried on which file.
        what: String,
        /// The kernel's words.
        words: String,
        /// For want of rights.
        denied: bool,
    },
    /// A rule that cannot be used.
    #[error("rule {number} ({rule}): {why}")]
    Rule {
        /// Its place in the list, from 1.
        number: usize,
        /// What it says.
        rule: String,
        /// What is wrong.
        why: String,
    },
    /// The kernel does not take our programs, or their maps.
    #[error(transparent)]
    Datapath(#[from] evenkeel_datapath::Error),
    /// The kernel cannot do it at all.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl Error {
    /// A failed system call, sorted by what it means.
    pub(crate) fn refused(what: impl fmt::Display, words: impl fmt::Display, errno: i32) -> Self {
        let (what, words) = (what.to_string(), words.to_string());
        // EPERM, EACCES
        if errno == 1 || errno == 13 {
            Error::NotPermitted { what, words }
        } else {
            Error::Refused { what, words, errno }
        }
    }

    /// A failed file operation.
    pub(crate) fn file(verb: &str, path: &Path, e: &io::Error) -> Self {
        Error::File {
            what: format!("{verb} {}", path.display()),
            words: e.to_string(),
            denied: e.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}

impl Exits for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::NotPermitted { .. } | Error::File { denied: true, .. } => Exit::NotPermitted,
            Error::Plan(PlanError::Lacks { .. }) => Exit::Lacking,
            Error::Unfit { .. } | Error::Rule { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
