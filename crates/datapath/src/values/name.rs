//! What is said of flows by the names of their ends, and a whole set of rules.
//!
//! Principle: the first rule that says something decides it, wherever it is found. Non-goals: which address or socket a
//! name stands for.

use std::collections::BTreeMap;
use std::net::IpAddr;

use evenkeel_core::classify::Tier;

use super::{Rule, address, words};
use crate::layout;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameKey {
    /// The far side.
    Remote(IpAddr),
    /// Our side, where no address translation hides it.
    Local(IpAddr),
    /// A control group, by its number.
    Cgroup(u64),
    /// One flow, by what address translation leaves as it is.
    Tuple {
        /// IP protocol.
        proto: u8,
        /// Our port.
        local_port: u16,
        /// The far side.
        remote: IpAddr,
        /// Its port.
        remote_port: u16,
    },
    /// A socket of this host.
    Port {
        /// IP protocol.
        proto: u8,
        /// Its port.
        port: u16,
    },
}

impl NameKey {
    /// The bit of its kind.
    pub(crate) fn bit(&self) -> u32 {
        1 << match self {
            NameKey::Remote(_) => layout::NAME_REMOTE,
            NameKey::Local(_) => layout::NAME_LOCAL,
            NameKey::Cgroup(_) => layout::NAME_CGROUP,
            NameKey::Tuple { .. } => layout::NAME_TUPLE,
            NameKey::Port { .. } => layout::NAME_PORT,
        }
    }

    /// As in the map.
    pub(crate) fn to_layout(self) -> layout::NameKey {
        let mapped = |address| match address {
            IpAddr::V4(a) => words(a.to_ipv6_mapped().into()),
            IpAddr::V6(a) => words(a.into()),
        };
        let none = layout::NameKey {
            addr: [[0; 4]; 4],
            local_port: [0; 2],
            remote_port: [0; 2],
            proto: 0,
            kind: self.bit().trailing_zeros() as u8,
        };
        match self {
            NameKey::Remote(a) | NameKey::Local(a) => layout::NameKey {
                addr: mapped(a),
                ..none
            },
            NameKey::Cgroup(id) => layout::NameKey {
                addr: [
                    (id as u32).to_ne_bytes(),
                    ((id >> 32) as u32).to_ne_bytes(),
                    [0; 4],
                    [0; 4],
                ],
                ..none
            },
            NameKey::Tuple {
                proto,
                local_port,
                remote,
                remote_port,
            } => layout::NameKey {
                addr: mapped(remote),
                local_port: local_port.to_be_bytes(),
                remote_port: remote_port.to_be_bytes(),
                proto,
                ..none
            },
            NameKey::Port { proto, port } => layout::NameKey {
                local_port: port.to_be_bytes(),
                proto,
                ..none
            },
        }
    }

    /// From the map; `None` if its kind is none.
    pub(crate) fn from_layout(k: &layout::NameKey) -> Option<Self> {
        let port = u16::from_be_bytes;
        Some(match u32::from(k.kind) {
            layout::NAME_REMOTE => NameKey::Remote(address(k.addr)),
            layout::NAME_LOCAL => NameKey::Local(address(k.addr)),
            layout::NAME_CGROUP => {
                let [low, high, ..] = k.addr.map(u32::from_ne_bytes);
                NameKey::Cgroup(u64::from(high) << 32 | u64::from(low))
            }
            layout::NAME_TUPLE => NameKey::Tuple {
                proto: k.proto,
                local_port: port(k.local_port),
                remote: address(k.addr),
                remote_port: port(k.remote_port),
            },
            layout::NAME_PORT => NameKey::Port {
                proto: k.proto,
                port: port(k.local_port),
            },
            _ => return None,
        })
    }
}

/// What is said of flows that have a name: each with the position of the rule that says it, 0 for somebody's hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Name {
    /// Of rules that ask more.
    pub sets: u64,
    /// The tier.
    pub tier: Option<(u32, Tier)>,
    /// Number of the ceiling, from 1.
    pub limit: Option<(u32, u8)>,
    /// The DSCP that is written.
    pub set_dscp: Option<(u32, u8)>,
}

