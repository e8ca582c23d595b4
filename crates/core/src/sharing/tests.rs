//! Hosts on one line as a fluid, each with a controller and a group of its own: what they come to
//! together. Bytes are those of greedy senders; a queue of the line is all that anybody sees.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::{DemandEstimator, Group, Heard, Own, Report, Said, TIERS};
use crate::control::{Action, Answered, Controller, Counted, Settings};
use crate::pipe::SplitMix64;
use crate::plan::Target;
use crate::{Direction, Framing, PerDirection, Rate};

const STEP: f64 = 0.001;
const RTT: f64 = 0.009;
/// The shaper stays so much below (`plan::Shaping::told`).
const SHAPED: f64 = 0.995;
/// From one report to the next.
const EACH: f64 = 0.1;

fn at(t: f64) -> Duration {
    Duration::from_secs_f64(t)
}

struct Host {
    controller: Controller,
    group: Group,
    estimator: DemandEstimator,
    id: u64,
    sent: f64,
    target: Option<Target>,
    bound: Option<Rate>,
    pace: f64,
    next_probe: f64,
    next_report: f64,
    answers: VecDeque<(f64, f64)>,
    demand: super::Demand,
    /// From when until when it sends.
    sends: (f64, f64),
    dies: f64,
    /// Without an evenkeel: it sends into the buffer.
    plain: bool,
    rate: f64,
}

impl Host {
    fn new(id: u64, sends: (f64, f64)) -> Self {
        let framing = Framing::new(crate::framing::Mode::None, 14, 0);
        let settings = Settings::new(PerDirection::default(), framing, 1500);
        Host {
            controller: Controller::new(settings, Duration::ZERO),
            group: Group::new(id, IpAddr::V4(Ipv4Addr::LOCALHOST)),
            estimator: DemandEstimator::default(),
            id,
            sent: 0.0,
            target: None,
            bound: None,
            pace: 0.1,
            next_probe: 0.001 * id as f64,
            next_report: 0.013 * id as f64,
            answers: VecDeque::new(),
            demand: super::Demand::default(),
            sends,
            dies: f64::MAX,
            plain: false,
            rate: 0.0,
        }
    }

    fn permille(&self) -> u32 {
        self.target.map_or(1000, |t| t.permille.min(1000))
    }

    fn count(&mut self, t: f64) {
        let permille = self.permille();
        let others = self.group.carried(at(t), Direction::Up, permille);
        let counted = Counted {
            up: self.sent + others,
            down: 0.0,
            packets: None,
        };
        self.controller.counted(at(t), counted);
    }

    fn obey(&mut self, t: f64) {
        while let Some(action) = self.controller.poll() {
            match action {
                Action::Shape { targets, .. } => {
                    self.target = targets.up;
                }
                Action::Pace(p) => self.pace = p.as_secs_f64(),
                Action::Noticed(_) => {}
            }
        }
        let known = self.controller.view(at(t)).up.capacity;
        self.bound = self.target.map(|t| {
            if t.opening.is_some() {
                self.group.believe(Direction::Up, t.capacity.permille(8000));
                return t.capacity;
            }
            let own = Own {
                capacity: known.unwrap_or(t.capacity),
                level: t.capacity,
                demand: self.demand,
                has_stranger: self.controller.competes(Direction::Up),
            };
            let share = self.group.share(Direction::Up, &own);
            share.unwrap_or(t.capacity)
        });
    }

    /// bytes/s that it sends now.
    fn sends(&self, t: f64) -> f64 {
        if t < self.sends.0 || t >= self.sends.1 {
            return 0.0;
        }
        let Some(bound) = self.bound else { return 5e6 };
        bound.bps() as f64 / 8.0 * f64::from(self.permille()) / 1e3 * SHAPED
    }
}

struct World {
    hosts: Vec<Host>,
    capacity: f64,
    buffer: f64,
    queue: f64,
    random: SplitMix64,
    lost: f64,
    lies: Option<u64>,
    /// So many hosts, the first of them, and the others do not hear one another.
    split: usize,
}

/// What it came to over a time.
#[derive(Debug)]
#[allow(dead_code, reason = "is printed where it is not as it should be")]
struct Seen {
    queue_ms: f64,
    used: f64,
    shares: Vec<f64>,
    jain: f64,
}

impl World {
    fn new(capacity: f64, hosts: Vec<Host>) -> Self {
        World {
            hosts,
            capacity,
            buffer: 0.16 * capacity,
            queue: 0.0,
            random: SplitMix64::new(7),
            lost: 0.0,
            lies: None,
            split: 0,
        }
    }

