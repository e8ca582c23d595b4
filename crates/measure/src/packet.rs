//! The bytes of a probe: a UDP payload, or what follows an ICMP echo header.
//!
//! `EKp1`, session, sequence number (u32 each), then when the server's kernel received it and
//! when the server answered (ns since 1970, u64 each), big-endian, then zeros.
//! Principle: parsing never panics. Non-goal: secrecy.

use std::time::Duration;

use evenkeel_wire::packet::{Echo, EchoKind};

/// Bytes of a probe, as many as ping(8) sends after its header.
pub const LEN: usize = 56;
/// Bytes of mark, session and number: a probe that is shorter cannot say whose it is.
pub const HEADER: usize = 12;
/// Bytes with the server's times.
pub const STAMPED: usize = 28;
const MAGIC: &[u8; 4] = b"EKp1";

/// One probe or its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Which prober.
    pub session: u32,
    /// Which of its probes.
    pub seq: u32,
    /// The server's kernel received it then, wall clock; zero in a question.
    pub server_rx: Duration,
    /// The server answered then, wall clock; zero in a question.
    pub server_tx: Duration,
}

impl Probe {
    /// A question.
    pub const fn asking(session: u32, seq: u32) -> Self {
        Probe {
            session,
            seq,
            server_rx: Duration::ZERO,
            server_tx: Duration::ZERO,
        }
    }

    /// As bytes.
    pub fn emit(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        self.emit_into(&mut b);
        b
    }

    /// As much of it as `b` has room for: nothing below [`HEADER`] bytes, the server's times
    /// from [`STAMPED`] on. Other bytes are left alone.
    pub fn emit_into(&self, b: &mut [u8]) {
        if let Some(b) = b.get_mut(..HEADER) {
            b[0..4].copy_from_slice(MAGIC);
            b[4..8].copy_from_slice(&self.session.to_be_bytes());
            b[8..12].copy_from_slice(&self.seq.to_be_bytes());
        }
        if let Some(b) = b.get_mut(HEADER..STAMPED) {
            b[0..8].copy_from_slice(&(self.server_rx.as_nanos() as u64).to_be_bytes());
            b[8..16].copy_from_slice(&(self.server_tx.as_nanos() as u64).to_be_bytes());
        }
    }

    /// From bytes; `None` if they are something else. A short one has no server's times.
    pub fn parse(b: &[u8]) -> Option<Probe> {
        let word = |at: usize| Some(u32::from_be_bytes(b.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_be_bytes(b.get(at..at + 8)?.try_into().ok()?));
        (b.get(0..4)? == MAGIC).then_some(())?;
        Some(Probe {
            session: word(4)?,
            seq: word(8)?,
            server_rx: Duration::from_nanos(long(12).filter(|_| b.len() >= STAMPED).unwrap_or(0)),
            server_tx: Duration::from_nanos(long(20).unwrap_or(0)),
        })
    }

    /// An ICMP echo request around the probe. The kernel fills in the identifier, and of ICMPv6
    /// the checksum.
    pub fn emit_echo(&self, v6: bool) -> Vec<u8> {
        let kind = if v6 {
            EchoKind::Request6
        } else {
            EchoKind::Request
        };
        let echo = Echo {
            kind,
            identifier: 0,
            sequence: self.seq as u16,
            payload: &self.emit(),
        };
        echo.build(None)
    }

    /// From an ICMP echo reply.
    pub fn parse_echo(b: &[u8], v6: bool) -> Option<Probe> {
        let reply = if v6 {
            EchoKind::Reply6
        } else {
            EchoKind::Reply
        };
        let echo = Echo::parse(b).ok().filter(|e| e.kind == reply)?;
        Probe::parse(echo.payload)
    }
}

/// The round trip without the time that the server held the probe. The two clocks need not
/// agree: only differences on the same clock are taken. Never below zero.
pub fn round_trip(
    tx: Duration,
    rx: Duration,
    server_rx: Duration,
    server_tx: Duration,
) -> Duration {
    let whole = rx.saturating_sub(tx);
    whole.saturating_sub(server_tx.saturating_sub(server_rx))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_bytes_and_back() {
        let p = Probe {
            session: 0x0102_0304,
            seq: 7,
            server_rx: Duration::from_nanos(0x1122_3344_5566_7788),
            server_tx: Duration::from_nanos(9),
        };
        let b = p.emit();
        assert_eq!(&b[..12], b"EKp1\x01\x02\x03\x04\0\0\0\x07");
        assert_eq!(
            &b[12..20],
            &[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]
        );
        assert_eq!(&b[20..28], &[0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(Probe::parse(&b), Some(p));
        let mut echo = p.emit_echo(false);
        assert_eq!((echo[0], echo[1], &echo[4..8]), (8, 0, &[0, 0, 0, 7][..]));
        assert_eq!(Probe::parse_echo(&echo, false), None, "a request");
        echo[0] = 0;
        assert_eq!(Probe::parse_echo(&echo, false), Some(p));
        for n in 0..HEADER {
            assert_eq!(Probe::parse(&b[..n]), None);
        }
        let zero = Duration::ZERO;
        for n in HEADER..STAMPED {
            let short = Probe::parse(&b[..n]).unwrap();
            assert_eq!(
                (short.seq, short.server_rx, short.server_tx),
                (7, zero, zero)
            );
            let mut room = vec![0xff; n];
            p.emit_into(&mut room);
            assert!(room[HEADER..].iter().all(|b| *b == 0xff));
        }
        assert_eq!(Probe::parse_echo(&[], true), None);
    }

    #[test]
    fn the_server_may_be_slow_and_live_in_another_century() {
        let ms = Duration::from_millis;
        // Sent at 1000, received at 1050; the server, whose clock says 7, held it for 30.
        assert_eq!(round_trip(ms(1000), ms(1050), ms(7), ms(37)), ms(20));
        assert_eq!(
            round_trip(ms(1000), ms(1050), ms(90_000_007), ms(90_000_037)),
            ms(20)
        );
        assert_eq!(round_trip(ms(1000), ms(1010), ms(7), ms(37)), ms(0));
    }
}
