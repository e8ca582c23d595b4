//! What our programs have seen of a device: packets by direction and tier, and round trips on
//! both sides of it.
//!
//! Principles: counted since the programs were attached; a histogram's percentile is the end of
//! the step in which it lies, so it errs upwards, by a quarter at most. Non-goals: single flows
//! (`evenkeel flows`), history.

use std::time::Duration;

use evenkeel_core::classify::Tier;
use evenkeel_datapath::Maps;
use evenkeel_datapath::values::{DirectionCounts, RttHistogram};
use serde::{Deserialize, Serialize};

use crate::Error;

/// What the programs have seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassiveStatistics {
    /// From us.
    pub up: Arrived,
    /// Towards us, before anything was held back or dropped.
    pub down: Arrived,
    /// Flows that were new.
    pub new_flows: u64,
    /// Small packets towards us that did not go to our queue.
    pub passed: u64,
    /// Segments dropped of flows that know no windows, to slow them down to their share.
    pub slowed: u64,
    /// Round trips beyond the device, on the Internet.
    pub internet: RoundTrips,
    /// Round trips on our side of the device.
    pub lan: RoundTrips,
}

/// What came to the device in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Packets; super-packets count once.
    pub packets: u64,
    /// They count by their segments.
    pub segments: u64,
    /// Bytes of IP packets, every segment with its headers.
    pub bytes: u64,
    /// What was not IP, or cut off.
    pub other: u64,
    /// Segments and bytes by tier, most urgent first.
    pub tiers: Vec<TierStatistics>,
}

/// What came of one tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierStatistics {
    /// Which.
    pub tier: Tier,
    /// Segments.
    pub segments: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
}

/// Round trips of one side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// How many were seen.
    pub count: u64,
    /// Half were shorter, ms; absent if there were none, or it is longer than the last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<f64>,
    /// Nine of ten were shorter, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_ms: Option<f64>,
    /// 99 of a hundred were shorter, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// The steps that are not empty.
    pub histogram: Vec<Step>,
}

/// One step of a histogram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its upper end, ms; absent for the last step, which has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below_ms: Option<f64>,
    /// Round trips in it.
    pub count: u64,
}

/// Reads it from the programs' maps.
pub(crate) fn statistics(maps: &Maps) -> Result<PassiveStatistics, Error> {
    let counts = maps.counts()?;
    let histograms = maps.round_trips()?;
    Ok(PassiveStatistics {
        up: arrived(&counts.direction.up),
        down: arrived(&counts.direction.down),
        new_flows: counts.new_flows,
        passed: counts.bypassed,
        slowed: counts.slowed,
        internet: round_trips(&histograms.up),
        lan: round_trips(&histograms.down),
    })
}

fn arrived(counts: &DirectionCounts) -> Arrived {
    let tiers = counts.tier_packets.into_iter().zip(counts.tier_bytes);
    let tiers = Tier::ALL
        .into_iter()
        .zip(tiers)
        .map(|(tier, (segments, bytes))| TierStatistics {
            tier,
            segments,
            bytes,
        });
    Arrived {
        packets: counts.packets,
        segments: counts.segments,
        bytes: counts.bytes,
        other: counts.other,
        tiers: tiers.collect(),
    }
}

fn round_trips(histogram: &RttHistogram) -> RoundTrips {
    let ms = |end: Duration| (end < Duration::MAX).then_some(end.as_secs_f64() * 1000.0);
    let count: u64 = histogram.iter().map(|s| s.1).sum();
    let percentile = |percent: u64| {
        let rank = (count * percent).div_ceil(100).max(1);
        let mut below = 0;
        let step = histogram.iter().find(|s| {
            below += s.1;
            below >= rank
        })?;
        ms(step.0)
    };
    RoundTrips {
        count,
        median_ms: percentile(50),
        p90_ms: percentile(90),
        p99_ms: percentile(99),
        histogram: histogram
            .iter()
            .filter(|s| s.1 > 0)
            .map(|(end, count)| Step {
                below_ms: ms(*end),
                count: *count,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_ends_of_their_steps() {
        let ms = Duration::from_millis;
        let all = round_trips(&vec![
            (ms(1), 50),
            (ms(2), 0),
            (ms(4), 49),
            (Duration::MAX, 1),
        ]);
        assert_eq!(all.count, 100);
        assert_eq!(all.median_ms, Some(1.0));
        assert_eq!((all.p90_ms, all.p99_ms), (Some(4.0), Some(4.0)));
        assert_eq!(all.histogram.len(), 3);
        assert_eq!(all.histogram[2].below_ms, None);
        let last = round_trips(&vec![(ms(1), 1), (Duration::MAX, 9)]);
        assert_eq!(last.p90_ms, None);
        assert_eq!(round_trips(&Vec::new()), RoundTrips::default());
    }
}
