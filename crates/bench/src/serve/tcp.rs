//! The server's TCP side: one thread for control connections and streams; what speaks HTTP is
//! handed over.
//!
//! Principles: nothing blocks and nothing is kept of a payload; a connection has so long to say what
//! it is, and to make progress; what belongs to a session ends with it. Non-goals: HTTP.

use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_sys::poll::{Interest, Poller, Ready, Timer, Waker};
use evenkeel_sys::tcp::{self, Io};
use evenkeel_sys::{Error, clock};
use tokio::sync::mpsc::UnboundedSender;

use super::clients::{Clients, Limits};
use super::udp::Sessions;
use crate::proto::{
    self, Answer, BIN_MS, CONTROL_HEAD, Head, LONGEST_REQUEST, Request, STREAM_HEAD, StreamHead,
    StreamReport, UNREPORTED,
};
use crate::usage::Usage;

/// A connection must say so soon what it is.
const PATIENCE: Duration = Duration::from_secs(5);
/// A stream on which nothing moves for so long is closed: a reader that does not read.
const STALLED: Duration = Duration::from_secs(15);
/// A control connection stays so long after the last it said, beyond a stream's longest time.
const SILENT: Duration = Duration::from_secs(120);
/// Between two looks at clocks and at the kernel's round trips.
const TICK: Duration = Duration::from_millis(100);
/// At most so much at once, so that connections take turns.
const CHUNK: usize = 64 * 1024;
const TURNS: usize = 8;

const STOP: u64 = 0;
const TIMER: u64 = 1;
const LISTENERS: u64 = 2;
const FIRST: u64 = 1000;

/// What the server's threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) token: String,
    pub(super) limits: Limits,
    pub(super) clients: Arc<Mutex<Clients>>,
    pub(super) sessions: Sessions,
    pub(super) http: UnboundedSender<TcpStream>,
}

/// Begins to serve.
pub(super) fn start(
    listeners: Vec<TcpListener>,
    shared: Shared,
    stop: Arc<Waker>,
) -> Result<JoinHandle<()>, Error> {
    let (poller, timer) = (Poller::new()?, Timer::new()?);
    poller.add(stop.as_ref(), STOP, Interest::Read)?;
    poller.add(&timer, TIMER, Interest::Read)?;
    timer.every(clock::monotonic() + TICK, TICK)?;
    for (token, l) in (LISTENERS..).zip(&listeners) {
        poller.add(l, token, Interest::Read)?;
    }
    let mut server = TcpServer {
        listeners,
        shared,
        poller,
        timer,
        connections: HashMap::new(),
        sessions: HashMap::new(),
        next: FIRST,
        payload: crate::payload(CHUNK),
    };
    std::thread::Builder::new()
        .name("serve".into())
        .spawn(move || {
            let _stop = stop;
            server.run();
        })
        .map_err(|e| Error::io("start the server's thread", &e))
}

struct Connection {
    socket: TcpStream,
    peer: IpAddr,
    /// When it last said or moved something.
    active: Duration,
    kind: Kind,
}

enum Kind {
    /// It has not said yet what it is.
    Fresh,
    Control {
        session: Option<u64>,
        heard: Vec<u8>,
        unsent: Vec<u8>,
    },
    Stream {
        head: StreamHead,
        began: Duration,
    },
}

/// What belongs to one control connection.
struct Session {
    control: u64,
    streams: HashSet<u64>,
    reports: HashMap<u16, StreamReport>,
    usage: Usage,
}

