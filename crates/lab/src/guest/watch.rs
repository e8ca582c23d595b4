//! When a guest counts as hung: it says nothing, and its clock does not move.
//!
//! Principles: pure; a sign of life is any change of what is seen from outside (bytes on the
//! console, steps told by the program in it), so a slow machine only makes a guest slow, not
//! dead; there is an end all the same. Non-goals: how to look, what to do then.

use std::time::Duration;

/// Without any sign of life for this long a guest is hung. It tells a step every 100 ms of its own
/// time, which take 15 s on a gigabit line and a machine with five times the work it can do.
const SILENCE: Duration = Duration::from_secs(120);
/// From start to end a guest may take this, and this many times what its cell lasts.
const BASE: Duration = Duration::from_secs(120);
const FACTOR: u32 = 240;

/// Watches one guest.
#[derive(Debug)]
pub(super) struct Watch {
    seen: u64,
    moved: Duration,
    end: Duration,
}

impl Watch {
    /// Of a guest that starts at `now` with work that lasts `work` on its own clock.
    pub(super) fn new(now: Duration, work: Duration) -> Self {
        Watch {
            seen: 0,
            moved: now,
            end: now + BASE + work * FACTOR,
        }
    }

    /// Why the guest must be ended, if it must. `seen` grows with every sign of life.
    pub(super) fn look(&mut self, now: Duration, seen: u64) -> Option<String> {
        if seen != self.seen {
            self.seen = seen;
            self.moved = now;
        }
        let still = now.saturating_sub(self.moved);
        if still >= SILENCE {
            let s = still.as_secs();
            return Some(format!(
                "no sign of life for {s} s, neither output nor progress: ended"
            ));
        }
        (now >= self.end).then(|| "it takes far longer than it should: ended".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn silence_is_a_hang_and_slowness_is_not() {
        let mut w = Watch::new(s(100), s(15));
        assert_eq!(w.look(s(219), 0), None);
        assert!(w.look(s(220), 0).unwrap().contains("120 s"));
        let mut w = Watch::new(s(100), s(15));
        for t in 0..20 {
            assert_eq!(w.look(s(100 + t * 100), t), None, "{t}");
        }
    }

    #[test]
    fn there_is_an_end() {
        let mut w = Watch::new(s(0), s(10));
        let ended = (0..10_000).find(|t| w.look(s(*t), *t).is_some());
        assert_eq!(ended, Some(2520));
    }
}
