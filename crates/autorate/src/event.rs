//! What the daemon tells: events as they happen, and what there is to see from time to time.
//!
//! Principle: an event is one line for people. Non-goals: keeping them (`model`).

use std::fmt;
use std::net::IpAddr;

use evenkeel_core::control::{Notice, Reason, View};
use evenkeel_core::plan::Target;
use evenkeel_core::{PerDirection, Rate};

use crate::cross_traffic::News;
use crate::reflector::Origin;

/// Something to tell people.
pub enum Event {
    /// What is probed and why, and whether it stamps.
    Reflector {
        /// Who.
        address: IpAddr,
        /// Why.
        origin: Origin,
        /// Whether it stamps.
        stamps: bool,
    },
    /// Nothing answers; whether connections that pass are watched instead.
    NoReflector {
        /// Whether they are.
        watched: bool,
    },
    /// Rates changed.
    Shaped {
        /// What each direction is shaped to; absent while it is not.
        targets: PerDirection<Option<Target>>,
        /// Why.
        why: Reason,
    },
    /// Worth knowing.
    Noticed(Notice),
    /// Load on the line that is not ours.
    CrossTraffic(News),
    /// The device has gone.
    Gone,
    /// The device is there again.
    Back,
    /// Something to mind.
    Warning(String),
}

/// What there is to see from time to time.
pub struct Snapshot {
    /// The model.
    pub view: View,
    /// Rate that is in force towards us, if that direction is shaped.
    pub down: Option<Rate>,
    /// From us.
    pub up: Option<Rate>,
}

/// Who is told.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: Event);
    /// It is time for a look.
    fn snapshot(&mut self, snapshot: &Snapshot);
}

/// Nobody.
impl Observer for () {
    fn event(&mut self, _: Event) {}
    fn snapshot(&mut self, _: &Snapshot) {}
}

impl Event {
    /// Whether it is a step of something whose beginning and end are told as well.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Event::Shaped {
                why: Reason::Late { .. }
                    | Reason::Draining { .. }
                    | Reason::ProbingUp { .. }
                    | Reason::Following { .. },
                ..
            }
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Reflector {
                address,
                origin,
                stamps,
            } => {
                let stamps = if *stamps {
                    ", which stamps: directions can be told apart"
                } else {
                    ""
                };
                write!(f, "probing {address}{stamps}{origin}")
            }
            Event::NoReflector { watched: true } => f.write_str(
                "nothing answers probes: round trips of connections that pass are watched instead",
            ),
            Event::NoReflector { watched: false } => {
                f.write_str("nothing answers probes: without a signal rates stay as they are")
            }
            Event::Shaped { targets, why } => {
                let PerDirection { up, down } = targets.map(target);
                write!(f, "down {down}, up {up}: {why}")
            }
            Event::Noticed(n) => n.fmt(f),
            Event::Gone => f.write_str("the device has gone: waiting for it"),
            Event::Back => f.write_str("the device is there again"),
            Event::CrossTraffic(news) => news.fmt(f),
            Event::Warning(w) => write!(f, "warning: {w}"),
        }
    }
}

fn target(t: Option<Target>) -> String {
    match t {
        None => "open".to_owned(),
        Some(t) if t.permille < 1000 => {
            let now = t.capacity.permille(t.permille.into());
            format!("{} for now (line {})", megabits(now), megabits(t.capacity))
        }
        Some(t) => megabits(t.capacity),
    }
}

/// A rate as people read it here.
pub(crate) fn megabits(rate: Rate) -> String {
    format!("{:.2} Mbit/s", rate.bps() as f64 / 1e6)
}
