//! Lines, senders and shapers as fluids: thousands of lines for the controller, in little time.
//!
//! Bytes flow in steps of a millisecond: senders (`sender`), our shaper (`shaper`) and the bottleneck
//! of each direction (`link`), probes beside them (`probes`), and a judge who knows the truth
//! (`judge`).
//!
//! Principles: pure; everything random comes from the seed; the controller under test is the one
//! that runs gateways and sees only what it would see there, and what it wants becomes rates by the
//! code that sets them in the kernel. Non-goals: packets (`pipe`), being exact about any TCP (the
//! lab has real ones).

mod changes;
mod draw;
mod judge;
mod link;
mod probes;
mod scene;
mod sender;
mod shaper;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::control::{
    Action, Answered, Controller, Counted, OneWay, RttSample, Settings, TcpTimestamp,
};
use crate::pipe::SplitMix64;
use crate::{Direction, PerDirection};
use link::{Felt, Link};
use probes::{Probe, Probes};
use scene::{MTU, STEP, stepped};
use shaper::Shaper;

pub use changes::{Change, draw_change};
pub use draw::draw;
pub use judge::Judged;
pub use scene::{Load, Scene, Side};

/// Where connections lead.
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// The clock of the far side is ahead by so much, s.
const FAR_CLOCK: f64 = 37.123;
/// Time to set up, in which no change of rates counts as one on an idle line, s.
const SET_UP: f64 = 1.0;

fn duration(t: f64) -> Duration {
    Duration::from_secs_f64(t.max(0.0))
}

/// Runs the controller, which knows nothing, on a line. What it came to. `watch` sees each change
/// of rates.
pub fn run(scene: &Scene, watch: &mut dyn FnMut(f64, &Action)) -> PerDirection<Judged> {
    let mut world = World::new(scene);
    let steps = (scene.length / STEP) as u64;
    for n in 0..steps {
        let t = n as f64 * STEP;
        let rtt = scene.rtt + stepped(&scene.wander, t);
        world.flow(t, rtt);
        world.probe(t, rtt);
        world.answer(t, rtt);
        world.obey(t, watch);
    }
    world.links.map(|l| l.judge.judged())
}

/// A scene under way.
struct World<'a> {
    scene: &'a Scene,
    random: SplitMix64,
    controller: Controller,
    links: PerDirection<Link>,
    shaper: Shaper,
    probes: Probes,
    /// Between probes, and when the next one goes, s.
    pace: f64,
    next_probe: f64,
}

impl<'a> World<'a> {
    fn new(scene: &'a Scene) -> Self {
        let settings = Settings::new(PerDirection::default(), scene.framing, MTU);
        let mut controller = Controller::new(settings, Duration::ZERO);
        if let Some(rule) = scene.without {
            controller.leave_out(rule, Duration::ZERO);
        }
        World {
            scene,
            random: SplitMix64::new(scene.seed),
            controller,
            links: PerDirection::of(Link::new),
            shaper: Shaper::new(scene.framing, scene.windows),
            probes: Probes::default(),
            pace: 0.1,
            next_probe: 0.0,
        }
    }

    /// A step of all bytes.
    fn flow(&mut self, t: f64, rtt: f64) {
        let loads = PerDirection::of(|d| self.links[d].begin(self.scene, t, rtt));
        for direction in Direction::BOTH {
            let queues = self.links.iter().map(Link::waits);
            let felt = Felt {
                rtt,
                queues: queues.sum(),
            };
            let load = loads[direction];
            let link = &mut self.links[direction];
            link.step(self.scene, t, load.is_some(), &felt, &self.shaper);
            if link.ends(load, t, rtt) {
                let view = self.controller.view(duration(t));
                let known = match direction {
                    Direction::Up => view.up.capacity,
                    Direction::Down => view.down.capacity,
                };
                let known = known.map_or(0.0, |c| c.bps() as f64 / 8.0);
                link.judge.look(known / link.capacity);
            }
        }
    }

    fn count(&mut self, t: f64) {
        let counted = Counted {
            up: self.links.up.counted,
            down: self.links.down.counted,
            packets: None,
        };
        self.controller.counted(duration(t), counted);
    }

    /// Sends a probe if it is time.
    fn probe(&mut self, t: f64, rtt: f64) {
        if t < self.next_probe {
            return;
        }
        self.next_probe = t + self.pace;
        self.count(t);
        match (self.scene.silent, self.scene.far_ends) {
            (false, _) => self.controller.probed(duration(t)),
            (true, true) => self.controller.asked(duration(t)),
            (true, false) => {}
        }
        self.probes
            .send(self.scene, &self.links, t, rtt, &mut self.random);
    }

    /// A packet of a connection comes with each answer, as long as there are any.
    fn date(&mut self, p: &Probe, t: f64) {
        let flows: f64 = self.links.iter().map(|l| l.sender.flows).sum();
        if self.scene.dated && flows > 0.0 {
            let ms = (p.sent + p.there + FAR_CLOCK) * 1e3;
            let stamp = TcpTimestamp {
                remote: FAR,
                connection: 1,
                tsval: ms as u32,
                came: duration(p.at),
            };
            self.controller.tcp_timestamps(duration(t), &[stamp]);
        }
    }

    /// Brings what has come back to the controller.
    fn answer(&mut self, t: f64, rtt: f64) {
        self.probes
            .turn(self.scene, &self.links, t, rtt, &mut self.random);
        while let Some(p) = self.probes.back(t) {
            self.count(t);
            self.date(&p, t);
            if self.scene.silent {
                let sample = RttSample {
                    remote: FAR,
                    left: duration(p.sent),
                    waited: Duration::ZERO,
                    came: duration(p.at),
                };
                if self.scene.far_ends {
                    self.controller.echoed(duration(t), &[sample]);
                } else {
                    self.controller.passed(duration(t), &[sample]);
                }
                continue;
            }
            self.controller.answered(
                duration(t),
                Answered {
                    sent: duration(p.sent),
                    came: duration(p.at),
                    left_unseen: false,
                    one_way: self.scene.stamps.then(|| stamped(&p)),
                },
            );
        }
    }

    /// Does what the controller wants.
    fn obey(&mut self, t: f64, watch: &mut dyn FnMut(f64, &Action)) {
        while let Some(action) = self.controller.poll() {
            watch(t, &action);
            match action {
                Action::Shape { targets, .. } => {
                    let idle = self.links.iter().all(|l| l.sender.flows == 0.0) && t > SET_UP;
                    for direction in Direction::BOTH {
                        if idle && targets[direction] != self.shaper.targets[direction] {
                            self.links[direction].judge.changed_while_idle();
                        }
                    }
                    self.shaper.set(targets);
                }
                Action::Pace(p) => {
                    self.pace = p.as_secs_f64();
                    self.next_probe = self.next_probe.min(t + self.pace);
                }
                Action::Noticed(_) => {}
            }
        }
    }
}

/// One-way times by a far clock that shows whole milliseconds.
fn stamped(p: &Probe) -> OneWay {
    let arrived = ((p.sent + p.there + FAR_CLOCK) * 1000.0).floor() / 1000.0;
    OneWay {
        there: arrived - p.sent,
        back: p.at - arrived,
    }
}

#[cfg(test)]
mod tests;
