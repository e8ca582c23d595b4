//! IPv4 (RFC 791) and IPv6 (RFC 8200).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{PacketError, be16, checksum};

/// Protocol numbers (IANA).
pub mod protocol {
    /// ICMP
    pub const ICMP: u8 = 1;
    /// TCP
    pub const TCP: u8 = 6;
    /// UDP
    pub const UDP: u8 = 17;
    /// ICMPv6
    pub const ICMPV6: u8 = 58;
}

const V4: usize = 20;
const V6: usize = 40;

/// A view of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip<'a> {
    bytes: &'a [u8],
    /// Where the transport header starts, and what it is.
    transport: usize,
    protocol: u8,
    /// The packet's own end, never beyond the buffer.
    end: usize,
}

/// What a header says, and what is needed to write one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpHeader {
    /// Source.
    pub source: IpAddr,
    /// Destination, of the same family.
    pub destination: IpAddr,
    /// Transport protocol.
    pub protocol: u8,
    /// Hops left.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
}

impl<'a> Ip<'a> {
    /// Checks lengths. The buffer may be longer (padding) or shorter (a quoted or cut packet)
    /// than the packet says.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let first = bytes.first().ok_or(PacketError::Truncated)?;
        match first >> 4 {
            4 => {
                let header = usize::from(first & 0xf) * 4;
                if header < V4 {
                    return Err(PacketError::Malformed("header length"));
                }
                if bytes.len() < header {
                    return Err(PacketError::Truncated);
                }
                let total = usize::from(be16(bytes, 2));
                if total < header {
                    return Err(PacketError::Malformed("total length"));
                }
                Ok(Ip {
                    bytes,
                    transport: header,
                    protocol: bytes[9],
                    end: total.min(bytes.len()),
                })
            }
            6 => {
                if bytes.len() < V6 {
                    return Err(PacketError::Truncated);
                }
                let end = (V6 + usize::from(be16(bytes, 4))).min(bytes.len());
                let (mut transport, mut protocol) = (V6, bytes[6]);
                // Hop-by-hop, routing and destination options (RFC 8200, section 4) can be
                // skipped; a fragment has no transport header for sure.
                while matches!(protocol, 0 | 43 | 60) {
                    let (Some(next), Some(units)) =
                        (bytes.get(transport), bytes.get(transport + 1))
                    else {
                        return Err(PacketError::Truncated);
                    };
                    protocol = *next;
                    transport += 8 + usize::from(*units) * 8;
                    if transport > end {
                        return Err(PacketError::Malformed("extension header"));
                    }
                }
                Ok(Ip {
                    bytes,
                    transport,
                    protocol,
                    end,
                })
            }
            _ => Err(PacketError::Malformed("version")),
        }
    }

    /// IPv4 rather than IPv6.
    pub fn is_v4(&self) -> bool {
        self.bytes[0] >> 4 == 4
    }

    /// What the header says.
    pub fn header(&self) -> IpHeader {
        let (source, destination, ttl, tos) = if self.is_v4() {
            let at = |i: usize| {
                let octets = self.bytes.get(i..i + 4).and_then(|v| v.first_chunk::<4>());
                IpAddr::from(Ipv4Addr::from(octets.copied().unwrap_or_default()))
            };
            (at(12), at(16), self.bytes[8], self.bytes[1])
        } else {
            let at = |i: usize| {
                let octets = self
                    .bytes
                    .get(i..i + 16)
                    .and_then(|v| v.first_chunk::<16>());
                IpAddr::from(Ipv6Addr::from(octets.copied().unwrap_or_default()))
            };
            let class = (be16(self.bytes, 0) >> 4) as u8;
            (at(8), at(24), self.bytes[7], class)
        };
        IpHeader {
            source,
            destination,
            protocol: self.protocol,
            ttl,
            tos,
        }
    }

    /// The DSCP.
    pub fn dscp(&self) -> u8 {
        self.header().tos >> 2
    }

    /// The ECN bits.
    pub fn ecn(&self) -> u8 {
        self.header().tos & 3
    }

    /// The transport protocol.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// From the transport header on; padding is cut off.
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.transport..self.end).unwrap_or_default()
    }

    /// The header's checksum (IPv6 has none).
    pub fn checksum_ok(&self) -> bool {
        let header = self.bytes.get(..self.transport).unwrap_or_default();
        !self.is_v4() || checksum(&[header]) == 0
    }
}

