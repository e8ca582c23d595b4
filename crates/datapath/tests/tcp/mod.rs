//! TCP segments for the tests, byte by byte, and their checksum by a computation of its own.
//!
//! Principles: IPv4 and IPv6, with and without an Ethernet header, alike. Non-goals: connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// How packets look, and who they are of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// Bytes before the IP packet.
    pub(crate) link: u16,
    pub(crate) six: bool,
    /// Ours; theirs is 443.
    pub(crate) port: u16,
}

/// A TCP segment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segment {
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: usize,
}

impl Form {
    /// The four of them, each with its own port.
    pub(crate) fn all() -> [Form; 4] {
        [(14, false, 1), (14, true, 2), (0, false, 3), (0, true, 4)].map(|(link, six, port)| Form {
            link,
            six,
            port,
        })
    }

    pub(crate) fn ends(self) -> (IpAddr, IpAddr) {
        if self.six {
            let us: Ipv6Addr = "2001:db8::2".parse().unwrap();
            let them: Ipv6Addr = "2001:db8:1::9".parse().unwrap();
            (us.into(), them.into())
        } else {
            let (us, them) = (Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(198, 51, 100, 9));
            (us.into(), them.into())
        }
    }

    /// Where the TCP header begins.
    pub(crate) fn tcp(self) -> usize {
        usize::from(self.link) + if self.six { 40 } else { 20 }
    }

    /// A packet of ours, or of theirs.
    pub(crate) fn packet(self, ours: bool, s: &Segment) -> Vec<u8> {
        let mut tcp = Vec::new();
        let ports = if ours {
            [self.port, 443]
        } else {
            [443, self.port]
        };
        for port in ports {
            tcp.extend(port.to_be_bytes());
        }
        tcp.extend(s.seq.to_be_bytes());
        tcp.extend(s.ack.to_be_bytes());
        assert_eq!(s.options.len() % 4, 0);
        tcp.extend([((20 + s.options.len()) as u8 / 4) << 4, s.flags]);
        tcp.extend(s.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(&s.options);
        // An odd sum, so that a checksum that is off by a carry shows.
        tcp.extend((0..s.payload).map(|i| (i * 7) as u8));
        let mut packet = self.headers(ours, 6, tcp.len());
        packet.extend(tcp);
        let sum = !self.sum(&packet);
        let at = self.tcp() + 16;
        packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    pub(crate) fn headers(self, ours: bool, proto: u8, length: usize) -> Vec<u8> {
        let (us, them) = self.ends();
        let (from, to) = if ours { (us, them) } else { (them, us) };
        let mut p = Vec::new();
        if self.link > 0 {
            p.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
            p.extend(if self.six { [0x86, 0xdd] } else { [8, 0] });
        }
        if self.six {
            p.extend([0x60, 0, 0, 0]);
            p.extend((length as u16).to_be_bytes());
            p.extend([proto, 64]);
        } else {
            p.extend([0x45, 0]);
            p.extend((20 + length as u16).to_be_bytes());
            p.extend([0, 0, 0, 0, 64, proto, 0, 0]);
        }
        for address in [from, to] {
            match address {
                IpAddr::V4(a) => p.extend(a.octets()),
                IpAddr::V6(a) => p.extend(a.octets()),
            }
        }
        p
    }

    /// Of the TCP segment and its pseudo header (RFC 9293, 3.1; RFC 8200, 8.1): all ones if the
    /// checksum is right.
    pub(crate) fn sum(self, packet: &[u8]) -> u16 {
        let (addresses, tcp) = (if self.six { 32 } else { 8 }, self.tcp());
        let segment = &packet[tcp..];
        let mut sum = 6 + segment.len() as u64;
        for part in [&packet[tcp - addresses..tcp], segment] {
            for pair in part.chunks(2) {
                let low = pair.get(1).copied().unwrap_or(0);
                sum += u64::from(u16::from_be_bytes([pair[0], low]));
            }
        }
        while sum >> 16 > 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }
}
