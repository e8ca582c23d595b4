//! Why an operation cannot be said as a message.
//!
//! Principle: each names what was asked for. Non-goals: what the kernel says to the message
//! (`evenkeel-sys`), and messages that cannot be read, which are `None`.

/// Why an operation cannot be said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// No device of that name.
    #[error("no device {0:?}")]
    NoDevice(String),
    /// A device's name that the kernel cannot hold.
    #[error("{0:?} is no name for a device (1 to 15 bytes, no slash, no space)")]
    BadName(String),
    /// A rule that matches too much at once.
    #[error("a u32 rule with {0} keys (at most 128)")]
    TooManyKeys(usize),
}
