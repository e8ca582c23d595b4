//! One direction of the line: what it carries, how that is known, and how fast it is used.
//!
//! Principles: a queue that stands at the bottleneck says what the bottleneck carries: the bytes
//! that left it divided by the time they took to leave. Towards the Internet they are those that
//! we sent, and left when the probe behind them did (`C = S / (dt + dd)`); towards us they are
//! those that arrived. After a cut the queue is drained, and how long that takes is known. The
//! line is tried upwards only where it is used to the full and no queue stands, by steps that
//! grow until one stands; one that never settles is followed (`probing_up`, `pulses`). Non-goals: the
//! delay of whom (`mod.rs`), packets.
//!
//! | phase | what happens | next phase | function |
//! |---|---|---|---|
//! | open | two probes in a row meet a queue that what we sent explains | drain, with a first capacity | `drain.rs::congested` |
//! | open | what was let out has passed without a queue | open, twice as far | `opening.rs::open` |
//! | open | what was let out makes a queue | open, as far as passed without one | `opening.rs::falls_back` |
//! | open | the same, beside a host whose bytes are not counted yet | open, as far as at first | `opening.rs::opens_beside_newcomers` |
//! | open | nothing is held for want of echoes, and the latest answer met no queue | open, as far as has passed | `opening.rs::went_unheld` |
//! | open | a guess or a profile | steady | `capacity.rs::believe` |
//! | steady | used to nine tenths, no queue of late, the other direction rests or queues are told apart | probing up | `probing_up.rs::steady` |
//! | steady, probing up | two probes in a row meet a queue | drain | `drain.rs::congested` |
//! | probing up | the step would have shown a queue by now | probing up, the next step twice as large | `probing_up.rs::probe_up` |
//! | probing up | nobody uses more | steady | `probing_up.rs::rests` |
//! | probing up | a queue stands in the other direction, or may | steady | `probing_up.rs::rest` |
//! | steady, probing up, on a line that never settles | a queue shorter than the one that is kept | probing up, from what the queue shows | `probing_up.rs::follow` |
//! | the same | a queue stood while the line came to a third less | drain, to see whether it is ours | `drain.rs::doubt` |
//! | drain | the queue is gone | steady | `drain.rs::has_gone` |
//! | drain | the first ever, towards us, outlasts what came, or that goes on to come | open | `elsewhere.rs::refute` |
//! | drain | the first ever of what we send follows no cut | open, from what passed | `elsewhere.rs::refute` |
//! | drain | it does not follow the cut, or what comes does and it stays | compete, with what was known before; open, if nothing was | `elsewhere.rs::not_here` |
//! | compete | nothing has stood for a while | steady | `compete.rs::competes` |
//! | compete | it is time to test whose the queue is | drain | `drain.rs::doubt` |
//! | drain | no answer for two seconds | steady, with what was known at the cut | `drain.rs::end_cut` |
//!
//! Whether the line never settles is no phase: it is how much it changed of late (`volatility`).

mod agreed;
mod capacity;
mod caution;
mod compete;
mod drain;
mod elsewhere;
mod losses;
mod opening;
mod probing_up;
mod pulses;

use super::meter::Meter;
use super::packet_size::PacketSize;
use super::rate_fit::{Estimate, Point, Run, SAME};
use super::{Reason, Rule, SerializationRate};
use crate::Direction;
use caution::Caution;
use compete::Compete;
use losses::Losses;
use opening::Opening;
use pulses::Pulses;

pub use losses::TcpPayload;

// Times are in seconds, rates in bytes per second on the line. Headroom is the plan's
// (`plan::Mode::shaped`); here a capacity is a capacity.

