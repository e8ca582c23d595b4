//! What the programs are told of each direction, and where the rules are.

use evenkeel_core::Framing;
use evenkeel_core::units::PerDirection;

use super::{by_index, per_direction};
use crate::layout;

/// How a packet's tier is told to the queueing discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PriorityMode {
    /// Not at all: flows are only counted.
    #[default]
    None,
    /// As one of CAKE's tins, where CAKE would not find it by itself.
    CakeTin,
    /// As one of HTB's tier classes.
    TierClass,
    /// As one of the bucket classes of a tier.
    BucketClass,
}

/// What the programs do with the packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectionConfig {
    /// How their tier is told.
    pub mode: PriorityMode,
    /// Major number of the root discipline, as in its handle (`0xec0` for `ec0:`).
    pub major: u16,
    /// How long the IP packets of new TCP connections may be, bytes; `None`: not bounded.
    pub max_packet: Option<u16>,
    /// How packets are framed on the line, for what they are counted to take there.
    pub framing: Framing,
}

/// What the programs are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Config {
    /// Until then what is no call waits, ns.
    pub(crate) quiet_until: u64,
    /// Changes with the rules.
    pub(crate) generation: u32,
    /// Where the set of rules begins.
    pub(crate) first_rule: u32,
    /// How many there are.
    pub(crate) rules: u32,
    /// Kinds of names that there are.
    pub(crate) names: u32,
    /// There are ceilings or marks.
    pub(crate) acts: bool,
    /// What name servers answer is to be kept.
    pub(crate) asks_dns: bool,
    /// Ceilings of tiers, and marks plus one, 0 for none.
    pub(crate) tier_limit: [u8; 4],
    pub(crate) tier_dscp: [u8; 4],
    /// Egress and ingress.
    pub(crate) direction: PerDirection<DirectionConfig>,
}

impl DirectionConfig {
    fn to_layout(self) -> layout::DirectionConfig {
        layout::DirectionConfig {
            mode: match self.mode {
                PriorityMode::None => layout::PRIORITY_NONE,
                PriorityMode::CakeTin => layout::PRIORITY_CAKE_TIN,
                PriorityMode::TierClass => layout::PRIORITY_TIER_CLASS,
                PriorityMode::BucketClass => layout::PRIORITY_BUCKET_CLASS,
            },
            major: u32::from(self.major) << 16,
            max_packet: self.max_packet.unwrap_or_default().into(),
            framing: super::framing(self.framing),
        }
    }

    fn from_layout(c: layout::DirectionConfig) -> Self {
        DirectionConfig {
            mode: match c.mode {
                layout::PRIORITY_CAKE_TIN => PriorityMode::CakeTin,
                layout::PRIORITY_TIER_CLASS => PriorityMode::TierClass,
                layout::PRIORITY_BUCKET_CLASS => PriorityMode::BucketClass,
                _ => PriorityMode::None,
            },
            major: (c.major >> 16) as u16,
            max_packet: Some(c.max_packet as u16).filter(|n| *n > 0),
            framing: super::framing_of(c.framing),
        }
    }
}

impl Config {
    /// As in the map.
    pub(crate) fn to_layout(self) -> layout::Config {
        layout::Config {
            quiet_until: self.quiet_until,
            generation: self.generation,
            first_rule: self.first_rule,
            rules: self.rules,
            names: self.names,
            acts: self.acts.into(),
            asks_dns: self.asks_dns.into(),
            tier_limit: self.tier_limit,
            tier_dscp: self.tier_dscp,
            dir: by_index(self.direction.map(DirectionConfig::to_layout)),
        }
    }

    /// From the map.
    pub(crate) fn from_layout(c: &layout::Config) -> Self {
        Config {
            quiet_until: c.quiet_until,
            generation: c.generation,
            first_rule: c.first_rule,
            rules: c.rules,
            names: c.names,
            acts: c.acts > 0,
            asks_dns: c.asks_dns > 0,
            tier_limit: c.tier_limit,
            tier_dscp: c.tier_dscp,
            direction: per_direction(c.dir).map(DirectionConfig::from_layout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::classify::Tier;
    use evenkeel_core::line::Line;
    use evenkeel_core::plan::{
        Capabilities, Choice, Device, Feature, LinkSizes, Policy, plan, tier_minor,
    };
    use evenkeel_core::tc::Op;
    use evenkeel_core::{Framing, Rate};

    /// `priority.h` chooses among so many bucket classes of a tier: a packet that is sent to one that
    /// the plan does not make would go to the default class, in whatever tier it is.
    #[test]
    fn the_plan_makes_the_bucket_classes_that_the_programs_choose() {
        let device = Device {
            name: "wan".into(),
            ifindex: 7,
            link_header: 14,
            mtu: 1500,
            is_port: false,
            has_clsact: false,
            sizes: LinkSizes::default(),
        };
        let line = Line {
            down: Rate::from_kbit(50_000),
            up: Rate::from_kbit(10_000),
            framing: Framing::default(),
        };
        let policy = Policy {
            choice: Choice::Bare,
            ..Policy::default()
        };
        let caps = Capabilities(Feature::ALL.into());
        let plan = plan(&caps, &device, line, policy).unwrap();
        let (heavy, light) = (layout::HEAVY_BUCKETS as u16, layout::LIGHT_BUCKETS as u16);
        for tier in Tier::ALL {
            // `(tier + 1) << 8`, as priority.h has it.
            let first = tier_minor(tier) << 4;
            let classes = || {
                plan.setup.iter().filter_map(move |op| match op {
                    Op::ClassAdd(c) if c.dev == "wan".into() => Some((c.classid.minor(), c.class)),
                    _ => None,
                })
            };
            let turns = |minors: std::ops::Range<u16>| {
                classes()
                    .filter(|(minor, _)| minors.contains(minor))
                    .map(|(_, class)| class.prio)
                    .collect::<Vec<_>>()
            };
            let below = turns(first..first + 0x100);
            assert_eq!(below.len(), usize::from(heavy + light), "{tier}");
            // The light flows' are asked before the heavy flows', which are asked alike.
            let heavies = turns(first..first + heavy);
            let lights = turns(first + heavy..first + heavy + light);
            assert_eq!(heavies, vec![heavies[0]; usize::from(heavy)], "{tier}");
            assert_eq!(lights, vec![lights[0]; usize::from(light)], "{tier}");
            assert!(lights[0] < heavies[0], "{tier}");
        }
    }
}
