//! Method B: trains of packets that are faster than the line.
//!
//! While the line is busy its queue forgets when packets came: the last one of a train has arrived
//! `sum of wire lengths / C` after the first was sent, beyond what a marker alone takes. That holds for
//! a burst and for a train that is spread out to just above the capacity; the burst is less disturbed by
//! what others send, the spread-out train needs no deep buffer. Each train is a marker behind packets of
//! one size; which size tells most between the framings that are still likely is computed, and sent.
//!
//! In the end the **null test**: trains of tiny, huge and mixed packets just above the capacity. With the
//! right framing the queue grows at the same slope for all; sch_cake's maintainers find overheads by hand
//! that way. If it does not, nothing was found.
//!
//! Principles: no train is longer than [`LONGEST`], what all of them take stays within a budget that is
//! known before, and losses end it; how much delay a train makes follows from the noise, so that a quiet
//! line is hardly disturbed. A line whose delays no framing explains is one of which nothing is known.
//! Non-goals: what else the line carries meanwhile (it is noise), sockets.

mod limits;
mod null_test;
mod scaling;
mod telling;
mod train;

use std::time::Duration;

use serde::Serialize;

use super::candidates::SMALLEST;
use super::fit::{Beliefs, Point, beliefs};
use super::{SURE, Verdict};
use crate::Rate;
use crate::framing::Framing;

pub use train::{LONGEST, MARKER, Seen, Train};

/// Markers alone, at first: what an empty line takes, and how much that varies.
const ALONE: usize = 12;
/// So many of the latest count for the base.
const REMEMBERED: usize = 40;
/// A clock's steps and a thread's, s: no line is quieter.
const QUIETEST: f64 = 3e-6;
/// The delay that a train makes, as a multiple of the noise, s.
const DELAY: [f64; 2] = [0.02, 0.28];
const OVER_NOISE: f64 = 400.0;
/// Trains before anything counts as known.
const LEAST: usize = 8;
/// What a policer does.
const DROPPED: &str = "more than the line carries is dropped rather than queued";
/// What a large bucket does.
const LASTS_SLOWER: &str = "bursts are carried faster than what lasts: a token bucket";
/// Trains in all.
const MOST: usize = 70;
/// Packets in one train.
const MOST_PACKETS: u32 = 20_000;
/// The share of the budget that the null test has.
const NULL_SHARE: f64 = 0.3;
/// How much faster than the line the null test's trains are.
const ABOVE: f64 = 0.12;
/// Slopes that differ by more than this share of the rate are different.
const SAME_SLOPE: f64 = 0.004;
/// The marker of a burst comes later by this share of what the burst takes.
const PAUSE: f64 = 0.06;
/// Small packets, of which a queue of packets has room for least.
const SMALL: u32 = 300;
/// A packet of somebody else, bytes: one may come into any train.
const STRAY: f64 = 100.0;
/// So many markers lost in a row end it, and so many trains that were too much.
const LOSSES: u32 = 3;
const OVERFLOWS: u32 = 14;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send this, so long after the last answer.
    Send(Train, Duration),
    /// There is a verdict.
    Done,
}

/// What is known before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The largest IP packet.
    pub mtu: u32,
    /// The smallest one: its headers alone.
    pub smallest: u32,
    /// All trains together may take what the line carries in so many seconds.
    pub budget: f64,
    /// It ends after so long.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mtu: 1500,
            smallest: SMALLEST,
            budget: 2.0,
            patience: Duration::from_secs(8),
        }
    }
}

/// One train of the null test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slope {
    /// Bytes of its packets, in turns.
    pub sizes: Vec<u32>,
    /// What the queue grew by, as a share of the train's duration.
    pub grew: f64,
    /// What it should have grown by with the framing found.
    pub expected: f64,
}

/// Where the bottleneck's queue was seen to end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Depth {
    /// What was waiting when packets were lost, ms.
    pub ms: f64,
    /// Packets of this size were waiting.
    pub size: u32,
    /// So many of them, about.
    pub packets: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Markers alone.
    Alone,
    /// Huge packets, twice as many each time, until the delay is large enough.
    Scale(u32),
    /// Huge packets just above the rate: what others use.
    Others,
    /// What tells most.
    Tell,
    /// The null test: which of its trains.
    Null(usize),
    Done,
}

/// Method B, for one direction.
#[derive(Debug, Clone)]
pub struct Saturation {
    settings: Settings,
    phase: Phase,
    began: Option<Duration>,
    /// What markers alone took, s.
    alone: Vec<f64>,
    /// The next step is a marker alone, for the base.
    refresh: bool,
    /// Bursts of full packets, and what they took.
    scale: Vec<(u32, f64)>,
    points: Vec<Point>,
    beliefs: Option<Beliefs>,
    likely: Option<Framing>,
    /// Somebody counts what arrives.
    counted: bool,
    sent: Option<Train>,
    trains: usize,
    losses: u32,
    /// Trains of which packets were lost.
    overflows: u32,
    /// Of the null test.
    null_losses: u32,
    /// Seconds of the line that were spent.
    spent: f64,
    /// The delay that trains make, s.
    want: f64,
    /// The queue may grow by so much, s.
    growth: f64,
    /// No more small packets than these may wait.
    count: u32,
    /// Packets a second that are sent at most.
    pace: f64,
    /// How often limits were lowered since nothing fitted.
    lowered: u32,
    slopes: Vec<(Slope, Point)>,
    depth: Option<Depth>,
    trouble: Option<String>,
}

