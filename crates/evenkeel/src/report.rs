//! `report`: tables and pictures of a result again, without measuring.
//!
//! Principle: everything comes from the file. Non-goals: several files at once.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// What lab run has written: result.json
    result: PathBuf,
    /// Directory for the report and its pictures
    #[arg(long)]
    out: Option<PathBuf>,
}

/// `evenkeel report`.
pub(crate) fn report(args: &Report) -> Result<(), Failure> {
    let result = evenkeel_report::read(&args.result).map_err(Failure::work)?;
    crate::gateway::print(&evenkeel_report::table(&result))?;
    match &args.out {
        Some(out) => crate::lab::write(&result, out),
        None => Ok(()),
    }
}
