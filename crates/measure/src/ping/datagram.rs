//! UDP probes.
//!
//! Principles: a payload of twelve bytes or more says which probe it is, and one socket does for
//! all; a smaller one cannot, so each probe under way gets a port of its own, the lowest that is
//! free (one flow, as long as answers come before the next probe). An error that quotes too
//! little is attributed only if one probe alone can be meant, else it is a stray. Non-goals:
//! knowing the target's protocol: whatever comes back from its port is a reply.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use evenkeel_core::ping::Fate;
use evenkeel_core::ping::arrivals::Sender;
use evenkeel_core::ping::track::{Answer, Time, Tracker};
use evenkeel_sys::poll::{Interest, Poller};
use evenkeel_sys::stamp::{Received, StampedSocket};
use evenkeel_sys::{Error, PacketOptions, clock};
use nix::errno::Errno;

use super::clocks::now;
use super::port::{Knows, Port, Ports};
use super::token::SOCKET;
use crate::packet::{HEADER, Probe};

/// Ports at most; the oldest is used again if none is free.
const PORTS: usize = 512;
struct Own {
    port: Port,
    /// Probes sent from it, without those known to be over.
    open: VecDeque<u64>,
}

pub(super) struct Datagrams {
    target: SocketAddr,
    options: PacketOptions,
    /// Every payload says which probe it is.
    numbered: bool,
    session: u32,
    ports: Vec<Own>,
    arrivals: Knows,
    /// Which port was taken last, for when none is free.
    last: usize,
    buffer: Vec<u8>,
}

impl Datagrams {
    pub(super) fn new(
        target: SocketAddr,
        options: PacketOptions,
        smallest: u32,
        arrivals: Knows,
    ) -> Result<Self, Error> {
        let mut this = Datagrams {
            target,
            options,
            numbered: smallest as usize >= HEADER,
            session: clock::realtime().as_nanos() as u32,
            ports: Vec::new(),
            arrivals,
            last: 0,
            buffer: vec![0; 1 << 16],
        };
        this.add()?;
        Ok(this)
    }

    fn add(&mut self) -> Result<(), Error> {
        let peer = self.target.ip();
        let any: IpAddr = match peer {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = StampedSocket::udp(SocketAddr::new(any, 0))?;
        socket.set_options(peer, &self.options)?;
        socket.tell_hops(peer)?;
        socket.connect(self.target)?;
        let sender = Sender::Udp(socket.local_port()?);
        self.ports.push(Own {
            port: Port::new(socket, sender, &mut self.arrivals),
            open: VecDeque::new(),
        });
        Ok(())
    }

    pub(super) fn watch(&self, poller: &Poller) -> Result<(), Error> {
        for (token, own) in (SOCKET..).zip(&self.ports) {
            poller.add(&own.port.socket, token, Interest::Read)?;
        }
        Ok(())
    }

    pub(super) fn set_hops(&mut self, hops: u8) -> Result<(), Error> {
        self.options.hops = Some(hops);
        let peer = self.target.ip();
        self.ports
            .iter()
            .try_for_each(|p| p.port.socket.set_hops(peer, hops))
    }

    /// The port for the next probe.
    fn choose(&mut self, tracker: &Tracker, poller: &Poller) -> Result<usize, Error> {
        for p in &mut self.ports {
            while p.open.front().is_some_and(|seq| !tracker.is_open(*seq)) {
                p.open.pop_front();
            }
        }
        if self.numbered {
            return Ok(0);
        }
        if let Some(free) = self.ports.iter().position(|p| p.open.is_empty()) {
            return Ok(free);
        }
        // No more descriptors is no reason to stop: ports are shared then.
        if self.ports.len() < PORTS && self.add().is_ok() {
            let new = self.ports.len() - 1;
            let socket = &self.ports[new].port.socket;
            poller.add(socket, SOCKET + new as u64, Interest::Read)?;
            return Ok(new);
        }
        Ok((self.last + 1) % self.ports.len())
    }

    pub(super) fn send(
        &mut self,
        seq: u64,
        size: u32,
        tracker: &mut Tracker,
        poller: &Poller,
    ) -> Result<Result<(), Errno>, Error> {
        let which = self.choose(tracker, poller)?;
        self.last = which;
        let mut payload = vec![0; size as usize];
        let probe = Probe::asking(self.session, seq as u32);
        probe.emit_into(&mut payload);
        let sent = self.hand_over(which, seq, &payload, tracker)?;
        self.ports[which].open.push_back(seq);
        Ok(sent)
    }

    /// When the answer to a probe arrived, by the number in what was sent back.
    fn arrived(&self, which: usize, number: Option<u64>) -> Option<Duration> {
        let sender = self.ports.get(which)?.port.sender;
        let arrivals = self.arrivals.as_ref()?;
        arrivals.arrived(sender, number.map(|n| n as u32))
    }

    /// The probe that a payload names, and how long the target says that it held it.
    fn named(&self, payload: &[u8], tracker: &Tracker) -> Option<(u64, Duration)> {
        let p = Probe::parse(payload).filter(|p| p.session == self.session)?;
        let held = p.server_tx.saturating_sub(p.server_rx);
        Some((tracker.unwrap32(p.seq)?, held))
    }

    /// The one probe that is under way from this port, if it is the only one.
    fn only(&self, which: usize, tracker: &Tracker) -> Option<u64> {
        let port = self.ports.get(which)?;
        let mut open = port.open.iter().filter(|seq| tracker.is_open(**seq));
        match (open.next(), open.next()) {
            (Some(one), None) => Some(*one),
            // All over: whatever it is, it answers the latest, late or once more.
            (None, _) => port.open.back().copied(),
            _ => None,
        }
    }
}

impl Ports for Datagrams {
    fn port(&mut self, which: usize) -> Option<&mut Port> {
        self.ports.get_mut(which).map(|own| &mut own.port)
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn error(&self, which: usize, mut error: Answer, quoted: &[u8], tracker: &mut Tracker) {
        let named = self.named(quoted, tracker).map(|n| n.0);
        error.arrived = self.arrived(which, named);
        match named.or_else(|| self.only(which, tracker)) {
            Some(seq) => tracker.answer(seq, error, now()),
            None => tracker.stray(),
        }
    }

    fn answer(&self, which: usize, r: &Received, payload: &[u8], tracker: &mut Tracker) {
        let named = self.named(payload, tracker);
        let Some(seq) = named.map(|n| n.0).or_else(|| self.only(which, tracker)) else {
            tracker.stray();
            return;
        };
        let size = tracker.size_of(seq).unwrap_or(0) as usize;
        // An echo that comes back shorter is damaged; any other answer has its own length.
        let short = named.is_some() && payload.len() < size;
        let answer = Answer {
            fate: if short { Fate::Damaged } else { Fate::Reply },
            from: r.from.map(|f| f.ip()),
            received: Some(payload.len() as u32),
            ttl: r.hops,
            time: r.at.map_or(Time::Seen, Time::Stamp),
            arrived: self.arrived(which, named.map(|n| n.0)),
            held: named.map_or(Duration::ZERO, |n| n.1),
        };
        tracker.answer(seq, answer, now());
    }
}
