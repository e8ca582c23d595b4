//! Links: IFBs, their settings, and what is known of a device (`RTM_*LINK`, if_link.h).
//!
//! Principle: only what a shaper asks. Written by hand rather than with netlink-packet-route,
//! whose link message decodes (and may refuse) a hundred attributes that nobody here reads.
//! Non-goals: addresses, bridges.

use evenkeel_core::tc::LinkSettings;

use crate::attr::{Writer, attrs, find, text, u16_at, u32_at, u64_at};
use crate::error::EncodeError;
use crate::message::{ACK, CREATE, DUMP, EXCL, HEADER, Message, REQUEST, finish, messages, start};

const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_STATS: u16 = 92;
const GET_STATS: u16 = 94;
/// `IFLA_STATS_LINK_64`, as an attribute; as a filter it is the first bit.
const STATS_LINK_64: u16 = 1;
/// Length of `struct if_stats_msg`: family, pad, index, filter.
const IF_STATS: usize = 12;

// IFLA_* (include/uapi/linux/if_link.h).
const IFNAME: u16 = 3;
const MTU: u16 = 4;
const LINK: u16 = 5;
const QDISC: u16 = 6;
const MASTER: u16 = 10;
const TXQLEN: u16 = 13;
const LINKINFO: u16 = 18;
const STATS64: u16 = 23;
const GSO_MAX_SEGS: u16 = 40;
const GSO_MAX_SIZE: u16 = 41;
const GRO_MAX_SIZE: u16 = 58;
const GRO_IPV4_MAX_SIZE: u16 = 64;
const NUM_TX_QUEUES: u16 = 31;
/// IFLA_INFO_KIND
const INFO_KIND: u16 = 1;

/// Length of `struct ifinfomsg`: family, pad, type, index, flags, change.
const IFINFO: usize = 16;
/// IFF_UP
const UP: u32 = 1;
/// IFNAMSIZ with its terminating zero.
const NAME: usize = 16;

/// `ARPHRD_*` (include/uapi/linux/if_arp.h): what stands before the IP packet in an skb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hardware {
    /// An Ethernet header of 14 bytes.
    Ethernet,
    /// Looks like Ethernet, goes nowhere.
    Loopback,
    /// No header: TUN, ppp, tunnels.
    Bare(u16),
    /// Another; nothing is known of its header.
    Other(u16),
}

impl Hardware {
    fn from_arphrd(v: u16) -> Self {
        match v {
            1 => Hardware::Ethernet,
            772 => Hardware::Loopback,
            // ARPHRD_PPP, TUNNEL, TUNNEL6, SIT, IPGRE, IP6GRE, RAWIP, NONE.
            512 | 768 | 769 | 776 | 778 | 823 | 519 | 65534 => Hardware::Bare(v),
            v => Hardware::Other(v),
        }
    }

    /// Bytes of link header that an skb has before the IP packet.
    pub fn header_len(self) -> Option<u16> {
        match self {
            Hardware::Ethernet | Hardware::Loopback => Some(14),
            Hardware::Bare(_) => Some(0),
            Hardware::Other(_) => None,
        }
    }
}

/// A device as reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkInfo {
    /// Number.
    pub index: u32,
    /// Name.
    pub name: String,
    /// What is before the IP packet.
    pub hardware: Hardware,
    /// `IFF_*`.
    pub flags: u32,
    /// Bytes of IP packet.
    pub mtu: u32,
    /// Packets.
    pub txqlen: u32,
    /// The device that it stands on (VLAN, macvlan, a veth's peer), 0 if none.
    pub lower: u32,
    /// The device that it belongs to (bridge, bond, VRF), 0 if none.
    pub master: u32,
    /// Root discipline's kind.
    pub qdisc: String,
    /// `ifb`, `veth`, `tun`, ...; empty for hardware.
    pub kind: String,
    /// Transmit queues.
    pub tx_queues: u32,
    /// As in [`LinkSettings`]; `None` where the kernel has no such setting.
    pub gso_max_size: Option<u32>,
    /// As in [`LinkSettings`].
    pub gso_max_segs: Option<u32>,
    /// As in [`LinkSettings`].
    pub gro_max_size: Option<u32>,
    /// As in [`LinkSettings`].
    pub gro_ipv4_max_size: Option<u32>,
    /// Bytes received, link header included (`rtnl_link_stats64`).
    pub rx_bytes: u64,
    /// Bytes sent, link header included.
    pub tx_bytes: u64,
}

impl LinkInfo {
    /// Administratively up.
    pub fn is_up(&self) -> bool {
        self.flags & UP != 0
    }

