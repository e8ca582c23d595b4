//! How long what was sent a moment ago waited in our own queue.
//!
//! Principles: what came has left once as much was sent as had come before it, so a rate that is changed meanwhile makes
//! no error; the queue is seen only now and then, so what came between two looks waited as long as what came at one of
//! them: what is too much hides a queue of the line for a moment, what is too little makes one. Non-goals: how the queue
//! is looked at (`status`), what follows (`evenkeel_core::control`).

use std::collections::VecDeque;
use std::time::Duration;

use evenkeel_core::Rate;

/// What was seen of our own queue lately.
#[derive(Debug, Default)]
pub(crate) struct OwnQueueDelay {
    looks: VecDeque<Look>,
    /// At which it is sent now.
    rate: Option<Rate>,
}

/// One look.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Duration,
    /// Bytes that had been sent by then.
    sent: u64,
    /// And will have been when what came then has left.
    until: u64,
}

impl OwnQueueDelay {
    /// So old a look is forgotten.
    pub(crate) const RECENT: Duration = Duration::from_secs(2);

    /// At `now`, `sent` bytes had left, and `backlog` bytes waited to be sent at `rate`; a packet that is being sent, of
    /// up to `packet` bytes, is not among them.
    pub(crate) fn look(&mut self, now: Duration, sent: u64, backlog: u64, packet: u32, rate: Rate) {
        if self.looks.back().is_some_and(|l| sent < l.sent) {
            // The device's counters began anew.
            self.looks.clear();
        }
        let waits = match backlog {
            0 => 0,
            _ => backlog.saturating_add(packet.into()),
        };
        self.rate = Some(rate);
        self.looks.push_back(Look {
            at: now,
            sent,
            until: sent.saturating_add(waits),
        });
        while self
            .looks
            .front()
            .is_some_and(|l| l.at + Self::RECENT < now)
        {
            self.looks.pop_front();
        }
    }

    /// How long what came to the queue at `left` waited there, about; not at all if no look says
    /// otherwise.
    pub(crate) fn at(&self, left: Duration) -> Duration {
        let after = self.looks.partition_point(|l| l.at < left);
        let first = after.saturating_sub(1);
        let around = self.looks.iter().enumerate().skip(first).take(2);
        around
            .map(|(i, l)| self.waited(i, *l))
            .max()
            .unwrap_or_default()
    }

    /// How long what came at look number `i` waited, or will.
    fn waited(&self, i: usize, look: Look) -> Duration {
        let mut before = look;
        for l in self.looks.iter().skip(i) {
            if l.sent >= look.until {
                // As if it was sent evenly between two looks.
                let (all, part) = (l.sent - before.sent, look.until - before.sent);
                let share = if all == 0 {
                    0.0
                } else {
                    part as f64 / all as f64
                };
                return before.at.saturating_sub(look.at)
                    + l.at.saturating_sub(before.at).mul_f64(share);
            }
            before = *l;
        }
        let rest = self.rate.and_then(|r| r.time_for(look.until - before.sent));
        before.at.saturating_sub(look.at) + rest.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte takes 1 ms.
    const SLOW: Rate = Rate::from_bps(8000);

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn between_two_looks_the_longer_counts() {
        let mut waits = OwnQueueDelay::default();
        assert_eq!(waits.at(ms(5)), ms(0), "nothing was seen");
        let looks = [(100, 0, 20), (200, 30, 0), (300, 80, 50), (400, 180, 30)];
        for (now, sent, backlog) in looks {
            waits.look(ms(now), sent, backlog, 10, SLOW);
        }
        let table = [
            (50, 100, "before the first: it had left by the second"),
            (100, 100, "with the packet that is being sent"),
            (150, 100, "the one before"),
            (250, 60, "the one after"),
            (350, 60, "the one before"),
            (500, 40, "after the last, at the rate of now"),
        ];
        for (left, wait, why) in table {
            assert_eq!(waits.at(ms(left)), ms(wait), "{left}: {why}");
        }
    }

    #[test]
    fn a_rate_that_is_cut_meanwhile_makes_no_error() {
        let mut waits = OwnQueueDelay::default();
        waits.look(ms(0), 1000, 90, 10, SLOW);
        // It was to take 100 ms, and takes 400.
        for n in 1..=20 {
            waits.look(ms(n * 20), 1000 + 5 * n, 90 - 4 * n, 10, SLOW.permille(250));
        }
        assert_eq!(waits.at(ms(0)), ms(400));
    }

    #[test]
    fn old_looks_are_forgotten() {
        let mut waits = OwnQueueDelay::default();
        for now in 0..10_000 {
            waits.look(ms(now), now, 10, 0, SLOW);
        }
        assert!(waits.looks.len() <= 2001, "{}", waits.looks.len());
        waits.look(ms(20_000), 10_000, 0, 0, SLOW);
        assert_eq!(waits.at(ms(9000)), ms(0));
    }

    #[test]
    fn a_device_whose_counters_begin_anew_is_another_one() {
        let mut waits = OwnQueueDelay::default();
        waits.look(ms(0), 5000, 50, 10, SLOW);
        waits.look(ms(20), 0, 0, 10, SLOW);
        assert_eq!(waits.at(ms(0)), ms(0));
    }
}