    fn run(&mut self, from: f64, until: f64) -> Seen {
        let steps = ((until - from) / STEP) as u64;
        let (mut sum, mut left) = (0.0, 0.0);
        let mut got = vec![0.0; self.hosts.len()];
        for n in 0..steps {
            let t = from + n as f64 * STEP;
            let mut rates: Vec<f64> = self.hosts.iter().map(|h| h.sends(t)).collect();
            for (h, r) in self.hosts.iter_mut().zip(&mut rates) {
                if h.plain && t >= h.sends.0 && t < h.sends.1 {
                    *r = h.rate;
                }
                if h.dies <= t {
                    *r = 0.0;
                }
            }
            let all: f64 = rates.iter().sum();
            let before = self.queue;
            self.queue = (self.queue + (all - self.capacity) * STEP).clamp(0.0, self.buffer);
            let out = (all * STEP + before - self.queue).min(self.capacity * STEP);
            left += out;
            let full = self.queue >= self.buffer - 1.0;
            for ((h, r), g) in self.hosts.iter_mut().zip(&rates).zip(&mut got) {
                let part = r / all.max(1.0);
                *g += out * part;
                h.sent += r * STEP;
                if h.plain {
                    // A TCP of sorts.
                    h.rate = if full && self.random.unit() < 0.05 {
                        0.7 * h.rate
                    } else {
                        h.rate + 0.02 * self.capacity * STEP
                    };
                }
            }
            sum += self.queue / self.capacity;
            self.control(t, &rates);
        }
        let seconds = steps as f64 * STEP;
        let shares: Vec<f64> = got.iter().map(|g| g / seconds / self.capacity).collect();
        let active: Vec<f64> = shares.iter().copied().filter(|s| *s > 0.0).collect();
        let square = active.iter().sum::<f64>().powi(2);
        let squares = active.iter().map(|s| s * s).sum::<f64>();
        Seen {
            queue_ms: 1e3 * sum / steps as f64,
            used: left / seconds / self.capacity,
            jain: square / squares / active.len() as f64,
            shares,
        }
    }

    fn control(&mut self, t: f64, rates: &[f64]) {
        let mut reports = Vec::new();
        for (i, h) in self.hosts.iter_mut().enumerate() {
            if h.plain || h.dies <= t {
                continue;
            }
            if t >= h.next_probe {
                h.next_probe = t + h.pace;
                h.count(t);
                h.controller.probed(at(t));
                let wait = RTT + self.queue / self.capacity + 0.0003 * self.random.unit();
                h.answers.push_back((t, t + wait));
            }
            while h.answers.front().is_some_and(|a| a.1 <= t) {
                let (sent, came) = h.answers.pop_front().unwrap();
                h.count(t);
                let answered = Answered {
                    sent: at(sent),
                    came: at(came),
                    left_unseen: false,
                    one_way: None,
                };
                h.controller.answered(at(t), answered);
            }
            h.obey(t);
            let waits = if t >= h.sends.0 && t < h.sends.1 {
                20
            } else {
                0
            };
            let sent = [0.0, 0.0, h.sent, 0.0];
            let bound = h.bound;
            h.estimator
                .look(at(t), sent, bound, Duration::from_millis(waits));
            let loads = rates[i] > 0.0 || h.sends.1 + 1.0 > t && t >= h.sends.0;
            if t >= h.next_report && loads {
                h.next_report = t + EACH;
                let view = h.controller.view(at(t));
                if let Some(middle) = h.group.capacity(Direction::Up, view.up.capacity) {
                    h.controller.agree(at(t), Direction::Up, middle);
                }
                h.obey(t);
                h.demand = h.estimator.demand();
                let view = h.controller.view(at(t));
                reports.push((
                    i,
                    report(h.id, t, view.up.capacity, h.sent, h.permille(), h.demand),
                ));
            }
        }
        if let Some(seed) = &mut self.lies
            && ((t * 1e3) as u64).is_multiple_of(10)
        {
            *seed += 1;
            let mut lie = report(
                9999 + *seed % 3,
                t,
                Some(Rate::from_kbit(64)),
                t * 1e9,
                1,
                super::Demand([Rate::MAX; TIERS]),
            );
            if seed.is_multiple_of(2) {
                lie.said.up.capacity = Some(Rate::from_kbit(64_000_000));
            }
            reports.push((200, lie));
        }
        self.deliver(reports, t, rates);
    }

    /// Who hears what, and what follows.
    fn deliver(&mut self, reports: Vec<(usize, Report)>, t: f64, rates: &[f64]) {
        for (from, r) in reports {
            let address = IpAddr::V4(Ipv4Addr::new(192, 168, 0, from as u8));
            let split = self.split;
            let hosts = self.hosts.iter_mut().enumerate();
            for (i, h) in hosts.filter(|(_, h)| !h.plain) {
                let is_near = (i < split) == (from < split);
                let is_heard = is_near && self.random.unit() >= self.lost;
                if is_heard && h.group.hear(at(t), at(t), address, r) == Heard::Counted {
                    let own = Rate::from_bps((8.0 * rates[i]) as u64);
                    let together = own.bps() + h.group.rate(Direction::Up).bps();
                    h.controller
                        .met(at(t), Direction::Up, Rate::from_bps(together));
                }
                h.group.forget(at(t));
                let has_newcomer = h.group.has_newcomer(at(t));
                h.controller.probed_by(at(t), h.group.hosts(), has_newcomer);
            }
        }
    }
}

