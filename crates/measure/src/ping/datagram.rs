//! UDP probes, and what all datagram sockets share.
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
use evenkeel_core::ping::track::{Answer, Stamp, Time, Tracker};
use evenkeel_sys::poll::{Interest, Poller, Ready};
use evenkeel_sys::stamp::{Notice, Received, Stage, StampedSocket};
use evenkeel_sys::{Error, PacketOptions, clock};
use nix::errno::Errno;

use super::{SOCKET, now};
use crate::packet::{HEADER, Probe};

/// Ports at most; the oldest is used again if none is free.
const PORTS: usize = 512;
/// Send stamps come at once: so many probes are remembered for them.
const STAMPS: usize = 4096;

/// The probe for each number that the kernel has given to a datagram of one socket.
#[derive(Debug, Default)]
pub(super) struct Ids {
    first: u32,
    seqs: VecDeque<u64>,
    /// Stamps were not there at once: our own queue, or a driver that sends later.
    pub(super) slow: bool,
}

impl Ids {
    /// A datagram was handed over, with this result.
    pub(super) fn sent(&mut self, seq: u64, result: Result<(), Errno>) {
        // ENOBUFS: dropped by our own queueing discipline, after a number was given out.
        if matches!(result, Ok(()) | Err(Errno::ENOBUFS)) {
            self.seqs.push_back(seq);
            if self.seqs.len() > STAMPS {
                self.seqs.pop_front();
                self.first = self.first.wrapping_add(1);
            }
        }
    }

    /// Whether a stamp of the probe just sent is worth asking for.
    pub(super) fn expects(&self, seq: u64, tracker: &Tracker) -> bool {
        // The first one is taken before our own queue, and is there if the kernel knows it.
        match tracker.stamps_of(seq) {
            0 => true,
            1 => !self.slow,
            _ => false,
        }
    }

    fn seq(&self, id: u32) -> Option<u64> {
        self.seqs.get(id.wrapping_sub(self.first) as usize).copied()
    }
}

/// Takes in a send stamp; of an ICMP error the answer that it is, and how much it quotes.
pub(super) fn noted(notice: &Notice, ids: &Ids, tracker: &mut Tracker) -> Option<(Answer, usize)> {
    match *notice {
        Notice::Sent { id, stage, at } => {
            if let Some(seq) = ids.seq(id) {
                let stamp = match stage {
                    Stage::Sched => Stamp::Sched,
                    Stage::Driver => Stamp::Driver,
                };
                tracker.stamp(seq, stamp, at);
            }
            None
        }
        Notice::Icmp {
            v6,
            kind,
            code,
            from,
            at,
            quoted,
        } => {
            let answer = Answer {
                fate: Fate::of_icmp(v6, kind, code)?,
                from,
                received: None,
                ttl: None,
                time: at.map_or(Time::Seen, Time::Stamp),
                held: Duration::ZERO,
            };
            Some((answer, quoted))
        }
        Notice::Local(_) | Notice::Other => None,
    }
}

struct Port {
    socket: StampedSocket,
    ids: Ids,
    /// Probes sent from it, without those known to be over.
    open: VecDeque<u64>,
}

pub(super) struct Datagrams {
    target: SocketAddr,
    options: PacketOptions,
    /// Every payload says which probe it is.
    numbered: bool,
    session: u32,
    ports: Vec<Port>,
    /// Which port was taken last, for when none is free.
    last: usize,
    buffer: Vec<u8>,
}

impl Datagrams {
    pub(super) fn new(
        target: SocketAddr,
        options: PacketOptions,
        smallest: u32,
    ) -> Result<Self, Error> {
        let mut this = Datagrams {
            target,
            options,
            numbered: smallest as usize >= HEADER,
            session: clock::realtime().as_nanos() as u32,
            ports: Vec::new(),
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
        self.ports.push(Port {
            socket,
            ids: Ids::default(),
            open: VecDeque::new(),
        });
        Ok(())
    }

    pub(super) fn watch(&self, poller: &Poller) -> Result<(), Error> {
        for (token, port) in (SOCKET..).zip(&self.ports) {
            poller.add(&port.socket, token, Interest::Read)?;
        }
        Ok(())
    }

    pub(super) fn set_hops(&mut self, hops: u8) -> Result<(), Error> {
        self.options.hops = Some(hops);
        let peer = self.target.ip();
        self.ports
            .iter()
            .try_for_each(|p| p.socket.set_hops(peer, hops))
    }

    /// The port for the next probe.
    fn port(&mut self, tracker: &Tracker, poller: &Poller) -> Result<usize, Error> {
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
            poller.add(&self.ports[new].socket, SOCKET + new as u64, Interest::Read)?;
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
        let which = self.port(tracker, poller)?;
        self.last = which;
        let mut payload = vec![0; size as usize];
        let probe = Probe {
            session: self.session,
            seq: seq as u32,
            server_rx: Duration::ZERO,
            server_tx: Duration::ZERO,
        };
        probe.emit_into(&mut payload);
        let mut sent = self.ports[which].socket.send(&payload);
        if sent.is_err() && sent != Err(Errno::ENOBUFS) {
            while self.notice(which, tracker)? {}
            sent = self.ports[which].socket.send(&payload);
        }
        let port = &mut self.ports[which];
        port.ids.sent(seq, sent);
        port.open.push_back(seq);
        if sent.is_ok() {
            while self.ports[which].ids.expects(seq, tracker) {
                if !self.notice(which, tracker)? {
                    self.ports[which].ids.slow = true;
                    break;
                }
            }
        }
        Ok(sent)
    }

    pub(super) fn hear(
        &mut self,
        which: usize,
        ready: &Ready,
        tracker: &mut Tracker,
    ) -> Result<(), Error> {
        // As in `icmp`: nothing is asked for that is not there.
        let noted = ready.error && self.notice(which, tracker)?;
        if ready.readable || ready.error && !noted {
            let mut buffer = std::mem::take(&mut self.buffer);
            if let Some(port) = self.ports.get(which)
                && let Some(r) = port.socket.receive(&mut buffer)?
            {
                self.answer(which, &r, &buffer[..r.len], tracker);
            }
            self.buffer = buffer;
        }
        Ok(())
    }

    /// Takes in an entry of a port's error queue. `false`: there was none.
    fn notice(&mut self, which: usize, tracker: &mut Tracker) -> Result<bool, Error> {
        let mut quoted = [0; 64];
        let Some(port) = self.ports.get(which) else {
            return Ok(false);
        };
        let Some(notice) = port.socket.notice_into(&mut quoted)? else {
            return Ok(false);
        };
        let Some((answer, n)) = noted(&notice, &port.ids, tracker) else {
            return Ok(true);
        };
        let named = self.named(&quoted[..n], tracker).map(|n| n.0);
        match named.or_else(|| self.only(which, tracker)) {
            Some(seq) => tracker.answer(seq, answer, now()),
            None => tracker.stray(),
        }
        Ok(true)
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
            held: named.map_or(Duration::ZERO, |n| n.1),
        };
        tracker.answer(seq, answer, now());
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
