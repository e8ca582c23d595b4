//! Connections as the kernel tracks them: who began one, and how it is seen on the outside.
//!
//! Formats of linux/netfilter/nfnetlink_conntrack.h, big-endian. Non-goals: states, helpers, zones, changing anything.

use std::net::IpAddr;

use crate::attr::{attrs, find};
use crate::message::{DUMP, HEADER, Message, REQUEST};

/// `NFNL_SUBSYS_CTNETLINK` (1), and behind it `IPCTNL_MSG_CT_NEW` (0), `IPCTNL_MSG_CT_GET` (1).
const NEW: u16 = 0x0100;
const GET: u16 = 0x0101;
/// Bytes of `struct nfgenmsg`.
const NFGENMSG: usize = 4;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;

/// One direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuple {
    /// IP protocol.
    pub proto: u8,
    /// From here.
    pub source: IpAddr,
    /// To there.
    pub destination: IpAddr,
    /// Ports of both; 0 where the protocol has none.
    pub ports: [u16; 2],
}

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// As whoever began it sends.
    pub original: Tuple,
    /// As the answers come.
    pub reply: Tuple,
}

/// Asks for all connections of both families.
pub fn dump_connections() -> Vec<u8> {
    let mut bytes = vec![0; HEADER + NFGENMSG];
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&GET.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(REQUEST | DUMP).to_ne_bytes());
    bytes
}

impl Tuple {
    fn decode(bytes: &[u8]) -> Option<Self> {
        // `CTA_IP_V4_SRC`, `CTA_IP_V4_DST`, `CTA_IP_V6_SRC`, `CTA_IP_V6_DST` are 1 to 4.
        let mut ends = [None; 2];
        for (kind, value) in attrs(find(bytes, CTA_TUPLE_IP)?) {
            let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
            let v6 = <[u8; 16]>::try_from(value).map(IpAddr::from);
            if (1..=4).contains(&kind) {
                ends[usize::from(kind - 1) % 2] = v4.or(v6).ok();
            }
        }
        let proto = find(bytes, CTA_TUPLE_PROTO)?;
        let port = |kind| {
            let value = find(proto, kind).and_then(|v| v.first_chunk());
            value.map_or(0, |b| u16::from_be_bytes(*b))
        };
        Some(Tuple {
            proto: *find(proto, CTA_PROTO_NUM)?.first()?,
            source: ends[0]?,
            destination: ends[1]?,
            ports: [port(CTA_PROTO_SRC_PORT), port(CTA_PROTO_DST_PORT)],
        })
    }
}

impl Connection {
    /// From an `IPCTNL_MSG_CT_NEW`; `None` if it is another message.
    pub fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != NEW {
            return None;
        }
        let attributes = message.payload().get(NFGENMSG..)?;
        Some(Connection {
            original: Tuple::decode(find(attributes, CTA_TUPLE_ORIG)?)?,
            reply: Tuple::decode(find(attributes, CTA_TUPLE_REPLY)?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::messages;
    use proptest::prelude::*;

    fn attr(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut a = (value.len() as u16 + 4).to_ne_bytes().to_vec();
        a.extend(kind.to_ne_bytes());
        a.extend(value);
        a.resize(a.len().next_multiple_of(4), 0);
        a
    }

    fn tuple(kind: u16, from: [u8; 4], to: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
        let ip = [attr(1, &from), attr(2, &to)].concat();
        let [source, destination] = ports.map(u16::to_be_bytes);
        let proto = [attr(1, &[6]), attr(2, &source), attr(3, &destination)].concat();
        // Nested ones are marked.
        attr(
            0x8000 | kind,
            &[attr(0x8001, &ip), attr(0x8002, &proto)].concat(),
        )
    }

    /// A connection of 192.168.1.5 that is seen as of 203.0.113.1.
    fn answer() -> Vec<u8> {
        let (inside, outside, far) = ([192, 168, 1, 5], [203, 0, 113, 1], [198, 51, 100, 9]);
        let body = [
            vec![2, 0, 0, 0],
            tuple(1, inside, far, [5555, 443]),
            tuple(2, far, outside, [443, 61000]),
        ]
        .concat();
        let mut b = (16 + body.len() as u32).to_ne_bytes().to_vec();
        b.extend(NEW.to_ne_bytes());
        b.extend([2, 0]);
        b.extend([0; 8]);
        b.extend(body);
        b
    }

    #[test]
    fn literal() {
        let bytes = answer();
        let all: Vec<_> = messages(&bytes)
            .filter_map(|m| Connection::decode(&m))
            .collect();
        let [one] = all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(one.original.source, IpAddr::from([192, 168, 1, 5]));
        assert_eq!(one.reply.destination, IpAddr::from([203, 0, 113, 1]));
        assert_eq!((one.reply.proto, one.reply.ports), (6, [443, 61000]));
        assert_eq!(dump_connections()[4..6], GET.to_ne_bytes());
    }

    proptest! {
        #[test]
        fn any_bytes(bytes: Vec<u8>, at in 0..100usize, byte: u8) {
            let _ = messages(&bytes).filter_map(|m| Connection::decode(&m)).count();
            let mut b = answer();
            let at = at.min(b.len() - 1);
            b[at] = byte;
            let _ = messages(&b).filter_map(|m| Connection::decode(&m)).count();
        }
    }
}
