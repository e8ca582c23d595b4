//! The conditions of the lab: evenkeel itself, and beside it other people's designs.
//!
//! Principle: exactly what `evenkeel shape` does, through the same call, told the rates and the
//! framing of the line; `run` is told nothing. Those that know more than a person can (`oracle`) or
//! have seen the line before (`again`) are files of their own. Non-goals: how the others are built (`peers`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use evenkeel_autorate::Daemon;
use evenkeel_core::control::{Bounds, Rule};
use evenkeel_core::plan::{Choice, Given, Ingress, Mode, Policy, Shaping};
use evenkeel_core::result::{Charge, ConditionFacts, LineFacts};
use evenkeel_core::segments::Mss;
use evenkeel_core::{Line, PerDirection};
use evenkeel_kernel::{Request, StateDir, clear, shape};

use crate::peers::Peer;

mod again;
mod drops;
mod oracle;

use again::Again;
use drops::dropped;
use oracle::Oracle;

use crate::shaper::{Dropped, Shaper, ShaperError, Site};

/// Of the lab's devices, bytes.
const MTU: u32 = 1500;

/// The conditions beside `none`; records go into `state`.
pub fn all(state: &Path) -> Vec<Box<dyn Shaper>> {
    let ours = Evenkeel::all(state).into_iter();
    let ours = ours.map(|s| Box::new(s) as Box<dyn Shaper>);
    let autos = [
        ("evenkeel-auto", Mode::Ping, true),
        ("evenkeel-auto-bandwidth", Mode::Bandwidth, true),
        ("evenkeel-auto-without-lan", Mode::Ping, false),
    ];
    let autos = autos.map(|(name, mode, lan)| {
        let automatic = Automatic::new(name, mode, state);
        Box::new(Automatic { lan, ..automatic }) as Box<dyn Shaper>
    });
    let without =
        Rule::ALL.map(|rule| Box::new(Automatic::without(rule, state)) as Box<dyn Shaper>);
    let more: [Box<dyn Shaper>; 2] = [Box::new(Oracle::new(state)), Box::new(Again::new(state))];
    let ours = ours.chain(autos).chain(without).chain(more);
    let peers = Peer::all().into_iter();
    ours.chain(peers.map(|s| Box::new(s) as Box<dyn Shaper>))
        .collect()
}

/// A way to shape, by a name.
struct Evenkeel {
    name: &'static str,
    choice: Choice,
    ingress: Ingress,
    mode: Mode,
    windows: bool,
    lan: bool,
    mss: Mss,
    state: std::path::PathBuf,
    device: String,
}

impl Evenkeel {
    /// The conditions that are evenkeel: what it does by itself, each backend, each mode, without
    /// one of its parts.
    fn all(state: &Path) -> Vec<Self> {
        let ours = |name| Evenkeel {
            name,
            choice: Choice::Auto,
            ingress: Ingress::Auto,
            mode: Mode::Ping,
            windows: true,
            lan: true,
            mss: Mss::Auto,
            state: state.to_owned(),
            device: String::new(),
        };
        let backend = |name, choice| Evenkeel {
            choice,
            ..ours(name)
        };
        vec![
            ours("evenkeel"),
            backend("evenkeel-cake", Choice::Cake),
            backend("evenkeel-htb", Choice::Htb),
            backend("evenkeel-bare", Choice::Bare),
            Evenkeel {
                ingress: Ingress::Police { mark: 0 },
                ..ours("evenkeel-police")
            },
            Evenkeel {
                mode: Mode::Bandwidth,
                ..ours("evenkeel-bandwidth")
            },
            Evenkeel {
                windows: false,
                ..ours("evenkeel-without-windows")
            },
            Evenkeel {
                lan: false,
                ..ours("evenkeel-without-lan")
            },
            Evenkeel {
                mss: Mss::Off,
                ..ours("evenkeel-without-mss")
            },
        ]
    }

    /// The directory belongs to the namespace we are in, so it is made anew each time.
    fn dir(&self) -> StateDir {
        StateDir::new(&self.state)
    }
}

impl Shaper for Evenkeel {
    fn name(&self) -> &str {
        self.name
    }