/// Used to the full: this share of what may be used.
pub(super) const FULL: f64 = 0.9;
/// Never cut below this share of the capacity: flows must go on to be heard.
const DEEPEST: f64 = 0.3;
/// Acknowledgements take less than this share of what they acknowledge: each of a full packet is two cells of ATM.
pub(super) const ACKNOWLEDGES: f64 = 0.07;
/// Between tries at least, s.
const PATIENCE: f64 = 1.0;
/// The first step of a try, at most.
const LARGEST_FIRST: f64 = 0.1;
/// Restlessness: what a change adds to it for each factor e, and how fast it is forgotten, s.
const VOLATILITY: f64 = 0.7;
const CALMS: f64 = 8.0;
/// One change is no restlessness: it takes two for pulses (`pulses::OFTEN`).
const ONE_CHANGE: f64 = 0.25;
/// Within this after the first look, s, others correct it.
const CORRECTED: f64 = 2.0;
/// A line is followed rather than settled on from this much of it on.
const FOLLOWED: f64 = 0.3;
/// Or where idle delays wander by so much by themselves, s: as volatile as this at least (decision 0093).
const WANDERS: f64 = 0.012;
const WANDERING: f64 = 0.4;
/// The queue that is kept on a line that never settles, s: it shows what the line carries now,
/// and is there to be sent when it carries more.
const STANDING_QUEUE: f64 = 0.025;
/// How far a guess from elsewhere, or an upper bound, may be off.
const GUESSED: f64 = 0.3;
/// Used to the full without a queue for so long, s, a line does carry what is known.
const TESTED: f64 = 1.0;
/// Less of a direction than this share of its capacity makes no queue: acknowledgements, and calls.
const IN_USE: f64 = 0.1;
/// Jitter hides queues from this on, s.
const HIDES: f64 = 0.002;

/// What decisions need to know of the line as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    pub now: f64,
    /// Base round trip to what is probed.
    pub rtt: f64,
    /// From which on a delay is a queue.
    pub rise: f64,
    /// So much of that because delays wander by themselves.
    pub wander: f64,
    /// So much of that a full packet in front of a probe, each way, does not explain; nothing of it where it is not known how
    /// long one takes.
    pub unexplained: f64,
    /// From one probe to the next.
    pub pace: f64,
    /// How far a single probe's delay is off, s.
    pub noise: f64,
    /// Bytes of a full packet on the line.
    pub packet: f64,
    /// How long one takes in the other direction, if that is used and nothing tells them apart, s.
    pub beside: f64,
    /// How far apart two probes may be by themselves, s.
    pub apart: f64,
    /// Probes are what is heard.
    pub probed: bool,
    /// What one takes on a line without a queue is known.
    pub known: bool,
    /// What comes the other way, bytes/s.
    pub comes: f64,
    /// The queue of the other direction, if nothing tells them apart, s.
    pub elsewhere: f64,
    /// Stamps or clocks tell whose queue it is.
    pub is_apart: bool,
}

#[cfg(test)]
impl Context {
    /// A line 40 ms long whose delay wanders by 4 ms, at `now`.
    fn of_test(now: f64) -> Self {
        Context {
            now,
            rtt: 0.040,
            rise: 0.005,
            wander: 0.004,
            unexplained: 0.0,
            pace: 0.020,
            noise: 0.001,
            packet: 1538.0,
            beside: 0.0,
            apart: 0.001,
            probed: true,
            known: true,
            is_apart: true,
            comes: 0.0,
            elsewhere: 0.0,
        }
    }
}

#[cfg(test)]
impl DirectionState {
    /// A look at `now`, s, when so many bytes have passed and an answer comes that waited for `queue` s.
    fn looks(&mut self, now: f64, bytes: f64, queue: f64) {
        let context = Context::of_test(now);
        self.meter.note(now, bytes);
        let (left, came) = (now - context.rtt - queue, now);
        self.observe(Point { left, came, queue }, &context);
        let _ = self.decide(&context, true);
    }
}

/// What is being done with a direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// Nothing is known of its capacity: what we send is let out by and by.
    Open(Opening),
    /// It is used as far as it is known.
    Steady,
    /// A queue is made to go away.
    Drain(Drain),
    /// A queue stands that is somebody else's.
    Compete(Compete),
    /// It is tried whether it carries more.
    ProbeUp(Step),
}

/// A step upwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    /// What it is tried with.
    level: f64,
    /// The next step's size.
    next: f64,
    /// Since when.
    since: f64,
    /// What it was known to carry when the first step was made.
    before: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drain {
    /// The first cut, and the latest look at how the queue follows it.
    cut: f64,
    since: f64,
    /// The queue since the latest look at how it follows, at the first cut, and the longest of it.
    queue: f64,
    first: f64,
    longest: f64,
    /// When the latest answer came that had waited in it.
    met: f64,
    /// What was known before this queue.
    before: Option<Estimate>,
    /// Restlessness then.
    volatility: (f64, f64),
    /// The queue that may stay, since it is doubted that there is one.
    doubted: Option<f64>,
    /// It followed the latest cut, so it is here.
    followed: bool,
    /// What the line was known to carry when it did.
    confirmed: Option<Estimate>,
    /// What it says if it is.
    found: Option<Estimate>,
    /// The line carries no more than this if it is: our own bytes then explain the queue.
    shown: Option<f64>,
    /// What the line was thought to carry at the cut, and then.
    at_cut: f64,
    capacity: f64,
    /// Cuts that did not shorten it.
    failures: u32,
}

