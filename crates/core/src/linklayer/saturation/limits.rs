//! How much a train may be: what is lost of trains, and with their markers, lowers that.
//!
//! Principle: too much is tried less of, and losses in a row end it. Non-goals: which train is sent within that (`telling`,
//! `null_test`).

use super::super::fit::{Beliefs, Point};
use super::{LASTS_SLOWER, LOSSES, MOST_PACKETS, OVERFLOWS, Phase, SMALL, Saturation, Seen, Train};

impl Saturation {
    /// The marker of a train, or one alone, did not come.
    pub(super) fn lost_marker(&mut self, train: &Train) {
        if train.count > 0 {
            let point = Point {
                packets: train.packets(),
                took: 0.0,
                span: 0.0,
            };
            let best = self.beliefs.as_ref().and_then(Beliefs::best);
            self.spent += best.map_or(0.0, |b| b.per_byte * point.wire(b.framing));
            // Is it the train, or is nobody there?
            self.refresh = true;
            self.lower(train, 0.4, None);
            self.overflows += 1;
        } else {
            self.losses += 1;
        }
        if let Phase::Null(_) = self.phase {
            // Bursts that made a longer queue arrived.
            self.null_losses += 1;
            if self.null_losses >= LOSSES {
                self.trouble = Some(LASTS_SLOWER.into());
                self.phase = Phase::Done;
                return;
            }
        }
        if self.losses >= LOSSES || self.overflows > OVERFLOWS {
            self.end("probes are lost");
            return;
        }
        if let Phase::Scale(count) = self.phase {
            self.phase = if count > 1 && !self.points.is_empty() {
                self.begin_telling();
                Phase::Others
            } else {
                Phase::Scale(1)
            };
        }
    }

    /// A train like this one was too much.
    ///
    /// `seen`: what became of it, if anybody counted.
    pub(super) fn lower(&mut self, train: &Train, by: f64, seen: Option<&Seen>) {
        let best = self.beliefs.as_ref().and_then(|b| b.best().copied());
        if let (Some(best), true) = (best, train.size(0) <= SMALL) {
            // Perhaps it is packets that are counted: so many were waiting.
            let each = f64::from(best.framing.wire_len(train.size(0))) * best.per_byte;
            let took = f64::from(train.count) * each;
            let waiting = (took - train.spread.as_secs_f64()).max(0.0) / each;
            let counted = seen.and_then(|s| {
                let sent_in = s.sent_in.saturating_sub(train.pause).as_secs_f64();
                let there = f64::from(train.count.saturating_sub(s.lost?));
                Some(0.9 * (there - sent_in / each))
            });
            let most = counted.map_or(waiting * by, |c| c.min(0.9 * waiting));
            self.count = (most.max(0.0) as u32).min(self.count).max(2);
        } else {
            self.growth = (self.growth.min(self.want.max(0.01)) * by).max(0.003);
        }
    }

    /// By how much a queue of packets that take `each` seconds may grow, s.
    pub(super) fn room(&self, size: u32, each: f64) -> f64 {
        if size <= SMALL && self.count < MOST_PACKETS {
            self.growth.min(0.8 * f64::from(self.count) * each)
        } else {
            self.growth
        }
    }
}
