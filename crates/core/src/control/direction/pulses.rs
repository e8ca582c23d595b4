//! Pulses: how a line that never settles is followed in what we send.
//!
//! For some probes a little more is sent than the line is thought to carry, then a little less. At
//! the end of the first a short queue stands, and the bytes that were sent over the time they took
//! to leave are what the line carries now; where none stands it carries more than was sent. So
//! both are known within a round trip and no queue has to be kept for it.
//!
//! Principles: a look at each pulse, none at what lies between; on average less is sent than the
//! line carries, and still less while something waits; what stays whatever is sent is not ours.
//! Non-goals: lines that do settle, directions that cannot be told apart (`drain`, `probing_up`).

use std::collections::VecDeque;

use super::{Context, DirectionState, Outcome, Phase};
use crate::Direction;
use crate::control::rate_fit::Point;
use crate::control::{Reason, Rule};

/// How much more and less than on average is sent by turns, as a share.
const SWING: f64 = 0.3;
/// On average so much of what the line carries, and at most so much more while nothing waits.
const MEAN: f64 = 0.95;
const MORE: f64 = 0.1;
/// At least so much of it, and a packet in so long, s.
const LEAST: f64 = 0.1;
const PACKET: f64 = 0.04;
/// What may wait behind a packet before less is sent, and beyond that what makes it nothing, s, or a packet.
const WAITS: f64 = 0.010;
const TOO_LONG: f64 = 0.030;
/// A pulse is of so many packets at least.
const PACKETS: f64 = 2.0;
/// A line that changed this much of late, or whose delays wander, is followed by pulses.
const OFTEN: f64 = 0.6;
/// What a look is compared with: how far the line may have gone since the last one, as a share.
const WALKS: f64 = 0.15;
/// A single look moves it at most so far, e-folds.
const FARTHEST: f64 = 1.5;
/// From this on it is another line, e-folds.
const ANOTHER: f64 = 0.3;
/// A pulse is one if so much of it was sent, as a share.
const FILLS: f64 = 0.7;
/// While less than this share of what may be sent is, nothing is learned. For so long that does
/// not matter, s.
const USED: f64 = 0.6;
const PAUSE: f64 = 0.5;
/// Without answers for so long there is nothing to follow, s.
const HEARD: f64 = 1.0;
/// What stands for longer than this, s, is not ours if so many times its length, or so many times this, should have gone,
/// and less than this share of it has.
const STAYS: f64 = 0.4;
const OUTLASTS: f64 = 1.5;
const FOLLOWS: f64 = 0.5;

/// The rhythm, and what was heard of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Pulses {
    /// More is sent at present, since.
    high: bool,
    turned: f64,
    /// Turns that no answer has told of yet, and what may be sent from each on.
    turns: VecDeque<(f64, f64)>,
    /// The probe at the latest one that was told of, and what could be sent since.
    from: Option<(Point, f64)>,
    /// When so much was sent that something can be learned.
    busy: Option<f64>,
    /// What the line was when it was last another one.
    was: f64,
    /// What the line was thought to carry when nothing stood last.
    free: f64,
    /// Something stands.
    stands: Option<Standing>,
}

/// A queue that should become shorter, as less is sent than the line is thought to carry.
#[derive(Debug, Clone, Copy)]
struct Standing {
    /// Since then; how long it was, and at least since; what the line was thought to carry before.
    since: f64,
    first: f64,
    least: f64,
    carried: f64,
    /// By how much it should have become shorter, s, until then.
    fall: f64,
    until: f64,
}

impl Standing {
    /// It did not become shorter as it should have.
    fn is_not_ours(&self, queue: f64, wander: f64) -> bool {
        let fell = self.first - queue;
        self.until - self.since > STAYS
            && self.fall > OUTLASTS * self.first.min(STAYS) + wander
            && fell < FOLLOWS * self.first.min(self.fall)
    }
}

/// How long a pulse lasts, s: so long that what is sent beyond the line's rate makes a queue of twice what two probes differ by
/// without one, and at least [`PACKETS`].
fn pulse_lasts(capacity: f64, context: &Context) -> f64 {
    let shows = 2.0 * context.apart / SWING;
    shows.max(PACKETS * context.packet / capacity)
}

