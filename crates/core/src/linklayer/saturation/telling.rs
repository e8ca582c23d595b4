//! Which train tells most between the framings that are still likely.
//!
//! Principle: what a train would tell is computed before it is sent, and its cost with it. Non-goals: the null test
//! (`null_test`), what points say together (`fit`).

use std::time::Duration;

use super::super::SURE;
use super::super::fit::{Beliefs, Point, scale_of};
use super::{
    ABOVE, DELAY, DROPPED, Depth, LEAST, MOST, MOST_PACKETS, NULL_SHARE, OVERFLOWS, PAUSE, Phase,
    SMALL, Saturation, Seen, Train,
};

impl Saturation {
    pub(super) fn enough(&self, b: &Beliefs) -> bool {
        self.points.len() >= LEAST && b.of_mode() >= SURE && b.same() >= SURE
    }

    fn budget_left(&self) -> f64 {
        self.settings.budget * (1.0 - NULL_SHARE) - self.spent
    }

    /// The train that tells most between what is still likely; `None`: the phase has changed.
    pub(super) fn telling(&mut self) -> Option<Train> {
        let Some(b) = self.beliefs.clone() else {
            self.end("nothing was seen");
            return None;
        };
        let want = self.want;
        let nearly = b.of_mode() >= 0.5 && self.budget_left() < want;
        let spent = self.settings.budget - self.spent < 1.1 * want;
        if self.enough(&b) || nearly || spent || self.trains >= MOST {
            self.phase = Phase::Null(0);
            return None;
        }
        if b.misfit > 5.0 && self.points.len() >= LEAST && !self.refit() {
            self.end("the delays fit no framing");
            return None;
        }
        let (mut most, mut train) = (0.0, None);
        for size in self.sizes() {
            let Some((told, candidate)) = self.tells(&b, size) else {
                continue;
            };
            if told > most {
                (most, train) = (told, Some(candidate));
            }
        }
        if most < 0.1 && self.want < DELAY[1] {
            // More of the same noise is less of a longer train.
            self.want = (2.0 * self.want).min(DELAY[1]);
        }
        if train.is_none() {
            self.end("this machine sends small packets no faster than the line does");
        }
        train
    }

    /// Every length of small packets, and some of large ones.
    fn sizes(&self) -> impl Iterator<Item = u32> + use<> {
        let mtu = self.settings.mtu;
        let small = self.settings.smallest..=130;
        let large = (140..mtu).step_by(60).chain([mtu]);
        small.chain(large).filter(move |s| *s <= mtu)
    }

    /// Full packets just above the rate, for as long as the noise demands.
    pub(super) fn others_train(&self) -> Option<Train> {
        let best = *self.beliefs.as_ref()?.best()?;
        let mtu = self.settings.mtu;
        let each = f64::from(best.framing.wire_len(mtu)) * best.per_byte;
        let lasts = (2.0 * self.want).clamp(0.06, 0.15).min(self.growth / ABOVE);
        let count = (lasts * (1.0 + ABOVE) / each).round() as u32;
        (count >= 2).then(|| Train {
            sizes: vec![mtu],
            count,
            spread: Duration::from_secs_f64(f64::from(count) * each / (1.0 + ABOVE)),
            pause: Duration::ZERO,
        })
    }

    /// How well a train of packets of this size tells between candidates, and the train.
    fn tells(&self, b: &Beliefs, size: u32) -> Option<(f64, Train)> {
        let best = b.best()?;
        let each = f64::from(best.framing.wire_len(size)) * best.per_byte;
        // Faster than they leave here the line must not be.
        if each * self.pace < 1.2 {
            return None;
        }
        // Where nobody counts each second train is shorter: what overflows shows itself.
        let want = if self.counted || self.trains.is_multiple_of(2) {
            self.want
        } else {
            0.6 * self.want
        };
        // As long as it is not known how long they take, they all must have room in the queue.
        let known = b.of_mode() > 0.9 && b.near(4) > 0.9;
        let most = if size <= SMALL && !known {
            self.count
        } else {
            MOST_PACKETS
        };
        let count = ((want / each).round() as u32).clamp(1, most);
        let took = f64::from(count) * each;
        let room = if most < MOST_PACKETS {
            self.growth
        } else {
            self.room(size, each)
        };
        let over = took - room;
        let spread = if over > 0.0 {
            over.min(took / (1.0 + ABOVE))
        } else {
            0.0
        };
        let point = Point {
            packets: vec![(size, count)],
            took,
            span: spread.max(f64::from(count) / self.pace),
        };
        let s = scale_of(&point, b.scale, best.per_byte, best.others);
        let rivals = b.all.iter().skip(1).take(80);
        let told: f64 = rivals
            .map(|r| {
                let theirs = f64::from(count) * f64::from(r.framing.wire_len(size)) * r.per_byte;
                let apart = (theirs - took) / s;
                r.belief.powf(0.3) * (apart * apart).min(16.0)
            })
            .sum();
        let pause = if spread > 0.0 { 0.0 } else { PAUSE * took };
        let train = Train {
            sizes: vec![size],
            count,
            spread: Duration::from_secs_f64(spread),
            pause: Duration::from_secs_f64(pause),
        };
        Some((told / (1.0 + took / 0.05), train))
    }

    pub(super) fn told(&mut self, train: &Train, point: Point, seen: &Seen) {
        let sent_in = seen.sent_in.as_secs_f64();
        let noise = self.noise();
        let least = self
            .beliefs
            .as_ref()
            .and_then(Beliefs::best)
            .map_or(0.0, |b| {
                let bytes: f64 = point
                    .packets
                    .iter()
                    .map(|(s, n)| f64::from(*s) * f64::from(*n))
                    .sum();
                bytes * b.per_byte
            });
        // No framing makes packets shorter than they are: some did not arrive.
        let lost = seen.lost.is_some_and(|l| l > 0) || point.took < 0.9 * least - 5.0 * noise;
        if lost {
            let each = least / f64::from(train.count.max(1));
            let missing = f64::from(seen.lost.unwrap_or(0)) * each;
            if point.took - sent_in < 0.02 * missing {
                self.end(DROPPED);
                return;
            }
            self.depth.get_or_insert(Depth {
                ms: 1e3 * (point.took - sent_in).max(0.0),
                size: train.size(0),
                packets: train.count.saturating_sub(seen.lost.unwrap_or(0)),
            });
            self.lower(train, 0.6, Some(seen));
            self.overflows += 1;
            if self.overflows > OVERFLOWS {
                self.end("packets are lost");
            }
            return;
        }
        if point.took < 1.03 * sent_in + 3.0 * noise {
            // The line was not busy all the time: it says nothing. Closer together the next time.
            if train.spread.is_zero() {
                self.pace *= 0.8;
            } else {
                self.growth *= 1.3;
            }
            return;
        }
        self.points.push(point);
        self.believe();
    }

    /// What was seen fits nothing: perhaps the longest trains overflowed. `false`: not any more.
    fn refit(&mut self) -> bool {
        self.lowered += 1;
        if self.lowered > 3 {
            return false;
        }
        let most = self.points.iter().map(|p| p.took).fold(0.0, f64::max);
        self.growth = self.growth.min(0.5 * most);
        let many = self
            .points
            .iter()
            .flat_map(|p| &p.packets)
            .map(|p| p.1)
            .max();
        self.count = self.count.min(many.unwrap_or(2) / 2).max(2);
        let (limit, count) = (self.growth, self.count);
        self.points
            .retain(|p| p.took <= limit || p.packets.iter().all(|q| q.1 <= count));
        self.believe();
        true
    }
}
