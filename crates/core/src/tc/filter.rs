//! Filters (u32, matchall, bpf) and actions.
//!
//! Principle: offsets, values and masks are kept as a person would write them in tc, in host
//! order; the codec turns them. Non-goal: tc's shorthand selectors (`match ip dport`): each is a
//! value, a mask and an offset, and that is how they are kept and printed.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::dev::Dev;
use super::{Handle, LinkLayer};
use crate::Rate;

/// What a filter looks at (`tcm_info`'s lower half).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Everything (`ETH_P_ALL`).
    All,
    /// IPv4.
    Ip,
    /// IPv6.
    Ipv6,
    /// Another EtherType.
    Other(u16),
}

/// Where a filter hangs and which it is, without what it does: enough to delete it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterKey {
    /// A discipline's handle, a class, or one of clsact's hooks.
    pub parent: Handle,
    /// Lower is asked first. 0 on deletion: all of the parent's filters.
    pub pref: u16,
    /// On deletion, `None` is any protocol of that preference.
    pub protocol: Option<Protocol>,
    /// The filter itself; 0: the kernel picks, or all of the preference on deletion. For u32
    /// see [`U32Handle`].
    pub handle: u32,
}

/// A filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// A discipline's handle, a class, or one of clsact's hooks.
    pub parent: Handle,
    /// Lower is asked first.
    pub pref: u16,
    /// Packets it is asked about.
    pub protocol: Protocol,
    /// 0: the kernel picks. For u32 see [`U32Handle`].
    pub handle: u32,
    /// What it does.
    pub kind: FilterKind,
}

/// The kinds of filters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterKind {
    /// cls_u32: masks and values, hash tables.
    U32(U32),
    /// cls_matchall: every packet.
    Matchall(Matchall),
    /// cls_bpf: an eBPF program.
    Bpf(Bpf),
}

/// The three-part name of things in cls_u32: table (12 bits), bucket (8), node (12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct U32Handle(pub u32);

/// A filter of cls_u32, or one of its hash tables if `divisor` is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct U32 {
    /// Makes a hash table of so many buckets (power of two, at most 256) instead of a rule.
    pub divisor: Option<u32>,
    /// The table and bucket that the rule goes into; the kernel's default is the root table.
    pub ht: Option<U32Handle>,
    /// All must match; none at all matches everything.
    pub keys: Vec<U32Key>,
    /// Matches the packet's mark.
    pub mark: Option<Mark>,
    /// The table that is searched next.
    pub link: Option<U32Handle>,
    /// Which bits choose the bucket in `link`'s table.
    pub hashkey: Option<HashKey>,
    /// Where the next header starts, for rules in `link`'s table.
    pub offset: Option<Offset>,
    /// The class of what matches; ends the search.
    pub classid: Option<Handle>,
    /// What is done with what matches.
    pub actions: Vec<Action>,
}

/// `match u32 VAL MASK at OFF`: 32 bits at a multiple of four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct U32Key {
    /// Value after masking.
    pub val: u32,
    /// Bits that count.
    pub mask: u32,
    /// Bytes from the network header, or from the next header.
    pub off: i32,
    /// `off` counts from the next header (`at nexthdr+OFF`), which `offset` found.
    pub nexthdr: bool,
}

/// `match mark VAL MASK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mark {
    /// Value after masking.
    pub val: u32,
    /// Bits that count.
    pub mask: u32,
}

/// `hashkey mask MASK at AT`: the masked bits, moved down to the mask's lowest bit, choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HashKey {
    /// Bits that choose; at most eight neighbours.
    pub mask: u32,
    /// Bytes from the current header, a multiple of four.
    pub at: i16,
}

/// `offset ...`: how far the next header is from the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Offset {
    /// `plus N`: fixed bytes (`TC_U32_OFFSET`).
    pub plus: Option<u16>,
    /// `at A mask M shift S`: 16 bits of the packet, masked, shifted right.
    pub var: Option<VarOffset>,
    /// Later offsets count from the new header (`TC_U32_EAT`).
    pub eat: bool,
}

/// The variable part of an [`Offset`] (`TC_U32_VAROFFSET`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VarOffset {
    /// Bytes from the current header, even.
    pub at: i16,
    /// Bits of the 16-bit word that count.
    pub mask: u16,
    /// Bits to shift right.
    pub shift: u8,
}

impl Offset {
    /// Skips an IPv4 header by its own length: `offset at 0 mask 0f00 shift 6`.
    pub const IPV4_HEADER: Offset = Offset {
        plus: None,
        var: Some(VarOffset {
            at: 0,
            mask: 0x0f00,
            shift: 6,
        }),
        eat: false,
    };

