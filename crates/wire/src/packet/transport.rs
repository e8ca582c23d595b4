//! UDP (RFC 768) and TCP (RFC 9293, time stamps RFC 7323).

use super::{IpHeader, PacketError, be16, be32, checksum, protocol, pseudo_header};

const UDP: usize = 8;
const TCP: usize = 20;

/// A view of a UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp<'a> {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    bytes: &'a [u8],
    end: usize,
}

impl<'a> Udp<'a> {
    /// Checks lengths; the buffer may be shorter than the datagram says (a quoted one).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        if bytes.len() < UDP {
            return Err(PacketError::Truncated);
        }
        let length = usize::from(be16(bytes, 4));
        if length < UDP {
            return Err(PacketError::Malformed("length"));
        }
        Ok(Udp {
            source: be16(bytes, 0),
            destination: be16(bytes, 2),
            bytes,
            end: length.min(bytes.len()),
        })
    }

    /// What it carries.
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(UDP..self.end).unwrap_or_default()
    }

    /// Whether the checksum is right, or left out as IPv4 allows.
    pub fn checksum_ok(&self, ip: &IpHeader) -> bool {
        let datagram = self.bytes.get(..self.end).unwrap_or_default();
        let length = datagram.len() as u32;
        let pseudo = pseudo_header(ip.source, ip.destination, protocol::UDP, length);
        (be16(self.bytes, 6) == 0 && ip.source.is_ipv4()) || checksum(&[&pseudo, datagram]) == 0
    }
}

/// A UDP datagram with its checksum. A payload beyond 65527 bytes is cut.
pub fn udp(ip: &IpHeader, source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(usize::from(u16::MAX) - UDP)];
    let length = (UDP + payload.len()) as u16;
    let mut bytes = Vec::with_capacity(usize::from(length));
    for field in [source, destination, length, 0] {
        bytes.extend(field.to_be_bytes());
    }
    bytes.extend(payload);
    let pseudo = pseudo_header(ip.source, ip.destination, protocol::UDP, u32::from(length));
    // Zero would mean "none": its other form is sent.
    let sum = match checksum(&[&pseudo, &bytes]) {
        0 => u16::MAX,
        sum => sum,
    };
    bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// The flags of a TCP segment, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// FIN
    pub const FIN: u8 = 0x01;
    /// SYN
    pub const SYN: u8 = 0x02;
    /// RST
    pub const RST: u8 = 0x04;
    /// PSH
    pub const PSH: u8 = 0x08;
    /// ACK
    pub const ACK: u8 = 0x10;

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }
}

/// A view of a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp<'a> {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledged up to here.
    pub acknowledged: u32,
    /// Flags.
    pub flags: TcpFlags,
    /// The window field, unscaled.
    pub window: u16,
    bytes: &'a [u8],
    header: usize,
}

