//! The queue towards us, by the clocks of far sides: TCP time stamps (RFC 7323) date what they send.
//!
//! A packet's date and its arrival tell how long the way towards us took, but for how far both clocks are apart, which
//! stays the same: so what it takes beyond what it took without a queue is the queue towards us, and the rest of a
//! round trip's queue is from us.
//!
//! Principles: only differences within one connection count; a clock whose tick is coarse or not known yet says
//! nothing, nor does a connection that was met only beside a queue; of what comes at the same time the least counts:
//! far sides dawdle, none dates ahead. Clocks drift, so without a queue what a way took is learned anew. Non-goals:
//! round trips (`passive_rtt`), what follows (`attribution`).

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::recent::Recent;

/// So many connections are remembered.
const MOST: usize = 256;
/// Ticks of a second that are fine enough: ms as Linux, Apple and BSD have, and us (Linux since 6.7, TCP_TS_US).
const TICKS: [f64; 2] = [1e3, 1e6];
/// What was counted may differ by this factor, since a queue grows or shrinks meanwhile; coarser clocks (100, 250)
/// differ by more.
const ALIKE: f64 = 1.6;
/// Ticks are counted for so long at least, s.
const COUNTED: f64 = 0.03;
/// Clocks are thought to drift apart by no more than this share of the time (quartz: 0.0001 each).
const DRIFT: f64 = 0.0002;
/// No line holds anything for longer, s: what seems to have waited so long is of another connection with the same ports.
const LONGEST: f64 = 5.0;
/// A queue is off by so many ticks at most: one of what came, and one of what came without a queue.
const OFF: f64 = 2.0;
/// What came so much before or after something came at the same time, s; in want of that, so much. A queue that
/// senders begin to make grows by a second each second.
const TOGETHER: [f64; 4] = [0.005, 0.015, 0.05, 0.2];

/// The time stamp of a packet that came (RFC 7323).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TcpTimestamp {
    /// From where.
    pub remote: IpAddr,
    /// Which connection of those that lead there.
    pub connection: u32,
    /// TSval: when it was sent, by the far side's clock.
    pub tsval: u32,
    /// When it came, before our own queue for arrivals, steady clock.
    pub came: Duration,
}

/// A far side's clock as one connection sees it.
#[derive(Debug, Clone, Copy)]
struct PeerClock {
    /// The latest stamp, and ticks since the first: 32 bits of them are few (71 minutes of us).
    tsval: u32,
    counted: f64,
    /// When the first came, s.
    first: f64,
    /// Ticks of a second, once that is known.
    ticks: Option<f64>,
    /// What the way took without a queue, beyond that of the first stamp, s; `None`: there was always one.
    base: Option<f64>,
    /// When that was learned, s.
    learned: f64,
}

/// Those of all connections.
#[derive(Debug, Clone)]
pub(super) struct PeerClocks {
    all: Recent<(IpAddr, u32), PeerClock>,
    /// What came of late.
    queues: VecDeque<Met>,
}

/// A packet that came, and the queue that it met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Met {
    /// When, s.
    came: f64,
    /// How long it waited, s.
    pub queue: f64,
    /// How far that may be off, s.
    pub off: f64,
}

impl Default for PeerClocks {
    fn default() -> Self {
        PeerClocks {
            all: Recent::new(MOST),
            queues: VecDeque::new(),
        }
    }
}

impl PeerClocks {
    /// These came; `calm`: while no queue stood.
    pub(super) fn note(&mut self, stamps: &[TcpTimestamp], calm: bool) {
        for stamp in stamps {
            let came = stamp.came.as_secs_f64();
            let key = (stamp.remote, stamp.connection);
            let new = PeerClock::new(stamp.tsval, came, calm);
            let clock = self.all.meet(key, came, || new);
            match clock.queue(stamp.tsval, came, calm) {
                Some(queue) if queue < LONGEST => self.queues.push_back(Met {
                    came,
                    queue,
                    off: clock.ticks.map_or(0.0, |t| OFF / t),
                }),
                Some(_) => *clock = new,
                None => {}
            }
        }
        let latest = self.queues.back().map_or(0.0, |q| q.came);
        let is_old = |q: &Met| latest - q.came > TOGETHER[TOGETHER.len() - 1];
        while self.queues.front().is_some_and(is_old) {
            self.queues.pop_front();
        }
    }

