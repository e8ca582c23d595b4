//! Where a cell is, on the status line.
//!
//! Principle: the same words for every command that runs cells. Non-goals: what a cell is called.

use evenkeel_lab::{Phase, Progress, Stage};
use evenkeel_terminal::StatusLine;

/// Shows how far the cell called `name` is; takes it away once it has ended.
pub(crate) fn show(line: &mut StatusLine, progress: &Progress<'_>, name: &str) {
    let doing = match progress.stage {
        Stage::Starting => "booting".to_owned(),
        Stage::Ended => return line.end(progress.number),
        Stage::Running(step) => {
            let left = step.left.as_secs_f64().ceil();
            match step.phase {
                Phase::Idle => format!("idle line, {left:.0} s left"),
                Phase::Load => format!("under load, {left:.0} s left"),
                Phase::Finish => "last probes".to_owned(),
            }
        }
    };
    line.show(progress.number, name, &doing);
}