    /// Skips `n` bytes: `offset plus n`.
    pub const fn fixed(n: u16) -> Self {
        Offset {
            plus: Some(n),
            var: None,
            eat: false,
        }
    }
}

/// A filter for every packet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matchall {
    /// The class.
    pub classid: Option<Handle>,
    /// What is done.
    pub actions: Vec<Action>,
}

/// An eBPF program as a filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bpf {
    /// Descriptor of the loaded program, in the process that sends the request. A dump has
    /// none: -1.
    pub fd: i32,
    /// The program's number in the kernel, which only a dump has.
    pub id: Option<u32>,
    /// For reports.
    pub name: String,
    /// The class, where the program only says yes or no.
    pub classid: Option<Handle>,
    /// The program's return value is the verdict.
    pub direct_action: bool,
}

/// What is done with a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// act_mirred: goes on as if that device were to send it.
    Redirect {
        /// For instance an IFB.
        dev: Dev,
    },
    /// act_gact: a verdict.
    Gact(Verdict),
    /// act_skbedit: sets `skb->priority`, then asks the next action.
    Skbedit {
        /// A class's handle, as disciplines read it.
        priority: Handle,
    },
    /// act_police: a token bucket.
    Police {
        /// Rate.
        rate: Rate,
        /// Bytes.
        burst: u32,
        /// Longest packet that is not dropped out of hand; the kernel's default of 2040 bytes
        /// drops super-packets.
        mtu: Option<u32>,
        /// How a packet is charged: its own bytes, or whole cells.
        layer: LinkLayer,
        /// Verdict for what exceeds.
        exceed: Verdict,
        /// Verdict for what conforms.
        conform: Verdict,
    },
}

/// `TC_ACT_*` (pkt_cls.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Let it go on, no more filters.
    Ok,
    /// Drop it.
    Drop,
    /// Ask the next action.
    Pipe,
    /// Ask the next filter.
    Continue,
    /// Classify again from the start.
    Reclassify,
}

impl Protocol {
    /// The EtherType.
    pub const fn ethertype(self) -> u16 {
        match self {
            Protocol::All => 3,
            Protocol::Ip => 0x0800,
            Protocol::Ipv6 => 0x86DD,
            Protocol::Other(v) => v,
        }
    }

    /// From an EtherType.
    pub const fn from_ethertype(v: u16) -> Self {
        match v {
            3 => Protocol::All,
            0x0800 => Protocol::Ip,
            0x86DD => Protocol::Ipv6,
            v => Protocol::Other(v),
        }
    }
}

impl U32Handle {
    /// A hash table: `T:`.
    pub const fn table(table: u16) -> Self {
        U32Handle((table as u32 & 0xfff) << 20)
    }

    /// A bucket of a table: `T:B:`.
    pub const fn bucket(table: u16, bucket: u8) -> Self {
        U32Handle((table as u32 & 0xfff) << 20 | (bucket as u32) << 12)
    }

    /// A rule: `T:B:N`.
    pub const fn node(table: u16, bucket: u8, node: u16) -> Self {
        U32Handle(Self::bucket(table, bucket).0 | node as u32 & 0xfff)
    }
}

impl FilterKind {
    /// The kernel's name of the kind (`TCA_KIND`).
    pub const fn kind(&self) -> &'static str {
        match self {
            FilterKind::U32(_) => "u32",
            FilterKind::Matchall(_) => "matchall",
            FilterKind::Bpf(_) => "bpf",
        }
    }
}

impl Filter {
    /// The filter's place, to delete it.
    pub fn key(&self) -> FilterKey {
        FilterKey {
            parent: self.parent,
            pref: self.pref,
            protocol: Some(self.protocol),
            handle: self.handle,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Protocol::All => f.pad("all"),
            Protocol::Ip => f.pad("ip"),
            Protocol::Ipv6 => f.pad("ipv6"),
            Protocol::Other(v) => f.pad(&format!("{v:#x}")),
        }
    }
}

impl fmt::Display for U32Handle {
    /// As tc: `1:`, `1:5:`, `1:5:3` in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, bucket, node) = (self.0 >> 20, self.0 >> 12 & 0xff, self.0 & 0xfff);
        match (bucket, node) {
            (0, 0) => write!(f, "{table:x}:"),
            (_, 0) => write!(f, "{table:x}:{bucket:x}:"),
            _ => write!(f, "{table:x}:{bucket:x}:{node:x}"),
        }
    }
}

