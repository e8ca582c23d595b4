//! Trains of packets, and what became of them.
//!
//! Principle: whoever sends knows only this. Non-goals: which are sent, and what they tell (`super`).

use std::time::Duration;

/// No train lasts longer.
pub const LONGEST: Duration = Duration::from_millis(300);
/// Bytes of a marker's IP packet: a UDP datagram or an ICMP echo with room for times.
pub const MARKER: u32 = 60;

/// Packets to send, and a marker behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Train {
    /// Bytes of the IP packets, in turns.
    pub sizes: Vec<u32>,
    /// How many packets; none: the marker alone.
    pub count: u32,
    /// From the first one to the last; zero: as fast as they go.
    pub spread: Duration,
    /// From the last one to the marker, which finds room then where packets were too many.
    pub pause: Duration,
}

impl Train {
    /// A marker alone.
    pub const ALONE: Train = Train {
        sizes: Vec::new(),
        count: 0,
        spread: Duration::ZERO,
        pause: Duration::ZERO,
    };

    /// Of which size the packet with this number is.
    pub fn size(&self, number: u32) -> u32 {
        let turn = number as usize % self.sizes.len().max(1);
        self.sizes.get(turn).copied().unwrap_or(MARKER)
    }

    /// Bytes of all IP packets, the marker's too.
    pub fn bytes(&self) -> u64 {
        u64::from(MARKER)
            + (0..self.count)
                .map(|i| u64::from(self.size(i)))
                .sum::<u64>()
    }

    /// How many packets of each size.
    pub(super) fn packets(&self) -> Vec<(u32, u32)> {
        let turns = self.sizes.len() as u32;
        let of = |(i, size): (u32, &u32)| (*size, (self.count + turns - 1 - i) / turns.max(1));
        (0..).zip(&self.sizes).map(of).collect()
    }
}

/// What became of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// From the first packet's sending to the marker's.
    pub sent_in: Duration,
    /// From the first packet's sending to the marker's arrival, or to that of its answer; `None`: it did
    /// not come.
    pub took: Option<Duration>,
    /// How many of the packets before the marker did not arrive, if anybody counts them.
    pub lost: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_have_their_packets_in_turns() {
        let train = Train {
            sizes: vec![1500, 64, 576],
            count: 8,
            spread: Duration::ZERO,
            pause: Duration::ZERO,
        };
        let sizes: Vec<u32> = (0..8).map(|i| train.size(i)).collect();
        assert_eq!(sizes, [1500, 64, 576, 1500, 64, 576, 1500, 64]);
        assert_eq!(train.packets(), [(1500, 3), (64, 3), (576, 2)]);
        assert_eq!(train.bytes(), 60 + 3 * 1564 + 2 * 576);
        assert_eq!((Train::ALONE.bytes(), Train::ALONE.packets()), (60, vec![]));
    }
}
