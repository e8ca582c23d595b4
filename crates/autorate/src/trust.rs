//! Whether a reflector sees the queue that connections see.
//!
//! | state | a stretch in which | next |
//! |---|---|---|
//! | any | too little passed to tell, or it is not clear | as it is |
//! | any | its answers scatter, connections' round trips do not | alone |
//! | untried, unmoved, alone | connections wait, and so does it | proven |
//! | untried, proven | connections wait, it does not | unmoved |
//! | unmoved | the same, for the last time that it takes | **doubt**: before the bottleneck |
//! | unmoved | connections do not wait | as before it was unmoved |
//! | untried, proven | it waits, connections do not, and little passes | alone |
//! | alone | the same, for the last time that it takes | **doubt**: slow to answer |
//! | alone | it does not wait, whether connections pass or not | as before it was alone |
//!
//! Principles: what waits on the same line waits together; a queue of one far side is not the
//! line's, so that one place takes longer to convince than several, and one that was proven is not
//! doubted for a guess. Non-goals: what connections saw (`places`), who is probed instead
//! (`choice`).

use std::time::Duration;

use crate::places::Passive;

/// A round trip that is longer by less is no queue worth the name, s.
const QUEUE: f64 = 0.010;
/// What stays below this does not move, s.
const STILL: f64 = 0.002;
/// It moves if it sees this share of what connections see: a far side may have a queue as well.
const MOVES: f64 = 0.3;
/// Connections that see less than this do not wait, s.
const CALM: f64 = 0.003;
/// So many stretches in a row convince: several places, a single one, anything of one that is proven.
const SEVERAL: u32 = 4;
const SINGLE: u32 = 12;
const PROVEN: u32 = 120;
/// The same of one that is nearer than lines are: most likely it is a box in front of the line.
const SEVERAL_NEAR: u32 = 2;
const SINGLE_NEAR: u32 = 4;
/// The same of one behind which nothing that is surely beyond the line answers: there is hardly anything else to explain
/// it, and all that a wrong doubt costs is that connections are the probes (decision 0107).
const SEVERAL_IN_FRONT: u32 = 1;
const SINGLE_IN_FRONT: u32 = 2;
/// What answers sooner is hardly beyond an access line, s.
pub(crate) const NEAR: f64 = 0.001;
/// So many of waiting alone, and of scattering alone: the latter compares answers with round trips of the same time, so that two
/// are enough (decision 0119, which has four as well).
const ALONE: u32 = 10;
const SCATTERS: u32 = 2;
/// A doubt lasts so long, and the next one twice as long, so many times.
const DOUBTED: Duration = Duration::from_secs(600);
const DOUBLED: u32 = 5;

/// Why it is not believed any more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Doubt {
    /// It does not see the queue that connections see, s.
    BeforeBottleneck(f64),
    /// It takes so much longer by itself, s.
    SlowToAnswer(f64),
}

/// How often somebody was doubted, and until when: a doubt may be wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doubts {
    times: u32,
    until: Duration,
}

impl Doubts {
    /// Once more.
    pub(crate) fn add(&mut self, now: Duration) {
        self.until = now + DOUBTED * (1 << self.times.min(DOUBLED));
        self.times = self.times.saturating_add(1);
    }

    /// Whether one still lasts.
    pub(crate) fn last(&self, now: Duration) -> bool {
        now < self.until
    }
}

/// What a stretch of half a second showed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// The least that an answer ever took, s.
    pub(crate) least: f64,
    /// Nothing that is surely beyond the access line answers.
    pub(crate) may_be_in_front: bool,
    /// By how much answers took longer than the least ever, in the middle, s; `None`: there were
    /// none.
    pub(crate) own: Option<f64>,
    /// From which on that means something, s.
    pub(crate) rise: f64,
    /// How far answers were apart, the middle one and the least, s, and how far round trips of connections were; `None`:
    /// there were too few.
    pub(crate) spread: Option<f64>,
    pub(crate) their_spread: Option<f64>,
    /// What connections saw.
    pub(crate) passive: Option<Passive>,
    /// Enough passes to make a queue.
    pub(crate) loaded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Untried,
    /// It saw a queue that connections saw as well.
    Proven,
    /// Connections wait, it does not: for so many stretches, and whether it was proven before.
    Unmoved {
        stretches: u32,
        proven: bool,
    },
    /// It waits or scatters, connections do not.
    Alone {
        stretches: u32,
        proven: bool,
    },
}

/// What is known of a reflector.
#[derive(Debug, Clone)]
pub(crate) struct Trust(State);

/// What a stretch says, if anything.
enum Says {
    Together,
    /// Connections wait so long, at so many places.
    Unmoved(f64, usize),
    Alone(f64),
    Scatters(f64),
    NobodyWaits,
    /// Nobody passes, and it does not wait.
    WaitsNoMore,
}

