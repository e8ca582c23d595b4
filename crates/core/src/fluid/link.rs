//! One direction of a line: its senders, our shaper and the bottleneck, in the order in which bytes
//! pass them (towards us the bottleneck comes first).
//!
//! Principles: bytes flow in steps; a queue is what came and did not leave. Non-goals: probes.

use std::collections::VecDeque;

use super::judge::{Happened, Judge};
use super::scene::{Load, MTU, STEP, Scene, stepped};
use super::sender::Sender;
use super::shaper::Shaper;
use crate::Direction;

/// What waits on average by the time that CoDel signals, beside its target, s.
const SIGNALLED: f64 = 0.020;
/// A sender's clock is as even as this, s.
const SMOOTH: f64 = 0.1;
/// Somebody else leaves us at least this share of the line.
const LEFT_TO_US: f64 = 0.05;

/// One direction.
#[derive(Debug, Clone)]
pub(super) struct Link {
    direction: Direction,
    /// Where in the scene's steps and loads it is.
    step: usize,
    load: usize,
    /// What the line carries, bytes/s.
    line: f64,
    /// What of that is ours: all of it, or the share of as many flows, bytes/s.
    pub capacity: f64,
    /// What waits at the bottleneck, bytes.
    pub queue: f64,
    /// The share of what comes that finds no room there.
    pub overflows: f64,
    /// What waits at our shaper, bytes.
    own: f64,
    /// What passed the bottleneck towards us and has not arrived yet, by steps, bytes/s.
    in_flight: VecDeque<f64>,
    pub sender: Sender,
    /// Somebody else's on the same line, whom nobody shapes, where in the scene's list they are, and what of the
    /// queue is theirs, bytes.
    others: Sender,
    other: usize,
    others_queue: f64,
    /// What they send, bytes/s.
    others_sent: f64,
    /// What is sent, bytes/s.
    sent: f64,
    /// What is acknowledged, and with it clocked out, bytes/s; the same on average.
    clocked: f64,
    average: f64,
    /// Bytes that our counters have seen.
    pub counted: f64,
    /// For so long the line was full in this load, s.
    full: f64,
    pub judge: Judge,
}

/// The round trip as a sender feels it, in a step.
pub(super) struct Felt {
    /// Without queues, s.
    pub rtt: f64,
    /// The queues of the line, s.
    pub queues: f64,
}

impl Link {
    pub(super) fn new(direction: Direction) -> Self {
        Link {
            direction,
            step: 0,
            load: 0,
            line: 1.0,
            capacity: 0.0,
            queue: 0.0,
            overflows: 0.0,
            own: 0.0,
            in_flight: VecDeque::new(),
            sender: Sender::default(),
            others: Sender::default(),
            other: 0,
            others_queue: 0.0,
            others_sent: 0.0,
            sent: 0.0,
            clocked: f64::MAX,
            average: 0.0,
            counted: 0.0,
            full: 0.0,
            judge: Judge::new(),
        }
    }

    /// What the line carries for us at `t`, and who sends.
    pub(super) fn begin(&mut self, scene: &Scene, t: f64, rtt: f64) -> Option<Load> {
        let line = scene.sides[self.direction].capacity_at(t, &mut self.step);
        let others = stepped(&scene.cross_traffic[self.direction], t);
        self.line = (line - others).max(LEFT_TO_US * line);
        let loads = &scene.loads[self.direction];
        while loads.get(self.load).is_some_and(|l| l.1 <= t) {
            self.load += 1;
        }
        let load = loads.get(self.load).copied().filter(|l| l.0 <= t);
        match load {
            Some(l) if self.sender.flows == 0.0 => {
                let packet = f64::from(scene.framing.wire_len(MTU));
                self.sender = Sender::begin(l.2, packet, rtt);
                self.full = 0.0;
            }
            None => self.sender = Sender::default(),
            Some(_) => {}
        }
        self.admit(scene, t, rtt);
        load
    }

    /// Who else sends at `t`.
    fn admit(&mut self, scene: &Scene, t: f64, rtt: f64) {
        let loads = &scene.competitors[self.direction];
        while loads.get(self.other).is_some_and(|l| l.1 <= t) {
            self.other += 1;
        }
        match loads.get(self.other).filter(|l| l.0 <= t) {
            Some(l) if self.others.flows == 0.0 => {
                let packet = f64::from(scene.framing.wire_len(MTU));
                self.others = Sender::begin(l.2, packet, rtt);
            }
            None => self.others = Sender::default(),
            Some(_) => {}
        }
        let all = self.sender.flows + self.others.flows;
        let share = if all > 0.0 {
            self.sender.flows / all
        } else {
            1.0
        };
        self.capacity = self.line * share.max(LEFT_TO_US);
    }

    /// How long what comes to the bottleneck now waits there, s.
    pub(super) fn waits(&self) -> f64 {
        (self.queue + self.others_queue) / self.line
    }

    /// Whether a buffer of so many bytes is not full.
    pub(super) fn has_room(&self, buffer: f64) -> bool {
        self.queue + self.others_queue < buffer * (1.0 - 1e-9)
    }

