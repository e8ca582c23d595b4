//! Somebody else's queue: one that stands whatever we send.
//!
//! A sender whom nobody shapes fills the buffer of the line that we share with it, and takes whatever we leave. To
//! yield to that queue would end at nothing. So as long as it stands we send as we would without evenkeel, up to
//! what the line carried when it was last known to be ours, and windows have room for it, so that TCP shares the
//! line as it always does (the "TCP-competitive mode" of Copa, section 2.2, and of Nimbus, section 4).
//!
//! Principles: the verdict is never final: from time to time a cut shows whether the queue follows us by now; what
//! stands all the time is the way's, and becomes the base; when nothing has stood for a while the others have gone.
//! Non-goals: the cut itself (`drain`).

use super::{Context, DirectionState, Outcome, Phase};
use crate::control::Reason;

/// Two verdicts within this time, s, are of a queue, one is of a longer way.
const AGAIN: f64 = 5.0;
/// The others have gone when no queue stood for so long, s: their senders come back to a full buffer sooner.
const GONE: f64 = 2.0;
/// What stands for so long, s, at least, is the way's.
const STANDS: f64 = 2.0;
/// On lines that never settle so much of these times is enough.
const RESTLESS: f64 = 0.25;
/// Until a cut is to show whose queue it is, s: at first, and at most.
const TESTS: [f64; 2] = [4.0, 16.0];

/// What is known of a queue that is somebody else's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::control) struct Compete {
    /// What the line carries if it is all ours, bytes/s.
    pub(in crate::control) alone: f64,
    /// A cut shows whose it is then.
    test: f64,
    /// No queue since.
    none_since: Option<f64>,
    /// The least and the longest queue since a time.
    since: f64,
    least: f64,
    most: f64,
}

impl DirectionState {
    /// A queue does not follow what we send. A way becomes longer once: whether that was said already just before.
    pub(in crate::control) fn is_contested_again(&mut self, now: f64) -> bool {
        let again = now - self.contested < AGAIN;
        self.contested = now;
        again
    }

    /// A queue does not follow what we send, and the line may carry `alone`.
    pub(in crate::control) fn compete(&mut self, queue: f64, context: &Context) {
        let capacity = self.capacity.map_or(0.0, |c| c.0);
        let alone = capacity.max(self.alone);
        if alone == 0.0 {
            return;
        }
        self.capacity = Some((self.bounded(alone), context.now));
        self.tests = (2.0 * self.tests).clamp(TESTS[0], TESTS[1]);
        self.phase = Phase::Compete(Compete {
            alone,
            test: context.now + self.tests,
            none_since: None,
            since: context.now,
            least: queue,
            most: queue,
        });
    }

    /// How long a queue of somebody else's is that stands now, s.
    pub(in crate::control) fn others_queue(&self) -> f64 {
        match self.phase {
            Phase::Compete(_) => self.latest.map_or(0.0, |p| p.queue),
            _ => 0.0,
        }
    }

    pub(super) fn competes(&mut self, mut c: Compete, context: &Context) -> Outcome {
        let queue = self.latest.map_or(0.0, |p| p.queue);
        let sooner = 1.0 - (1.0 - RESTLESS) * self.volatility(context.now);
        c.least = c.least.min(queue);
        c.most = c.most.max(queue);
        if self.run.is_empty() {
            let since = *c.none_since.get_or_insert(context.now);
            self.phase = Phase::Compete(c);
            if context.now - since > GONE * sooner {
                self.tests = 0.0;
                return self.drained(context);
            }
            return Outcome::Nothing;
        }
        c.none_since = None;
        self.phase = Phase::Compete(c);
        if context.now - c.since > (STANDS * sooner).max(4.0 * context.rtt) {
            let stood = Outcome::Stood {
                least: c.least,
                most: c.most,
            };
            (c.since, c.least, c.most) = (context.now, queue, queue);
            self.phase = Phase::Compete(c);
            self.run.clear();
            return stood;
        }
        if context.now > c.test && self.run.len() >= 2 && self.is_loaded(context) {
            // What does not follow this cut either is still theirs.
            self.contested = context.now;
            return self.doubt(self.known(), self.volatility, context);
        }
        Outcome::Changed(Reason::Shared {
            dir: self.dir,
            queue_ms: queue * 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    #[test]
    fn what_does_not_follow_a_test_is_still_theirs() {
        let mut way = DirectionState::new(Direction::Down);
        way.believe(1e6, 0.0);
        way.compete(0.1, &Context::of_test(0.0));
        for n in 1..=450 {
            let now = f64::from(n) * 0.02;
            way.looks(now, 5e5 * now, 0.08 + 0.04 * f64::from(n % 2));
            if way.is_draining() {
                assert!(now > TESTS[0]);
                assert!(way.is_contested_again(now + 1.0));
                return;
            }
        }
        panic!("it is not tested");
    }
}