impl IpHeader {
    /// The packet with that transport part. `None` if the families differ or it is too long.
    pub fn build(&self, transport: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(V6 + transport.len());
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = u16::try_from(V4 + transport.len()).ok()?;
                bytes.extend([0x45, self.tos]);
                bytes.extend(total.to_be_bytes());
                // No identification, don't fragment.
                bytes.extend([0, 0, 0x40, 0, self.ttl, self.protocol, 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                let sum = checksum(&[&bytes]);
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let length = u16::try_from(transport.len()).ok()?;
                bytes.extend((0x6000_0000 | u32::from(self.tos) << 20).to_be_bytes());
                bytes.extend(length.to_be_bytes());
                bytes.extend([self.protocol, self.ttl]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
            }
            _ => return None,
        }
        bytes.extend(transport);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A well-known example: 192.168.0.1 to 192.168.0.199, UDP, checksum b861.
    const EXAMPLE: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    #[test]
    fn literal_ipv4() {
        let ip = Ip::parse(&EXAMPLE).unwrap();
        assert!(ip.checksum_ok());
        let header = ip.header();
        assert_eq!(header.destination, IpAddr::from([192, 168, 0, 199]));
        assert_eq!((header.ttl, ip.protocol()), (64, protocol::UDP));
        // Only the header is here: the payload is empty, not beyond the buffer.
        assert_eq!(ip.payload(), b"");
        let built = header.build(&[0; 0x73 - 20]).unwrap();
        assert_eq!(built[..20], EXAMPLE);
        let mut bad = EXAMPLE;
        bad[8] = 63;
        assert!(!Ip::parse(&bad).unwrap().checksum_ok());
    }

    #[test]
    fn skips_extension_headers() {
        let header = IpHeader {
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8::2".parse().unwrap(),
            protocol: 0,
            ttl: 64,
            tos: 0xb8,
        };
        // Hop-by-hop of 8 bytes, then UDP.
        let bytes = header.build(&[17, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]).unwrap();
        let ip = Ip::parse(&bytes).unwrap();
        assert_eq!((ip.protocol(), ip.payload()), (17, &[1, 2, 3][..]));
        assert_eq!((ip.dscp(), ip.ecn()), (46, 0));
        // One that is longer than the packet.
        let bytes = header.build(&[17, 9, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(
            Ip::parse(&bytes),
            Err(PacketError::Malformed("extension header"))
        );
    }

    #[test]
    fn impossible_lengths() {
        assert_eq!(Ip::parse(&[]), Err(PacketError::Truncated));
        assert_eq!(
            Ip::parse(&[0x44; 20]),
            Err(PacketError::Malformed("header length"))
        );
        assert_eq!(Ip::parse(&EXAMPLE[..19]), Err(PacketError::Truncated));
        assert_eq!(
            Ip::parse(&[0x75; 60]),
            Err(PacketError::Malformed("version"))
        );
        let mut short = EXAMPLE;
        short[3] = 19;
        assert_eq!(
            Ip::parse(&short),
            Err(PacketError::Malformed("total length"))
        );
    }

    #[test]
    fn an_ipv6_packet_ends_where_it_says() {
        let address = |last: u16| std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
        let header = IpHeader {
            source: address(1).into(),
            destination: address(2).into(),
            protocol: 59,
            ttl: 64,
            tos: 0,
        };
        let bare = header.build(&[]).unwrap();
        assert_eq!(Ip::parse(&bare).unwrap().payload(), b"");
        assert_eq!(Ip::parse(&bare[..39]), Err(PacketError::Truncated));
        // What Ethernet pads a short frame with is not payload.
        let padded = [header.build(&[1, 2, 3]).unwrap(), vec![0; 3]].concat();
        assert_eq!(Ip::parse(&padded).unwrap().payload(), [1, 2, 3]);
    }

    #[test]
    fn extension_headers_are_as_long_as_they_say() {
        let header = IpHeader {
            source: Ipv6Addr::LOCALHOST.into(),
            destination: Ipv6Addr::LOCALHOST.into(),
            protocol: 0,
            ttl: 64,
            tos: 0xb9,
        };
        // Hop-by-hop options of 8 + 1 * 8 bytes, and nothing behind them.
        let mut options = vec![protocol::UDP, 1];
        options.resize(16, 0);
        let bytes = header.build(&options).unwrap();
        let ip = Ip::parse(&bytes).unwrap();
        assert_eq!((ip.protocol(), ip.payload()), (protocol::UDP, &[][..]));
        assert_eq!((ip.dscp(), ip.ecn()), (46, 1));
        // One byte less than they say.
        let bytes = header.build(&options[..15]).unwrap();
        assert_eq!(
            Ip::parse(&bytes),
            Err(PacketError::Malformed("extension header"))
        );
    }

    proptest! {
        #[test]
        fn built_reads_back(
            v6: bool, a: u128, b: u128, ttl: u8, tos: u8,
            protocol in prop::sample::select(vec![1u8, 6, 17, 58]),
            payload in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let address = |v: u128| if v6 {
                IpAddr::from(v.to_be_bytes())
            } else {
                IpAddr::from((v as u32).to_be_bytes())
            };
            let header = IpHeader { source: address(a), destination: address(b), protocol, ttl, tos };
            let bytes = header.build(&payload).unwrap();
            let ip = Ip::parse(&bytes).unwrap();
            prop_assert_eq!(ip.header(), header);
            prop_assert_eq!(ip.payload(), &payload[..]);
            prop_assert!(ip.checksum_ok());
        }
    }
}
