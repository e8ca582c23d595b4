//! Arguments of `shape`, `clear` and `status`, and what several commands take.
//!
//! Principle: what a value may be is said by its type. Non-goals: what is done with them
//! (`gateway`).

use std::path::PathBuf;

use clap::Args;
use evenkeel_core::plan::{Choice, Mode};
use evenkeel_core::rules::FlowRule;
use evenkeel_core::segments::Mss;
use evenkeel_core::{Framing, Rate};

use crate::config;

/// Arguments of `shape`.
#[derive(Debug, Args)]
pub(crate) struct Shape {
    /// The device that leads to the Internet
    pub(crate) device: String,
    /// The line's rate towards you, as the modem shows it: 100mbit, 40143kbit, a bare number is kbit/s
    #[arg(allow_hyphen_values = true)]
    pub(crate) down: Rate,
    /// The line's rate from you
    #[arg(allow_hyphen_values = true)]
    pub(crate) up: Rate,
    /// How the line frames packets: a keyword of tc-cake(8), or MODE:OVERHEAD like ptm:30 or none:18:mpu64;
    /// without it, one on the safe side
    #[arg(long)]
    pub(crate) framing: Option<Framing>,
    /// Queueing disciplines to use: auto, cake, htb, or bare (HTB and FIFOs)
    #[arg(long, default_value = "auto")]
    pub(crate) backend: Choice,
    /// What becomes of arrivals: shaped on an IFB, or policed where that is too much for the CPU;
    /// without it, an IFB where the kernel has them
    #[arg(long, value_enum)]
    pub(crate) ingress: Option<Arrivals>,
    /// fwmark of what arrives above 98 % and cannot be marked by ECN
    #[arg(long, value_name = "N")]
    pub(crate) police_mark: Option<u32>,
    /// What matters more: ping or bandwidth
    #[arg(long, default_value = "ping")]
    pub(crate) mode: Mode,
    /// Hold downloads back by their receive windows, where the kernel takes eBPF: on or off
    #[arg(long, value_enum, default_value = "on", hide_possible_values = true)]
    pub(crate) windows: Windows,
    /// Hold queues behind the gateway short by those windows too, as of a slow Wi-Fi: on or off
    #[arg(long, value_enum, default_value = "on", hide_possible_values = true)]
    pub(crate) lan: Windows,
    /// Longest segments of new TCP connections: auto, off, or bytes over IPv4; auto shortens packets
    /// that a slow line takes long for, and fills ATM's cells
    #[arg(long, default_value = "auto")]
    pub(crate) mss: Mss,
    /// Which flows are urgent, in order: "voice udp port 3478-3481", "bulk cgroup /backup.slice"
    #[arg(long = "rule", value_name = "RULE")]
    pub(crate) rules: Vec<FlowRule>,
    /// The file with further rules
    #[arg(long, value_name = "FILE", default_value = config::PATH)]
    pub(crate) config: PathBuf,
    /// Print the equivalent tc and ip commands and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove a queueing discipline that somebody else has put there
    #[arg(long)]
    pub(crate) replace: bool,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) state: StateArg,
}

/// Whether receive windows are bounded, or are for queues behind the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Windows {
    On,
    Off,
}

/// What becomes of arrivals.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Arrivals {
    Ifb,
    Police,
}

/// Arguments of `clear`.
#[derive(Debug, Args)]
pub(crate) struct Clear {
    /// The device
    #[arg(required_unless_present_any = ["all", "abandoned"])]
    pub(crate) device: Option<String>,
    /// Every device that evenkeel has changed
    #[arg(long, conflicts_with_all = ["device", "abandoned"])]
    pub(crate) all: bool,
    /// Devices that a `run` left behind which was killed; those that somebody shapes or follows stay
    #[arg(long, conflicts_with = "device")]
    pub(crate) abandoned: bool,
    #[command(flatten)]
    pub(crate) state: StateArg,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The device; without it, all that are shaped
    pub(crate) device: Option<String>,
    /// Again each second, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print JSON; with --watch one document a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) state: StateArg,
}

/// What every command that looks at shaped devices takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct StateArg {
    /// Where records of what was changed are kept
    #[arg(long, value_name = "DIR", default_value = evenkeel_kernel::state::DEFAULT_DIR, hide = true)]
    pub(crate) state_dir: PathBuf,
}
