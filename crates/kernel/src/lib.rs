//! Asks the kernel what it can do; applies, changes and removes a plan; says what is there.
//!
//! Principles: leave as found (a record is written before the first change, and everything can
//! be taken back from it, also after a kill); somebody else's discipline is never touched unless
//! told; if a step fails, what was done is undone. Non-goals: deciding (crate `evenkeel-core`)
//! and bytes (crate `evenkeel-wire`).

mod bypass;
mod connections;
mod error;
mod groups;
pub mod lan;
mod lease;
mod live;
mod own_queue;
mod passive;
mod probe;
mod programs;
mod rule_set;
mod session;
mod shape;
pub mod state;
mod status;

pub use connections::connections;
pub use error::Error;
pub use evenkeel_wire::conntrack::{Connection, Tuple};
pub use evenkeel_wire::neighbour::Neighbour;
pub use groups::control_groups;
pub use live::{ConnectionSamples, Live, OwnQueues};
pub use passive::{Arrived, PassiveStatistics, RoundTrips, Step, TierStatistics};
pub use probe::capabilities;
pub use programs::{all_maps, maps};
pub use rule_set::{Keys, Known, rule_set};
pub use session::Session;
pub use shape::{Cleared, Request, Shaped, clear, preview, shape, shape_with};
pub use state::{State, StateDir};
pub use status::{DirectionStatus, Health, Policing, Shortened, Status, TierCounters, status};
