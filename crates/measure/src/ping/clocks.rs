//! The steady clock and the wall clock, read at one time.
//!
//! Principle: the two readings belong together to within microseconds. Non-goals: the kernel's
//! stamps, and which clock a round trip is told in (`evenkeel_core::ping::track`).

use std::time::Duration;

use evenkeel_core::ping::Clocks;
use evenkeel_sys::clock;

/// Both clocks at one time. A thread that loses its CPU between two readings reads again.
pub(crate) fn now() -> Clocks {
    const APART: Duration = Duration::from_micros(50);
    let mut best = (Duration::MAX, Duration::ZERO, Duration::ZERO);
    for _ in 0..5 {
        let before = clock::monotonic();
        let wall = clock::realtime();
        let took = clock::monotonic().saturating_sub(before);
        if took < best.0 {
            best = (took, before, wall);
        }
        if took < APART {
            break;
        }
    }
    Clocks {
        mono: best.1,
        wall: best.2,
    }
}
