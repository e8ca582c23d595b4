//! Losses are the evidence where no queue shows what the line carries: a buffer of a packet or two, or a provider that
//! polices.
//!
//! | state | what a stretch shows | next |
//! |---|---|---|
//! | calm | few retransmissions, or for the first time many | calm |
//! | calm | many for the second time in a row | shaped to what passed; tested |
//! | tested | few | calm; more is tried after a while, twice as long each time that the same was found |
//! | tested | many, and the rate is not much lower than before the test | shaped to less; tested |
//! | tested | as many as before at a rate that is much lower | calm, as before the test: the line loses by itself |
//! | any | a queue is drained | calm |
//!
//! Principles: what is lost at a rate is evidence against the rate, what is lost at any rate is none; one stretch is no
//! evidence, since a sender that starts loses much once; what our own queue threw away is not the line's; a line that has
//! shown a queue shows others; a burst towards us has passed the line's buffer before it meets our shaper, so what it loses
//! there says nothing of a rate (decision 0101). A retransmission comes round trips after what it is for, so a stretch after
//! a cut begins late, and what our own queue threw away before a stretch counts in it; from us nothing is held at first, and
//! what is lost until it is says nothing either (decision 0123). Non-goals: random losses of a few in
//! a hundred, which senders live with.

use std::collections::VecDeque;

use super::opening::FIRST;
use super::{Context, DirectionState, GUESSED, Outcome, Phase};
use crate::Direction;
use crate::control::{Reason, Rule};

/// Less than this share is nothing: queues that are managed, and radio, lose some of a hundred.
const LOST: f64 = 0.05;
/// And fewer packets than this say nothing.
const PACKETS: f64 = 4.0;
/// Up to so many times what was lost is sent again: without SACK all that was in flight goes again after a timeout (RFC
/// 5681, section 3.1). Decision 0088 has the run.
const AGAIN: f64 = 2.0;
/// What a line loses by itself is no evidence, up to so many times that; half of that is forgotten in so long, s.
const BY_ITSELF: f64 = 2.0;
const FORGOTTEN: f64 = 60.0;
/// A line that has held so many packets shows by queues what it carries; senders send again for other reasons as well
/// (without SACK all that came after a loss).
const HOLDS: f64 = 4.0;
/// So many stretches in a row with losses are evidence; where they were within the latest minute one is.
const IN_A_ROW: u32 = 2;
/// Towards us losses are evidence where this share of the most that passed did so all the time (decision 0101).
const SUSTAINED: f64 = 0.5;
/// A cut helped if less than this share of what was lost is lost then; one to more than this share of the rate tells
/// nothing of that.
const HELPED: f64 = 0.6;
const DECISIVE: f64 = 0.85;
/// No line that anybody uses loses more than this share by itself: more is what was lost before the cut, which senders go
/// on to send again after timeouts (decision 0123; not varied).
const MOST_BY_ITSELF: f64 = 0.2;
/// A stretch is so long at least, s, and begins so long after a cut, s, or so many round trips.
const STRETCH: f64 = 1.0;
const SETTLES: f64 = 1.0;
const ROUND_TRIPS: f64 = 4.0;
/// With too few packets in it a stretch goes on for so long at most, s.
const LONGEST: f64 = 5.0;
/// What passed is measured over so long, s: from us longer, since senders send faster than it passes; the most of it is
/// remembered for so long, s.
const MEASURED_UP: f64 = 0.5;
const MEASURED_DOWN: f64 = 0.1;
const REMEMBERED: f64 = 4.0;
/// What was found is the same again within this share; then the wait for more is twice as long.
const ALIKE: f64 = 0.15;
/// More is tried after so long, s, up to so long.
const FIRST_WAIT: f64 = 2.0;
const LONGEST_WAIT: f64 = 60.0;
/// What was found by losses is too low by an unknown share of what was lost: it is tried in so many steps (decision
/// 0123; not varied).
const STEPS: f64 = 3.0;
/// So many times what losses showed passes without any: they were a burst's, or the line has become faster (decision 0123;
/// not varied).
const REFUTES: f64 = 1.5;
/// Every step of a try is waited for so long, s, where losses were the evidence within the latest minute.
pub(super) const SHOWS: f64 = 2.0;
const LATELY: f64 = 60.0;

