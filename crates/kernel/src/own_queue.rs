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
    /// What is light waited as well: so little is let out that acknowledgements may take more than their share of it.
    light_waits: bool,
}

impl OwnQueueDelay {
    /// So old a look is forgotten.
    pub(crate) const RECENT: Duration = Duration::from_secs(2);

    /// At `now`, `sent` bytes had left, and `backlog` bytes waited to be sent at `rate`; a packet that is being sent, of
    /// up to `packet` bytes, is not among them. `light_waits`: also what is light, which goes first as long as it takes no
    /// more than its share.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        (sent, backlog): (u64, u64),
        packet: u32,
        rate: Rate,
        light_waits: bool,
    ) {
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
            light_waits,
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
    pub(crate) fn at(&self, left: Duration, is_light: bool) -> Duration {
        let after = self.looks.partition_point(|l| l.at < left);
        let first = after.saturating_sub(1);
        let around = self.looks.iter().enumerate().skip(first).take(2);
        around
            .filter(|(_, l)| !is_light || l.light_waits)
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
        assert_eq!(waits.at(ms(5), false), ms(0), "nothing was seen");
        let looks = [(100, 0, 20), (200, 30, 0), (300, 80, 50), (400, 180, 30)];
        for (now, sent, backlog) in looks {
            waits.look(ms(now), (sent, backlog), 10, SLOW, false);
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
            assert_eq!(waits.at(ms(left), false), ms(wait), "{left}: {why}");
        }
    }

    #[test]
    fn a_rate_that_is_cut_meanwhile_makes_no_error() {
        let mut waits = OwnQueueDelay::default();
        waits.look(ms(0), (1000, 90), 10, SLOW, false);
        // It was to take 100 ms, and takes 400.
        for n in 1..=20 {
            let seen = (1000 + 5 * n, 90 - 4 * n);
            waits.look(ms(n * 20), seen, 10, SLOW.permille(250), false);
        }
        assert_eq!(waits.at(ms(0), false), ms(400));
    }

    #[test]
    fn what_is_light_waits_only_where_little_is_let_out() {
        let mut waits = OwnQueueDelay::default();
        for (at, light_waits) in [(0, false), (100, false), (200, true)] {
            waits.look(ms(at), (at, 90), 10, SLOW, light_waits);
        }
        assert_eq!(waits.at(ms(0), true), ms(0));
        assert_eq!(waits.at(ms(0), false), ms(100));
        assert_eq!(waits.at(ms(200), true), ms(100));
    }

    #[test]
    fn old_looks_are_forgotten() {
        let mut waits = OwnQueueDelay::default();
        for now in 0..10_000 {
            waits.look(ms(now), (now, 10), 0, SLOW, false);
        }
        assert!(waits.looks.len() <= 2001, "{}", waits.looks.len());
        waits.look(ms(20_000), (10_000, 0), 0, SLOW, false);
        assert_eq!(waits.at(ms(9000), false), ms(0));
    }

    #[test]
    fn a_device_whose_counters_begin_anew_is_another_one() {
        let mut waits = OwnQueueDelay::default();
        waits.look(ms(0), (5000, 50), 10, SLOW, false);
        waits.look(ms(20), (0, 0), 10, SLOW, false);
        assert_eq!(waits.at(ms(0), false), ms(0));
    }
}
