//! The programs under test on a line, and both ends of connections as packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use evenkeel_core::framing::Mode;
use evenkeel_core::{Framing, Rate};
use evenkeel_datapath::layout::{Flow, Key, Line};
use evenkeel_datapath::{Maps, Programs};

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// `TC_ACT_UNSPEC`: the next filter decides.
pub(crate) const NEXT: u32 = u32::MAX;

/// NOP NOP TIMESTAMPS.
pub(crate) const STAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1];

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

    pub(crate) fn key(self) -> Key {
        let (local, remote) = self.ends();
        Key {
            local,
            remote,
            local_port: self.port,
            remote_port: 443,
            proto: 6,
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

pub(crate) struct Bench {
    pub(crate) programs: Programs,
    pub(crate) maps: Maps,
}

impl Bench {
    /// For packets of this form, on a line of so many kbit/s.
    pub(crate) fn new(link: u16, kbit: Option<u64>) -> Self {
        let mut programs = Programs::load(link).unwrap_or_else(|e| panic!("{e}"));
        let maps = programs.maps().unwrap();
        let mut bench = Bench { programs, maps };
        bench.line(kbit);
        bench
    }

    pub(crate) fn line(&mut self, kbit: Option<u64>) {
        self.maps
            .set_line(kbit.map(|kbit| line(kbit, Duration::MAX)))
            .unwrap();
    }

    pub(crate) fn run(&self, program: &str, packet: &[u8]) -> Vec<u8> {
        let (returned, after) = self.programs.test_packet(program, packet).unwrap();
        assert_eq!(returned, NEXT, "{program} never decides");
        after
    }

    /// What arrives is never changed.
    pub(crate) fn down(&self, form: Form, segment: &Segment) {
        let packet = form.packet(false, segment);
        assert_eq!(self.run("ek_ingress", &packet), packet, "{segment:?}");
    }

    /// Window that a packet leaves with. Nothing else of it changes, but for the checksum.
    pub(crate) fn up(&self, form: Form, segment: &Segment) -> u16 {
        let before = form.packet(true, segment);
        let mut after = self.run("ek_egress", &before);
        assert_eq!(form.sum(&after), 0xffff, "checksum of {segment:?}");
        let tcp = form.tcp();
        let window = u16::from_be_bytes([after[tcp + 14], after[tcp + 15]]);
        assert!(window <= segment.window, "{window}: {segment:?}");
        assert_eq!(window == 0, segment.window == 0, "{window}: {segment:?}");
        for at in [14, 15, 16, 17] {
            after[tcp + at] = before[tcp + at];
        }
        assert_eq!(after, before, "{segment:?}");
        window
    }

    pub(crate) fn flow(&self, form: Form) -> Flow {
        self.maps.flow(form.key()).unwrap()
    }

    /// Shakes hands; what our SYN or SYN-ACK, with all of a window, promised.
    pub(crate) fn handshake(&self, form: Form, who: &Peers) -> u16 {
        let (first, second) = who.syns();
        if who.incoming {
            self.down(form, &first);
            self.up(form, &second)
        } else {
            let promise = self.up(form, &first);
            self.down(form, &second);
            promise
        }
    }
}

pub(crate) fn line(kbit: u64, lease: Duration) -> Line {
    Line {
        lease,
        rate: Rate::from_kbit(kbit),
        target: Rate::from_kbit(kbit - kbit / 50),
        framing: Framing::new(Mode::None, 14, 64),
        mtu: 1500,
        slack: Duration::ZERO,
    }
}

/// Both ends of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    /// They opened it.
    pub(crate) incoming: bool,
    /// Where they begin to count.
    pub(crate) theirs: u32,
    /// Window scales.
    pub(crate) our_scale: Option<u8>,
    pub(crate) their_scale: Option<u8>,
    /// Of all packets but the SYNs.
    pub(crate) options: Vec<u8>,
    /// Of the SYNs.
    pub(crate) more: Vec<u8>,
}

impl Default for Peers {
    fn default() -> Self {
        Peers {
            incoming: false,
            theirs: 1000,
            our_scale: Some(7),
            their_scale: Some(7),
            options: STAMPS.to_vec(),
            more: vec![2, 4, 5, 180],
        }
    }
}

pub(crate) const OURS: u32 = 0x7fff_fff0;

impl Peers {
    pub(crate) fn syns(&self) -> (Segment, Segment) {
        let options = |scale: Option<u8>| {
            let scale = scale.map(|s| [1, 3, 3, s]);
            [&self.more[..], scale.as_ref().map_or(&[], |s| &s[..])].concat()
        };
        let syn = |seq: u32, ack: Option<u32>, scale| Segment {
            flags: SYN | ack.map_or(0, |_| ACK),
            seq,
            ack: ack.unwrap_or(0),
            window: u16::MAX,
            options: options(scale),
            payload: 0,
        };
        let (us, they) = (self.our_scale, self.their_scale);
        if self.incoming {
            let ack = self.theirs.wrapping_add(1);
            (syn(self.theirs, None, they), syn(OURS, Some(ack), us))
        } else {
            let ack = OURS.wrapping_add(1);
            (syn(OURS, None, us), syn(self.theirs, Some(ack), they))
        }
    }

    /// What our windows are shifted by (RFC 7323, 2.2).
    pub(crate) fn scale(&self) -> u8 {
        self.their_scale.and(self.our_scale).unwrap_or(0)
    }

    /// A number in their sequence, so many bytes after their SYN.
    pub(crate) fn at(&self, offset: i64) -> u32 {
        self.theirs.wrapping_add(1).wrapping_add(offset as u32)
    }

    pub(crate) fn acknowledge(&self, offset: i64, window: u16) -> Segment {
        Segment {
            flags: ACK,
            seq: OURS.wrapping_add(1),
            ack: self.at(offset),
            window,
            options: self.options.clone(),
            payload: 0,
        }
    }

    pub(crate) fn data(&self, offset: i64, payload: usize) -> Segment {
        Segment {
            flags: ACK,
            seq: self.at(offset),
            ack: OURS.wrapping_add(1),
            window: 500,
            options: self.options.clone(),
            payload,
        }
    }
}
