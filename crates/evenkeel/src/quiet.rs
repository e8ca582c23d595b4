//! `quiet`: for a while, a call comes before everything else, whatever it is called by.
//!
//! Principles: the programs themselves know when it ends, so that it ends also where nothing of ours runs any more; calls
//! and games are found as rules and sizes say, everything that is merely usual becomes bulk. Non-goals: cutting anybody
//! off: what waits has what is left, and all of it when nobody calls.

use std::time::Duration;

use clap::Args;
use evenkeel_core::units::rounded;
use evenkeel_kernel::{Error, StateDir};
use evenkeel_socket::Request;
use evenkeel_sys::clock;
use evenkeel_terminal::{Failure, print};

use crate::args::StateArg;
use crate::ask;

/// Longer than this nobody calls.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Arguments of `quiet`.
#[derive(Debug, Args)]
pub(crate) struct Quiet {
    /// The device; without it, all that are shaped
    device: Option<String>,
    /// How long: 90m, 2h
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = span)]
    span: Duration,
    /// End it now
    #[arg(long, conflicts_with = "span")]
    off: bool,
    #[command(flatten)]
    state: StateArg,
}

fn span(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(span) if !span.is_zero() && span <= LONGEST => Ok(span),
        Ok(_) => Err("a day is the longest".into()),
        Err(e) => Err(e.to_string()),
    }
}

/// `evenkeel quiet`.
pub(crate) fn quiet(args: &Quiet) -> Result<(), Failure> {
    let dir = StateDir::new(&args.state.state_dir);
    let seconds = if args.off {
        0
    } else {
        args.span.as_secs().max(1) as u32
    };
    let request = Request::Quiet {
        device: args.device.clone(),
        seconds,
        token: None,
    };
    let said: String = ask::ask(&dir, &request, || {
        set(&dir, args.device.as_deref(), seconds)
    })?;
    print(&(said + "\n"))
}

/// Tells the programs of a device, or of all that are shaped.
pub(crate) fn set(dir: &StateDir, device: Option<&str>, seconds: u32) -> Result<String, Failure> {
    let devices = match device {
        Some(device) => vec![device.to_owned()],
        None => dir.devices()?,
    };
    let span = Duration::from_secs(seconds.into()).min(LONGEST);
    let until = if span.is_zero() {
        Duration::ZERO
    } else {
        clock::monotonic() + span
    };
    let mut told = Vec::new();
    for device in devices {
        if let Some(mut maps) = evenkeel_kernel::maps(&device)? {
            maps.set_quiet(until).map_err(Error::from)?;
            told.push(device);
        }
    }
    if told.is_empty() {
        return Err(Failure::lacking(
            "no device has evenkeel's programs: `evenkeel shape` or `evenkeel run` attaches them",
        ));
    }
    let names = told.join(", ");
    if span.is_zero() {
        return Ok(format!("{names}: everything as usual again"));
    }
    let span = rounded::age(span.as_secs_f64());
    Ok(format!(
        "{names}: calls come before everything else for {span}; it ends by itself"
    ))
}
