//! What a line carried: payload of TCP by when it arrived, and what it did to each probe.
//!
//! Principles: taken from the packets themselves as the line saw them; payload counts when a receiver
//! can have it, which is once nothing before it is missing, and once; a probe is known by the port
//! that it came from and its number, through address translation too. Non-goals: what was dropped.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use evenkeel_measure::packet::Probe;

use crate::emulator::Carried;

const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;

/// Everything that is kept.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Of the server.
    port: u16,
    /// When it could be had, upwards, bytes of payload.
    payload: Vec<(Duration, bool, u64)>,
    /// Connections by the client's port, each way.
    flows: HashMap<(u16, bool), Flow>,
    /// The port from which unmarked probes come: the judged ones.
    judged: Option<u16>,
    /// Of each probe by its port and number: on the way there, and on the way back.
    probes: HashMap<(u16, u32), [Option<Duration>; 2]>,
}

/// One direction of a connection, as its receiver sees it.
#[derive(Debug, Default)]
struct Flow {
    /// The sequence number of its SYN, once that has come.
    first: Option<u32>,
    /// Bytes behind the SYN that are there without a hole.
    whole: u64,
    /// Pieces beyond a hole: begin and end.
    beyond: BTreeMap<u64, u64>,
}

impl Flow {
    /// Takes a segment; how many more bytes its receiver can have now.
    fn take(&mut self, segment: &[u8]) -> u64 {
        const SYN: u8 = 2;
        let (Some(&[a, b, c, d]), Some(&[header, flags])) =
            (segment.get(4..8), segment.get(12..14))
        else {
            return 0;
        };
        let seq = u32::from_be_bytes([a, b, c, d]);
        if flags & SYN != 0 {
            self.first.get_or_insert(seq);
            return 0;
        }
        let Some(first) = self.first else { return 0 };
        let bytes = segment.len().saturating_sub(usize::from(header >> 4) * 4) as u64;
        // Numbers wrap; a segment is within 2 GiB of what is there.
        let expected = first.wrapping_add(1).wrapping_add(self.whole as u32);
        let ahead = i64::from(seq.wrapping_sub(expected).cast_signed());
        let begin = self.whole.saturating_add_signed(ahead);
        let end = self
            .whole
            .saturating_add_signed(ahead + bytes.cast_signed());
        if end > self.whole {
            let known = self.beyond.entry(begin).or_default();
            *known = end.max(*known);
        }
        let before = self.whole;
        while let Some(piece) = self.beyond.first_entry()
            && *piece.key() <= self.whole
        {
            self.whole = self.whole.max(piece.remove());
        }
        self.whole - before
    }
}

/// A packet of IPv4: its TOS, protocol, and what it carries.
fn open(ip: &[u8]) -> Option<(u8, u8, &[u8])> {
    let first = *ip.first()?;
    let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    let header = usize::from(first & 0xf) * 4;
    (first >> 4 == 4).then_some((*ip.get(1)?, *ip.get(9)?, ip.get(header..total)?))
}

impl Ledger {
    /// Of what goes to and from a server's port.
    pub(super) fn new(port: u16) -> Self {
        Ledger {
            port,
            payload: Vec::new(),
            flows: HashMap::new(),
            judged: None,
            probes: HashMap::new(),
        }
    }

    /// Writes a packet down, if it matters.
    pub(super) fn add(&mut self, packet: Carried<'_>) {
        let Some((tos, protocol, inner)) = open(packet.ip) else {
            return;
        };
        let (Some(&from), Some(&to)) = (
            inner.first_chunk(),
            inner[2.min(inner.len())..].first_chunk(),
        ) else {
            return;
        };
        let (from, to) = (u16::from_be_bytes(from), u16::from_be_bytes(to));
        let (server, client) = if packet.up { (to, from) } else { (from, to) };
        if server != self.port {
            return;
        }
        match protocol {
            TCP => {
                let flow = self.flows.entry((client, packet.up)).or_default();
                let bytes = flow.take(inner);
                if bytes > 0 {
                    self.payload.push((packet.arrives, packet.up, bytes));
                }
            }
            UDP => {
                let Some(p) = inner.get(UDP_HEADER..).and_then(Probe::parse) else {
                    return;
                };
                if packet.up && tos == 0 {
                    self.judged.get_or_insert(client);
                }
                let took = packet.arrives.saturating_sub(packet.came);
                let ways = self.probes.entry((client, p.seq)).or_default();
                ways[usize::from(!packet.up)].get_or_insert(took);
            }
            _ => {}
        }
    }

