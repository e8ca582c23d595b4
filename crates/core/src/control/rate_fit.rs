//! What a queue says: the bytes that left the bottleneck, over the time that they took to leave.
//!
//! Principles: while a queue stands, a line through what had left by each probe has the capacity
//! as its slope; how far that may be off is known from the noise of single probes, so that a
//! better look counts for more than a hasty one. Non-goals: whose queue it is, what follows.

use std::collections::VecDeque;

use super::meter::Meter;
use crate::Direction;

/// Evidence of a capacity: at least so many full packets.
pub(super) const PACKETS: f64 = 8.0;
/// And at least over so long, s.
const SPAN: f64 = 0.030;
/// What may be further off than this says nothing, as a share.
const WORST: f64 = 0.2;
/// A queue is looked back at so far, s, or over so many probes.
const LOOK_BACK: f64 = 0.6;
const LOOK_BACK_PROBES: f64 = 8.0;
/// So many probes that all wait for more than this share of what a queue is are one too: what
/// lines do by themselves does not last.
const VAGUE: usize = 16;
const VAGUELY: f64 = 0.35;
/// Estimates this close say the same, as shares; or else this many standard errors.
pub(super) const SAME: f64 = 0.04;
pub(super) const ERRORS: f64 = 2.5;
/// A queue that changes by less than this share of the time that passes is level.
const LEVEL: f64 = 0.05;

/// What happens in this many of `n` looks on average is missed by all of them once in twenty times (rule of three).
const MISSED: f64 = 3.0;

/// A probe as one direction saw it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// When it was sent.
    pub left: f64,
    /// When its answer came.
    pub came: f64,
    /// How long it waited at this direction's bottleneck.
    pub queue: f64,
}

/// What a line carries as far as is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// Bytes per second.
    pub capacity: f64,
    /// Its standard error, as a share.
    pub error: f64,
}

impl Estimate {
    /// Whether both can be true.
    pub(super) fn agrees(&self, other: &Estimate) -> bool {
        let errors = self.error.hypot(other.error);
        (other.capacity / self.capacity).ln().abs() < (ERRORS * errors).max(SAME)
    }

    /// Two independent looks at the same thing.
    pub(super) fn with(&self, other: &Estimate) -> Estimate {
        let (a, b) = (self.error.powi(-2), other.error.powi(-2));
        Estimate {
            capacity: ((a * self.capacity.ln() + b * other.capacity.ln()) / (a + b)).exp(),
            error: (a + b).powf(-0.5),
        }
    }
}

/// What a stretch of probes led to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RateFit {
    pub known: Estimate,
    /// The line may carry so much for all that is known, bytes/s: it need not have been busy from one probe that met
    /// a queue to the next.
    pub most: f64,
    /// The queue was neither growing nor shrinking: what came may have been thrown away.
    pub level: bool,
}

/// Probes since a queue stands.
#[derive(Debug, Clone)]
pub(super) struct Run {
    dir: Direction,
    points: VecDeque<Point>,
    /// Each alone may be noise.
    vague: VecDeque<Point>,
    /// [`VAGUE`] of these came in a row.
    persistent: bool,
}

