//! Exit codes as all commands have them.
//!
//! Non-goals: messages.

use evenkeel_bench::client::Failed;
use evenkeel_terminal::Failure;

/// What a command ends with.
pub(crate) fn failure(e: Failed) -> Failure {
    match e {
        Failed::Work(line) => Failure::work(line),
        Failed::Usage(line) => Failure::usage(line),
        Failed::Denied(line) => Failure::denied(line),
    }
}
