//! Values in maps, byte by byte: the twin of `bpf/types.h`.
//!
//! Principles: offsets are written once, in the order of the C structs; numbers are in host byte
//! order, addresses and ports as on the wire; what is too short is `None`, never a panic.
//! Non-goals: meaning.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use evenkeel_core::classify::Tier;
use evenkeel_core::framing;
pub use evenkeel_core::rules::End;
use evenkeel_core::rules::{FlowRule, Prefix};
use evenkeel_core::{Framing, Rate};

/// `struct config`.
pub const CONFIG: usize = 36;
/// `struct rule`.
pub const RULE: usize = 64;
/// `struct flow_key`.
pub const KEY: usize = 40;
/// `struct flow`.
pub const FLOW: usize = 352;
/// `struct line`.
pub const LINE: usize = 56;
/// `struct trip`.
pub const TRIP: usize = 32;
/// `TRIPS`: so many are kept.
pub const TRIPS: usize = 64;
/// `struct counts`.
pub const COUNTS: usize = 224;
/// `MAX_RULES`: of one set.
pub const MAX_RULES: u32 = 128;
/// `RTT_STEPS`: of one side.
pub const RTT_STEPS: usize = 80;
/// `HEAVY_BUCKETS`: classes of a tier, one for each heavy flow.
pub const HEAVY_BUCKETS: u8 = 16;
/// `LIGHT_BUCKETS`: classes of a tier that light flows share.
pub const LIGHT_BUCKETS: u8 = 4;

/// Of a full packet: IPv4, TCP, time stamps.
const HEADERS: u32 = 52;

/// How a tier is handed to the queueing discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hand {
    /// Not at all: flows are only counted.
    #[default]
    Nothing,
    /// As one of CAKE's tins, where CAKE would not find it by itself.
    Cake,
    /// As one of HTB's tier classes.
    Tiers,
    /// As one of the bucket classes of a tier.
    Buckets,
}

/// What one direction is handed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Side {
    /// In which way.
    pub hand: Hand,
    /// Major number of the root discipline, as in its handle (`0xec0` for `ec0:`).
    pub major: u16,
    /// How long the IP packets of new TCP connections may be, bytes; `None`: not bounded.
    pub longest: Option<u16>,
}

/// What the programs are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// Changes with the rules.
    pub generation: u32,
    /// Where the set of rules begins.
    pub first_rule: u32,
    /// How many there are.
    pub rules: u32,
    /// Egress and ingress.
    pub side: [Side; 2],
}

impl Config {
    /// As in the map.
    pub fn to_bytes(self) -> [u8; CONFIG] {
        let mut w = Writer::<CONFIG>::new();
        w.u32(self.generation);
        w.u32(self.first_rule);
        w.u32(self.rules);
        for side in self.side {
            w.u32(match side.hand {
                Hand::Nothing => 0,
                Hand::Cake => 1,
                Hand::Tiers => 2,
                Hand::Buckets => 3,
            });
            w.u32(u32::from(side.major) << 16);
            w.u32(side.longest.unwrap_or_default().into());
        }
        w.bytes
    }

    /// From the map.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        let mut config = Config {
            generation: r.u32()?,
            first_rule: r.u32()?,
            rules: r.u32()?,
            ..Config::default()
        };
        for side in &mut config.side {
            side.hand = match r.u32()? {
                1 => Hand::Cake,
                2 => Hand::Tiers,
                3 => Hand::Buckets,
                _ => Hand::Nothing,
            };
            side.major = (r.u32()? >> 16) as u16;
            side.longest = Some(r.u32()? as u16).filter(|n| *n > 0);
        }
        Some(config)
    }
}

/// `struct rule`: every condition that is there must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rule {
    /// Index of its tier.
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
}

impl Rule {
    /// `rule` with the id of its control group, and how far that is below the root.
    pub fn new(rule: &FlowRule, cgroup: Option<(u64, u8)>) -> Self {
        let mapped = |p: Prefix| match p.address {
            IpAddr::V4(a) => (a.to_ipv6_mapped(), 96 + p.length.min(32)),
            IpAddr::V6(a) => (a, p.length),
        };
        Rule {
            tier: rule.tier as u8,
            proto: rule.proto,
            dscp: rule.dscp,
            mark: rule.mark,
            ports: rule.ports,
            local: rule.local.map(mapped),
            remote: rule.remote.map(mapped),
            cgroup,
            cake_knows: rule.cake_knows,
        }
    }

