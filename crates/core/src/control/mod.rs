//! The controller of `run`: from bytes and delays to the rates that a line is shaped to.
//!
//! A newcomer's way in: the program tells what happens ([`Controller::counted`],
//! [`Controller::answered`] or, where nothing answers, [`Controller::passed`]) and then asks what
//! is to be done ([`Controller::poll`]). A direction's capacity is found in `direction`, the base
//! round trip in `base`, when a rate is set in `change`; what is told and answered has its types in `interface`, and
//! what is heard is taken in by `hearing`.
//!
//! Principles: a model, not a search: every rate follows from what the bottleneck was seen to
//! carry, and every change has a reason that a person can read; nothing is known beforehand and
//! everything that is told is only a first guess; without any signal the last rates stay. `now` is
//! an argument of everything. Non-goals: kernels and sockets, framing (bytes come as they are
//! on the line), fairness between flows.

mod attribution;
mod base;
mod change;
mod direction;
mod hearing;
mod interface;
mod meter;
mod packet_size;
mod passive_rtt;
mod peak;
mod peer_clocks;
mod rate_fit;
mod reason;
mod rule;

use std::collections::VecDeque;
use std::time::Duration;

use crate::plan::{Likely, Target};
use crate::{Direction, PerDirection, Rate};
use base::Base;
use change::Change;
use direction::{Context, DirectionState, Outcome, Phase};
use passive_rtt::PassiveRtt;
use peak::Peak;
use peer_clocks::PeerClocks;

pub use direction::TcpPayload;
pub use interface::{
    Action, Answered, Bounds, Counted, DirectionView, OneWay, SerializationRate, Settings, View,
};
pub use passive_rtt::RttSample;
pub use peer_clocks::TcpTimestamp;
pub use reason::{Notice, Reason};
pub use rule::Rule;

/// Between probes while the line is loaded, at least.
const FAST: f64 = 0.020;
/// Between probes of a line that is not.
const SLOW: f64 = 0.100;
/// Probes may take so much of a slow line, and so much while a queue is drained: what is cut for it is given back the
/// sooner.
const SHARE: f64 = 0.015;
const SHARE_DRAINING: f64 = 0.045;
/// Where several hosts probe it, by so many times that.
const TOGETHER: f64 = 2.5;
/// What the others of them send is known so much later, s: two of their beacons.
const OTHERS_LAG: f64 = 0.2;
/// A line is loaded from this share of its capacity on, or from this rate, bytes/s, where none is known.
const LOADED: f64 = 0.10;
const LOADED_RATE: f64 = 32_000.0;
/// The line counts as idle below this share of its capacity, for [`CALM`] seconds; where none is known see
/// `Controller::idle_where_unknown`.
const IDLE: f64 = 0.05;
const CALM: f64 = 0.3;
/// It is loaded for so long after the latest traffic.
const LINGER: f64 = 1.0;
/// What is in front of a probe without a queue takes up to so many times what a full packet takes: one, and what a burst
/// adds.
const IN_FRONT: f64 = 1.5;
/// Stamps of whole ms are so much off.
const STAMP: f64 = 0.0003;
/// Two probes differ by this share of what delays wander by, with stamps and without, or by the
/// steps of stamps, s.
const APART: [f64; 2] = [0.2, 0.3];
const STEPS: f64 = 0.001;
/// For so long far sides' clocks are thought to go on telling directions apart, s.
const CLOCKS_TELL: f64 = 0.3;
/// Without answers for so long there is no signal.
const NO_SIGNAL: f64 = 3.0;
/// And for so long a cut is not kept up: what it was for is not seen any more, s.
const UNSEEN: f64 = 2.0;
/// After an echo of a far end there are others for so long, s.
const ECHOES: f64 = 1.0;
/// Connections that pass are heard of at least this often, or not to be counted on, s.
const SLOWEST: f64 = 0.5;
/// Rates are raised at most this often; cuts are made, and ended, at once.
const RAISE_EVERY: f64 = 0.1;
/// A base that wanders by so much does wander, s.
const WANDERS: f64 = 0.003;
/// On a line that changes all the time this share of what else is a rise is one.
const SOONER: f64 = 0.7;
/// More than this is no slack but a queue, s.
const SLACKEST: f64 = 0.020;
/// What stands by turns, never for longer than this, s, and does not follow us is how far delays wander.
const SHORT: f64 = 0.010;