/// Bytes of TCP's payload so far, in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TcpPayload {
    /// All that passed.
    pub all: f64,
    /// Of that, what had passed before.
    pub retransmitted: f64,
    /// About what our own queue threw away.
    pub dropped: f64,
}

/// Cuts that are to show whether losses are the rate's.
#[derive(Debug, Clone, Copy)]
struct Test {
    /// Before the first of them: the share that was lost, what passed, bytes/s, and what the line was thought to carry.
    lost: f64,
    passed: f64,
    before: Option<f64>,
}

/// What is known of losses in one direction.
#[derive(Debug, Clone)]
pub(super) struct Losses {
    /// Where a stretch began, once it has.
    from: Option<(f64, TcpPayload)>,
    /// None begins before this.
    not_before: f64,
    /// What is sent was not held until then, s.
    unheld: f64,
    /// What our own queue had thrown away of late: when, bytes.
    dropped: VecDeque<(f64, f64)>,
    /// What passed of late: when, bytes/s.
    passed: VecDeque<(f64, f64)>,
    test: Option<Test>,
    /// So many stretches in a row had losses.
    in_a_row: u32,
    /// What the line was found to carry by losses, and what passed, in part, when there were some: it carries less.
    found: Option<f64>,
    lossy: f64,
    /// The longest queue that followed a cut, bytes.
    held: f64,
    /// The line loses this share by itself, as of then.
    by_itself: (f64, f64),
    /// How long to wait for the next try, s, and when losses were evidence last.
    wait: f64,
    latest: f64,
}

impl Default for Losses {
    fn default() -> Self {
        Losses {
            from: None,
            not_before: 0.0,
            unheld: f64::MIN,
            dropped: VecDeque::new(),
            passed: VecDeque::new(),
            test: None,
            in_a_row: 0,
            found: None,
            lossy: 0.0,
            held: 0.0,
            by_itself: (0.0, 0.0),
            wait: FIRST_WAIT,
            latest: f64::MIN,
        }
    }
}

impl Losses {
    /// The line held so many bytes.
    pub(super) fn held(&mut self, bytes: f64) {
        self.held = self.held.max(bytes);
    }

    /// So much, bytes/s, has passed without losses: they were no evidence of a rate that is far lower.
    pub(super) fn refuted_by(&mut self, reached: f64) {
        if self.found.is_some_and(|found| reached > REFUTES * found) {
            self.found = None;
            self.latest = f64::MIN;
        }
    }

    /// Our own queue has thrown away so many bytes by now.
    fn note_dropped(&mut self, dropped: f64, now: f64) {
        // Counters of a queue that was set up anew begin at nought.
        if self.dropped.back().is_some_and(|d| dropped < d.1) {
            self.dropped.clear();
            self.from = None;
        }
        self.dropped.push_back((now, dropped));
        while self
            .dropped
            .front()
            .is_some_and(|d| now - d.0 > REMEMBERED + LONGEST)
        {
            self.dropped.pop_front();
        }
    }

    /// So many bytes has it thrown away from `since` on.
    fn dropped_from(&self, since: f64) -> f64 {
        let until_then = self.dropped.iter().rev().find(|d| d.0 <= since);
        let first = until_then.or(self.dropped.front());
        let last = self.dropped.back();
        first
            .zip(last)
            .map_or(0.0, |(first, last)| last.1 - first.1)
    }

    /// The share that was lost of late, once a stretch is over, which then begins anew. What is sent again is sent so long
    /// after it was lost at most, `late` s.
    fn share(&mut self, payload: TcpPayload, packet: f64, late: f64, now: f64) -> Option<f64> {
        let (began, before) = *self.from.get_or_insert((now, payload));
        let is_anew = payload.all < before.all;
        if now < self.not_before || is_anew {
            self.from = None;
            return None;
        }
        let all = payload.all - before.all;
        let dropped = AGAIN * self.dropped_from(began - late);
        let lost = (payload.retransmitted - before.retransmitted - dropped).max(0.0);
        let tells = lost > PACKETS * packet || all > PACKETS / LOST * packet;
        let is_over = now - began >= STRETCH && tells;
        if !is_over && now - began < LONGEST {
            return None;
        }
        self.from = Some((now, payload));
        let share = if lost < PACKETS * packet {
            0.0
        } else {
            lost / all
        };
        is_over.then_some(share)
    }