fn report(
    id: u64,
    t: f64,
    capacity: Option<Rate>,
    sent: f64,
    permille: u32,
    demand: super::Demand,
) -> Report {
    let up = Said {
        capacity,
        carried: sent as u64,
        permille: permille as u16,
        demand,
    };
    Report {
        id,
        clock_us: (t * 1e6) as u64 + 1,
        wall_ms: (t * 1e3) as u64,
        is_gateway: false,
        said: PerDirection {
            up,
            down: Said::default(),
        },
    }
}

const VDSL: f64 = 5e6;
const ADSL: f64 = 125_000.0;

fn uploads(n: u64) -> Vec<Host> {
    let hosts = (1..=n).map(|i| Host::new(i, (1.0, f64::MAX)));
    hosts.collect()
}

#[test]
fn hosts_share_a_line_and_leave_no_queue() {
    for (capacity, queue_ms) in [(VDSL, 1.0), (ADSL, 10.0)] {
        for n in [2, 4, 8] {
            let mut w = World::new(capacity, uploads(n));
            w.run(0.0, 8.0);
            let seen = w.run(8.0, 30.0);
            assert!(seen.queue_ms < queue_ms, "{n}: {seen:?}");
            assert!(seen.used > 0.96 && seen.jain > 0.99, "{n}: {seen:?}");
        }
    }
}

#[test]
fn who_comes_and_goes_is_noticed_within_a_second() {
    for n in [2u64, 4, 8] {
        let mut hosts = uploads(n);
        hosts[0].sends = (12.0, 20.0);
        hosts[n as usize - 1].dies = 25.0;
        let mut w = World::new(VDSL, hosts);
        w.run(0.0, 12.0);
        w.run(12.0, 13.0);
        let joined = w.run(13.0, 20.0);
        assert!(joined.jain > 0.99 && joined.used > 0.95, "{n}: {joined:?}");
        assert!(joined.queue_ms < 4.0, "{n}: {joined:?}");
        for until in [25.0, 30.0] {
            w.run(until - 5.0, until - 4.0);
            let after = w.run(until - 4.0, until);
            // Who is alone and dies leaves nobody.
            if n > 2 || until < 30.0 {
                assert!(after.jain > 0.99 && after.used > 0.9, "{n}: {after:?}");
                assert!(after.queue_ms < 4.0, "{n}: {after:?}");
            }
        }
    }
}

#[test]
fn reports_get_lost() {
    for n in [2u64, 4, 8] {
        let mut w = World::new(VDSL, uploads(n));
        w.lost = 0.3;
        w.run(0.0, 10.0);
        let seen = w.run(10.0, 30.0);
        assert!(seen.queue_ms < 25.0, "{n}: {seen:?}");
        assert!(seen.used > 0.95 && seen.jain > 0.99, "{n}: {seen:?}");
    }
}

/// Two halves that do not hear one another take the line for what the others leave of it; whole again it is whole.
#[test]
fn a_split_lan_heals() {
    for n in [2u64, 4, 8] {
        let mut w = World::new(VDSL, uploads(n));
        w.run(0.0, 10.0);
        w.split = n as usize / 2;
        w.run(10.0, 16.0);
        w.split = 0;
        w.run(16.0, 16.5);
        let seen = w.run(16.5, 18.0);
        assert!(seen.used > 0.9 && seen.jain > 0.97, "{n}: {seen:?}");
        assert!(seen.queue_ms < 10.0, "{n}: {seen:?}");
    }
}

/// A host that lies takes no share from others, though it can make a queue.
#[test]
fn reports_lie() {
    for n in [2u64, 4, 8] {
        let mut w = World::new(VDSL, uploads(n));
        w.run(0.0, 10.0);
        w.lies = Some(1);
        for from in [10.0, 12.0, 14.0, 16.0, 18.0] {
            let seen = w.run(from, from + 2.0);
            let half = 0.5 / (n + 1) as f64;
            assert!(
                seen.shares.iter().all(|s| *s > half),
                "{n} {from}: {seen:?}"
            );
        }
    }
}

/// A sender into the buffer makes a queue, and is left a part.
#[test]
fn a_host_without() {
    for n in [2u64, 4, 8] {
        let mut hosts = uploads(n);
        let mut plain = Host::new(99, (10.0, f64::MAX));
        plain.plain = true;
        hosts.push(plain);
        let mut w = World::new(VDSL, hosts);
        w.run(0.0, 10.0);
        let seen = w.run(10.0, 40.0);
        let fair = 1.0 / (n + 1) as f64;
        assert!(seen.shares.iter().all(|s| *s > 0.4 * fair), "{n}: {seen:?}");
    }
}
