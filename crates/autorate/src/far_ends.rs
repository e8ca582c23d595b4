//! Far ends of busy connections: they are asked for echoes where nothing on the way answers often.
//!
//! What an echo takes beyond the least to the same place is a queue of the line, as with round trips of connections
//! (`places`); but it has never waited in a queue of our own, and it comes as often as it is asked for.
//!
//! | state | what a stretch shows | next |
//! |---|---|---|
//! | no far end | several round trips of connections to it | asked |
//! | asked | the same | asked |
//! | asked | for the last time that it takes: hardly any | no far end |
//! | asked | for the last time that it takes: echoes later, or sooner, than its own connections | doubted |
//! | asked | many in a row are not answered, or only few of many | doubted |
//! | doubted | ten minutes, then twenty, ... | no far end |
//!
//! Principles: a stranger is asked only while its own connections are busy, and never more often than a few times for
//! each of their round trips; few are asked at the same time; private addresses may be before the line; an echo is
//! believed as long as it tells what those connections tell. Non-goals: what the answers mean (`evenkeel_core::control`), hosts
//! that no TCP connection leads to.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use evenkeel_core::control::RttSample;
use evenkeel_measure::ping::Kind;

use crate::asked::Reflector;
use crate::candidates::Candidate;
use crate::error::Error;
use crate::reflector::{Found, Origin, Probe};
use crate::trust::{Doubt, Doubts};

/// So many are asked at the same time: one may have a queue of its own.
const MOST: usize = 2;
/// So many that were doubted are remembered.
const REMEMBERED: usize = 256;
/// Round trips of connections that are busy, in a stretch; it may have begun in the one before.
const BUSY: u32 = 4;
/// So long is a stretch.
const STRETCH: Duration = Duration::from_millis(500);
/// A far end is one no more after so many stretches in a row without.
const QUIET: u32 = 4;
/// From one echo to the next, of all together: as often as a loaded line is probed (`evenkeel_core::control`).
const EACH: Duration = Duration::from_millis(20);
/// A round trip of its connections allows for so many echoes, of the many packets that it stands for; so many are kept.
const ALLOWS: u32 = 3;
const ALLOWED: u32 = 50;
/// One that has never answered is doubted after so many in a row that were not answered; one that has, after so many.
const MUTE: u32 = 4;
const GONE: u32 = 25;
/// An echo is later than connections if it takes so much longer, or this share.
const LATER: Duration = Duration::from_millis(5);
const LATER_SHARE: f64 = 0.25;
/// It does not see their queue if that is so long, and not even this share of it is seen: a queue that is managed for
/// each connection is never so long.
const QUEUE: Duration = Duration::from_millis(50);
const SEES: f64 = 0.3;
/// So many stretches in a row convince.
const CONVINCED: u32 = 4;

/// What became of a far end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum News {
    /// It is asked from now on.
    Asked(Found),
    /// It is not believed.
    Doubted(Found, Doubt),
}

/// One that is asked.
struct FarEnd {
    reflector: Reflector,
    /// Echoes that its connections allow for.
    allowed: u32,
    seen: Seen,
    /// Stretches in a row without busy connections, and in which it told something else than they did.
    quiet: u32,
    differs: u32,
}

/// What round trips and echoes showed in a stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Seen {
    /// Round trips of connections.
    trips: u32,
    /// The least of them, with what it waited in our own queue; and of those that did not wait there.
    least_trip: Option<Duration>,
    least_clear: Option<Duration>,
    /// The least echo.
    least_echo: Option<Duration>,
}

/// Keeps the least.
fn lower(least: &mut Option<Duration>, to: Duration) {
    *least = Some(least.map_or(to, |l| l.min(to)));
}

impl Seen {
    fn note_trip(&mut self, trip: &RttSample) {
        let Some(took) = trip.came.checked_sub(trip.left) else {
            return;
        };
        self.trips += 1;
        lower(&mut self.least_trip, took);
        if trip.waited.is_zero() {
            lower(&mut self.least_clear, took);
        }
    }