struct TcpServer {
    listeners: Vec<TcpListener>,
    shared: Shared,
    poller: Poller,
    timer: Timer,
    connections: HashMap<u64, Connection>,
    sessions: HashMap<u64, Session>,
    next: u64,
    payload: Vec<u8>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TcpServer {
    fn run(&mut self) {
        let mut ready = Vec::new();
        loop {
            if self.poller.wait(&mut ready).is_err() {
                return;
            }
            let now = clock::monotonic();
            for r in &ready {
                match r.token {
                    STOP => return,
                    TIMER => {
                        self.timer.clear();
                        self.tick(now);
                    }
                    token if token < FIRST => self.accept((token - LISTENERS) as usize, now),
                    token => self.on_ready(token, *r, now),
                }
            }
        }
    }

    fn accept(&mut self, listener: usize, now: Duration) {
        // A few at a time: those that are connected have their turn, too.
        for _ in 0..32 {
            let Some(Ok((socket, peer))) = self.listeners.get(listener).map(TcpListener::accept)
            else {
                return;
            };
            let peer = peer.ip();
            if lock(&self.shared.clients).admit(peer, now).is_err() {
                tcp::reset_on_close(&socket);
                continue;
            }
            let token = self.next;
            self.next += 1;
            let usable = socket.set_nonblocking(true).is_ok()
                && self.poller.add(&socket, token, Interest::Read).is_ok();
            if !usable {
                lock(&self.shared.clients).closed(peer);
                continue;
            }
            let fresh = Connection {
                socket,
                peer,
                active: now,
                kind: Kind::Fresh,
            };
            self.connections.insert(token, fresh);
        }
    }

    fn on_ready(&mut self, token: u64, r: Ready, now: Duration) {
        let Some(c) = self.connections.get_mut(&token) else {
            return;
        };
        let keeps = match &c.kind {
            _ if r.error => Err("the connection broke".to_owned()),
            Kind::Fresh => self.first_bytes(token, now),
            Kind::Control { .. } => self.control(token, r, now),
            Kind::Stream { head, began } => {
                let (head, began) = (*head, *began);
                self.stream(token, head, began, now)
            }
        };
        if let Err(why) = keeps {
            self.close(token, &why);
        }
    }

    /// What is it? It is looked at without being taken, so that it can be handed over whole.
    fn first_bytes(&mut self, token: u64, now: Duration) -> Result<(), String> {
        let Some(c) = self.connections.get_mut(&token) else {
            return Ok(());
        };
        let mut b = [0; STREAM_HEAD];
        let n = match c.socket.peek(&mut b) {
            Ok(0) => return Err(String::new()),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(e.to_string()),
        };
        match proto::head(&b[..n]) {
            // Level triggered: it would be told of the same bytes again and again. Who sends his
            // head byte by byte is nobody we know.
            Head::More | Head::Bad => Err("not of this protocol".into()),
            Head::Control => {
                let _ = (&c.socket).read(&mut b[..CONTROL_HEAD]);
                let _ = c.socket.set_nodelay(true);
                c.kind = Kind::Control {
                    session: None,
                    heard: Vec::new(),
                    unsent: Vec::new(),
                };
                Ok(())
            }
            Head::Stream(head) => {
                let _ = (&c.socket).read(&mut b);
                self.begin_stream(token, head, now)
            }
            Head::Foreign => {
                let Some(c) = self.connections.remove(&token) else {
                    return Ok(());
                };
                let _ = self.poller.remove(&c.socket);
                // It counts as a connection until the other side is done with it.
                if self.shared.http.send(c.socket).is_err() {
                    lock(&self.shared.clients).closed(c.peer);
                }
                Ok(())
            }
        }
    }

    fn begin_stream(&mut self, token: u64, head: StreamHead, now: Duration) -> Result<(), String> {
        let Some(c) = self.connections.get_mut(&token) else {
            return Ok(());
        };
        let session = self.sessions.get_mut(&head.session);
        let session = session.ok_or("no such session")?;
        if !(head.download && head.id == UNREPORTED) {
            if head.id as usize >= self.shared.limits.per_client
                || session.reports.contains_key(&head.id)
            {
                return Err("no such stream".into());
            }
            let report = StreamReport {
                id: head.id,
                ..StreamReport::default()
            };
            session.reports.insert(head.id, report);
        }
        session.streams.insert(token);
        c.kind = Kind::Stream { head, began: now };
        c.active = now;
        if head.download {
            let _ = tcp::set_tos(&c.socket, c.peer, head.tos);
            let change = self.poller.change(&c.socket, token, Interest::Write);
            change.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn stream(
        &mut self,
        token: u64,
        head: StreamHead,
        began: Duration,
        now: Duration,
    ) -> Result<(), String> {
        let Some(c) = self.connections.get_mut(&token) else {
            return Ok(());
        };
        let mut moved = 0u64;
        let mut end = None;
        for _ in 0..TURNS {
            if head.download {
                match (&c.socket).write(&self.payload) {
                    Ok(n) => moved += n as u64,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => end = Some(String::new()),
                }
            } else {
                match tcp::discard(&c.socket, TURNS * CHUNK) {
                    Io::Moved(n) => moved += n as u64,
                    Io::Later => break,
                    Io::Closed => end = Some(String::new()),
                }
            }
            if end.is_some() {
                break;
            }
        }
        if moved > 0 {
            c.active = now;
            if lock(&self.shared.clients).spend(c.peer, moved, now) == 0 {
                end = Some("this address has moved as many bytes as it may in an hour".into());
            }
        }
        let report = self.sessions.get_mut(&head.session);
        if let (false, Some(report)) = (
            head.download,
            report.and_then(|s| s.reports.get_mut(&head.id)),
        ) {
            let bin = (now.saturating_sub(began).as_millis() as u64 / BIN_MS) as usize;
            // Streams end after `limits.seconds`, which bounds this.
            if report.bytes.len() <= bin {
                report.bytes.resize(bin + 1, 0);
            }
            report.bytes[bin] += moved;
        }
        end.map_or(Ok(()), Err)
    }

    fn control(&mut self, token: u64, r: Ready, now: Duration) -> Result<(), String> {
        let Some(c) = self.connections.get_mut(&token) else {
            return Ok(());
        };
        let Kind::Control {
            session,
            heard,
            unsent,
        } = &mut c.kind
        else {
            return Ok(());
        };
        if r.readable {
            let mut b = [0; LONGEST_REQUEST];
            match (&c.socket).read(&mut b) {
                Ok(0) => return Err(String::new()),
                Ok(n) => heard.extend(&b[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.to_string()),
            }
        }
        let (known, peer) = (*session, c.peer);
        let mut request = None;
        if unsent.is_empty() {
            request = proto::take::<Request>(heard, LONGEST_REQUEST)?;
        }
        if let Some(request) = request {
            c.active = now;
            let (answer, new) = self.answer(token, known, peer, request, now);
            let Some(c) = self.connections.get_mut(&token) else {
                return Ok(());
            };
            if let Kind::Control {
                session, unsent, ..
            } = &mut c.kind
            {
                *session = new.or(*session);
                unsent.extend(proto::emit(&answer));
            }
        }
        self.flush(token)
    }

    /// Sends what a control connection is to hear.
    fn flush(&mut self, token: u64) -> Result<(), String> {
        let Some(c) = self.connections.get_mut(&token) else {
            return Ok(());
        };
        let Kind::Control { unsent, .. } = &mut c.kind else {
            return Ok(());
        };
        while !unsent.is_empty() {
            match (&c.socket).write(unsent) {
                Ok(n) => drop(unsent.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e.to_string()),
            }
        }
        let interest = if unsent.is_empty() {
            Interest::Read
        } else {
            Interest::Write
        };
        let change = self.poller.change(&c.socket, token, interest);
        change.map_err(|e| e.to_string())
    }

    fn answer(
        &mut self,
        token: u64,
        session: Option<u64>,
        peer: IpAddr,
        request: Request,
        now: Duration,
    ) -> (Answer, Option<u64>) {
        let refuse = |why: &str| (Answer::Refused { why: why.into() }, None);
        match (request, session) {
            (Request::Hello { version, .. }, _) if version != proto::VERSION => refuse(&format!(
                "this server speaks version {}, not {version}",
                proto::VERSION
            )),
            (Request::Hello { token: said, .. }, None) => {
                if !same(&said, &self.shared.token) {
                    return refuse("the token is missing or wrong");
                }
                let Some(session) = crate::random() else {
                    return refuse("the server has no random numbers");
                };
                let fresh = Session {
                    control: token,
                    streams: HashSet::new(),
                    reports: HashMap::new(),
                    usage: Usage::now(),
                };
                self.sessions.insert(session, fresh);
                lock(&self.shared.sessions).insert(session as u32, peer);
                let limits = self.shared.limits;
                let welcome = Answer::Welcome {
                    session,
                    seconds: limits.seconds,
                    streams: (limits.per_client.saturating_sub(1)).min(u16::MAX.into()) as u16,
                    bytes: lock(&self.shared.clients).spend(peer, 0, now),
                };
                (welcome, Some(session))
            }
            (Request::Report, Some(id)) => match self.sessions.get_mut(&id) {
                Some(s) => {
                    let (cpu, machine) = s.usage.since();
                    let streams = s.reports.values().cloned().collect();
                    (
                        Answer::Results {
                            streams,
                            cpu,
                            machine: machine.unwrap_or(0.0),
                        },
                        None,
                    )
                }
                None => refuse("the session has ended"),
            },
            _ => refuse("that makes no sense here"),
        }
    }

    fn tick(&mut self, now: Duration) {
        let limit = Duration::from_secs(self.shared.limits.seconds.into());
        let mut over = Vec::new();
        for (token, c) in &self.connections {
            let idle = now.saturating_sub(c.active);
            match &c.kind {
                Kind::Fresh if idle > PATIENCE => over.push((*token, "nothing was said")),
                Kind::Control { session: None, .. } if idle > PATIENCE => {
                    over.push((*token, "nothing was said"));
                }
                Kind::Control { .. } if idle > limit + SILENT => over.push((*token, "silent")),
                Kind::Stream { head, began } => {
                    let age = now.saturating_sub(*began);
                    if idle > STALLED {
                        over.push((*token, "nothing moved for 15 s"));
                    } else if age > limit.min(Duration::from_secs(head.seconds.into())) {
                        over.push((*token, ""));
                    }
                    let report = self.sessions.get_mut(&head.session);
                    if let (true, Some(report), Some(info)) = (
                        head.download,
                        report.and_then(|s| s.reports.get_mut(&head.id)),
                        tcp::info(&c.socket),
                    ) {
                        report
                            .rtt
                            .push((age.as_millis() as u32, info.rtt.as_micros() as u32));
                        report.retransmits = info.retransmits;
                    }
                }
                Kind::Fresh | Kind::Control { .. } => {}
            }
        }
        for (token, why) in over {
            self.close(token, why);
        }
    }

    fn close(&mut self, token: u64, why: &str) {
        let Some(c) = self.connections.remove(&token) else {
            return;
        };
        let _ = self.poller.remove(&c.socket);
        lock(&self.shared.clients).closed(c.peer);
        match c.kind {
            Kind::Fresh => {}
            Kind::Stream { head, .. } => {
                tcp::reset_on_close(&c.socket);
                if let Some(s) = self.sessions.get_mut(&head.session) {
                    s.streams.remove(&token);
                    if let Some(report) = s.reports.get_mut(&head.id) {
                        why.clone_into(&mut report.why);
                    }
                }
            }
            Kind::Control { session, .. } => {
                let Some(id) = session else { return };
                let Some(s) = self.sessions.remove(&id).filter(|s| s.control == token) else {
                    return;
                };
                lock(&self.shared.sessions).remove(&(id as u32));
                for stream in s.streams {
                    self.close(stream, "");
                }
            }
        }
    }
}

/// Whether two tokens are the same, in a time that does not tell how much of it was right.
fn same(a: &str, b: &str) -> bool {
    let differs = a.bytes().zip(b.bytes()).fold(0, |d, (a, b)| d | (a ^ b));
    b.is_empty() || (a.len() == b.len() && differs == 0)
}
