//! Which of several reflectors is used.
//!
//! Principles: the first that was found, for as long as it sees what connections see (`trust`);
//! then the next one farther away; then none, and round trips of connections say it all. The others
//! are probed once in ten seconds on the idle line, so that what a queue is to them is known when
//! they are needed. A doubt may be wrong, so none lasts. Non-goals: finding them (`candidates`).

use std::net::IpAddr;
use std::time::Duration;

use evenkeel_core::control::{DirectionView, RttSample, View};

use crate::asked::Reflector;
use crate::candidates::Candidate;
use crate::error::Error;
use crate::places::Places;
use crate::reflector::{Found, Origin};
use crate::trust::{self, Doubt, Stretch};

/// It is judged by stretches of so long.
const STRETCH: Duration = Duration::from_millis(500);
/// While little passes round trips of connections are asked for so seldom: there are few.
const CALM: Duration = Duration::from_secs(1);
/// Where it is not known what a line carries this is little, bit/s.
const LITTLE: f64 = 500_000.0;
/// From this share on there may be a queue; below the other one little passes.
const LOADED: f64 = 0.5;
const IDLE: f64 = 0.1;

/// Somebody is not believed any more.
pub(crate) struct Doubted {
    pub(crate) of: Found,
    pub(crate) why: Doubt,
}

/// Reflectors, and which one is used.
#[derive(Default)]
pub(crate) struct Choice {
    /// The nearest first, as far as that is known.
    all: Vec<Reflector>,
    used: Option<usize>,
    places: Places,
    /// When it was judged, and when connections were asked for.
    judged: Duration,
    watched: Duration,
    /// Answers of what is used were far apart in the latest stretch.
    scatters: bool,
}

impl Choice {
    /// What is used.
    pub(crate) fn used(&self) -> Option<&Reflector> {
        self.all.get(self.used?)
    }

    /// The same.
    pub(crate) fn used_mut(&mut self) -> Option<&mut Reflector> {
        self.all.get_mut(self.used?)
    }

    /// There are reflectors, and none of them is believed.
    pub(crate) fn believes_none(&self) -> bool {
        self.used.is_none() && !self.all.is_empty()
    }

    /// Uses what was found, or nothing if nothing was. One that is doubted stays so.
    pub(crate) fn begin(&mut self, found: Option<Found>, device: &str, now: Duration) {
        self.used = None;
        let Some(found) = found else {
            self.all.clear();
            return;
        };
        let of = Candidate {
            found,
            interval: None,
            least: None,
        };
        let known = self.all.iter().position(|r| r.found == found);
        let at = known.or_else(|| {
            self.all.insert(0, Reflector::open(device, &of, now)?);
            // What it waits is compared with what they wait, since the same time.
            self.places = Places::default();
            Some(0)
        });
        self.used = at.filter(|&at| !self.all[at].doubts.last(now));
        if self.used.is_none() {
            self.used = self.next(None, now);
        }
    }

    /// Answers of what is used are far apart: others on the same line can tell whether that is a queue.
    pub(crate) fn wants_witnesses(&self) -> bool {
        self.scatters && self.used().is_some_and(|r| !r.is_seldom())
    }

    /// What else answers, with what is used, in their order.
    pub(crate) fn add(&mut self, candidates: &[Candidate], device: &str, now: Duration) {
        let used = self.used().map(|r| r.found);
        let mut before = std::mem::take(&mut self.all);
        for of in candidates {
            let known = before.iter().position(|r| r.found == of.found);
            let mut reflector = match known {
                Some(at) => Some(before.remove(at)),
                None => Reflector::open(device, of, now),
            };
            if let Some(reflector) = &mut reflector {
                reflector.learn(of, now);
            }
            self.all.extend(reflector);
        }
        // What is used stays, even if it has just not answered.
        before.retain(|r| Some(r.found) == used);
        self.all.splice(0..0, before);
        self.used = used.and_then(|used| self.all.iter().position(|r| r.found == used));
    }

    /// Those that are not used.
    pub(crate) fn reserve(&self) -> Vec<IpAddr> {
        let all = self.all.iter().enumerate();
        let others = all.filter(|(at, _)| Some(*at) != self.used);
        others.map(|(_, r)| r.found.address).collect()
    }