impl Saturation {
    /// Nothing is known.
    pub fn new(settings: Settings) -> Self {
        Saturation {
            settings,
            phase: Phase::Alone,
            began: None,
            alone: Vec::new(),
            refresh: false,
            scale: Vec::new(),
            points: Vec::new(),
            beliefs: None,
            likely: None,
            counted: false,
            sent: None,
            trains: 0,
            losses: 0,
            overflows: 0,
            null_losses: 0,
            spent: 0.0,
            want: 0.0,
            growth: LONGEST.as_secs_f64(),
            count: MOST_PACKETS,
            pace: 1e7,
            lowered: 0,
            slopes: Vec::new(),
            depth: None,
            trouble: None,
        }
    }

    /// The other direction has this framing.
    #[must_use]
    pub fn likely(mut self, framing: Option<Framing>) -> Self {
        self.likely = framing;
        self
    }

    /// What to send next.
    pub fn next(&mut self, now: Duration) -> Step {
        let began = *self.began.get_or_insert(now);
        if now.saturating_sub(began) > self.settings.patience && self.phase != Phase::Done {
            self.phase = Phase::Done;
            if self.points.is_empty() {
                self.end("it took too long");
            }
        }
        let train = match self.phase {
            Phase::Done => return Step::Done,
            Phase::Alone => Train::ALONE,
            _ if self.refresh => Train::ALONE,
            Phase::Scale(count) => Train {
                sizes: vec![self.settings.mtu],
                count,
                spread: Duration::ZERO,
                pause: Duration::ZERO,
            },
            Phase::Others => {
                let Some(train) = self.others_train() else {
                    self.phase = Phase::Tell;
                    return self.next(now);
                };
                train
            }
            Phase::Tell => match self.telling() {
                Some(train) => train,
                None => return self.next(now),
            },
            Phase::Null(which) => {
                let Some(train) = self.null_train(which) else {
                    self.phase = Phase::Done;
                    return Step::Done;
                };
                train
            }
        };
        let rest = match &self.sent {
            // What the line carried for us it may carry for others as long again.
            Some(t) if t.count > 0 => Duration::from_secs_f64(self.points_last().clamp(0.003, 0.2)),
            _ => Duration::from_millis(4),
        };
        self.sent = Some(train.clone());
        Step::Send(train, rest)
    }

    /// What became of it.
    pub fn seen(&mut self, _now: Duration, seen: Seen) {
        let Some(train) = self.sent.clone() else {
            return;
        };
        let Some(took) = seen.took else {
            self.lost_marker(&train);
            return;
        };
        self.losses = 0;
        let took = took.as_secs_f64();
        if train.count == 0 {
            self.alone.push(took);
            self.counted = seen.lost.is_some();
            if self.alone.len() > REMEMBERED {
                self.alone.remove(0);
            }
            self.refresh = false;
            let best = self.beliefs.as_ref().and_then(Beliefs::best);
            self.spent += best.map_or(0.0, |b| b.per_byte * f64::from(b.framing.wire_len(MARKER)));
            if self.phase == Phase::Alone && self.alone.len() >= ALONE {
                self.phase = Phase::Scale(1);
            }
            return;
        }
        self.refresh = true;
        self.trains += 1;
        let sent_in = seen.sent_in.as_secs_f64();
        let point = Point {
            packets: train.packets(),
            took: took - self.base(),
            span: sent_in,
        };
        // What was lost was sent as well.
        let best = self.beliefs.as_ref().and_then(Beliefs::best);
        let wire = best.map_or(0.0, |b| b.per_byte * point.wire(b.framing));
        self.spent += point.took.max(wire).max(0.0);
        if train.spread.is_zero() && train.count > 20 && sent_in > 0.0 {
            // What the sender reached is what it can do.
            let reached = f64::from(train.count) / sent_in;
            self.pace = if self.pace > 9e6 {
                reached
            } else {
                self.pace.max(reached)
            };
        }
        match self.phase {
            Phase::Scale(count) => self.scaled(count, point, &seen),
            Phase::Others => {
                self.told(&train, point, &seen);
                self.phase = Phase::Tell;
            }
            Phase::Tell => self.told(&train, point, &seen),
            Phase::Null(which) => self.null_seen(which, &train, point, &seen),
            Phase::Alone | Phase::Done => {}
        }
    }

