//! Lines whose rate and delay change by themselves, made from ranges and a seed.
//!
//! Two kinds: a random walk (mobile networks: some steps a second, each up or down by a factor)
//! and redraws (satellites: at fixed times a new rate and a new delay, each evenly distributed
//! over its range). Both directions change at the same times, each by its own luck.
//!
//! Principles: pure; the same numbers give the same line for ever; every value stays within its
//! range. Non-goals: physics, and recordings of real lines.

use std::time::Duration;

use crate::pipe::SplitMix64;
use crate::units::Rate;

/// How a line changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Swing {
    /// From one change to the next.
    pub every: Duration,
    /// What a change is.
    pub kind: Kind,
    /// Lowest and highest rate towards the customer.
    pub down: (Rate, Rate),
    /// Lowest and highest rate from the customer.
    pub up: (Rate, Rate),
    /// Least and most that the round trip grows by.
    pub rtt: (Duration, Duration),
}

/// What a change is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Times or divided by at most this, which is more than 1; the round trip moves by an eighth
    /// of its range at most. Bounds throw back.
    Walk(f64),
    /// A new draw.
    Redraw,
}

/// Steps of (start, value), the first at zero.
pub type Steps<T> = Vec<(Duration, T)>;

/// A line that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Swung {
    /// Rates towards the customer.
    pub down: Steps<Rate>,
    /// Rates from the customer.
    pub up: Steps<Rate>,
    /// What the round trip grows by.
    pub rtt: Steps<Duration>,
}

impl Swing {
    /// Steps for a line of `length`, at most 100000 of them.
    pub fn make(&self, seed: u64, length: Duration) -> Swung {
        let every = self.every.max(Duration::from_millis(1));
        let n = (length.as_nanos() / every.as_nanos()).min(99_999) as u32 + 1;
        let steps = |stream: u64, low: f64, high: f64, by_factor: bool| -> Vec<(Duration, f64)> {
            // Far apart in the generator's sequence.
            let mut random =
                SplitMix64::new(seed.wrapping_add(stream.wrapping_mul(0xA5A5_5A5A_1234_4321)));
            let mut at = low + (high - low) * random.unit();
            (0..n)
                .map(|i| {
                    if i > 0 {
                        at = self.next(at, low, high, by_factor, &mut random);
                    }
                    (every * i, at)
                })
                .collect()
        };
        let rates = |stream, (low, high): (Rate, Rate)| -> Steps<Rate> {
            let all = steps(stream, low.bps() as f64, high.bps() as f64, true);
            let whole = |bps: f64| Rate::from_kbit(((bps / 1000.0) as u64).max(1));
            all.into_iter().map(|(t, v)| (t, whole(v))).collect()
        };
        let micros = |d: Duration| d.as_micros() as f64;
        let rtt = steps(3, micros(self.rtt.0), micros(self.rtt.1), false);
        Swung {
            down: rates(1, self.down),
            up: rates(2, self.up),
            rtt: rtt
                .into_iter()
                .map(|(t, us)| (t, Duration::from_micros(us as u64)))
                .collect(),
        }
    }

    fn next(&self, at: f64, low: f64, high: f64, by_factor: bool, random: &mut SplitMix64) -> f64 {
        let unit = random.unit();
        let moved = match self.kind {
            Kind::Redraw => return low + (high - low) * unit,
            Kind::Walk(factor) if by_factor => at * factor.powf(2.0 * unit - 1.0),
            Kind::Walk(_) => at + (high - low) / 8.0 * (2.0 * unit - 1.0),
        };
        let thrown_back = if moved > high {
            if by_factor {
                high * high / moved
            } else {
                2.0 * high - moved
            }
        } else if moved < low {
            if by_factor {
                low * low / moved
            } else {
                2.0 * low - moved
            }
        } else {
            moved
        };
        thrown_back.clamp(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lte(kind: Kind) -> Swing {
        Swing {
            every: Duration::from_millis(250),
            kind,
            down: (Rate::from_kbit(3_000), Rate::from_kbit(60_000)),
            up: (Rate::from_kbit(1_000), Rate::from_kbit(20_000)),
            rtt: (Duration::ZERO, Duration::from_millis(40)),
        }
    }

    #[test]
    fn stays_within_and_uses_its_range() {
        for kind in [Kind::Walk(2.0), Kind::Redraw] {
            let line = lte(kind).make(7, Duration::from_secs(300));
            assert_eq!((line.down.len(), line.rtt.len()), (1201, 1201));
            let rates: Vec<u64> = line.down.iter().map(|s| s.1.kbit()).collect();
            let (low, high) = (rates.iter().min().unwrap(), rates.iter().max().unwrap());
            assert!((3_000..4_000).contains(low), "{low}");
            assert!((50_000..=60_000).contains(high), "{high}");
            let worst = line.rtt.iter().map(|s| s.1).max().unwrap();
            assert!(worst <= Duration::from_millis(40) && worst > Duration::from_millis(30));
            assert!(
                line.up
                    .iter()
                    .all(|s| (1_000..=20_000).contains(&s.1.kbit()))
            );
        }
    }

    #[test]
    fn a_walk_goes_in_steps_of_its_factor() {
        let line = lte(Kind::Walk(1.5)).make(1, Duration::from_secs(60));
        for w in line.down.windows(2) {
            let ratio = w[1].1.bps() as f64 / w[0].1.bps() as f64;
            assert!((1.0 / 1.51..1.51).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn the_seed_makes_the_line() {
        let of = |seed| lte(Kind::Walk(2.0)).make(seed, Duration::from_secs(10));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let one = of(1);
        assert_ne!(
            one.down[1].1.kbit() / 3,
            one.up[1].1.kbit(),
            "streams of their own"
        );
        // Numbers that may never change: committed results depend on them.
        let first: Vec<u64> = one.down.iter().take(3).map(|s| s.1.kbit()).collect();
        assert_eq!(first, [10_319, 12_009, 6_483]);
    }

    /// The rate goes by a factor, the round trip by an eighth of its range, each evenly in both
    /// directions; a bound throws back as far as it was passed.
    #[test]
    fn bounds_throw_back() {
        let swing = lte(Kind::Walk(2.0));
        let (low, high) = (100.0, 900.0);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        for seed in 0..200 {
            let random = || SplitMix64::new(seed);
            let luck = 2.0 * random().unit() - 1.0;
            let next = |at, by_factor| swing.next(at, low, high, by_factor, &mut random());
            let (times, more) = (2f64.powf(luck), 100.0 * luck);
            assert!(near(next(400.0, true), 400.0 * times));
            assert!(near(next(400.0, false), 400.0 + more));
            let within = |v: f64| v.clamp(low, high);
            let (up, down) = (times.max(1.0 / times), more.abs());
            // From the upper bound it goes down, from the lower one up, whatever the luck.
            assert!(near(next(high, true), within(high / up)));
            assert!(near(next(high, false), high - down));
            assert!(near(next(low, true), within(low * up)));
            assert!(near(next(low, false), low + down));
            // 50 from the bound: it is reached, or passed and thrown back.
            let beyond = 850.0 + more;
            let expected = if beyond > high {
                1800.0 - beyond
            } else {
                beyond
            };
            assert!(near(next(850.0, false), expected));
        }
    }
}
