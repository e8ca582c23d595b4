//! What the line carries from us, at least and likely, by the serialization delay of large probes while nobody uses it.
//!
//! A large probe takes longer than a small one by the time that links take for the difference, and the slowest link takes
//! most of that (V. Jacobson, pathchar, 1997). An echo comes back as large, so both directions count, and
//! every link on the way: the line carries more than that says, unless it sends bursts faster than its rate.
//!
//! Principles: of each size the least round trip counts. What the line carries at least is rather too low than too high: how
//! far apart the two least of each size are is added; what it likely carries is without that. Few probes are sent, one after
//! the other, and none any more once two are not answered. Non-goals: what the line carries (`evenkeel_core::control`), its
//! framing (`evenkeel line`).

use std::time::Duration;

use evenkeel_core::Rate;
use evenkeel_core::control::SerializationRate;
use evenkeel_measure::ping::{Kind, Pinger};
use evenkeel_sys::clock;

use crate::error::Error;
use crate::reflector::{Found, Origin, Over, Probe, SIZE, outcome};

/// Payload of a large one, bytes. One in a tenth of a second is no load, neither for us nor for others who count what we
/// send (`LOAD` of `cooperation`, 48 kbit/s), and it takes 0.3 ms at twice the most that an upload is opened from.
const LARGE: u32 = 300;
/// So many of each size.
const EACH: usize = 4;
/// From one to the next.
const APART: Duration = Duration::from_millis(100);
/// Lines lose one of them at times; where more are missing, a hop answers only so many, or none so large.
const MISSING: usize = 1;

/// What `found` says that the line carries from us; `None`: it does not answer, or hops answer only so many.
pub(crate) fn serialization_rate(
    device: &str,
    found: &Found,
    over: &Over<'_>,
) -> Result<Option<SerializationRate>, Error> {
    let echoes = match found.probe {
        Probe::To(Kind::Echo | Kind::Timestamp) => found.origin != Origin::Public,
        Probe::To(_) | Probe::Expiring(_) => false,
    };
    let echo = Found {
        probe: Probe::To(Kind::Echo),
        ..*found
    };
    let Some(mut pinger) = echo.pinger(device, false).filter(|_| echoes) else {
        return Ok(None);
    };
    let (mut small, mut large) = (Vec::new(), Vec::new());
    let mut due = clock::monotonic();
    for n in 1..=EACH {
        for (size, took) in [(SIZE, &mut small), (LARGE, &mut large)] {
            while clock::monotonic() < due && !over() {
                pinger.wait(Some(due))?;
            }
            due += APART;
            took.extend(round_trip(&mut pinger, size, &echo, over)?);
        }
        if small.len() + large.len() + MISSING < 2 * n {
            return Ok(None);
        }
    }
    Ok(rates(small, large))
}

/// How long an answer takes behind our own queue, if one comes before it is `over`.
fn round_trip(
    pinger: &mut Pinger,
    size: u32,
    found: &Found,
    over: &Over<'_>,
) -> Result<Option<Duration>, Error> {
    let outcome = outcome(pinger, size, over)?.filter(|o| found.is_answer(o));
    Ok(outcome.and_then(|o| o.delays?.path))
}

/// From round trips of both sizes.
fn rates(mut small: Vec<Duration>, mut large: Vec<Duration>) -> Option<SerializationRate> {
    small.sort_unstable();
    large.sort_unstable();
    let (&[small, second_small, ..], &[large, second_large, ..]) = (&small[..], &large[..]) else {
        return None;
    };
    let off = second_small.abs_diff(small) + second_large.abs_diff(large);
    let took = large.saturating_sub(small);
    let rate = |took: Duration| {
        let bits = f64::from(8 * (LARGE - SIZE));
        Rate::from_bps((bits / took.as_secs_f64().max(1e-6)) as u64).min(Rate::MAX)
    };
    Some(SerializationRate {
        at_least: rate(took + off),
        // A difference of less than half of what delays wander by may be none at all (decision 0126; not varied).
        likely: rate(took.max(off / 2)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(all: &[f64]) -> Vec<Duration> {
        all.iter()
            .map(|ms| Duration::from_secs_f64(ms * 1e-3))
            .collect()
    }

    #[test]
    fn the_slowest_link_takes_longest_for_a_large_probe() {
        let mbit = |small: &[f64], large: &[f64]| {
            let SerializationRate { at_least, likely } = rates(ms(small), ms(large))?;
            Some([at_least, likely].map(|r| (r.bps() as f64 / 1e5).round() / 10.0))
        };
        // 284 bytes on 2 Mbit/s.
        let large = [11.136, 11.136, 11.6, 13.0];
        assert_eq!(mbit(&[10.0, 10.0, 10.4, 13.0], &large), Some([2.0, 2.0]));
        // What wanders makes what it carries at least less, never more.
        assert_eq!(mbit(&[10.0, 10.2, 11.0, 13.0], &large), Some([1.7, 2.0]));
        assert_eq!(mbit(&[10.0, 10.4], &[10.0, 10.8]), Some([1.9, 3.8]));
        // Too fast to be told, or too few.
        assert_eq!(mbit(&[10.0, 10.0], &[10.0, 10.0]), Some([2272.0, 2272.0]));
        assert_eq!(mbit(&[10.0], &large), None);
    }
}
