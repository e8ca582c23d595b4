//! What passes anyway while a queue stands: bytes per packet against time per packet.
//!
//! While a queue stands the line is busy, so an interval of `T` seconds in which the queue grew by `D` was
//! filled, for `T + D` seconds, by what entered it: `T + D = u * (bytes + h * packets)`. Over intervals whose
//! packets differ in mean size that is a straight line; `h` is where it meets the axis: the overhead of a
//! packet, and of cells the half cell that each packet fills up with on average.
//!
//! Principles: pure; sums that forget, since lines change; an error beside each figure, and nothing while
//! mean sizes hardly differ. What can be seen is what a packet costs, not whether by cells or by an overhead:
//! so that is what is said. Non-goals: finding out whether a queue stands (`control`).

use serde::{Deserialize, Serialize};

use crate::framing::{Framing, Mode};
use crate::ping::fit::Estimate;
use crate::units::Rate;

/// What passed in an interval at whose ends a queue stood, and in between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passing {
    /// Bytes of IP packets that entered the queue.
    pub bytes: u64,
    /// How many packets.
    pub packets: u64,
    /// How long it lasted, s.
    pub lasted: f64,
    /// By how much more a packet waited at its end than at its beginning, s.
    pub grew: f64,
}

/// Evidence loses half of its weight while so much more comes, s of a standing queue: what an evening has.
const HALF: f64 = 7200.0;
/// Intervals before anything is said.
const LEAST: f64 = 20.0;
/// The padding of the last cell, bytes of payload: 23.5 on average over all lengths, but the lengths of full
/// packets and acknowledgements may have less, so not all of it is taken off.
const PADDING: f64 = 16.0;

/// What is known so far. It can be kept over restarts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Passive {
    /// Sum of weights, and of intervals without forgetting.
    weight: f64,
    /// Weighted sums over bytes per packet (m) and seconds per packet (y).
    m: f64,
    y: f64,
    mm: f64,
    my: f64,
    yy: f64,
}

impl Passive {
    /// One more interval. Those in which hardly anything passed say nothing.
    pub fn add(&mut self, p: Passing) {
        let busy = p.lasted + p.grew;
        if p.packets < 20 || p.lasted <= 0.0 || busy < 0.5 * p.lasted {
            return;
        }
        let keep = 0.5f64.powf(p.lasted / HALF);
        let packets = p.packets as f64;
        let (m, y) = (p.bytes as f64 / packets, busy / packets);
        for sum in [
            &mut self.weight,
            &mut self.m,
            &mut self.y,
            &mut self.mm,
            &mut self.my,
            &mut self.yy,
        ] {
            *sum *= keep;
        }
        self.weight += 1.0;
        self.m += m;
        self.y += y;
        self.mm += m * m;
        self.my += m * y;
        self.yy += y * y;
    }

    /// Intervals that count.
    pub fn intervals(&self) -> f64 {
        self.weight
    }

    /// What a packet costs beyond its own bytes, in bytes of its own, and how sure that is. `None` while
    /// there is too little, or packets were too much alike.
    pub fn per_packet(&self) -> Option<Estimate> {
        let n = self.weight;
        if n < LEAST {
            return None;
        }
        let (mm, mean_y) = (self.m / n, self.y / n);
        let sxx = self.mm - n * mm * mm;
        let sxy = self.my - n * mm * mean_y;
        let syy = self.yy - n * mean_y * mean_y;
        // Means that differ by less than 40 bytes see nothing.
        if sxx < n * 40.0 * 40.0 || sxy <= 0.0 {
            return None;
        }
        let slope = sxy / sxx;
        let value = mean_y / slope - mm;
        let rest = ((syy - slope * sxy) / (n - 2.0)).max(0.0);
        // The error of where a line meets the axis: as far beyond the mean as `value + mm`.
        let far = (value + mm).powi(2) / sxx + 1.0 / n;
        Some(Estimate {
            value,
            within: 1.96 * (rest * far).sqrt() / slope,
        })
    }

    /// Link-layer rate for that cost, without what cells and 64b/65b add to every byte.
    pub fn rate(&self) -> Option<Rate> {
        let cost = self.per_packet()?.value;
        let n = self.weight;
        let per_byte = (self.y / n) / (self.m / n + cost);
        Some(Rate::from_bps((8.0 / per_byte) as u64))
    }

