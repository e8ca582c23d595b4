//! Probes on the line: there behind the queue from us, back behind the one towards us.
//!
//! Principles: a probe waits behind what stands at the bottleneck when it comes there; none
//! overtakes another; where nothing answers, packets of connections take their place. Non-goals:
//! when one is sent.

use std::collections::VecDeque;

use super::link::Link;
use super::scene::{MTU, Scene};
use crate::PerDirection;
use crate::pipe::SplitMix64;

/// What a full buffer towards us throws away of probes: senders yield there before ours is gone.
const LOST_TOWARDS_US: f64 = 0.3;

/// So many answers of a connection are waited for at once (`AWAITED` of the programs).
const AWAITED: f64 = 8.0;

/// A probe on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// When it was sent, s.
    pub sent: f64,
    /// When it is at the far end, or back, s.
    pub at: f64,
    /// What the way there takes, s.
    pub there: f64,
}

/// Probes on their ways, in their order.
#[derive(Debug, Default)]
pub(super) struct Probes {
    there: VecDeque<Probe>,
    back: VecDeque<Probe>,
}

impl Probes {
    /// One is sent at `t`; `rtt` is the base then.
    pub(super) fn send(
        &mut self,
        scene: &Scene,
        links: &PerDirection<Link>,
        t: f64,
        rtt: f64,
        random: &mut SplitMix64,
    ) {
        let up = &links.up;
        let serial = serial(scene, up, random);
        let exit = t + up.waits() + serial;
        let at = exit + way(scene, rtt, scene.wander_up) + random.unit() * scene.jitter;
        let lost = if up.has_room(scene.sides.up.buffer) {
            0.0
        } else {
            up.overflows
        };
        // Of each connection so many round trips at a time are followed.
        let flows = links.iter().map(|l| l.sender.flows).sum::<f64>();
        let on_their_way = (self.there.len() + self.back.len()) as f64;
        let goes = match (scene.silent, scene.far_ends) {
            (false, _) => true,
            (true, true) => flows > 0.0,
            (true, false) => on_their_way < AWAITED * flows,
        };
        if random.unit() >= scene.loss.max(lost) && goes {
            let at = self.there.back().map_or(at, |p| at.max(p.at));
            self.there.push_back(Probe {
                sent: t,
                at,
                there: at - t,
            });
        }
    }

    /// Those at the far end by `t` turn back.
    pub(super) fn turn(
        &mut self,
        scene: &Scene,
        links: &PerDirection<Link>,
        t: f64,
        rtt: f64,
        random: &mut SplitMix64,
    ) {
        let down = &links.down;
        while let Some(p) = due(&mut self.there, t) {
            if p.at > scene.answers_until {
                continue;
            }
            let wait = down.waits() + serial(scene, down, random);
            let at =
                p.at + wait + way(scene, rtt, 1.0 - scene.wander_up) + random.unit() * scene.jitter;
            let lost = if down.has_room(scene.sides.down.buffer) {
                0.0
            } else {
                LOST_TOWARDS_US
            };
            if random.unit() >= scene.loss.max(lost) {
                let at = self.back.back().map_or(at, |b| at.max(b.at));
                self.back.push_back(Probe { at, ..p });
            }
        }
    }

    /// The next that is back by `t`.
    pub(super) fn back(&mut self, t: f64) -> Option<Probe> {
        due(&mut self.back, t)
    }
}

/// One way of a round trip that takes so long now, with this share of what it wanders by, s.
fn way(scene: &Scene, rtt: f64, share: f64) -> f64 {
    0.5 * scene.rtt + share * (rtt - scene.rtt)
}

/// A packet may be on the line when a probe comes, s.
fn serial(scene: &Scene, link: &Link, random: &mut SplitMix64) -> f64 {
    if link.sender.flows == 0.0 {
        return 0.0;
    }
    random.unit() * f64::from(scene.framing.wire_len(MTU)) / link.capacity
}

/// The first, if it is where it goes by `t`.
fn due(probes: &mut VecDeque<Probe>, t: f64) -> Option<Probe> {
    let is_due = probes.front().is_some_and(|p| p.at <= t);
    is_due.then(|| probes.pop_front()).flatten()
}