/// From so much on, s, what a probe waits longer at the end of a pulse than at its beginning is a queue: half of what the pulse
/// makes. Over a longer pulse delays also wander further by themselves (decision 0142).
fn pulse_shows(capacity: f64, context: &Context) -> f64 {
    0.5 * SWING * pulse_lasts(capacity, context)
}

impl DirectionState {
    /// Whether it is followed by pulses.
    pub(in crate::control) fn has_pulses(&self, context: &Context) -> bool {
        let within = |at: f64, time: f64| context.now - at < time;
        self.dir == Direction::Up
            && self.has(Rule::Pulses)
            && self.is_attributed
            && context.probed
            && self.capacity.is_some()
            && !self.is_contested()
            && (self.wanders || self.volatility(context.now) > OFTEN)
            && self.pulses.busy.is_some_and(|at| within(at, PAUSE))
            && self.latest.is_some_and(|p| within(p.came, HEARD))
    }

    /// A probe is sent: the time to turn from more to less or back. `sends`: more than
    /// acknowledgements.
    pub(in crate::control) fn beat(&mut self, context: &Context, sends: bool) {
        let Some((capacity, _)) = self.capacity else {
            return;
        };
        let granted = self.has_pulses(context).then(|| self.mean(context));
        if sends && self.used(capacity, context) > USED * granted.unwrap_or(1.0) {
            self.pulses.busy = Some(context.now);
        }
        if !self.has_pulses(context) {
            self.pulses = Pulses {
                busy: self.pulses.busy,
                ..Pulses::default()
            };
            return;
        }
        let lasts = pulse_lasts(capacity, context);
        let pulses = &mut self.pulses;
        if context.now - pulses.turned > lasts - 0.5 * context.pace {
            pulses.high = !pulses.high;
            pulses.turned = context.now;
            let rate = capacity * self.pulse(capacity, context);
            self.pulses.turns.push_back((context.now, rate));
        }
    }

    /// What is sent now, as a share of what the line carries.
    pub(super) fn pulse(&self, capacity: f64, context: &Context) -> f64 {
        let swing = if self.pulses.high { SWING } else { -SWING };
        let share = self.mean(context) * (1.0 + swing);
        share.min(self.most / capacity)
    }

    /// The same without the swing.
    fn mean(&self, context: &Context) -> f64 {
        let Some((capacity, _)) = self.capacity else {
            return 1.0;
        };
        // A packet in front of a probe is no queue.
        let packet = context.packet / capacity;
        let waits = (self.queue_now(context).unwrap_or(0.0) - packet).max(0.0);
        let least = LEAST.max(packet / PACKET).min(0.5);
        let less = ((WAITS - waits) / TOO_LONG.max(packet)).min(MORE);
        (MEAN + less).max(least)
    }

    /// A probe came back.
    pub(super) fn listen(&mut self, p: Point, context: &Context) {
        let mut turned = None;
        while let Some(turn) = self.pulses.turns.front().copied().filter(|t| t.0 <= p.left) {
            self.pulses.turns.pop_front();
            turned = Some((p, turn.1));
        }
        if turned.is_none() {
            return;
        }
        let before = std::mem::replace(&mut self.pulses.from, turned);
        let (Some((from, rate)), Some((capacity, _))) = (before, self.capacity) else {
            return;
        };
        let time = p.left - from.left;
        let Some(bytes) = self.meter.between(from.left, p.left) else {
            return;
        };
        let apart = pulse_shows(capacity, context);
        let grown = p.queue - from.queue;
        if grown > apart && bytes > PACKETS * context.packet {
            let took = time + grown;
            let error = (apart + 0.3 * context.packet / capacity) / took;
            let weight = 1.0 / (1.0 + (error / WALKS).powi(2));
            let by = (bytes / took / capacity).ln().clamp(-FARTHEST, FARTHEST);
            // What was not sent makes no queue.
            if by < 0.0 && bytes < FILLS * rate * time {
                return;
            }
            self.found(capacity * (weight * by).exp(), context);
        } else if grown <= apart {
            let passed = bytes / (time + 0.5 * apart);
            if passed > capacity {
                self.found(passed, context);
            }
        }
    }

