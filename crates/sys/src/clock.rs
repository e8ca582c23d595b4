//! The clocks: steady time for schedules, wall time because the kernel stamps packets with it.
//!
//! Principle: a time is a `Duration` since the clock's zero. Non-goal: dates, but for how far local time is off.

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

/// Seconds that local time is before UTC's at `since_1970` (seconds); 0 where that is not known.
pub fn local_offset(since_1970: u64) -> i64 {
    let Ok(time) = libc::time_t::try_from(since_1970) else {
        return 0;
    };
    // SAFETY: zeros are a valid `tm`; localtime_r(3) reads `time`, writes one `tm`, and takes the C library's own lock
    // for the zone. Nobody in this workspace changes the environment after the start.
    unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&raw const time, &raw mut local).is_null() {
            return 0;
        }
        local.tm_gmtoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_is_near_utc() {
        for at in [0, 1_788_220_800, u64::MAX] {
            assert!(local_offset(at).abs() <= 15 * 3600);
        }
    }
}