impl<'a> Tcp<'a> {
    /// Checks lengths.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        if bytes.len() < TCP {
            return Err(PacketError::Truncated);
        }
        let header = usize::from(bytes[12] >> 4) * 4;
        if header < TCP {
            return Err(PacketError::Malformed("data offset"));
        }
        if bytes.len() < header {
            return Err(PacketError::Truncated);
        }
        Ok(Tcp {
            source: be16(bytes, 0),
            destination: be16(bytes, 2),
            sequence: be32(bytes, 4),
            acknowledged: be32(bytes, 8),
            flags: TcpFlags(bytes[13]),
            window: be16(bytes, 14),
            bytes,
            header,
        })
    }

    /// What it carries.
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header..).unwrap_or_default()
    }

    /// Acknowledges and does nothing else.
    pub fn is_empty_ack(&self) -> bool {
        use TcpFlags as F;
        self.payload().is_empty() && self.flags.0 & (F::ACK | F::SYN | F::FIN | F::RST) == F::ACK
    }

    /// The options, kind and value; ends at the first malformed one.
    pub fn options(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut rest = self.bytes.get(TCP..self.header).unwrap_or_default();
        std::iter::from_fn(move || {
            loop {
                match *rest.first()? {
                    0 => return None,
                    1 => rest = &rest[1..],
                    kind => {
                        let length = usize::from(*rest.get(1)?);
                        let value = rest.get(2..length)?;
                        rest = rest.get(length..)?;
                        return Some((kind, value));
                    }
                }
            }
        })
    }

    fn option(&self, kind: u8, length: usize) -> Option<&'a [u8]> {
        self.options()
            .find(|(k, v)| *k == kind && v.len() == length)
            .map(|(_, v)| v)
    }

    /// Time stamp value and echo reply.
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        let value = self.option(8, 8)?;
        Some((be32(value, 0), be32(value, 4)))
    }

    /// Window scale, in a SYN or SYN-ACK.
    pub fn window_scale(&self) -> Option<u8> {
        Some(self.option(3, 1)?[0])
    }

    /// Maximum segment size, in a SYN or SYN-ACK.
    pub fn mss(&self) -> Option<u16> {
        Some(be16(self.option(2, 2)?, 0))
    }

    /// Whether the checksum is right; partial ones, which a device would finish, are not.
    pub fn checksum_ok(&self, ip: &IpHeader) -> bool {
        let length = self.bytes.len() as u32;
        let pseudo = pseudo_header(ip.source, ip.destination, protocol::TCP, length);
        checksum(&[&pseudo, self.bytes]) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A SYN from Linux: MSS 1460, SACK, time stamps, window scale 7.
    const SYN: [u8; 40] = [
        0xb4, 0x6e, 0x00, 0x50, 0x01, 0x02, 0x03, 0x04, 0x00, 0x00, 0x00, 0x00, 0xa0, 0x02, 0xfa,
        0xf0, 0x00, 0x00, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a, 0x11, 0x22,
        0x33, 0x44, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x07,
    ];

    #[test]
    fn literal_syn() {
        let tcp = Tcp::parse(&SYN).unwrap();
        assert_eq!((tcp.source, tcp.destination), (46190, 80));
        assert!(tcp.flags.has(TcpFlags::SYN) && !tcp.flags.has(TcpFlags::ACK));
        assert_eq!((tcp.mss(), tcp.window_scale()), (Some(1460), Some(7)));
        assert_eq!(tcp.timestamps(), Some((0x1122_3344, 0)));
        assert_eq!(tcp.window, 64240);
        assert!(!tcp.is_empty_ack());
        let mut ack = SYN;
        ack[13] = TcpFlags::ACK;
        assert!(Tcp::parse(&ack).unwrap().is_empty_ack());
    }

    fn header(protocol: u8, source: &str, destination: &str) -> IpHeader {
        IpHeader {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol,
            ttl: 64,
            tos: 0,
        }
    }

    /// What other implementations compute.
    #[test]
    fn literal_checksums() {
        for (source, destination, of_udp, of_tcp) in [
            ("192.0.2.1", "198.51.100.2", 0xcb95, 0x63ad),
            ("2001:db8::1", "2001:db8::2", 0x5c58, 0xf46fu16),
        ] {
            let ip = header(protocol::UDP, source, destination);
            let bytes = udp(&ip, 1024, 53, b"hello");
            let mut literal = vec![4, 0, 0, 53, 0, 13];
            literal.extend(u16::to_be_bytes(of_udp));
            literal.extend(b"hello");
            assert_eq!(bytes, literal);
            assert!(Udp::parse(&bytes).unwrap().checksum_ok(&ip));
            let mut syn = SYN;
            syn[16..18].copy_from_slice(&of_tcp.to_be_bytes());
            assert!(Tcp::parse(&syn).unwrap().checksum_ok(&ip));
            syn[17] ^= 1;
            assert!(!Tcp::parse(&syn).unwrap().checksum_ok(&ip));
        }
    }

    /// RFC 768, RFC 8200: IPv4 may leave the checksum out, IPv6 may not.
    #[test]
    fn a_checksum_that_was_left_out() {
        for (source, right) in [("192.0.2.1", true), ("2001:db8::1", false)] {
            let ip = header(protocol::UDP, source, source);
            let mut bytes = udp(&ip, 1, 2, b"x");
            bytes[6..8].fill(0);
            assert_eq!(Udp::parse(&bytes).unwrap().checksum_ok(&ip), right);
        }
    }

    #[test]
    fn a_datagram_has_room_for_65527_bytes() {
        let ip = header(protocol::UDP, "192.0.2.1", "192.0.2.2");
        for length in [65_527, 65_528, 70_000] {
            let bytes = udp(&ip, 1, 2, &vec![7; length]);
            let view = Udp::parse(&bytes).unwrap();
            assert_eq!((bytes.len(), view.payload().len()), (65_535, 65_527));
        }
    }

    #[test]
    fn all_flags_that_are_asked_for() {
        let flags = TcpFlags(TcpFlags::SYN | TcpFlags::ACK);
        assert!(flags.has(TcpFlags::SYN | TcpFlags::ACK) && flags.has(TcpFlags::ACK));
        assert!(!flags.has(TcpFlags::SYN | TcpFlags::FIN) && !flags.has(TcpFlags::RST));
    }

    /// An acknowledgement that opens, ends or carries something is more than one.
    #[test]
    fn empty_acknowledgements() {
        use TcpFlags as F;
        let bare = |flags: u8, payload: &[u8]| {
            let mut bytes = SYN[..20].to_vec();
            (bytes[12], bytes[13]) = (0x50, flags);
            bytes.extend(payload);
            let tcp = Tcp::parse(&bytes).unwrap();
            assert_eq!(tcp.payload(), payload);
            assert_eq!(tcp.options().count(), 0);
            tcp.is_empty_ack()
        };
        assert!(bare(F::ACK, b"") && bare(F::ACK | F::PSH, b""));
        assert!(!bare(F::ACK, b"x") && !bare(0, b""));
        for more in [F::SYN, F::FIN, F::RST] {
            assert!(!bare(F::ACK | more, b""), "{more:#x}");
        }
    }

    /// An option is the one of its kind, and of the length that its RFC gives it.
    #[test]
    fn options_that_look_alike() {
        let with = |options: &[u8]| {
            let mut bytes = SYN[..20].to_vec();
            bytes[12] = 0x70;
            bytes.extend(options);
            let tcp = Tcp::parse(&bytes).unwrap();
            (tcp.mss(), tcp.window_scale())
        };
        assert_eq!(with(&[30, 4, 1, 2, 2, 4, 5, 180]), (Some(1460), None));
        assert_eq!(with(&[2, 3, 1, 3, 4, 7, 7, 0]), (None, None));
        // What follows the end of the list is padding.
        assert_eq!(with(&[3, 3, 7, 0, 2, 4, 5, 180]), (None, Some(7)));
    }

    #[test]
    fn impossible_lengths() {
        assert_eq!(Tcp::parse(&SYN[..39]), Err(PacketError::Truncated));
        let mut bad = SYN;
        bad[12] = 0x40;
        assert_eq!(Tcp::parse(&bad), Err(PacketError::Malformed("data offset")));
        // An option of length 0, 1 or beyond the header ends the list.
        for length in [0, 1, 30] {
            let mut bad = SYN;
            bad[21] = length;
            assert_eq!(Tcp::parse(&bad).unwrap().options().count(), 0);
        }
        assert_eq!(Udp::parse(&[0; 8]), Err(PacketError::Malformed("length")));
        assert_eq!(Udp::parse(&[0; 7]), Err(PacketError::Truncated));
    }

    proptest! {
        #[test]
        fn udp_reads_back(
            v6: bool, a: u128, b: u128, source: u16, destination: u16,
            payload in prop::collection::vec(any::<u8>(), 0..100), flip in 0usize..1000,
        ) {
            let address = |v: u128| -> std::net::IpAddr {
                if v6 { v.to_be_bytes().into() } else { (v as u32).to_be_bytes().into() }
            };
            let (ttl, tos) = (64, 0);
            let ip = IpHeader {
                source: address(a), destination: address(b), protocol: protocol::UDP, ttl, tos,
            };
            let mut bytes = udp(&ip, source, destination, &payload);
            let view = Udp::parse(&bytes).unwrap();
            prop_assert_eq!((view.source, view.destination), (source, destination));
            prop_assert_eq!(view.payload(), &payload[..]);
            prop_assert!(view.checksum_ok(&ip));
            // Any one bit of the payload matters.
            if !payload.is_empty() {
                let at = 8 + flip % payload.len();
                bytes[at] ^= 1 << (flip % 8);
                prop_assert!(!Udp::parse(&bytes).unwrap().checksum_ok(&ip));
            }
        }
    }
}
