//! What a command ends with when it does not end well: one line and an exit code.
//!
//! Principles: 1 the work failed, 2 bad usage, 3 not permitted, 4 the kernel lacks what is
//! needed; the line names the object and says what to do. Non-goals: backtraces.

use std::fmt;
use std::process::ExitCode;

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    line: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// The work failed.
    pub(crate) fn work(line: impl fmt::Display) -> Self {
        Failure {
            code: 1,
            line: line.to_string(),
        }
    }

    /// The command makes no sense as given.
    pub(crate) fn usage(line: impl fmt::Display) -> Self {
        Failure {
            code: 2,
            line: line.to_string(),
        }
    }

    /// Rights are missing.
    pub(crate) fn not_permitted(line: impl fmt::Display) -> Self {
        Failure {
            code: 3,
            line: line.to_string(),
        }
    }

    /// The machine lacks what is needed.
    pub(crate) fn lacking(line: impl fmt::Display) -> Self {
        Failure {
            code: 4,
            line: line.to_string(),
        }
    }

    /// Ctrl-C, as a shell reports it.
    pub(crate) fn interrupted() -> Self {
        Failure {
            code: 130,
            line: "interrupted; nothing was left behind".into(),
        }
    }

    /// Says it, and gives the code.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("evenkeel: {}", self.line.replace('\n', " "));
        ExitCode::from(self.code)
    }
}

impl From<evenkeel_kernel::Error> for Failure {
    fn from(e: evenkeel_kernel::Error) -> Self {
        Failure {
            code: e.exit_code(),
            line: e.to_string(),
        }
    }
}
