//! How long what was sent a moment ago waited in our own queue.
//!
//! Principles: the queue is seen only now and then, so between two looks it was as long as the
//! longer of them: what is too much hides a queue of the line for a moment, what is too little
//! makes one. Non-goals: how the queue is looked at (`status`), what follows
//! (`evenkeel_core::control`).

use std::collections::VecDeque;
use std::time::Duration;

use evenkeel_core::Rate;

/// What was seen of our own queue lately.
#[derive(Debug, Default)]
pub(crate) struct OwnQueueDelay {
    /// When, and how long what came then had to wait.
    looks: VecDeque<(Duration, Duration)>,
}

impl OwnQueueDelay {
    /// So old a look is forgotten.
    pub(crate) const RECENT: Duration = Duration::from_secs(2);

    /// At `now`, `backlog` bytes waited to be sent at `rate`; a packet that is being sent, of up to
    /// `packet` bytes, is not among them.
    pub(crate) fn look(&mut self, now: Duration, backlog: u64, packet: u32, rate: Rate) {
        let wait = match backlog {
            0 => Duration::ZERO,
            _ => rate
                .time_for(backlog.saturating_add(packet.into()))
                .unwrap_or_default(),
        };
        self.looks.push_back((now, wait));
        while self.looks.front().is_some_and(|l| l.0 + Self::RECENT < now) {
            self.looks.pop_front();
        }
    }

    /// How long what came to the queue at `left` waited there, about; not at all if no look says
    /// otherwise.
    pub(crate) fn at(&self, left: Duration) -> Duration {
        let after = self.looks.partition_point(|l| l.0 < left);
        let around = self.looks.iter().skip(after.saturating_sub(1)).take(2);
        around.map(|l| l.1).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn between_two_looks_the_longer_counts() {
        let mut waits = OwnQueueDelay::default();
        assert_eq!(waits.at(ms(5)), ms(0), "nothing was seen");
        // A byte takes 1 ms.
        for (now, backlog) in [(100, 20), (200, 0), (300, 50), (400, 30)] {
            waits.look(ms(now), backlog, 10, Rate::from_bps(8000));
        }
        let table = [
            (50, 30, "before the first"),
            (100, 30, "with the packet that is being sent"),
            (150, 30, "the one before"),
            (250, 60, "the one after"),
            (350, 60, "the one before"),
            (500, 40, "after the last"),
        ];
        for (left, wait, why) in table {
            assert_eq!(waits.at(ms(left)), ms(wait), "{left}: {why}");
        }
    }

    #[test]
    fn old_looks_are_forgotten() {
        let mut waits = OwnQueueDelay::default();
        for now in 0..10_000 {
            waits.look(ms(now), 10, 0, Rate::from_bps(8000));
        }
        assert!(waits.looks.len() <= 2001, "{}", waits.looks.len());
        waits.look(ms(20_000), 0, 0, Rate::from_bps(8000));
        assert_eq!(waits.at(ms(9000)), ms(0));
    }
}
