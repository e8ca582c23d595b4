//! What the policer is told for a line: rate, framing, how much may come at once, and how long
//! packets may wait at the provider before somebody is told to slow down.
//!
//! Principles: the thresholds stand at 98, 99 and 100 % of the told rate, so the line's own rate
//! is taken as it is; times follow from how long packets take on the line. Non-goals: deciding
//! about packets, which `police.h` of crate `evenkeel-datapath` does in the kernel.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::line::Line;
use crate::{Framing, Rate};

/// What the policer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policer {
    /// Of the line towards us, link layer.
    pub rate: Rate,
    /// How packets are framed on it.
    pub framing: Framing,
    /// How much may come at once above 100 %, as time of the line.
    pub burst: Duration,
    /// How long packets may wait at the provider.
    pub target: Duration,
    /// Bytes in a second from which a flow is told to slow down.
    pub heavy: u32,
    /// fwmark of what comes above 98 % and is not ECN-capable; 0: none.
    pub mark: u32,
}

impl Policer {
    /// Parts of the rate, in hundredths, at which the three steps begin.
    pub const PERCENT: [u64; 3] = [98, 99, 100];

    /// For a line on which IP packets have up to `mtu` bytes.
    pub fn new(line: &Line, mtu: u32, mark: u32) -> Self {
        let frame = u64::from(line.framing.wire_len(mtu));
        let takes = |rate: Rate| rate.time_for(frame).unwrap_or(Duration::from_secs(1));
        let (down, up) = (takes(line.down), takes(line.up));
        Policer {
            rate: line.down,
            framing: line.framing,
            // What arrives has the line behind it, so a burst makes nobody wait. Half of it keeps
            // the line busy while a flow that has lost everything waits for its timer (200 ms
            // at least in Linux): with 100 ms, a download that only the policer slowed down to
            // 20 Mbit/s got 5.
            burst: Duration::from_millis(500).max(10 * down),
            // What a flow from 20 ms away needs to keep the line busy after it backs off, and on
            // slow lines four packets; an acknowledgement waits for one of ours. Measured in
            // virtual time, one download, half of that, this, and half as much again: on 2304
            // kbit/s in cells +14, +29, +39 ms at 1717, 1823, 1830 kbit/s; on 21181 kbit/s
            // +5.5, +13, +23 ms at 16867, 17243, 17264.
            target: Duration::from_millis(10).max(4 * down) + up,
            heavy: u32::try_from(line.down.bytes_per_sec() / 16).map_or(65_536, |n| n.min(65_536)),
            mark,
        }
    }

    /// Nanoseconds that a byte takes at each of [`Self::PERCENT`], times 2^20.
    pub fn costs(&self) -> [u64; 3] {
        Self::PERCENT.map(|percent| {
            let bits = u128::from(self.rate.bps().max(1)) * u128::from(percent);
            let ns = (8_000_000_000u128 * 100) << 20;
            u64::try_from(ns / bits).unwrap_or(u64::MAX)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(down: u64, up: u64, framing: &str) -> Line {
        Line {
            down: Rate::from_kbit(down),
            up: Rate::from_kbit(up),
            framing: framing.parse().unwrap(),
        }
    }

    #[test]
    fn a_byte_costs_what_the_line_takes() {
        let policer = Policer::new(&line(8_000, 1_000, "none"), 1500, 0);
        // 1 us per byte at 100 %.
        let [at98, at99, at100] = policer.costs();
        assert_eq!(at100, 1000 << 20);
        assert!(at98 > at99 && at99 > at100);
        assert_eq!((at98 * 98) >> 20, 99_999);
    }

    #[test]
    fn slow_lines_have_more_time() {
        // 33 cells take 6.07 ms at 2304 kbit/s.
        let slow = Policer::new(&line(2304, 2304, "atm:40"), 1500, 0);
        assert_eq!(slow.target.as_millis(), 30);
        assert_eq!(slow.burst.as_millis(), 500);
        assert_eq!(slow.heavy, 18_000);
        let fast = Policer::new(&line(109_341, 40_143, "ptm:30"), 1500, 20);
        assert_eq!(fast.target.as_micros() / 100, 103);
        assert_eq!((fast.heavy, fast.mark), (65_536, 20));
        let slowest = Policer::new(&line(64, 64, "none"), 1500, 0);
        assert_eq!(slowest.burst.as_millis(), 1875);
    }
}
