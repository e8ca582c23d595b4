//! Loss recovery and congestion control of a sender after RFC 9002 (NewReno), and what a receiver
//! acknowledges.
//!
//! Principles: pure, `now` comes in and what may be sent goes out; there is no flow control, only
//! losses hold it back. Non-goals: ECN, several packet number spaces, persistent congestion by
//! the letter (two probe timeouts in a row stand for it).

use std::collections::BTreeMap;
use std::time::Duration;

/// Payload of one datagram.
pub const DATAGRAM: u64 = 1350;
const INITIAL_WINDOW: u64 = 10 * DATAGRAM;
const MINIMUM_WINDOW: u64 = 2 * DATAGRAM;
/// A packet this much older than the newest acknowledged one is lost (`kPacketThreshold`).
const REORDERING: u32 = 3;
const INITIAL_RTT: Duration = Duration::from_millis(333);
/// Longest that a receiver holds an acknowledgement back (`max_ack_delay`).
pub const ACK_DELAY: Duration = Duration::from_millis(25);
const GRANULARITY: Duration = Duration::from_millis(1);

/// When a sender may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Now.
    Now,
    /// Paced: then.
    At(Duration),
    /// Not before something is acknowledged or lost.
    Blocked,
}

/// A sender that never runs out of data.
#[derive(Debug)]
pub struct Sender {
    window: u64,
    threshold: u64,
    outstanding: BTreeMap<u32, Duration>,
    next: u32,
    largest_acked: Option<u32>,
    smoothed: Option<Duration>,
    variation: Duration,
    recovery: Option<Duration>,
    timeouts: u32,
    probes: u32,
    last_sent: Duration,
    paced: Duration,
    lost: u64,
}

impl Default for Sender {
    fn default() -> Self {
        Sender {
            window: INITIAL_WINDOW,
            threshold: u64::MAX,
            outstanding: BTreeMap::new(),
            next: 0,
            largest_acked: None,
            smoothed: None,
            variation: INITIAL_RTT / 2,
            recovery: None,
            timeouts: 0,
            probes: 0,
            last_sent: Duration::ZERO,
            paced: Duration::ZERO,
            lost: 0,
        }
    }
}

