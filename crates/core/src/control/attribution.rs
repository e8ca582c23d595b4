//! Whose queue it is: that of what we send, or of what is sent to us.
//!
//! Principles: one-way times tell where the far side stamps, and far sides' clocks where connections bear stamps; else a
//! queue is where it follows a cut: what we send is known to be less at once, and a queue towards us keeps arrivals at
//! what the line carries. Non-goals: the cuts themselves (`direction`).

use super::direction::{ACKNOWLEDGES, FULL, Phase};
use super::{Controller, DOWN, LOADED_RATE, OneWay, Reason, UP};
use crate::{Direction, PerDirection};

/// A queue is where the last one was found, even if less is used of that or nothing is known of
/// the other.
const AGAIN: f64 = 1.5;
/// After so many looks in the wrong direction both are cut.
pub(super) const TURNS: u32 = 2;

impl Controller {
    /// Whose queue it is: there, and back.
    pub(super) fn attribute(
        &mut self,
        queue: f64,
        [left, came]: [f64; 2],
        one_way: Option<OneWay>,
        now: f64,
    ) -> PerDirection<f64> {
        let rise = self.context(UP, now).rise.max(self.context(DOWN, now).rise);
        if let Some(w) = one_way {
            let (there, back) = *self.offsets.get_or_insert((w.there, w.back));
            // Clocks drift: without a queue both differences are nought.
            if queue < rise.min(0.0015) {
                let soft = |old: f64, new: f64| old + 0.1 * (new - old);
                self.offsets = Some((soft(there, w.there), soft(back, w.back)));
            }
            let more = (w.there - there) - (w.back - back);
            // Stamps of whole ms say little about less, unless several are taken together.
            let soft = if queue > 0.003 || more.abs() > 0.002 {
                1.0
            } else {
                0.25
            };
            self.more += soft * (more - self.more);
            let up = (0.5 * (queue + self.more)).clamp(0.0, queue);
            return PerDirection {
                up,
                down: queue - up,
            };
        }
        if let Some(met) = self.peer_clocks.queue(came) {
            (self.told_apart, self.clocks_off) = (now, met.off);
            self.attributed = None;
            let down = met.queue.min(queue).max(0.0);
            return PerDirection {
                up: queue - down,
                down,
            };
        }
        self.clear_attribution(queue, left, now);
        let attributed = match self.attributed {
            Some((UP, 0)) if self.is_too_long(queue, left, now) => {
                let context = self.context(UP, now);
                if self.directions[UP].gives_up(&context) {
                    self.why = self.elsewhere(UP, queue);
                }
                DOWN
            }
            Some((i, _)) if queue > 0.7 * rise => i,
            _ => self.suspect(queue, left, now),
        };
        if queue > rise {
            if self.attributed.is_none() {
                self.attributed_at = (now, queue);
            }
            self.attributed = Some((attributed, self.attributed.map_or(0, |b| b.1)));
        } else if queue < 0.7 * rise {
            self.attributed = None;
        }
        if self.attributed.is_some_and(|b| b.1 >= TURNS) {
            return PerDirection {
                up: queue,
                down: queue,
            };
        }
        let mut shares = PerDirection::default();
        shares[attributed] = queue;
        shares
    }

    /// What waited in a direction that is not used any more has left it: a queue that still stands
    /// is elsewhere.
    fn clear_attribution(&mut self, queue: f64, left: f64, now: f64) {
        let Some((i, _)) = self.attributed else {
            return;
        };
        let rests = matches!(self.directions[i].phase, Phase::Open(_) | Phase::Steady);
        let (at, waited) = self.attributed_at;
        if !rests || self.in_use(i, now) {
            self.attributed_at = (now, queue);
        } else if left > at + waited && self.in_use(i.other(), now) {
            self.attributed = None;
        }
    }

    /// Whether a queue can be in this direction at all. One towards us keeps arrivals at what the line carries, and
    /// lines carry no less towards us than from us: while less comes than we send, it is not there, as far as is known.
    pub(super) fn in_use(&self, i: Direction, now: f64) -> bool {
        match self.directions[i].capacity {
            Some(_) => self.directions[i].is_loaded(&self.context(i, now)),
            None if i == DOWN && self.taken(DOWN, now) < self.taken(UP, now) => false,
            None => self.taken(i, now) > LOADED_RATE && self.is_load(i, now),
        }
    }

    /// Whether what passes is more than acknowledgements of what comes the other way.
    pub(super) fn is_load(&self, i: Direction, now: f64) -> bool {
        self.taken(i, now) > ACKNOWLEDGES * self.taken(i.other(), now)
    }

    fn taken(&self, i: Direction, now: f64) -> f64 {
        self.directions[i].throughput(&self.context(i, now))
    }

    /// Where a queue most likely is that nothing tells apart: in the direction that is used, that
    /// is just being tried or drained, or of which nothing is known yet, and else in the one whose
    /// senders we do not hold. If that is wrong a cut will show it, and it is remembered. Before a
    /// download is learned to be slower, what we send must have been looked at.
    fn suspect(&self, queue: f64, left: f64, now: f64) -> Direction {
        match [UP, DOWN].map(|i| self.in_use(i, now)) {
            [true, false] => return UP,
            [false, true] => return DOWN,
            _ if self.is_too_long(queue, left, now) => return DOWN,
            _ if self.directions[DOWN].is_about_to_learn() => return UP,
            _ => {}
        }
        let suspicion = |i: Direction| {
            let by_itself = match (self.directions[i].phase, self.directions[i].capacity) {
                (Phase::ProbeUp(_), _) => 4.0,
                (Phase::Drain(_), _) => 3.0,
                (_, None) => 2.0,
                (_, Some((c, _))) => self.taken(i, now) / c,
            };
            let again = self.last_attributed == Some(i);
            by_itself + if again { AGAIN } else { 0.0 }
        };
        if suspicion(UP) >= suspicion(DOWN) {
            UP
        } else {
            DOWN
        }
    }

    /// Whether a queue is longer than what we sent since the latest probe without one can have made it, while as much comes
    /// as ever did.
    fn is_too_long(&self, queue: f64, left: f64, now: f64) -> bool {
        let (up, down) = (&self.directions[UP], &self.directions[DOWN]);
        let context = self.context(UP, now);
        let full = down
            .capacity
            .is_none_or(|c| down.throughput(&context) > FULL * c.0);
        let short = up.capacity.is_some_and(|(c, _)| {
            let sent = up.meter.queue_since(up.clear, c, left) + 2.0 * context.packet / c;
            queue > sent + context.rise + context.wander
        });
        full && up.is_tested() && short && self.in_use(DOWN, now)
    }

    /// The queue is not where it was looked for: perhaps it is in the other direction. False if it
    /// cannot be there.
    pub(super) fn try_other_direction(&mut self, i: Direction, queue: f64) -> bool {
        let Some((_, turns)) = self
            .attributed
            .filter(|b| !self.directions[i].is_attributed && b.1 < TURNS)
        else {
            return false;
        };
        self.attributed = Some((i.other(), turns + 1));
        self.last_attributed = Some(i.other());
        self.why = self.elsewhere(i, queue);
        true
    }

    fn elsewhere(&self, i: Direction, queue: f64) -> Reason {
        Reason::Elsewhere {
            dir: self.directions[i].dir,
            queue_ms: queue * 1e3,
        }
    }
}
