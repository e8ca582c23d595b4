//! When answers arrived at this machine, before any queue of ours: what is asked, and of whom.
//!
//! Principles: whoever stands before the queue knows packets by what each of them bears, errors
//! that quote no more than eight bytes as well: the port or identifier that the probe was sent
//! from, and its number. Non-goals: standing there (crate `evenkeel-datapath`).

use std::time::Duration;

/// Where probes are sent from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A UDP port.
    Udp(u16),
    /// The identifier of ICMP echoes and time stamp requests.
    Icmp(u16),
}

/// Knows when answers arrived at this machine, before any queue of ours.
pub trait Arrivals: Send {
    /// Answers to the probes of this sender will be asked for.
    fn watch(&mut self, sender: Sender);

    /// When the answer to a probe arrived, on the steady clock (`CLOCK_MONOTONIC`). `number`: the
    /// ICMP sequence number, or the one in a UDP payload; without a number the latest answer
    /// without one is meant. `None` if that is not known.
    fn arrived(&self, sender: Sender, number: Option<u32>) -> Option<Duration>;
}

/// Answers may arrive on any of several devices.
impl<T: Arrivals> Arrivals for Vec<T> {
    fn watch(&mut self, sender: Sender) {
        for one in self {
            one.watch(sender);
        }
    }

    fn arrived(&self, sender: Sender, number: Option<u32>) -> Option<Duration> {
        self.iter().find_map(|one| one.arrived(sender, number))
    }
}