    /// The line carries so much.
    fn found(&mut self, capacity: f64, context: &Context) {
        let was = self.pulses.was;
        if was == 0.0 {
            self.pulses.was = capacity;
        } else if (capacity / was).ln().abs() > ANOTHER {
            self.pulses.was = capacity;
            self.changed(Some(was), capacity, context.now);
        }
        self.proven(capacity, context);
        self.error = WALKS;
    }

    /// What others' queue taught is forgotten: the line carries what it `carried` before, at least.
    fn forgets(&mut self, carried: f64, context: &Context) {
        let known = self.capacity.map_or(0.0, |c| c.0).max(carried);
        self.capacity = Some((known, context.now));
        self.pulses.was = known;
    }

    /// The queue that stands, until the latest probe.
    fn standing(&self, p: Point) -> Standing {
        let capacity = self.capacity.map_or(f64::MAX, |c| c.0);
        let mut standing = self.pulses.stands.unwrap_or(Standing {
            since: p.left,
            first: p.queue,
            least: p.queue,
            carried: self.pulses.free.max(capacity),
            fall: 0.0,
            until: p.left,
        });
        if let Some(bytes) = self.meter.between(standing.until, p.left) {
            standing.fall += p.left - standing.until - bytes / capacity;
        }
        standing.until = p.left;
        standing.least = standing.least.min(p.queue);
        standing
    }