    /// As in the map.
    pub fn to_bytes(self) -> [u8; RULE] {
        let mut what = 0u16;
        let mut bit = |n: u16, there: bool| what |= u16::from(there) << n;
        bit(0, self.proto.is_some());
        bit(1, self.dscp.is_some());
        bit(2, self.mark.is_some());
        let end = self.ports.map(|p| p.0);
        bit(3, end == Some(End::Local));
        bit(4, end == Some(End::Remote));
        bit(5, end == Some(End::Any));
        bit(6, self.local.is_some());
        bit(7, self.remote.is_some());
        bit(8, self.cgroup.is_some());
        bit(15, self.cake_knows);
        let mut w = Writer::<RULE>::new();
        w.u16(what);
        w.u8(self.tier);
        w.u8(self.proto.unwrap_or_default());
        w.u8(self.dscp.unwrap_or_default());
        w.u8(self.cgroup.unwrap_or_default().1);
        let (_, low, high) = self.ports.unwrap_or((End::Any, 0, 0));
        w.u16(low);
        w.u16(high);
        w.u16(0);
        let (mark, mask) = self.mark.unwrap_or_default();
        w.u32(mark & mask);
        w.u32(mask);
        let (address, length) = self
            .local
            .or(self.remote)
            .unwrap_or((Ipv6Addr::UNSPECIFIED, 0));
        let mask = match length {
            0 => 0,
            n => u128::MAX << (128 - u32::from(n.min(128))),
        };
        w.raw(&(u128::from(address) & mask).to_be_bytes());
        w.raw(&mask.to_be_bytes());
        w.u32(0);
        w.u64(self.cgroup.unwrap_or_default().0);
        w.bytes
    }
}

/// `struct line`: what receive windows are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Until when windows are bounded, on the steady clock; [`Duration::MAX`]: for good.
    pub lease: Duration,
    /// Link-layer rate towards us.
    pub rate: Rate,
    /// What all flows together are to use of it.
    pub target: Rate,
    /// How packets are framed.
    pub framing: Framing,
    /// Length of TCP's full IP packets, bytes.
    pub mtu: u32,
    /// Round trips may be so much longer than the least without it meaning much: on lines whose
    /// delay wanders, and where a short queue is kept.
    pub slack: Duration,
    /// What a shaper behind the programs counts beside the bytes that come of flows that obey no
    /// windows, ten-thousandths; 0: there is none, or it is not to.
    pub surcharge: u32,
    /// The line is to be full, though a short queue stands: who polices compares with those who
    /// fill it.
    pub fills: bool,
}

impl Line {
    /// As in the map. Rates above 34 Gbit/s count as that.
    pub fn to_bytes(self) -> [u8; LINE] {
        let bytes = |rate: Rate| u32::try_from(rate.bps() / 8).unwrap_or(u32::MAX);
        let packet = self.framing.wire_len(self.mtu);
        let mut w = Writer::<LINE>::new();
        w.u64(u64::try_from(self.lease.as_nanos()).unwrap_or(u64::MAX));
        w.u32(bytes(self.rate));
        w.u32(bytes(self.target));
        w.u32(packet);
        let took = u64::from(packet) * 8 * 1_000_000_000 / self.rate.bps().max(1);
        w.u32(u32::try_from(took).unwrap_or(u32::MAX));
        w.u32(match self.framing.mode {
            framing::Mode::None => 0,
            framing::Mode::Atm => 1,
            framing::Mode::Ptm => 2,
        });
        w.u32(i32::from(self.framing.overhead) as u32);
        w.u32(u32::from(self.framing.mpu));
        w.u32(self.mtu.saturating_sub(HEADERS).max(1));
        w.u32(u32::try_from(self.slack.as_micros()).unwrap_or(u32::MAX));
        w.u32(self.surcharge);
        w.u32(self.fills.into());
        w.bytes
    }

