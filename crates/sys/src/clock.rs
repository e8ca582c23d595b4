//! The clocks: steady time for schedules, wall time because the kernel stamps packets with it.
//!
//! Principle: a time is a `Duration` since the clock's zero. Non-goal: dates.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

fn read(id: ClockId) -> Duration {
    // Both clocks exist on every Linux; zero would only make a schedule late.
    clock_gettime(id).map_or(Duration::ZERO, Into::into)
}

/// `CLOCK_MONOTONIC`.
pub fn monotonic() -> Duration {
    read(ClockId::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`, the clock of the kernel's packet time stamps, since 1970.
pub fn realtime() -> Duration {
    read(ClockId::CLOCK_REALTIME)
}
