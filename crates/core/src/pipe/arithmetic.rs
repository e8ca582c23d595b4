//! What all of a pipe reckons with. Non-goals: meaning.

use std::time::Duration;

pub(super) const NS_PER_S: u128 = 1_000_000_000;
/// A full packet with what most framings add, bytes.
pub(super) const FULL_PACKET: u32 = 1540;

pub(super) fn nanos(ns: u128) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}