    /// The lease, from the map; zero if there is no line.
    pub(crate) fn lease_from_bytes(bytes: &[u8]) -> Option<Duration> {
        Reader(bytes).u64().map(Duration::from_nanos)
    }
}

/// `struct flow_key`: who talks to whom, as seen on the WAN device.
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
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        Some(Key {
            local: r.address()?,
            remote: r.address()?,
            local_port: u16::from_be_bytes(r.take()?),
            remote_port: u16::from_be_bytes(r.take()?),
            proto: r.u8()?,
        })
    }

    /// As in the map.
    pub fn to_bytes(self) -> [u8; KEY] {
        let mut w = Writer::<KEY>::new();
        for address in [self.local, self.remote] {
            let mapped = match address {
                IpAddr::V4(a) => a.to_ipv6_mapped(),
                IpAddr::V6(a) => a,
            };
            w.raw(&mapped.octets());
        }
        w.raw(&self.local_port.to_be_bytes());
        w.raw(&self.remote_port.to_be_bytes());
        w.u8(self.proto);
        w.bytes
    }
}

/// Why a flow is in its tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No rule holds.
    Default,
    /// No rule holds, and it is small and regular as calls and games are.
    Small,
    /// The rule of this number in its set.
    Rule(u16),
}

/// `struct way`: one direction of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Way {
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

/// `struct grant`: what a flow may have on its way to us.
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

/// `struct flow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Egress and ingress. A round trip of egress is the Internet's, one of ingress the LAN's.
    pub ways: [Way; 2],
    /// Its receive window.
    pub grant: Grant,
    /// When it was first seen, on the steady clock.
    pub first: Duration,
    /// Id of the control group of its socket; 0 if it is not this host's.
    pub cgroup: u64,
    /// Its fwmark.
    pub mark: u32,
    /// Why it is in its tier.
    pub why: Why,
    /// Its tier.
    pub tier: Tier,
    /// Its DSCP.
    pub dscp: u8,
    /// One side said that it ends.
    pub closed: bool,
    /// Both SYNs were seen, so that its window scales are known.
    pub from_start: bool,
    /// Multipath TCP, whose windows are of all paths together.
    pub mptcp: bool,
}

impl Flow {
    /// From the map.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        let ways = [r.way()?, r.way()?];
        let grant = r.grant()?;
        let first = Duration::from_nanos(r.u64()?);
        let cgroup = r.u64()?;
        let _syn = r.u64()?;
        let _queued_until = r.u64()?;
        let _generation = r.u32()?;
        let mark = r.u32()?;
        let why = match r.u16()? {
            n if u32::from(n) < MAX_RULES => Why::Rule(n),
            _ => Why::Default,
        };
        let tier = Tier::ALL.get(usize::from(r.u8()?)).copied()?;
        let _cake_knows = r.u8()?;
        let dscp = r.u8()?;
        let seen = r.u8()?;
        let (why, tier) = match r.u8()? {
            0 => (why, tier),
            _ => (Why::Small, Tier::Voice),
        };
        Some(Flow {
            ways,
            grant,
            first,
            cgroup,
            mark,
            why,
            tier,
            dscp,
            closed: seen & 4 != 0,
            from_start: seen & 3 == 3,
            mptcp: seen & 8 != 0,
        })
    }
}

/// `struct trip`: a round trip beyond us that is worth a probe's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trip {
    /// When the answer came, on the steady clock.
    pub came: Duration,
    /// From where.
    pub remote: IpAddr,
    /// From before our own queue on.
    pub took: Duration,
    /// What it answers may have waited there.
    pub waits: bool,
}

impl Trip {
    /// From the map.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        Some(Trip {
            came: Duration::from_nanos(r.u64()?),
            remote: r.address()?,
            took: Duration::from_micros(r.u32()?.into()),
            waits: r.u32()? > 0,
        })
    }
}

/// `struct counts`, over all CPUs. Pairs are egress and ingress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Super-packets count once.
    pub packets: [u64; 2],
    /// They count by their segments.
    pub segments: [u64; 2],
    /// Bytes of IP packets.
    pub bytes: [u64; 2],
    /// Not IP, or cut off.
    pub other: [u64; 2],
    /// Flows that were new.
    pub new_flows: u64,
    /// Packets for whose flow there was no room.
    pub full: u64,
    /// Segments dropped: of flows that know no windows, beyond their share.
    pub slowed: u64,
    /// Small packets that arrived and did not go to our queue.
    pub passed: u64,
    /// Segments by tier.
    pub tier_packets: [[u64; 4]; 2],
    /// Bytes by tier.
    pub tier_bytes: [[u64; 4]; 2],
}

