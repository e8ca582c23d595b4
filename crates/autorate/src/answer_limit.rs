//! How often a reflector answers: routers limit it, and what they leave unanswered is no queue's.
//!
//! | state | what a stretch of probes shows | next |
//! |---|---|---|
//! | free | nearly all are answered, or answers take longer: a queue | free |
//! | free | fewer, and those that come take no longer | limited |
//! | limited | nearly all | limited |
//! | limited | fewer | limited to fewer; at the slowest: lossy, if more came when more were asked for |
//! | limited | half of an hour's sixth has passed | free |
//! | lossy | half of an hour's sixth has passed | free |
//!
//! Principles: a limit shows itself by answers that come without delay or not at all, and by nearly
//! all being answered once fewer are asked for; a stretch ends with an answer, since what only falls
//! silent may be an outage, or a queue that has yet to pass; what asking for less does not help is a
//! line that loses packets. Non-goals: what late probes say of the line (`evenkeel_core::control`).

use std::time::Duration;

/// From one probe to the next: as often as is wanted, and what is tried instead.
const STEPS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(40),
    Duration::from_millis(100),
    Duration::from_millis(250),
    SLOWEST,
];
/// Many routers have a limit of one a second (Linux: `icmp_ratelimit`).
pub(crate) const SLOWEST: Duration = Duration::from_millis(1250);
/// A stretch is so long at least, and has so many probes.
const STRETCH: Duration = Duration::from_secs(1);
const PROBES: u32 = 8;
/// A stretch of fewer in a second says nothing of a limit while as many as wanted are sent.
const MANY: u32 = 20;
/// From this share on nearly all are answered: lines lose a few.
pub(crate) const NEARLY_ALL: f64 = 0.85;
/// So many times what it answered is asked for at most: probes do not come when a limit lets the
/// next one be answered, so a few more are.
const MARGIN: f64 = 1.1;
/// Answers that take so much longer, in the middle, tell of a queue.
const QUEUE: Duration = Duration::from_millis(5);
/// Fewer than this share, by turns with others that are not answered so many times, are a limit whatever they take:
/// a full buffer loses some of many.
const FEW: f64 = 0.2;
const TURNS: u32 = 3;
/// After so long it is tried whether more is answered.
const AGAIN: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// As often as wanted.
    Free,
    /// No more often than [`STEPS`] has at this place; since when.
    Limited(usize, Duration),
    /// Asking for less does not help; since when.
    Lossy(Duration),
}

/// What is known of it.
#[derive(Debug, Clone)]
pub(crate) struct AnswerLimit {
    state: State,
    /// The stretch: when its first probe was sent, how many, and what answers took.
    begun: Option<Duration>,
    probes: u32,
    delays: Vec<Duration>,
    /// When the latest was sent.
    latest: Option<Duration>,
    /// How often an answer came after a probe that was left unanswered; the latest one was.
    turns: u32,
    missing: bool,
    /// The least that an answer took.
    least: Option<Duration>,
    /// The most answers a second that a stretch had.
    most: f64,
}

impl AnswerLimit {
    /// Nothing is known but what was found out before: no more often than each `interval`.
    pub(crate) fn new(interval: Duration, now: Duration) -> Self {
        let step = STEPS.iter().position(|s| *s >= interval);
        let state = match step.unwrap_or(STEPS.len() - 1) {
            0 => State::Free,
            step => State::Limited(step, now),
        };
        AnswerLimit {
            state,
            begun: None,
            probes: 0,
            delays: Vec::new(),
            latest: None,
            turns: 0,
            missing: false,
            least: None,
            most: 0.0,
        }
    }

    /// From one probe to the next at least; nought: as often as is wanted.
    pub(crate) fn interval(&self) -> Duration {
        match self.state {
            State::Limited(step, _) => STEPS[step],
            State::Free | State::Lossy(_) => Duration::ZERO,
        }
    }

    /// A probe sent at `sent` took `delay`, or was not answered. True if [`Self::interval`] is
    /// another one.
    pub(crate) fn note(&mut self, sent: Duration, delay: Option<Duration>) -> bool {
        let since = self
            .latest
            .map_or(Duration::MAX, |l| sent.saturating_sub(l));
        self.latest = Some(sent);
        if since < self.interval() / 2 {
            // Sent before it was asked less often.
            return false;
        }
        let begun = *self.begun.get_or_insert(sent);
        self.probes += 1;
        let Some(delay) = delay else {
            self.missing = true;
            return false;
        };
        self.turns += u32::from(std::mem::take(&mut self.missing));
        self.delays.push(delay);
        self.least = Some(self.least.map_or(delay, |l| l.min(delay)));
        let took = sent.saturating_sub(begun);
        if took < STRETCH || self.probes < PROBES {
            return false;
        }
        let before = self.interval();
        let waits = self.is_queue(delay);
        if waits && self.are_few() && self.turns < TURNS {
            return false;
        }
        self.state = self.judge(took, sent, waits && !self.are_few());
        self.begun = None;
        self.probes = 0;
        self.turns = 0;
        self.delays.clear();
        self.interval() != before
    }

