//! `run`: keeps a line responsive that nothing is told about.
//!
//! Principles: in the foreground; what is set up is taken back at the end; every change of rates
//! has its reason on a line of its own, as long as it is one that a person would want to read; a
//! device that goes is waited for, since PPPoE's does so each night.
//! Non-goals: the loop (`daemon`), deciding (`evenkeel_core::control`).

pub(crate) mod daemon;
pub(crate) mod model;
pub(crate) mod near;
mod others;
mod price;
mod profile;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use evenkeel_core::control::{Bounds, Reason};
use evenkeel_core::plan::{Choice, Ingress, Mode, Target};
use evenkeel_core::rules::FlowRule;
use evenkeel_core::segments::Mss;
use evenkeel_core::{Direction, Framing, Line, PerDirection, Rate};
use evenkeel_kernel::{Request, Session, StateDir};
use evenkeel_sys::{clock, memory};

use crate::failure::Failure;
use crate::gateway::print;
use crate::{StateArg, config};
use daemon::{Daemon, Look, Told};
use model::Keeper;
use near::Host;
use profile::Store;

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
    /// What matters more: ping or bandwidth
    #[arg(long, default_value = "ping")]
    mode: Mode,
    /// Queueing disciplines to use: auto, cake, htb, or bare (HTB and FIFOs)
    #[arg(long, default_value = "auto")]
    backend: Choice,
    /// Probe these hosts, the first that answers, rather than one on the way to the Internet
    #[arg(long = "target", value_name = "HOST", value_delimiter = ',')]
    targets: Vec<Host>,
    /// Which flows are urgent, in order
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<FlowRule>,
    /// The file with further rules and targets
    #[arg(long, value_name = "FILE", default_value = config::PATH)]
    config: PathBuf,
    /// Remove a queueing discipline that somebody else has put there
    #[arg(long)]
    replace: bool,
    /// Say each change of rates, also while a queue is drained
    #[arg(long)]
    verbose: bool,
    /// Start without what was learned of this line before
    #[arg(long)]
    forget: bool,
    /// Where what was learned of lines is kept
    #[arg(long, value_name = "DIR", default_value = profile::DEFAULT_DIR, hide = true)]
    profile_dir: PathBuf,
    #[command(flatten)]
    state: StateArg,
}

/// A device that has gone is looked for this often.
const AWAIT: Duration = Duration::from_millis(500);

/// Framing that suits most lines of today: Ethernet, fibre, cable, and VDSL with PPPoE.
pub(crate) const USUAL: Framing = Framing::new(evenkeel_core::framing::Mode::Ptm, 34, 0);

/// To shape `device`, of which nothing is known.
pub(crate) fn request(device: &str, mode: Mode) -> Request {
    Request {
        device: device.to_owned(),
        down: Line::OPEN,
        up: Line::OPEN,
        framing: Some(USUAL),
        choice: Choice::Auto,
        ingress: Ingress::Auto,
        mode,
        windows: true,
        mss: Mss::Auto,
        replace: false,
        rules: Vec::new(),
    }
}

