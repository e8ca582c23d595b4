//! What a condition is made of: something that shapes the gateway.
//!
//! Principle: whoever brings one needs to know nothing of how cells are run. Non-goals: which
//! there are (`conditions`, `peers`).

use std::net::IpAddr;

use evenkeel_core::result::{ConditionFacts, LineFacts};

use crate::emulator::Rates;

/// The condition that changes nothing.
pub(crate) const NONE: &str = "none";

/// Where a shaper works: the gateway, on whose namespace the calling thread is.
#[derive(Debug, Clone)]
pub struct Site {
    /// The WAN device.
    pub wan: String,
    /// Devices towards the clients.
    pub lan: Vec<String>,
    /// Hosts in the Internet that answer ICMP echo, unless the line filters it.
    pub far: Vec<IpAddr>,
    /// The line behind the WAN device.
    pub line: LineFacts,
    /// What that carries at any moment: for who is told everything.
    pub rates: Rates,
}

/// What makes a condition: something that is applied to the gateway before the load.
///
/// All methods are called on a thread inside the gateway's network namespace, not always the
/// same one. Threads that it starts from there stay in that namespace.
pub trait Shaper: Send {
    /// The condition's name (`evenkeel`).
    fn name(&self) -> &str;
    /// What it is, and what it would be told on a line whose device puts `link_header` bytes
    /// before the IP packet. Without more to say, its name.
    fn facts(&self, _line: &LineFacts, _link_header: u16) -> ConditionFacts {
        ConditionFacts {
            name: self.name().to_owned(),
            ..ConditionFacts::default()
        }
    }
    /// Called first in each cell: what was learned in another one is forgotten. Says whether the cell's
    /// load is to run once before it counts, with shaping set up and taken back around it, so that the
    /// line is known.
    fn prepare(&mut self) -> Result<bool, ShaperError> {
        Ok(false)
    }
    /// Sets up shaping. It is called on a gateway that is not shaped.
    fn apply(&mut self, site: &Site) -> Result<(), ShaperError>;
    /// What it dropped since `apply`.
    fn dropped(&mut self) -> Result<Dropped, ShaperError>;
    /// Takes everything back.
    fn clear(&mut self) -> Result<(), ShaperError>;
}

/// What a condition dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Packets, by its queueing disciplines and policers.
    pub packets: u64,
    /// Empty acknowledgements among those that it policed; `None` if it does not tell them apart.
    pub acks: Option<u64>,
}

/// Whatever a shaper has to complain about.
pub type ShaperError = Box<dyn std::error::Error + Send + Sync>;