    /// What speaks against the echoes, where the least ever took `base`.
    fn against(&self, base: Duration) -> Option<Doubt> {
        let echo = self.least_echo?;
        let later = LATER.max(echo.mul_f64(LATER_SHARE));
        if let Some(trip) = self.least_trip
            && echo > trip + later
        {
            let by = echo.saturating_sub(trip);
            return Some(Doubt::SlowToAnswer(by.as_secs_f64()));
        }
        let queue = self.least_clear?.saturating_sub(base);
        let seen = echo.saturating_sub(base);
        let unseen = queue > QUEUE && seen < queue.mul_f64(SEES);
        unseen.then_some(Doubt::BeforeBottleneck(queue.as_secs_f64()))
    }
}

/// Not in somebody's own network: a box in front of the line may have one.
fn is_beyond(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => !a.is_private() && !a.is_link_local(),
        IpAddr::V6(a) => !a.is_unique_local() && !a.is_unicast_link_local(),
    }
}

/// Those that are asked.
#[derive(Default)]
pub(crate) struct FarEnds {
    all: Vec<FarEnd>,
    doubts: HashMap<IpAddr, Doubts>,
    /// Round trips of the places that connections led to, in this stretch and the one before.
    places: HashMap<IpAddr, [u32; 2]>,
    /// When the stretch began, and the latest echo was asked for.
    began: Duration,
    asked: Duration,
    /// Whose turn it is.
    turn: usize,
    news: Vec<News>,
}

impl FarEnds {
    /// Something else is probed: nobody is asked. Who was doubted stays so.
    pub(crate) fn rest(&mut self) {
        self.all.clear();
        self.places.clear();
    }

    /// What became of them since the last call.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Round trips of connections that ended since the last call.
    pub(crate) fn note_trips(&mut self, trips: &[RttSample], device: &str, now: Duration) {
        for trip in trips {
            self.places.entry(trip.remote).or_default()[0] += 1;
            let asked = |f: &&mut FarEnd| f.reflector.found.address == trip.remote;
            if let Some(far_end) = self.all.iter_mut().find(asked) {
                far_end.allowed = (far_end.allowed + ALLOWS).min(ALLOWED);
                far_end.seen.note_trip(trip);
            }
        }
        if !trips.is_empty() && self.all.len() < MOST {
            self.choose(device, now);
        }
        if now.saturating_sub(self.began) >= STRETCH {
            self.began = now;
            self.judge(now);
            self.places.retain(|_, [now, before]| {
                *before = std::mem::take(now);
                *before > 0
            });
        }
    }

    /// Asks the busiest places that are not asked yet.
    fn choose(&mut self, device: &str, now: Duration) {
        let is_asked = |a: &IpAddr| self.all.iter().any(|f| f.reflector.found.address == *a);
        let is_doubted = |a: &IpAddr| self.doubts.get(a).is_some_and(|d| d.last(now));
        let is_wanted = |a: &IpAddr| is_beyond(*a) && !is_asked(a) && !is_doubted(a);
        let all = self.places.iter();
        let all = all.map(|(a, trips)| (trips.iter().sum::<u32>(), *a));
        let mut busy: Vec<_> = all.filter(|(n, a)| *n >= BUSY && is_wanted(a)).collect();
        busy.sort_unstable();
        while self.all.len() < MOST
            && let Some((trips, address)) = busy.pop()
        {
            let found = Found {
                address,
                probe: Probe::To(Kind::Echo),
                origin: Origin::FarEnd,
                distance: None,
                may_be_in_front: false,
            };
            let of = Candidate {
                found,
                interval: None,
                least: None,
            };
            // One that the kernel does not let be asked is not tried at each look.
            let Some(reflector) = Reflector::open(device, &of, now) else {
                self.doubt(address, now);
                continue;
            };
            self.all.push(FarEnd {
                reflector,
                allowed: ALLOWS * trips,
                seen: Seen::default(),
                quiet: 0,
                differs: 0,
            });
            self.news.push(News::Asked(found));
        }
    }

