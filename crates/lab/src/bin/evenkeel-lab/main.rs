//! evenkeel-lab: experiments on emulated lines, and reports of what was measured.
//!
//! `evenkeel lab`, `evenkeel demo` and `evenkeel report` end up here. It is a program of its own
//! because a gateway needs neither charts nor fonts nor kernels. This file reads the command line
//! and hands over; each command has a file of its own.

mod ablation;
mod bench;
mod framing;
mod guests;
mod homes;
mod lab;
mod lines;
mod progress;
mod report;
mod results;
mod today;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures what evenkeel and others do to emulated lines.
#[derive(Debug, Parser)]
#[command(name = "evenkeel-lab", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show on an emulated VDSL-100 line what evenkeel does to a loaded line
    Demo(lab::Demo),
    /// Experiments on emulated lines
    #[command(subcommand)]
    Lab(lab::Lab),
    /// The committed result pages: make what is stale, or check or confirm them
    #[command(hide = true)]
    Results(results::Results),
    /// Tables and pictures of a result or of ping logs again, without measuring
    Report(report::Report),
}

fn main() -> ExitCode {
    let cli: Cli = match evenkeel_terminal::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let result = match cli.command {
        Command::Demo(args) => lab::demo(&args),
        Command::Lab(lab::Lab::Run(args)) => lab::run(&args),
        Command::Lab(lab::Lab::List(args)) => lab::list(&args),
        Command::Lab(lab::Lab::Kernel(guests::Kernel::Build(args))) => guests::build(&args),
        Command::Lab(lab::Lab::Lines(args)) => lines::lines(&args),
        Command::Lab(lab::Lab::Framing(args)) => framing::framing(&args),
        Command::Lab(lab::Lab::Bench(args)) => bench::bench(&args),
        Command::Lab(lab::Lab::Homes(args)) => homes::homes(&args),
        Command::Lab(lab::Lab::Ablation(args)) => ablation::ablation(&args),
        Command::Lab(lab::Lab::Inside(args)) => guests::inside(&args),
        Command::Results(args) => results::results(&args),
        Command::Report(args) => report::report(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