/// A first capacity towards us that a queue of somebody else's seemed to show.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refuted {
    /// bytes/s.
    capacity: f64,
    /// It is not learned before this, which was so long after it was refuted, s.
    until: f64,
    wait: f64,
}

/// What a look at a direction led to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outcome {
    /// Nothing new.
    Nothing,
    /// Rates change, for this reason.
    Changed(Reason),
    /// The delay does not follow: so much of it is not in this direction.
    NotHere(f64),
    /// The way in this direction has become so much longer, s.
    Longer(f64),
    /// Between so much and so much, s, stood for some time whatever was sent.
    Stood { least: f64, most: f64 },
}

/// One direction.
#[derive(Debug, Clone)]
pub(super) struct DirectionState {
    pub dir: Direction,
    pub meter: Meter,
    /// How long the packets are that pass.
    pub(super) packet_size: PacketSize,
    /// What the line carries, and since when that is known.
    pub capacity: Option<(f64, f64)>,
    /// The standard error of that, as a share.
    error: f64,
    /// What was known before this queue.
    prior: Option<Estimate>,
    pub phase: Phase,
    /// What large probes told of the line.
    serialization_rate: Option<SerializationRate>,
    /// Probes since the queue stands.
    run: Run,
    /// The rhythm by which it is followed if it never settles.
    pulses: Pulses,
    /// The latest probe.
    pub latest: Option<Point>,
    /// No queue since.
    quiet: f64,
    /// The probe that saw that the latest queue was gone, or the latest try over: when it was sent, and how long it
    /// waited.
    settled: (f64, f64),
    /// When the latest probe was sent that met no queue.
    pub(super) clear: f64,
    /// Tries: the next not before, and how long to wait after one that found nothing.
    pub next_probe_up: f64,
    patience: f64,
    /// The first step of the next is at least this: larger where much may have changed.
    stride: f64,
    /// When the first capacity was found.
    first: f64,
    /// How much it changes, 0 to 1, and as of when.
    volatility: (f64, f64),
    /// How far below its estimate it is held.
    caution: Caution,
    /// The most it carried since a queue was last seen to end.
    proved: f64,
    /// What it carried for [`TESTED`] seconds without a queue.
    tested: f64,
    /// The most that it carried for certain of late: used without a queue, or with one that followed a cut.
    alone: f64,
    /// When a queue did not follow what we sent, the latest time.
    contested: f64,
    /// Between looks whose a queue is that did not follow, s; 0: none stands.
    tests: f64,
    /// A queue is known to be in this direction.
    pub is_attributed: bool,
    /// It may be in either, and both are cut.
    pub is_ambiguous: bool,
    /// What is lost where no queue shows what it carries.
    losses: Losses,
    /// A first capacity that a queue of somebody else's seemed to show.
    refuted: Option<Refuted>,
    /// Its delay changes by itself, as that of mobile lines.
    wanders: bool,
    /// So many queues in a row went that may have been elsewhere.
    followed: u32,
    /// What others send on this line is known so much later, s.
    pub others_lag: f64,
    /// Somebody has come whose bytes are not counted yet.
    pub has_newcomer: bool,
    /// Limits by the person.
    pub least: f64,
    pub most: f64,
    /// Highest queue seen while nothing was shaped.
    pub unshaped_queue: f64,
    /// Is done without.
    pub left_out: Option<Rule>,
}

impl DirectionState {
    pub(super) fn new(dir: Direction) -> Self {
        DirectionState {
            dir,
            meter: Meter::default(),
            packet_size: PacketSize::default(),
            capacity: None,
            error: GUESSED,
            prior: None,
            phase: Phase::Open(Opening::default()),
            serialization_rate: None,
            run: Run::new(dir),
            pulses: Pulses::default(),
            latest: None,
            quiet: 0.0,
            settled: (f64::MIN, 0.0),
            clear: f64::MIN,
            next_probe_up: 0.0,
            patience: PATIENCE,
            stride: 0.0,
            first: f64::MIN,
            volatility: (0.0, 0.0),
            caution: Caution::default(),
            proved: 0.0,
            tested: 0.0,
            alone: 0.0,
            contested: f64::MIN,
            tests: 0.0,
            is_attributed: true,
            losses: Losses::default(),
            refuted: None,
            wanders: false,
            followed: 0,
            is_ambiguous: false,
            others_lag: 0.0,
            has_newcomer: false,
            least: 8_000.0,
            most: f64::MAX,
            unshaped_queue: 0.0,
            left_out: None,
        }
    }

