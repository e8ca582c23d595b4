//! `run`: keeps a line responsive that nothing is told about.
//!
//! Principles: in the foreground, under a terminal or a service manager; what is typed comes before
//! what the file says; every change of rates has its reason on a line of its own, as long as it is
//! one that a person would want to read. Non-goals: following the line (crate `evenkeel-autorate`).

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use evenkeel_autorate::{
    Ended, Event, Host, Order, PROFILE_DIR, Settings, Snapshot, USUAL, Watcher, request,
};
use evenkeel_core::control::Bounds;
use evenkeel_core::plan::{Choice, Mode};
use evenkeel_core::rules::FlowRule;
use evenkeel_core::{Direction, Framing, PerDirection, Rate};
use evenkeel_kernel::{Request, StateDir};
use evenkeel_sys::{clock, memory};
use evenkeel_terminal::{Failure, cancelled_by_signals, print};

use crate::args::StateArg;
use crate::config::{self, Config};
use crate::device;
use crate::service::Service;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The device that leads to the Internet; without it, that of the default route
    device: Option<String>,
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
    let config = config::Config::load(&args.config)?;
    let bounds = bounds(&args, &config)?;
    let cancel = cancelled_by_signals()?;
    let service = Service::from_environment();
    let named = args.device.clone().or_else(|| config.device.clone());
    let begun = clock::monotonic();
    let tell = |text: &str| {
        let at = clock::monotonic().saturating_sub(begun).as_secs_f64();
        let _ = print(&format!("{at:>9.3} s  {text}\n"));
        service.status(text);
    };
    let device = if args.wait {
        device::wait(named.as_deref(), &cancel, &service, &mut |text| tell(text))?
    } else {
        Some(device::find(named)?)
    };
    let Some(device) = device else {
        return print("stopped before there was a device: nothing was changed\n");
    };
    let verbose = args.verbose;
    let settings = settings(args, config, bounds, &device);
    let model = settings.state.model_file(&device);
    let order = Order {
        stop: Arc::clone(&cancel),
        ..Order::default()
    };
    let mut watcher = Teller { verbose, tell };
    let ended = service.watch(&model, &cancel, || {
        evenkeel_autorate::run(settings, &order, &mut watcher)
    })?;
    print(&match ended {
        Ended::AsBefore => format!("{device}: as it was before\n"),
        Ended::Kept => format!("{device}: it stays shaped\n"),
        Ended::Gone => format!("{device}: it has gone; nothing is left\n"),
    })
}

/// Says what happens.
struct Teller<F: FnMut(&str)> {
    verbose: bool,
    tell: F,
}

impl<F: FnMut(&str)> Watcher for Teller<F> {
    fn event(&mut self, event: &Event, news: bool) {
        if self.verbose || news {
            (self.tell)(&event.to_string());
        }
    }

    fn snapshot(&mut self, _: &Snapshot) {}
}

/// Between which rates, and a first guess of them.
fn bounds(args: &Run, config: &Config) -> Result<PerDirection<Bounds>, Failure> {
    // DOWN UP, as they are typed.
    let typed = |rates: Option<&Vec<Rate>>, d| {
        let place = usize::from(d == Direction::Up);
        rates.and_then(|r| r.get(place).copied())
    };
    let bounds = PerDirection::of(|d| Bounds {
        least: typed(args.min.as_ref(), d).or_else(|| Some(config.min.as_ref()?[d])),
        most: typed(args.max.as_ref(), d).or_else(|| Some(config.max.as_ref()?[d])),
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

/// What is typed, and where nothing is, what the file says.
fn settings(args: Run, config: Config, bounds: PerDirection<Bounds>, device: &str) -> Settings {
    let mut rules = args.rules;
    rules.extend(config.rules);
    let targets = if args.targets.is_empty() {
        config.targets
    } else {
        args.targets
    };
    let mode = args.mode.or(config.mode).unwrap_or_default();
    Settings {
        request: Request {
            framing: Some(args.framing.or(config.framing).unwrap_or(USUAL)),
            choice: args.backend,
            replace: args.replace,
            rules,
            ..request(device, mode)
        },
        bounds,
        targets,
        use_profile: !args.forget && args.rate.is_none(),
        profile_dir: args.profile_dir,
        state: StateDir::new(args.state.state_dir),
    }
}