    /// Sees which of them are far ends of busy connections still, and tell what those tell.
    fn judge(&mut self, now: Duration) {
        for mut far_end in std::mem::take(&mut self.all) {
            let seen = std::mem::take(&mut far_end.seen);
            far_end.quiet = match seen.trips {
                0..BUSY => far_end.quiet + 1,
                _ => 0,
            };
            let against = seen.against(far_end.reflector.least_ever().unwrap_or_default());
            far_end.differs = against.map_or(0, |_| far_end.differs + 1);
            let found = far_end.reflector.found;
            if let Some(why) = against
                && far_end.differs >= CONVINCED
            {
                self.doubt(found.address, now);
                self.news.push(News::Doubted(found, why));
            } else if far_end.is_mute() {
                self.doubt(found.address, now);
            } else if far_end.quiet < QUIET {
                self.all.push(far_end);
            }
        }
    }

    fn doubt(&mut self, address: IpAddr, now: Duration) {
        if self.doubts.len() >= REMEMBERED {
            self.doubts.retain(|_, d| d.last(now));
        }
        if self.doubts.len() < REMEMBERED || self.doubts.contains_key(&address) {
            self.doubts.entry(address).or_default().add(now);
        }
    }

    /// Asks one of them, if it is time; `spared`: no more often than this. Whether it did.
    pub(crate) fn ask(&mut self, spared: Duration, now: Duration) -> Result<bool, Error> {
        // A beat of the loop may be a little early.
        if now.saturating_sub(self.asked) < EACH.max(spared).mul_f64(0.9) {
            return Ok(false);
        }
        let all = self.all.len();
        let next = (0..all).map(|n| (self.turn + n) % all).find(|&at| {
            let far_end = &mut self.all[at];
            far_end.allowed > 0 && far_end.reflector.is_due(now)
        });
        let Some(at) = next else {
            return Ok(false);
        };
        self.turn = at + 1;
        self.asked = now;
        self.all[at].allowed -= 1;
        self.all[at].reflector.ask(now)?;
        Ok(true)
    }

    /// What they have answered since the last call.
    pub(crate) fn heard(&mut self, now: Duration) -> Result<Vec<RttSample>, Error> {
        let mut echoes = Vec::new();
        for far_end in &mut self.all {
            far_end.reflector.take_in(now)?;
            // They do not stamp: how far the line's delay wanders makes no difference.
            for a in far_end.reflector.heard(0.0).answers {
                let took = a.came.saturating_sub(a.sent);
                lower(&mut far_end.seen.least_echo, took);
                echoes.push(RttSample {
                    remote: far_end.reflector.found.address,
                    left: a.sent,
                    waited: Duration::ZERO,
                    came: a.came,
                });
            }
        }
        Ok(echoes)
    }
}

