//! Round trips of connections that pass, where nothing answers probes.
//!
//! Each leads somewhere else, so only what one takes beyond the least to the same place says
//! something of the line.
//!
//! Principles: places that were known before there was a queue are believed rather than those first
//! met beside one; of what comes at the same time the smallest excess counts: far sides dawdle,
//! none hurries; how long something waited in our own queue is only about known, so that never makes
//! a queue of the line, and is heard only where nothing passes that did not wait. Non-goals: which
//! round trips are worth it (`trips.h`), what follows.

use std::net::IpAddr;
use std::time::Duration;

use crate::recent::Recent;

/// So many places are remembered.
const MOST: usize = 256;
/// What a round trip is worth, best first: a place that was known before there was a queue, and
/// nothing waited in our own; the same, but it waited there; any other.
const WORTHS: usize = 3;
/// For so long better ones are waited for, s.
const WAIT: [f64; WORTHS] = [0.0, 0.1, 1.0];

/// A round trip of a connection that passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RttSample {
    /// Where it led.
    pub remote: IpAddr,
    /// When what was answered came to our own queue, steady clock.
    pub left: Duration,
    /// About how long it waited there.
    pub waited: Duration,
    /// When its answer came, before our own queue for arrivals.
    pub came: Duration,
}

/// What is known of a place.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// The least round trip, s.
    least: f64,
    /// Seen while no queue stood.
    calm: bool,
}

/// A round trip as a probe to the nearest place would have had it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RoundTrip {
    pub sent: f64,
    pub came: f64,
    pub delay: f64,
}

/// Places that connections lead to.
#[derive(Debug, Clone)]
pub(super) struct PassiveRtt {
    all: Recent<IpAddr, Path>,
    nearest: f64,
    /// When one of each worth was heard of.
    heard: [Option<f64>; WORTHS],
}

impl Default for PassiveRtt {
    fn default() -> Self {
        PassiveRtt {
            all: Recent::new(MOST),
            nearest: 0.0,
            heard: [None; WORTHS],
        }
    }
}

impl PassiveRtt {
    /// What came by now; `calm`: while no queue stands.
    pub(super) fn on_rtt(
        &mut self,
        samples: &[RttSample],
        calm: bool,
        now: f64,
    ) -> Option<RoundTrip> {
        let mut best: [Option<(f64, &RttSample)>; WORTHS] = [None; WORTHS];
        for sample in samples {
            let Some(took) = sample
                .came
                .checked_sub(sample.left)
                .map(|t| t.as_secs_f64())
            else {
                continue;
            };
            let path = self.path(sample.remote, took, calm, now);
            let excess = (took - Duration::as_secs_f64(&sample.waited) - path.least).max(0.0);
            let worth = match (path.calm, sample.waited.is_zero()) {
                (true, true) => 0,
                (true, false) => 1,
                (false, _) => 2,
            };
            self.heard[worth] = Some(now);
            if best[worth].is_none_or(|b| excess < b.0) {
                best[worth] = Some((excess, sample));
            }
        }
        let worth = best.iter().position(Option::is_some)?;
        let better = self.heard[..worth].iter().flatten();
        if better.into_iter().any(|at| now - at < WAIT[worth]) {
            return None;
        }
        let (excess, sample) = best[worth]?;
        let came = Duration::as_secs_f64(&sample.came);
        Some(RoundTrip {
            sent: (sample.left + sample.waited).as_secs_f64().min(came),
            came,
            delay: self.nearest + excess,
        })
    }

