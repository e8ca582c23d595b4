//! Milliseconds as experiments' files have them.
//!
//! Non-goal: checking them (`experiment`).

use std::time::Duration;

/// Milliseconds, which validation has seen to be finite and not negative.
pub(crate) fn millis(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}