    fn judge(&mut self, took: Duration, now: Duration, waits: bool) -> State {
        let holds = |since| now.saturating_sub(since) < AGAIN;
        let step = match self.state {
            State::Free => 0,
            State::Limited(step, since) if holds(since) => step,
            State::Lossy(since) if holds(since) => return self.state,
            State::Limited(..) | State::Lossy(_) => return State::Free,
        };
        let often = f64::from(self.probes) / took.as_secs_f64();
        let silent = step == 0 && often < f64::from(MANY);
        if self.answered() >= NEARLY_ALL || silent || waits {
            return self.state;
        }
        let answers = self.delays.len() as f64 / took.as_secs_f64();
        self.most = self.most.max(answers);
        let slower = STEPS.iter().skip(step + 1);
        let next = slower.take_while(|s| 1.0 > MARGIN * answers * s.as_secs_f64());
        let next = next.count() + step + 1;
        match (step + 1 < STEPS.len(), next.min(STEPS.len() - 1)) {
            (true, next) => State::Limited(next, now),
            (false, _) if self.most > answers => State::Lossy(now),
            // What few answers say is not worth more of them.
            (false, _) => State::Limited(step, now),
        }
    }

    /// The share that was answered.
    fn answered(&self) -> f64 {
        self.delays.len() as f64 / f64::from(self.probes)
    }

    fn are_few(&self) -> bool {
        self.answered() < FEW
    }

    /// Answers took longer than they would have without a queue: most of them, or the `latest`.
    fn is_queue(&mut self, latest: Duration) -> bool {
        self.delays.sort_unstable();
        let middle = self.delays.get(self.delays.len() / 2).copied();
        let took = latest.max(middle.unwrap_or_default());
        self.least.is_some_and(|l| took.saturating_sub(l) > QUEUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Whoever answers probes, or does not: asked at a time, what it takes.
    type Hop = dyn FnMut(f64) -> Option<Duration>;

    /// The intervals that were found while it is asked for `seconds`, each 20 ms or less often.
    fn asked(seconds: f64, hop: &mut Hop) -> Vec<u128> {
        let mut limit = AnswerLimit::new(Duration::ZERO, Duration::ZERO);
        let (mut now, mut found) = (0.0, Vec::new());
        while now < seconds {
            if limit.note(Duration::from_secs_f64(now), hop(now)) {
                found.push(limit.interval().as_millis());
            }
            now += limit.interval().as_secs_f64().max(0.020);
        }
        found
    }

    /// So many a second, and so many at once (a token bucket, as in Linux' inet_peer_xrlim_allow).
    fn bucket(rate: f64, most: f64) -> impl FnMut(f64) -> Option<Duration> {
        let (mut tokens, mut last) = (most, 0.0);
        move |now| {
            tokens = most.min(tokens + (now - last) * rate);
            last = now;
            let answers = tokens >= 1.0;
            if answers {
                tokens -= 1.0;
            }
            answers.then_some(10 * MS)
        }
    }

    /// Every so many of a hundred are lost, in no order.
    fn losing(percent: u64) -> impl FnMut(f64) -> Option<Duration> {
        let mut x = 1u64;
        move |_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((x >> 33) % 100 >= percent).then_some(10 * MS)
        }
    }

    #[test]
    fn it_is_asked_as_often_as_it_answers() {
        assert_eq!(asked(60.0, &mut bucket(12.0, 1.0)), [100]);
        assert_eq!(asked(60.0, &mut bucket(12.0, 12.0)), [40, 100]);
        assert_eq!(asked(60.0, &mut bucket(1.0, 6.0)), [250, 1250]);
        assert_eq!(asked(60.0, &mut bucket(60.0, 1.0)), []);
        // At fixed times of each second rather than in turn.
        let mut first = |now: f64| (now.fract() < 0.239).then_some(10 * MS);
        assert_eq!(asked(2.0, &mut first), [100]);
    }

    #[test]
    fn loss_is_no_limit() {
        assert_eq!(asked(60.0, &mut losing(5)), []);
        let found = asked(60.0, &mut losing(50));
        assert_eq!(found.last(), Some(&0), "{found:?}");
        assert_eq!(asked(60.0, &mut |_| None), [], "an outage");
    }

    #[test]
    fn a_full_queue_is_no_limit() {
        // It fills, and then two of three are lost.
        let mut n = 0;
        let mut full = move |now: f64| {
            n += 1;
            let queue = (60.0 * now).min(60.0);
            (now < 1.0 || n % 3 == 0).then(|| Duration::from_secs_f64((10.0 + queue) / 1e3))
        };
        assert_eq!(asked(20.0, &mut full), []);
    }

    #[test]
    fn what_a_queue_of_seconds_holds_back_is_no_limit() {
        // The first answers come at once, then none for three seconds, and the next ones late.
        let mut slow = |now: f64| match now {
            n if n < 0.6 => Some(10 * MS),
            n if n < 3.6 => None,
            _ => Some(3000 * MS),
        };
        assert_eq!(asked(8.0, &mut slow), []);
    }

    #[test]
    fn a_limit_shows_also_beside_a_queue() {
        let mut limited = bucket(1.0, 6.0);
        let mut hop = move |now: f64| limited(now).map(|d| if now < 0.5 { d } else { 25 * d });
        let found = asked(20.0, &mut hop);
        assert_eq!(found.last(), Some(&1250), "{found:?}");
    }

    #[test]
    fn after_minutes_more_is_tried_again() {
        let mut limit = AnswerLimit::new(100 * MS, Duration::ZERO);
        assert_eq!(limit.interval(), 100 * MS);
        let changed = (0..4000).find(|n| limit.note(100 * n * MS, Some(10 * MS)));
        assert!(
            changed.is_some_and(|n| (3000..3100).contains(&n)),
            "{changed:?}"
        );
        assert_eq!(limit.interval(), Duration::ZERO);
    }

    #[test]
    fn what_is_asked_seldom_says_nothing_of_more() {
        let mut limit = AnswerLimit::new(Duration::ZERO, Duration::ZERO);
        let odd = |n: u32| (n % 2 == 1).then_some(10 * MS);
        assert!(!(0..100).any(|n| limit.note(100 * n * MS, odd(n))));
    }
}
