//! The load of a household: a video in bursts, pages, and beside them (elsewhere) a backup and a call.
//!
//! Principles: each page and each burst has a connection of its own, as with HTTP, so that each begins
//! as connections do; what a person waits for is timed: from the first packet of a page's connection
//! to its last byte. Non-goals: the far end's kinds (only `evenkeel serve`); the backup, which is a stream
//! like any other, and the call, which is a kind of probe.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_report::bench::form::{Page, Stream, Way};
use evenkeel_sys::{clock, tcp};

use super::load::{Live, count};
use super::own::Opener;
use crate::failed::Failed;
use crate::proto::UNREPORTED;

/// Bytes of a page: what is awaited before something can be read. This project's own figure.
const PAGE_BYTES: u64 = 500_000;
/// From one page to the next.
const PAGES: Duration = Duration::from_secs(2);
/// A video's bursts: as long, and so often.
const BURST_S: u16 = 2;
const BURSTS: Duration = Duration::from_secs(8);
/// What does not move for so long is looked at again: whether it is over.
const LOOK: Duration = Duration::from_millis(200);

/// A household under way.
#[derive(Debug)]
pub(super) struct Household {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    seen: Arc<Mutex<Seen>>,
}

/// What it saw.
#[derive(Debug, Default)]
struct Seen {
    video: Vec<u64>,
    pages: Vec<u64>,
    waited: Vec<Page>,
}

/// What every connection needs.
#[derive(Clone)]
struct Home {
    opener: Opener,
    /// The run's beginning, steady clock.
    zero: Duration,
    over: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    live: Arc<Live>,
}

impl Household {
    /// Begins.
    pub(super) fn start(opener: Opener, zero: Duration, live: Arc<Live>) -> Result<Self, Failed> {
        let home = Home {
            opener,
            zero,
            over: Arc::default(),
            seen: Arc::default(),
            live,
        };
        let mut this = Household {
            over: Arc::clone(&home.over),
            threads: Vec::new(),
            seen: Arc::clone(&home.seen),
        };
        let failed = |e: std::io::Error| Failed::Work(format!("start a household: {e}"));
        for (name, part) in [
            ("video", Home::watch as fn(&Home)),
            ("pages", Home::browse as fn(&Home)),
        ] {
            let home = home.clone();
            let builder = std::thread::Builder::new().name(name.into());
            let thread = builder.spawn(move || part(&home)).map_err(failed)?;
            this.threads.push(thread);
        }
        Ok(this)
    }

    /// Ends: streams, and how long pages took.
    pub(super) fn finish(mut self) -> (Vec<Stream>, Vec<Page>) {
        self.stop();
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let stream = |mark: &str, bytes| Stream {
            way: Way::Down,
            mark: mark.into(),
            bytes,
            by_sender: false,
            retransmits: None,
            rtt_ms: Vec::new(),
        };
        let streams = vec![stream("VIDEO", seen.video), stream("PAGES", seen.pages)];
        (streams, seen.waited)
    }

    fn stop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Household {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Home {
    fn seconds(&self) -> f64 {
        clock::monotonic().saturating_sub(self.zero).as_secs_f64()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Waits until then; `false`: it is over.
    fn rest(&self, until: Duration) -> bool {
        while !self.is_over() {
            let left = until.saturating_sub(clock::monotonic());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK));
        }
        false
    }

    /// A connection of its own, down: `most` bytes or `seconds`, whichever comes first. Whether all of it came.
    fn take(&self, seconds: u16, most: u64, into: fn(&mut Seen) -> &mut Vec<u64>) -> bool {
        let Ok(stream) = self.opener.stream(UNREPORTED, Way::Down, "", 0, seconds) else {
            return false;
        };
        let mut socket = stream.socket;
        let ready = socket.set_nonblocking(false).is_ok()
            && socket.set_read_timeout(Some(LOOK)).is_ok()
            && std::io::Write::write_all(&mut socket, &stream.head).is_ok();
        let (mut buffer, mut got) = (vec![0; 64 * 1024], 0);
        while ready && got < most && !self.is_over() {
            let room = buffer.len().min((most - got) as usize);
            match socket.read(&mut buffer[..room]) {
                Ok(0) => break,
                Ok(n) => {
                    got += n as u64;
                    let at = self.seconds();
                    let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                    count(into(&mut seen), at, n as u64);
                    self.live.down.fetch_add(n as u64, Ordering::Relaxed);
                }
                Err(e) if tries_again(&e) => {}
                Err(_) => break,
            }
        }
        // Nothing of it stays on the line.
        tcp::reset_on_close(&socket);
        got >= most
    }

    fn watch(&self) {
        let mut next = clock::monotonic();
        while self.rest(next) {
            self.take(BURST_S, u64::MAX, |s| &mut s.video);
            next += BURSTS;
        }
    }

    fn browse(&self) {
        let mut next = clock::monotonic() + PAGES / 2;
        while self.rest(next) {
            let began = self.seconds();
            let whole = self.take(60, PAGE_BYTES, |s| &mut s.pages);
            // One that the end of the load cut off was not too slow.
            if whole || !self.is_over() {
                let waited = Page {
                    t: began,
                    ms: whole.then(|| (self.seconds() - began) * 1000.0),
                };
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.waited.push(waited);
            }
            // Who waits for a page asks for no other.
            next = (next + PAGES).max(clock::monotonic());
        }
    }
}

fn tries_again(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(e.kind(), Interrupted | TimedOut | WouldBlock)
}
