//! Time of use: how long each device on our side moved more than next to nothing.
//!
//! Principles: looks of some seconds tell it, so pauses as between the parts of a film are of the use; what devices say by
//! themselves (keep-alives, notifications) is none. Non-goals: where it is kept (`usage`).

use std::collections::BTreeMap;
use std::time::Duration;

/// Who moves less than this, both directions together, bit/s, moves next to nothing: a call or a game has more.
const NOTHING: f64 = 32_000.0;
/// A pause that is no longer is of the use; so is a look.
const PAUSE: Duration = Duration::from_secs(60);

/// Who was in use at looks so far.
#[derive(Debug)]
pub struct UseTimer {
    looked: Duration,
    /// When each was in use last.
    last: BTreeMap<String, Duration>,
    last_of_all: Option<Duration>,
}

/// Time of use that came at a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InUse {
    /// In which anybody used the line.
    pub line: Duration,
    /// Of each.
    pub hosts: BTreeMap<String, Duration>,
}

impl UseTimer {
    /// Begins at this time of a steady clock.
    pub fn new(now: Duration) -> Self {
        UseTimer {
            looked: now,
            last: BTreeMap::new(),
            last_of_all: None,
        }
    }

    /// Since the last look each has moved so many bytes.
    pub fn look(&mut self, now: Duration, moved: &BTreeMap<String, u64>) -> InUse {
        let took = now.saturating_sub(self.looked).min(PAUSE);
        self.looked = now;
        let more = |last: Option<Duration>| {
            let since = last.map(|at| now.saturating_sub(at));
            since.filter(|s| *s <= took + PAUSE).unwrap_or(took)
        };
        let mut in_use = InUse::default();
        for (name, bytes) in moved {
            if *bytes as f64 * 8.0 > NOTHING * took.as_secs_f64() {
                let last = self.last.insert(name.clone(), now);
                in_use.hosts.insert(name.clone(), more(last));
            }
        }
        if !in_use.hosts.is_empty() {
            in_use.line = more(self.last_of_all.replace(now));
        }
        self.last
            .retain(|_, at| now.saturating_sub(*at) <= 2 * PAUSE);
        in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// Looks each ten seconds; bytes that the TV and the phone moved.
    fn used(looks: &[(u64, u64)]) -> (u64, u64, u64) {
        let mut timer = UseTimer::new(seconds(1000));
        let mut sum = InUse::default();
        for (n, (tv, phone)) in looks.iter().enumerate() {
            let moved = [("tv".to_owned(), *tv), ("phone".to_owned(), *phone)].into();
            let more = timer.look(seconds(1010 + 10 * n as u64), &moved);
            sum.line += more.line;
            for (name, time) in more.hosts {
                *sum.hosts.entry(name).or_default() += time;
            }
        }
        let of = |name: &str| sum.hosts.get(name).map_or(0, Duration::as_secs);
        (of("tv"), of("phone"), sum.line.as_secs())
    }

    #[test]
    fn next_to_nothing_is_none_and_pauses_are_of_the_use() {
        let (film, keepalive) = (5_000_000, 2_000);
        // A film that comes in parts, for 70 s, beside a phone in a pocket.
        let parts: Vec<_> = (0..7)
            .map(|n| (if n % 3 == 0 { film } else { 0 }, keepalive))
            .collect();
        assert_eq!(used(&parts), (70, 0, 70));
        // Another film an hour later has no pause before it.
        let mut later = vec![(film, 0)];
        later.extend([(0, 0); 360]);
        later.push((film, 0));
        assert_eq!(used(&later), (20, 0, 20));
        // The line is in use while anybody uses it, and once at a time.
        assert_eq!(used(&[(film, film), (0, film), (0, film)]), (10, 30, 30));
    }

    #[test]
    fn a_look_that_took_long_is_no_use_of_hours() {
        let mut timer = UseTimer::new(seconds(0));
        let moved = [("tv".to_owned(), 1 << 30)].into();
        assert_eq!(timer.look(seconds(7200), &moved).line, PAUSE);
    }
}