/// The controller.
#[derive(Debug, Clone)]
pub struct Controller {
    settings: Settings,
    directions: PerDirection<DirectionState>,
    base: Base,
    /// One-way times on a line without a queue: there and back, and the least queue of late.
    offsets: Option<(f64, f64)>,
    /// By how much more the way there takes than the way back, compared with then, s.
    more: f64,
    /// What the base was before one direction was found to have become longer, s, until it is that again.
    lengthened_from: Option<f64>,
    /// What the clocks of far sides tell, and when they told both directions apart.
    peer_clocks: PeerClocks,
    told_apart: f64,
    /// And how far off that is, s.
    clocks_off: f64,
    /// Where a queue is thought to be that nothing tells apart, and how often it was not there.
    attributed: Option<(Direction, u32)>,
    /// When that was last used or cut, and how long the queue was then, s.
    attributed_at: (f64, f64),
    /// The latest queue that was not where it was looked for was here.
    last_attributed: Option<Direction>,
    pace: f64,
    /// What is probed answers no more often than this, s.
    slowest_answers: f64,
    /// So many hosts probe this line.
    hosts: usize,
    /// Connections that pass, where nothing answers probes.
    passive_rtt: PassiveRtt,
    /// What is heard is theirs, and comes so often, s.
    passive: Option<f64>,
    /// When an echo of one of their far ends was heard last.
    echoed: f64,
    /// Latest traffic worth the name.
    loaded: f64,
    /// Next to nothing passed since.
    idle_since: Option<f64>,
    heard: Option<f64>,
    /// Probes are not answered any more.
    no_signal: bool,
    /// What is in force, and since when.
    shaped: PerDirection<Option<Target>>,
    raised: f64,
    /// The most that each direction carried of late.
    peaks: PerDirection<Peak>,
    actions: VecDeque<Action>,
    why: Reason,
    /// Is done without.
    left_out: Option<Rule>,
}

const UP: Direction = Direction::Up;
const DOWN: Direction = Direction::Down;

fn seconds(t: Duration) -> f64 {
    t.as_secs_f64()
}

fn bytes_per_s(rate: Rate) -> f64 {
    rate.bps() as f64 / 8.0
}

fn rate(bytes_per_s: f64) -> Rate {
    Rate::from_bps((bytes_per_s * 8.0) as u64).min(Rate::MAX)
}

impl Controller {
    /// Knows only `settings`.
    pub fn new(settings: Settings, now: Duration) -> Self {
        let mut directions = PerDirection::of(DirectionState::new);
        for (way, bounds) in directions.iter_mut().zip(settings.bounds) {
            if let Some(least) = bounds.least {
                way.least = bytes_per_s(least);
            }
            if let Some(most) = bounds.most {
                way.most = bytes_per_s(most);
            }
            if let Some(guess) = bounds.guess {
                way.believe(bytes_per_s(guess), seconds(now));
            }
        }
        let mut controller = Controller {
            settings,
            directions,
            base: Base::default(),
            offsets: None,
            more: 0.0,
            lengthened_from: None,
            peer_clocks: PeerClocks::default(),
            told_apart: f64::MIN,
            clocks_off: 0.0,
            attributed: None,
            attributed_at: (f64::MIN, 0.0),
            last_attributed: None,
            pace: SLOW,
            slowest_answers: 0.0,
            hosts: 1,
            passive_rtt: PassiveRtt::default(),
            passive: None,
            echoed: f64::MIN,
            loaded: f64::MIN,
            idle_since: None,
            heard: None,
            no_signal: false,
            shaped: PerDirection::default(),
            raised: f64::MIN,
            peaks: PerDirection::default(),
            actions: VecDeque::new(),
            why: Reason::Guess,
            left_out: None,
        };
        if settings.bounds.up.guess.is_none() {
            controller.why = Reason::Opening { dir: UP };
        }
        controller
            .actions
            .push_back(Action::Pace(Duration::from_secs_f64(SLOW)));
        controller.apply(seconds(now));
        controller
    }

