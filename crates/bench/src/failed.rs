//! Why there is no result.
//!
//! Non-goals: exit codes (the program's).

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The work failed.
    #[error("{0}")]
    Work(String),
    /// It makes no sense as asked.
    #[error("{0}")]
    Usage(String),
    /// It is not permitted.
    #[error("{0}")]
    Denied(String),
}

impl From<evenkeel_sys::Error> for Failed {
    fn from(e: evenkeel_sys::Error) -> Self {
        if e.is_permission() {
            Failed::Denied(e.to_string())
        } else {
            Failed::Work(e.to_string())
        }
    }
}
