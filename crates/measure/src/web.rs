//! Short TCP connections: a request, an answer of some kB, the end; each is timed.
//!
//! Principles: connections begin when a list says, whether earlier ones are done or not; the time
//! runs from `connect` to the answer's last byte; one thread inside the client's namespace
//! serves both ends. Non-goals: HTTP, TLS, several answers on one connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use evenkeel_sys::poll::{Interest, Poller, Timer};
use evenkeel_sys::tcp::{Io, Tcp};
use evenkeel_sys::{Error, Netns, clock};
use nix::sys::socket::{MsgFlags, recv};

use crate::load::{BIN, FlowOutcome};
use crate::task::Task;

/// Bytes of a request; the first eight are the length of the answer.
const REQUEST: usize = 300;
const CHUNK: usize = 64 * 1024;

/// Connections to be.
#[derive(Debug, Clone)]
pub struct Web {
    /// For results and messages.
    pub name: String,
    /// Where the server listens; the port is theirs alone.
    pub server: SocketAddr,
    /// Congestion control at both ends.
    pub congestion: String,
    /// From the start of the load to each `connect`, ascending, and bytes of the answer.
    pub pages: Vec<(Duration, u64)>,
}

/// What became of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WebOutcome {
    /// Payload over time and retransmits, as of a bulk flow.
    pub flow: FlowOutcome,
    /// For each that was begun: when, how many bytes, and how long it took; `None` if it was not
    /// done at the end of the load.
    pub pages: Vec<(Duration, u64, Option<Duration>)>,
}

const LISTENER: u64 = 0;
const TIMER: u64 = 1;
const STOP: u64 = 2;
const FIRST: u64 = 4;

/// A client's end.
struct Asking {
    socket: Tcp,
    page: usize,
    begun: Duration,
    asked: bool,
    left: u64,
}

/// A server's end.
struct Answering {
    socket: Tcp,
    request: Vec<u8>,
    left: u64,
}

impl Web {
    /// Runs the connections from `start` (steady clock) for `duration`.
    pub fn begin(
        self,
        client: &Netns,
        server: &Netns,
        start: Duration,
        duration: Duration,
    ) -> Result<Task<WebOutcome>, Error> {
        let listener = server.run(|| Tcp::listener(self.server, &self.congestion))??;
        Task::start(client, "web", move |stop| {
            let (poller, timer) = (Poller::new()?, Timer::new()?);
            poller.add(&listener, LISTENER, Interest::Read)?;
            poller.add(&timer, TIMER, Interest::Read)?;
            poller.add(stop.as_ref(), STOP, Interest::Read)?;
            let engine = Engine {
                outcome: WebOutcome {
                    flow: FlowOutcome {
                        name: self.name.clone(),
                        ..FlowOutcome::default()
                    },
                    pages: Vec::new(),
                },
                web: self,
                listener,
                poller,
                timer,
                start,
                end: start + duration,
                asking: BTreeMap::new(),
                answering: BTreeMap::new(),
                token: FIRST,
                zeros: vec![0; CHUNK],
            };
            engine.run()
        })
    }
}

struct Engine {
    web: Web,
    outcome: WebOutcome,
    listener: Tcp,
    poller: Poller,
    timer: Timer,
    start: Duration,
    end: Duration,
    asking: BTreeMap<u64, Asking>,
    answering: BTreeMap<u64, Answering>,
    token: u64,
    zeros: Vec<u8>,
}

impl Engine {
    fn run(mut self) -> Result<WebOutcome, Error> {
        let mut ready = Vec::new();
        loop {
            let now = clock::monotonic();
            if now >= self.end {
                break;
            }
            let next = self.connect_due(now)?;
            self.timer.set(next.min(self.end))?;
            self.poller.wait(&mut ready)?;
            for r in &ready {
                match r.token {
                    TIMER => self.timer.clear(),
                    STOP => return Ok(WebOutcome::default()),
                    LISTENER => self.accept()?,
                    token if self.asking.contains_key(&token) => self.ask(token)?,
                    token => self.answer(token)?,
                }
            }
        }
        for a in self.asking.values() {
            a.socket.reset_on_close();
        }
        for a in self.answering.values() {
            a.socket.reset_on_close();
            self.outcome.flow.retransmits += a.socket.retransmits();
        }
        let bins = self.end.saturating_sub(self.start).as_nanos() / BIN.as_nanos();
        self.outcome.flow.bins.resize(bins as usize, 0);
        Ok(self.outcome)
    }

