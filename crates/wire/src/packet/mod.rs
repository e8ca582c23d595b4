//! Views and builders of the headers that a prober and a classifier meet.
//!
//! Principles: a view is made only of bytes that hold the whole header, so its getters cannot
//! fail; lengths in the packet bound the payload but are never believed beyond the buffer;
//! builders write right checksums. Non-goals: options beyond TCP's that we use, IPv6 extension
//! headers other than the skippable ones, reassembly.

mod icmp;
mod ip;
mod transport;

pub use icmp::{Echo, EchoKind, Quoted, TimestampMessage, UNREACHABLE_OR_EXPIRED};
pub use ip::{Ip, IpHeader, protocol};
pub use transport::{Tcp, TcpFlags, Udp, udp};

use std::net::IpAddr;

/// Why bytes are not a packet of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Fewer bytes than the header takes.
    #[error("truncated")]
    Truncated,
    /// A field says what cannot be.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
}

/// The one's complement sum of RFC 1071 over all parts in turn; only the last may be odd.
/// Over a packet that holds its checksum it is 0.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        let mut words = part.chunks_exact(2);
        for word in &mut words {
            sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
            sum += u64::from(*last) << 8;
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The pseudo header of RFC 9293 (IPv4) and RFC 8200, section 8.1 (IPv6). Addresses of different
/// families have none: its checksum is then simply wrong.
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    for address in [source, destination] {
        match address {
            IpAddr::V4(a) => bytes.extend(a.octets()),
            IpAddr::V6(a) => bytes.extend(a.octets()),
        }
    }
    // Length and protocol sum up to the same in both forms.
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes
}

/// A 16-bit field of a header whose length was checked.
fn be16(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some(v) => u16::from_be_bytes([v[0], v[1]]),
        None => 0,
    }
}

/// A 32-bit field of a header whose length was checked.
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071, section 3.
    #[test]
    fn worked_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&[&bytes]), !0xddf2);
        assert_eq!(checksum(&[&bytes[..2], &bytes[2..]]), !0xddf2);
        assert_eq!(checksum(&[&[0xab]]), !0xab00);
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, first in prop::sample::select(vec![0x45u8, 0x4f, 0x60])) {
            let mut shaped = bytes.clone();
            if let Some(b) = shaped.first_mut() { *b = first; }
            for bytes in [&bytes, &shaped] {
                if let Ok(ip) = Ip::parse(bytes) {
                    let _ = (ip.ecn(), ip.dscp(), ip.checksum_ok());
                    let _ = Udp::parse(ip.payload()).map(|u| u.checksum_ok(&ip.header()));
                }
                let _ = Tcp::parse(bytes).map(|t| {
                    (t.timestamps(), t.window_scale(), t.mss(), t.is_empty_ack(), t.payload().len())
                });
                let _ = (
                    Echo::parse(bytes), Udp::parse(bytes), TimestampMessage::parse(bytes),
                    Quoted::parse_v4(bytes), Quoted::parse_v6(bytes),
                );
            }
        }
    }
}