impl Run {
    pub(super) fn new(dir: Direction) -> Self {
        Run {
            dir,
            points: VecDeque::new(),
            vague: VecDeque::new(),
            persistent: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Point> {
        self.points.iter()
    }

    pub(super) fn clear(&mut self) {
        self.points.clear();
        self.persistent = false;
    }

    /// Many probes in a row show it, whatever each alone does.
    pub(super) fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// A probe; a queue is what is longer than `rise`, or what lasts where jitter may have
    /// `hidden` it. True if one stands.
    pub(super) fn push(&mut self, p: Point, rise: f64, pace: f64, hidden: bool) -> bool {
        if p.queue < VAGUELY * rise {
            self.vague.clear();
        } else {
            self.vague.push_back(p);
            if self.vague.len() > VAGUE {
                self.vague.pop_front();
            }
        }
        let ends = if self.persistent { VAGUELY } else { 0.7 };
        if p.queue < ends * rise {
            self.clear();
        } else if p.queue > rise || self.persistent && !self.is_empty() {
            self.points.push_back(p);
        }
        if hidden && !self.persistent && self.vague.len() >= VAGUE {
            self.points.clone_from(&self.vague);
            self.persistent = true;
        }
        let long = LOOK_BACK.max(LOOK_BACK_PROBES * pace);
        while self.points.front().is_some_and(|f| p.came - f.came > long) {
            self.points.pop_front();
        }
        p.queue > rise || self.persistent
    }

    /// When a probe left the bottleneck, and up to when bytes are counted that left before it:
    /// towards the Internet those that were sent before, towards us those that arrived before.
    fn exit(&self, p: &Point) -> (f64, f64) {
        match self.dir {
            Direction::Up => (p.left + p.queue, p.left),
            Direction::Down => (p.came, p.came),
        }
    }

    /// What the bottleneck carries, by probes sent at `from` or later; a single one is `noise` s
    /// off.
    pub(super) fn rate_fit(
        &self,
        meter: &Meter,
        from: f64,
        noise: f64,
        pace: f64,
        packet: f64,
    ) -> Option<RateFit> {
        let covered = meter.latest()?;
        let mut all: Vec<(f64, f64, f64)> = Vec::with_capacity(self.points.len());
        for p in self.points.iter().filter(|p| p.left >= from) {
            let (exit, mark) = self.exit(p);
            if mark <= covered
                && let Some(bytes) = meter.until(mark)
            {
                all.push((exit, bytes, p.queue));
            }
        }
        let &(last, bytes, _) = all.last()?;
        let enough =
            |p: &(f64, f64, f64)| last - p.0 >= SPAN.max(pace) && bytes - p.1 >= PACKETS * packet;
        // The shortest stretch that says something, and the longest: where they agree, the line
        // is what it was, and the longest is the most exact.
        let enough = all.iter().rposition(enough)?;
        let mut stretches = (0..=enough).rev().filter_map(|from| all.get(from..));
        let short = match self.dir {
            Direction::Up => stretches.find_map(|stretch| fit(stretch, noise))?,
            // Arrivals may be what we let come: only what shows soon is the line's.
            Direction::Down => fit(stretches.next()?, noise)?,
        };
        let long = fit(&all, noise)?;
        Some(
            if short.known.agrees(&Estimate {
                error: 0.0,
                ..long.known
            }) {
                long
            } else {
                short
            },
        )
    }
}

/// The straight line through points of time, bytes until then, and queue.
fn fit(points: &[(f64, f64, f64)], noise: f64) -> Option<RateFit> {
    let n = points.len() as f64;
    let mean = |f: fn(&(f64, f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / n;
    let (time, bytes) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.1 - bytes).powi(2)).sum();
    let both: f64 = points.iter().map(|p| (p.1 - bytes) * (p.0 - time)).sum();
    if spread <= 0.0 || both <= 0.0 {
        return None;
    }
    let capacity = spread / both;
    let (first, last) = (points.first()?, points.last()?);
    let moved = (last.2 - first.2).abs();
    let error = noise * capacity / spread.sqrt();
    (error < WORST).then_some(RateFit {
        known: Estimate { capacity, error },
        most: capacity / (1.0 - idle(points)).max(WORST),
        level: moved < (LEVEL * (last.0 - first.0)).max(2.0 * noise),
    })
}

/// The share of the time for which the bottleneck may have been idle between probes that all met a queue. It was busy
/// from when one came until it left. In between it was not for longer than a share that so many probes would hardly
/// have missed (the rule of three: 95 % certain).
fn idle(points: &[(f64, f64, f64)]) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return 1.0;
    };
    let unseen = |(a, b): (&(f64, f64, f64), &(f64, f64, f64))| (b.0 - b.2 - a.0).max(0.0);
    let unseen: f64 = points.iter().zip(points.iter().skip(1)).map(unseen).sum();
    (unseen / (last.0 - first.0)).min(MISSED / points.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes each 20 ms while 1.6 of the 1 MB/s are sent that pass.
    #[test]
    fn two_probes_that_say_nothing_do_not_hide_what_three_say() {
        let mut run = Run::new(Direction::Up);
        let mut meter = Meter::default();
        let mut look = |n: f64| {
            let after = 0.02 * n;
            let (left, queue) = (1.0 + after, 0.030 + 0.6 * after);
            meter.note(left, 1.6e6 * after);
            let came = left + queue + 0.040;
            run.push(Point { left, came, queue }, 0.010, 0.020, false);
            run.rate_fit(&meter, f64::MIN, 0.0048, 0.020, 1500.0)
        };
        assert_eq!([look(0.0), look(1.0)], [None, None]);
        let found = look(2.0).unwrap().known;
        assert!((found.capacity / 1e6 - 1.0).abs() < 1e-6, "{found:?}");
    }

    /// Whether so many probes that wait for so many times what means something are a queue that lasts.
    fn lasts(probes: u32, waits: f64, hidden: bool) -> bool {
        let mut run = Run::new(Direction::Down);
        for n in 0..probes {
            let left = 0.02 * f64::from(n);
            // What means something is 10 ms; every other wait is 2 ms shorter.
            let queue = 0.01 * waits - 0.002 * f64::from(n % 2);
            let came = left + 0.04 + queue;
            run.push(Point { left, came, queue }, 0.01, 0.02, hidden);
        }
        run.is_persistent()
    }

    #[test]
    fn what_lasts_is_a_queue_however_long_it_is() {
        for waits in [0.6, 1.1, 3.0] {
            assert!(lasts(16, waits, true), "{waits}");
            assert!(!lasts(15, waits, true), "{waits}");
            assert!(!lasts(40, waits, false), "{waits}");
        }
        assert!(!lasts(40, 0.5, true));
    }

    /// Exit, bytes until then, queue: one probe each 70 ms.
    fn points(queues: &[f64]) -> Vec<(f64, f64, f64)> {
        let numbered = (0..).map(f64::from).zip(queues);
        numbered.map(|(n, &q)| (0.07 * n, 5e4 * n, q)).collect()
    }

    #[test]
    fn between_short_queues_there_may_be_none() {
        let most = |queues: &[f64]| {
            let fit = fit(&points(queues), 0.001).unwrap();
            fit.most / fit.known.capacity
        };
        // Each probe came before the one before it had left.
        assert!((most(&[0.1, 0.08, 0.09]) - 1.0).abs() < 1e-9);
        // For 30 of each 70 ms nobody looked.
        assert!((most(&[0.04, 0.04, 0.04]) - 7.0 / 4.0).abs() < 1e-9);
        // Thirty probes would hardly all have met a queue that stands for less than nine tenths of the time.
        assert!((most(&[0.01; 30]) - 1.0 / 0.9).abs() < 1e-9);
    }
}
