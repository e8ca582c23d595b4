//! The policer's values in maps: what it is told, and what it did.
//!
//! Principles: as in `layout`; a rate of zero costs nothing and switches it off. Non-goals: how
//! it decides (`bpf/police.h`).

use evenkeel_core::framing::Mode;
use evenkeel_core::police::Policer;

use crate::layout::{Reader, Writer};

/// `struct policer`.
pub(crate) const POLICER: usize = 64;
/// `struct policed`.
pub(crate) const POLICED: usize = 48;

/// As in the map; `None` switches it off.
pub(crate) fn to_bytes(policer: Option<&Policer>) -> [u8; POLICER] {
    let mut w = Writer::<POLICER>::new();
    let Some(p) = policer else { return w.bytes };
    let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    for cost in p.costs() {
        w.u64(cost);
    }
    w.u64(ns(p.burst));
    w.u64(ns(p.target));
    w.u32(p.heavy);
    w.u32(p.mark);
    w.u32(match p.framing.mode {
        Mode::None => 0,
        Mode::Atm => 1,
        Mode::Ptm => 2,
    });
    w.u32(i32::from(p.framing.overhead) as u32);
    w.u32(p.framing.mpu.into());
    w.bytes
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
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let mut r = Reader(bytes);
        for n in [
            &mut self.marked,
            &mut self.flagged,
            &mut self.large,
            &mut self.small,
            &mut self.acks,
            &mut self.bytes,
        ] {
            *n += r.u64()?;
        }
        Some(())
    }
}
