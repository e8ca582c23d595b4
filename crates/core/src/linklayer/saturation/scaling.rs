//! Bursts of full packets, twice as many each time, until the delay that they make is large enough to be told.
//!
//! Principle: a policer, a token bucket and a queue that ends are seen here, before anything is fitted. Non-goals: framings
//! (`telling`).

use super::super::fit::Point;
use super::{DELAY, DROPPED, Depth, LONGEST, MOST_PACKETS, OVER_NOISE, Phase, Saturation, Seen};
use crate::units::{Rate, rounded};

impl Saturation {
    /// A burst of so many full packets was seen.
    pub(super) fn scaled(&mut self, count: u32, point: Point, seen: &Seen) {
        let noise = self.noise();
        let before = self.points.last().map_or(0.0, |p| p.took);
        let overflowed = seen.lost.is_some_and(|l| l > 0)
            || before > 100.0 * noise && point.took < 1.7 * before && self.points.len() > 1;
        if overflowed {
            self.depth = Some(Depth {
                ms: 1e3 * point.took,
                size: self.settings.mtu,
                packets: count.saturating_sub(seen.lost.unwrap_or(0)),
            });
            self.growth = 0.7 * point.took.min(2.0 * before.max(point.took / 2.0));
            if self.points.is_empty() || point.took < 5.0 * noise {
                self.end(DROPPED);
            } else {
                self.begin_telling();
            }
            return;
        }
        self.scale.push((count, point.took));
        if let Some(why) = self.is_bucket() {
            self.end(&why);
            return;
        }
        let want = (OVER_NOISE * noise).clamp(DELAY[0], DELAY[1]);
        // Longer ones have their turn where they tell more.
        let enough = point.took >= (60.0 * noise).clamp(0.7 * DELAY[0], 0.7 * want);
        let large = point.took > 5.0 * noise;
        let sent_in = seen.sent_in.as_secs_f64();
        let busy = point.took > 1.05 * sent_in + 3.0 * noise;
        // Those that make no delay to speak of say nothing of a rate.
        if large && busy {
            self.points.push(point);
        }
        if enough && busy {
            self.begin_telling();
        } else if count >= MOST_PACKETS / 2 || sent_in > LONGEST.as_secs_f64() {
            self.end("the queue does not grow: this machine sends no faster than the line, or what is ahead of the marker has a queue of its own");
        } else {
            self.phase = Phase::Scale(count * 2);
        }
    }

    /// Whether the last burst took much longer, for each packet, than a shorter one did: tokens were there for
    /// that one. In words.
    fn is_bucket(&self) -> Option<String> {
        let noise = self.noise();
        let (&(count, took), before) = self.scale.split_last()?;
        let each = took / f64::from(count);
        let at_once = before.iter().rev().find(|(n, t)| {
            let expected = each * f64::from(*n);
            *n >= 2 && expected > 20.0 * noise && *t < 0.6 * expected
        });
        let (n, t) = at_once.filter(|_| took > 60.0 * noise)?;
        let each = (took - t) / f64::from(count - n);
        let bytes = f64::from(self.settings.mtu);
        let burst = (f64::from(*n) - t / each).max(0.0) * bytes;
        Some(format!(
            "a token bucket: {} pass at once, and {} after them",
            rounded::bytes(burst),
            rounded::rate(Rate::from_bps((8.0 * bytes / each) as u64))
        ))
    }
}
