//! The arguments of `run`, and what follows from them and from the file for a device.
//!
//! Principles: what is told while it runs comes before what is typed, and that before what the file says. Non-goals:
//! when settings are read (`daemon`).

use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_autorate::{Cooperate, Host, PROFILE_DIR, Settings, request};
use evenkeel_core::control::Bounds;
use evenkeel_core::plan::{Choice, Mode};
use evenkeel_core::rules::FlowRule;
use evenkeel_core::{Direction, Framing, PerDirection, Rate};
use evenkeel_kernel::{Known, Request, StateDir};
use evenkeel_terminal::Failure;

use crate::args::{StateArg, Windows};
use crate::config::{self, Config};

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// The device that leads to the Internet; without it, that of the default route
    pub(super) device: Option<String>,
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
    /// without it, what `evenkeel line --apply` measured, or what passing packets told, or one that suits most
    /// lines
    #[arg(long)]
    framing: Option<Framing>,
    /// What matters more: ping, the default, or bandwidth
    #[arg(long)]
    mode: Option<Mode>,
    /// Hold queues behind the gateway short by receive windows, as of a slow Wi-Fi: on, the default, or off
    #[arg(long, value_enum, hide_possible_values = true)]
    lan: Option<Windows>,
    /// Share the line with others on the LAN who look after it: on, the default, or off
    #[arg(long, value_enum, hide_possible_values = true)]
    cooperate: Option<Windows>,
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
    pub(super) config: PathBuf,
    /// Remove a queueing discipline that somebody else has put there
    #[arg(long)]
    replace: bool,
    /// When it ends, leave the line shaped at what it carries
    #[arg(long)]
    pub(super) keep: bool,
    /// Wait for a device or a default route that is not there yet
    #[arg(long)]
    pub(super) wait: bool,
    /// Say each change of rates, also while a queue is drained
    #[arg(long)]
    pub(super) verbose: bool,
    /// Start without what was learned of this line before
    #[arg(long)]
    forget: bool,
    /// Where what was learned of lines is kept
    #[arg(long, value_name = "DIR", default_value = PROFILE_DIR, hide = true)]
    pub(super) profile_dir: PathBuf,
    #[command(flatten)]
    pub(super) state: StateArg,
}

impl Run {
    /// The file with settings.
    pub(super) fn config_file(&self) -> &Path {
        &self.config
    }
}

/// What is told until the next reload, rather than by the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Override {
    pub(super) mode: Option<Mode>,
    pub(super) rules: Option<Vec<FlowRule>>,
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

/// The mode of a device at this time.
pub(super) fn mode(args: &Run, config: &Config, device: &str, told: &Override) -> Mode {
    let timed = || config.of(device).mode_in(Known::now().minute);
    told.mode.or(args.mode).or_else(timed).unwrap_or_default()
}

/// What is told for a device; else what is typed, and where nothing is, what the file says.
pub(super) fn settings(
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
    let mode = mode(args, config, device, told);
    let is_on = args.cooperate.map(|w| w == Windows::On);
    let is_on = is_on.or(config.cooperate).unwrap_or(true);
    Ok(Settings {
        request: Request {
            framing: args.framing.or(line.framing),
            choice: args.backend,
            lan: args
                .lan
                .map(|w| w == Windows::On)
                .or(line.lan)
                .unwrap_or(true),
            replace: args.replace,
            rules,
            ..request(device, mode)
        },
        bounds: bounds(args, line)?,
        targets: targets.clone(),
        budget: line.probe_budget,
        expected: PerDirection::default(),
        cooperate: is_on.then(|| Cooperate {
            secret: config.secret.clone(),
        }),
        use_profile: !args.forget && args.rate.is_none(),
        profile_dir: args.profile_dir.clone(),
        state: StateDir::new(&args.state.state_dir),
    })
}
