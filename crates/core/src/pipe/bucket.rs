//! A token bucket: what is sold, where the line itself is faster.
//!
//! Principles: tokens are bytes on the wire; a policer drops what finds too few of them and keeps no
//! queue; a shaper lets it wait, so that a burst passes at the line's rate and all after it at the
//! rate that is sold. Non-goals: the queue (`pipe`), several colours.

use std::time::Duration;

use super::arithmetic::{FULL_PACKET, NS_PER_S, nanos};
use crate::units::Rate;

/// Time at the line's rate that is too little to count on: of the order of who follows it.
const LAST: Duration = Duration::from_millis(50);
/// Time at the line's rate that is worth changing to it.
const AGAIN: Duration = Duration::from_secs(1);

/// Whom a bucket keeps from sending more than is sold, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// What becomes of packets beyond it.
    pub kind: BucketKind,
    /// What is sold, at the link layer; the line's own rate is higher.
    pub rate: Rate,
    /// Bytes on the wire that pass at the line's rate after a pause.
    pub burst: u64,
}

/// What becomes of packets that find too few tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketKind {
    /// They are dropped.
    Policer,
    /// They wait.
    Shaper,
}

/// A bucket with what is in it.
#[derive(Debug, Clone)]
pub(super) struct Tokens {
    bucket: Bucket,
    /// Bit-nanoseconds per second: bits, times 1e9. Divides without a rest at any rate.
    filled: u128,
    at: Duration,
    /// Whether the burst can be counted on.
    bursting: bool,
}

fn bits(bytes: u64) -> u128 {
    u128::from(bytes) * 8 * NS_PER_S
}

impl Tokens {
    /// A full one. It holds at least one full packet, or nothing would ever pass.
    pub(super) fn new(bucket: Bucket) -> Self {
        let bucket = Bucket {
            rate: bucket.rate.max(Rate::from_bps(1)),
            burst: bucket.burst.max(u64::from(FULL_PACKET)),
            ..bucket
        };
        Tokens {
            bucket,
            filled: bits(bucket.burst),
            at: Duration::ZERO,
            bursting: true,
        }
    }

    pub(super) fn is_policer(&self) -> bool {
        self.bucket.kind == BucketKind::Policer
    }

    fn filled_at(&self, now: Duration) -> u128 {
        let since = now.saturating_sub(self.at).as_nanos();
        let came = u128::from(self.bucket.rate.bps()).saturating_mul(since);
        self.filled
            .saturating_add(came)
            .min(bits(self.bucket.burst))
    }

    /// Whether there are tokens for a packet at `now`; they are gone then.
    pub(super) fn take(&mut self, now: Duration, wire: u32) -> bool {
        let (filled, wanted) = (self.filled_at(now), bits(wire.into()));
        let enough = filled >= wanted;
        self.filled = if enough { filled - wanted } else { filled };
        self.at = self.at.max(now);
        enough
    }

    /// When there are tokens for a packet that could be sent at `start`; they are gone then. A packet
    /// longer than the bucket takes all of it.
    pub(super) fn wait(&mut self, start: Duration, wire: u32) -> Duration {
        let start = start.max(self.at);
        let wanted = bits(wire.into()).min(bits(self.bucket.burst));
        let missing = wanted.saturating_sub(self.filled_at(start));
        let at = start + nanos(missing.div_ceil(u128::from(self.bucket.rate.bps())));
        self.filled = self.filled_at(at).saturating_sub(wanted);
        self.at = at;
        at
    }

    /// What can be counted on from `now` on, on a line of `rate`: that rate until the burst is all but
    /// used up, and again when there is a second's worth of it, or all of it.
    pub(super) fn sustained(&mut self, rate: Rate, now: Duration) -> Rate {
        if self.is_policer() {
            return rate.min(self.bucket.rate);
        }
        let more = u128::from(rate.bps().saturating_sub(self.bucket.rate.bps()));
        let worth = |of: Duration| more * of.as_nanos() + bits(2 * u64::from(FULL_PACKET));
        let filled = self.filled_at(now);
        let enough = if self.bursting { LAST } else { AGAIN };
        self.bursting = filled >= worth(enough).min(bits(self.bucket.burst));
        if self.bursting {
            rate
        } else {
            rate.min(self.bucket.rate)
        }
    }

    /// What passes at `now` of a line of `rate`.
    pub(super) fn rate(&self, rate: Rate, now: Duration) -> Rate {
        let full_packets = bits(u64::from(FULL_PACKET) * 2);
        let shaped = self.bucket.kind == BucketKind::Shaper;
        if shaped && self.filled_at(now) >= full_packets {
            rate
        } else {
            rate.min(self.bucket.rate)
        }
    }
}
