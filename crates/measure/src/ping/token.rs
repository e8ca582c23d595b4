//! The tokens of all that a prober's poller waits for.
//!
//! Principle: one table, so that no two are the same. Non-goal: what is done when one is ready.

/// The next probe that is to be given up.
pub(super) const ALARM: u64 = 0;
/// The caller's waker.
pub(super) const WAKE: u64 = 1;
/// The caller's beat.
pub(super) const TICK: u64 = 2;
/// Sockets of the wire have this token and the following ones.
pub(super) const SOCKET: u64 = 16;
