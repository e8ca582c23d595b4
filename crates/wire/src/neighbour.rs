//! Neighbours: which hardware address an IP address on a link has (`RTM_*NEIGH`,
//! include/uapi/linux/neighbour.h).
//!
//! Principle: only what is known counts; the kernel leaves the hardware address out otherwise.
//! Non-goals: states, proxies, adding any.

use std::net::IpAddr;

use crate::attr::{find, u32_at};
use crate::message::{DUMP, Message, REQUEST, finish, messages, start};

const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
/// Length of `struct ndmsg`: family, pad, index, state, flags, type.
const NDMSG: usize = 12;
/// `NDA_DST` and `NDA_LLADDR`.
const DESTINATION: u16 = 1;
const HARDWARE: u16 = 2;

/// Somebody on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Number of the device.
    pub ifindex: u32,
    /// Its IP address.
    pub address: IpAddr,
    /// Its hardware address; empty if it is not known or the link has none.
    pub hardware: Vec<u8>,
}

impl Neighbour {
    /// From an `RTM_NEWNEIGH`; `None` if it is another message, or too short, or about something
    /// other than an IP address.
    pub fn decode(message: &Message<'_>) -> Option<Self> {
        let payload = message.payload();
        let attributes = payload.get(NDMSG..)?;
        if message.kind != NEW_NEIGHBOUR {
            return None;
        }
        let address = find(attributes, DESTINATION)?;
        let v4 = <[u8; 4]>::try_from(address).map(IpAddr::from);
        let v6 = <[u8; 16]>::try_from(address).map(IpAddr::from);
        Some(Neighbour {
            ifindex: u32_at(payload, 4)?,
            address: v4.or(v6).ok()?,
            hardware: find(attributes, HARDWARE).unwrap_or_default().to_vec(),
        })
    }

    /// All in a datagram.
    pub fn all(datagram: &[u8]) -> impl Iterator<Item = Self> {
        messages(datagram).filter_map(|m| Neighbour::decode(&m))
    }
}

/// Asks for all neighbours of both families.
pub fn dump_neighbours() -> Vec<u8> {
    finish(start(GET_NEIGHBOUR, REQUEST | DUMP, &[0; NDMSG]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Writer;
    use proptest::prelude::*;

    /// `RTM_NEWNEIGH` of device 7.
    fn new(kind: u16, address: &[u8], hardware: Option<&[u8]>) -> Vec<u8> {
        let body = [0, 7u32, 0].map(u32::to_ne_bytes).concat();
        let mut w = Writer::new(start(kind, 0, &body));
        w.bytes(DESTINATION, address);
        if let Some(hardware) = hardware {
            w.bytes(HARDWARE, hardware);
        }
        finish(w.finish())
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn literal() {
        // NLM_F_REQUEST and NLM_F_DUMP.
        let mut bytes = vec![28, 0, 0, 0, 30, 0, 1, 3];
        bytes.resize(28, 0);
        assert_eq!(dump_neighbours(), bytes);
        // `ip neigh add 192.0.2.2 lladdr 52:54:00:12:34:56 dev wan` of device 7, as Linux 6.18
        // tells it, without NDA_CACHEINFO.
        let bytes = [
            &[48, 0, 0, 0, 28, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[2, 0, 0, 0, 7, 0, 0, 0, 128, 0, 0, 1],
            &[8, 0, 1, 0, 192, 0, 2, 2],
            &[10, 0, 2, 0, 0x52, 0x54, 0, 0x12, 0x34, 0x56, 0, 0],
        ];
        let neighbour = Neighbour {
            ifindex: 7,
            address: [192, 0, 2, 2].into(),
            hardware: vec![0x52, 0x54, 0, 0x12, 0x34, 0x56],
        };
        let all: Vec<_> = Neighbour::all(&bytes.concat()).collect();
        assert_eq!(all, [neighbour]);
    }

    #[test]
    fn what_is_none_is_left_out() {
        let hardware: &[u8] = &[2, 0, 0, 0, 0, 1];
        let one = |bytes: Vec<u8>| Neighbour::all(&bytes).next();
        let link_local = [0xfe80u16, 0, 0, 0, 0, 0, 0, 1];
        let address = link_local.map(u16::to_be_bytes).concat();
        let known = one(new(NEW_NEIGHBOUR, &address, Some(hardware))).unwrap();
        assert_eq!(known.address, IpAddr::from(link_local));
        assert_eq!(known.hardware, hardware);
        let unknown = one(new(NEW_NEIGHBOUR, &address, None)).unwrap();
        assert!(unknown.hardware.is_empty());
        assert_eq!(one(new(29, &address, Some(hardware))), None);
        assert_eq!(one(new(NEW_NEIGHBOUR, &[1, 2, 3], Some(hardware))), None);
        assert_eq!(one(finish(start(NEW_NEIGHBOUR, 0, &[0; 8]))), None);
    }

    proptest! {
        #[test]
        fn any_bytes(bytes: Vec<u8>) {
            let _ = Neighbour::all(&bytes).count();
            let _ = Neighbour::all(&finish(start(NEW_NEIGHBOUR, 0, &bytes))).count();
        }
    }
}
