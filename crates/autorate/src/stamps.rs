//! Whether a reflector's time stamps can be true.
//!
//! The way there and the way back together are the round trip, which one clock measured, and
//! queues only ever add to either. So while the round trip is longer by some ms than when the line
//! was idle, neither way can be longer by more than those, nor shorter than it was, but for what
//! each way wanders by itself. A clock that is stepped or stands still breaks that.
//!
//! | state | stamps | next |
//! |---|---|---|
//! | believed | agree | believed |
//! | believed | contradict | doubted |
//! | doubted | contradict | doubted anew |
//! | doubted | agree for a minute, and no queue stands | believed |
//!
//! Principles: what is compared with is the idle line's latest answer, so that clocks may drift.
//! Non-goals: directions (`evenkeel_core::control`).

use std::time::Duration;

use evenkeel_core::control::OneWay;

/// Stamps are of whole ms at both ends, and some clocks tick four times as slowly, s.
const STEPS: f64 = 0.005;
/// Clocks drift apart by up to so much of the time that passes (two quartzes of 100 ppm).
const DRIFT: f64 = 200e-6;
/// An answer that took no longer than the one before it by so much met no queue either, s.
const IDLE: f64 = 0.001;
/// They are believed again after so long, s.
const AGREED: f64 = 60.0;
/// What they are compared with is not older than this, s.
const OLDEST: f64 = 300.0;

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: f64,
    there: f64,
    trip: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Believed,
    /// Since the latest contradiction.
    Doubted(f64),
}

/// What became known by an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// Stamps contradict round trips.
    Contradict,
    /// They have agreed for long.
    Agree,
}

/// A reflector's stamps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stamps {
    state: State,
    idle: Option<Sample>,
    /// The shortest round trip since then.
    next: Option<Sample>,
    /// The shortest round trip that is remembered, whatever stamps said, s; and when it was seen.
    shortest: Option<(f64, f64)>,
}

impl Stamps {
    /// Whether they are to be used.
    pub(crate) fn are_believed(&self) -> bool {
        self.state == State::Believed
    }

    /// An answer came at `now`, over a line whose delay wanders by so much without a queue, s.
    pub(crate) fn note(&mut self, now: Duration, one_way: OneWay, wander: f64) -> Option<News> {
        let now = now.as_secs_f64();
        let sample = Sample {
            at: now,
            there: one_way.there,
            trip: one_way.there + one_way.back,
        };
        let remembered = self.shortest.filter(|s| now - s.1 < OLDEST);
        let shortest = remembered.filter(|s| s.0 < sample.trip);
        self.shortest = shortest.or(Some((sample.trip, now)));
        let is_idle = shortest.is_none_or(|s| sample.trip <= s.0 + IDLE);
        if self.next.is_none_or(|n| sample.trip <= n.trip) {
            self.next = Some(sample);
        }
        if self.idle.is_none_or(|i| now - i.at >= OLDEST) {
            self.idle = self.next.take();
        }
        let idle = self.idle?;
        if !agrees(idle, sample, wander) {
            (self.idle, self.next) = (Some(sample), None);
            let before = std::mem::replace(&mut self.state, State::Doubted(now));
            return (before == State::Believed).then_some(News::Contradict);
        }
        if sample.trip <= idle.trip + IDLE {
            // The shortest one stays what is compared with, as far as clocks let it.
            let trip = sample.trip.min(idle.trip + DRIFT * (now - idle.at));
            (self.idle, self.next) = (Some(Sample { trip, ..sample }), None);
        }
        match self.state {
            State::Doubted(since) if is_idle && now - since >= AGREED => {
                self.state = State::Believed;
                Some(News::Agree)
            }
            _ => None,
        }
    }
}

