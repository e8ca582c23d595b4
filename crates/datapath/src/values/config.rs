//! What the programs are told of each direction, and where the rules are.

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
}

/// What the programs are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Config {
    /// Changes with the rules.
    pub(crate) generation: u32,
    /// Where the set of rules begins.
    pub(crate) first_rule: u32,
    /// How many there are.
    pub(crate) rules: u32,
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
        }
    }
}

impl Config {
    /// As in the map.
    pub(crate) fn to_layout(self) -> layout::Config {
        layout::Config {
            generation: self.generation,
            first_rule: self.first_rule,
            rules: self.rules,
            dir: by_index(self.direction.map(DirectionConfig::to_layout)),
        }
    }

    /// From the map.
    pub(crate) fn from_layout(c: &layout::Config) -> Self {
        Config {
            generation: c.generation,
            first_rule: c.first_rule,
            rules: c.rules,
            direction: per_direction(c.dir).map(DirectionConfig::from_layout),
        }
    }
}