    /// The nearest one that can be used, of those beyond `beyond` hops.
    fn next(&self, beyond: Option<u8>, now: Duration) -> Option<usize> {
        let farther = |r: &Reflector| beyond.is_none() || r.found.distance > beyond;
        self.all.iter().position(|r| farther(r) && r.is_there(now))
    }

    /// Uses one again that was doubted for long enough, where none is believed. True if it does.
    pub(crate) fn try_again(&mut self, now: Duration) -> bool {
        if self.believes_none() {
            self.used = self.next(None, now);
        }
        self.used.is_some()
    }

    /// What is used has not seen what connections saw of late, or the other way round; or another one may well be
    /// better: it is too near to be beyond the line, or nothing is known of how often it answers.
    pub(crate) fn is_suspected(&self) -> bool {
        let near = |r: &Reflector| {
            r.least_ever()
                .is_some_and(|l| l.as_secs_f64() < trust::NEAR)
        };
        let suspicious = |r: &Reflector| r.trust.is_suspicious() || r.is_seldom() || near(r);
        self.used().is_some_and(suspicious)
    }

    /// None is probed more often than this.
    pub(crate) fn spare(&mut self, interval: Duration) {
        for reflector in &mut self.all {
            reflector.spared = interval;
        }
    }

    /// Probes those that are not used, once in a while. How many probes that took.
    pub(crate) fn keep_warm(&mut self, view: &View, now: Duration) -> Result<u64, Error> {
        let idle = load(view) < IDLE;
        let mut sent = 0;
        for (at, reflector) in self.all.iter_mut().enumerate() {
            if Some(at) != self.used && reflector.found.origin != Origin::Public {
                sent += u64::from(reflector.keep_warm(now, idle)?);
            }
        }
        Ok(sent)
    }

    /// Whether round trips of connections are wanted now; says yes once.
    pub(crate) fn wants_trips(&mut self, view: &View, now: Duration) -> bool {
        if self.used().is_none_or(Reflector::is_seldom) {
            return false;
        }
        let each = if load(view) < IDLE {
            CALM
        } else {
            Duration::ZERO
        };
        let due = now.saturating_sub(self.watched) >= each;
        if due {
            self.watched = now;
        }
        due
    }

    /// Round trips of connections since the last call.
    pub(crate) fn note_trips(&mut self, trips: &[RttSample], view: &View) {
        self.places.note(trips, load(view) < IDLE);
    }

    /// The least round trips to places that connections led to.
    pub(crate) fn least_trips(&self, now: Duration) -> Vec<RttSample> {
        self.places.least(now)
    }

    /// Judges what is used by each stretch. If it is not believed any more, the next one is used.
    pub(crate) fn judge(&mut self, view: &View, now: Duration) -> Option<Doubted> {
        if now.saturating_sub(self.judged) < STRETCH {
            return None;
        }
        self.judged = now;
        let seen = self.places.look();
        let reflector = self.all.get_mut(self.used?)?;
        let delay = reflector.take_delay();
        let share = load(view);
        if let Some(delay) = delay.filter(|_| share < IDLE) {
            reflector.note_idle(delay.middle, now);
        }
        let spread = delay.and_then(|d| d.spread).map(|s| s.as_secs_f64());
        self.scatters = spread.is_some_and(trust::scatters);
        if reflector.is_seldom() {
            return None;
        }
        let why = reflector.trust.look(&Stretch {
            least: reflector.least_ever().map_or(f64::MAX, |l| l.as_secs_f64()),
            may_be_in_front: reflector.found.may_be_in_front,
            own: delay.map(|d| d.queue.as_secs_f64()),
            rise: view.rise_ms / 1e3,
            spread,
            their_spread: seen.spread,
            passive: seen.passive,
            loaded: share >= LOADED,
        })?;
        reflector.doubts.add(now);
        let of = reflector.found;
        let beyond = match why {
            Doubt::BeforeBottleneck(_) => of.distance,
            Doubt::SlowToAnswer(_) => None,
        };
        self.used = self.next(beyond, now);
        Some(Doubted { of, why })
    }
}

/// Next to nothing passes.
pub(crate) fn is_idle(view: &View) -> bool {
    load(view) < IDLE
}

/// How much of what the line carries passes, in the direction where that is more.
fn load(view: &View) -> f64 {
    let share = |way: &DirectionView| {
        let carries = way.capacity.map_or(LITTLE, |c| c.bps() as f64);
        way.throughput.bps() as f64 / carries.max(1.0)
    };
    share(&view.up).max(share(&view.down))
}
