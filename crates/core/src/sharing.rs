//! Several evenkeels on one line: how much of it each of them may use.
//!
//! A newcomer's way in: what a host says of itself is a [`Report`]; a [`Group`] hears those of the others and answers
//! three questions: what of the line is ours ([`Group::share`]), what the line carried that was not ours but the
//! group's ([`Group::carried`]), and what the group thinks that the line carries ([`Group::capacity`]). What a host
//! wants is found by its [`DemandEstimator`]. How a line is divided is [`shares`].
//!
//! Principles: nobody leads; everybody computes the same from the same reports, and stays right where some are lost;
//! who wants it gets his fair share whatever anybody says; what is said is used only within what we see ourselves.
//! Non-goals: how reports travel and who may be believed to have sent them (the crate `evenkeel-wire` and the
//! daemon), who goes first within a host (the disciplines do).

mod demand_estimator;
mod group;
mod max_min;

use crate::{PerDirection, Rate};

pub use demand_estimator::DemandEstimator;
pub use group::{Group, Heard, Member, Own};
pub use max_min::shares;

/// Tiers of a demand, most urgent first, as in [`crate::classify::Tier::ALL`].
pub const TIERS: usize = 4;

/// What a host wants of one direction, by tier; [`Rate::MAX`]: whatever there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand(pub [Rate; TIERS]);

impl Demand {
    /// All tiers together, bit/s.
    pub(crate) fn total(&self) -> f64 {
        self.0.iter().map(|r| r.bps() as f64).sum()
    }
}

/// What a host says of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Said {
    /// What it thinks that the line carries.
    pub capacity: Option<Rate>,
    /// What the line carried for it so far, bytes on the line.
    pub carried: u64,
    /// What it uses of its share for now, thousandths: less while it drains a queue.
    pub permille: u16,
    /// What it wants.
    pub demand: Demand,
}

/// What a host says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Drawn by the host when it started.
    pub id: u64,
    /// Its steady clock, us: never twice the same, and never going back.
    pub clock_us: u64,
    /// Its wall clock, ms since 1970: what was recorded long ago is not believed.
    pub wall_ms: u64,
    /// It leads to the Internet and shapes for those behind it.
    pub is_gateway: bool,
    /// Of each direction.
    pub said: PerDirection<Said>,
}

#[cfg(test)]
mod tests;
