//! ICMP (RFC 792) and ICMPv6 (RFC 4443): echo, time stamp, and the packet that an error quotes.

use std::net::IpAddr;

use super::{Ip, PacketError, be16, be32, checksum, protocol, pseudo_header};

/// Request or reply, of which family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EchoKind {
    /// ICMP type 8.
    Request,
    /// ICMP type 0.
    Reply,
    /// ICMPv6 type 128.
    Request6,
    /// ICMPv6 type 129.
    Reply6,
}

/// An echo message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Request or reply.
    pub kind: EchoKind,
    /// Whose. The kernel sets it on datagram ICMP sockets.
    pub identifier: u16,
    /// Which.
    pub sequence: u16,
    /// Comes back as sent.
    pub payload: &'a [u8],
}

/// An ICMP time stamp message (RFC 792; IPv4 only). Times are ms since midnight UT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampMessage {
    /// A reply (type 14) rather than a request (type 13).
    pub reply: bool,
    /// Whose.
    pub identifier: u16,
    /// Which.
    pub sequence: u16,
    /// When the asker sent it, the target received it, the target answered.
    pub times: [u32; 3],
}

/// Types of ICMP and ICMPv6 errors that a path finder reads: (unreachable, time exceeded).
pub const UNREACHABLE_OR_EXPIRED: [(u8, u8); 2] = [(3, 11), (1, 3)];

const HEADER: usize = 8;

impl EchoKind {
    fn number(self) -> u8 {
        match self {
            EchoKind::Request => 8,
            EchoKind::Reply => 0,
            EchoKind::Request6 => 128,
            EchoKind::Reply6 => 129,
        }
    }
}

impl<'a> Echo<'a> {
    /// From an ICMP message, without its IP header. Checksums are not looked at: the kernel has
    /// done that before it hands a message to a socket (see [`Echo::checksum_ok`]).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        if bytes.len() < HEADER {
            return Err(PacketError::Truncated);
        }
        let kind = match (bytes[0], bytes[1]) {
            (8, 0) => EchoKind::Request,
            (0, 0) => EchoKind::Reply,
            (128, 0) => EchoKind::Request6,
            (129, 0) => EchoKind::Reply6,
            _ => return Err(PacketError::Malformed("echo type")),
        };
        Ok(Echo {
            kind,
            identifier: be16(bytes, 4),
            sequence: be16(bytes, 6),
            payload: &bytes[HEADER..],
        })
    }

    /// The message. ICMPv6's checksum needs the addresses (a pair of IPv6); the kernel fills it in
    /// on raw ICMPv6 and on datagram sockets, so `None` leaves it zero there.
    pub fn build(&self, addresses: Option<(IpAddr, IpAddr)>) -> Vec<u8> {
        let mut bytes = vec![self.kind.number(), 0, 0, 0];
        bytes.extend(self.identifier.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.payload);
        let sum = match (self.kind, addresses) {
            (EchoKind::Request | EchoKind::Reply, _) => checksum(&[&bytes]),
            (_, Some((source, destination))) => {
                let length = bytes.len() as u32;
                let pseudo = pseudo_header(source, destination, protocol::ICMPV6, length);
                checksum(&[&pseudo, &bytes])
            }
            (_, None) => 0,
        };
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Whether an ICMP message's checksum is right; with addresses for ICMPv6.
    pub fn checksum_ok(message: &[u8], addresses: Option<(IpAddr, IpAddr)>) -> bool {
        let length = message.len() as u32;
        let pseudo = addresses.map_or_else(Vec::new, |(source, destination)| {
            pseudo_header(source, destination, protocol::ICMPV6, length)
        });
        checksum(&[&pseudo, message]) == 0
    }
}

impl TimestampMessage {
    /// Bytes of the message.
    pub const LEN: usize = 20;