    fn path(&mut self, remote: IpAddr, took: f64, calm: bool, now: f64) -> Path {
        if self.all.is_empty() || took < self.nearest {
            self.nearest = took;
        }
        let path = self.all.meet(remote, now, || Path { least: took, calm });
        path.least = path.least.min(took);
        path.calm |= calm;
        *path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(place: u8, at_ms: u64, took_ms: u64) -> RttSample {
        RttSample {
            remote: IpAddr::from([192, 0, 2, place]),
            left: Duration::from_millis(at_ms - took_ms),
            waited: Duration::ZERO,
            came: Duration::from_millis(at_ms),
        }
    }

    fn delay_ms(heard: Option<RoundTrip>) -> Option<u64> {
        heard.map(|h| (h.delay * 1e3).round() as u64)
    }

    #[test]
    fn places_at_any_distance_show_the_same_queue() {
        let mut p = PassiveRtt::default();
        assert_eq!(
            delay_ms(p.on_rtt(&[sample(1, 1000, 80)], true, 1.0)),
            Some(80)
        );
        assert_eq!(
            delay_ms(p.on_rtt(&[sample(2, 1100, 10)], true, 1.1)),
            Some(10)
        );
        for (place, took) in [(1, 95), (2, 25)] {
            let heard = p.on_rtt(&[sample(place, 1200, took)], false, 1.2);
            assert_eq!(delay_ms(heard), Some(25), "{place}");
        }
    }

    #[test]
    fn who_dawdles_is_not_heard_beside_others() {
        let mut p = PassiveRtt::default();
        p.on_rtt(&[sample(1, 1000, 20), sample(2, 1000, 20)], true, 1.0);
        let heard = p.on_rtt(&[sample(1, 1100, 60), sample(2, 1105, 21)], false, 1.1);
        assert_eq!(delay_ms(heard), Some(21));
        assert_eq!(heard.map(|h| h.sent), Some(1.084));
    }

    #[test]
    fn a_place_first_met_beside_a_queue_does_not_hide_it() {
        let mut p = PassiveRtt::default();
        p.on_rtt(&[sample(1, 1000, 10)], true, 1.0);
        p.on_rtt(&[sample(1, 1500, 70)], false, 1.5);
        // Its 80 ms may be distance or queue.
        let beside = [sample(2, 1520, 80)];
        assert_eq!(p.on_rtt(&beside, false, 1.52), None);
        let heard = p.on_rtt(&[sample(1, 1600, 70), sample(2, 1600, 80)], false, 1.6);
        assert_eq!(delay_ms(heard), Some(70));
        // Better than nothing.
        assert_eq!(
            delay_ms(p.on_rtt(&[sample(2, 3000, 90)], false, 3.0)),
            Some(20)
        );
        // Now it is known.
        p.on_rtt(&[sample(2, 4000, 30)], true, 4.0);
        assert_eq!(
            delay_ms(p.on_rtt(&[sample(2, 4100, 80)], false, 4.1)),
            Some(60)
        );
    }

    #[test]
    fn our_own_queue_is_none_of_the_lines() {
        let mut p = PassiveRtt::default();
        p.on_rtt(&[sample(1, 1000, 20)], true, 1.0);
        let waited = |ms, took| RttSample {
            waited: Duration::from_millis(ms),
            ..sample(1, 2000, took)
        };
        assert_eq!(delay_ms(p.on_rtt(&[waited(30, 50)], false, 2.0)), Some(20));
        assert_eq!(delay_ms(p.on_rtt(&[waited(30, 65)], false, 2.0)), Some(35));
        // It was less than that: the place is not nearer for it.
        assert_eq!(delay_ms(p.on_rtt(&[waited(90, 50)], false, 2.0)), Some(20));
        assert_eq!(delay_ms(p.on_rtt(&[waited(0, 40)], false, 2.0)), Some(40));
    }

    #[test]
    fn what_did_not_wait_in_our_own_queue_is_heard_first() {
        let mut p = PassiveRtt::default();
        p.on_rtt(&[sample(1, 1000, 20), sample(2, 1000, 20)], true, 1.0);
        let waited = RttSample {
            waited: Duration::from_millis(30),
            ..sample(2, 2000, 50)
        };
        let beside = [sample(1, 2000, 45), waited];
        assert_eq!(delay_ms(p.on_rtt(&beside, false, 2.0)), Some(45));
        assert_eq!(p.on_rtt(&[waited], false, 2.05), None);
        assert_eq!(delay_ms(p.on_rtt(&[waited], false, 2.2)), Some(20));
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let mut p = PassiveRtt::default();
        for n in 0..2 * MOST as u32 {
            let remote = IpAddr::from(0x0a00_0000u32.wrapping_add(n).to_be_bytes());
            let sample = RttSample {
                remote,
                ..sample(1, 1000, 10)
            };
            p.on_rtt(&[sample], true, f64::from(n));
        }
        assert_eq!(p.all.len(), MOST);
        let odd = RttSample {
            left: Duration::from_secs(9),
            ..sample(1, 1000, 10)
        };
        assert_eq!(
            p.on_rtt(&[odd], true, 9.0),
            None,
            "it came before it was sent"
        );
    }
}
