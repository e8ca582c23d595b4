//! Asks the daemon, where one runs: `reload`, `set`, and what other commands ask before they look themselves.
//!
//! Principles: where no daemon listens everything is as it was without one; what it refuses is refused. Non-goals: what
//! it answers (`run::answers`).

use std::time::Duration;

use clap::Args;
use evenkeel_core::plan::Mode;
use evenkeel_core::rules::FlowRule;
use evenkeel_kernel::StateDir;
use evenkeel_socket::{Refused, Request};
use evenkeel_terminal::{Failure, print};
use serde::de::DeserializeOwned;

use crate::args::StateArg;

/// An answer comes within this, or nobody is there. Starting a device takes seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// What changes something takes longer.
const LONG: Duration = Duration::from_secs(60);

/// What the daemon answers; `otherwise` where there is none.
pub(crate) fn ask<T: DeserializeOwned>(
    dir: &StateDir,
    request: &Request,
    otherwise: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let patience = if request.is_order() { LONG } else { PATIENCE };
    match evenkeel_socket::ask(&dir.socket_file(), request, patience) {
        // An answer of another version's is as good as none.
        Ok(answer) => serde_json::from_value(answer).or_else(|_| otherwise()),
        Err(Refused::Nobody) => otherwise(),
        Err(Refused::Said { error, code }) => Err(Failure::with_code(code, error)),
    }
}

/// Removes the socket of a daemon that was killed.
pub(crate) fn tidy(dir: &StateDir) {
    let request = Request::Status {
        device: Some(String::new()),
    };
    let _ = evenkeel_socket::ask(&dir.socket_file(), &request, PATIENCE);
}

/// Arguments of `reload`.
#[derive(Debug, Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    state: StateArg,
}

/// Arguments of `set`.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The device; without it, each that the daemon follows
    device: Option<String>,
    /// What matters more: ping or bandwidth
    #[arg(long, required_unless_present_any = ["rules", "no_rules"])]
    mode: Option<Mode>,
    /// Which flows are urgent, in order, instead of the rules that were told
    #[arg(long = "rule", value_name = "RULE", conflicts_with = "no_rules")]
    rules: Vec<FlowRule>,
    /// No rules but the default ones
    #[arg(long)]
    no_rules: bool,
    #[command(flatten)]
    state: StateArg,
}

fn nobody<T>() -> Result<T, Failure> {
    Err(Failure::work(
        "no daemon runs here: `evenkeel run`, or `systemctl start evenkeel`",
    ))
}

/// `evenkeel reload`.
pub(crate) fn reload(args: &Reload) -> Result<(), Failure> {
    let dir = StateDir::new(&args.state.state_dir);
    let said: String = ask(&dir, &Request::Reload { token: None }, nobody)?;
    print(&(said + "\n"))
}

/// `evenkeel set`.
pub(crate) fn set(args: &Set) -> Result<(), Failure> {
    let rules: Vec<String> = args.rules.iter().map(ToString::to_string).collect();
    let request = Request::Set {
        device: args.device.clone(),
        mode: args.mode.map(|m| m.to_string()),
        rules: (args.no_rules || !rules.is_empty()).then_some(rules),
        token: None,
    };
    let dir = StateDir::new(&args.state.state_dir);
    let said: String = ask(&dir, &request, nobody)?;
    print(&(said + "\n"))
}
