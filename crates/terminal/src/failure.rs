//! What a command ends with when it does not end well: one line and an exit code.
//!
//! Principles: 1 the work failed, 2 bad usage, 3 not permitted, 4 the kernel lacks what is
//! needed; the line names the object and says what to do. Non-goals: backtraces.

use std::fmt;
use std::process::ExitCode;

use evenkeel_core::exit::{Exit, Exits};

/// A failed command.
#[derive(Debug)]
pub struct Failure {
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
    fn new(exit: Exit, line: impl fmt::Display) -> Self {
        Failure {
            code: exit as u8,
            line: line.to_string(),
        }
    }

    /// The work failed.
    pub fn work(line: impl fmt::Display) -> Self {
        Failure::new(Exit::Failed, line)
    }

    /// The command makes no sense as given.
    pub fn usage(line: impl fmt::Display) -> Self {
        Failure::new(Exit::Usage, line)
    }

    /// Rights are missing.
    pub fn denied(line: impl fmt::Display) -> Self {
        Failure::new(Exit::NotPermitted, line)
    }

    /// The machine lacks what is needed.
    pub fn lacking(line: impl fmt::Display) -> Self {
        Failure::new(Exit::Lacking, line)
    }

    /// Somebody who was asked has failed so.
    pub fn with_code(code: u8, line: impl fmt::Display) -> Self {
        Failure {
            code,
            line: line.to_string(),
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// A program that was called has failed with `code` and has said why.
    pub fn said(code: u8) -> Self {
        Failure {
            code,
            line: String::new(),
        }
    }

    /// Says it, and gives the code.
    pub fn report(&self) -> ExitCode {
        if !self.line.is_empty() {
            eprintln!("evenkeel: {}", self.line.replace('\n', " "));
        }
        ExitCode::from(self.code)
    }
}

impl<E: Exits> From<E> for Failure {
    fn from(e: E) -> Self {
        match e.exit() {
            exit @ Exit::Interrupted => Failure::new(exit, "interrupted; nothing was left behind"),
            exit => Failure::new(exit, e),
        }
    }
}
