//! The null test: with the right framing tiny, huge and mixed packets just above the capacity make the queue grow alike.
//!
//! Principle: what was found before is tried to be refuted. Non-goals: finding it (`telling`).

use std::time::Duration;

use super::super::fit::{Point, scale_of};
use super::{
    ABOVE, LASTS_SLOWER, LONGEST, MARKER, MOST_PACKETS, OVERFLOWS, Phase, SAME_SLOPE, STRAY,
    Saturation, Seen, Slope, Train,
};

impl Saturation {
    /// The sizes of a train of the null test.
    fn null_sizes(&self, which: usize) -> Option<Vec<u32>> {
        let best = self.beliefs.as_ref()?.best()?;
        let slow = |size: &u32| {
            f64::from(best.framing.wire_len(*size)) * best.per_byte * self.pace
                > 1.3 * (1.0 + ABOVE)
        };
        let tiny = [64, 128, 256, 512].into_iter().find(slow)?;
        let mtu = self.settings.mtu;
        // The huge one first: evenly spaced, they keep the line busy from then on.
        let mixed = vec![mtu, tiny, 576.min(mtu)];
        [vec![tiny], vec![mtu], mixed].into_iter().nth(which)
    }

    pub(super) fn null_train(&mut self, which: usize) -> Option<Train> {
        let b = self.beliefs.clone()?;
        // What is not known yet may become so: its trains are evidence as well.
        if b.of_mode() < 0.5 || self.trouble.is_some() {
            return None;
        }
        let best = *b.best()?;
        let sizes = self.null_sizes(which)?;
        let left = (self.settings.budget - self.spent).max(0.0) / (3 - which) as f64;
        let longest = LONGEST.as_secs_f64() / (1.0 + ABOVE);
        let tiny = sizes.iter().copied().min()?;
        let each = f64::from(best.framing.wire_len(tiny)) * best.per_byte;
        let room = self.room(tiny, each);
        let lasts = longest.min(left / (1.0 + ABOVE)).min(room / ABOVE);
        // Too short a train says nothing.
        if lasts < 20.0 * best.per_byte * f64::from(MARKER) || lasts < 30.0 * self.noise() {
            return None;
        }
        let mean = sizes
            .iter()
            .map(|s| f64::from(best.framing.wire_len(*s)))
            .sum::<f64>()
            / sizes.len() as f64;
        let count = (lasts * (1.0 + ABOVE) / (mean * best.per_byte)).floor() as u32;
        // Whole turns: evenly spaced, a part of one would leave gaps.
        let turns = sizes.len() as u32;
        let count = count.min(MOST_PACKETS) / turns * turns;
        if count < 2 {
            return None;
        }
        let train = Train {
            sizes,
            count,
            spread: Duration::ZERO,
            pause: Duration::ZERO,
        };
        let wire: f64 = Point {
            packets: train.packets(),
            took: 0.0,
            span: 0.0,
        }
        .wire(best.framing);
        Some(Train {
            spread: Duration::from_secs_f64(wire * best.per_byte / (1.0 + ABOVE)),
            ..train
        })
    }

    pub(super) fn null_seen(&mut self, which: usize, train: &Train, point: Point, seen: &Seen) {
        let best = self.beliefs.as_ref().and_then(|b| b.best().copied());
        if best.is_some_and(|b| point.took > 1.25 * b.takes(&point)) {
            // Losses only make a train shorter.
            self.trouble = Some(LASTS_SLOWER.into());
            self.phase = Phase::Done;
            return;
        }
        if seen.lost.is_some_and(|l| l > 0) {
            // It was too much: the same in less time.
            self.overflows += 1;
            self.lower(train, 0.6, Some(seen));
            if self.overflows > OVERFLOWS {
                self.end("packets are lost");
            }
            return;
        }
        if let Some(best) = best.filter(|_| point.span > 0.0) {
            let slope = Slope {
                sizes: train.sizes.clone(),
                grew: point.took / point.span - 1.0,
                expected: best.takes(&point) / point.span - 1.0,
            };
            self.slopes.push((slope, point));
        }
        self.phase = Phase::Null(which + 1);
        if which == 2 {
            self.phase = Phase::Done;
            self.judge_slopes();
        }
    }

    /// Others may use the line meanwhile: what counts is that the three are alike.
    fn judge_slopes(&mut self) {
        let Some(b) = &self.beliefs else { return };
        let Some(best) = b.best().copied() else {
            return;
        };
        let off = |s: &(Slope, Point)| (1.0 + s.0.grew) / (1.0 + s.0.expected) - 1.0;
        let error = |s: &(Slope, Point)| {
            scale_of(&s.1, b.scale, best.per_byte, best.others) / s.1.took.max(1e-4)
        };
        let offs: Vec<f64> = self.slopes.iter().map(off).collect();
        let error = self.slopes.iter().map(error).fold(0.0, f64::max);
        let (least, most) = (
            offs.iter().copied().fold(f64::MAX, f64::min),
            offs.iter().copied().fold(f64::MIN, f64::max),
        );
        let stray = self
            .slopes
            .iter()
            .map(|s| STRAY * best.per_byte / s.1.took.max(1e-4));
        let stray = stray.fold(0.0, f64::max);
        if most - least > SAME_SLOPE + 6.0 * error + stray {
            let of = |s: &(Slope, Point)| format!("{:.1} %", 100.0 * s.0.grew);
            let all: Vec<String> = self.slopes.iter().map(of).collect();
            self.trouble = Some(format!(
                "the queue grew by {} of the time for tiny, huge and mixed packets rather than alike",
                all.join(", ")
            ));
        } else if least < -0.08 - 6.0 * error {
            self.trouble = Some("what lasts is carried faster than bursts are".into());
        } else if most > 0.2 + 6.0 * error {
            self.trouble = Some(LASTS_SLOWER.into());
        } else {
            self.points.extend(self.slopes.iter().map(|s| s.1.clone()));
            self.believe();
        }
    }
}