    /// From this share on losses are evidence.
    fn least(&self, now: f64) -> f64 {
        let (share, at) = self.by_itself;
        LOST.max(BY_ITSELF * share * 0.5f64.powf((now - at).max(0.0) / FORGOTTEN))
    }

    /// The most that passed of late, bytes/s.
    fn most(&self) -> f64 {
        self.passed.iter().map(|p| p.1).fold(0.0, f64::max)
    }
}

/// How long after what was lost it is sent again, s, at most as a rule.
fn settles(context: &Context) -> f64 {
    SETTLES.max(ROUND_TRIPS * context.rtt)
}

impl DirectionState {
    /// So much of TCP's payload passed by now. To be called about twice a second.
    pub(in crate::control) fn note_payload(
        &mut self,
        payload: TcpPayload,
        context: &Context,
    ) -> Outcome {
        if !self.has(Rule::Losses) {
            return Outcome::Nothing;
        }
        let now = context.now;
        self.losses.passed.push_back((now, self.most_passed(now)));
        let is_old = |p: &(f64, f64)| now - p.0 > REMEMBERED;
        while self.losses.passed.front().is_some_and(is_old) {
            self.losses.passed.pop_front();
        }
        self.losses.note_dropped(payload.dropped, now);
        // What a full buffer throws away is told by its queue.
        let stands = matches!(self.phase, Phase::Drain(_) | Phase::Compete(_));
        if stands || self.losses.held > HOLDS * context.packet {
            self.losses.from = None;
            self.losses.test = None;
            return Outcome::Nothing;
        }
        let late = settles(context);
        if self.is_unheld(context) && self.has(Rule::UnheldLosses) {
            self.losses.unheld = now;
        } else if now < self.losses.unheld + late {
            self.losses.from = None;
            self.losses.in_a_row = 0;
            return Outcome::Nothing;
        }
        let began = self.losses.from.map_or(now, |from| from.0);
        let Some(share) = self.losses.share(payload, context.packet, late, now) else {
            return Outcome::Nothing;
        };
        let share = if self.is_sustained(began, now) {
            share
        } else {
            0.0
        };
        let test = self.losses.test.take();
        if let Some(test) = test.filter(|t| share > HELPED * t.lost) {
            let capacity = self.capacity.map_or(f64::MAX, |c| c.0);
            let is_decisive = capacity < DECISIVE * test.passed;
            if is_decisive && share > MOST_BY_ITSELF {
                self.losses.test = Some(test);
                return Outcome::Nothing;
            }
            return if is_decisive {
                self.loses_by_itself(test, share, context)
            } else {
                self.loses(share, Some(test), context)
            };
        }
        if share < self.losses.least(now) {
            self.losses.in_a_row = 0;
            return Outcome::Nothing;
        }
        self.losses.in_a_row += 1;
        if self.losses.in_a_row < IN_A_ROW && !self.shows_losses(now) {
            return Outcome::Nothing;
        }
        self.loses(share, None, context)
    }

    /// Whether what is sent meets the line's buffer as its senders send it, in bursts: it is not held.
    fn is_unheld(&self, context: &Context) -> bool {
        match self.phase {
            Phase::Open(opening) if self.dir == Direction::Up => {
                self.let_out(opening, context).is_none()
            }
            _ => false,
        }
    }

    /// Whether so much passed since the stretch began as makes losses evidence of a rate. Towards us a burst that a short
    /// buffer loses, and the silence after it, are none: a burst has passed that buffer before it meets our shaper. From us
    /// it meets our shaper first, which makes it slower.
    fn is_sustained(&self, began: f64, now: f64) -> bool {
        let passed = self.meter.between(began, now).unwrap_or(0.0) / (now - began);
        self.dir == Direction::Up || passed > SUSTAINED * self.losses.most()
    }

    /// The most that passed since the latest look, bytes/s.
    fn most_passed(&self, now: f64) -> f64 {
        let since = self.losses.passed.back().map_or(now, |p| p.0);
        let measured = match self.dir {
            Direction::Up => MEASURED_UP,
            Direction::Down => MEASURED_DOWN,
        };
        let steps = ((now - since) / measured).round().clamp(1.0, 10.0) as u32;
        let latest = self.meter.latest().unwrap_or(now);
        let passed = (0..steps).filter_map(|n| {
            let until = latest - f64::from(n) * measured;
            Some(self.meter.between(until - measured, until)? / measured)
        });
        passed.fold(0.0, f64::max)
    }

