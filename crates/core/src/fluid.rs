//! Lines, senders and shapers as fluids: thousands of lines for the controller, in little time.
//!
//! Bytes flow in steps of a millisecond or two; a queue is what came and did not leave. Senders
//! are TCP in outline: they double each round trip until something is lost, then yield 30 % at
//! each loss and come back within a second or some round trips. Our own shaper signals as CAKE
//! does once 5 ms wait in it.
//!
//! Principles: pure; everything random comes from the seed; the controller under test is the one
//! that runs gateways and sees only what it would see there. Non-goals: packets (`pipe`), being
//! exact about any TCP (the lab has real ones).

mod draw;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::control::{Action, Answered, Bounds, Controller, Counted};
use crate::control::{OneWay, Settings, Target, Trip};
use crate::framing::Framing;
use crate::pipe::SplitMix64;

pub use draw::draw;

/// From one step to the next.
const STEP: f64 = 0.001;
/// Full packets, bytes of IP.
const MTU: u32 = 1500;
/// A sender's yield at a loss.
const YIELD: f64 = 0.7;
/// What waits there on average by then: CoDel bears more for an interval, s.
const SIGNALLED: f64 = 0.020;
/// How far above the capacity of a restless line the shaper for arrivals is.
const DISTANT: f64 = 1.5;
/// Where connections lead.
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// What waits in our shaper before it signals, s.
const TARGET: f64 = 0.005;
/// The same where pulses are sent, beside so many times what round trips may take longer.
const PATIENT: f64 = 10.0;
/// A sender's clock is as even as this, s.
const SMOOTH: f64 = 0.1;

/// One direction of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Bytes per second from each time on, s; the first is at 0.
    pub capacity: Vec<(f64, f64)>,
    /// What fits into the buffer, bytes.
    pub buffer: f64,
}

impl Side {
    fn capacity_at(&self, t: f64, hint: &mut usize) -> f64 {
        while self.capacity.get(*hint + 1).is_some_and(|s| s.0 <= t) {
            *hint += 1;
        }
        self.capacity.get(*hint).map_or(1.0, |s| s.1)
    }
}

/// A line and what happens on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// From us, and towards us.
    pub sides: [Side; 2],
    /// Base round trip, s.
    pub rtt: f64,
    /// Each way takes up to this much longer, s.
    pub jitter: f64,
    /// Share of probes and packets lost.
    pub loss: f64,
    /// The round trip grows by so much from each time on, s.
    pub wander: Vec<(f64, f64)>,
    /// Bytes per second that somebody else on the line takes, from each time on.
    pub others: [Vec<(f64, f64)>; 2],
    /// How packets are framed.
    pub framing: Framing,
    /// The far side stamps probes.
    pub stamps: bool,
    /// Nothing answers probes: only connections that pass show their round trips.
    pub silent: bool,
    /// Receive windows bound the downloads.
    pub windows: bool,
    /// When each direction is loaded: from, to, flows.
    pub loads: [Vec<(f64, f64, u32)>; 2],
    /// How long, s.
    pub length: f64,
    /// Of jitter and loss.
    pub seed: u64,
}

/// What came of it, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Judged {
    /// Ends of loads in which the line was full for long enough to be known: a queue stood at it
    /// or at us, or receive windows kept one from standing, for 3 s and ten round trips in all.
    pub looks: u32,
    /// Of these, how often the capacity was within 5 % of the truth.
    pub right: u32,
    /// The worst of them, as a share of the truth.
    pub worst: f64,
    /// Longest time below half the truth while loaded, s.
    pub starved: f64,
    /// Longest time over a queue of 50 ms or three packets, s.
    pub queued: f64,
    /// Bytes that passed while loaded, and what the line could have carried.
    pub passed: f64,
    /// The latter.
    pub possible: f64,
    /// Mean queue while loaded, s.
    pub queue: f64,
    /// Changes of the rate while nothing was loaded.
    pub idle_changes: u32,
}

#[derive(Debug, Clone, Default)]
struct Sender {
    rate: f64,
    /// Where it was when it last lost something; 0: never, it doubles.
    top: f64,
    /// A loss is heard of at this time, and the share of the rate that then remains.
    told: Option<(f64, f64)>,
    flows: f64,
}

