//! `demo` and `lab`: placeholder until the lab crate lands.
use clap::{Args, Subcommand};

use crate::failure::Failure;

/// demo
#[derive(Debug, Args)]
pub(crate) struct Demo {}
/// lab
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// run
    Run(Demo),
    /// list
    List(Demo),
}
pub(crate) fn demo(_: &Demo) -> Result<(), Failure> {
    Err(Failure::work("x"))
}
pub(crate) fn run(_: &Demo) -> Result<(), Failure> {
    Err(Failure::work("x"))
}
pub(crate) fn list(_: &Demo) -> Result<(), Failure> {
    Err(Failure::interrupted())
}
