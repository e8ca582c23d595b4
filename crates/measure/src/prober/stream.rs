//! The probes of one kind: a stamped socket, and what is known of each that was sent from it.
//!
//! Non-goals: when they are sent (the prober).

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::ping::arrivals::{Arrivals, Sender};
use evenkeel_sys::packet_options::PacketOptions;
use evenkeel_sys::stamp::{Notice, Stage, StampedSocket};
use evenkeel_sys::{Error, clock};
use nix::errno::Errno;

use super::sample::{Form, Kind, Sample, Samples, wall_ahead};
use crate::packet::{LEN, Probe, round_trip};

/// The first probes switch the kernel's stamping on and are not counted.
const WARM_UP: usize = 2;

/// One probe on its way.
#[derive(Debug, Clone, Copy)]
struct Flight {
    /// User space's time of sending.
    user: Duration,
    /// Before our own queueing discipline, and behind it.
    sched: Option<Duration>,
    driver: Option<Duration>,
    /// When the answer came, and the server's two stamps.
    answer: Option<(Duration, Duration, Duration)>,
    held: Option<Duration>,
}

impl Flight {
    fn sample(&self) -> Sample {
        let sent = self.sched.unwrap_or(self.user);
        Sample {
            sent,
            rtt: self
                .answer
                .map(|(rx, server_rx, server_tx)| round_trip(sent, rx, server_rx, server_tx)),
            held: self.held,
            own: self.driver.map(|d| d.saturating_sub(sent)),
            there: self.answer.map(|a| a.1).filter(|at| !at.is_zero()),
        }
    }
}

/// A packet, and zeros until it is so long.
fn with_padding(packet: &[u8], bytes: usize) -> Cow<'_, [u8]> {
    if packet.len() >= bytes {
        return Cow::Borrowed(packet);
    }
    let mut long = packet.to_vec();
    long.resize(bytes, 0);
    Cow::Owned(long)
}

/// Probes of one kind.
pub(super) struct Stream {
    pub(super) socket: StampedSocket,
    pub(super) kind: Kind,
    /// When the next one is to be sent, steady clock.
    pub(super) due: Duration,
    /// So many are under way.
    pub(super) open: usize,
    port: u16,
    v6: bool,
    session: u32,
    /// Another than ours.
    form: Option<Box<dyn Form>>,
    flights: Vec<Flight>,
    /// The probe for each `OPT_ID` that the kernel has given out.
    ids: Vec<u32>,
    highest: u32,
    duplicates: u64,
    reordered: u64,
    not_sent: u64,
}

impl Stream {
    pub(super) fn open(target: SocketAddr, session: u32, kind: Kind) -> Result<Self, Error> {
        let any: SocketAddr = if target.is_ipv6() {
            ([0u16; 8], 0).into()
        } else {
            ([0, 0, 0, 0], 0).into()
        };
        let socket = if kind.icmp {
            StampedSocket::echo(target.ip())?
        } else {
            StampedSocket::udp(any)?
        };
        let options = PacketOptions {
            tos: kind.tos,
            ..PacketOptions::default()
        };
        socket.set_options(target.ip(), &options)?;
        socket.connect(target)?;
        Stream::on(socket, target.is_ipv6(), session, kind)
    }

    /// On a connected UDP socket that has sent so many datagrams, in another form than ours.
    pub(super) fn formed(
        (socket, sent): (StampedSocket, u32),
        kind: Kind,
        form: Box<dyn Form>,
    ) -> Result<Self, Error> {
        Ok(Stream {
            form: Some(form),
            // Their stamps are of no probe.
            ids: vec![u32::MAX; sent as usize],
            ..Stream::on(socket, false, 0, kind)?
        })
    }

    fn on(socket: StampedSocket, v6: bool, session: u32, kind: Kind) -> Result<Self, Error> {
        Ok(Stream {
            port: socket.local_port()?,
            socket,
            kind,
            due: Duration::ZERO,
            open: 0,
            v6,
            session,
            form: None,
            flights: Vec::new(),
            ids: Vec::new(),
            highest: 0,
            duplicates: 0,
            reordered: 0,
            not_sent: 0,
        })
    }

    /// Where its probes come from.
    pub(super) fn sender(&self) -> Sender {
        if self.kind.icmp {
            Sender::Icmp(self.port)
        } else {
            Sender::Udp(self.port)
        }
    }

