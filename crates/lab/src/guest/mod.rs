//! Other kernels to run a cell on: User Mode Linux, in real and in virtual time.
//!
//! A newcomer's way in: [`find`] says where an engine's kernel is, [`build`] makes the one for
//! virtual time, [`Lab::run`] boots a guest for one cell and returns what was measured; inside,
//! the same binary reads its [`Job`] and leaves its answer with [`Inside`].
//!
//! Principles: a guest sees this machine's own root, read-only, so nothing is copied into an
//! image; each cell has a freshly booted kernel, so that its result depends on nothing that ran
//! before; whichever way it ends, no process, mount or directory is left. Non-goals: a network
//! to the outside, guests of other architectures, anything but one cell at a time.

mod boot;
mod exchange;
mod kernel;
mod scratch;
mod watch;

use std::path::PathBuf;

use evenkeel_core::exit::{Exit, Exits};
use serde::{Deserialize, Serialize};

pub use boot::Lab;
pub use exchange::{Answer, Inside, Job, Step};
pub use kernel::{Built, build, find};
pub(crate) use kernel::{cache_dir, checksum};

/// Which kernel carries the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The one that runs now.
    Native,
    /// Debian's user-mode-linux.
    Uml,
    /// User Mode Linux in virtual time: an infinitely fast CPU.
    Virtual,
}

impl Engine {
    /// As on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Native => "native",
            Engine::Uml => "uml",
            Engine::Virtual => "virtual",
        }
    }
}

impl std::str::FromStr for Engine {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        [Engine::Native, Engine::Uml, Engine::Virtual]
            .into_iter()
            .find(|e| e.name() == s)
            .ok_or_else(|| "it must be native, uml or virtual".to_owned())
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

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

/// The first of `PATH`'s directories (and the administrator's) that has `program`.
fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|d| d.join(program))
        .find(|p| p.is_file())
}
