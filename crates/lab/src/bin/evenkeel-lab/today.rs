//! The day that stands in results.
//!
//! Principle: UTC, so that one day is the same everywhere. Non-goals: times within it.

use std::time::SystemTime;

/// The day in UTC: `2026-01-31`.
pub(crate) fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}
