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
    /// A tier below a ceiling of this number, from 1.
    Limit(u8, Tier),
}

/// Minor of the class of a ceiling, whose tiers' classes follow it (`LIMIT_CLASS` of the programs).
pub(super) const fn limit_minor(limit: u8) -> u16 {
    LIMITS + 8 * limit as u16
}

/// Where ceilings' minors begin.
const LIMITS: u16 = 0x1000;

/// The number of the ceiling that a class belongs to, if it does.
pub(super) const fn limit_of_class(minor: u16) -> Option<u8> {
    match minor.checked_sub(LIMITS) {
        Some(n @ 8..0x800) => Some((n / 8) as u8),
        _ => None,
    }
}

/// The number of the ceiling whose leaf a discipline is, and the turn of its tier, from 1.
pub(super) const fn limit_of_qdisc(major: u16) -> Option<(u8, u16)> {
    match major {
        0xc008..0xc800 | 0xd008..0xd800 => Some((((major & 0x7ff) / 8) as u8, major & 7)),
        _ => None,
    }
}

impl Leaf {
    /// Minor of its class: tiers are 10, 20, 30, 40, their buckets 100..10f, 200..20f and so on.
    pub(super) const fn minor(self) -> u16 {
        match self {
            Leaf::Tier(tier) => (1 + tier as u16) * 0x10,
            Leaf::Bucket(tier, bucket) => (1 + tier as u16) * 0x100 + bucket as u16,
            Leaf::Limit(limit, tier) => limit_minor(limit) + 1 + tier as u16,
        }
    }

    /// Major of its TBF: unique on a device, and far from what people choose.
    pub(super) const fn tbf(self) -> u16 {
        match self {
            Leaf::Limit(..) => 0xd000 + self.minor() - LIMITS,
            _ => 0xe000 + self.minor(),
        }
    }

    /// Major of the fq_codel below its TBF.
    pub(super) const fn fq_codel(self) -> u16 {
        match self {
            Leaf::Limit(..) => 0xc000 + self.minor() - LIMITS,
            _ => 0xf000 + self.minor(),
        }
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
    let major = handle.major();
    let below_a_ceiling = (0xd000..0xe000).contains(&major)
        && limit_of_qdisc(major).is_some_and(|(_, turn)| turn == 1 + tier as u16);
    below_a_ceiling
        || std::iter::once(Leaf::Tier(tier))
            .chain(buckets)
            .any(|leaf| handle == Handle::qdisc(leaf.tbf()))
}

/// Minor of the class that keeps the ceiling of this number, from 1.
pub const fn ceiling_minor(limit: u8) -> u16 {
    limit_minor(limit)
}