impl Sender {
    /// `passed`: what is acknowledged, and with it clocked out.
    fn step(&mut self, t: f64, dt: f64, rtt: f64, limited: f64, passed: f64) -> f64 {
        if let Some((at, remains)) = self.told
            && t >= at
        {
            self.told = None;
            self.top = self.rate.min(passed);
            self.rate = self.top * remains;
        }
        let least = self.flows * f64::from(MTU) / rtt;
        // A window of data does not grow while the receiver's is the smaller one, and is still
        // there when that opens.
        if self.rate < limited {
            if self.top == 0.0 {
                self.rate += self.rate * dt / rtt * std::f64::consts::LN_2;
            } else {
                let back = (1.0f64).max(10.0 * rtt);
                self.rate += 0.3 * self.top * dt / back;
            }
        }
        self.rate = self.rate.min(2.0 * passed.max(least)).max(least);
        self.rate.min(limited)
    }

    /// `queued`: for so long a window's worth waits; to yield shortens that wait first.
    fn lose(&mut self, t: f64, rtt: f64, queued: f64) {
        if self.told.is_none() {
            let base = (rtt - queued).max(1e-3);
            self.told = Some((t + rtt, (YIELD * rtt / base).min(0.98)));
        }
    }
}

/// A probe under way.
#[derive(Debug, Clone, Copy)]
struct Flying {
    sent: f64,
    /// When it is at the far end, or back.
    at: f64,
    there: f64,
}

fn stepped(steps: &[(f64, f64)], t: f64) -> f64 {
    let past = steps.partition_point(|s| s.0 <= t);
    past.checked_sub(1)
        .and_then(|i| steps.get(i))
        .map_or(0.0, |s| s.1)
}

fn duration(t: f64) -> Duration {
    Duration::from_secs_f64(t.max(0.0))
}