impl fmt::Display for FilterKey {
    /// `parent 1: protocol ip pref 10`, without the handle, whose form depends on the kind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            Handle::ROOT => f.write_str("root")?,
            parent => write!(f, "parent {parent}")?,
        }
        if let Some(protocol) = self.protocol {
            write!(f, " protocol {protocol}")?;
        }
        match self.pref {
            0 => Ok(()),
            pref => write!(f, " pref {pref}"),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key().fmt(f)?;
        match (&self.kind, self.handle) {
            (_, 0) => {}
            (FilterKind::U32(_), h) => write!(f, " handle {}", U32Handle(h))?,
            (_, h) => write!(f, " handle {h:#x}")?,
        }
        write!(f, " {}", self.kind)
    }
}

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            FilterKind::U32(v) => v.fmt(f),
            FilterKind::Matchall(v) => {
                classid(f, v.classid)?;
                actions(f, &v.actions)
            }
            FilterKind::Bpf(v) => v.fmt(f),
        }
    }
}

fn classid(f: &mut fmt::Formatter<'_>, classid: Option<Handle>) -> fmt::Result {
    match classid {
        Some(classid) => write!(f, " classid {classid}"),
        None => Ok(()),
    }
}

fn actions(f: &mut fmt::Formatter<'_>, actions: &[Action]) -> fmt::Result {
    actions.iter().try_for_each(|a| write!(f, " action {a}"))
}

impl fmt::Display for U32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(divisor) = self.divisor {
            write!(f, " divisor {divisor}")?;
        }
        if let Some(ht) = self.ht {
            // tc wants the bucket here even if it is 0.
            write!(f, " ht {:x}:{:x}:", ht.0 >> 20, ht.0 >> 12 & 0xff)?;
        }
        for key in &self.keys {
            let next = if key.nexthdr { "nexthdr+" } else { "" };
            write!(
                f,
                " match u32 {:#x} {:#x} at {next}{}",
                key.val, key.mask, key.off
            )?;
        }
        // tc takes no rule without a match; this one always does.
        if self.divisor.is_none() && self.keys.is_empty() && self.mark.is_none() {
            f.write_str(" match u32 0 0 at 0")?;
        }
        if let Some(mark) = self.mark {
            write!(f, " match mark {:#x} {:#x}", mark.val, mark.mask)?;
        }
        if let Some(link) = self.link {
            write!(f, " link {link}")?;
        }
        if let Some(offset) = self.offset {
            f.write_str(" offset")?;
            if let Some(plus) = offset.plus {
                write!(f, " plus {plus}")?;
            }
            if let Some(var) = offset.var {
                write!(
                    f,
                    " at {} mask {:04x} shift {}",
                    var.at, var.mask, var.shift
                )?;
            }
            f.write_str(if offset.eat { " eat" } else { "" })?;
        }
        if let Some(key) = self.hashkey {
            write!(f, " hashkey mask {:#x} at {}", key.mask, key.at)?;
        }
        classid(f, self.classid)?;
        actions(f, &self.actions)
    }
}

impl fmt::Display for Bpf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.direct_action {
            f.write_str(" direct-action")?;
        }
        write!(f, " object-pinned {:?}", self.name)?;
        classid(f, self.classid)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Redirect { dev } => write!(f, "mirred egress redirect dev {dev}"),
            Action::Gact(verdict) => verdict.fmt(f),
            Action::Skbedit { priority } => write!(f, "skbedit priority {priority}"),
            Action::Police {
                rate,
                burst,
                mtu,
                layer,
                exceed,
                conform,
            } => {
                write!(f, "police rate {rate} burst {burst}")?;
                if let Some(mtu) = mtu {
                    write!(f, " mtu {mtu}")?;
                }
                if *layer == LinkLayer::Atm {
                    f.write_str(" linklayer atm")?;
                }
                write!(f, " conform-exceed {exceed}/{conform}")
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Ok => "ok",
            Verdict::Drop => "drop",
            Verdict::Pipe => "pipe",
            Verdict::Continue => "continue",
            Verdict::Reclassify => "reclassify",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_u32_are_as_tc_prints_them() {
        for (handle, raw, text) in [
            (U32Handle::table(0x800), 0x8000_0000, "800:"),
            (U32Handle::bucket(1, 5), 0x0010_5000, "1:5:"),
            (U32Handle::node(1, 5, 3), 0x0010_5003, "1:5:3"),
            (U32Handle::node(1, 0, 3), 0x0010_0003, "1:0:3"),
            (U32Handle::node(1, 0xff, 0xfff), 0x001f_ffff, "1:ff:fff"),
        ] {
            assert_eq!((handle.0, handle.to_string().as_str()), (raw, text));
        }
    }
}
