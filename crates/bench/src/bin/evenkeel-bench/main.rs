//! evenkeel-bench: `evenkeel bench`, `evenkeel serve` and `evenkeel line` end up here.
//!
//! It is a program of its own because a gateway's needs neither HTTP nor TLS nor charts. This file
//! reads the command line and hands over; each command has a file of its own.

mod auto;
mod bench;
mod failure;
mod line;
mod serve;
mod token;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use evenkeel_bench::client::compare;
use failure::failure;

/// Measures latency under load on your own line.
#[derive(Debug, Parser)]
#[command(name = "evenkeel-bench", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load your line for a minute, and say what that does to its latency
    Bench(bench::Args),
    /// Be the far end that `bench` measures against
    Serve(serve::Args),
    /// What kind of line this is: its rates and framing, by measuring
    Line(line::Args),
    /// Bring shaping back once stdin ends
    #[command(name = compare::RESTORE, hide = true)]
    Restore {
        /// Where records are
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli: Cli = match evenkeel_terminal::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let result = match cli.command {
        Command::Bench(args) => bench::bench(&args),
        Command::Serve(args) => serve::serve(args),
        Command::Line(args) => line::line(&args),
        Command::Restore { dir } => compare::restore(&dir).map_err(failure),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
