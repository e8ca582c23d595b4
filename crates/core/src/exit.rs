//! What an error means to whoever called the program: its exit code.
//!
//! Principles: the codes are an interface that stays stable; the crate that knows an error sorts
//! it, so that no command line has to. Non-goals: printing (`evenkeel-terminal`).

/// Why a command ended without having done its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The work failed.
    Failed = 1,
    /// The command makes no sense as given.
    Usage = 2,
    /// Rights are missing.
    NotPermitted = 3,
    /// The kernel or the machine lacks what is needed.
    Lacking = 4,
    /// Ctrl-C, as a shell reports it.
    Interrupted = 130,
}

/// An error that knows what it means.
pub trait Exits: std::error::Error {
    /// Which kind of failure it is.
    fn exit(&self) -> Exit;
}
