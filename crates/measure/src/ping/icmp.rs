//! ICMP probes: echo, and time stamp requests.
//!
//! Principles: a datagram ICMP socket if the kernel gives one, else a raw one; the sequence
//! number of 16 bits says which probe, also in errors that quote no more than eight bytes;
//! where the payload has room it says so again, and twelve bytes more keep the checksum the same
//! for all probes, because load balancers look at it. Non-goals: other ICMP messages.

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::ping::Fate;
use evenkeel_core::ping::arrivals::Sender;
use evenkeel_core::ping::track::{Answer, Time, Tracker};
use evenkeel_sys::stamp::{Received, StampedSocket};
use evenkeel_sys::{Error, PacketOptions, clock};
use evenkeel_wire::packet::{Echo, EchoKind, Ip, TimestampMessage, checksum};
use nix::errno::Errno;

use super::clocks::now;
use super::error::PingError;
use super::port::{Knows, Port, Ports};
use crate::packet::{HEADER, Probe};

/// Bytes for the number's complement, behind the probe's header.
const COMPLEMENT: std::ops::Range<usize> = HEADER..HEADER + 2;
/// Milliseconds of a day.
const DAY: u128 = 86_400_000;

pub(super) struct Icmp {
    pub(super) port: Port,
    arrivals: Knows,
    /// The socket hears everybody's messages, in IPv4 with their IP header.
    raw: bool,
    v6: bool,
    timestamps: bool,
    identifier: u16,
    session: u32,
    buffer: Vec<u8>,
}

impl Icmp {
    pub(super) fn echo(
        target: SocketAddr,
        options: PacketOptions,
        arrivals: Knows,
    ) -> Result<Self, PingError> {
        let reply = if target.is_ipv6() { 129 } else { 0 };
        let (socket, raw) = match StampedSocket::echo(target.ip()) {
            Ok(socket) => (socket, false),
            Err(e) if e.is_permission() => match StampedSocket::raw_icmp(target.ip(), &[reply]) {
                Ok(socket) => (socket, true),
                Err(e) if e.is_permission() => {
                    return Err(PingError::NotPermitted {
                        what: "ICMP echo",
                        remedy: "as root: sysctl -w net.ipv4.ping_group_range='0 2147483647', or \
                                 setcap cap_net_raw+ep on evenkeel; UDP and TCP need nothing \
                                 (--udp, --tcp)",
                    });
                }
                Err(e) => return Err(e.into()),
            },
            Err(e) => return Err(e.into()),
        };
        Self::on(socket, raw, false, target, options, arrivals)
    }

    pub(super) fn timestamp(
        target: SocketAddr,
        options: PacketOptions,
        arrivals: Knows,
    ) -> Result<Self, PingError> {
        if target.is_ipv6() {
            return Err(PingError::Impossible(
                "ICMPv6 has no time stamp requests: leave out -M, or name an IPv4 address",
            ));
        }
        match StampedSocket::raw_icmp(target.ip(), &[14]) {
            Ok(socket) => Self::on(socket, true, true, target, options, arrivals),
            Err(e) if e.is_permission() => Err(PingError::NotPermitted {
                what: "ICMP time stamp requests",
                remedy: "root, or CAP_NET_RAW (setcap cap_net_raw+ep on evenkeel), is needed; \
                         ICMP echo, UDP and TCP do without",
            }),
            Err(e) => Err(e.into()),
        }
    }

    fn on(
        socket: StampedSocket,
        raw: bool,
        timestamps: bool,
        target: SocketAddr,
        options: PacketOptions,
        mut arrivals: Knows,
    ) -> Result<Self, PingError> {
        socket.set_options(target.ip(), &options)?;
        socket.tell_hops(target.ip())?;
        let mut peer = target;
        peer.set_port(0);
        socket.connect(peer)?;
        let session = clock::realtime().as_nanos() as u32 ^ std::process::id() << 16;
        // On a datagram socket the kernel chooses it.
        let identifier = if raw {
            (session >> 12) as u16
        } else {
            socket.local_port()?
        };
        Ok(Icmp {
            port: Port::new(socket, Sender::Icmp(identifier), &mut arrivals),
            arrivals,
            raw,
            v6: target.is_ipv6(),
            timestamps,
            identifier,
            session,
            buffer: vec![0; 1 << 16],
        })
    }

