//! `run`: keeps a line responsive that nothing is told about.
//!
//! Principles: in the foreground, under a terminal or a service manager; what is typed comes before
//! what the file says; every change of rates has its reason on a line of its own, as long as it is
//! one that a person would want to read. This file has the arguments and what follows from them; `daemon` is the
//! process, `line` one device of it, `answers` the control socket, `pages` the server of pages. Non-goals: following the
//! line (crate `evenkeel-autorate`).

mod answers;
mod daemon;
mod line;
mod pages;
mod watcher;

use std::path::PathBuf;

use clap::Args;
use evenkeel_autorate::{Host, PROFILE_DIR, Settings, USUAL, request};
use evenkeel_core::control::Bounds;
use evenkeel_core::plan::{Choice, Mode};
use evenkeel_core::rules::FlowRule;
use evenkeel_core::{Direction, Framing, PerDirection, Rate};
use evenkeel_kernel::{Request, StateDir};
use evenkeel_sys::memory;
use evenkeel_terminal::Failure;

use crate::args::StateArg;
use crate::config::{self, Config};

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// The device that leads to the Internet; without it, that of the default route
    pub(crate) device: Option<String>,
    /// A first guess of the line's rates, towards you and from you
    #[arg(long, num_args = 2, value_names = ["DOWN", "UP"])]
    rate: Option<Vec<Rate>>,
    /// Never shape to less than this, towards you and from you
    #[arg(long, num_args = 2, value_names = ["DOWN", "UP"])]
    min: Option<Vec<Rate>>,
    /// Never to more
    #[arg(long, num_args = 2, value_names = ["DOWN", "UP"])]
    max: Option<Vec<Rate>>,
    /// How the line frames packets: a keyword of tc-cake(8), or MODE:OVERHEAD like ptm:30;
    /// without it, one that suits most lines
    #[arg(long)]
    framing: Option<Framing>,
    /// What matters more: ping, the default, or bandwidth
    #[arg(long)]
    mode: Option<Mode>,
    /// Queueing disciplines to use: auto, cake, htb, or bare (HTB and FIFOs)
    #[arg(long, default_value = "auto")]
    backend: Choice,
    /// Probe these hosts, the first that answers, rather than one on the way to the Internet
    #[arg(long = "target", value_name = "HOST", value_delimiter = ',')]
    targets: Vec<Host>,
    /// Which flows are urgent, in order
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<FlowRule>,
    /// The file with further rules, and with what is not typed
    #[arg(long, value_name = "FILE", default_value = config::PATH)]
    config: PathBuf,
    /// Remove a queueing discipline that somebody else has put there
    #[arg(long)]
    replace: bool,
    /// When it ends, leave the line shaped at what it carries
    #[arg(long)]
    keep: bool,
    /// Wait for a device or a default route that is not there yet
    #[arg(long)]
    wait: bool,
    /// Say each change of rates, also while a queue is drained
    #[arg(long)]
    verbose: bool,
    /// Start without what was learned of this line before
    #[arg(long)]
    forget: bool,
    /// Where what was learned of lines is kept
    #[arg(long, value_name = "DIR", default_value = PROFILE_DIR, hide = true)]
    profile_dir: PathBuf,
    #[command(flatten)]
    state: StateArg,
}

/// `evenkeel run`.
pub(crate) fn run(args: Run) -> Result<(), Failure> {
    memory::one_heap();
    let config = Config::load(&args.config)?;
    daemon::run(args, config)
}

/// What is told until the next reload, rather than by the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Override {
    pub(crate) mode: Option<Mode>,
    pub(crate) rules: Option<Vec<FlowRule>>,
}

/// Between which rates, and a first guess of them.
fn bounds(args: &Run, line: &config::LineConfig) -> Result<PerDirection<Bounds>, Failure> {
    // DOWN UP, as they are typed.
    let typed = |rates: Option<&Vec<Rate>>, d| {
        let place = usize::from(d == Direction::Up);
        rates.and_then(|r| r.get(place).copied())
    };
    let bounds = PerDirection::of(|d| Bounds {
        least: typed(args.min.as_ref(), d).or_else(|| Some(line.min.as_ref()?[d])),
        most: typed(args.max.as_ref(), d).or_else(|| Some(line.max.as_ref()?[d])),
        guess: typed(args.rate.as_ref(), d),
    });
    for direction in Direction::BOTH {
        let b = &bounds[direction];
        if let (Some(least), Some(most)) = (b.least, b.most)
            && least > most
        {
            return Err(Failure::usage(format_args!(
                "{direction}: --min {least} is more than --max {most}"
            )));
        }
    }
    Ok(bounds)
}

/// What is told for a device; else what is typed, and where nothing is, what the file says.
fn settings(
    args: &Run,
    config: &Config,
    device: &str,
    told: &Override,
) -> Result<Settings, Failure> {
    let line = config.of(device);
    let mut rules = match &told.rules {
        Some(rules) => rules.clone(),
        None => args.rules.clone(),
    };
    if told.rules.is_none() {
        rules.extend(config.rules.iter().cloned());
    }
    let targets = if args.targets.is_empty() {
        &line.targets
    } else {
        &args.targets
    };
    let mode = told.mode.or(args.mode).or(line.mode).unwrap_or_default();
    Ok(Settings {
        request: Request {
            framing: Some(args.framing.or(line.framing).unwrap_or(USUAL)),
            choice: args.backend,
            replace: args.replace,
            rules,
            ..request(device, mode)
        },
        bounds: bounds(args, line)?,
        targets: targets.clone(),
        use_profile: !args.forget && args.rate.is_none(),
        profile_dir: args.profile_dir.clone(),
        state: StateDir::new(&args.state.state_dir),
    })
}
