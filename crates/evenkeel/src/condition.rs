//! The conditions of the lab: evenkeel itself, and beside it other people's designs.
//!
//! Principle: exactly what `evenkeel shape` does, through the same call, told the rates and the
//! framing of the line. Non-goals: how the others are built (`evenkeel_lab::peers`).

use std::path::Path;

use evenkeel_core::plan::{Choice, Ingress, Line, Mode};
use evenkeel_core::result::{Charge, ConditionFacts, LineFacts};
use evenkeel_core::segments::Mss;
use evenkeel_kernel::{Request, StateDir, clear, shape, status};
use evenkeel_lab::peers::Peer;
use evenkeel_lab::{Shaper, ShaperError, Site};

/// Of the lab's devices, bytes.
const MTU: u32 = 1500;

/// The conditions beside `none`; records go into `state`.
pub(crate) fn all(state: &Path) -> Vec<Box<dyn Shaper>> {
    let ours = Evenkeel::all(state).into_iter();
    let ours = ours.map(|s| Box::new(s) as Box<dyn Shaper>);
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
        let packet = self.mss.longest(line.down, line.framing, MTU).packet(MTU);
        let shaped = self.mode.shaped(
            &Line {
                down: line.down,
                up: line.up,
                framing: line.framing,
            },
            self.windows.then_some(packet),
            policed,
        );
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
            mss: self.mss,
            replace: false,
            rules: Vec::new(),
        };
        shape(&self.dir(), &request)?;
        Ok(())
    }

    fn dropped(&mut self) -> Result<u64, ShaperError> {
        let all = status(&self.dir(), Some(&self.device))?;
        Ok(all.iter().map(|s| s.up.dropped + s.down.dropped).sum())
    }

    fn clear(&mut self) -> Result<(), ShaperError> {
        clear(&self.dir(), &self.device)?;
        Ok(())
    }
}