/// Runs the controller, which knows nothing, on a line. What it came to: from us, towards us.
/// `watch` sees each change of rates.
pub fn run(scene: &Scene, watch: &mut dyn FnMut(f64, &Action)) -> [Judged; 2] {
    let mut random = SplitMix64::new(scene.seed);
    let packet = f64::from(scene.framing.wire_len(MTU));
    let settings = Settings {
        up: Bounds::default(),
        down: Bounds::default(),
        packet: scene.framing.wire_len(MTU),
        probe: scene.framing.wire_len(60),
    };
    let mut controller = Controller::new(settings, Duration::ZERO);
    let mut judged = [Judged {
        worst: 1.0,
        ..Judged::default()
    }; 2];
    let mut hint = [0; 2];
    let mut queue = [0.0; 2];
    let mut own = [0.0; 2];
    // What passed the line towards us and has not arrived yet, by steps.
    let mut flying = VecDeque::new();
    let mut clocked = [f64::MAX; 2];
    let mut average = [0.0; 2];
    let mut full = [0.0; 2];
    let mut sent = [0.0; 2];
    let mut senders = [Sender::default(), Sender::default()];
    let mut counted = [0.0; 2];
    let mut shaped: [Option<Target>; 2] = [None, None];
    let (mut there, mut back): (VecDeque<Flying>, VecDeque<Flying>) = Default::default();
    let mut pace = 0.1;
    let mut next_probe = 0.0;
    let (mut starved, mut over) = ([0.0; 2], [0.0; 2]);
    // In this load: how long the line was full.
    let mut stood = [0.0; 2];
    let mut which = [0usize; 2];
    let clock = 37.123;
    let steps = (scene.length / STEP) as u64;
    for n in 0..steps {
        let t = n as f64 * STEP;
        let wander = stepped(&scene.wander, t);
        let rtt = scene.rtt + wander;
        let mut capacities = [0.0; 2];
        for i in 0..2 {
            let side = &scene.sides[i];
            let line = side.capacity_at(t, &mut hint[i]);
            let capacity = (line - stepped(&scene.others[i], t)).max(0.05 * line);
            capacities[i] = capacity;
            // Loads.
            let loads = &scene.loads[i];
            while loads.get(which[i]).is_some_and(|l| l.1 <= t) {
                which[i] += 1;
            }
            let load = loads.get(which[i]).filter(|l| l.0 <= t);
            let sender = &mut senders[i];
            match load {
                Some(l) if sender.flows == 0.0 => {
                    *sender = Sender {
                        rate: f64::from(l.2) * 10.0 * packet / rtt,
                        flows: f64::from(l.2),
                        ..Sender::default()
                    };
                    stood[i] = 0.0;
                }
                None => *sender = Sender::default(),
                _ => {}
            }
            let wanted = shaped[i].map_or(f64::MAX, |s| {
                s.capacity.bps() as f64 / 8.0 * f64::from(s.permille) / 1000.0
            });
            let set = match shaped[i] {
                _ if i == 0 => 0.995 * wanted,
                // A distant net where windows hold, as `run` sets it up.
                Some(s) if s.restless && scene.windows => DISTANT * s.capacity.bps() as f64 / 8.0,
                _ => 0.999 * wanted,
            };
            let felt = rtt + queue[0] / capacities[0].max(1.0) + queue[1] / capacity + own[i] / set;
            if load.is_some() {
                let limit = match shaped[i] {
                    Some(s) if i == 1 && scene.windows => {
                        // Round trips may be a little longer before a window shrinks.
                        let slack = rtt + f64::from(s.slack_us) * 1e-6;
                        0.998 * wanted * (slack / felt).max(1.0)
                    }
                    _ => f64::MAX,
                };
                // A window closes over round trips.
                let limit = limit.max(sent[i] * (1.0 - STEP / (2.0 * felt)));
                sent[i] = sender.step(t, STEP, felt, limit, clocked[i]);
                if queue[i] > 0.0 || own[i] > 0.0 || sent[i] >= limit {
                    stood[i] += STEP;
                }
            }
            let offered = if load.is_some() { sent[i] } else { 0.0 };
            // From us: our shaper, then the line. Towards us: the line, then our shaper.
            let through = |waiting: &mut f64, offered: f64, rate: f64| {
                let all = *waiting + offered * STEP;
                let out = all.min(rate * STEP);
                *waiting = all - out;
                out / STEP
            };
            let (first, second) = if i == 0 {
                let sent = through(&mut own[i], offered, set);
                let out = through(&mut queue[i], sent, capacity);
                (sent, out)
            } else {
                flying.push_back(through(&mut queue[i], offered, capacity));
                let arrived = if flying.len() as f64 * STEP > rtt / 2.0 {
                    flying.pop_front().unwrap_or(0.0)
                } else {
                    0.0
                };
                let _ = through(&mut own[i], arrived, set);
                (arrived, arrived)
            };
            counted[i] += first * STEP;
            // What passes now is acknowledged later; where a queue stands it is the line's rate. A
            // window does not follow pulses.
            let lets = capacity.min(set);
            average[i] += (lets - average[i]) * STEP / SMOOTH;
            let pulses = shaped[i].is_some_and(|s| s.pulses);
            clocked[i] = if queue[i] == 0.0 && own[i] == 0.0 {
                f64::MAX
            } else if pulses {
                lets.max(average[i])
            } else {
                lets
            };
            full[i] = (1.0 - capacity / first.max(1.0)).clamp(0.0, 1.0);
            if queue[i] > side.buffer {
                queue[i] = side.buffer;
                sender.lose(t, felt, queue[i] / capacity);
            }
            // Of each flow a packet may wait.
            let turns = packet * (sender.flows + 1.0);
            // `run` makes CAKE patient there.
            let target = match shaped[i] {
                Some(s) if s.pulses => TARGET + PATIENT * f64::from(s.slack_us) * 1e-6,
                _ => TARGET,
            };
            if set < f64::MAX && own[i] > (target * set).max(turns) {
                own[i] = own[i].min(((0.1f64).max(target) * set).max(turns));
                sender.lose(t, felt, SIGNALLED);
            }
            // Judging.
            let j = &mut judged[i];
            if load.is_some() {
                j.passed += second * STEP;
                j.possible += capacity * STEP;
                j.queue += queue[i] / capacity * STEP;
                if wanted < 0.5 * capacity {
                    starved[i] += STEP;
                } else {
                    starved[i] = 0.0;
                }
                j.starved = j.starved.max(starved[i]);
            } else {
                starved[i] = 0.0;
            }
            if queue[i] > (0.05 * capacity).max(3.0 * packet) {
                over[i] += STEP;
            } else {
                over[i] = 0.0;
            }
            j.queued = j.queued.max(over[i]);
            if let Some(l) = load
                && t + STEP >= l.1
                && stood[i] > (10.0 * scene.rtt).max(3.0)
            {
                j.looks += 1;
                let view = controller.view(duration(t));
                let known = [view.up, view.down][i].capacity;
                let known = known.map_or(0.0, |c| c.bps() as f64 / 8.0);
                let share = known / capacity;
                if (share - 1.0).abs() <= 0.05 {
                    j.right += 1;
                }
                if (share - 1.0).abs() > (j.worst - 1.0).abs() {
                    j.worst = share;
                }
            }
        }
        // Probes.
        if t >= next_probe {
            next_probe = t + pace;
            controller.counted(
                duration(t),
                Counted {
                    up: counted[0],
                    down: counted[1],
                },
            );
            if !scene.silent {
                controller.probed(duration(t));
            }
            let serial = if senders[0].flows > 0.0 {
                random.unit() * packet / capacities[0]
            } else {
                0.0
            };
            let exit = t + queue[0] / capacities[0] + serial;
            let at = exit + rtt / 2.0 + random.unit() * scene.jitter;
            let gone = if queue[0] < scene.sides[0].buffer {
                0.0
            } else {
                full[0]
            };
            // Of each connection one round trip at a time is followed.
            let flows = senders.iter().map(|s| s.flows).sum::<f64>();
            let under_way = (there.len() + back.len()) as f64;
            let goes = !scene.silent || under_way < flows;
            if random.unit() >= scene.loss.max(gone) && goes {
                let at = there.back().map_or(at, |f: &Flying| at.max(f.at));
                there.push_back(Flying {
                    sent: t,
                    at,
                    there: at - t,
                });
            }
        }
        while there.front().is_some_and(|f| f.at <= t) {
            let Some(f) = there.pop_front() else { break };
            let serial = if senders[1].flows > 0.0 {
                random.unit() * packet / capacities[1]
            } else {
                0.0
            };
            let wait = queue[1] / capacities[1] + serial;
            let at = f.at + wait + rtt / 2.0 + random.unit() * scene.jitter;
            let gone = if queue[1] < scene.sides[1].buffer {
                0.0
            } else {
                0.3
            };
            if random.unit() >= scene.loss.max(gone) {
                let at = back.back().map_or(at, |b: &Flying| at.max(b.at));
                back.push_back(Flying { at, ..f });
            }
        }
        while back.front().is_some_and(|f| f.at <= t) {
            let Some(f) = back.pop_front() else { break };
            controller.counted(
                duration(t),
                Counted {
                    up: counted[0],
                    down: counted[1],
                },
            );
            let ms = |v: f64| (v * 1000.0).floor() / 1000.0;
            let one_way = scene.stamps.then(|| {
                let arrived = ms(f.sent + f.there + clock);
                OneWay {
                    there: arrived - f.sent,
                    back: f.at - arrived,
                }
            });
            if scene.silent {
                let trip = Trip {
                    remote: FAR,
                    left: duration(f.sent),
                    waited: Duration::ZERO,
                    came: duration(f.at),
                };
                controller.passed(duration(t), &[trip]);
                continue;
            }
            controller.answered(
                duration(t),
                Answered {
                    sent: duration(f.sent),
                    came: duration(f.at),
                    one_way,
                },
            );
        }
        while let Some(action) = controller.poll() {
            watch(t, &action);
            match action {
                Action::Shape { down, up, .. } => {
                    for (i, new) in [up, down].into_iter().enumerate() {
                        let idle = senders.iter().all(|s| s.flows == 0.0) && t > 1.0;
                        if idle && new != shaped[i] {
                            judged[i].idle_changes += 1;
                        }
                        shaped[i] = new;
                    }
                }
                Action::Pace(p) => {
                    pace = p.as_secs_f64();
                    next_probe = next_probe.min(t + pace);
                }
                Action::Noticed(_) => {}
            }
        }
    }
    judged
}

#[cfg(test)]
mod tests;