impl Default for Trust {
    fn default() -> Self {
        Trust(State::Untried)
    }
}

impl Trust {
    /// The latest stretch that told something spoke against it.
    pub(crate) fn is_suspicious(&self) -> bool {
        matches!(self.0, State::Unmoved { .. } | State::Alone { .. })
    }

    /// A stretch has passed.
    pub(crate) fn look(&mut self, stretch: &Stretch) -> Option<Doubt> {
        let proven = match self.0 {
            State::Untried => false,
            State::Proven => true,
            State::Unmoved { proven, .. } | State::Alone { proven, .. } => proven,
        };
        let rest = if proven {
            State::Proven
        } else {
            State::Untried
        };
        match says(stretch)? {
            Says::Together => self.0 = State::Proven,
            Says::NobodyWaits => self.0 = rest,
            Says::WaitsNoMore => {
                if matches!(self.0, State::Alone { .. }) {
                    self.0 = rest;
                }
            }
            Says::Unmoved(queue, places) => {
                let before = match self.0 {
                    State::Unmoved { stretches, .. } => stretches,
                    _ => 0,
                };
                let stretches = before + 1;
                self.0 = State::Unmoved { stretches, proven };
                if stretches >= enough(stretch, places, proven) {
                    self.0 = State::Untried;
                    return Some(Doubt::BeforeBottleneck(queue));
                }
            }
            Says::Alone(delay) => return self.is_alone(delay, proven, ALONE),
            Says::Scatters(delay) => return self.is_alone(delay, proven, SCATTERS),
        }
        None
    }

    /// Once more it waits for `delay`, s, and connections do not; `enough` such stretches in a row convince.
    fn is_alone(&mut self, delay: f64, proven: bool, enough: u32) -> Option<Doubt> {
        let before = match self.0 {
            State::Alone { stretches, .. } => stretches,
            _ => 0,
        };
        let stretches = before + 1;
        self.0 = State::Alone { stretches, proven };
        if stretches < enough {
            return None;
        }
        self.0 = State::Untried;
        Some(Doubt::SlowToAnswer(delay))
    }
}

/// So many stretches in a row in which connections to so many places wait and it does not convince.
fn enough(stretch: &Stretch, places: usize, proven: bool) -> u32 {
    let (single, several) = if proven {
        (PROVEN, PROVEN)
    } else if stretch.least >= NEAR {
        (SINGLE, SEVERAL)
    } else if stretch.may_be_in_front {
        (SINGLE_IN_FRONT, SEVERAL_IN_FRONT)
    } else {
        (SINGLE_NEAR, SEVERAL_NEAR)
    };
    if places > 1 { several } else { single }
}

/// Whether answers that are so far apart, s, may be those of a hop that is slow to answer.
pub(crate) fn scatters(spread: f64) -> bool {
    spread > QUEUE
}

