//! What the kernel reports: disciplines, classes and filters.
//!
//! Principle: what cannot be said in `core`'s types is kept as bytes, with its kind, so that it
//! can be shown, compared and recognised as somebody else's.

use evenkeel_core::tc::{FilterKind, Handle, HtbClass, Protocol, Qdisc, Stab};

use super::rtm::{self, TCA_CHAIN, TCA_KIND, TCA_OPTIONS, TCA_STAB, TCA_STATS2};
use super::stats::Stats;
use super::{cake, filter, htb, leaf, stab};
use crate::attr::{find, text, u32_at};
use crate::message::{HEADER, Message, messages};

/// Length of `struct tcmsg`.
const TCM: usize = 20;

/// A discipline's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QdiscBody {
    /// One that we can say.
    Known(Qdisc),
    /// `TCA_OPTIONS` of one that we cannot.
    Raw(Vec<u8>),
}

/// A class's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassBody {
    /// HTB's.
    Htb(HtbClass),
    /// `TCA_OPTIONS` of another kind (fq_codel and CAKE report their flows as classes).
    Raw(Vec<u8>),
}

/// A filter's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterBody {
    /// One that we can say.
    Known(FilterKind),
    /// `TCA_OPTIONS` of one that we cannot.
    Raw(Vec<u8>),
}

/// A discipline as reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QdiscInfo {
    /// On which device.
    pub ifindex: u32,
    /// Its handle; `0:` is the kernel's own default.
    pub handle: Handle,
    /// Where it hangs.
    pub parent: Handle,
    /// `TCA_KIND`.
    pub kind: String,
    /// Options.
    pub body: QdiscBody,
    /// The head of its size table; the kernel does not report the data.
    pub stab: Option<Stab>,
    /// Counters.
    pub stats: Stats,
}

/// A class as reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassInfo {
    /// On which device.
    pub ifindex: u32,
    /// Its name.
    pub classid: Handle,
    /// Where it hangs; [`Handle::ROOT`] for a topmost class.
    pub parent: Handle,
    /// The discipline below it, [`Handle::NONE`] if it has classes.
    pub leaf: Handle,
    /// `TCA_KIND`.
    pub kind: String,
    /// Options.
    pub body: ClassBody,
    /// Counters.
    pub stats: Stats,
}

/// A filter as reported. u32 also reports its hash tables, and each preference is reported once
/// without options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterInfo {
    /// On which device.
    pub ifindex: u32,
    /// Where it hangs.
    pub parent: Handle,
    /// Lower is asked first.
    pub pref: u16,
    /// Packets it is asked about.
    pub protocol: Protocol,
    /// The filter itself; 0 for the entry that stands for its whole preference.
    pub handle: u32,
    /// Chain; evenkeel uses 0 only.
    pub chain: u32,
    /// `TCA_KIND`.
    pub kind: String,
    /// Options.
    pub body: FilterBody,
}

/// What is common: the head's four fields, the kind and the options.
struct Parts<'a> {
    ifindex: u32,
    handle: u32,
    parent: Handle,
    info: u32,
    kind: String,
    options: &'a [u8],
    attrs: &'a [u8],
}

impl<'a> Parts<'a> {
    fn new(message: &Message<'a>, kind: u16) -> Option<Self> {
        if message.kind != kind {
            return None;
        }
        let tcm = message.bytes.get(HEADER..HEADER + TCM)?;
        let attrs = message.bytes.get(HEADER + TCM..)?;
        Some(Parts {
            ifindex: u32_at(tcm, 4)?,
            handle: u32_at(tcm, 8)?,
            parent: Handle(u32_at(tcm, 12)?),
            info: u32_at(tcm, 16)?,
            kind: text(find(attrs, TCA_KIND)?),
            options: find(attrs, TCA_OPTIONS).unwrap_or_default(),
            attrs,
        })
    }

    fn stats(&self) -> Stats {
        find(self.attrs, TCA_STATS2)
            .map(|v| Stats::decode(&self.kind, v))
            .unwrap_or_default()
    }
}

impl QdiscInfo {
    /// From an `RTM_NEWQDISC`; `None` if it is another message or too short.
    pub fn decode(message: &Message<'_>) -> Option<Self> {
        let parts = Parts::new(message, rtm::NEW_QDISC)?;
        let body = qdisc(&parts.kind, parts.options);
        Some(QdiscInfo {
            ifindex: parts.ifindex,
            handle: Handle(parts.handle),
            parent: parts.parent,
            body: body.map_or_else(|| QdiscBody::Raw(parts.options.to_vec()), QdiscBody::Known),
            stab: find(parts.attrs, TCA_STAB).and_then(stab::decode),
            stats: parts.stats(),
            kind: parts.kind,
        })
    }

    /// All in one datagram or message.
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        messages(bytes).filter_map(|m| Self::decode(&m))
    }
}

fn qdisc(kind: &str, options: &[u8]) -> Option<Qdisc> {
    Some(match kind {
        "cake" => Qdisc::Cake(cake::decode(options)),
        "htb" => Qdisc::Htb(htb::decode_root(options)?),
        "fq_codel" => Qdisc::FqCodel(leaf::decode_fq_codel(options)),
        "sfq" => Qdisc::Sfq(leaf::decode_sfq(options)),
        "tbf" => Qdisc::Tbf(leaf::decode_tbf(options)?),
        "bfifo" => Qdisc::Bfifo {
            limit: leaf::decode_fifo(options),
        },
        "pfifo" => Qdisc::Pfifo {
            limit: leaf::decode_fifo(options),
        },
        "ingress" => Qdisc::Ingress,
        "clsact" => Qdisc::Clsact,
        _ => return None,
    })
}

impl ClassInfo {
    /// From an `RTM_NEWTCLASS`; `None` if it is another message or too short.
    pub fn decode(message: &Message<'_>) -> Option<Self> {
        let parts = Parts::new(message, rtm::NEW_CLASS)?;
        let class = (parts.kind == "htb")
            .then(|| htb::decode_class(parts.options))
            .flatten();
        Some(ClassInfo {
            ifindex: parts.ifindex,
            classid: Handle(parts.handle),
            parent: parts.parent,
            leaf: Handle(parts.info),
            body: class.map_or_else(|| ClassBody::Raw(parts.options.to_vec()), ClassBody::Htb),
            stats: parts.stats(),
            kind: parts.kind,
        })
    }

    /// All in one datagram or message.
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        messages(bytes).filter_map(|m| Self::decode(&m))
    }
}

impl FilterInfo {
    /// From an `RTM_NEWTFILTER`; `None` if it is another message or too short.
    pub fn decode(message: &Message<'_>) -> Option<Self> {
        let parts = Parts::new(message, rtm::NEW_FILTER)?;
        let body = filter::decode(&parts.kind, parts.options);
        Some(FilterInfo {
            ifindex: parts.ifindex,
            parent: parts.parent,
            pref: (parts.info >> 16) as u16,
            protocol: Protocol::from_ethertype(u16::from_be(parts.info as u16)),
            handle: parts.handle,
            chain: find(parts.attrs, TCA_CHAIN)
                .and_then(|v| u32_at(v, 0))
                .unwrap_or(0),
            body: body.map_or_else(
                || FilterBody::Raw(parts.options.to_vec()),
                FilterBody::Known,
            ),
            kind: parts.kind,
        })
    }

    /// All in one datagram or message.
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        messages(bytes).filter_map(|m| Self::decode(&m))
    }
}
