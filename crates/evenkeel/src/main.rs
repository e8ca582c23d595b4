//! evenkeel: keeps a busy Internet line responsive, by itself.
//!
//! This file reads the command line and hands over; each command has a file of its own.

mod args;
mod ask;
mod clear;
mod config;
mod device;
mod flows;
mod gateway;
mod history;
mod lab;
mod ping;
mod quiet;
mod run;
mod service;
mod trace;
mod usage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use evenkeel_terminal::Failure;

/// Keeps a busy Internet line responsive.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show on an emulated VDSL-100 line what evenkeel does to a loaded line
    Demo(lab::Passed),
    /// Shape a device: queues go where they can be kept short
    Shape(args::Shape),
    /// Keep a line responsive that nothing is told about: find out what it carries, and follow it
    Run(run::Run),
    /// Tell the daemon something until the next reload: the mode, the rules
    Set(ask::Set),
    /// Have the daemon read its settings again
    Reload(ask::Reload),
    /// Take everything back from a device, or from all
    Clear(args::Clear),
    /// Say what is in force and what it did so far
    Status(args::Status),
    /// Do not disturb: for an hour a call comes before everything else
    Quiet(quiet::Quiet),
    /// Who uses the line now, how urgent that is and why
    Flows(flows::Flows),
    /// What the line did: rates, latency and reasons, minute by minute for 60 days
    History(history::History),
    /// How much the line has moved: today, this week, this month; by tier, host and program
    Usage(usage::Usage),
    /// Round trips to a host, stamped by the kernel; short flags are hrPing's
    Ping(ping::Ping),
    /// The hops to a host and their round trips
    Trace(trace::Trace),
    /// Load your line for a minute, and say what that does to its latency
    Bench(lab::Passed),
    /// Be the far end that `bench` measures against
    Serve(lab::Passed),
    /// What kind of line this is: its rates and framing, by measuring
    Line(lab::Passed),
    /// Experiments on emulated lines
    Lab(lab::Passed),
    /// Tables and pictures of results, bench runs or ping logs again, without measuring
    Report(lab::Passed),
}

fn main() -> ExitCode {
    let args = match ping::habits::translate(std::env::args_os().collect()) {
        Ok(args) => args,
        Err(why) => return Failure::usage(why).report(),
    };
    let cli: Cli = match evenkeel_terminal::parse(args) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let result = match cli.command {
        Command::Demo(args) => lab::become_lab("demo", args),
        Command::Shape(args) => gateway::shape(args),
        Command::Run(args) => run::run(args),
        Command::Set(args) => ask::set(&args),
        Command::Reload(args) => ask::reload(&args),
        Command::Clear(args) => clear::clear(&args),
        Command::Status(args) => gateway::status(&args),
        Command::Quiet(args) => quiet::quiet(&args),
        Command::Flows(args) => flows::flows(&args),
        Command::History(args) => history::history(&args),
        Command::Usage(args) => usage::usage(&args),
        Command::Ping(args) => ping::ping(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Bench(args) => lab::become_bench("bench", args),
        Command::Serve(args) => lab::become_bench("serve", args),
        Command::Line(args) => lab::become_bench("line", args),
        Command::Lab(args) => lab::become_lab("lab", args),
        Command::Report(args) => lab::become_lab("report", args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