    fn facts(&self, line: &LineFacts, _: u16) -> ConditionFacts {
        let policed = matches!(self.ingress, Ingress::Police { .. });
        let policy = Policy {
            mode: self.mode,
            choice: self.choice,
            ingress: self.ingress,
            windows: self.windows,
            mss: self.mss,
            limits: Vec::new(),
        };
        let given = Given {
            line: Line {
                down: line.down,
                up: line.up,
                framing: line.framing,
            },
            mtu: MTU,
            programs: true,
            policed,
            likely: None,
        };
        let shaped = Shaping::told(&policy, &given);
        let charge = |rate| Charge {
            rate,
            framing: line.framing,
        };
        let with = match self.choice {
            Choice::Auto => "its own choice of discipline",
            Choice::Cake => "CAKE",
            Choice::Htb => "HTB",
            Choice::Bare => "HTB with FIFOs",
        };
        ConditionFacts {
            name: self.name.to_owned(),
            about: format!(
                "evenkeel shape: {with}, {} mode{}",
                self.mode,
                if policed { ", arrivals policed" } else { "" }
            ),
            told: format!(
                "{}/{} kbit/s, {}",
                line.down.kbit(),
                line.up.kbit(),
                line.framing
            ),
            down: Some(charge(shaped.down)),
            up: Some(charge(shaped.up)),
        }
    }

    fn apply(&mut self, site: &Site) -> Result<(), ShaperError> {
        self.device.clone_from(&site.wan);
        let request = Request {
            device: site.wan.clone(),
            down: site.line.down,
            up: site.line.up,
            framing: Some(site.line.framing),
            choice: self.choice,
            ingress: self.ingress,
            mode: self.mode,
            windows: self.windows,
            lan: self.lan,
            mss: self.mss,
            replace: false,
            rules: Vec::new(),
        };
        shape(&self.dir(), &request)?;
        Ok(())
    }

    fn dropped(&mut self) -> Result<Dropped, ShaperError> {
        dropped(&self.dir(), &self.device)
    }

    fn clear(&mut self) -> Result<(), ShaperError> {
        clear(&self.dir(), &self.device)?;
        Ok(())
    }
}

/// evenkeel told nothing: `run`, on a thread of its own.
struct Automatic {
    name: String,
    mode: Mode,
    lan: bool,
    /// Is done without.
    left_out: Option<Rule>,
    state: std::path::PathBuf,
    device: String,
    stop: Arc<AtomicBool>,
    running: Option<JoinHandle<Result<(), evenkeel_autorate::Error>>>,
}

impl Automatic {
    fn new(name: &str, mode: Mode, state: &Path) -> Self {
        Automatic {
            name: name.to_owned(),
            mode,
            lan: true,
            left_out: None,
            state: state.to_owned(),
            device: String::new(),
            stop: Arc::default(),
            running: None,
        }
    }

    /// The same without one of the controller's rules.
    fn without(rule: Rule, state: &Path) -> Self {
        Automatic {
            left_out: Some(rule),
            ..Automatic::new(&without(rule), Mode::Ping, state)
        }
    }
}

/// The condition `evenkeel-auto` without one of the controller's rules.
pub fn without(rule: Rule) -> String {
    format!("evenkeel-auto-without-{rule}")
}

impl Shaper for Automatic {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self, _: &LineFacts, _: u16) -> ConditionFacts {
        ConditionFacts {
            name: self.name.clone(),
            about: match self.left_out {
                None => format!("evenkeel run: finds out by itself, {} mode", self.mode),
                Some(rule) => format!("evenkeel run without its rule {rule}"),
            },
            told: "nothing".to_owned(),
            down: None,
            up: None,
        }
    }

    fn apply(&mut self, site: &Site) -> Result<(), ShaperError> {
        self.device.clone_from(&site.wan);
        self.stop = Arc::default();
        let request = Request {
            lan: self.lan,
            ..evenkeel_autorate::request(&site.wan, self.mode)
        };
        let mut daemon = Daemon::start(
            &StateDir::new(&self.state),
            &request,
            PerDirection::<Bounds>::default(),
            Vec::new(),
            &mut (),
        )?;
        if let Some(rule) = self.left_out {
            daemon.leave_out(rule);
        }
        let stop = Arc::clone(&self.stop);
        let running = std::thread::Builder::new()
            .name("run".into())
            .spawn(move || {
                let followed = daemon.follow(&stop, &mut ());
                daemon.stop().and(followed)
            })?;
        self.running = Some(running);
        Ok(())
    }

    fn dropped(&mut self) -> Result<Dropped, ShaperError> {
        dropped(&StateDir::new(&self.state), &self.device)
    }

    fn clear(&mut self) -> Result<(), ShaperError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.running.take().map(JoinHandle::join) {
            Some(Ok(done)) => Ok(done?),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}