    /// Payload of TCP that could be had from `from` to `to`, bytes.
    pub(super) fn payload(&self, up: bool, from: Duration, to: Duration) -> u64 {
        let inside = self.payload.iter().filter(|p| p.1 == up);
        inside
            .filter(|p| p.0 >= from && p.0 < to)
            .map(|p| p.2)
            .sum()
    }

    /// What the line did to the judged probe of a number, both ways; `None` if it did not come back.
    pub(super) fn round_trip(&self, seq: u32) -> Option<Duration> {
        let [there, back] = self.probes.get(&(self.judged?, seq))?;
        Some((*there)? + (*back)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet between the client's port 4000 and the server's 7.
    fn packet(tos: u8, protocol: u8, up: bool, inner: &[u8]) -> Vec<u8> {
        let mut ip = vec![0; 20];
        let ports = if up { [4000u16, 7] } else { [7, 4000] };
        ip[0] = 0x45;
        ip[1] = tos;
        ip[2..4].copy_from_slice(&(20 + 4 + inner.len() as u16).to_be_bytes());
        ip[9] = protocol;
        ip.extend(ports.iter().flat_map(|p| p.to_be_bytes()));
        ip.extend(inner);
        ip
    }

    #[test]
    fn what_matters_is_written_down() {
        let ms = Duration::from_millis;
        let mut ledger = Ledger::new(7);
        let mut add = |up, came, arrives, ip: &[u8]| {
            ledger.add(Carried {
                up,
                came: ms(came),
                arrives: ms(arrives),
                ip,
            });
        };
        // A header of 20 bytes, four of them the ports; numbers wrap behind the first 100.
        let segment = |seq: u32, flags: u8, bytes: usize| {
            let mut segment = vec![0; 16 + bytes];
            segment[..4].copy_from_slice(&seq.to_be_bytes());
            (segment[8], segment[9]) = (5 << 4, flags);
            packet(0, TCP, true, &segment)
        };
        let first = u32::MAX - 100;
        add(true, 0, 5, &segment(first, 2, 0));
        add(true, 0, 10, &segment(first + 1, 0, 100));
        add(true, 0, 11, &segment(first + 1, 0, 100));
        // Behind a hole of 50 bytes, which is filled later.
        add(true, 0, 12, &segment(50, 0, 100));
        add(true, 0, 20, &segment(0, 0, 60));
        add(true, 0, 21, &segment(50, 0, 100));
        add(false, 0, 10, &packet(0, TCP, false, &[0; 16]));
        let probe = |seq| [vec![0; 4], Probe::asking(1, seq).emit().to_vec()].concat();
        add(true, 5, 9, &packet(0, UDP, true, &probe(3)));
        add(false, 9, 16, &packet(0, UDP, false, &probe(3)));
        add(true, 10, 14, &packet(0, UDP, true, &probe(4)));
        add(true, 0, 1, &[0x45, 0]);
        add(true, 0, 1, &[]);
        assert_eq!(ledger.payload(true, ms(0), ms(20)), 100);
        assert_eq!(ledger.payload(true, ms(0), ms(30)), 250);
        assert_eq!(ledger.payload(false, ms(0), ms(21)), 0);
        assert_eq!(ledger.round_trip(3), Some(ms(11)));
        assert_eq!(ledger.round_trip(4), None);
    }
}
