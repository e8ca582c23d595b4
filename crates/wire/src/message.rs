//! Netlink messages: headers, acknowledgements with the kernel's words, the end of a dump.
//!
//! Principle: what the kernel says in text (extended ACK) is part of every error. Non-goals:
//! sockets and sequence numbers, which belong to whoever sends (`evenkeel_sys::netlink`).

use crate::attr::{attrs, text, u16_at, u32_at};

/// Length of `struct nlmsghdr` (include/uapi/linux/netlink.h).
pub const HEADER: usize = 16;
/// Where the sequence number stands.
pub const SEQUENCE: std::ops::Range<usize> = 8..12;

/// `NLM_F_REQUEST`.
pub const REQUEST: u16 = 0x1;
/// `NLM_F_ACK`.
pub const ACK: u16 = 0x4;
/// `NLM_F_DUMP_INTR`: the dump is inconsistent, something changed meanwhile.
pub const DUMP_INTR: u16 = 0x10;
/// `NLM_F_DUMP`.
pub const DUMP: u16 = 0x300;
/// `NLM_F_REPLACE`.
pub const REPLACE: u16 = 0x100;
/// `NLM_F_EXCL`.
pub const EXCL: u16 = 0x200;
/// `NLM_F_CREATE`.
pub const CREATE: u16 = 0x400;

const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// On an acknowledgement: the echoed request is its header only.
const NLM_F_CAPPED: u16 = 0x100;
/// On an acknowledgement: attributes follow the echo.
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_OFFS: u16 = 2;

/// One message of what a socket received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// `RTM_*` or a control type.
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    /// The number of the request that it answers.
    pub sequence: u32,
    /// The port of the socket that it is for; 0 on notifications.
    pub port: u32,
    /// Header and payload.
    pub bytes: &'a [u8],
}

/// The kernel's answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acknowledgement {
    /// 0: done. Otherwise a positive errno.
    pub errno: i32,
    /// What the kernel says, for instance `Specified qdisc kind is unknown`. May come with
    /// success, as a warning.
    pub text: Option<String>,
    /// Offset of the offending attribute in the request.
    pub offset: Option<u32>,
}

impl<'a> Message<'a> {
    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER..).unwrap_or_default()
    }

    /// It carries nothing.
    pub fn is_noop(&self) -> bool {
        self.kind == NLMSG_NOOP
    }

    /// It ends a dump.
    pub fn is_done(&self) -> bool {
        self.kind == NLMSG_DONE
    }

    /// The acknowledgement, if it is one; a dump's end is one too.
    pub fn acknowledgement(&self) -> Option<Acknowledgement> {
        let payload = self.payload();
        let (errno, tail) = match self.kind {
            NLMSG_ERROR => {
                // The errno, the echoed request (whole or its header), then attributes.
                let echoed = u32_at(payload, 4).unwrap_or(0) as usize;
                let echo = if self.flags & NLM_F_CAPPED != 0 || echoed < HEADER {
                    HEADER
                } else {
                    echoed.checked_next_multiple_of(4).unwrap_or(HEADER)
                };
                (u32_at(payload, 0), echo.saturating_add(4))
            }
            NLMSG_DONE => (Some(u32_at(payload, 0).unwrap_or(0)), 4),
            _ => return None,
        };
        let mut ack = Acknowledgement {
            // A truncated error is an error: EBADMSG.
            errno: errno.map_or(74, |e| (e as i32).saturating_neg()),
            ..Acknowledgement::default()
        };
        if self.flags & NLM_F_ACK_TLVS != 0 {
            for (kind, value) in attrs(payload.get(tail..).unwrap_or_default()) {
                match kind {
                    NLMSGERR_ATTR_MSG => ack.text = Some(text(value)),
                    NLMSGERR_ATTR_OFFS => ack.offset = u32_at(value, 0),
                    _ => {}
                }
            }
        }
        Some(ack)
    }
}

/// The messages of one datagram; ends at the first malformed one.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(datagram, 0)? as usize;
        if length < HEADER {
            return None;
        }
        let message = Message {
            bytes: datagram.get(..length)?,
            kind: u16_at(datagram, 4)?,
            flags: u16_at(datagram, 6)?,
            sequence: u32_at(datagram, 8)?,
            port: u32_at(datagram, 12)?,
        };
        let next = length.checked_next_multiple_of(4)?;
        datagram = datagram.get(next..).unwrap_or_default();
        Some(message)
    })
}