    /// What those send whom nobody shapes.
    fn compete(&mut self, t: f64, felt: &Felt) {
        self.others_sent = if self.others.flows > 0.0 {
            let clocked = if self.others_queue > 0.0 {
                self.line * self.others_queue / (self.queue + self.others_queue)
            } else {
                f64::MAX
            };
            self.others
                .step(t, felt.rtt + felt.queues, f64::MAX, clocked)
        } else {
            0.0
        };
    }

    /// What of ours leaves the bottleneck while so much comes, bytes/s: first come, first served.
    fn serve(&mut self, offered: f64) -> f64 {
        let ours = self.queue + offered * STEP;
        let all = ours + self.others_queue + self.others_sent * STEP;
        let served = (self.line * STEP / all.max(1e-9)).min(1.0);
        self.queue = ours * (1.0 - served);
        self.others_queue = (all - ours) * (1.0 - served);
        ours * served / STEP
    }

    /// A step of the bytes. `loaded`: somebody sends.
    pub(super) fn step(
        &mut self,
        scene: &Scene,
        t: f64,
        loaded: bool,
        felt: &Felt,
        shaper: &Shaper,
    ) {
        let rate = shaper.rate(self.direction);
        let round_trip = felt.rtt + felt.queues + self.own / rate;
        let offered = if loaded {
            self.send(t, felt.rtt, round_trip, shaper)
        } else {
            0.0
        };
        self.compete(t, felt);
        let (counted, arrived) = self.pass(offered, rate, felt.rtt);
        self.counted += counted * STEP;
        self.clock(rate, shaper.has_pulses(self.direction));
        let comes = counted + self.others_sent;
        self.overflows = (1.0 - self.line / comes.max(1.0)).clamp(0.0, 1.0);
        let buffer = scene.sides[self.direction].buffer;
        if self.queue + self.others_queue > buffer {
            let fits = buffer / (self.queue + self.others_queue);
            self.queue *= fits;
            self.others_queue *= fits;
            let waits = self.waits();
            self.sender.lose(t, round_trip, waits);
            self.others.lose(t, felt.rtt + felt.queues, waits);
        }
        let packet = f64::from(scene.framing.wire_len(MTU));
        self.signal(t, rate, round_trip, packet, shaper);
        self.judge.step(&Happened {
            loaded,
            passed: arrived,
            capacity: self.capacity,
            queue: self.waits() * self.capacity,
            granted: shaper.granted(self.direction),
            packet,
        });
    }

    /// What the senders offer, bytes/s.
    fn send(&mut self, t: f64, rtt: f64, round_trip: f64, shaper: &Shaper) -> f64 {
        let window = shaper.window(self.direction, rtt, round_trip);
        // A window closes over round trips.
        let closing = self.sent * (1.0 - STEP / (2.0 * round_trip));
        let limit = window.unwrap_or(f64::MAX).max(closing);
        self.sent = self.sender.step(t, round_trip, limit, self.clocked);
        if self.queue > 0.0 || self.own > 0.0 || self.sent >= limit {
            self.full += STEP;
        }
        self.sent
    }

    /// From us our shaper comes first, then the line; towards us the line, then our shaper. What our
    /// counters see, and what arrives, bytes/s.
    fn pass(&mut self, offered: f64, rate: f64, rtt: f64) -> (f64, f64) {
        match self.direction {
            Direction::Up => {
                let sent = through(&mut self.own, offered, rate);
                (sent, self.serve(sent))
            }
            Direction::Down => {
                let passed = self.serve(offered);
                self.in_flight.push_back(passed);
                let arrived = if self.in_flight.len() as f64 * STEP > rtt / 2.0 {
                    self.in_flight.pop_front().unwrap_or(0.0)
                } else {
                    0.0
                };
                let _ = through(&mut self.own, arrived, rate);
                (arrived, arrived)
            }
        }
    }

    /// What passes now is acknowledged later; where a queue stands it is the line's rate. A window
    /// does not follow pulses.
    fn clock(&mut self, rate: f64, pulses: bool) {
        let lets = self.capacity.min(rate);
        self.average += (lets - self.average) * STEP / SMOOTH;
        self.clocked = if self.queue == 0.0 && self.own == 0.0 {
            f64::MAX
        } else if pulses {
            lets.max(self.average)
        } else {
            lets
        };
    }

    /// Our shaper signals as CAKE does once more than its target waits in it; of each flow a packet
    /// may wait.
    fn signal(&mut self, t: f64, rate: f64, round_trip: f64, packet: f64, shaper: &Shaper) {
        let turns = packet * (self.sender.flows + 1.0);
        let target = shaper.target(self.direction);
        if rate < f64::MAX && self.own > (target * rate).max(turns) {
            let most = shaper.interval(self.direction) * rate;
            self.own = self.own.min(most.max(turns));
            self.sender.lose(t, round_trip, SIGNALLED);
        }
    }

    /// Whether a load ends in which the line must have become known.
    pub(super) fn ends(&self, load: Option<Load>, t: f64, rtt: f64) -> bool {
        load.is_some_and(|l| t + STEP >= l.1) && Judge::is_knowable(self.full, rtt)
    }
}

/// What leaves a queue that is served at `rate`, bytes/s.
fn through(waiting: &mut f64, offered: f64, rate: f64) -> f64 {
    let all = *waiting + offered * STEP;
    let out = all.min(rate * STEP);
    *waiting = all - out;
    out / STEP
}
