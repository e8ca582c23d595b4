//! A queue: whether it is one, what it says, and how it is made to go away.
//!
//! Principles: a cut at once, deep enough that the queue is gone soon; what does not follow a cut
//! is not here, and what may be elsewhere teaches nothing before it did follow one. Non-goals:
//! going upwards (`tries`).

use super::{Around, Dir, Drain, Found, GUESSED, PATIENCE, Phase, Way};
use crate::control::Reason;
use crate::control::slope::{Known, PACKETS, SAME};

/// A first estimate is not worse than this, as a share.
const VAGUE: f64 = 0.1;
/// So many queues in a row that go when this direction is cut are here.
const FOLLOWED_OFTEN: u32 = 3;
/// How much comes is known over so long at least, s.
const SPAN: f64 = 0.060;

/// A queue that is this much of what it was did not follow.
const STILL: f64 = 0.8;
/// Towards us it keeps arrivals at what the line carries, so at more than this share of it.
const ARRIVES: f64 = 0.5;

impl Way {
    /// One more queue that goes when this direction is cut, and it is thought to be slower.
    pub(in crate::control) fn is_about_to_learn(&self) -> bool {
        self.followed + 1 >= FOLLOWED_OFTEN
    }

    /// Whether a queue is beyond doubt.
    pub(super) fn is_clear(&self, queue: f64, around: &Around) -> bool {
        let wanders = self.is_restless(around.now) || self.run.is_persistent();
        wanders || queue > around.rise + around.wander
    }

    /// Whether a queue is long enough to be one. A packet in front of the probe is none, and on a
    /// slow line it takes long. A line that became slower shows it by a queue that grows fast; what
    /// passes between two bursts is less than it carries.
    pub(super) fn stands(&self, queue: f64, found: &Known, around: &Around) -> bool {
        let least = match self.capacity {
            None if found.error > VAGUE => return false,
            _ if self.run.is_persistent() => 0.0,
            // What we sent is known for certain.
            _ if self.dir == Dir::Up && self.is_restless(around.now) => 0.0,
            None => around.rise + around.wander,
            Some((c, _)) if found.capacity < (1.0 - SAME) * c => {
                // Where it often does become slower, waiting to be sure costs more than an error.
                let certainly = if self.is_restless(around.now) {
                    1.0
                } else {
                    2.0
                };
                (around.rise + certainly * around.wander).max(0.004)
            }
            Some(_) => 0.0,
        };
        queue >= least.max(2.0 * around.packet / found.capacity + around.beside)
    }

    pub(super) fn congested(&mut self, around: &Around) -> Found {
        let Some(slope) = self.estimate(f64::MIN, around) else {
            return Found::Nothing;
        };
        let mut found = slope.known;
        let known = self.known();
        let unrest = self.unrest;
        let queue = self.latest.map_or(0.0, |p| p.queue);
        if !self.stands(queue, &found, around) {
            return Found::Nothing;
        }
        if self.dir == Dir::Up && slope.level {
            // We know what we sent, not what arrived: what a full buffer threw away is no evidence.
            found.error = found.error.max(GUESSED);
            if let Some(k) = known {
                found.capacity = found.capacity.min(k.capacity);
            }
        }
        // What may be elsewhere must follow a cut before anything is learned from it.
        let learns = match known {
            None => true,
            Some(k) => self.sure || found.capacity > (1.0 - SAME) * k.capacity,
        };
        if known.is_none() || learns && self.is_clear(queue, around) {
            self.learn(found, around.now);
        }
        if self.dir == Dir::Up && self.phase == Phase::Steady && self.sure {
            // What makes a queue without a try is more than the line carries.
            let sent = self.throughput(around);
            if let Some((c, _)) = &mut self.capacity {
                *c = c.min(sent.max((1.0 - SAME) * *c));
            }
        }
        let capacity = self.capacity.map_or(found.capacity, |c| c.0);
        if let Phase::Try { before, .. } = self.phase {
            // The try ended where it began: the line is what it was.
            self.patience = if (capacity / before - 1.0).abs() < SAME {
                self.stride = 0.0;
                (2.0 * self.patience).min(self.longest_patience(around.now))
            } else {
                PATIENCE[0]
            };
        }
        if self.dir == Dir::Up && !self.is_restless(around.now) {
            // From now on only probes behind the cut count.
            self.prior = self.known();
        }
        let capacity = match self.dir {
            Dir::Down if !self.sure => capacity.min(self.throughput(around)),
            Dir::Up if !learns => capacity.min(found.capacity),
            _ => capacity,
        };
        self.cut(Drain {
            before: known,
            unrest,
            found: (!learns).then_some(found),
            capacity,
            ..self.drain_now(around)
        })
    }