/// A header with room for the length; `finish` fills it in.
pub(crate) fn start(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

/// Sets the length.
pub(crate) fn finish(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.len() as u32;
    if let Some(field) = bytes.get_mut(..4) {
        field.copy_from_slice(&length.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linux 6.18's answer to adding CAKE where there is none, CAP_ACK set.
    #[cfg(target_endian = "little")]
    fn refused(flags: u16, echo: &[u8]) -> Vec<u8> {
        let words = b"Specified qdisc kind is unknown\0";
        let mut bytes = start(NLMSG_ERROR, flags, &(-2i32).to_ne_bytes());
        bytes.extend(echo);
        bytes.extend([(words.len() + 4) as u8, 0, 1, 0]);
        bytes.extend(words);
        bytes.extend([8, 0, 2, 0, 36, 0, 0, 0]);
        finish(bytes)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn extended_acknowledgement() {
        let mut echo = vec![0; 36];
        echo[0] = 36;
        for bytes in [
            refused(NLM_F_ACK_TLVS | NLM_F_CAPPED, &echo[..16]),
            refused(NLM_F_ACK_TLVS, &echo),
        ] {
            let message = messages(&bytes).next().unwrap();
            assert_eq!(
                message.acknowledgement(),
                Some(Acknowledgement {
                    errno: 2,
                    text: Some("Specified qdisc kind is unknown".to_owned()),
                    offset: Some(36),
                })
            );
        }
        // Without the flag the tail is not ours to read.
        let bytes = refused(NLM_F_CAPPED, &echo[..16]);
        let ack = messages(&bytes).next().unwrap().acknowledgement().unwrap();
        assert_eq!((ack.errno, ack.text), (2, None));
    }

    /// Where the attributes begin when the echoed request cannot be as short as it says.
    #[test]
    #[cfg(target_endian = "little")]
    fn an_echo_is_a_header_at_least() {
        for length in [0, 15] {
            let mut echo = [0; 16];
            echo[0] = length;
            let bytes = refused(NLM_F_ACK_TLVS, &echo);
            let ack = messages(&bytes).next().unwrap().acknowledgement().unwrap();
            assert_eq!(ack.offset, Some(36), "{length}");
        }
    }

    #[test]
    fn messages_without_payload() {
        let noop = finish(start(NLMSG_NOOP, 0, &[]));
        let done = finish(start(NLMSG_DONE, 0, &[]));
        let both = [noop, done].concat();
        let kinds: Vec<_> = messages(&both)
            .map(|m| (m.is_noop(), m.is_done(), m.payload().len()))
            .collect();
        assert_eq!(kinds, [(true, false, 0), (false, true, 0)]);
    }

    #[test]
    fn several_in_one_datagram() {
        let mut bytes = finish(start(36, 2, &[1, 2, 3, 4]));
        bytes.extend(finish(start(NLMSG_DONE, 2, &0i32.to_ne_bytes())));
        let read: Vec<_> = messages(&bytes).collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].kind, read[0].payload()), (36, &[1, 2, 3, 4][..]));
        assert_eq!(read[0].acknowledgement(), None);
        assert!(read[1].is_done());
        assert_eq!(read[1].acknowledgement(), Some(Acknowledgement::default()));
    }

    #[test]
    fn impossible_lengths_end_the_datagram() {
        let mut bytes = start(36, 0, &[]);
        for length in [0, 15, 17, u32::MAX] {
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(messages(&bytes).count(), 0);
        }
    }

    proptest! {
        #[test]
        fn never_panics(mut bytes: Vec<u8>, kind in 0u16..5, flags: u16, echoed: u32) {
            messages(&bytes).for_each(|m| { m.acknowledgement(); });
            if bytes.len() >= 24 {
                let length = bytes.len() as u32;
                bytes[..4].copy_from_slice(&length.to_ne_bytes());
                bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
                bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
                bytes[20..24].copy_from_slice(&echoed.to_ne_bytes());
                messages(&bytes).for_each(|m| { m.acknowledgement(); });
            }
        }
    }
}
