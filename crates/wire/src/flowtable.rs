//! nftables' flowtables: which devices' connections skip the usual way through the kernel.
//!
//! Formats of linux/netfilter/nf_tables.h, big-endian where they say so. Non-goals: tables, chains, rules, and
//! changing anything.

use crate::attr::{attrs, text};
use crate::message::{DUMP, HEADER, Message, REQUEST};

/// `NFNL_SUBSYS_NFTABLES` (10), and behind it `NFT_MSG_NEWFLOWTABLE` (22), `NFT_MSG_GETFLOWTABLE` (23).
const NEW: u16 = 0x0a16;
const GET: u16 = 0x0a17;
/// Bytes of `struct nfgenmsg`.
const NFGENMSG: usize = 4;
const NFTA_FLOWTABLE_TABLE: u16 = 1;
const NFTA_FLOWTABLE_NAME: u16 = 2;
const NFTA_FLOWTABLE_HOOK: u16 = 3;
const NFTA_FLOWTABLE_FLAGS: u16 = 7;
const NFTA_FLOWTABLE_HOOK_DEVS: u16 = 3;
const NFTA_DEVICE_NAME: u16 = 1;
/// `NFT_FLOWTABLE_HW_OFFLOAD`.
const HARDWARE: u32 = 1;

/// A flowtable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flowtable {
    /// The table that it is in.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Devices whose packets are looked up in it.
    pub devices: Vec<String>,
    /// Devices forward its connections themselves, where they can.
    pub hardware: bool,
}

/// Asks for all flowtables of all families.
pub fn dump_flowtables() -> Vec<u8> {
    let mut bytes = vec![0; HEADER + NFGENMSG];
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&GET.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(REQUEST | DUMP).to_ne_bytes());
    bytes
}

impl Flowtable {
    /// From an `NFT_MSG_NEWFLOWTABLE`; `None` if it is another message.
    pub fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != NEW {
            return None;
        }
        let mut this = Flowtable {
            table: String::new(),
            name: String::new(),
            devices: Vec::new(),
            hardware: false,
        };
        for (kind, value) in attrs(message.payload().get(NFGENMSG..)?) {
            match kind {
                NFTA_FLOWTABLE_TABLE => this.table = text(value),
                NFTA_FLOWTABLE_NAME => this.name = text(value),
                NFTA_FLOWTABLE_FLAGS => {
                    let flags = value.first_chunk().map_or(0, |b| u32::from_be_bytes(*b));
                    this.hardware = flags & HARDWARE != 0;
                }
                NFTA_FLOWTABLE_HOOK => {
                    let lists = attrs(value).filter(|a| a.0 == NFTA_FLOWTABLE_HOOK_DEVS);
                    let names = lists.flat_map(|l| attrs(l.1));
                    let names = names.filter(|a| a.0 == NFTA_DEVICE_NAME);
                    this.devices.extend(names.map(|a| text(a.1)));
                }
                _ => {}
            }
        }
        Some(this)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::messages;

    /// A message in the kernel's form: of a table `t`, a flowtable `f` on `lo`, with `flags offload`.
    fn answer() -> Vec<u8> {
        let mut b: Vec<u8> = Vec::new();
        let attr = |kind: u16, value: &[u8]| {
            let mut a = (value.len() as u16 + 4).to_ne_bytes().to_vec();
            a.extend(kind.to_ne_bytes());
            a.extend(value);
            a.resize(a.len().next_multiple_of(4), 0);
            a
        };
        let devices = attr(NFTA_DEVICE_NAME, b"lo\0");
        let hook = [
            attr(1, &[0, 0, 0, 0]),
            attr(2, &[0, 0, 0, 0]),
            attr(0x8000 | 3, &devices),
        ];
        let body = [
            vec![1, 0, 0, 0],
            attr(1, b"t\0"),
            attr(2, b"f\0"),
            attr(5, &[0; 8]),
            attr(0x8000 | 3, &hook.concat()),
            attr(4, &[0, 0, 0, 0]),
            attr(7, &[0, 0, 0, 1]),
        ]
        .concat();
        b.extend((HEADER as u32 + body.len() as u32).to_ne_bytes());
        b.extend(NEW.to_ne_bytes());
        b.extend([2, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        b.extend(body);
        b
    }

    #[test]
    fn a_flowtable_is_read() {
        let bytes = answer();
        let found: Vec<_> = messages(&bytes)
            .filter_map(|m| Flowtable::decode(&m))
            .collect();
        let expected = Flowtable {
            table: "t".into(),
            name: "f".into(),
            devices: vec!["lo".into()],
            hardware: true,
        };
        assert_eq!(found, [expected]);
        assert_eq!(
            dump_flowtables(),
            [
                20, 0, 0, 0, 23, 10, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
            ]
        );
    }

    proptest! {
        #[test]
        fn nothing_panics(cut in 0usize..120, at in 0usize..120, byte: u8) {
            let mut bytes = answer();
            if let Some(b) = bytes.get_mut(at) {
                *b = byte;
            }
            bytes.truncate(cut);
            for m in messages(&bytes) {
                let _ = Flowtable::decode(&m);
            }
        }
    }
}