/// The earlier one of two.
fn first<T: Copy>(a: Option<(u32, T)>, b: Option<(u32, T)>) -> Option<(u32, T)> {
    match (a, b) {
        (Some(x), Some(y)) if y.0 < x.0 => Some(y),
        (None, b) => b,
        (a, _) => a,
    }
}

impl Name {
    /// Both of them.
    #[must_use]
    pub fn and(self, other: Name) -> Name {
        Name {
            sets: self.sets | other.sets,
            tier: first(self.tier, other.tier),
            limit: first(self.limit, other.limit),
            set_dscp: first(self.set_dscp, other.set_dscp),
        }
    }

    /// As in the map.
    pub(crate) fn to_layout(self) -> layout::Name {
        let at = |position: Option<u32>| position.unwrap_or(layout::NOWHERE);
        layout::Name {
            sets: self.sets,
            tier_at: at(self.tier.map(|t| t.0)),
            limit_at: at(self.limit.map(|l| l.0)),
            dscp_at: at(self.set_dscp.map(|d| d.0)),
            tier: self.tier.map_or(0, |t| t.1 as u8),
            limit: self.limit.map_or(0, |l| l.1),
            set_dscp: self.set_dscp.map_or(0, |d| d.1 + 1),
            cake_knows: 0,
        }
    }
}

/// Everything that is told of flows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleSet {
    /// What is asked one after the other, by position.
    pub rules: Vec<Rule>,
    /// What is found by names.
    pub names: BTreeMap<NameKey, Name>,
    /// Ceilings of tiers, for flows that have none of their own: their numbers, from 1.
    pub tier_limit: [Option<u8>; Tier::ALL.len()],
    /// What is written into what leaves of a tier.
    pub tier_dscp: [Option<u8>; Tier::ALL.len()],
    /// What name servers answer is to be kept.
    pub asks_dns: bool,
}

impl RuleSet {
    /// Rules alone, in this order.
    pub fn of(rules: &[Rule]) -> Self {
        let numbered = (1..)
            .zip(rules)
            .map(|(position, rule)| Rule { position, ..*rule });
        RuleSet {
            rules: numbered.collect(),
            ..RuleSet::default()
        }
    }

    /// Adds to what is said of a name.
    pub fn say(&mut self, key: NameKey, name: Name) {
        let entry = self.names.entry(key).or_default();
        *entry = entry.and(name);
    }

    /// Whether some rule has a ceiling or writes a mark.
    pub(crate) fn acts(&self) -> bool {
        self.rules
            .iter()
            .any(|r| r.limit.is_some() || r.set_dscp.is_some())
            || self
                .names
                .values()
                .any(|n| n.limit.is_some() || n.set_dscp.is_some())
    }

    /// Kinds of names that there are.
    pub(crate) fn kinds(&self) -> u32 {
        self.names.keys().fold(0, |all, k| all | k.bit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back_and_lie_where_the_programs_look() {
        let remote: IpAddr = "198.51.100.9".parse().unwrap();
        let all = [
            NameKey::Remote(remote),
            NameKey::Local("2001:db8::7".parse().unwrap()),
            NameKey::Cgroup(0x0102_0304_0506_0708),
            NameKey::Tuple {
                proto: 6,
                local_port: 0x1234,
                remote,
                remote_port: 443,
            },
            NameKey::Port {
                proto: 17,
                port: 8801,
            },
        ];
        for key in all {
            assert_eq!(NameKey::from_layout(&key.to_layout()), Some(key));
        }
        let bytes = all[3].to_layout().to_bytes();
        assert_eq!(
            bytes[10..],
            [0xff, 0xff, 198, 51, 100, 9, 0x12, 0x34, 1, 0xbb, 6, 3, 0, 0]
        );
    }

    #[test]
    fn the_earlier_rule_decides() {
        let a = Name {
            sets: 1,
            tier: Some((5, Tier::Bulk)),
            limit: Some((5, 1)),
            ..Name::default()
        };
        let b = Name {
            sets: 4,
            tier: Some((3, Tier::Voice)),
            set_dscp: Some((9, 46)),
            ..Name::default()
        };
        let both = Name {
            sets: 5,
            tier: Some((3, Tier::Voice)),
            limit: Some((5, 1)),
            set_dscp: Some((9, 46)),
        };
        assert_eq!(a.and(b), both);
        assert_eq!(b.and(a), both);
    }
}