impl FarEnd {
    /// It does not answer, or too seldom to be of use.
    fn is_mute(&self) -> bool {
        let most = match self.reflector.least_ever() {
            None => MUTE,
            Some(_) => GONE,
        };
        self.reflector.unanswered() >= most || self.reflector.is_seldom()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn trip(place: u8, took: u64, waited: u64) -> RttSample {
        RttSample {
            remote: IpAddr::from([127, 0, 0, place]),
            left: ms(1000),
            waited: ms(waited),
            came: ms(1000 + took),
        }
    }

    #[test]
    fn echoes_are_compared_with_the_connections_of_the_same_place() {
        let base = ms(20);
        for (trips, echo, against, why) in [
            (&[(30, 0), (90, 0)][..], 30, None, "both see 10 ms"),
            (
                &[(30, 0)],
                45,
                Some(Doubt::SlowToAnswer(0.015)),
                "it is later",
            ),
            (&[(30, 0)], 36, None, "hardly later: a quarter"),
            (&[(130, 100)], 20, None, "that was our own queue"),
            (
                &[(130, 0), (131, 0)],
                22,
                Some(Doubt::BeforeBottleneck(0.110)),
                "not in the queue",
            ),
            (&[(60, 0)], 20, None, "each connection has its queue"),
            (&[(130, 0)], 70, None, "it sees a part of it"),
            (&[], 300, None, "nothing to compare with"),
        ] {
            let mut seen = Seen {
                least_echo: Some(ms(echo)),
                ..Seen::default()
            };
            for (took, waited) in trips {
                seen.note_trip(&trip(1, *took, *waited));
            }
            assert_eq!(seen.against(base), against, "{why}");
        }
    }

    /// Echoes of the loopback are answered by this machine's kernel.
    #[test]
    fn busy_places_are_asked_as_often_as_they_are_busy() -> Result<(), Error> {
        let mut far_ends = FarEnds::default();
        let idle = [
            trip(1, 20, 0),
            trip(1, 20, 0),
            trip(1, 20, 0),
            trip(2, 20, 0),
        ];
        far_ends.note_trips(&idle, "lo", ms(100));
        assert!(far_ends.all.is_empty(), "too few");
        far_ends.note_trips(&idle[..2], "lo", ms(200));
        let asked = far_ends.take_news();
        assert!(matches!(asked[..], [News::Asked(f)] if f.address == idle[0].remote));
        assert!(far_ends.ask(Duration::ZERO, ms(200))?);
        assert!(!far_ends.ask(Duration::ZERO, ms(210))?, "too soon");
        assert!(!far_ends.ask(ms(1000), ms(300))?, "it is to be spared");
        let asks = (1..100).map(|n| far_ends.ask(Duration::ZERO, ms(200 + 20 * n)));
        let asks = asks.collect::<Result<Vec<_>, _>>()?;
        let asked = asks.iter().filter(|asked| **asked).count();
        assert_eq!(
            asked, 14,
            "as many as five round trips allow for, all in all"
        );
        // Nothing leads there any more.
        for n in 5..10 {
            far_ends.note_trips(&[], "lo", ms(500 * n));
        }
        assert!(far_ends.all.is_empty());
        Ok(())
    }

    #[test]
    fn private_addresses_are_not_asked() {
        for (address, is_asked) in [
            ("192.168.1.2", false),
            ("10.0.0.2", false),
            ("169.254.1.1", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("198.18.0.2", true),
            ("100.64.0.1", true),
            ("2001:db8::1", true),
        ] {
            assert_eq!(is_beyond(address.parse().unwrap()), is_asked, "{address}");
        }
    }

    #[test]
    fn who_is_doubted_is_not_asked_for_a_while() {
        let mut far_ends = FarEnds::default();
        let busy = [trip(1, 20, 0); BUSY as usize];
        far_ends.doubt(busy[0].remote, ms(0));
        far_ends.note_trips(&busy, "lo", ms(100));
        assert!(far_ends.all.is_empty());
        far_ends.note_trips(&busy, "lo", ms(3_600_000));
        assert_eq!(far_ends.all.len(), 1);
    }

    #[test]
    fn a_stretch_that_ends_does_not_hide_that_connections_are_busy() {
        let mut far_ends = FarEnds::default();
        let half = [trip(1, 20, 0); BUSY as usize / 2];
        far_ends.note_trips(&half, "lo", ms(1000));
        far_ends.note_trips(&half, "lo", ms(1100));
        assert_eq!(far_ends.all.len(), 1);
        // What is older counts no more.
        let mut far_ends = FarEnds::default();
        for at in [1000, 1500, 2000, 2500] {
            far_ends.note_trips(&half[..1], "lo", ms(at));
        }
        assert!(far_ends.all.is_empty());
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let mut far_ends = FarEnds::default();
        for n in 0..2 * REMEMBERED as u32 {
            far_ends.doubt(IpAddr::from(n.to_be_bytes()), ms(0));
        }
        assert_eq!(far_ends.doubts.len(), REMEMBERED);
    }
}
