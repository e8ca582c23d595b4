//! The policer's values: what it is told, and what it did.
//!
//! Principles: a rate of zero costs nothing and switches it off. Non-goals: how it decides
//! (`bpf/police.h`).

use evenkeel_core::police::Policer;

use crate::layout;

/// As in the map.
pub(crate) fn to_layout(p: &Policer) -> layout::Policer {
    let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    layout::Policer {
        cost: p.costs(),
        burst: ns(p.burst),
        target: ns(p.target),
        heavy: p.heavy,
        mark: p.mark,
        framing: super::framing(p.framing),
    }
}

/// What the policer did, over all CPUs: packets, super-packets by their segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policed {
    /// Marked as having experienced congestion (ECN).
    pub marked: u64,
    /// Given the fwmark.
    pub flagged: u64,
    /// Long ones that were dropped.
    pub large: u64,
    /// Others that were dropped because dropping the long ones was not enough.
    pub small: u64,
    /// Empty acknowledgements that were dropped because there was nothing else to drop.
    pub acks: u64,
    /// Bytes on the line of what was dropped.
    pub bytes: u64,
}

impl Policed {
    /// Packets that were dropped.
    pub const fn dropped(&self) -> u64 {
        self.large + self.small + self.acks
    }

    /// Adds what one CPU counted.
    pub(crate) const fn add(&mut self, cpu: &layout::Policed) {
        self.marked += cpu.marked;
        self.flagged += cpu.flagged;
        self.large += cpu.large;
        self.small += cpu.small;
        self.acks += cpu.acks;
        self.bytes += cpu.bytes;
    }
}