impl Counts {
    /// Adds what one CPU counted.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let mut r = Reader(bytes);
        let pairs = [
            &mut self.packets,
            &mut self.segments,
            &mut self.bytes,
            &mut self.other,
        ];
        for n in pairs.into_iter().flatten() {
            *n += r.u64()?;
        }
        self.new_flows += r.u64()?;
        self.full += r.u64()?;
        self.slowed += r.u64()?;
        self.passed += r.u64()?;
        let tiers = [&mut self.tier_packets, &mut self.tier_bytes];
        for n in tiers.into_iter().flatten().flatten() {
            *n += r.u64()?;
        }
        Some(())
    }
}

/// Reads fields one after the other.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_ne_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    fn address(&mut self) -> Option<IpAddr> {
        let v6 = Ipv6Addr::from(self.take::<16>()?);
        Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
    }

    fn grant(&mut self) -> Option<Grant> {
        let (_since, _fresh) = (self.u64()?, self.u64()?);
        for _ in 0..9 {
            // Times and edges of what is waited for.
            self.u32()?;
        }
        let edge = self.u32()?;
        for _ in 0..5 {
            // Earlier edge, data, acknowledgement, segment at both layers.
            self.u32()?;
        }
        let window = self.u32()?;
        let rate = |bytes: u32| Rate::from_bps(u64::from(bytes) * 8);
        let (share, reached) = (rate(self.u32()?), rate(self.u32()?));
        for _ in 0..8 {
            // Bytes, allowance, round trips, what was paid and until when.
            self.u32()?;
        }
        let _promise = self.u16()?;
        let (_host, flags) = (self.u8()?, self.u8()?);
        let _settled = self.u32()?;
        for _ in 0..8 {
            // What acknowledgements take, how often was looked, where they begin to count, where
            // the latest window began, earlier shares.
            self.u32()?;
        }
        Some(Grant {
            window: (window > 0).then_some(window),
            share,
            reached,
            bound: flags & 4 != 0,
            edge,
        })
    }

    fn way(&mut self) -> Option<Way> {
        let us = |n: u32| (n > 0).then(|| Duration::from_micros(n.into()));
        let (bytes, packets, last) = (self.u64()?, self.u64()?, self.u64()?);
        let (_window, _stamped) = (self.u64()?, self.u64()?);
        for _ in 0..4 {
            // The window's bytes and packets, both time stamps.
            self.u32()?;
        }
        let (rtt, rtt_min, rtt_count) = (self.u32()?, self.u32()?, self.u32()?);
        let (heavy, bucket, scale, _) = (self.u8()?, self.u8()?, self.u8()?, self.u8()?);
        Some(Way {
            bytes,
            packets,
            last: Duration::from_nanos(last),
            rtt: us(rtt),
            rtt_min: us(rtt_min),
            rtt_count,
            heavy: heavy > 0,
            bucket,
            scale: scale.checked_sub(1),
        })
    }
}

/// Writes fields one after the other; what is left stays zero.
pub(crate) struct Writer<const N: usize> {
    pub(crate) bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    pub(crate) fn new() -> Self {
        Writer {
            bytes: [0; N],
            at: 0,
        }
    }

    fn raw(&mut self, from: &[u8]) {
        if let Some(to) = self.bytes.get_mut(self.at..self.at + from.len()) {
            to.copy_from_slice(from);
        }
        self.at += from.len();
    }

    fn u8(&mut self, n: u8) {
        self.raw(&n.to_ne_bytes());
    }

    fn u16(&mut self, n: u16) {
        self.raw(&n.to_ne_bytes());
    }

    pub(crate) fn u32(&mut self, n: u32) {
        self.raw(&n.to_ne_bytes());
    }

    pub(crate) fn u64(&mut self, n: u64) {
        self.raw(&n.to_ne_bytes());
    }
}