    /// A queue that stood while the line came to less and less: perhaps the way has become longer.
    /// It is made to end, or else it is none, and the line is what it was `before`.
    pub(super) fn doubt(
        &mut self,
        before: Option<Known>,
        unrest: (f64, f64),
        around: &Around,
    ) -> Found {
        self.cut(Drain {
            before,
            unrest,
            doubted: Some(0.0),
            ..self.drain_now(around)
        })
    }

    /// The queue of now, by what the line is known to carry.
    fn drain_now(&self, around: &Around) -> Drain {
        let queue = self.latest.map_or(0.0, |p| p.queue);
        let capacity = self.capacity.map_or(0.0, |c| c.0);
        Drain {
            cut: around.now,
            since: around.now,
            queue,
            longest: queue,
            before: None,
            unrest: self.unrest,
            doubted: None,
            followed: self.sure,
            found: None,
            at_cut: capacity,
            capacity,
            failures: 0,
        }
    }

    fn cut(&mut self, drain: Drain) -> Found {
        self.phase = Phase::Drain(drain);
        Found::Changed(Reason::Queue {
            dir: self.dir,
            queue_ms: drain.queue * 1e3,
        })
    }

    pub(super) fn drain(&mut self, mut drain: Drain, around: &Around) -> Found {
        let queue = self.latest.map_or(0.0, |p| p.queue);
        drain.longest = drain.longest.max(queue);
        let until_heard = around.rtt + drain.queue + 2.0 * around.pace;
        if self.run.is_empty() || queue < self.stays(&drain, around) {
            let heard = around.now - drain.cut >= around.rtt + drain.longest;
            if self.dir == Dir::Down && !self.sure && !heard && !self.is_restless(around.now) {
                return self.went_by_itself(&drain, around);
            }
            if let Some(found) = drain.found.filter(|_| !self.shared) {
                self.followed += 1;
                if self.followed >= FOLLOWED_OFTEN {
                    self.followed = 0;
                    self.learn(found, around.now);
                }
            }
            return self.drained(around);
        }
        if self.comes_less(queue, &drain, around) {
            return self.not_here(&drain, queue, around);
        }
        let left = self.latest.map_or(0.0, |p| p.left);
        // A queue that stays as it is may be a full buffer, or none at all; a cut tells.
        let mut failed = false;
        // Answers that know of the cut. Before them the queue may still grow.
        if left <= drain.since {
            drain.queue = queue;
            self.phase = Phase::Drain(drain);
        } else if left > drain.since + 2.0 * around.pace {
            let expected = self.expected_fall(&drain, left);
            let heard = around.now - drain.since > until_heard;
            if self.contradicts(queue, expected, &drain, around) {
                return self.not_here(&drain, queue, around);
            }
            if heard && expected > (2.0 * around.rise).max(0.5 * drain.queue) {
                let fell = (drain.queue - queue) / expected;
                drain.followed = self.sure || fell > 0.5;
                if fell < 0.25 {
                    drain.failures += 1;
                    failed = true;
                    drain.doubted.get_or_insert(self.kept(around.now));
                    if drain.failures >= if self.sure || self.shared { 3 } else { 1 } {
                        return self.not_here(&drain, queue, around);
                    }
                }
                drain.since = around.now;
                drain.queue = queue;
                if self.sure || self.dir == Dir::Up {
                    let found = drain.found.map_or(f64::MAX, |f| f.capacity);
                    let known = self.capacity.map_or(drain.capacity, |c| c.0);
                    drain.capacity = known.min(found);
                }
                self.phase = Phase::Drain(drain);
            }
        }
        let from = match self.dir {
            Dir::Up => drain.cut,
            Dir::Down => f64::MIN,
        };
        let known = self.capacity.map_or(f64::MAX, |c| c.0);
        if let Some(slope) = self.estimate(from, around)
            && (self.dir == Dir::Down || !slope.level || failed && slope.known.capacity < known)
            && self.is_clear(queue, around)
            && self.stands(queue, &slope.known, around)
            && !self.lets_in(queue, &slope.known, &drain, around)
        {
            if drain.followed || slope.known.capacity > (1.0 - SAME) * drain.at_cut {
                self.learn(slope.known, around.now);
            } else if let (Dir::Up, Phase::Drain(drain)) = (self.dir, &mut self.phase) {
                drain.found = Some(slope.known);
            }
        }
        Found::Changed(Reason::Draining {
            dir: self.dir,
            queue_ms: queue * 1e3,
        })
    }