impl Sender {
    fn rtt(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL_RTT)
    }

    /// Packets that were declared lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The congestion window, bytes.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Whether a packet may go at `now`.
    pub fn when(&self, now: Duration) -> When {
        let in_flight = self.outstanding.len() as u64 * DATAGRAM;
        if self.probes > 0 {
            When::Now
        } else if in_flight + DATAGRAM > self.window {
            When::Blocked
        } else if self.paced > now {
            When::At(self.paced)
        } else {
            When::Now
        }
    }

    /// A packet goes at `now`: its number.
    pub fn send(&mut self, now: Duration) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.outstanding.insert(number, now);
        self.last_sent = now;
        self.probes = self.probes.saturating_sub(1);
        // A quarter faster than window per round trip; the first window goes at once.
        if let Some(rtt) = self.smoothed {
            let gap = rtt.mul_f64(DATAGRAM as f64 / (1.25 * self.window as f64));
            self.paced = self.paced.max(now.saturating_sub(gap)) + gap;
        }
        number
    }

    /// Ranges (lowest, highest) were acknowledged, the newest one first, held back for `held`.
    pub fn acknowledged(&mut self, now: Duration, ranges: &[(u32, u32)], held: Duration) {
        let mut newly = Vec::new();
        for &(low, high) in ranges.iter().filter(|r| r.0 <= r.1) {
            newly.extend(self.outstanding.range(low..=high).map(|(n, t)| (*n, *t)));
        }
        let Some(&(newest, sent)) = newly.iter().max() else {
            return;
        };
        for (number, _) in &newly {
            self.outstanding.remove(number);
        }
        if self.largest_acked.is_none_or(|l| newest > l) {
            self.largest_acked = Some(newest);
            self.sample(now.saturating_sub(sent).saturating_sub(held));
        }
        self.timeouts = 0;
        for (_, sent) in &newly {
            if self.recovery.is_some_and(|r| *sent <= r) {
                continue;
            }
            self.window += if self.window < self.threshold {
                DATAGRAM
            } else {
                (DATAGRAM * DATAGRAM / self.window).max(1)
            };
        }
        self.find_lost(now);
    }

    fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.max(Duration::from_micros(1));
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
            }
        }
    }

    /// A packet is late after nine eighths of a round trip (`kTimeThreshold`).
    fn patience(&self) -> Duration {
        (self.rtt() * 9 / 8).max(GRANULARITY)
    }

    fn find_lost(&mut self, now: Duration) {
        let Some(largest) = self.largest_acked else {
            return;
        };
        let patience = self.patience();
        let older = self.outstanding.range(..largest);
        let lost: Vec<(u32, Duration)> = older
            .filter(|(n, sent)| **n + REORDERING <= largest || **sent + patience <= now)
            .map(|(n, sent)| (*n, *sent))
            .collect();
        self.lose(&lost, now);
    }

    fn lose(&mut self, lost: &[(u32, Duration)], now: Duration) {
        for (number, _) in lost {
            self.outstanding.remove(number);
        }
        self.lost += lost.len() as u64;
        // Once for each window: what was sent before the cut does not cut again.
        let fresh = |sent: Duration| self.recovery.is_none_or(|r| sent > r);
        if lost.iter().any(|l| fresh(l.1)) {
            self.recovery = Some(now);
            self.window = (self.window / 2).max(MINIMUM_WINDOW);
            self.threshold = self.window;
        }
    }

    /// When [`Sender::timeout`] is to be called.
    pub fn deadline(&self) -> Option<Duration> {
        let largest = self.largest_acked.unwrap_or(0);
        if let Some((_, sent)) = self.outstanding.range(..largest).next() {
            return Some(*sent + self.patience());
        }
        self.outstanding.first_key_value()?;
        let wait = self.rtt() + (self.variation * 4).max(GRANULARITY) + ACK_DELAY;
        Some(self.last_sent + wait * (1 << self.timeouts.min(6)))
    }

    /// The deadline has come.
    pub fn timeout(&mut self, now: Duration) {
        let before = self.lost;
        self.find_lost(now);
        if self.lost > before || self.deadline().is_none_or(|d| d > now) {
            return;
        }
        self.timeouts += 1;
        self.probes = 1;
        if self.timeouts >= 2 {
            let all: Vec<_> = self.outstanding.iter().map(|(n, t)| (*n, *t)).collect();
            self.lose(&all, now);
            self.window = MINIMUM_WINDOW;
        }
    }
}

/// What a receiver has.
#[derive(Debug, Default)]
pub struct Receiver {
    /// (lowest, highest), the newest first.
    ranges: Vec<(u32, u32)>,
    unacknowledged: u32,
    oldest: Option<Duration>,
}

impl Receiver {
    /// Most ranges in one acknowledgement.
    pub const RANGES: usize = 8;

    /// Packet `number` came; whether it is new.
    pub fn receive(&mut self, now: Duration, number: u32) -> bool {
        if self.ranges.iter().any(|r| (r.0..=r.1).contains(&number)) {
            return false;
        }
        let in_order = self
            .ranges
            .first()
            .is_none_or(|r| r.1.wrapping_add(1) == number);
        self.unacknowledged += if in_order { 1 } else { 2 };
        self.oldest.get_or_insert(now);
        self.ranges.push((number, number));
        self.ranges.sort_unstable_by(|a, b| b.cmp(a));
        let mut merged: Vec<(u32, u32)> = Vec::new();
        for r in self.ranges.drain(..) {
            match merged.last_mut() {
                Some(last) if r.1.wrapping_add(1) >= last.0 => last.0 = last.0.min(r.0),
                _ => merged.push(r),
            }
        }
        merged.truncate(Self::RANGES);
        self.ranges = merged;
        true
    }

    /// When an acknowledgement is due: at every second packet and at gaps at once.
    pub fn due(&self) -> Option<Duration> {
        let oldest = self.oldest?;
        Some(if self.unacknowledged >= 2 {
            oldest
        } else {
            oldest + ACK_DELAY
        })
    }