/// `evenkeel run`.
pub(crate) fn run(args: Run) -> Result<(), Failure> {
    memory::one_heap();
    // DOWN UP, as they are typed.
    let typed = |rates: Option<&Vec<Rate>>, d| {
        let place = usize::from(d == Direction::Up);
        rates.and_then(|r| r.get(place).copied())
    };
    let mut bounds = PerDirection::of(|d| Bounds {
        least: typed(args.min.as_ref(), d),
        most: typed(args.max.as_ref(), d),
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
    let mut rules = args.rules;
    let config = config::Config::load(&args.config)?;
    rules.extend(config.rules);
    let targets = if args.targets.is_empty() {
        config.targets
    } else {
        args.targets
    };
    let device = match args.device {
        Some(device) => device,
        None => default_device()?,
    };
    let verbose = args.verbose;
    let begun = clock::monotonic();
    let warn = |why: String| {
        let _ = say(&Told::Warning(why), verbose, begun);
    };
    let (store, known) = Store::open(&args.profile_dir, &device, begun);
    let known = known.unwrap_or_else(|why| {
        warn(why);
        None
    });
    if let Some(profile) = &known
        && !args.forget
        && args.rate.is_none()
    {
        for (b, learned) in bounds.iter_mut().zip([profile.up, profile.down]) {
            b.guess = learned.map(|r| b.most.map_or(r, |most| r.min(most)));
            b.guess = b.guess.map(|r| b.least.map_or(r, |least| r.max(least)));
        }
    }
    let request = Request {
        framing: Some(args.framing.unwrap_or(USUAL)),
        choice: args.backend,
        replace: args.replace,
        rules,
        ..request(&device, args.mode)
    };
    let dir = StateDir::new(args.state.state_dir);
    let cancel = crate::lab::cancelled_by_signals()?;
    let store = RefCell::new(store);
    let keeper = RefCell::new(Keeper::new(args.mode, known.as_ref(), begun));
    let mut tell = |told: Told| {
        keeper.borrow_mut().tell(&told, clock::monotonic());
        let _ = say(&told, verbose, begun);
    };
    let mut failed = false;
    let mut show = |look: &Look| {
        let now = clock::monotonic();
        let mut keeper = keeper.borrow_mut();
        if let Some(news) = keeper.others(look, now) {
            let told = Told::Others(news);
            keeper.tell(&told, now);
            let _ = say(&told, verbose, begun);
        }
        let shown = keeper.look(look, now, &dir, &device);
        let kept = store.borrow_mut().keep(keeper.profile(look), now, false);
        if let Err(why) = shown.map_err(|e| e.to_string()).and(kept)
            && !std::mem::replace(&mut failed, true)
        {
            warn(why);
        }
    };
    loop {
        let request = Request {
            down: bounds.down.guess.unwrap_or(Line::OPEN),
            up: bounds.up.guess.unwrap_or(Line::OPEN),
            ..request.clone()
        };
        let mut daemon = Daemon::start(&dir, &request, bounds, targets.clone(), &mut tell)?;
        let followed = daemon.follow(&cancel, &mut tell, &mut show);
        let last = daemon.look();
        let gone = followed.is_err() && daemon.has_gone();
        let stopped = daemon.stop();
        let profile = keeper.borrow().profile(&last);
        let kept = store.borrow_mut().keep(profile, clock::monotonic(), true);
        if let Err(why) = kept {
            warn(why);
        }
        if !gone {
            followed.and(stopped)?;
            return print(&format!("{device}: as it was before\n"));
        }
        tell(Told::Gone);
        let keep = || keeper.borrow_mut().write(clock::monotonic(), &dir, &device);
        if !is_back(&device, &cancel, keep)? {
            dir.remove(&device)?;
            return print(&format!("{device}: it has gone; nothing is left\n"));
        }
        tell(Told::Back);
        for (b, way) in bounds.iter_mut().zip([last.view.up, last.view.down]) {
            b.guess = way.capacity.or(b.guess);
        }
    }
}

/// Waits until there is a device of that name again; `false`: somebody wants to stop.
fn is_back(
    device: &str,
    cancel: &AtomicBool,
    mut each: impl FnMut() -> Result<(), evenkeel_kernel::Error>,
) -> Result<bool, Failure> {
    /// As in linux/if.h.
    const IFF_UP: u32 = 1;
    let mut session = Session::open()?;
    while !cancel.load(Ordering::Relaxed) {
        if let Some(link) = session.link(device)?
            && link.flags & IFF_UP != 0
        {
            return Ok(true);
        }
        each()?;
        crate::flows::wait(AWAIT, cancel);
    }
    Ok(false)
}

/// The device of the default route.
fn default_device() -> Result<String, Failure> {
    let routes = std::fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
    let first = profile::default_routes(&routes)
        .first()
        .map(|r| r.0.to_owned());
    first.ok_or_else(|| {
        Failure::usage("there is no default route: name the device that leads to the Internet")
    })
}

fn say(told: &Told, verbose: bool, begun: Duration) -> Result<(), Failure> {
    if let Told::Shaped { why, .. } = told
        && !verbose
        && is_passing(why)
    {
        return Ok(());
    }
    let at = clock::monotonic().saturating_sub(begun).as_secs_f64();
    print(&format!("{at:>9.3} s  {}\n", text(told)))
}

/// As a line.
fn text(told: &Told) -> String {
    let target = |t: &Option<Target>| match t {
        None => "open".to_owned(),
        Some(t) if t.permille < 1000 => {
            let now = t.capacity.permille(t.permille.into());
            format!("{} for now (line {})", megabits(now), megabits(t.capacity))
        }
        Some(t) => megabits(t.capacity),
    };
    match told {
        Told::Near {
            address,
            origin,
            stamps,
        } => {
            let stamps = if *stamps {
                ", which stamps: directions can be told apart"
            } else {
                ""
            };
            format!("probing {address}{stamps}{origin}")
        }
        Told::NoNear { watched: true } => {
            "nothing answers probes: round trips of connections that pass are watched instead"
                .into()
        }
        Told::NoNear { watched: false } => {
            "nothing answers probes: without a signal rates stay as they are".into()
        }
        Told::Shaped { targets, why } => {
            let PerDirection { up, down } = targets;
            format!("down {}, up {}: {why}", target(down), target(up))
        }
        Told::Noticed(n) => n.to_string(),
        Told::Gone => "the device has gone: waiting for it".into(),
        Told::Back => "the device is there again".into(),
        Told::Others(news) => news.to_string(),
        Told::Warning(w) => format!("warning: {w}"),
    }
}

/// A step of something whose beginning and end are said.
fn is_passing(why: &Reason) -> bool {
    matches!(
        why,
        Reason::Late { .. }
            | Reason::Draining { .. }
            | Reason::Trying { .. }
            | Reason::Following { .. }
    )
}

fn megabits(rate: Rate) -> String {
    format!("{:.2} Mbit/s", rate.bps() as f64 / 1e6)
}