    fn next_token(&mut self) -> u64 {
        self.token += 1;
        self.token
    }

    /// Begins what is due; when the next one is.
    fn connect_due(&mut self, now: Duration) -> Result<Duration, Error> {
        loop {
            let page = self.outcome.pages.len();
            let Some(&(at, bytes)) = self.web.pages.get(page) else {
                return Ok(Duration::MAX);
            };
            let due = self.start + at;
            if due > now {
                return Ok(due);
            }
            let socket = Tcp::new(self.web.server, &self.web.congestion)?;
            socket.connect(self.web.server)?;
            let token = self.next_token();
            self.poller.add(&socket, token, Interest::Write)?;
            self.outcome.pages.push((at, bytes, None));
            let asking = Asking {
                socket,
                page,
                begun: now,
                asked: false,
                left: bytes,
            };
            self.asking.insert(token, asking);
        }
    }

    fn accept(&mut self) -> Result<(), Error> {
        while let Some(socket) = self.listener.accept()? {
            let token = self.next_token();
            self.poller.add(&socket, token, Interest::Read)?;
            let answering = Answering {
                socket,
                request: Vec::new(),
                left: 0,
            };
            self.answering.insert(token, answering);
        }
        Ok(())
    }

    fn ask(&mut self, token: u64) -> Result<(), Error> {
        let Some(a) = self.asking.get_mut(&token) else {
            return Ok(());
        };
        let io = if a.asked {
            a.socket.discard(1 << 20)
        } else {
            let mut request = vec![0; REQUEST];
            request[..8].copy_from_slice(&a.left.to_be_bytes());
            let io = a.socket.send(&request);
            if matches!(io, Io::Moved(_)) {
                a.asked = true;
                self.poller.change(&a.socket, token, Interest::Read)?;
            }
            match io {
                Io::Closed => Io::Closed,
                Io::Moved(_) | Io::Later => Io::Later,
            }
        };
        let now = clock::monotonic();
        match io {
            Io::Later => return Ok(()),
            Io::Closed => {
                self.poller.remove(&a.socket)?;
                self.asking.remove(&token);
                return Ok(());
            }
            Io::Moved(n) => {
                a.left = a.left.saturating_sub(n as u64);
                let bin = now.saturating_sub(self.start).as_nanos() / BIN.as_nanos();
                let bins = &mut self.outcome.flow.bins;
                if bins.len() <= bin as usize {
                    bins.resize(bin as usize + 1, 0);
                }
                bins[bin as usize] += n as u64;
            }
        }
        if a.left == 0 {
            if let Some(p) = self.outcome.pages.get_mut(a.page) {
                p.2 = Some(now.saturating_sub(a.begun));
            }
            self.poller.remove(&a.socket)?;
            self.asking.remove(&token);
        }
        Ok(())
    }

    fn answer(&mut self, token: u64) -> Result<(), Error> {
        let Some(a) = self.answering.get_mut(&token) else {
            return Ok(());
        };
        let mut over = false;
        if a.request.len() < REQUEST {
            let mut buffer = [0; REQUEST];
            let room = REQUEST - a.request.len();
            let fd = a.socket.as_fd().as_raw_fd();
            match recv(fd, &mut buffer[..room], MsgFlags::MSG_DONTWAIT) {
                Ok(0) => over = true,
                Ok(n) => a.request.extend_from_slice(&buffer[..n]),
                Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {}
                Err(_) => over = true,
            }
            if a.request.len() == REQUEST {
                a.left = a
                    .request
                    .first_chunk()
                    .map_or(0, |c| u64::from_be_bytes(*c));
                self.poller.change(&a.socket, token, Interest::Write)?;
            }
        } else {
            let want = (self.zeros.len() as u64).min(a.left) as usize;
            match a.socket.send(&self.zeros[..want]) {
                Io::Moved(n) => a.left -= n as u64,
                Io::Later => {}
                Io::Closed => over = true,
            }
            over |= a.left == 0;
        }
        if over {
            // What the kernel still has goes out, and then the end.
            self.outcome.flow.retransmits += a.socket.retransmits();
            self.poller.remove(&a.socket)?;
            self.answering.remove(&token);
        }
        Ok(())
    }
}