    /// Too much is lost: the line carries what passed. `test`: that this goes on.
    fn loses(&mut self, lost: f64, test: Option<Test>, context: &Context) -> Outcome {
        let passed = self.losses.most();
        let most = match self.dir {
            // What was lost is counted before it was.
            Direction::Up => passed * (1.0 - lost),
            Direction::Down => passed,
        };
        let before = self.capacity.map(|c| c.0);
        let found = match self.phase {
            Phase::ProbeUp(step) => most.max(step.before),
            _ => before.map_or(most, |c| most.min(c * (1.0 - lost))),
        };
        // Losses alone do not say that a line is slower than the slowest that are sold.
        let least = before.unwrap_or(FIRST).min(FIRST);
        let found = found.max(self.acknowledges(context)).max(least);
        let losses = &mut self.losses;
        let is_same = losses
            .found
            .is_some_and(|f| (found / f - 1.0).abs() < ALIKE);
        losses.wait = if is_same {
            (2.0 * losses.wait).min(LONGEST_WAIT)
        } else {
            FIRST_WAIT
        };
        losses.found = Some(found);
        losses.lossy = passed;
        losses.test = test.or(Some(Test {
            lost,
            passed,
            before,
        }));
        losses.latest = context.now;
        let wait = losses.wait;
        self.shape_to(found, wait, context);
        // What passed and what was lost together are the most that the line can carry.
        self.error = lost.min(GUESSED);
        Outcome::Changed(Reason::Losses {
            dir: self.dir,
            percent: 100.0 * lost,
        })
    }

    /// As much is lost as before the cut.
    fn loses_by_itself(&mut self, test: Test, lost: f64, context: &Context) -> Outcome {
        self.losses.by_itself = (lost.min(test.lost), context.now);
        self.losses.wait = FIRST_WAIT;
        if let Some(before) = test.before {
            self.shape_to(before, 0.0, context);
        } else {
            self.capacity = None;
            self.open_again(0.0);
        }
        Outcome::Changed(Reason::LosesByItself { dir: self.dir })
    }

    fn shape_to(&mut self, capacity: f64, wait: f64, context: &Context) {
        self.losses.not_before = context.now + settles(context);
        self.losses.passed.clear();
        self.prior = None;
        self.capacity = Some((self.bounded(capacity), context.now));
        self.error = GUESSED;
        self.phase = Phase::Steady;
        self.next_probe_up = context.now + wait;
    }

    /// A step up from `level` where losses are the evidence, as a share: so far is it from what is lost, in [`STEPS`] steps.
    pub(super) fn step_without_losses(&self, level: f64) -> f64 {
        if !self.has(Rule::LossSteps) {
            return 0.0;
        }
        ((self.losses.lossy / level).max(1.0).ln() / STEPS).exp_m1()
    }

