//! What connections that pass see of the line's queue, while something else is probed.
//!
//! Each leads somewhere else, so only what one takes beyond the least to the same place counts.
//!
//! Principles: of all that come in a stretch the smallest excess is the line's queue: far sides
//! dawdle, none hurries; a place that was met only beside a queue says nothing, since its distance
//! is not known; what waited in our own queue is not heard. Non-goals: following a line by it
//! (`evenkeel_core::control`).

use std::net::IpAddr;
use std::time::Duration;

use evenkeel_core::control::RttSample;
use evenkeel_core::recent::Recent;

/// So many places are remembered.
const MOST: usize = 128;
/// Fewer round trips say nothing.
const FEWEST: usize = 3;
/// Of fewer round trips to the same place it cannot be said how far they are apart: the middle one is the third.
const FEWEST_APART: usize = 4;
/// They are of the same time as answers of a stretch if they came over half of it at least (decision 0119; not varied).
const LASTS: Duration = Duration::from_millis(250);
/// A place whose round trips differ by so much was met with a queue and without.
const APART: Duration = Duration::from_millis(10);

/// What a stretch showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Passive {
    /// The least that a round trip took beyond the least to the same place, s.
    pub(crate) queue: f64,
    /// How many places were met.
    pub(crate) places: usize,
}

/// All that a stretch showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    /// `None`: too little of places whose distance is known.
    pub(crate) passive: Option<Passive>,
    /// How far round trips to the same place were apart, the middle one and the least, s, at the place where that is
    /// least; its distance need not be known. `None`: there were too few.
    pub(crate) spread: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    least: Duration,
    most: Duration,
    /// Met while little passed.
    calm: bool,
}

/// A round trip that ended.
#[derive(Debug, Clone, Copy)]
struct Trip {
    remote: IpAddr,
    took: Duration,
    came: Duration,
}

/// Places that connections lead to, and what they saw since the last look.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    all: Recent<IpAddr, Place>,
    samples: Vec<Trip>,
}

impl Default for Places {
    fn default() -> Self {
        Places {
            all: Recent::new(MOST),
            samples: Vec::new(),
        }
    }
}

impl Places {
    /// Round trips that ended since the last call; `calm`: while little passes.
    pub(crate) fn note(&mut self, samples: &[RttSample], calm: bool) {
        for s in samples.iter().filter(|s| s.waited.is_zero()) {
            let Some(took) = s.came.checked_sub(s.left) else {
                continue;
            };
            let place = self.all.meet(s.remote, s.came.as_secs_f64(), || Place {
                least: took,
                most: took,
                calm,
            });
            place.least = place.least.min(took);
            place.most = place.most.max(took);
            place.calm |= calm;
            self.samples.push(Trip {
                remote: s.remote,
                took,
                came: s.came,
            });
        }
    }

    /// What they saw since the last look.
    pub(crate) fn look(&mut self) -> Seen {
        let samples = std::mem::take(&mut self.samples);
        Seen {
            spread: least_spread(&samples),
            passive: self.passive(samples),
        }
    }

    fn passive(&self, samples: Vec<Trip>) -> Option<Passive> {
        let mut met: Vec<IpAddr> = Vec::new();
        let mut excess: Vec<f64> = Vec::new();
        for Trip { remote, took, .. } in samples {
            let Some(place) = self.all.get(&remote) else {
                continue;
            };
            if place.calm || place.most.saturating_sub(place.least) >= APART {
                excess.push(took.saturating_sub(place.least).as_secs_f64());
                if !met.contains(&remote) {
                    met.push(remote);
                }
            }
        }
        let queue = excess.iter().copied().reduce(f64::min)?;
        (excess.len() >= FEWEST).then_some(Passive {
            queue,
            places: met.len(),
        })
    }

    /// The least round trip to each place, as it would be at `now`, the nearest first.
    pub(crate) fn least(&self, now: Duration) -> Vec<RttSample> {
        let mut all: Vec<_> = self.all.iter().map(|(r, p)| (p.least, *r)).collect();
        all.sort();
        let sample = |(least, remote)| RttSample {
            remote,
            left: now.saturating_sub(least),
            waited: Duration::ZERO,
            came: now,
        };
        all.into_iter().map(sample).collect()
    }
}

/// How far apart round trips are, s: the middle one and the least to the same place, where that is least.
fn least_spread(samples: &[Trip]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by_key(|t| (t.remote, t.took));
    let of_places = sorted.chunk_by(|a, b| a.remote == b.remote);
    let spreads = of_places.filter_map(|trips| {
        let came = trips.iter().map(|t| t.came);
        let lasts = came.clone().max()?.saturating_sub(came.min()?);
        let took: Vec<Duration> = trips.iter().map(|t| t.took).collect();
        spread(&took).filter(|_| lasts >= LASTS)
    });
    spreads.map(|s| s.as_secs_f64()).reduce(f64::min)
}