fn says(stretch: &Stretch) -> Option<Says> {
    let own = stretch.own?;
    // A queue of the line makes the round trips of both longer, at the same time and by the same.
    if let (Some(own), Some(theirs)) = (stretch.spread, stretch.their_spread)
        && scatters(own)
        && theirs < MOVES * own
    {
        return Some(Says::Scatters(own));
    }
    let Some(passive) = stretch.passive else {
        // Nobody passes, or round trips take longer than a stretch: that it waits no more is all that can be known.
        return (own < stretch.rise).then_some(Says::WaitsNoMore);
    };
    let queue = passive.queue;
    let waits = own > stretch.rise.max(STILL);
    if queue > QUEUE.max(2.0 * stretch.rise) && stretch.loaded {
        if waits && own >= MOVES * queue {
            return Some(Says::Together);
        }
        return (!waits).then_some(Says::Unmoved(queue, passive.places));
    }
    if queue < CALM && own > QUEUE.max(3.0 * stretch.rise) && !stretch.loaded {
        return Some(Says::Alone(own));
    }
    (queue < CALM && !waits).then_some(Says::NobodyWaits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ms that the reflector and connections (at so many places) see, on a loaded line or not.
    fn second(own: f64, passive: Option<(f64, usize)>, loaded: bool) -> Stretch {
        Stretch {
            least: 0.010,
            may_be_in_front: false,
            own: Some(own / 1e3),
            rise: 0.001,
            spread: None,
            their_spread: None,
            passive: passive.map(|(queue, places)| Passive {
                queue: queue / 1e3,
                places,
            }),
            loaded,
        }
    }

    /// The same where answers are so far apart, ms, and round trips so far.
    fn scattered(own: f64, theirs: Option<f64>) -> Stretch {
        Stretch {
            spread: Some(own / 1e3),
            their_spread: theirs.map(|ms| ms / 1e3),
            // What the hop does was taken for what the line does by itself.
            rise: 0.1,
            ..second(own, None, true)
        }
    }

    #[test]
    fn what_scatters_alone_under_load_is_slow_to_answer() {
        for (own, theirs, doubt) in [
            (25.0, Some(1.0), Some((2, Doubt::SlowToAnswer(0.025)))),
            // A line that jitters, or whose queue comes and goes, does so for both.
            (25.0, Some(12.0), None),
            (25.0, None, None),
            (8.0, Some(0.1), None),
        ] {
            let stretch = scattered(own, theirs);
            let got = doubted(&mut Trust::default(), &stretch);
            assert_eq!(got, doubt, "{own} {theirs:?}");
        }
    }

    /// In which second a doubt comes, if the same is seen all the time.
    fn doubted(trust: &mut Trust, second: &Stretch) -> Option<(u32, Doubt)> {
        (1..200).find_map(|n| Some((n, trust.look(second)?)))
    }

    #[test]
    fn what_it_takes_to_doubt() {
        let before = |n| Some((n, Doubt::BeforeBottleneck(0.063)));
        for (own, passive, loaded, doubt) in [
            (0.1, Some((63.0, 2)), true, before(4)),
            (0.1, Some((63.0, 1)), true, before(12)),
            // Its noise is no queue; nor is what is only somebody else's jitter.
            (0.9, Some((63.0, 2)), true, before(4)),
            (0.1, Some((9.0, 2)), true, None),
            (0.1, Some((63.0, 2)), false, None),
            (0.1, None, true, None),
            // It sees a part of it: the rest is farther away.
            (30.0, Some((63.0, 2)), true, None),
            (5.0, Some((63.0, 2)), true, None),
            // By itself.
            (
                40.0,
                Some((1.0, 2)),
                false,
                Some((10, Doubt::SlowToAnswer(0.040))),
            ),
            (40.0, Some((1.0, 2)), true, None),
            (40.0, None, false, None),
            (5.0, Some((1.0, 2)), false, None),
        ] {
            let second = second(own, passive, loaded);
            let got = doubted(&mut Trust::default(), &second);
            assert_eq!(got, doubt, "{own} {passive:?} {loaded}");
        }
    }

    #[test]
    fn what_is_near_is_doubted_sooner_and_a_box_that_is_alone_soonest() {
        for (least, may_be_in_front, places, stretches) in [
            (0.010, true, 2, 4),
            (0.0005, false, 2, 2),
            (0.0005, false, 1, 4),
            (0.0005, true, 2, 1),
            (0.0005, true, 1, 2),
        ] {
            let stretch = Stretch {
                least,
                may_be_in_front,
                ..second(0.1, Some((63.0, places)), true)
            };
            let got = doubted(&mut Trust::default(), &stretch).map(|d| d.0);
            assert_eq!(got, Some(stretches), "{least} {may_be_in_front} {places}");
        }
    }

    #[test]
    fn a_doubt_ends_and_the_next_one_later() {
        let mut doubts = Doubts::default();
        assert!(!doubts.last(Duration::ZERO));
        for minutes in [10, 20, 40, 80, 160, 320, 320] {
            let now = Duration::from_secs(12_345);
            doubts.add(now);
            let end = now + Duration::from_secs(60 * minutes);
            let before = end.saturating_sub(Duration::from_secs(1));
            assert!(doubts.last(before), "{minutes}");
            assert!(!doubts.last(end), "{minutes}");
        }
    }

    #[test]
    fn one_that_was_proven_is_doubted_late() {
        let mut trust = Trust::default();
        assert_eq!(trust.look(&second(50.0, Some((63.0, 1)), true)), None);
        assert_eq!(trust.0, State::Proven);
        let unmoved = second(0.1, Some((63.0, 3)), true);
        assert_eq!(doubted(&mut trust, &unmoved).map(|d| d.0), Some(120));
    }

    #[test]
    fn a_second_that_says_the_opposite_begins_anew() {
        let unmoved = second(0.1, Some((63.0, 2)), true);
        let calm = second(0.1, Some((1.0, 2)), true);
        let nothing = second(0.1, Some((6.0, 2)), true);
        let mut trust = Trust::default();
        for n in 0..30 {
            let last = if n % 3 == 2 { &calm } else { &unmoved };
            assert_eq!(trust.look(last), None, "{n}");
        }
        // What says nothing takes nothing back.
        let nobody = second(0.1, None, true);
        for each in [&unmoved, &nothing, &unmoved, &nobody, &unmoved] {
            assert_eq!(trust.look(each), None);
        }
        assert!(trust.look(&unmoved).is_some());
        let silent = Stretch {
            own: None,
            ..unmoved
        };
        assert_eq!(doubted(&mut trust, &silent), None);
    }
}