    /// Does without `rule` from now on, to see what it is good for. To be called before anything happens.
    pub fn leave_out(&mut self, rule: Rule, now: Duration) {
        self.left_out = Some(rule);
        for direction in self.directions.iter_mut() {
            direction.left_out = Some(rule);
        }
        self.apply(seconds(now));
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The longest packets that pass of late, bytes on the line; full ones where that is not known.
    fn longest_packet(&self, d: Direction, now: f64) -> f64 {
        let full = f64::from(self.settings.packet);
        let is_measured = self.left_out != Some(Rule::PacketSize);
        let measured = self.directions[d].packet_size.longest(now);
        measured.filter(|_| is_measured).unwrap_or(full)
    }

    /// The line as direction `i` sees it.
    fn context(&self, i: Direction, now: f64) -> Context {
        let packet = self.longest_packet(i, now);
        // A packet may be under way when a probe comes.
        let serial = |d: Direction| {
            let way = &self.directions[d];
            let taken = way.meter.rate(0.1f64.max(1.5 * self.pace)).unwrap_or(0.0);
            let in_use = |c: &f64| taken > IDLE * c;
            way.capacity
                .map(|c| c.0)
                .filter(in_use)
                .map_or(0.0, |c| self.longest_packet(d, now) / c)
        };
        let other = serial(i.other());
        let is_apart = self.tells_apart(now);
        let beside = if is_apart { 0.0 } else { other };
        let serial_all = serial(i) + beside;
        let wander = self.base.rise();
        // What delays wander by was learned while packets may have been others.
        let full = f64::from(self.settings.packet);
        let takes = |way: &DirectionState| way.known_to_carry().map(|c| full / c);
        let own = takes(&self.directions[i]).unwrap_or(f64::INFINITY);
        let explained = IN_FRONT * (own + takes(&self.directions[i.other()]).unwrap_or(0.0));
        // Where a line is followed a false alarm costs less than a late one.
        let sooner = if self.directions[i].standing_queue(now) > 0.0 {
            SOONER
        } else {
            1.0
        };
        // A direction that is not used has no queue that could be taken for one of this.
        let by_clocks = is_apart && self.offsets.is_none() && other > 0.0;
        let off = if by_clocks { self.clocks_off } else { 0.0 };
        // What tells directions apart also takes what the other one wanders by away.
        let (stamps, apart) = if is_apart {
            (STAMP + 0.5 * off, APART[0])
        } else {
            (0.0, APART[1])
        };
        Context {
            now,
            rtt: self.base.value().unwrap_or(0.02),
            rise: (sooner * wander).max(IN_FRONT * serial_all) + off,
            wander,
            unexplained: (wander - explained).max(0.0),
            pace: self.passive.map_or(self.pace, |p| p.max(self.pace)),
            noise: 0.2 * wander + 0.3 * serial_all + stamps,
            packet,
            beside,
            // Clocks tell of another packet than the probe, which met up to one more or less (decision 0104).
            apart: (apart * wander).max(STEPS) + if by_clocks { off + other } else { 0.0 },
            probed: !self.no_signal && (self.passive.is_none() || self.has_echoes(now)),
            known: self.base.value().is_some(),
            elsewhere: match self.directions[i.other()].latest {
                Some(p) if !is_apart => p.queue,
                _ => 0.0,
            },
            is_apart,
            comes: self.directions[i.other()].meter.rate(0.1).unwrap_or(0.0),
        }
    }

    /// Counters were read. To be called at each probe and each answer.
    pub fn counted(&mut self, now: Duration, counted: Counted) {
        let now = seconds(now);
        self.directions[UP].meter.note(now, counted.up);
        self.directions[DOWN].meter.note(now, counted.down);
        if let Some(packets) = counted.packets {
            let full = f64::from(self.settings.packet);
            self.directions[UP]
                .packet_size
                .note(now, counted.up, packets.up, full);
            self.directions[DOWN]
                .packet_size
                .note(now, counted.down, packets.down, full);
        }
        let over = |share: f64, unknown: f64| {
            self.directions.iter().any(|w| {
                let rate = w.meter.rate(0.1f64.max(1.5 * self.pace)).unwrap_or(0.0);
                let least = w.capacity.map_or(unknown, |(c, _)| share * c);
                rate > least
            })
        };
        if over(LOADED, LOADED_RATE) {
            self.loaded = now;
        }
        if over(IDLE, self.idle_where_unknown()) {
            self.idle_since = None;
        } else {
            self.idle_since.get_or_insert(now);
        }
        self.set_pace(now);
        self.on_tick(now);
    }

    /// The line counts as idle below this rate, bytes/s, in a direction of which no capacity is
    /// known: the same share of what large probes say the upload likely carries, since a download
    /// seldom carries less, and never below half of [`LOADED_RATE`] (decision 0131).
    fn idle_where_unknown(&self) -> f64 {
        let likely = self.directions[UP].likely_carries().unwrap_or(0.0);
        (IDLE * likely).max(LOADED_RATE * 0.5)
    }

    fn set_pace(&mut self, now: f64) {
        let slowest = self
            .directions
            .iter()
            .filter_map(|w| w.capacity)
            .map(|c| c.0)
            .fold(f64::MAX, f64::min);
        let share = if self.directions.iter().any(DirectionState::is_draining) {
            SHARE_DRAINING
        } else {
            SHARE
        };
        let share = share * (TOGETHER / self.hosts as f64).min(1.0);
        let fair = f64::from(self.settings.probe) / (share * slowest);
        let pace = if now - self.loaded < LINGER {
            FAST.max(fair)
        } else {
            SLOW.max(fair)
        }
        .max(self.slowest_answers);
        if (pace / self.pace - 1.0).abs() > 0.1 {
            self.pace = pace;
            self.actions
                .push_back(Action::Pace(Duration::from_secs_f64(pace)));
        }
    }

    /// What is probed is another one from now on, or answers in another way. A probe to it takes
    /// `base` on a line without a queue, if that is known; rates and capacities stay.
    pub fn reflector_changed(&mut self, now: Duration, base: Option<Duration>) {
        self.passive = None;
        self.base = Base::default();
        if let Some(base) = base {
            self.base.sample(seconds(now), seconds(base), false);
        }
        self.offsets = None;
        self.more = 0.0;
        self.lengthened_from = None;
        self.attributed = None;
        self.directions
            .iter_mut()
            .for_each(DirectionState::forget_large_probes);
        self.rerouted(seconds(now));
    }

    /// What is probed answers no more often than each `interval`: so often it is asked at most.
    pub fn answers_each(&mut self, now: Duration, interval: Duration) {
        self.slowest_answers = seconds(interval);
        self.set_pace(seconds(now));
    }

    /// So many hosts probe this line, and count what they send together; `has_newcomer`: what one of them sends is not
    /// counted yet.
    pub fn probed_by(&mut self, now: Duration, hosts: usize, has_newcomer: bool) {
        self.hosts = hosts.max(1);
        let lag = if self.hosts > 1 { OTHERS_LAG } else { 0.0 };
        for direction in self.directions.iter_mut() {
            direction.others_lag = lag;
            direction.has_newcomer = has_newcomer;
        }
        self.set_pace(seconds(now));
    }

    /// So much of TCP's payload passed, and was retransmitted, by now. To be called about twice a second, after
    /// [`Controller::counted`].
    pub fn tcp_payload(&mut self, now: Duration, payload: PerDirection<TcpPayload>) {
        let now = seconds(now);
        for i in Direction::BOTH {
            let context = self.context(i, now);
            if let Outcome::Changed(why) = self.directions[i].note_payload(payload[i], &context) {
                self.why = why;
            }
        }
        self.apply(now);
    }

    /// The way of direction `i` has become so much longer, s.
    fn lengthened(&mut self, i: Direction, by: f64, now: f64) {
        let base = self.base.value().unwrap_or(0.0);
        self.lengthened_from.get_or_insert(base);
        self.base.move_to(base + by);
        if let Some((there, back)) = &mut self.offsets {
            match i {
                Direction::Up => *there += by,
                Direction::Down => *back += by,
            }
            self.more += if i == UP { -by } else { by };
        }
        self.why = Reason::NotOurs {
            dir: i,
            queue_ms: by * 1e3,
        };
        self.rerouted(now);
    }

    /// The base is another one.
    fn rerouted(&mut self, now: f64) {
        self.peer_clocks.rerouted();
        for direction in self.directions.iter_mut() {
            direction.rerouted(now);
        }
    }

    fn on_tick(&mut self, now: f64) {
        let unheard = self.heard.map_or(0.0, |heard| now - heard);
        if unheard > UNSEEN && self.passive.is_none() {
            self.end_cuts(now);
        }
        if unheard > NO_SIGNAL {
            if self.passive.is_some() {
                self.nothing_passes(now);
            } else if !self.no_signal {
                self.no_signal = true;
                self.actions.push_back(Action::Noticed(Notice::NoSignal));
            }
            return;
        }
        // Who waited longer tries first.
        let first = if self.directions[DOWN].next_probe_up < self.directions[UP].next_probe_up {
            DOWN
        } else {
            UP
        };
        for i in [first, first.other()] {
            let context = self.context(i, now);
            // One direction at a time, so that it is known whose queue it is.
            let other = &self.directions[i.other()];
            let busy = matches!(other.phase, Phase::ProbeUp(_) | Phase::Drain(_));
            let way = &mut self.directions[i];
            way.is_ambiguous = self.attributed.is_some_and(|b| b.1 >= attribution::TURNS);
            if self.attributed.is_some_and(|b| b.0 != i) {
                way.rest(now);
            }
            let is_attributed = self.tells_apart(now) || !self.in_use(i.other(), now);
            self.directions[i].is_attributed = is_attributed;
            match self.directions[i].decide(
                &context,
                (is_attributed || !busy) && self.attributed.is_none(),
            ) {
                Outcome::Nothing => {}
                Outcome::NotHere(queue) if self.try_other_direction(i, queue) => {}
                // Only what we send is known to be less at once.
                Outcome::NotHere(_) if i == DOWN && !is_attributed => self.attributed = None,
                Outcome::Changed(why) => self.why = why,
                Outcome::NotHere(queue)
                    if self.left_out == Some(Rule::Competing)
                        || !self.directions[i].is_contested_again(now) =>
                {
                    self.lengthened(i, queue, now);
                }
                Outcome::NotHere(queue) => {
                    let context = self.context(i, now);
                    self.directions[i].compete(queue, &context);
                    self.why = Reason::Shared {
                        dir: self.directions[i].dir,
                        queue_ms: queue * 1e3,
                    };
                }
                Outcome::Longer(queue) => self.lengthened(i, queue, now),
                Outcome::Stood { least, most } => {
                    if least > context.rise {
                        self.lengthened(i, least, now);
                    } else if most < SHORT {
                        self.base.wanders(most - least);
                    }
                }
            }
        }
        self.apply(now);
    }

    fn slack(&self, i: Direction, now: f64) -> f64 {
        let wanders = self.base.rise();
        let wanders = if wanders > WANDERS { wanders } else { 0.0 };
        wanders
            .max(0.7 * self.directions[i].standing_queue(now))
            .min(SLACKEST)
            .max(self.directions[i].others_queue())
    }

    /// Says what changed.
    fn apply(&mut self, now: f64) {
        let mut peaks = self.peaks;
        let wanted = PerDirection::of(|i| {
            let context = self.context(i, now);
            let way = &self.directions[i];
            let opened = way.opened(&context);
            let target = opened.map(|level| (level, 1.0)).or(way.target(&context));
            target.map(|(capacity, factor)| Target {
                capacity: rate(capacity),
                permille: (factor * 1000.0).round() as u32,
                peak_permille: (peaks[i].with(capacity, now) / capacity * 1000.0).round() as u32,
                slack_us: (self.slack(i, now) * 1e6) as u32,
                volatile: way.standing_queue(now) > 0.0,
                pulses: way.has_pulses(&context),
                opening: opened.map(|_| Likely(way.likely_carries().map(rate))),
            })
        });
        self.peaks = peaks;
        let changes = PerDirection::of(|i| Change::of(self.shaped[i], wanted[i]));
        let any = |change| changes.iter().any(|c| *c == change);
        let may_raise = now - self.raised >= RAISE_EVERY;
        if any(Change::AtOnce) || any(Change::Higher) && may_raise {
            self.raised = now;
            self.shaped = wanted;
        } else if any(Change::Pulse) {
            self.shaped[UP] = wanted[UP];
        } else {
            return;
        }
        self.actions.push_back(Action::Shape {
            targets: self.shaped,
            why: self.why,
        });
    }

    /// Others on this line, whose bytes are counted with ours, think that it carries `median` in this direction.
    pub fn agree(&mut self, now: Duration, direction: Direction, median: Rate) {
        let median = bytes_per_s(median);
        self.with_others(now, direction, |way, context| way.agree(median, context));
    }

    /// Others were met on this line, whose bytes are counted with ours from now on: `together` passes with them.
    pub fn met(&mut self, now: Duration, direction: Direction, together: Rate) {
        let together = bytes_per_s(together);
        self.with_others(now, direction, |way, context| way.met(together, context));
    }

    /// Does what `changes` the direction, perhaps, by what others say.
    fn with_others(
        &mut self,
        now: Duration,
        dir: Direction,
        changes: impl FnOnce(&mut DirectionState, &Context) -> bool,
    ) {
        let now = seconds(now);
        let context = self.context(dir, now);
        if changes(&mut self.directions[dir], &context) {
            self.why = Reason::Agreed { dir };
            self.apply(now);
        }
    }

    /// Whether a queue of somebody else's stands in this direction, with whom the line is shared.
    pub fn competes(&self, direction: Direction) -> bool {
        matches!(self.directions[direction].phase, Phase::Compete(_))
    }

    /// What is known now.
    pub fn view(&self, now: Duration) -> View {
        let now = seconds(now);
        let way = |i: Direction| {
            let context = self.context(i, now);
            let w = &self.directions[i];
            DirectionView {
                capacity: w.capacity.map(|c| rate(c.0)),
                age_s: w.capacity.map_or(0.0, |c| now - c.1),
                throughput: rate(w.throughput(&context)),
                queue_ms: w.latest.map_or(0.0, |p| p.queue * 1e3),
                unshaped_queue_ms: w.unshaped_queue * 1e3,
            }
        };
        View {
            base_ms: self.base.value().map(|b| b * 1e3),
            rise_ms: self.context(UP, now).rise.max(self.context(DOWN, now).rise) * 1e3,
            up: way(UP),
            down: way(DOWN),
        }
    }
}

#[cfg(test)]
mod reflector_tests;
#[cfg(test)]
mod tests;