/// How far apart `sorted` times are, the middle one and the least; `None`: they are too few.
pub(crate) fn spread(sorted: &[Duration]) -> Option<Duration> {
    let (middle, least) = (sorted.get(sorted.len() / 2)?, sorted.first()?);
    (sorted.len() >= FEWEST_APART).then(|| middle.saturating_sub(*least))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn samples(all: &[(u8, u32)]) -> Vec<RttSample> {
        let sample = |(place, took): &(u8, u32)| RttSample {
            remote: IpAddr::from([192, 0, 2, *place]),
            left: 1000 * MS,
            waited: Duration::ZERO,
            came: (1000 + took) * MS,
        };
        all.iter().map(sample).collect()
    }

    fn look(places: &mut Places) -> Option<(u32, usize)> {
        let seen = places.look().passive?;
        Some(((seen.queue * 1e3).round() as u32, seen.places))
    }

    #[test]
    fn the_least_excess_of_all_places_is_the_lines() {
        let mut places = Places::default();
        places.note(&samples(&[(1, 10), (2, 90)]), true);
        assert_eq!(look(&mut places), None, "too few");
        places.note(&samples(&[(1, 73), (2, 160), (2, 153)]), false);
        assert_eq!(look(&mut places), Some((63, 2)));
        assert_eq!(look(&mut places), None, "since then there were none");
        // One that did not wait says that there is no queue, at least not for all.
        places.note(&samples(&[(1, 73), (2, 160), (2, 91)]), false);
        assert_eq!(look(&mut places), Some((1, 2)));
    }

    #[test]
    fn a_place_met_beside_a_queue_says_nothing() {
        let mut places = Places::default();
        places.note(&samples(&[(1, 70), (1, 72), (1, 75)]), false);
        assert_eq!(look(&mut places), None);
        places.note(&samples(&[(2, 10), (2, 60), (2, 71), (1, 70)]), false);
        assert_eq!(look(&mut places), Some((0, 1)), "it began without one");
        places.note(&samples(&[(2, 70), (2, 61), (2, 71), (1, 70)]), false);
        assert_eq!(look(&mut places), Some((51, 1)));
    }

    #[test]
    fn round_trips_to_the_same_place_are_compared() {
        let mut places = Places::default();
        // Over the time of a stretch.
        let samples = |all: &[(u8, u32)]| {
            let mut samples = samples(all);
            for (n, s) in samples.iter_mut().enumerate() {
                s.left += MS * 60 * n as u32;
                s.came += MS * 60 * n as u32;
            }
            samples
        };
        let calm = [(1, 10), (2, 90)];
        places.note(&samples(&calm), true);
        // Two places at two distances: one dawdles.
        let both = [
            (1, 11),
            (2, 91),
            (1, 30),
            (2, 92),
            (1, 50),
            (2, 93),
            (2, 99),
            (1, 70),
        ];
        places.note(&samples(&both), false);
        let spread = places.look().spread.unwrap();
        assert!((spread - 0.002).abs() < 1e-9, "{spread}");
        places.note(&samples(&[(1, 11), (1, 30), (2, 99)]), false);
        assert_eq!(places.look().spread, None, "too few");
        // How far away it is need not be known.
        let far = [(3, 40), (3, 41), (3, 43), (3, 44), (3, 44), (3, 44)];
        places.note(&samples(&far[2..]), false);
        assert_eq!(places.look().spread, None, "too short a time");
        places.note(&samples(&far), false);
        let seen = places.look();
        assert!(seen.passive.is_none() && seen.spread.is_some(), "{seen:?}");
    }

    #[test]
    fn what_waited_with_us_is_not_heard() {
        let mut places = Places::default();
        let mut waited = samples(&[(1, 70), (1, 72), (1, 75)]);
        for s in &mut waited {
            s.waited = MS;
        }
        places.note(&waited, true);
        assert_eq!((look(&mut places), places.all.len()), (None, 0));
    }

    #[test]
    fn places_are_handed_on_nearest_first_and_not_without_end() {
        let mut places = Places::default();
        for n in 0..=u8::MAX {
            places.note(&samples(&[(n, 200 - u32::from(n % 200))]), true);
        }
        assert_eq!(places.all.len(), MOST);
        let least = places.least(5000 * MS);
        let trips: Vec<_> = least
            .iter()
            .map(|s| s.came.saturating_sub(s.left))
            .collect();
        assert!(trips.is_sorted() && trips.len() == MOST);
    }
}