    /// Losses, and no queue, showed of late what the line carries.
    pub(super) fn shows_losses(&self, now: f64) -> bool {
        now - self.losses.latest < LATELY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::direction::Step;
    use crate::control::rate_fit::Point;

    #[test]
    fn what_our_own_queue_threw_away_before_a_stretch_is_sent_again_in_it() {
        let share = |dropped: f64| {
            let mut losses = Losses::default();
            let mut share = |now: f64, all: f64, retransmitted: f64| {
                let payload = TcpPayload {
                    all,
                    retransmitted,
                    dropped: dropped * (2.0 * now).min(1.0),
                };
                losses.note_dropped(payload.dropped, now);
                if now < 1.0 {
                    return None;
                }
                losses.share(payload, 1538.0, SETTLES, now)
            };
            for (now, all) in [(0.0, 0.0), (0.5, 20e3), (1.0, 40e3), (1.5, 50e3)] {
                assert_eq!(share(now, all, 0.0), None);
            }
            share(2.0, 72e3, 13e3)
        };
        assert!(share(0.0).unwrap() > 0.4);
        assert_eq!(share(15e3), None);
    }

    /// What the line is shaped to at the end of so long, s, where so much is wanted and so much carried, bytes/s,
    /// without a queue, and this share is lost whatever is sent; and the share that was lost in the latest half.
    fn shaped(dir: Direction, wanted: f64, carries: f64, loses: f64) -> (f64, f64) {
        let (lasts, step) = (120.0, 0.02);
        let mut way = DirectionState::new(dir);
        let (mut counted, mut payload) = (0.0, TcpPayload::default());
        let mut latest = [0.0; 2];
        for n in 1..=(lasts / step) as u32 {
            let now = f64::from(n) * step;
            let context = Context::of_test(now);
            let level = way.target(&context).map(|(c, factor)| c * factor);
            let level = way.opened(&context).or(level).unwrap_or(f64::MAX);
            let comes = level.min(wanted);
            let lost = (comes - carries).max(0.0) + loses * comes.min(carries);
            counted += step
                * if dir == Direction::Up {
                    comes
                } else {
                    comes - lost
                };
            payload.all += step * comes;
            payload.retransmitted += step * lost;
            way.meter.note(now, counted);
            let point = Point {
                left: now - context.rtt,
                came: now,
                queue: 0.0,
            };
            way.observe(point, &context);
            let _ = way.decide(&context, true);
            if n % 25 == 0 {
                let _ = way.note_payload(payload, &context);
            }
            if now > lasts / 2.0 {
                latest = [latest[0] + comes, latest[1] + lost];
            }
        }
        let level = way.capacity.map_or(f64::MAX, |c| c.0);
        (level, latest[1] / latest[0])
    }

    #[test]
    fn a_line_that_polices_is_shaped_to_what_it_carries() {
        for dir in Direction::BOTH {
            for (wanted, carries) in [(1e6, 5e5), (2e6, 1e5), (6e5, 5e5)] {
                let (level, lost) = shaped(dir, wanted, carries, 0.0);
                let is_near = (0.85 * carries..1.3 * carries).contains(&level);
                assert!(is_near, "{dir} {wanted} {carries}: {level}");
                assert!(lost < 0.06, "{dir} {wanted} {carries}: {lost}");
            }
        }
    }

    #[test]
    fn a_line_that_loses_by_itself_is_used_all_the_same() {
        for dir in Direction::BOTH {
            for loses in [0.01, 0.04, 0.1] {
                let (level, _) = shaped(dir, 5e5, 1e6, loses);
                assert!(level > 4.5e5, "{dir} {loses}: {level}");
            }
        }
    }

    /// Whether something was learned of a line that carries 1 MB/s by bursts of which a fifth is lost in a short buffer, each
    /// second one that lasts so long, s.
    fn is_known_by_bursts(dir: Direction, lasts: f64) -> bool {
        let (mut way, mut payload, mut counted) =
            (DirectionState::new(dir), TcpPayload::default(), 0.0);
        let mut is_known = false;
        for n in 1..=1000 {
            let now = f64::from(n) * 0.01;
            if now.fract() < lasts {
                counted += 1e4;
                payload.all += 1e4;
                payload.retransmitted += 2e3;
            }
            way.meter.note(now, counted);
            if n % 50 == 0 {
                let _ = way.note_payload(payload, &Context::of_test(now));
            }
            is_known |= way.capacity.is_some();
        }
        is_known
    }

    #[test]
    fn towards_us_what_bursts_lose_says_nothing_of_a_rate() {
        assert!(!is_known_by_bursts(Direction::Down, 0.15));
        assert!(is_known_by_bursts(Direction::Up, 0.15));
        assert!(is_known_by_bursts(Direction::Down, 0.9));
    }

    #[test]
    fn what_is_lost_before_it_is_held_says_nothing_of_a_rate() {
        let (mut way, mut payload) = (DirectionState::new(Direction::Up), TcpPayload::default());
        for n in 1..=20 {
            let now = f64::from(n) * 0.5;
            way.meter.note(now, 1e6 * now);
            payload.all += 5e5;
            if now < 3.6 {
                payload.retransmitted += 1e5;
            }
            let context = Context {
                known: now > 1.6,
                ..Context::of_test(now)
            };
            assert_eq!(way.note_payload(payload, &context), Outcome::Nothing);
        }
    }

    #[test]
    fn what_was_lost_before_a_cut_comes_again_for_seconds() {
        let (mut way, mut payload) = (DirectionState::new(Direction::Up), TcpPayload::default());
        let mut passed = 0.0;
        for n in 1..=24 {
            let now = f64::from(n) * 0.5;
            let cut = way.capacity.map(|c| c.0);
            // Timeouts: most of what is sent after the cut was lost before it.
            let sent = cut.map_or(1e6, |c| c.min(1e6)) * 0.5;
            passed += sent;
            payload.all += sent;
            payload.retransmitted += 0.6 * sent;
            way.meter.note(now, passed);
            let _ = way.note_payload(payload, &Context::of_test(now));
            assert!(now < 3.0 || cut.is_some_and(|c| c < 5e5), "{now} {cut:?}");
        }
    }

    #[test]
    fn losses_never_raise_what_is_known() {
        let mut way = DirectionState::new(Direction::Up);
        way.believe(2e4, 0.0);
        let mut payload = TcpPayload::default();
        for n in 1..=20 {
            let now = f64::from(n) * 0.5;
            way.meter.note(now, 2e4 * now);
            payload.all += 1e4;
            payload.retransmitted += 4e3;
            let _ = way.note_payload(payload, &Context::of_test(now));
            assert!(way.capacity.is_some_and(|c| c.0 <= 2e4), "{now}");
        }
        assert!(way.shows_losses(10.0));
    }

    #[test]
    fn what_passes_without_losses_refutes_them() {
        let mut way = DirectionState::new(Direction::Up);
        way.losses.found = Some(1e5);
        way.losses.latest = 0.0;
        let context = Context::of_test(5.0);
        way.proven(1.4e5, &context);
        assert!(way.shows_losses(5.0));
        way.proven(1.6e5, &context);
        assert!(!way.shows_losses(5.0));
    }

    #[test]
    fn steps_are_as_large_as_what_losses_leave_open() {
        let mut way = DirectionState::new(Direction::Up);
        way.losses.lossy = 8e5;
        let steps = [1e5, 8e5, 1e6].map(|level| way.step_without_losses(level));
        assert!((steps[0] - 1.0).abs() < 1e-9, "{steps:?}");
        assert_eq!(steps[1..], [0.0, 0.0]);
    }

    /// The step that follows one of a tenth that was used to the full for 2.5 s, where losses were the evidence or not.
    fn step_after_one_that_passed(shows_losses: bool) -> Step {
        let (mut way, began) = (DirectionState::new(Direction::Up), 9.0);
        way.believe(1e6, 0.0);
        if shows_losses {
            way.losses.latest = 0.0;
        }
        for n in 0..=250 {
            let since = f64::from(n) * 0.01;
            way.meter.note(began + since, 1.1e6 * since);
        }
        let step = Step {
            level: 1.1e6,
            next: 0.1,
            since: began,
            before: 1e6,
        };
        way.phase = Phase::ProbeUp(step);
        let _ = way.probe_up(step, &Context::of_test(began + 2.5));
        match way.phase {
            Phase::ProbeUp(step) => step,
            phase => panic!("{phase:?}"),
        }
    }

    #[test]
    fn steps_do_not_grow_and_what_passed_stays_where_losses_are_the_evidence() {
        let [by_queues, by_losses] = [false, true].map(step_after_one_that_passed);
        assert_eq!((by_queues.next, by_queues.before), (0.2, 1e6));
        assert_eq!((by_losses.next, by_losses.before.round()), (0.1, 1.1e6));
    }

    #[test]
    fn what_our_own_queue_threw_away_is_not_the_lines() {
        let mut way = DirectionState::new(Direction::Up);
        way.believe(1e5, 0.0);
        for n in 1..=40 {
            let now = f64::from(n) * 0.5;
            way.meter.note(now, 1e5 * now);
            let payload = TcpPayload {
                all: 1e5 * now,
                retransmitted: 1e4 * now,
                dropped: 4e3 * now,
            };
            assert_eq!(
                way.note_payload(payload, &Context::of_test(now)),
                Outcome::Nothing
            );
        }
    }

    #[test]
    fn a_queue_that_was_set_up_anew_is_no_loss() {
        let mut way = DirectionState::new(Direction::Up);
        way.believe(1e5, 0.0);
        for n in 1..=40 {
            let now = f64::from(n) * 0.5;
            way.meter.note(now, 1e5 * now);
            let dropped = f64::from(n % 5) * 3e4;
            let payload = TcpPayload {
                all: 1e5 * now,
                retransmitted: 0.0,
                dropped,
            };
            assert_eq!(
                way.note_payload(payload, &Context::of_test(now)),
                Outcome::Nothing
            );
        }
    }
}
