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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Writer;
    use crate::message::{finish, start};

    /// A message of this type: its head 7, 8:9, a:b and 0xc000_0d0e, and these attributes.
    fn message(kind: u16, name: &str, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let head = [0, 7, 0x8_0009, 0xa_000b, 0xc000_0d0e_u32];
        let mut w = Writer::new(start(kind, 0, &head.map(u32::to_ne_bytes).concat()));
        w.text(TCA_KIND, name);
        fill(&mut w);
        finish(w.finish())
    }

    fn stats2(w: &mut Writer) {
        w.nest(TCA_STATS2, |w| {
            w.u64(8, 5); // TCA_STATS_PKT64
        });
    }

    #[test]
    fn counters_and_options_go_with_their_owner() {
        let bytes = message(rtm::NEW_QDISC, "pfifo", |w| {
            w.u32(TCA_OPTIONS, 64);
            stats2(w);
        });
        let qdisc = QdiscInfo::all(&bytes).next().unwrap();
        assert_eq!((qdisc.ifindex, qdisc.handle), (7, Handle::class(8, 9)));
        assert_eq!(qdisc.parent, Handle::class(0xa, 0xb));
        let fifo = Qdisc::Pfifo { limit: Some(64) };
        assert_eq!(qdisc.body, QdiscBody::Known(fifo));
        assert_eq!((qdisc.stats.packets, qdisc.stab), (5, None));

        let bytes = message(rtm::NEW_CLASS, "cake", stats2);
        let class = ClassInfo::all(&bytes).next().unwrap();
        assert_eq!((class.ifindex, class.classid), (7, Handle::class(8, 9)));
        assert_eq!(class.leaf, Handle(0xc000_0d0e));
        assert_eq!((class.kind.as_str(), class.stats.packets), ("cake", 5));
        assert_eq!(class.body, ClassBody::Raw(Vec::new()));
    }

    #[test]
    fn filters_have_preference_protocol_and_chain() {
        let bytes = message(rtm::NEW_FILTER, "flower", |w| {
            w.u32(TCA_CHAIN, 3);
        });
        let filter = FilterInfo::all(&bytes).next().unwrap();
        assert_eq!((filter.pref, filter.chain), (0xc000, 3));
        let protocol = u16::from_be(0x0d0e);
        assert_eq!(filter.protocol, Protocol::from_ethertype(protocol));
        assert_eq!((filter.handle, filter.ifindex), (0x8_0009, 7));
        let bytes = message(rtm::NEW_FILTER, "flower", |_| {});
        assert_eq!(FilterInfo::all(&bytes).next().unwrap().chain, 0);
    }

    #[test]
    fn other_messages_are_passed_over() {
        let other = message(rtm::DEL_QDISC, "cake", |_| {});
        let ours = message(rtm::NEW_QDISC, "cake", |_| {});
        let both = [other.clone(), ours].concat();
        assert_eq!(QdiscInfo::all(&both).count(), 1);
        assert_eq!(ClassInfo::all(&both).count(), 0);
        assert_eq!(FilterInfo::all(&both).count(), 0);
        assert_eq!(QdiscInfo::all(&other).count(), 0);
    }
}