    /// Whether `rule` is applied.
    fn has(&self, rule: Rule) -> bool {
        self.left_out != Some(rule)
    }

    /// The capacity to shape by, and a factor by which to go below it.
    pub(super) fn target(&self, context: &Context) -> Option<(f64, f64)> {
        let (capacity, _) = self.capacity?;
        if let Phase::Compete(c) = self.phase {
            return Some((self.bounded(c.alone), 1.0));
        }
        if self.has_pulses(context) {
            return Some((capacity, self.pulse(capacity, context)));
        }
        let held = capacity * (1.0 - self.caution.share());
        Some(match self.phase {
            Phase::Open(_) => return None,
            Phase::Steady | Phase::Compete(_) => (held, 1.0),
            Phase::ProbeUp(step) => (self.bounded(step.level), 1.0),
            Phase::Drain(drain) => (held, self.cut_to(&drain, capacity, context)),
        })
    }

    /// What acknowledgements of what comes need, bytes/s: held up, they would seem to be a queue of the line.
    fn acknowledges(&self, context: &Context) -> f64 {
        match self.dir {
            Direction::Up => ACKNOWLEDGES * context.comes,
            Direction::Down => 0.0,
        }
    }

    /// What may be sent while nothing is known, if that is held.
    pub(super) fn opened(&self, context: &Context) -> Option<f64> {
        match self.phase {
            Phase::Open(opening) => self.let_out(opening, context),
            _ => None,
        }
    }

    /// A probe came back.
    pub(super) fn observe(&mut self, p: Point, context: &Context) {
        self.latest = Some(p);
        if self.has_pulses(context) {
            self.listen(p, context);
        }
        self.wanders = self.has(Rule::Wandering) && context.unexplained > WANDERS;
        let prior = self.known().filter(|_| !self.is_volatile(context.now));
        let began = self.run.is_empty();
        let open = matches!(self.phase, Phase::Open(_));
        let hidden = open && context.wander > HIDES;
        if self.run.push(p, context.rise, context.pace, hidden) {
            if began {
                self.prior = prior;
            }
            self.quiet = context.now;
            if open {
                self.unshaped_queue = self.unshaped_queue.max(p.queue);
            }
        } else {
            self.clear = p.left;
            self.proved = 0.0;
        }
    }

    /// A queue has gone, or a try is over.
    fn settles(&mut self, now: f64) {
        self.settled = self.latest.map_or((now, 0.0), |p| (p.left, p.queue));
    }

    /// How long what is sent now would wait at the bottleneck: as measured, and for our own
    /// direction carried on with what was sent since.
    fn queue_now(&self, context: &Context) -> Option<f64> {
        self.waits(self.capacity?.0, context)
    }

    /// The same if the bottleneck `carries` so much.
    fn waits(&self, carries: f64, context: &Context) -> Option<f64> {
        let p = self.latest?;
        if self.dir == Direction::Down {
            return Some(p.queue);
        }
        let sent = self.meter.since(p.left)?;
        let until = self.meter.latest()?;
        let gone = (until - p.left).max(0.0);
        let beyond = (context.now - until).max(0.0);
        Some((p.queue + sent / carries - gone - beyond * 0.5).max(0.0))
    }

    /// Bytes per second of late.
    pub(super) fn throughput(&self, context: &Context) -> f64 {
        let packets = self.capacity.map_or(0.0, |c| 16.0 * context.packet / c.0);
        let span = packets.max(0.1).max(2.0 * context.pace).min(2.0);
        self.meter.rate(span).unwrap_or(0.0)
    }

    /// The share of `rate` that is used.
    fn used(&self, rate: f64, context: &Context) -> f64 {
        self.throughput(context) / rate.max(1.0)
    }

    fn changed(&mut self, before: Option<f64>, found: f64, now: f64) {
        let Some(before) = before else {
            self.first = now;
            return;
        };
        let by = (found / before).ln().abs();
        // First looks are corrected, small changes are no volatility, and what did not follow a cut may be nobody's. Where
        // others' bytes are known late, what seems to change may be them.
        let known = self.is_attributed && self.others_lag == 0.0;
        if known && !self.is_contested() && by > 0.1 && now - self.first > CORRECTED {
            self.stride = LARGEST_FIRST;
            let more = (VOLATILITY * by).min(ONE_CHANGE);
            self.volatility = ((self.volatility(now) + more).min(1.0), now);
        }
    }

