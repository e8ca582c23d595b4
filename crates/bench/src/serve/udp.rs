//! Answers probes: as many bytes as came, with the kernel's stamp of when they came. Counts and sends
//! trains ([`crate::trains`]).
//!
//! Principles: an answer is never longer than its question, so a forged sender gains nothing; what
//! is no probe gets none; probes of no session are answered only where no token is asked for, and
//! only so many a second; a train goes to the address from which its session was opened by TCP, one
//! at a time for each, and counts against what that address may move. Non-goals: ICMP (the kernel answers
//! that).

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::linklayer::saturation::Train;
use evenkeel_measure::packet::Probe;
use evenkeel_sys::poll::{Interest, Poller, Waker};
use evenkeel_sys::stamp::StampedSocket;
use evenkeel_sys::{Error, PacketOptions, clock, sched};

use super::clients::{Clients, client};
use crate::trains::{self, Message, Says};

/// Probes without a session that are answered in a second: twenty probers at 5 ms.
const STRANGERS_PER_S: u32 = 4000;
/// The longest probe that is answered: a packet of an Ethernet.
const LONGEST: usize = 1500;
/// Trains that are sent at the same time.
const TRAINS: usize = 4;

/// Which sessions there are, by the lower half of their number, and whose they are.
pub(super) type Sessions = Arc<Mutex<HashMap<u32, IpAddr>>>;

/// What the thread needs.
pub(super) struct Shared {
    pub(super) sessions: Sessions,
    pub(super) clients: Arc<Mutex<Clients>>,
    /// No token is asked for.
    pub(super) strangers: bool,
}

/// Answers on `local` until `stop` is woken; returns the thread.
pub(super) fn start(
    local: SocketAddr,
    shared: Shared,
    stop: Arc<Waker>,
) -> Result<std::thread::JoinHandle<()>, Error> {
    let socket = Arc::new(StampedSocket::udp_arrivals(local)?);
    let whole = PacketOptions {
        dont_fragment: true,
        ..PacketOptions::default()
    };
    // A kernel that does not want to fragments, which only spoils the largest packets of trains.
    let _ = socket.set_options(local.ip(), &whole);
    let poller = Poller::new()?;
    poller.add(socket.as_ref(), 0, Interest::Read)?;
    poller.add(stop.as_ref(), 1, Interest::Read)?;
    std::thread::Builder::new()
        .name("probes".into())
        .spawn(move || {
            let _stop = stop;
            // Without it answers only leave later, which the stamps take out again.
            let _ = sched::realtime_thread(20);
            let mut answers = Answers {
                socket,
                shared,
                counts: HashMap::new(),
                sending: Arc::default(),
                second: Duration::ZERO,
                answered: 0,
            };
            answers.serve(&poller);
        })
        .map_err(|e| Error::io("start the thread that answers probes", &e))
}

struct Answers {
    socket: Arc<StampedSocket>,
    shared: Shared,
    /// Packets between markers, by who sends them: only those whose session is known.
    counts: HashMap<SocketAddr, u32>,
    /// Sessions to which a train is being sent.
    sending: Arc<Mutex<HashSet<u32>>>,
    second: Duration,
    answered: u32,
}

impl Answers {
    fn serve(&mut self, poller: &Poller) {
        let mut ready = Vec::new();
        let mut buffer = vec![0; 65_536];
        loop {
            if poller.wait(&mut ready).is_err() || ready.iter().any(|r| r.token == 1) {
                return;
            }
            // Errors about what was sent are of no interest, but they fill the queue.
            while let Ok(Some(_)) = self.socket.notice() {}
            while let Ok(Some(r)) = self.socket.receive(&mut buffer) {
                let Some(from) = r.from else { continue };
                let came = r.at.unwrap_or_else(clock::realtime);
                let bytes = &mut buffer[..r.len];
                if let Some(message) = Message::parse(bytes) {
                    self.train(from, came, &message);
                } else if let Some(probe) = Probe::parse(bytes) {
                    self.probe(from, came, probe, bytes);
                } else if let Some(count) = self.counts.get_mut(&from) {
                    *count = count.saturating_add(1);
                }
            }
        }
    }

    fn probe(&mut self, from: SocketAddr, came: Duration, mut probe: Probe, answer: &mut [u8]) {
        if self.whose(probe.session).is_none() {
            let now = clock::monotonic();
            if now.saturating_sub(self.second) > Duration::from_secs(1) {
                (self.second, self.answered) = (now, 0);
            }
            self.answered += 1;
            if !self.shared.strangers || self.answered > STRANGERS_PER_S {
                return;
            }
        }
        if answer.len() > LONGEST {
            return;
        }
        probe.server_rx = came;
        probe.server_tx = clock::realtime();
        probe.emit_into(answer);
        // A lost answer is a lost probe; the prober counts it.
        let _ = self.socket.send_to(answer, from);
    }

    fn whose(&self, session: u32) -> Option<IpAddr> {
        let sessions = &self.shared.sessions;
        let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&session).copied()
    }

    fn train(&mut self, from: SocketAddr, came: Duration, m: &Message) {
        let own = self.whose(m.session).map(client);
        if own != Some(client(from.ip())) {
            return;
        }
        match m.says {
            Says::Count => {
                // Whoever measures no more is forgotten with those that came in between.
                if self.counts.len() > 4096 {
                    self.counts.clear();
                }
                let count = self.counts.insert(from, 0).unwrap_or(0);
                let held = clock::realtime().saturating_sub(came);
                let says = Says::Marker {
                    held,
                    sent_in: Duration::ZERO,
                    count,
                };
                let _ = self
                    .socket
                    .send_to(&Message { says, ..m.clone() }.emit(), from);
            }
            Says::Send(ref train) => self.send(from, came, m, train.clone()),
            Says::Marker { .. } => {}
        }
    }

    fn send(&self, to: SocketAddr, came: Duration, m: &Message, train: Train) {
        let clients = &self.shared.clients;
        let mut clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.spend(to.ip(), train.bytes(), clock::monotonic()) == 0 {
            return;
        }
        drop(clients);
        let (session, seq) = (m.session, m.seq);
        let mut busy = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        if busy.len() >= TRAINS || !busy.insert(session) {
            return;
        }
        drop(busy);
        let (socket, sending) = (Arc::clone(&self.socket), Arc::clone(&self.sending));
        let job = move || {
            let _ = sched::realtime_thread(20);
            let (first, lacking) = trains::send(&socket, Some(to), trains::headers(to), &train);
            let says = Says::Marker {
                held: first.saturating_sub(came),
                sent_in: clock::realtime().saturating_sub(first),
                count: train.count - lacking,
            };
            let marker = Message { session, seq, says };
            trains::once(&socket, Some(to), &marker.emit());
            let mut sending = sending.lock().unwrap_or_else(PoisonError::into_inner);
            sending.remove(&session);
        };
        let thread = std::thread::Builder::new().name("train".into());
        if thread.spawn(job).is_err() {
            let mut busy = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
            busy.remove(&session);
        }
    }
}