    /// Follows what pulses showed, unless what waits does not.
    pub(super) fn follow_pulses(&mut self, context: &Context) -> Outcome {
        self.phase = Phase::Steady;
        self.quiet = context.now;
        let Some(p) = self.latest else {
            return Outcome::Nothing;
        };
        if p.queue <= context.wander + WAITS {
            self.pulses.stands = None;
            self.pulses.free = self.capacity.map_or(0.0, |c| c.0);
        } else {
            let standing = self.standing(p);
            let is_applied = self.has(Rule::PulsesOutlasted);
            if is_applied && standing.is_not_ours(p.queue, context.wander) {
                self.pulses.stands = None;
                self.run.clear();
                self.forgets(standing.carried, context);
                return Outcome::Longer(standing.least);
            }
            self.pulses.stands = Some(standing);
        }
        Outcome::Changed(Reason::Following { dir: self.dir })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::{MEAN, Standing};

    use crate::control::direction::{Context, DirectionState, Outcome};
    use crate::control::rate_fit::Point;
    use crate::control::{
        Action, Answered, Bounds, Controller, Counted, OneWay, Settings, bytes_per_s,
    };
    use crate::swing::{Kind, Swing};
    use crate::{Direction, PerDirection, Rate};

    const STEP: f64 = 0.001;
    const RTT: f64 = 0.050;
    const IDLE: f64 = 5.0;

    fn duration(t: f64) -> Duration {
        Duration::from_secs_f64(t)
    }

    /// What came of it.
    struct Followed {
        /// Of what could have passed.
        used: f64,
        /// 95 % of probes waited less, s.
        p95: f64,
        /// When rates were changed last, s.
        changed: f64,
    }

    /// A line of `capacity` bytes/s whose delays wander (`None`: nothing is answered), with
    /// somebody who sends whatever is let through.
    fn follow(
        length: f64,
        capacity: impl Fn(f64) -> f64,
        wander: impl Fn(f64) -> Option<f64>,
    ) -> Followed {
        let bounds = Bounds::default();
        let settings = Settings {
            bounds: PerDirection {
                up: Bounds {
                    guess: Some(Rate::from_bps((capacity(IDLE) * 8.0) as u64)),
                    ..bounds
                },
                down: bounds,
            },
            packet: 1500,
            probe: 60,
        };
        let mut c = Controller::new(settings, Duration::ZERO);
        let (mut queue, mut sent, mut passed, mut possible) = (0.0, 0.0, 0.0, 0.0);
        let (mut rate, mut pace, mut next) = (capacity(IDLE), 0.1, 0.0);
        let mut waiting: VecDeque<(f64, f64)> = VecDeque::new();
        let mut back: VecDeque<(f64, f64, f64)> = VecDeque::new();
        let mut queues = Vec::new();
        let mut changed = 0.0;
        for n in 0..(length / STEP) as u64 {
            let t = n as f64 * STEP;
            // Idle at first: how far delays wander by themselves is to be seen.
            let comes = if t < IDLE { 0.0 } else { rate };
            let carries = capacity(t);
            sent += comes * STEP;
            let out = (queue + comes * STEP).min(carries * STEP);
            queue += comes * STEP - out;
            passed += out;
            possible += if t < IDLE { 0.0 } else { carries * STEP };
            while waiting.front().is_some_and(|w| w.1 <= passed + 1e-9) {
                let Some((left, _)) = waiting.pop_front() else {
                    break;
                };
                queues.push(t - left);
                if let Some(wander) = wander(t) {
                    let way = RTT / 2.0 + wander / 2.0;
                    back.push_back((left, t - left + way, t + 2.0 * way));
                }
            }
            let counted = Counted {
                up: sent,
                down: 0.0,
                packets: None,
            };
            if t >= next {
                next = t + pace;
                c.counted(duration(t), counted);
                c.probed(duration(t));
                waiting.push_back((t, passed + queue));
            }
            while back.front().is_some_and(|b| b.2 <= t) {
                let Some((left, there, came)) = back.pop_front() else {
                    break;
                };
                let one_way = Some(OneWay {
                    there,
                    back: came - left - there,
                });
                c.counted(duration(t), counted);
                c.answered(
                    duration(t),
                    Answered {
                        sent: duration(left),
                        came: duration(came),
                        left_unseen: false,
                        one_way,
                    },
                );
            }
            while let Some(action) = c.poll() {
                match action {
                    Action::Shape { targets, .. } => {
                        let Some(up) = targets.up else { continue };
                        rate = bytes_per_s(up.let_out());
                        changed = t;
                    }
                    Action::Pace(p) => pace = p.as_secs_f64(),
                    Action::Noticed(_) => {}
                }
            }
        }
        queues.sort_by(f64::total_cmp);
        Followed {
            used: passed / possible,
            p95: queues[queues.len() * 95 / 100],
            changed,
        }
    }

    /// A line between 1 and 20 Mbit/s that walks, and whose way becomes up to 40 ms longer.
    fn follow_a_mobile_line(seed: u64) -> Followed {
        let ms = Duration::from_millis;
        let rates = (Rate::from_kbit(1_000), Rate::from_kbit(20_000));
        let swing = Swing {
            every: ms(250),
            kind: Kind::Walk(2.0),
            down: rates,
            up: rates,
            rtt: (ms(0), ms(40)),
        };
        let line = swing.make(seed, ms(60_000));
        let at = |t: f64| (t / 0.25) as usize;
        follow(
            60.0,
            |t| line.up.get(at(t)).map_or(1e6, |s| s.1.bps() as f64 / 8.0),
            |t| line.rtt.get(at(t)).map(|s| s.1.as_secs_f64()),
        )
    }

    #[test]
    fn a_mobile_line_is_used_and_its_queue_short() {
        let draws = 16;
        let mut sum = 0.0;
        for seed in 0..draws {
            let Followed { used, p95, .. } = follow_a_mobile_line(seed);
            assert!(used > 0.75 && p95 < 0.100, "{seed}: {used} {p95}");
            sum += p95;
        }
        let mean = sum / draws as f64;
        assert!(mean < 0.070, "{mean}");
    }

    /// How far delays wander: enough for a line to count as one that never settles.
    fn wobble(t: f64) -> f64 {
        0.012 * ((t * 3.0) as u64 * 7 % 5) as f64 / 2.0
    }

    #[test]
    fn a_way_that_became_longer_is_no_queue() {
        let longer = |t| if t > 30.0 { 0.150 } else { 0.0 };
        let f = follow(60.0, |_| 1e6, |t| Some(wobble(t) + longer(t)));
        assert!(f.used > 0.88 && f.p95 < 0.050, "{} {}", f.used, f.p95);
    }

    /// The mean of what is let out of a line that carries so much, bytes/s, where a probe waits for so long, s.
    fn mean_behind(carries: f64, queue: f64) -> f64 {
        let mut way = DirectionState::new(Direction::Up);
        way.believe(carries, 0.0);
        let context = Context::of_test(1.0);
        way.meter.note(0.9, 0.0);
        way.meter.note(1.0, 0.0);
        let (left, came) = (0.96, 1.0);
        way.observe(Point { left, came, queue }, &context);
        way.mean(&context)
    }

    #[test]
    fn a_packet_in_front_of_a_probe_is_no_reason_to_send_less() {
        // 0.28 Mbit/s: a packet takes 44 ms.
        assert!(mean_behind(35_000.0, 0.044) > MEAN);
        assert!(mean_behind(35_000.0, 0.176) <= 0.5);
        assert!(mean_behind(1e7, 0.088) <= 0.5);
    }

    #[test]
    fn a_queue_that_grows_while_little_is_sent_is_not_ours() {
        let standing = Standing {
            since: 0.0,
            first: 0.9,
            least: 0.9,
            carried: 1e6,
            fall: 0.7,
            until: 0.8,
        };
        assert!(standing.is_not_ours(1.1, 0.005));
        assert!(!standing.is_not_ours(0.3, 0.005));
        let short = Standing {
            first: 0.04,
            ..standing
        };
        assert!(short.is_not_ours(0.03, 0.005));
        assert!(!short.is_not_ours(0.01, 0.005));
    }

    #[test]
    fn what_others_queue_taught_is_forgotten() {
        // Half a second after a queue of 200 ms came it is as long, although a tenth of what the line was thought to carry
        // was sent since; it is thought to carry a fifth of that by now.
        let mut way = DirectionState::new(Direction::Up);
        way.believe(1e6, 0.0);
        for n in 0..=100 {
            let t = 0.01 * f64::from(n);
            let context = Context::of_test(t + 0.24);
            way.meter.note(t, 2e4 * t);
            let point = Point {
                left: t,
                came: t + 0.24,
                queue: 0.2,
            };
            way.observe(point, &context);
            if way.follow_pulses(&context) == Outcome::Longer(0.2) {
                assert_eq!(way.capacity.map(|c| c.0), Some(1e6));
                return;
            }
            way.believe(2e5, t);
        }
        panic!("it is thought to be ours");
    }

    /// What a line of 320 kbit/s is thought to carry, as a share of that, when four fifths of it were sent for 0.4 s, and the
    /// probe after that took so many full packets longer than the one before.
    fn after_a_pulse(packets: f64) -> f64 {
        let (capacity, sent) = (4e4, 3.2e4);
        let mut way = DirectionState::new(Direction::Up);
        way.believe(capacity, 0.0);
        for n in 0..=100 {
            let t = 0.01 * f64::from(n);
            way.meter.note(t, sent * t);
        }
        way.pulses.turns = VecDeque::from([(0.2, sent), (0.6, sent)]);
        let context = Context::of_test(1.0);
        let took = context.packet / capacity;
        for (left, queue) in [(0.21, 0.0), (0.61, packets * took)] {
            let came = left + queue;
            way.listen(Point { left, came, queue }, &context);
        }
        way.capacity.unwrap().0 / capacity
    }

    #[test]
    fn half_of_what_a_pulse_makes_is_a_queue() {
        // Two packets at three tenths more make a queue of six tenths of a packet.
        assert!((after_a_pulse(0.25) - 1.0).abs() < 1e-9);
        assert!(after_a_pulse(0.35) < 0.95);
    }

    #[test]
    fn without_answers_rates_stay() {
        let f = follow(40.0, |_| 1e6, |t| (t < 20.0).then(|| wobble(t)));
        assert!(f.changed > 20.0 && f.changed < 23.0, "{}", f.changed);
    }
}