    /// What is known now.
    pub fn verdict(&self) -> Verdict {
        let Some(beliefs) = &self.beliefs else {
            let why = self.trouble.clone();
            return Verdict::nothing(&why.unwrap_or_else(|| "nothing was sent yet".into()));
        };
        let Some(best) = beliefs.best() else {
            return Verdict::nothing("nothing was seen");
        };
        let mode = beliefs.of_mode();
        let mut why = self.trouble.clone();
        if why.is_none() && mode < SURE {
            why = Some("more than one mode explains the delays".into());
        }
        if why.is_none() && beliefs.near(4) < SURE {
            why = Some("more than one overhead explains the delays".into());
        }
        if why.is_none() && self.slopes.len() < 3 {
            why = Some("there was no room for the null test".into());
        }
        let sum: f64 = self.points.iter().map(|p| p.took * p.took).sum();
        let error = 2.0 * beliefs.scale / sum.sqrt().max(1e-9) + 2.0 * super::fit::RELATIVE;
        let sure = why.is_none();
        let careful = beliefs.careful(self.settings.mtu);
        Verdict {
            careful: careful.map(|c| (c.framing, Rate::from_bps((8.0 / c.per_byte) as u64))),
            cost: careful.map_or(0.0, |c| c.cost),
            framing: beliefs.cautious().filter(|_| sure),
            confidence: beliefs.same(),
            mode_confidence: if self.trouble.is_some() { 0.0 } else { mode },
            best: Some(best.framing),
            why,
            rate: Some(Rate::from_bps((8.0 / best.per_byte) as u64)),
            within: error,
        }
    }

    /// The trains of the null test.
    pub fn slopes(&self) -> impl Iterator<Item = &Slope> {
        self.slopes.iter().map(|s| &s.0)
    }

    /// Where the queue ends, if that was seen.
    pub fn depth(&self) -> Option<Depth> {
        self.depth
    }

    /// How long a marker alone takes, and how much that varies; seconds.
    pub fn idle(&self) -> Option<(f64, f64)> {
        (!self.alone.is_empty()).then(|| (self.base(), self.noise()))
    }

    /// Trains, and seconds of the line that they took.
    pub fn cost(&self) -> (usize, f64) {
        (self.trains, self.spent)
    }

    fn end(&mut self, why: &str) {
        // What was found before is found.
        let known = self.beliefs.as_ref().is_some_and(|b| self.enough(b));
        if !known {
            self.trouble.get_or_insert_with(|| why.into());
        }
        self.phase = Phase::Done;
    }

    fn base(&self) -> f64 {
        median(&self.alone)
    }

    fn noise(&self) -> f64 {
        let base = self.base();
        let off: Vec<f64> = self.alone.iter().map(|a| (a - base).abs()).collect();
        // The median deviation of normal noise, and the base's own error.
        let many = off.len().max(1) as f64;
        (1.4826 * median(&off) * (1.0 + 1.0 / many).sqrt()).max(QUIETEST)
    }

    fn points_last(&self) -> f64 {
        self.points.last().map_or(0.0, |p| p.took / 2.0)
    }

    fn begin_telling(&mut self) {
        self.want = (OVER_NOISE * self.noise()).clamp(DELAY[0], DELAY[1]);
        self.phase = Phase::Others;
        self.believe();
    }

    fn believe(&mut self) {
        self.beliefs = Some(beliefs(&self.points, self.noise(), self.likely));
    }
}

/// The middle of some values; zero of none.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody answers: it ends soon, and says so.
    #[test]
    fn silence_ends_it() {
        let mut s = Saturation::new(Settings::default());
        let mut steps = 0;
        while let Step::Send(train, _) = s.next(Duration::from_secs(steps)) {
            assert_eq!(train, Train::ALONE);
            s.seen(
                Duration::from_secs(steps),
                Seen {
                    sent_in: Duration::ZERO,
                    took: None,
                    lost: None,
                },
            );
            steps += 1;
        }
        let v = s.verdict();
        assert_eq!((steps, v.framing, v.rate), (3, None, None));
        assert_eq!(v.why.as_deref(), Some("probes are lost"));
    }

    /// A line that carries faster than trains come has no queue, and nothing is made of that.
    #[test]
    fn a_queue_that_does_not_grow_ends_it() {
        let mut s = Saturation::new(Settings::default());
        let mut now = Duration::ZERO;
        let mut bytes = 0;
        while let Step::Send(train, rest) = s.next(now) {
            let sent_in = Duration::from_micros(3) * train.count;
            let took = Duration::from_millis(10) + sent_in;
            bytes += train.bytes();
            now += rest + took;
            s.seen(
                now,
                Seen {
                    sent_in,
                    took: Some(took),
                    lost: Some(0),
                },
            );
        }
        let v = s.verdict();
        assert!(v.framing.is_none() && v.why.unwrap().contains("does not grow"));
        assert!(bytes < 50_000_000, "{bytes}");
    }

    /// More than the line carries is dropped at once.
    #[test]
    fn a_policer_is_no_queue() {
        let mut s = Saturation::new(Settings::default());
        let mut now = Duration::ZERO;
        while let Step::Send(train, rest) = s.next(now) {
            let took = Duration::from_millis(10);
            now += rest + took;
            let lost = Some(train.count.saturating_sub(8));
            s.seen(
                now,
                Seen {
                    sent_in: Duration::from_micros(train.count.into()),
                    took: Some(took),
                    lost,
                },
            );
        }
        let v = s.verdict();
        assert_eq!(v.framing, None);
        assert!(v.why.unwrap().contains("dropped rather than queued"));
    }
}
