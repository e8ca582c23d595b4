//! How often a line may be probed: so that probes take no more than a small share of it.
//!
//! Non-goals: figures of the line; this is a glance.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_report::bench::form::Way;
use evenkeel_sys::clock;

use super::load::Load;
use super::own::Control;
use crate::failed::Failed;

/// What is tried first, and what slower lines get. ms.
const INTERVALS: [u64; 6] = [5, 10, 20, 50, 100, 200];
/// Probes may take so much of the slower direction.
const PROBES_SHARE: f64 = 0.05;
/// A probe on the wire, bits: 56 bytes, 28 of headers, 38 of an Ethernet frame.
const PROBE_BITS: f64 = 122.0 * 8.0;
/// Probes of other kinds are so much rarer than the judged ones.
pub(super) const OTHERS: u32 = 4;
/// The line is sized so long, each way.
const SIZING: Duration = Duration::from_millis(400);

/// How often may be probed: a short look at what the line carries.
pub(super) fn size(control: &Control, down: usize, up: usize) -> Result<Duration, Failed> {
    let mut slower = f64::INFINITY;
    for (way, streams, id) in [(Way::Down, down, 1), (Way::Up, up, 2)] {
        if streams == 0 {
            continue;
        }
        let stream = control
            .opener()
            .stream(control.streams.saturating_sub(id), way, "", 0, 2)?;
        let began = clock::monotonic();
        let load = Load::start(vec![stream], began, Arc::default())?;
        std::thread::sleep(SIZING);
        let mut outcomes = load.finish()?;
        let seconds = clock::monotonic().saturating_sub(began).as_secs_f64();
        for o in &mut outcomes {
            o.close();
            slower = slower.min(o.bytes.iter().sum::<u64>() as f64 * 8.0 / seconds);
        }
    }
    // What that put into queues has to go before the line is called idle.
    std::thread::sleep(2 * SIZING);
    Ok(interval(slower))
}

/// The shortest interval at which probes take no more than their share of a rate, bit/s.
fn interval(rate: f64) -> Duration {
    let kinds = 1.0 + 3.0 / f64::from(OTHERS);
    let fits = |ms: &u64| PROBE_BITS * kinds / (*ms as f64 / 1000.0) <= rate * PROBES_SHARE;
    let found = INTERVALS
        .iter()
        .find(|ms| fits(ms))
        .unwrap_or(&INTERVALS[INTERVALS.len() - 1]);
    Duration::from_millis(*found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_take_their_share() {
        for (mbit, ms) in [
            (100.0, 5),
            (7.0, 5),
            (6.0, 10),
            (1.0, 50),
            (0.1, 200),
            (0.0, 200),
        ] {
            assert_eq!(interval(mbit * 1e6), Duration::from_millis(ms), "{mbit}");
        }
    }
}