    /// A queue stands that is to go.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Drain(_))
    }

    /// A queue stands that may be somebody else's: it did not follow a cut.
    fn is_contested(&self) -> bool {
        match self.phase {
            Phase::Drain(drain) => drain.failures > 0,
            Phase::Compete(_) => true,
            Phase::Open(_) | Phase::Steady | Phase::ProbeUp(_) => false,
        }
    }

    /// The way became another one: the line may be as well.
    pub(super) fn rerouted(&mut self, now: f64) {
        self.stride = LARGEST_FIRST;
        self.patience = PATIENCE;
        self.next_probe_up = self.next_probe_up.min(now);
    }

    /// How much the line changes, 0 to 1.
    fn volatility(&self, now: f64) -> f64 {
        if !self.has(Rule::Following) {
            return 0.0;
        }
        let (volatility, at) = self.volatility;
        let least = if self.wanders { WANDERING } else { 0.0 };
        least.max(volatility * 0.5f64.powf((now - at).max(0.0) / CALMS))
    }

    /// Whether it is followed rather than settled on.
    fn is_volatile(&self, now: f64) -> bool {
        self.volatility(now) >= FOLLOWED
    }

    /// The queue that is kept on purpose.
    pub(super) fn standing_queue(&self, now: f64) -> f64 {
        let volatility = self.volatility(now);
        STANDING_QUEUE * (volatility - FOLLOWED).max(0.0) / (1.0 - FOLLOWED)
    }

    /// The queue that is not drained.
    fn stays(&self, drain: &Drain, context: &Context) -> f64 {
        drain
            .doubted
            .unwrap_or_else(|| self.standing_queue(context.now))
    }

    /// Looks at what is known now; `may_try`: the other direction rests.
    pub(super) fn decide(&mut self, context: &Context, may_probe_up: bool) -> Outcome {
        let standing_queue = self.standing_queue(context.now);
        let queue = self.latest.map_or(0.0, |p| p.queue);
        self.note_tested(context);
        if let Phase::Compete(c) = self.phase {
            return self.competes(c, context);
        }
        if self.has_pulses(context) {
            return self.follow_pulses(context);
        }
        match self.phase {
            Phase::Drain(drain) => self.drain(drain, context),
            Phase::Steady | Phase::ProbeUp(_)
                if standing_queue > 0.0
                    && queue < standing_queue + context.rise
                    && !self.run.is_empty() =>
            {
                self.follow(queue, standing_queue, context)
            }
            Phase::Open(opening) if self.awaits_newcomers(opening, context) => {
                self.opens_beside_newcomers(opening, context)
            }
            Phase::Open(opening) => match self.meets_a_queue(context) {
                Outcome::Nothing => self.open(opening, context),
                known => known,
            },
            _ if self.run.len() >= 2 => self.meets_a_queue(context),
            Phase::Steady if may_probe_up => self.steady(context),
            Phase::ProbeUp(step) if self.run.is_empty() => self.probe_up(step, context),
            _ => Outcome::Nothing,
        }
    }

    /// Two probes in a row did.
    fn meets_a_queue(&mut self, context: &Context) -> Outcome {
        if self.run.len() >= 2 && self.is_loaded(context) {
            self.congested(context)
        } else {
            Outcome::Nothing
        }
    }

    /// Whether it was used to the full without a queue for some time.
    pub(super) fn is_tested(&self) -> bool {
        let same = |c: f64| (self.tested / c - 1.0).abs() < SAME;
        self.capacity.is_some_and(|c| same(c.0))
    }

    fn note_tested(&mut self, context: &Context) {
        let full_without_queue = self.capacity.filter(|(capacity, _)| {
            self.phase == Phase::Steady
                && self.run.is_empty()
                && self.used(*capacity, context) > FULL
        });
        self.caution
            .looked(context.now, full_without_queue.is_some());
        if let Some((capacity, _)) = full_without_queue
            && context.now - self.quiet > TESTED
        {
            self.tested = capacity;
            self.alone = capacity;
        }
    }

    /// Whether a queue can be ours at all.
    pub(super) fn is_loaded(&self, context: &Context) -> bool {
        let Some((capacity, _)) = self.capacity else {
            return true;
        };
        self.used(capacity, context) >= IN_USE
    }
}
