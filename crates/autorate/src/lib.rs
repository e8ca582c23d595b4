//! Follows a line that nothing is told about: what `evenkeel run` does.
//!
//! A newcomer's way in: [`run()`] follows a device until it is told to stop, and waits for a device
//! that goes; [`Daemon`] is one device while it is there. Principles: reflectors, counters and
//! passive round trips go in, plans come out; it owns no policy. Non-goals: deciding
//! (`evenkeel_core::control`), command lines and printing (crate `evenkeel`).

mod answer_limit;
mod asked;
mod budget;
mod candidates;
mod choice;
mod cooperation;
mod cross_traffic;
mod daemon;
mod error;
mod event;
mod far_ends;
mod gateway_beacons;
mod lan_identity;
mod learned;
mod measured;
mod model;
mod passing;
mod places;
mod price;
mod profile;
mod reflector;
mod request;
mod routes;
mod run;
mod said;
mod serialization_delay;
mod stamps;
mod trust;

pub use budget::{ProbeBudget, Spent};
pub use cooperation::{Cooperate, GROUP, GROUP_IPV6, News as CooperationNews, Peer, Shared};
pub use cross_traffic::News;
pub use daemon::Daemon;
pub use error::Error;
pub use event::{Event, Observer, Probed, Snapshot};
pub use measured::{Measured, apply};
pub use model::{DirectionModel, Model};
pub use profile::DEFAULT_DIR as PROFILE_DIR;
pub use reflector::{Host, Origin};
pub use request::{USUAL, request};
pub use routes::default_device;
pub use run::{Ended, Order, Settings, Watcher, run};
pub use trust::Doubt;
