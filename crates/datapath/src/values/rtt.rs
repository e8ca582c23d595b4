//! Round trips that the programs measured: single ones, and histograms.

use std::net::IpAddr;
use std::time::Duration;

use super::address;
use crate::layout;

/// So many of the latest samples are kept.
pub const RTT_SAMPLES: usize = layout::RTT_SAMPLES as usize;

/// How often round trips took how long: the upper end of each step, and the count.
pub type RttHistogram = Vec<(Duration, u64)>;

/// A round trip beyond us that is worth a probe's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttSample {
    /// When the answer came, on the steady clock.
    pub answered_at: Duration,
    /// From where.
    pub remote: IpAddr,
    /// From before our own queue on.
    pub rtt: Duration,
    /// What it answers may have waited there.
    pub may_have_queued: bool,
    /// The ports of its connection: ours, the far side's.
    pub ports: [u16; 2],
    /// When the answer was sent, by the far side's clock (RFC 7323, TSval), if it says so.
    pub tsval: Option<u32>,
}

impl RttSample {
    /// From the map.
    pub(crate) fn from_layout(s: &layout::RttSample) -> Self {
        RttSample {
            answered_at: Duration::from_nanos(s.answered_at),
            remote: address(s.remote),
            rtt: Duration::from_micros(s.rtt_us.into()),
            may_have_queued: s.may_have_queued > 0,
            ports: [s.local_port, s.remote_port].map(u16::from_be_bytes),
            tsval: (s.has_tsval > 0).then_some(s.tsval),
        }
    }
}

/// Where a step of the histogram ends: `rtt_histogram_step` in `bpf/rtt.h`, turned round. The last one
/// has no end.
pub(crate) fn step_end(step: u32) -> Duration {
    match step {
        0 => Duration::from_micros(64),
        n if n == layout::RTT_STEPS - 1 => Duration::MAX,
        n => {
            let (log, quarter) = ((n - 1) / 4, (n - 1) % 4);
            Duration::from_micros((u64::from(quarter) + 5) << (log + 4))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_where_the_next_begins() {
        let ends: Vec<_> = (0..9).map(step_end).collect();
        let us = [64, 80, 96, 112, 128, 160, 192, 224, 256];
        assert_eq!(ends, us.map(Duration::from_micros));
        assert_eq!(step_end(layout::RTT_STEPS - 1), Duration::MAX);
    }
}