    /// Whether so little comes only because of the cut: if the line were that slow, the queue would
    /// grow.
    fn lets_in(&self, queue: f64, found: &Known, drain: &Drain, around: &Around) -> bool {
        let less = self
            .capacity
            .is_some_and(|c| found.capacity < (1.0 - SAME) * c.0);
        let heard = around.now - drain.cut > around.rtt + 2.0 * around.pace;
        self.dir == Dir::Down && less && heard && queue < drain.queue + around.rise
    }

    /// Whether less comes since the cut although the queue is what it was, or longer: it is
    /// elsewhere, and that is known before a probe has passed it that was sent after the cut.
    fn comes_less(&self, queue: f64, drain: &Drain, around: &Around) -> bool {
        let one = self.dir == Dir::Down && !self.sure && !self.shared;
        if !one || self.is_restless(around.now) {
            return false;
        }
        let packets = PACKETS * around.packet / drain.capacity;
        let span = SPAN.max(4.0 * around.pace).max(packets);
        let heard = around.now - drain.cut > around.rtt + 2.0 * around.pace + span;
        let stays = queue > (1.5 * around.rise).max(STILL * drain.longest);
        let comes = self.meter.rate(span).unwrap_or(f64::MAX);
        heard && stays && comes < ARRIVES * drain.capacity
    }

    /// Towards us a queue that stands keeps arrivals at what the line carries; where less comes and
    /// there still is a queue, it is elsewhere.
    pub(super) fn contradicts(
        &self,
        queue: f64,
        expected: f64,
        drain: &Drain,
        around: &Around,
    ) -> bool {
        let least = (2.0 * around.rise).max(0.15 * (around.now - drain.since));
        let one = self.dir == Dir::Down && !self.sure && !self.shared;
        one && expected > least && queue > 1.5 * around.rise
    }

    /// What was learned of a queue that turned out not to be here is forgotten.
    pub(super) fn not_here(&mut self, drain: &Drain, queue: f64, around: &Around) -> Found {
        self.run.clear();
        self.prior = None;
        self.followed = 0;
        let _ = self.drained(around);
        self.unrest = drain.unrest;
        if self.sure && drain.longest - queue > around.rise {
            // Some of it was.
            self.capacity = Some((drain.at_cut, around.now));
            return Found::NotHere(queue);
        }
        match drain.before {
            Some(before) => {
                self.capacity = Some((before.capacity, around.now));
                self.error = before.error;
            }
            None if !self.sure && !drain.followed => {
                self.capacity = None;
                self.phase = Phase::Open;
            }
            None => {}
        }
        Found::NotHere(queue)
    }

    /// It ended before the cut was heard of, so it may well have been elsewhere: what it taught is
    /// forgotten.
    fn went_by_itself(&mut self, drain: &Drain, around: &Around) -> Found {
        let ended = self.drained(around);
        self.prior = None;
        self.unrest = drain.unrest;
        self.capacity = drain.before.map(|k| (k.capacity, around.now));
        match drain.before {
            Some(before) => self.error = before.error,
            None => self.phase = Phase::Open,
        }
        ended
    }

    /// The queue that is drained is known to be elsewhere. False if none is.
    pub(in crate::control) fn gives_up(&mut self, around: &Around) -> bool {
        let Phase::Drain(drain) = self.phase else {
            return false;
        };
        let _ = self.not_here(&drain, drain.longest, around);
        true
    }

    /// By how much the queue must have become shorter for a probe sent at `left`: a bottleneck
    /// with a queue sends what it can, so less than that means that the queue had an end.
    fn expected_fall(&self, drain: &Drain, left: f64) -> f64 {
        let time = left - drain.since;
        match self.meter.between(drain.since, left) {
            Some(bytes) => (time - bytes / drain.capacity).max(0.0),
            None => 0.0,
        }
    }

    pub(super) fn drained(&mut self, around: &Around) -> Found {
        self.phase = Phase::Steady;
        self.next_try = around.now + self.patience * (1.0 - self.restless(around.now)).powi(2);
        self.quiet = around.now;
        Found::Changed(Reason::Drained { dir: self.dir })
    }
}