    /// A framing that costs as much, on the safe side of the error, if the error is small enough to say one:
    /// cells where a line that slow can have them, otherwise 64b/65b, which covers what has neither.
    pub fn framing(&self) -> Option<Framing> {
        /// More than that is no knowledge: `USUAL`s are as good.
        const KNOWN: f64 = 8.0;
        let cost = self.per_packet().filter(|c| c.within <= KNOWN)?;
        let most = (cost.value + cost.within).ceil();
        let cells = self.rate().is_some_and(super::adsl_possible) && most >= 8.0 + PADDING;
        Some(if cells {
            Framing::new(Mode::Atm, ((most - PADDING).ceil() as i16).clamp(8, 55), 0)
        } else {
            Framing::new(Mode::Ptm, (most as i16).clamp(0, 64), 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe::SplitMix64;
    use proptest::prelude::*;

    /// Intervals of 200 ms of a line; mean sizes from 200 to 1400 bytes, and an error of `noise` s in
    /// each queue.
    fn seen(framing: Framing, bps: f64, noise: f64, many: usize, seed: u64) -> Passive {
        let mut r = SplitMix64::new(seed);
        let mut passive = Passive::default();
        for _ in 0..many {
            let full = r.unit();
            let (mut bytes, mut packets, mut wire) = (0, 0, 0);
            while 8.0 * f64::from(wire) / bps < 0.2 {
                let size = if r.unit() < full {
                    1500
                } else {
                    40 + (r.unit() * 400.0) as u32
                };
                bytes += u64::from(size);
                packets += 1;
                wire += framing.wire_len(size);
            }
            let grew = 8.0 * f64::from(wire) / bps - 0.2 + noise * (r.unit() - 0.5);
            passive.add(Passing {
                bytes,
                packets,
                lasted: 0.2,
                grew,
            });
        }
        passive
    }

    #[test]
    fn the_cost_of_a_packet_is_found_with_its_error() {
        // Of cells: 32 and half a cell, more or less as lengths happen to be.
        for (text, cost, more) in [
            ("none:38:mpu84", 38.0, 1.0),
            ("ptm:30", 30.5, 1.0),
            ("atm:32", 55.5, 6.0),
            ("none:0", 0.0, 1.0),
        ] {
            let p = seen(text.parse().unwrap(), 20e6, 0.004, 400, 7);
            let found = p.per_packet().unwrap();
            assert!(
                (found.value - cost).abs() <= found.within + more,
                "{text}: {found:?}"
            );
            assert!(found.within < 8.0, "{text}: {found:?}");
        }
    }

    #[test]
    fn what_is_said_costs_no_less_than_the_line() {
        for (text, bps) in [("atm:32", 10e6), ("none:38:mpu84", 90e6), ("ptm:34", 50e6)] {
            let framing: Framing = text.parse().unwrap();
            let said = seen(framing, bps, 0.002, 600, 3).framing().unwrap();
            // At the same rate for full packets, small ones are charged no less.
            let ratio = |f: Framing, l: u32| f64::from(f.wire_len(l)) / f64::from(f.wire_len(1500));
            for l in [64, 100, 200, 576] {
                assert!(
                    ratio(said, l) > 0.93 * ratio(framing, l),
                    "{text}: {said} at {l}"
                );
            }
        }
    }

    #[test]
    fn packets_that_are_all_alike_say_nothing() {
        let mut p = Passive::default();
        for _ in 0..1000 {
            p.add(Passing {
                bytes: 150_000,
                packets: 100,
                lasted: 0.1,
                grew: 0.01,
            });
        }
        assert_eq!(p.per_packet(), None);
        assert_eq!(p.framing(), None);
        assert_eq!(Passive::default().per_packet(), None);
    }

    proptest! {
        #[test]
        fn no_interval_makes_nonsense(all in prop::collection::vec((0u64..u64::MAX / 4, 0u64..u64::MAX / 4, -1.0..10.0f64, -10.0..10.0f64), 0..60)) {
            let mut p = Passive::default();
            for (bytes, packets, lasted, grew) in all {
                p.add(Passing { bytes, packets, lasted, grew });
            }
            if let Some(e) = p.per_packet() {
                prop_assert!(!e.value.is_nan());
            }
            p.framing();
        }
    }
}