    /// The queue towards us that what came at `came` met; `None`: nothing tells.
    pub(super) fn queue(&self, came: f64) -> Option<Met> {
        TOGETHER.into_iter().find_map(|together| {
            let is_near = |q: &&Met| (q.came - came).abs() < together;
            let near = self.queues.iter().filter(is_near).copied();
            near.min_by(|a, b| a.queue.total_cmp(&b.queue))
        })
    }

    /// The way is another one: what it takes without a queue is not known any more.
    pub(super) fn rerouted(&mut self) {
        self.queues.clear();
        for clock in self.all.values_mut() {
            clock.base = None;
        }
    }
}

impl PeerClock {
    /// Its first stamp came; `calm`: while no queue stood.
    fn new(tsval: u32, came: f64, calm: bool) -> Self {
        PeerClock {
            tsval,
            counted: 0.0,
            first: came,
            ticks: None,
            base: calm.then_some(0.0),
            learned: came,
        }
    }

    /// The queue that the packet of this stamp met.
    fn queue(&mut self, tsval: u32, came: f64, calm: bool) -> Option<f64> {
        let passed = came - self.first;
        // One that is older than the latest came in another order.
        self.counted += f64::from(tsval.wrapping_sub(self.tsval).cast_signed());
        self.tsval = tsval;
        let counted = self.counted;
        if self.ticks.is_none() && passed >= COUNTED {
            let is_alike = |of: &f64| {
                let factor = counted / (of * passed);
                factor < ALIKE && factor > 1.0 / ALIKE
            };
            self.ticks = TICKS.into_iter().find(is_alike);
        }
        let takes = passed - counted / self.ticks?;
        let base = match self.base {
            None if !calm => return None,
            None => takes,
            Some(base) if calm => takes.min(base + DRIFT * (came - self.learned).max(0.0)),
            Some(base) => takes.min(base),
        };
        if calm {
            self.learned = came;
        }
        self.base = Some(base);
        Some(takes - base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A far side whose clock has so many ticks, and is so much ahead of ours.
    struct Far {
        ticks: f64,
        ahead: f64,
    }

    impl Far {
        /// Sent at `sent`, 10 ms away behind a queue of so much.
        fn stamp(&self, connection: u32, sent: f64, queue: f64) -> TcpTimestamp {
            TcpTimestamp {
                remote: IpAddr::from([192, 0, 2, 1]),
                connection,
                tsval: ((sent + self.ahead) * self.ticks) as u64 as u32,
                came: Duration::from_secs_f64(sent + 0.010 + queue),
            }
        }
    }

    /// Ahead by nearly as much as 32 bits hold, so that they wrap.
    const MS: Far = Far {
        ticks: 1e3,
        ahead: 4_294_967.0,
    };

    fn queue_ms(clocks: &PeerClocks, came: f64) -> Option<i64> {
        clocks.queue(came).map(|q| (q.queue * 1e3).round() as i64)
    }

    /// Without a queue from 1 to 2 s.
    fn calm(far: &Far) -> PeerClocks {
        let mut clocks = PeerClocks::default();
        for n in 0..50 {
            let at = 1.0 + 0.02 * f64::from(n);
            clocks.note(&[far.stamp(1, at, 0.0)], true);
        }
        clocks
    }

    #[test]
    fn a_queue_towards_us_is_seen_by_every_clock_that_is_fine_enough() {
        for (ticks, seen) in [
            (1e3, Some(40)),
            (1e6, Some(40)),
            (250.0, None),
            (100.0, None),
        ] {
            let far = Far { ticks, ..MS };
            let mut clocks = calm(&far);
            let near = clocks.queue(1.99);
            let is_none = near.map(|q| q.queue < 0.0011);
            assert_eq!(is_none, seen.map(|_| true), "{ticks}");
            assert!(
                near.is_none_or(|q| (q.off * ticks - 2.0).abs() < 1e-9),
                "{near:?}"
            );
            for n in 0..5 {
                clocks.note(&[far.stamp(1, 2.0 + 0.005 * f64::from(n), 0.040)], false);
            }
            let got = queue_ms(&clocks, 2.07);
            let off = got.zip(seen).map(|(got, seen)| (got - seen).abs() <= 1);
            assert_eq!(off, seen.map(|_| true), "{ticks}: {got:?}");
            assert_eq!(clocks.queue(2.5), None, "that is long ago");
        }
    }

    #[test]
    fn a_connection_met_beside_a_queue_says_nothing_until_it_has_gone() {
        let mut clocks = PeerClocks::default();
        for n in 0..50 {
            clocks.note(&[MS.stamp(1, 1.0 + 0.02 * f64::from(n), 0.1)], false);
        }
        assert_eq!(clocks.queue(2.1), None);
        clocks.note(&[MS.stamp(1, 2.2, 0.0)], true);
        clocks.note(&[MS.stamp(1, 2.4, 0.030)], false);
        assert_eq!(queue_ms(&clocks, 2.44), Some(30));
    }

    #[test]
    fn another_connection_with_the_same_ports_begins_anew() {
        for ahead in [0.0, 100.0, 4_000_000.0] {
            let mut clocks = calm(&MS);
            let other = Far { ahead, ..MS };
            for n in 0..10 {
                clocks.note(&[other.stamp(1, 3.0 + 0.02 * f64::from(n), 0.0)], true);
            }
            clocks.note(&[other.stamp(1, 3.3, 0.040)], false);
            assert_eq!(queue_ms(&clocks, 3.35), Some(40), "{ahead}");
        }
    }

    #[test]
    fn who_dawdles_is_not_heard_beside_others() {
        let mut clocks = calm(&MS);
        clocks.note(&[MS.stamp(1, 2.0, 0.0), MS.stamp(2, 2.0, 0.0)], true);
        clocks.note(&[MS.stamp(2, 2.1, 0.0)], true);
        clocks.note(&[MS.stamp(1, 2.3, 0.025), MS.stamp(2, 2.3, 0.005)], false);
        assert_eq!(queue_ms(&clocks, 2.31), Some(5));
    }

    #[test]
    fn a_clock_that_drifts_is_no_queue() {
        // 200 parts of a million too slow, for ten minutes.
        let far = Far {
            ticks: 1e3 * (1.0 - 2e-4),
            ahead: 0.0,
        };
        let mut clocks = PeerClocks::default();
        let mut most = 0f64;
        for n in 0..6000 {
            let at = 1.0 + 0.1 * f64::from(n);
            // A queue of ours by turns, which says nothing of it.
            clocks.note(&[far.stamp(1, at, 0.0)], n % 20 < 2);
            most = clocks.queue(at + 0.01).map_or(most, |q| most.max(q.queue));
        }
        assert!(most < 0.002, "{most}");
    }

    #[test]
    fn numbers_of_32_bits_may_run_out() {
        // 71 minutes, and 50 days.
        for (ticks, lasts, each) in [(1e6, 9000.0, 1.0), (1e3, 9e6, 1000.0)] {
            let far = Far { ticks, ahead: 0.0 };
            let mut clocks = PeerClocks::default();
            let mut at = 1.0;
            while at < lasts {
                clocks.note(&[far.stamp(1, at, 0.0), far.stamp(1, at + 0.1, 0.0)], true);
                at += each;
            }
            clocks.note(&[far.stamp(1, at, 0.040)], false);
            assert_eq!(queue_ms(&clocks, at + 0.05), Some(40), "{ticks}");
        }
    }

    #[test]
    fn another_way_is_learned_anew() {
        let mut clocks = calm(&MS);
        clocks.rerouted();
        clocks.note(&[MS.stamp(1, 2.5, 0.2)], false);
        assert_eq!(clocks.queue(2.7), None);
        clocks.note(&[MS.stamp(1, 2.8, 0.2)], true);
        clocks.note(&[MS.stamp(1, 3.0, 0.25)], false);
        assert_eq!(queue_ms(&clocks, 3.26), Some(50));
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let mut clocks = PeerClocks::default();
        for n in 0..2 * MOST as u32 {
            clocks.note(&[MS.stamp(n, 1.0 + f64::from(n), 0.0)], true);
        }
        assert_eq!(clocks.all.len(), MOST);
        assert!(clocks.queues.len() < 10);
    }
}