    fn message(&self, seq: u64, size: u32) -> Vec<u8> {
        let (identifier, sequence) = (self.identifier, seq as u16);
        if self.timestamps {
            let originate = (clock::realtime().as_millis() % DAY) as u32;
            let request = TimestampMessage {
                reply: false,
                identifier,
                sequence,
                times: [originate, 0, 0],
            };
            return request.build().to_vec();
        }
        let mut payload = vec![0; size as usize];
        let probe = Probe::asking(self.session, seq as u32);
        probe.emit_into(&mut payload);
        if let Some(room) = payload.get_mut(COMPLEMENT) {
            let sum = checksum(&[&sequence.to_be_bytes(), &probe.seq.to_be_bytes()]);
            room.copy_from_slice(&sum.to_be_bytes());
        }
        let kind = if self.v6 {
            EchoKind::Request6
        } else {
            EchoKind::Request
        };
        let echo = Echo {
            kind,
            identifier,
            sequence,
            payload: &payload,
        };
        echo.build(None)
    }

    pub(super) fn send(
        &mut self,
        seq: u64,
        size: u32,
        tracker: &mut Tracker,
    ) -> Result<Result<(), Errno>, Error> {
        let message = self.message(seq, size);
        self.hand_over(0, seq, &message, tracker)
    }

    fn arrived(&self, sequence: u16) -> Option<Duration> {
        let arrivals = self.arrivals.as_ref()?;
        arrivals.arrived(self.port.sender, Some(sequence.into()))
    }

    /// Identifier, sequence and payload of a reply.
    fn read<'a>(&self, message: &'a [u8]) -> Option<(u16, u16, &'a [u8])> {
        if self.timestamps {
            let t = TimestampMessage::parse(message).ok().filter(|t| t.reply)?;
            return Some((t.identifier, t.sequence, &message[8..]));
        }
        let echo = Echo::parse(message).ok()?;
        let reply = matches!(echo.kind, EchoKind::Reply | EchoKind::Reply6);
        reply.then_some((echo.identifier, echo.sequence, echo.payload))
    }
}

impl Ports for Icmp {
    fn port(&mut self, _: usize) -> Option<&mut Port> {
        Some(&mut self.port)
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn error(&self, _: usize, mut error: Answer, quoted: &[u8], tracker: &mut Tracker) {
        // The quoted message begins with type, code, checksum, identifier and sequence.
        match *quoted {
            [_, _, _, _, id0, id1, seq0, seq1, ..]
                if !self.raw || u16::from_be_bytes([id0, id1]) == self.identifier =>
            {
                let sequence = u16::from_be_bytes([seq0, seq1]);
                error.arrived = self.arrived(sequence);
                match tracker.unwrap16(sequence) {
                    Some(seq) => tracker.answer(seq, error, now()),
                    None => tracker.stray(),
                }
            }
            // Another process's on a raw socket is no business of ours.
            [_, _, _, _, _, _, _, _, ..] => {}
            _ => tracker.stray(),
        }
    }

    fn answer(&self, _: usize, r: &Received, bytes: &[u8], tracker: &mut Tracker) {
        let message = if self.raw && !self.v6 {
            match Ip::parse(bytes) {
                Ok(ip) => ip.payload(),
                Err(_) => return,
            }
        } else {
            bytes
        };
        let Some((identifier, sequence, payload)) = self.read(message) else {
            return;
        };
        if self.raw && identifier != self.identifier {
            return;
        }
        let Some(seq) = tracker.unwrap16(sequence) else {
            tracker.stray();
            return;
        };
        let size = tracker.size_of(seq).unwrap_or(0);
        let ours =
            Probe::parse(payload).is_some_and(|p| p.session == self.session && p.seq == seq as u32);
        // With a header that is not ours it answers something else, however right its numbers.
        if !self.timestamps && size as usize >= HEADER && payload.len() >= HEADER && !ours {
            tracker.stray();
            return;
        }
        // The highest bit says that it is no time since midnight (RFC 792).
        if let Some(t) = TimestampMessage::parse(message)
            .ok()
            .filter(|t| t.times[1] >> 31 == 0)
        {
            tracker.far(seq, t.times[1]);
        }
        let short = !self.timestamps && payload.len() < size as usize;
        let answer = Answer {
            fate: if short { Fate::Damaged } else { Fate::Reply },
            from: r.from.map(|f| f.ip()),
            received: Some(payload.len() as u32),
            ttl: r.hops,
            time: r.at.map_or(Time::Seen, Time::Stamp),
            arrived: self.arrived(sequence),
            held: Duration::ZERO,
        };
        tracker.answer(seq, answer, now());
    }
}