/// Whether the way there changed by no more than the round trip did, and both ways wander.
fn agrees(idle: Sample, sample: Sample, wander: f64) -> bool {
    let off = STEPS + wander + DRIFT * (sample.at - idle.at);
    let longer = sample.trip - idle.trip;
    let there = sample.there - idle.there;
    (longer.min(0.0) - off..=longer.max(0.0) + off).contains(&there)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stamps of whole ms of a clock that is `ahead` ms, with queues of so many ms there and back
    /// on a line of 4 and 6 ms.
    fn stamped(at_ms: u64, ahead: f64, queues: [f64; 2]) -> (Duration, OneWay) {
        let (there, back) = (4.0 + queues[0], 6.0 + queues[1]);
        let stamp = ((at_ms as f64 + there + ahead).floor() - at_ms as f64) / 1e3;
        let one_way = OneWay {
            there: stamp,
            back: (there + back) / 1e3 - stamp,
        };
        (Duration::from_millis(at_ms), one_way)
    }

    /// What becomes known, and after how many s, of a clock that is so far ahead at a time (s) and
    /// queues of so many ms; one answer each 100 ms.
    fn news(
        seconds: u64,
        ahead: impl Fn(f64) -> f64,
        queues: impl Fn(f64) -> [f64; 2],
    ) -> Vec<(u64, News)> {
        news_of_wandering(seconds, 0.0, ahead, queues)
    }

    /// The same on a line whose delay wanders by so much, s.
    fn news_of_wandering(
        seconds: u64,
        wander: f64,
        ahead: impl Fn(f64) -> f64,
        queues: impl Fn(f64) -> [f64; 2],
    ) -> Vec<(u64, News)> {
        let mut stamps = Stamps::default();
        let mut all = Vec::new();
        for n in 0..10 * seconds {
            let s = n as f64 / 10.0;
            let (now, one_way) = stamped(100 * n, ahead(s), queues(s));
            all.extend(stamps.note(now, one_way, wander).map(|news| (n / 10, news)));
        }
        all
    }

    #[test]
    fn true_stamps_are_believed() {
        let none = |_: f64| [0.0, 0.0];
        let saw = |s: f64| [(s * 7.0) % 50.0, (s * 3.0) % 100.0];
        assert_eq!(news(600, |_| 12_345.0, none), []);
        assert_eq!(news(600, |_| -1e6, saw), []);
        // Two bad quartzes, idle and through a minute of load.
        assert_eq!(news(600, |s| 0.15 * s, none), []);
        let load = |s: f64| {
            if (100.0..160.0).contains(&s) {
                [0.0, 80.0]
            } else {
                [0.0; 2]
            }
        };
        assert_eq!(news(600, |s| -0.15 * s, load), []);
    }

    #[test]
    fn a_clock_that_steps_is_doubted_for_a_minute() {
        let step = |s: f64| if s < 100.0 { 0.0 } else { 500.0 };
        let all = [(100, News::Contradict), (160, News::Agree)];
        assert_eq!(news(300, step, |_| [0.0; 2]), all);
        let back = |s: f64| if s < 100.0 { 0.0 } else { -9.0 };
        assert_eq!(news(300, back, |_| [0.0; 2]), all);
        // Within a load, and it is not believed again before its end.
        let load = |s: f64| {
            if (50.0..200.0).contains(&s) {
                [60.0, 0.0]
            } else {
                [0.0; 2]
            }
        };
        let all = [(100, News::Contradict), (200, News::Agree)];
        assert_eq!(news(300, step, load), all);
    }

    #[test]
    fn a_clock_that_stands_still_is_never_believed() {
        let found = news(600, |s| -1e3 * s, |_| [0.0; 2]);
        assert_eq!(found, [(0, News::Contradict)]);
    }

    #[test]
    fn another_route_is_no_contradiction() {
        let longer = |s: f64| if s < 100.0 { [0.0; 2] } else { [12.0, 12.0] };
        assert_eq!(news(900, |_| 0.0, longer), []);
    }

    #[test]
    fn a_way_that_wanders_is_no_contradiction_and_a_step_is_one_all_the_same() {
        // Each way becomes shorter by 16 ms, and a queue of 30 ms stands there.
        let wanders = |s: f64| if s < 5.0 { [20.0, 20.0] } else { [34.0, 4.0] };
        let none = news_of_wandering(60, 0.020, |_| 0.0, wanders);
        assert_eq!(none, []);
        let doubted = news(20, |_| 0.0, wanders);
        assert_eq!(doubted, [(5, News::Contradict)]);
        let step = |s: f64| if s < 30.0 { 0.0 } else { 500.0 };
        let all = news_of_wandering(60, 0.020, step, wanders);
        assert_eq!(all, [(30, News::Contradict)]);
    }
}