    /// From an `RTM_NEWLINK`; `None` if it is another message or too short.
    pub fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != NEW_LINK {
            return None;
        }
        let head = message.bytes.get(HEADER..HEADER + IFINFO)?;
        let mut info = LinkInfo {
            index: u32_at(head, 4)?,
            name: String::new(),
            hardware: Hardware::from_arphrd(u16_at(head, 2)?),
            flags: u32_at(head, 8)?,
            mtu: 0,
            txqlen: 0,
            lower: 0,
            master: 0,
            qdisc: String::new(),
            kind: String::new(),
            tx_queues: 1,
            gso_max_size: None,
            gso_max_segs: None,
            gro_max_size: None,
            gro_ipv4_max_size: None,
            rx_bytes: 0,
            tx_bytes: 0,
        };
        for (attr, v) in attrs(message.bytes.get(HEADER + IFINFO..)?) {
            let number = u32_at(v, 0);
            match attr {
                IFNAME => info.name = text(v),
                MTU => info.mtu = number?,
                LINK => info.lower = number?,
                MASTER => info.master = number?,
                QDISC => info.qdisc = text(v),
                TXQLEN => info.txqlen = number?,
                LINKINFO => info.kind = find(v, INFO_KIND).map(text).unwrap_or_default(),
                NUM_TX_QUEUES => info.tx_queues = number?,
                GSO_MAX_SIZE => info.gso_max_size = number,
                GSO_MAX_SEGS => info.gso_max_segs = number,
                GRO_MAX_SIZE => info.gro_max_size = number,
                GRO_IPV4_MAX_SIZE => info.gro_ipv4_max_size = number,
                STATS64 => {
                    // rx_packets, tx_packets, rx_bytes, tx_bytes
                    info.rx_bytes = u64_at(v, 16).unwrap_or(0);
                    info.tx_bytes = u64_at(v, 24).unwrap_or(0);
                }
                _ => {}
            }
        }
        Some(info)
    }

    /// All in one datagram or message.
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        messages(bytes).filter_map(|m| Self::decode(&m))
    }
}

/// What passed a device so far (`rtnl_link_stats64`), link headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

impl Counters {
    /// Asks for those of one device.
    pub fn request(index: u32) -> Vec<u8> {
        let body = [0, index, 1].map(u32::to_ne_bytes).concat();
        finish(start(GET_STATS, REQUEST, &body))
    }

    /// From an `RTM_NEWSTATS`; `None` if it is another message or too short.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let message = messages(bytes).find(|m| m.kind == NEW_STATS)?;
        let v = find(message.bytes.get(HEADER + IF_STATS..)?, STATS_LINK_64)?;
        Some(Counters {
            rx_packets: u64_at(v, 0)?,
            tx_packets: u64_at(v, 8)?,
            rx_bytes: u64_at(v, 16)?,
            tx_bytes: u64_at(v, 24)?,
        })
    }
}

fn head(kind: u16, flags: u16, index: u32, set: u32, change: u32) -> Writer {
    let body = [0, index, set, change].map(u32::to_ne_bytes).concat();
    Writer::new(start(kind, flags, &body))
}

/// Asks for all links.
pub fn dump_links() -> Vec<u8> {
    finish(head(GET_LINK, REQUEST | DUMP, 0, 0, 0).finish())
}

pub(crate) fn add_ifb(name: &str) -> Result<Writer, EncodeError> {
    // `dev_valid_name` (net/core/dev.c).
    let bad = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
    if name.is_empty() || name.len() >= NAME || matches!(name, "." | "..") || name.contains(bad) {
        return Err(EncodeError::BadName(name.to_owned()));
    }
    let mut w = head(NEW_LINK, REQUEST | ACK | CREATE | EXCL, 0, 0, 0);
    w.text(IFNAME, name);
    w.nest(LINKINFO, |w| {
        // iproute2 leaves this text's zero out.
        w.bytes(INFO_KIND, b"ifb");
    });
    Ok(w)
}

pub(crate) fn del(index: u32) -> Writer {
    head(DEL_LINK, REQUEST | ACK, index, 0, 0)
}

