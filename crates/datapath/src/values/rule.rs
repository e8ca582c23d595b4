//! A rule, as the programs ask it.

use std::net::{IpAddr, Ipv6Addr};

use evenkeel_core::classify::Tier;
pub use evenkeel_core::rules::End;
use evenkeel_core::rules::{FlowRule, Prefix};

use super::words;
use crate::layout;

/// Rules of one set.
pub const MAX_RULES: u32 = layout::MAX_RULES;

/// A rule: every condition that is there must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rule {
    /// Index of its tier; more than there are: it says none.
    pub tier: u8,
    /// IP protocol.
    pub proto: Option<u8>,
    /// DSCP.
    pub dscp: Option<u8>,
    /// fwmark and mask; egress only.
    pub mark: Option<(u32, u32)>,
    /// First and last port, and whose.
    pub ports: Option<(End, u16, u16)>,
    /// Address and length of its prefix as IPv6 (IPv4: mapped, 96 more).
    pub local: Option<(Ipv6Addr, u8)>,
    /// The same of the far side. A rule has one of the two.
    pub remote: Option<(Ipv6Addr, u8)>,
    /// Control group's id and how far it is below the root; egress only.
    pub cgroup: Option<(u64, u8)>,
    /// CAKE does as much by itself.
    pub cake_knows: bool,
    /// Its place in the whole list, from 1.
    pub position: u32,
    /// Number of its ceiling, from 1.
    pub limit: Option<u8>,
    /// DSCP that it writes.
    pub set_dscp: Option<u8>,
    /// Names that must stand for a flow's ends, a bit each.
    pub sets: u64,
}

/// No tier.
const NO_TIER: u8 = u8::MAX;

impl Rule {
    /// `rule` with the id of its control group, and how far that is below the root. It is the first of its list, and
    /// has neither ceiling nor names.
    pub fn new(rule: &FlowRule, cgroup: Option<(u64, u8)>) -> Self {
        let mapped = |p: Prefix| match p.address {
            IpAddr::V4(a) => (a.to_ipv6_mapped(), 96 + p.length.min(32)),
            IpAddr::V6(a) => (a, p.length),
        };
        Rule {
            tier: rule.tier.map_or(NO_TIER, |tier| tier as u8),
            proto: rule.proto,
            dscp: rule.dscp,
            mark: rule.mark,
            ports: rule.ports,
            local: rule.local.map(mapped),
            remote: rule.remote.map(mapped),
            cgroup,
            cake_knows: rule.cake_knows,
            position: 1,
            limit: None,
            set_dscp: rule.set_dscp,
            sets: 0,
        }
    }

    /// As in the map.
    pub(crate) fn to_layout(self) -> layout::Rule {
        let end = self.ports.map(|p| p.0);
        let conditions = [
            (layout::RULE_PROTO, self.proto.is_some()),
            (layout::RULE_DSCP, self.dscp.is_some()),
            (layout::RULE_MARK, self.mark.is_some()),
            (layout::RULE_LOCAL_PORT, end == Some(End::Local)),
            (layout::RULE_REMOTE_PORT, end == Some(End::Remote)),
            (layout::RULE_ANY_PORT, end == Some(End::Any)),
            (layout::RULE_LOCAL_ADDR, self.local.is_some()),
            (layout::RULE_REMOTE_ADDR, self.remote.is_some()),
            (layout::RULE_CGROUP, self.cgroup.is_some()),
            (layout::RULE_TIER, usize::from(self.tier) < Tier::ALL.len()),
            (layout::RULE_CAKE_KNOWS, self.cake_knows),
        ];
        let (_, port_low, port_high) = self.ports.unwrap_or((End::Any, 0, 0));
        let (mark, mark_mask) = self.mark.unwrap_or_default();
        let (address, length) = self
            .local
            .or(self.remote)
            .unwrap_or((Ipv6Addr::UNSPECIFIED, 0));
        let mask = match length {
            0 => 0,
            n => u128::MAX << (128 - u32::from(n.min(128))),
        };
        let (cgroup, cgroup_level) = self.cgroup.unwrap_or_default();
        layout::Rule {
            conditions: conditions
                .into_iter()
                .filter(|c| c.1)
                .fold(0, |all, c| all | c.0 as u16),
            tier: self.tier,
            proto: self.proto.unwrap_or_default(),
            dscp: self.dscp.unwrap_or_default(),
            cgroup_level,
            port_low,
            port_high,
            mark: mark & mark_mask,
            mark_mask,
            addr: words(u128::from(address) & mask),
            mask: words(mask),
            cgroup,
            position: self.position,
            limit: self.limit.unwrap_or_default(),
            set_dscp: self.set_dscp.map_or(0, |n| n + 1),
            sets: self.sets,
        }
    }
}
