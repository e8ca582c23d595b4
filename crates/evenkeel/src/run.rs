//! `run`: keeps a line responsive that nothing is told about.
//!
//! Principles: in the foreground, under a terminal or a service manager; what is typed comes before
//! what the file says; every change of rates has its reason on a line of its own, as long as it is
//! one that a person would want to read. `daemon` is the process, `line` one device of it, `settings` what is wanted,
//! `people` what rules mean now, `answers` the control socket, `pages` the server of pages. Non-goals: following the line (crate
//! `evenkeel-autorate`).

mod accountant;
mod answers;
mod daemon;
mod expectation;
mod line;
mod pages;
mod pauses;
mod people;
mod settings;
mod watcher;

use evenkeel_sys::memory;
use evenkeel_terminal::Failure;

pub(crate) use settings::Run;

use crate::config::Config;

/// `evenkeel run`.
pub(crate) fn run(args: Run) -> Result<(), Failure> {
    memory::one_heap();
    let config = Config::load(args.config_file())?;
    daemon::run(args, config)
}