pub(crate) fn set(index: u32, settings: &LinkSettings) -> Writer {
    let (flags, change) = match settings.up {
        Some(true) => (UP, UP),
        Some(false) => (0, UP),
        None => (0, 0),
    };
    let mut w = head(NEW_LINK, REQUEST | ACK, index, flags, change);
    w.u32_if(TXQLEN, settings.txqlen);
    w.u32_if(GSO_MAX_SIZE, settings.gso_max_size);
    w.u32_if(GSO_MAX_SEGS, settings.gso_max_segs);
    w.u32_if(GRO_MAX_SIZE, settings.gro_max_size);
    w.u32_if(GRO_IPV4_MAX_SIZE, settings.gro_ipv4_max_size);
    w
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::tc::Op;

    /// An `RTM_NEWLINK` with these attributes after `struct ifinfomsg`.
    fn new_link(hardware: u16, flags: u32, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut body = vec![0, 0];
        body.extend(hardware.to_ne_bytes());
        for field in [7, flags, 0u32] {
            body.extend(field.to_ne_bytes());
        }
        let mut w = Writer::new(start(NEW_LINK, 0, &body));
        fill(&mut w);
        finish(w.finish())
    }

    fn decode(bytes: &[u8]) -> Option<LinkInfo> {
        LinkInfo::all(bytes).next()
    }

    #[test]
    fn everything_a_kernel_reports_is_read() {
        let bytes = new_link(1, 0x1043, |w| {
            w.text(3, "ek-ifb7").u32(4, 1500).u32(5, 3).u32(10, 4);
            w.text(6, "cake").u32(13, 32).u32(31, 2);
            w.nest(18, |w| {
                w.text(1, "ifb");
            });
            let counters: Vec<u8> = (1..=24u64).flat_map(u64::to_ne_bytes).collect();
            w.bytes(23, &counters);
            w.u32(40, 65_535).u32(41, 65_536).u32(58, 65_537);
            w.u32(64, 65_538).u32(63, 99);
        });
        let info = decode(&bytes).unwrap();
        assert_eq!(
            info,
            LinkInfo {
                index: 7,
                name: "ek-ifb7".into(),
                hardware: Hardware::Ethernet,
                flags: 0x1043,
                mtu: 1500,
                txqlen: 32,
                lower: 3,
                master: 4,
                qdisc: "cake".into(),
                kind: "ifb".into(),
                tx_queues: 2,
                gso_max_size: Some(65_536),
                gso_max_segs: Some(65_535),
                gro_max_size: Some(65_537),
                gro_ipv4_max_size: Some(65_538),
                rx_bytes: 3,
                tx_bytes: 4,
            }
        );
    }

    /// An old kernel says less; a message that ends within its head says nothing.
    #[test]
    fn what_is_not_reported_is_not_made_up() {
        let bytes = new_link(65_534, 0, |_| {});
        let info = decode(&bytes).unwrap();
        assert_eq!((info.index, info.tx_queues, info.lower), (7, 1, 0));
        assert_eq!((info.gso_max_size, info.gro_ipv4_max_size), (None, None));
        assert_eq!((info.name.as_str(), info.kind.as_str()), ("", ""));
        let short = finish(bytes[..bytes.len() - 1].to_vec());
        assert_eq!(decode(&short), None);
        let mut deleted = bytes;
        deleted[4..6].copy_from_slice(&DEL_LINK.to_ne_bytes());
        assert_eq!(decode(&deleted), None, "only RTM_NEWLINK");
    }

    #[test]
    fn only_iff_up_is_up() {
        for (flags, up) in [(0, false), (1, true), (0x1043, true), (0x1042, false)] {
            let info = decode(&new_link(1, flags, |_| {})).unwrap();
            assert_eq!(info.is_up(), up, "{flags:#x}");
        }
    }

    #[test]
    fn bytes_before_the_ip_packet_follow_from_the_hardware() {
        for (arphrd, header) in [(1, Some(14)), (772, Some(14)), (801, None)] {
            let info = decode(&new_link(arphrd, 0, |_| {})).unwrap();
            assert_eq!(info.hardware.header_len(), header, "{arphrd}");
        }
        // PPP, tunnels, raw IP and TUN.
        for arphrd in [512, 768, 769, 776, 778, 823, 519, 65_534] {
            let info = decode(&new_link(arphrd, 0, |_| {})).unwrap();
            assert_eq!(info.hardware, Hardware::Bare(arphrd));
            assert_eq!(info.hardware.header_len(), Some(0), "{arphrd}");
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn literal_requests() {
        // RTM_GETSTATS of device 7, the 64-bit counters only.
        let mut bytes = vec![28, 0, 0, 0, 94, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(Counters::request(7), bytes);
        // RTM_GETLINK of all: NLM_F_REQUEST and NLM_F_DUMP.
        let mut bytes = vec![32, 0, 0, 0, 18, 0, 1, 3];
        bytes.resize(32, 0);
        assert_eq!(dump_links(), bytes);
    }

    #[test]
    fn counters_of_one_device() {
        let answer = |kind| {
            let mut w = Writer::new(start(kind, 0, &[0; IF_STATS]));
            let counters: Vec<u8> = (1..=24u64).flat_map(u64::to_ne_bytes).collect();
            w.bytes(1, &counters);
            finish(w.finish())
        };
        let counted = Counters {
            rx_packets: 1,
            tx_packets: 2,
            rx_bytes: 3,
            tx_bytes: 4,
        };
        assert_eq!(Counters::decode(&answer(92)), Some(counted));
        assert_eq!(Counters::decode(&answer(16)), None);
        // After another message, as a socket may have it.
        let both = [answer(16), answer(92)].concat();
        assert_eq!(Counters::decode(&both), Some(counted));
    }

    /// `dev_valid_name`: what the kernel would refuse is refused with the name.
    #[test]
    fn names_that_no_device_can_have() {
        let add = |name: &str| {
            let name = name.to_owned();
            crate::encode(&Op::LinkAddIfb { name }, &|_| None)
        };
        for name in ["ek-ifb7", "...", "fifteen-letters", "a"] {
            assert!(add(name).is_ok(), "{name:?}");
        }
        let wrong = [
            "",
            ".",
            "..",
            "a/b",
            "a:b",
            "a b",
            "a\tb",
            "a\0b",
            "sixteen-letters-",
        ];
        for name in wrong {
            assert_eq!(add(name), Err(EncodeError::BadName(name.into())));
        }
    }
}
