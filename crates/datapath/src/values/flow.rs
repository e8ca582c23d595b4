//! A flow: who it is of, its tier, its directions, and what it is granted.

use std::net::IpAddr;
use std::time::Duration;

use evenkeel_core::Rate;
use evenkeel_core::classify::Tier;
use evenkeel_core::units::PerDirection;

use super::{address, per_direction, words};
use crate::layout;

/// Who talks to whom, as seen on the WAN device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Our address, on the outside of address translation.
    pub local: IpAddr,
    /// Theirs.
    pub remote: IpAddr,
    /// Our port; 0 if the protocol has none.
    pub local_port: u16,
    /// Theirs.
    pub remote_port: u16,
    /// IP protocol.
    pub proto: u8,
}

impl Key {
    /// From the map.
    pub(crate) fn from_layout(k: &layout::FlowKey) -> Self {
        Key {
            local: address(k.local),
            remote: address(k.remote),
            local_port: u16::from_be_bytes(k.local_port),
            remote_port: u16::from_be_bytes(k.remote_port),
            proto: k.proto,
        }
    }

    /// As in the map.
    pub(crate) fn to_layout(self) -> layout::FlowKey {
        let mapped = |address| match address {
            IpAddr::V4(a) => words(a.to_ipv6_mapped().into()),
            IpAddr::V6(a) => words(a.into()),
        };
        layout::FlowKey {
            local: mapped(self.local),
            remote: mapped(self.remote),
            local_port: self.local_port.to_be_bytes(),
            remote_port: self.remote_port.to_be_bytes(),
            proto: self.proto,
        }
    }
}

/// Why a flow is in its tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No rule holds.
    Default,
    /// No rule holds, and it is small and regular as calls and games are.
    Small,
    /// The rule of this number in the whole list, from 0.
    Rule(u16),
    /// Somebody put this one flow there.
    Hand,
}

/// What is known of one direction of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectionState {
    /// Bytes of IP packets, every segment with its headers.
    pub bytes: u64,
    /// Segments.
    pub packets: u64,
    /// When the latest passed, on the steady clock; zero: none did.
    pub last: Duration,
    /// The latest round trip beyond us in this direction.
    pub rtt: Option<Duration>,
    /// The smallest.
    pub rtt_min: Option<Duration>,
    /// How many were seen.
    pub rtt_count: u32,
    /// It moves much.
    pub heavy: bool,
    /// Its bucket, if it has one.
    pub bucket: u8,
    /// The window scale it offered.
    pub scale: Option<u8>,
}

impl DirectionState {
    fn from_layout(d: layout::DirectionState) -> Self {
        let us = |n: u32| (n > 0).then(|| Duration::from_micros(n.into()));
        DirectionState {
            bytes: d.bytes,
            packets: d.packets,
            last: Duration::from_nanos(d.last_seen),
            rtt: us(d.rtt),
            rtt_min: us(d.rtt_min),
            rtt_count: d.rtt_count,
            heavy: d.heavy > 0,
            bucket: d.bucket,
            scale: d.window_scale.checked_sub(1),
        }
    }
}

/// What a flow may have on its way to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grant {
    /// Receive window, bytes; `None` while none is granted.
    pub window: Option<u32>,
    /// Its share of the line, link layer.
    pub share: Rate,
    /// What it reached of late, link layer.
    pub reached: Rate,
    /// It uses all that it is granted.
    pub bound: bool,
    /// Right edge of the window that was let through, a TCP sequence number.
    pub edge: u32,
}

impl Grant {
    fn from_layout(g: &layout::Grant) -> Self {
        let rate = |bytes: u32| Rate::from_bps(u64::from(bytes) * 8);
        Grant {
            window: (g.window > 0).then_some(g.window),
            share: rate(g.share),
            reached: rate(g.rate),
            bound: u32::from(g.flags) & layout::GRANT_WINDOW_LIMITED != 0,
            edge: g.right_edge,
        }
    }
}

/// A flow's way on our side, from us to its host and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lan {
    /// What a round trip takes there while nothing waits; `None`: not known yet.
    pub base: Option<Duration>,
    /// By how much the shortest were longer of late: what waits there all the time.
    pub queue: Duration,
    /// What its host acknowledged of late, bytes of payload.
    pub rate: Rate,
    /// What it may have on its way because of that, bytes; `None`: its way does not hold it.
    pub window: Option<u32>,
}

impl Lan {
    fn from_layout(l: &layout::Lan) -> Self {
        let us = |n: u32| Duration::from_micros(n.into());
        Lan {
            base: (l.base > 0).then(|| us(l.base)),
            queue: us(l.queue),
            rate: Rate::from_bps(u64::from(l.rate) * 8),
            window: (l.window > 0).then_some(l.window),
        }
    }
}

/// What is known of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Of each direction. A round trip of uploads is the Internet's, one of downloads the LAN's.
    pub direction: PerDirection<DirectionState>,
    /// Its receive window.
    pub grant: Grant,
    /// Its way on our side.
    pub lan: Lan,
    /// When it was first seen, on the steady clock.
    pub first: Duration,
    /// Id of the control group of its socket; 0 if it is not this host's.
    pub cgroup: u64,
    /// Its fwmark.
    pub mark: u32,
    /// Why it is in its tier.
    pub reason: Reason,
    /// Its tier.
    pub tier: Tier,
    /// Its DSCP.
    pub dscp: u8,
    /// Number of the ceiling that it is below, from 1.
    pub limit: Option<u8>,
    /// One side said that it ends.
    pub closed: bool,
    /// Both SYNs were seen, so that its window scales are known.
    pub from_start: bool,
    /// Multipath TCP, whose windows are of all paths together.
    pub mptcp: bool,
}

impl Flow {
    /// From the map; `None` if its tier is none.
    pub(crate) fn from_layout(f: &layout::Flow) -> Option<Self> {
        let reason = match f.reason {
            n if u32::from(n) == layout::REASON_DEFAULT => Reason::Default,
            0 => Reason::Hand,
            n => Reason::Rule(n - 1),
        };
        let tier = Tier::ALL.get(usize::from(f.tier)).copied()?;
        let (reason, tier) = match f.small {
            0 => (reason, tier),
            _ => (Reason::Small, Tier::Voice),
        };
        let both_syns = layout::FLOW_SYN_UP | layout::FLOW_SYN_DOWN;
        let flags = u32::from(f.flags);
        Some(Flow {
            direction: per_direction(f.dir).map(DirectionState::from_layout),
            grant: Grant::from_layout(&f.grant),
            lan: Lan::from_layout(&f.lan),
            first: Duration::from_nanos(f.first_seen),
            cgroup: f.cgroup,
            mark: f.mark,
            reason,
            tier,
            dscp: f.dscp,
            limit: (f.limit > 0).then_some(f.limit),
            closed: flags & layout::FLOW_CLOSED != 0,
            from_start: flags & both_syns == both_syns,
            mptcp: flags & layout::FLOW_MPTCP != 0,
        })
    }
}
