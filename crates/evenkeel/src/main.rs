//! evenkeel: keeps a busy Internet line responsive, by itself.
//!
//! This file reads the command line and hands over; each command has a file of its own.

mod config;
mod flows;
mod gateway;
mod lab;
mod ping;
mod run;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use evenkeel_core::plan::{Choice, Mode};
use evenkeel_core::rules::FlowRule;
use evenkeel_core::segments::Mss;
use evenkeel_core::{Framing, Rate};
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
    Shape(Shape),
    /// Keep a line responsive that nothing is told about: find out what it carries, and follow it
    Run(run::Run),
    /// Take everything back from a device
    Clear(Clear),
    /// Say what is in force and what it did so far
    Status(Status),
    /// Who uses the line now, how urgent that is and why
    Flows(flows::Flows),
    /// Round trips to a host, stamped by the kernel; short flags are hrPing's
    Ping(ping::Ping),
    /// The hops to a host and their round trips
    Trace(trace::Trace),
    /// Experiments on emulated lines
    Lab(lab::Passed),
    /// Tables and pictures of a result or of ping logs again, without measuring
    Report(lab::Passed),
}

#[derive(Debug, Args)]
struct Shape {
    /// The device that leads to the Internet
    device: String,
    /// The line's rate towards you, as the modem shows it: 100mbit, 40143kbit, a bare number is kbit/s
    #[arg(allow_hyphen_values = true)]
    down: Rate,
    /// The line's rate from you
    #[arg(allow_hyphen_values = true)]
    up: Rate,
    /// How the line frames packets: a keyword of tc-cake(8), or MODE:OVERHEAD like ptm:30 or none:18:mpu64;
    /// without it, one on the safe side
    #[arg(long)]
    framing: Option<Framing>,
    /// Queueing disciplines to use: auto, cake, htb, or bare (HTB and FIFOs)
    #[arg(long, default_value = "auto")]
    backend: Choice,
    /// What becomes of arrivals: shaped on an IFB, or policed where that is too much for the CPU;
    /// without it, an IFB where the kernel has them
    #[arg(long, value_enum)]
    ingress: Option<Arrivals>,
    /// fwmark of what arrives above 98 % and cannot be marked by ECN
    #[arg(long, value_name = "N")]
    police_mark: Option<u32>,
    /// What matters more: ping or bandwidth
    #[arg(long, default_value = "ping")]
    mode: Mode,
    /// Hold downloads back by their receive windows, where the kernel takes eBPF: on or off
    #[arg(long, value_enum, default_value = "on", hide_possible_values = true)]
    windows: Windows,
    /// Longest segments of new TCP connections: auto, off, or bytes over IPv4; auto shortens packets
    /// that a slow line takes long for, and fills ATM's cells
    #[arg(long, default_value = "auto")]
    mss: Mss,
    /// Which flows are urgent, in order: "voice udp port 3478-3481", "bulk cgroup /backup.slice"
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<FlowRule>,
    /// The file with further rules
    #[arg(long, value_name = "FILE", default_value = config::PATH)]
    config: PathBuf,
    /// Print the equivalent tc and ip commands and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove a queueing discipline that somebody else has put there
    #[arg(long)]
    replace: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArg,
}

/// Whether receive windows are bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Windows {
    On,
    Off,
}

/// What becomes of arrivals.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Arrivals {
    Ifb,
    Police,
}

#[derive(Debug, Args)]
struct Clear {
    /// The device
    device: String,
    #[command(flatten)]
    state: StateArg,
}

#[derive(Debug, Args)]
struct Status {
    /// The device; without it, all that are shaped
    device: Option<String>,
    /// Again each second, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Print JSON; with --watch one document a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArg,
}

#[derive(Debug, Args)]
struct StateArg {
    /// Where records of what was changed are kept
    #[arg(long, value_name = "DIR", default_value = evenkeel_kernel::state::DEFAULT_DIR, hide = true)]
    state_dir: PathBuf,
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
        Command::Clear(args) => gateway::clear(&args),
        Command::Status(args) => gateway::status(&args),
        Command::Flows(args) => flows::flows(&args),
        Command::Ping(args) => ping::ping(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Lab(args) => lab::become_lab("lab", args),
        Command::Report(args) => lab::become_lab("report", args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
