//! The kernel's units for rates, bursts and times (`PSCHED_SHIFT`, `struct tc_ratespec`).
//!
//! Principle: whole numbers, rounded so that a bucket is never smaller than asked for. iproute2
//! cuts to whole microseconds first, so at high rates its bursts are a little smaller than ours.
//! Non-goal: rate tables for kernels before 3.8.

use std::time::Duration;

use evenkeel_core::Rate;
use evenkeel_core::tc::{HtbLink, LinkLayer};

use crate::attr::{u16_at, u32_at};

/// A tick is 64 ns: `PSCHED_TICKS2NS(x)` is `x << 6` (include/net/pkt_sched.h).
const TICK_NS: u128 = 64;
/// `TC_LINKLAYER_ETHERNET`: with it the kernel needs no rate table to tell the link layer.
const ETHERNET: u8 = 1;
/// `TC_LINKLAYER_ATM`.
const ATM: u8 = 2;
/// Length of `struct tc_ratespec`.
pub(super) const RATESPEC: usize = 12;
/// iproute2 sizes its tables for packets up to so many bytes where nothing is said.
pub(super) const TABLE_MTU: u32 = 2047;
/// That is 256 slots of 8.
const CELL_LOG: u8 = 3;

/// Ticks that `bytes` take at `rate`, rounded up.
pub(super) fn ticks(rate: Rate, bytes: u32) -> u32 {
    let per_second = u128::from(rate.bytes_per_sec()).max(1);
    let ticks = (u128::from(bytes) * 1_000_000_000).div_ceil(per_second * TICK_NS);
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// The bytes that pass in so many ticks, rounded down: what was asked for, or less than one
/// tick's worth more (40 Gbit/s: 320 bytes).
pub(super) fn bytes(rate: Rate, ticks: u32) -> u32 {
    let bytes = u128::from(rate.bytes_per_sec()) * u128::from(ticks) * TICK_NS / 1_000_000_000;
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// `struct tc_ratespec` as iproute2 fills it: 8-byte cells and a cell_align of -1 (both for rate
/// tables only), how frames are charged, and the rate in byte/s: all ones where 32 bits are too
/// few and a 64-bit attribute has it.
pub(super) fn ratespec(rate: Rate, link: HtbLink) -> [u8; RATESPEC] {
    let mut spec = [0; RATESPEC];
    spec[0] = CELL_LOG;
    spec[1] = if link.layer == LinkLayer::Atm {
        ATM
    } else {
        ETHERNET
    };
    spec[2..4].copy_from_slice(&link.overhead.to_ne_bytes());
    spec[4..6].copy_from_slice(&(-1i16).to_ne_bytes());
    spec[6..8].copy_from_slice(&link.mpu.to_ne_bytes());
    let low = u32::try_from(rate.bytes_per_sec()).unwrap_or(u32::MAX);
    spec[8..].copy_from_slice(&low.to_ne_bytes());
    spec
}

/// How a `struct tc_ratespec` at `at` charges frames.
pub(super) fn link(bytes: &[u8], at: usize) -> Option<HtbLink> {
    Some(HtbLink {
        overhead: u16_at(bytes, at.checked_add(2)?)?,
        mpu: u16_at(bytes, at.checked_add(6)?)?,
        // TC_LINKLAYER_MASK; old kernels report Ethernet as unaware, and both mean the same.
        layer: match bytes.get(at.checked_add(1)?)? & 0xf {
            ATM => LinkLayer::Atm,
            ETHERNET => LinkLayer::Ethernet,
            _ => LinkLayer::Unaware,
        },
    })
}

/// The rate's 64-bit attribute, where 32 bits are too few.
pub(super) fn rate64(rate: Rate) -> Option<u64> {
    Some(rate.bytes_per_sec()).filter(|r| *r > u64::from(u32::MAX))
}

/// The rate of a `struct tc_ratespec` at `at`, or of its 64-bit attribute.
pub(super) fn rate(bytes: &[u8], at: usize, rate64: Option<u64>) -> Option<Rate> {
    let low = u64::from(u32_at(bytes, at.checked_add(8)?)?);
    Some(Rate::from_bps(rate64.unwrap_or(low).saturating_mul(8)))
}

/// The slot size with which 256 slots reach `mtu` (`tc_calc_rtable`, iproute2).
pub(super) fn cell_log(mtu: u32) -> u8 {
    (0..24).find(|log| mtu >> log <= 255).unwrap_or(24)
}

/// The table that act_police insists on, though it only reads its presence: ticks for each
/// slot's largest packet.
pub(super) fn rate_table(rate: Rate, cell_log: u8) -> Vec<u8> {
    (1..=256u32)
        .flat_map(|slot| ticks(rate, slot.checked_shl(cell_log.into()).unwrap_or(0)).to_ne_bytes())
        .collect()
}

/// Microseconds, the unit of most of tc's times.
pub(super) fn micros(t: Duration) -> u32 {
    u32::try_from(t.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_numbers() {
        // 3028 bytes at 20 kbit/s: 1.2112 s in steps of 64 ns.
        assert_eq!(ticks(Rate::from_kbit(20), 3028), 18_925_000);
        // 5 MB at 40 Gbit/s: 1 ms.
        assert_eq!(ticks(Rate::from_kbit(40_000_000), 5_000_000), 15_625);
        assert_eq!(rate64(Rate::from_kbit(40_000_000)), Some(5_000_000_000));
        assert_eq!(rate64(Rate::from_kbit(34_000_000)), None);
        // All ones are a rate like any other, and one more needs the attribute.
        assert_eq!(rate64(Rate::from_bps(8 * 0xffff_ffff)), None);
        assert_eq!(rate64(Rate::from_bps(8 << 32)), Some(1 << 32));
    }

    proptest! {
        #[test]
        fn a_bucket_is_never_smaller(bps in 8_000u64..400_000_000_000, size in 0u32..4_000_000) {
            let rate = Rate::from_bps(bps);
            let back = bytes(rate, ticks(rate, size));
            prop_assert!(u64::from(back) + 1 >= u64::from(size));
            prop_assert!(u64::from(back) <= u64::from(size) + 1 + rate.bytes_per_sec() / 15_000_000);
        }
    }
}
