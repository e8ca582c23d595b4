//! `lab kernel build`, and `lab inside`, which is the guest's part of a run.
//!
//! Non-goals: the guests themselves (`evenkeel_lab::guest`).

use std::path::PathBuf;

use clap::{Args, Subcommand};
use evenkeel_lab::guest;
use evenkeel_terminal::{Failure, StatusLine, cancelled_by_signals};

/// `lab kernel`'s commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Kernel {
    /// Build the kernel for virtual time from Debian's source: some six minutes, once
    Build(Build),
}

/// Arguments of `lab kernel build`.
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// Build it even if it is there
    #[arg(long)]
    force: bool,
}

/// Arguments of `lab inside`.
#[derive(Debug, Args)]
pub(crate) struct InsideArgs {
    /// Where job and experiment are
    directory: PathBuf,
}

/// `evenkeel lab kernel build`.
pub(crate) fn build(args: &Build) -> Result<(), Failure> {
    let cancel = cancelled_by_signals()?;
    let mut line = StatusLine::new();
    let mut tell = |step: &str, last: &str| line.show(0, step, last);
    let built = guest::build(args.force, &mut tell, &cancel);
    line.clear();
    let built = built?;
    let word = if built.cached { "is there" } else { "is built" };
    eprintln!(
        "The kernel for virtual time {word}: {}",
        built.path.display()
    );
    Ok(())
}

/// `evenkeel lab inside`.
pub(crate) fn inside(args: &InsideArgs) -> Result<(), Failure> {
    Ok(guest::run_inside(&args.directory)?)
}