    pub(super) fn send(&mut self) -> Result<(), Error> {
        let seq = self.flights.len() as u32;
        let probe = Probe::asking(self.session, seq);
        self.flights.push(Flight {
            user: clock::realtime(),
            sched: None,
            driver: None,
            answer: None,
            held: None,
        });
        self.open += 1;
        let once = |s: &Self| {
            if let Some(form) = &s.form {
                s.socket.send(&form.question(seq))
            } else if s.kind.icmp {
                s.socket.send(&with_padding(&probe.emit_echo(s.v6), 0))
            } else {
                s.socket.send(&with_padding(&probe.emit(), s.kind.bytes))
            }
        };
        let mut sent = once(self);
        if sent.is_err() && sent != Err(Errno::ENOBUFS) {
            // An ICMP error about an earlier probe fails the next send: drain it, try once more.
            self.notices()?;
            sent = once(self);
        }
        if sent.is_err() {
            self.not_sent += 1;
        }
        // Dropped by our own queueing discipline: an id was given out nevertheless.
        if matches!(sent, Ok(()) | Err(Errno::ENOBUFS)) {
            self.ids.push(seq);
        }
        Ok(())
    }

    /// Takes the stamps of what was sent.
    pub(super) fn notices(&mut self) -> Result<(), Error> {
        while let Some(notice) = self.socket.notice()? {
            let Notice::Sent { id, stage, at } = notice else {
                continue;
            };
            let seq = self.ids.get(id as usize).map(|s| *s as usize);
            // A stamp from before the send is some other probe's: ids are out of step.
            if let Some(f) = seq.and_then(|s| self.flights.get_mut(s))
                && at >= f.user
            {
                match stage {
                    Stage::Sched => f.sched = Some(at),
                    Stage::Driver => f.driver = Some(at),
                }
            }
        }
        Ok(())
    }

    /// Takes what came; `heard` is told of each round trip.
    pub(super) fn answers(
        &mut self,
        arrivals: Option<&dyn Arrivals>,
        mut heard: impl FnMut(Duration),
    ) -> Result<(), Error> {
        let mut buffer = [0; 2 * LEN];
        let sender = self.sender();
        while let Some(r) = self.socket.receive(&mut buffer)? {
            let at = r.at.unwrap_or_else(clock::realtime);
            let data = &buffer[..r.len];
            let probe = match &self.form {
                Some(form) => form.answer(data),
                None if self.kind.icmp => Probe::parse_echo(data, self.v6),
                None => Probe::parse(data),
            };
            let ours = |p: &Probe| self.form.is_some() || p.session == self.session;
            let Some(p) = probe.filter(ours) else {
                continue;
            };
            let Some(f) = self.flights.get_mut(p.seq as usize) else {
                continue;
            };
            if f.answer.is_some() {
                self.duplicates += 1;
                continue;
            }
            f.answer = Some((at, p.server_rx, p.server_tx));
            // An echo's number is of 16 bits.
            let number = if self.kind.icmp {
                p.seq & 0xffff
            } else {
                p.seq
            };
            f.held = arrivals
                .and_then(|a| a.arrived(sender, Some(number)))
                .map(|arrived| at.saturating_sub(arrived + wall_ahead()));
            self.open = self.open.saturating_sub(1);
            if p.seq < self.highest {
                self.reordered += 1;
            }
            self.highest = self.highest.max(p.seq);
            f.sample().rtt.into_iter().for_each(&mut heard);
        }
        Ok(())
    }

    /// Says that all is over, if its form has a word for that.
    pub(super) fn farewell(&self) {
        if let Some(word) = self.form.as_ref().and_then(|f| f.farewell()) {
            // Who does not hear it forgets us by himself.
            let _ = self.socket.send(&word);
        }
    }

    pub(super) fn samples(&self) -> Samples {
        let counted = self.flights.get(WARM_UP..).unwrap_or_default();
        Samples {
            probes: counted.iter().map(Flight::sample).collect(),
            duplicates: self.duplicates,
            reordered: self.reordered,
            not_sent: self.not_sent,
            unstamped: counted.iter().filter(|f| f.sched.is_none()).count() as u64,
        }
    }
}
