//! How long the packets are that pass in one direction of late, so how long the one in front of a probe may take.
//!
//! Principles: between two readings of counters in which one or two packets passed, their length is known; where more passed
//! and were longer on average than any that is known, full ones may be among them; where nothing is known they are full.
//! Non-goals: how many are shorter.

use std::collections::VecDeque;

/// A length counts for so long, s: packets of a connection are alike for as long as it lasts, and who sends a call or a page
/// beside it sends a packet in this time (decision 0135; not varied).
const COUNTS: f64 = 5.0;
/// So many packets between two readings are single ones.
const SINGLE: f64 = 2.0;
/// Packets that are longer by this share are others: how cells are filled is counted on average (`wire_count`).
const ALIKE: f64 = 0.1;

/// The longest packets of one direction.
#[derive(Debug, Clone, Default)]
pub(super) struct PacketSize {
    /// The latest reading: bytes on the line, and packets.
    reading: Option<(f64, f64)>,
    /// When, and how long, bytes on the line: each later one is shorter.
    longest: VecDeque<(f64, f64)>,
}

impl PacketSize {
    /// Counters stood at this; a full packet has `full` bytes on the line.
    pub(super) fn note(&mut self, now: f64, bytes: f64, packets: f64, full: f64) {
        let before = self.reading.replace((bytes, packets));
        while self.longest.front().is_some_and(|l| now - l.0 > COUNTS) {
            self.longest.pop_front();
        }
        let Some((bytes, packets)) = before.map(|(b, p)| (bytes - b, packets - p)) else {
            return;
        };
        if packets < 1.0 || bytes <= 0.0 {
            return;
        }
        let mean = bytes / packets;
        let known = self.longest.front().map_or(0.0, |l| l.1);
        let length = if packets > SINGLE && mean > (1.0 + ALIKE) * known {
            full
        } else {
            mean.min(full)
        };
        while self.longest.back().is_some_and(|l| l.1 <= length) {
            self.longest.pop_back();
        }
        self.longest.push_back((now, length));
    }

    /// The longest of late, bytes on the line; `None`: nothing passed.
    pub(super) fn longest(&self, now: f64) -> Option<f64> {
        let is_recent = |l: &&(f64, f64)| now - l.0 <= COUNTS;
        self.longest.iter().find(is_recent).map(|l| l.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest after such readings in a row, 10 ms apart: packets, and bytes of each.
    fn after(readings: &[(f64, f64)]) -> Option<f64> {
        let mut size = PacketSize::default();
        let (mut bytes, mut packets, mut now) = (0.0, 0.0, 0.0);
        size.note(now, bytes, packets, 1500.0);
        for (n, length) in readings {
            now += 0.01;
            packets += n;
            bytes += n * length;
            size.note(now, bytes, packets, 1500.0);
        }
        size.longest(now)
    }

    #[test]
    fn single_packets_tell_how_long_they_are() {
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[(0.0, 0.0)]), None);
        assert_eq!(
            after(&[(1.0, 440.0), (1.0, 60.0), (2.0, 60.0)]),
            Some(440.0)
        );
        // A super-packet that hardware cuts is no longer than a full one.
        assert_eq!(after(&[(1.0, 60_000.0)]), Some(1500.0));
    }

    #[test]
    fn full_ones_may_be_among_many() {
        assert_eq!(after(&[(1.0, 60.0), (9.0, 400.0)]), Some(1500.0));
        // All of the same length, or shorter ones among them.
        assert_eq!(
            after(&[(1.0, 440.0), (9.0, 440.0), (5.0, 200.0)]),
            Some(440.0)
        );
    }

    #[test]
    fn what_passed_long_ago_does_not_count() {
        let mut size = PacketSize::default();
        size.note(0.0, 0.0, 0.0, 1500.0);
        size.note(1.0, 1500.0, 1.0, 1500.0);
        for n in 1..=70 {
            let n = f64::from(n);
            size.note(1.0 + 0.1 * n, 1500.0 + 440.0 * n, 1.0 + n, 1500.0);
        }
        assert_eq!(size.longest(8.0), Some(440.0));
        assert_eq!(size.longest(14.0), None);
    }
}
