//! Leaves of HTB's tree: where packets of a tier wait, and which numbers those places have.
//!
//! Principles: numbers are fixed, so that our own work is known again. Non-goals: what a leaf is
//! made of (`htb`), and which packets go there (`filters`, the programs).

use crate::classify::Tier;
use crate::tc::Handle;

/// Leaves of a tier on bare kernels: flows are spread over them, or heavy flows have one each
/// (`HEAVY_BUCKETS` of the programs).
pub(super) const BUCKETS: u8 = 16;
/// Further leaves behind those, for light flows, where the programs tell them from heavy ones
/// (`LIGHT_BUCKETS`).
pub(super) const LIGHT: u8 = 4;

/// Where packets wait.
#[derive(Debug, Clone, Copy)]
pub(super) enum Leaf {
    /// A tier's class, with fq_codel.
    Tier(Tier),
    /// One of a tier's buckets.
    Bucket(Tier, u8),
}

impl Leaf {
    /// Minor of its class: tiers are 10, 20, 30, 40, their buckets 100..10f, 200..20f and so on.
    pub(super) const fn minor(self) -> u16 {
        match self {
            Leaf::Tier(tier) => (1 + tier as u16) * 0x10,
            Leaf::Bucket(tier, bucket) => (1 + tier as u16) * 0x100 + bucket as u16,
        }
    }

    /// Major of its TBF: unique on a device, and far from what people choose.
    pub(super) const fn tbf(self) -> u16 {
        0xe000 + self.minor()
    }

    /// Major of the fq_codel below its TBF.
    pub(super) const fn fq_codel(self) -> u16 {
        0xf000 + self.minor()
    }
}

/// Minor of a tier's class.
pub const fn tier_minor(tier: Tier) -> u16 {
    Leaf::Tier(tier).minor()
}

/// Whether this discipline holds packets of a tier: its TBFs, and not what hangs below them,
/// whose drops and backlog they count as well.
pub fn is_leaf_of(handle: Handle, tier: Tier) -> bool {
    let buckets = (0..BUCKETS + LIGHT).map(|b| Leaf::Bucket(tier, b));
    std::iter::once(Leaf::Tier(tier))
        .chain(buckets)
        .any(|leaf| handle == Handle::qdisc(leaf.tbf()))
}
