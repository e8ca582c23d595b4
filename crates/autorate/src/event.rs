//! What the daemon tells: events as they happen, and what there is to see from time to time.
//!
//! Principle: an event is one line for people. Non-goals: keeping them (`model`).

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use evenkeel_core::control::{Notice, Reason, View};
use evenkeel_core::plan::Target;
use evenkeel_core::units::rounded;
use evenkeel_core::wire_count::Passed;
use evenkeel_core::{PerDirection, Rate};

use crate::budget::Spent;
use crate::cooperation::{self, Shared};
use crate::cross_traffic::News;
use crate::reflector::{Found, Origin, Probe};
use crate::trust::Doubt;

/// What is probed and why, and how it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probed {
    /// Who.
    pub address: IpAddr,
    /// Why.
    pub origin: Origin,
    /// Whether it stamps.
    pub stamps: bool,
    /// It answers probes to others that expire there.
    pub expiring: bool,
}

impl From<Found> for Probed {
    fn from(found: Found) -> Self {
        Probed {
            address: found.address,
            origin: found.origin,
            stamps: found.stamps(),
            expiring: matches!(found.probe, Probe::Expiring(_)),
        }
    }
}

/// Something to tell people.
pub enum Event {
    /// What is probed.
    Reflector(Probed),
    /// A far end of busy connections is asked as well.
    FarEnd(Probed),
    /// What answers as well, and is kept in reserve; in the order of the way.
    Reserve(Vec<IpAddr>),
    /// What was probed is not believed any more.
    Doubted {
        /// Who.
        address: IpAddr,
        /// Why.
        why: Doubt,
        /// What is probed instead; `None`: connections that pass are watched.
        next: Option<Probed>,
    },
    /// What is probed answers only so often, or as often as it is asked again.
    Limited {
        /// Who.
        address: IpAddr,
        /// From one answer to the next; nought: as often as it is asked.
        interval: Duration,
    },
    /// What may be spent for probing is scarce, or not any more.
    Budget {
        /// From one probe to the next; nought: as often as is wanted.
        interval: Duration,
    },
    /// Its time stamps contradict its round trips, or have agreed with them for long.
    Stamps {
        /// Who.
        address: IpAddr,
        /// They agree.
        believed: bool,
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
    /// Others on the LAN who look after the same line.
    Cooperation(cooperation::News),
    /// Somebody has taken away what was set up, this of it; it is set up again.
    Damaged(String),
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
    /// How long what waits in our own queues takes.
    pub own_queue: PerDirection<Duration>,
    /// What has passed the device.
    pub passed: PerDirection<Passed>,
    /// What probing took this month, if there is a budget for it.
    pub probing: Option<Spent>,
    /// Who shares the line with us, and what of it is ours.
    pub shared: Shared,
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
    /// Whether it is a step of something whose beginning and end are told as well, or nothing that
    /// changes what is done.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Event::Reserve(_)
                | Event::FarEnd(_)
                | Event::Shaped {
                    why: Reason::Draining { .. }
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
            Event::Reflector(probed) => {
                let how = match (probed.stamps, probed.expiring) {
                    (true, _) => ", which stamps: directions can be told apart",
                    (_, true) => ", by probes that expire there",
                    _ => "",
                };
                write!(f, "probing {}{how}{}", probed.address, probed.origin)
            }
            Event::FarEnd(probed) => {
                write!(f, "asking {} as well{}", probed.address, probed.origin)
            }
            Event::Reserve(all) if all.is_empty() => f.write_str("kept in reserve: nothing"),
            Event::Reserve(all) => {
                let all: Vec<_> = all.iter().map(IpAddr::to_string).collect();
                write!(f, "kept in reserve: {}", all.join(", "))
            }
            Event::Doubted { address, why, next } => doubted(f, *address, *why, next.as_ref()),
            Event::Limited { address, interval } if interval.is_zero() => {
                write!(f, "{address} is asked as often as is wanted again")
            }
            Event::Limited { address, interval } => write!(
                f,
                "{address} answers only some of many probes: it is asked no more than {:.1} times a second",
                1.0 / interval.as_secs_f64()
            ),
            Event::Budget { interval } if interval.is_zero() => {
                f.write_str("the budget for probing allows as many probes as are wanted again")
            }
            Event::Budget { interval } => write!(
                f,
                "the budget for probing is scarce: no more than a probe each {}; connections that pass are watched",
                humantime::format_duration(Duration::from_secs(interval.as_secs().max(1)))
            ),
            Event::Stamps {
                address,
                believed: false,
            } => write!(
                f,
                "the time stamps of {address} contradict its round trips (its clock steps or stands still): without them directions are not told apart"
            ),
            Event::Stamps { address, .. } => write!(
                f,
                "the time stamps of {address} have agreed with its round trips for a minute: they are used again"
            ),
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
            Event::Damaged(what) => write!(f, "{what}: it is set up again"),
            Event::Gone => f.write_str("the device has gone: waiting for it"),
            Event::Back => f.write_str("the device is there again"),
            Event::CrossTraffic(news) => news.fmt(f),
            Event::Cooperation(news) => news.fmt(f),
            Event::Warning(w) => write!(f, "warning: {w}"),
        }
    }
}

fn doubted(
    f: &mut fmt::Formatter<'_>,
    address: IpAddr,
    why: Doubt,
    next: Option<&Probed>,
) -> fmt::Result {
    match why {
        Doubt::BeforeBottleneck(s) => write!(
            f,
            "{address} does not see the queue that connections see ({}): it is before the bottleneck; ",
            rounded::milliseconds(s * 1e3)
        ),
        Doubt::SlowToAnswer(s) => write!(
            f,
            "{address} takes {} longer while connections do not: it is slow to answer; ",
            rounded::milliseconds(s * 1e3)
        ),
    }?;
    match next {
        Some(next) => write!(f, "{} is probed now", next.address),
        None => f.write_str("round trips of connections that pass are watched instead"),
    }
}

fn target(t: Option<Target>) -> String {
    match t {
        None => "open".to_owned(),
        Some(t) if t.is_cut() => {
            let now = t.let_out();
            format!(
                "{} for now (line {})",
                rounded::rate(now),
                rounded::rate(t.capacity)
            )
        }
        Some(t) => rounded::rate(t.capacity),
    }
}