    /// The acknowledgement: its ranges, and how long it was held back.
    pub fn acknowledge(&mut self, now: Duration) -> (&[(u32, u32)], Duration) {
        let held = self
            .oldest
            .take()
            .map_or(Duration::ZERO, |o| now.saturating_sub(o));
        self.unacknowledged = 0;
        (&self.ranges, held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(v: u64) -> Duration {
        Duration::from_millis(v)
    }

    /// Sends what may go at `now`.
    fn burst(s: &mut Sender, now: Duration) -> Vec<u32> {
        let mut sent = Vec::new();
        while s.when(now) == When::Now && sent.len() < 1000 {
            sent.push(s.send(now));
        }
        sent
    }

    #[test]
    fn slow_start_doubles_and_a_loss_halves() {
        let mut s = Sender::default();
        assert_eq!(burst(&mut s, ms(0)).len(), 10);
        s.acknowledged(ms(50), &[(0, 9)], Duration::ZERO);
        assert_eq!(s.window(), 20 * DATAGRAM);
        // Paced: some at once, the rest over the round trip.
        let mut sent = burst(&mut s, ms(50));
        assert!(sent.len() < 4, "{}", sent.len());
        let mut now = ms(50);
        while let When::At(t) = s.when(now) {
            now = t;
            sent.extend(burst(&mut s, now));
        }
        assert_eq!((sent.len(), s.when(now)), (20, When::Blocked));
        assert!(now <= ms(95), "{now:?}");
        // 10 is missing, 11..=13 make it lost; 14..=17 do not halve again.
        s.acknowledged(ms(110), &[(11, 13)], Duration::ZERO);
        assert_eq!((s.lost(), s.window()), (1, (23 * DATAGRAM) / 2));
        s.acknowledged(ms(111), &[(18, 20)], Duration::ZERO);
        assert_eq!((s.lost(), s.window()), (5, (23 * DATAGRAM) / 2), "{s:?}");
    }

    #[test]
    fn silence_is_probed_and_then_believed() {
        let mut s = Sender::default();
        burst(&mut s, ms(0));
        s.acknowledged(ms(20), &[(0, 9)], Duration::ZERO);
        s.send(ms(20));
        let first = s.deadline().unwrap();
        s.timeout(first);
        assert_eq!((s.when(first), s.lost()), (When::Now, 0), "a probe");
        s.send(first);
        let second = s.deadline().unwrap();
        assert!(second > first + ms(30), "it doubles: {first:?} {second:?}");
        s.timeout(second);
        assert_eq!(s.window(), MINIMUM_WINDOW);
        assert_eq!(s.when(second), When::Now);
    }

    #[test]
    fn acknowledgements_come_in_pairs_and_at_gaps() {
        let mut r = Receiver::default();
        assert!(r.receive(ms(0), 0) && !r.receive(ms(1), 0));
        assert_eq!(r.due(), Some(ACK_DELAY));
        assert!(r.receive(ms(2), 1));
        assert_eq!(r.due(), Some(ms(0)));
        assert_eq!(r.acknowledge(ms(2)), (&[(0, 1)][..], ms(2)));
        assert_eq!(r.due(), None);
        assert!(r.receive(ms(3), 5));
        assert_eq!(r.due(), Some(ms(3)), "a gap");
        assert_eq!(r.acknowledge(ms(3)).0, [(5, 5), (0, 1)]);
        for n in [3, 2, 4] {
            r.receive(ms(4), n);
        }
        assert_eq!(r.acknowledge(ms(4)).0, [(0, 5)]);
    }

    #[test]
    fn round_trips_are_smoothed_as_rfc_9002_says() {
        let mut s = Sender::default();
        let first = s.send(ms(0));
        s.acknowledged(ms(100), &[(first, first)], Duration::ZERO);
        assert_eq!((s.smoothed, s.variation), (Some(ms(100)), ms(50)));
        let second = s.send(ms(100));
        // Held back for 20 of its 160 ms: a sample of 140.
        s.acknowledged(ms(260), &[(second, second)], ms(20));
        assert_eq!(s.smoothed, Some(ms(105)));
        assert_eq!(s.variation, Duration::from_micros(47_500));
    }

    #[test]
    fn three_newer_ones_make_a_packet_lost() {
        for (acknowledged, lost) in [(1, 0), (2, 0), (3, 1), (4, 2), (5, 3)] {
            let mut s = Sender::default();
            for _ in 0..6 {
                s.send(ms(0));
            }
            s.acknowledged(ms(10), &[(acknowledged, acknowledged)], Duration::ZERO);
            assert_eq!(s.lost(), lost, "{acknowledged}");
        }
    }

    #[test]
    fn so_does_time_and_the_deadline_says_when() {
        let mut s = Sender::default();
        s.send(ms(0));
        s.send(ms(0));
        s.acknowledged(ms(80), &[(1, 1)], Duration::ZERO);
        assert_eq!((s.lost(), s.deadline()), (0, Some(ms(90))));
        s.timeout(ms(89));
        assert_eq!(s.lost(), 0);
        s.timeout(ms(90));
        assert_eq!((s.lost(), s.window()), (1, 11 * DATAGRAM / 2));
        assert_eq!(s.deadline(), None, "nothing is under way");
    }

    #[test]
    fn the_window_grows_slowly_after_a_loss_and_not_by_older_packets() {
        let mut s = Sender::default();
        burst(&mut s, ms(0));
        s.acknowledged(ms(50), &[(3, 9)], Duration::ZERO);
        let cut = 17 * DATAGRAM / 2;
        assert_eq!((s.lost(), s.window()), (3, cut));
        let (before, after) = (s.send(ms(50)), s.send(ms(60)));
        s.acknowledged(ms(100), &[(before, before)], Duration::ZERO);
        assert_eq!(s.window(), cut);
        s.acknowledged(ms(110), &[(after, after)], Duration::ZERO);
        assert_eq!(s.window(), cut + DATAGRAM * DATAGRAM / cut);
    }

    #[test]
    fn losses_leave_two_datagrams() {
        let mut s = Sender::default();
        for round in 0..20 {
            let now = ms(round * 100);
            let sent: Vec<u32> = (0..4).map(|_| s.send(now)).collect();
            s.acknowledged(now + ms(10), &[(sent[3], sent[3])], Duration::ZERO);
        }
        assert_eq!(s.window(), MINIMUM_WINDOW);
    }

    #[test]
    fn what_was_never_sent_acknowledges_nothing() {
        let mut s = Sender::default();
        burst(&mut s, ms(0));
        s.acknowledged(ms(10), &[(9, 3), (100, u32::MAX)], Duration::ZERO);
        assert_eq!((s.window(), s.lost()), (INITIAL_WINDOW, 0));
        assert_eq!((s.smoothed, s.when(ms(10))), (None, When::Blocked));
    }

    #[test]
    fn probe_timeouts_double() {
        let mut s = Sender::default();
        s.send(ms(0));
        // 333 ms, four times half of it, and the acknowledgement's delay.
        assert_eq!(s.deadline(), Some(ms(1024)));
        s.timeout(ms(1023));
        assert_eq!(s.deadline(), Some(ms(1024)), "it was too early");
        s.timeout(ms(1024));
        assert_eq!(s.deadline(), Some(ms(2048)));
        s.acknowledged(ms(1100), &[(0, 0)], Duration::ZERO);
        assert_eq!((s.timeouts, s.deadline()), (0, None));
    }

    #[test]
    fn the_newest_ranges_are_acknowledged() {
        let mut r = Receiver::default();
        for number in (0..40).step_by(2) {
            assert!(r.receive(ms(0), number));
        }
        let (ranges, _) = r.acknowledge(ms(0));
        assert_eq!(ranges.len(), Receiver::RANGES);
        assert_eq!((ranges[0], ranges[7]), ((38, 38), (24, 24)));
        // One that fills a gap joins its neighbours.
        assert!(r.receive(ms(1), 37));
        assert_eq!(r.acknowledge(ms(1)).0[0], (36, 38));
    }
}