    /// From an ICMP message, without its IP header.
    pub fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        if bytes.len() < Self::LEN {
            return Err(PacketError::Truncated);
        }
        let reply = match (bytes[0], bytes[1]) {
            (13, 0) => false,
            (14, 0) => true,
            _ => return Err(PacketError::Malformed("time stamp type")),
        };
        Ok(TimestampMessage {
            reply,
            identifier: be16(bytes, 4),
            sequence: be16(bytes, 6),
            times: [8, 12, 16].map(|at| be32(bytes, at)),
        })
    }

    /// The message.
    pub fn build(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = 13 + u8::from(self.reply);
        bytes[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        for (to, time) in bytes[HEADER..].chunks_exact_mut(4).zip(self.times) {
            to.copy_from_slice(&time.to_be_bytes());
        }
        let sum = checksum(&[&bytes]);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

/// What an ICMP error says, and the start of the packet that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// ICMP type.
    pub kind: u8,
    /// ICMP code.
    pub code: u8,
    /// The packet that caused it, as far as it is quoted.
    pub packet: Ip<'a>,
}

impl<'a> Quoted<'a> {
    /// From an ICMP message: unreachable (3) or time exceeded (11).
    pub fn parse_v4(bytes: &'a [u8]) -> Result<Self, PacketError> {
        Self::parse(bytes, UNREACHABLE_OR_EXPIRED[0])
    }

    /// From an ICMPv6 message: unreachable (1) or time exceeded (3).
    pub fn parse_v6(bytes: &'a [u8]) -> Result<Self, PacketError> {
        Self::parse(bytes, UNREACHABLE_OR_EXPIRED[1])
    }

    fn parse(bytes: &'a [u8], (unreachable, expired): (u8, u8)) -> Result<Self, PacketError> {
        let quoted = bytes.get(HEADER..).ok_or(PacketError::Truncated)?;
        if bytes[0] != unreachable && bytes[0] != expired {
            return Err(PacketError::Malformed("error type"));
        }
        Ok(Quoted {
            kind: bytes[0],
            code: bytes[1],
            packet: Ip::parse(quoted)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IpHeader, Udp, udp};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literal_echo() {
        let echo = Echo {
            kind: EchoKind::Request,
            identifier: 1,
            sequence: 2,
            payload: b"ab",
        };
        // 0800 + 0001 + 0002 + 6162 = 6965
        let bytes = echo.build(None);
        assert_eq!(bytes, [8, 0, 0x96, 0x9a, 0, 1, 0, 2, 0x61, 0x62]);
        assert_eq!(Echo::parse(&bytes), Ok(echo));
        assert!(Echo::checksum_ok(&bytes, None));
        let mut damaged = bytes.clone();
        damaged[9] ^= 1;
        assert!(!Echo::checksum_ok(&damaged, None));
        assert_eq!(Echo::parse(&bytes[..7]), Err(PacketError::Truncated));
        assert_eq!(
            Echo::parse(&[3; 8]),
            Err(PacketError::Malformed("echo type"))
        );
    }

    #[test]
    fn literal_time_stamp() {
        let request = TimestampMessage {
            reply: false,
            identifier: 1,
            sequence: 2,
            times: [3, 0, 0],
        };
        // 0d00 + 0001 + 0002 + 0003 = 0d06
        let bytes = request.build();
        assert_eq!(bytes[..12], [13, 0, 0xf2, 0xf9, 0, 1, 0, 2, 0, 0, 0, 3]);
        assert_eq!(TimestampMessage::parse(&bytes), Ok(request));
        let reply = TimestampMessage {
            reply: true,
            ..request
        };
        assert_eq!(reply.build()[..2], [14, 0]);
        assert_eq!(TimestampMessage::parse(&reply.build()), Ok(reply));
        for n in 0..20 {
            let cut = TimestampMessage::parse(&bytes[..n]);
            assert_eq!(cut, Err(PacketError::Truncated));
        }
        let echo = TimestampMessage::parse(&[8; 20]);
        assert_eq!(echo, Err(PacketError::Malformed("time stamp type")));
    }

    #[test]
    fn error_quotes_the_probe() {
        let header = IpHeader {
            source: [10, 0, 0, 2].into(),
            destination: [192, 0, 2, 1].into(),
            protocol: protocol::UDP,
            ttl: 1,
            tos: 0,
        };
        let probe = header
            .build(&udp(&header, 40_000, 33_434, b"12345678"))
            .unwrap();
        let mut error = vec![11, 0, 0, 0, 0, 0, 0, 0];
        // RFC 792: the header and 8 bytes more.
        error.extend(&probe[..28]);
        let quoted = Quoted::parse_v4(&error).unwrap();
        assert_eq!((quoted.kind, quoted.packet.header()), (11, header));
        let udp = Udp::parse(quoted.packet.payload()).unwrap();
        assert_eq!((udp.source, udp.destination), (40_000, 33_434));
        assert_eq!(
            Quoted::parse_v6(&error),
            Err(PacketError::Malformed("error type"))
        );
    }

    proptest! {
        #[test]
        fn built_reads_back(
            kind in prop::sample::select(vec![
                EchoKind::Request, EchoKind::Reply, EchoKind::Request6, EchoKind::Reply6,
            ]),
            identifier: u16, sequence: u16, a: u128, b: u128,
            payload in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let echo = Echo { kind, identifier, sequence, payload: &payload };
            let v6 = matches!(kind, EchoKind::Request6 | EchoKind::Reply6);
            let pair = v6.then(|| (IpAddr::from(a.to_be_bytes()), IpAddr::from(b.to_be_bytes())));
            let bytes = echo.build(pair);
            prop_assert_eq!(Echo::parse(&bytes), Ok(echo));
            prop_assert!(Echo::checksum_ok(&bytes, pair));
        }
    }
}
