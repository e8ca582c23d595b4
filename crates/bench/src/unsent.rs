//! What a connection of HTTP has unsent on its way into the kernel: what it carries in 5 ms, as
//! draft-ietf-ippm-responsiveness-09 (6.1.1) wants it, so that requests and small answers that share
//! it with a load do not wait in this machine.
//!
//! Principle: the rate is the kernel's, of bytes that were acknowledged. Non-goals: queues beyond the socket.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel_sys::{clock, tcp};
use hyper::body::Bytes;

/// Between two looks at the rate.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// What may wait, s of the connection's rate.
const WAITS: f64 = 0.005;
/// Bytes that may wait at any rate: two segments, so that one is there when another leaves.
const LEAST: u32 = 2 * 1460;
/// And at most.
const MOST: u32 = 128 * 1024;
/// What may wait in TLS: a record (RFC 8446, 5.1).
pub(crate) const TLS: usize = 16 * 1024;

/// A socket whose unsent bytes are bounded.
#[derive(Debug)]
pub(crate) struct Unsent {
    socket: TcpStream,
    /// When was looked last, and what had been acknowledged.
    seen: (Duration, u64),
    piece: Piece,
}

/// How much of a load is handed over at once: no more than may wait.
#[derive(Debug, Clone)]
pub(crate) struct Piece(Arc<AtomicU32>);

impl Default for Piece {
    fn default() -> Self {
        Piece(Arc::new(AtomicU32::new(LEAST)))
    }
}

impl Piece {
    /// The first bytes of a chunk, and so much of it at most.
    pub(crate) fn of(&self, chunk: &Bytes, most: u64) -> Bytes {
        let n = u64::from(self.0.load(Ordering::Relaxed)).min(most);
        chunk.slice(..chunk.len().min(n as usize))
    }
}

impl Unsent {
    /// Bounds those of `socket`, by little until its rate is known.
    pub(crate) fn bound(socket: TcpStream) -> Self {
        let _ = tcp::bound_unsent(&socket, LEAST);
        Unsent {
            socket,
            seen: (clock::monotonic(), 0),
            piece: Piece::default(),
        }
    }

    /// What loads on it are made of.
    pub(crate) fn piece(&self) -> Piece {
        self.piece.clone()
    }

    /// Looks at the rate; to be called every [`LOOK`].
    pub(crate) fn look(&mut self) {
        let Some(info) = tcp::info(&self.socket) else {
            return;
        };
        let now = clock::monotonic();
        let seconds = now.saturating_sub(self.seen.0).as_secs_f64();
        let bytes = info.acked.saturating_sub(self.seen.1);
        self.seen = (now, info.acked);
        let may = fits(bytes, seconds);
        if may != self.piece.0.swap(may, Ordering::Relaxed) {
            let _ = tcp::bound_unsent(&self.socket, may);
        }
    }
}

/// What may wait where `bytes` were carried in so many seconds.
fn fits(bytes: u64, seconds: f64) -> u32 {
    ((bytes as f64 / seconds.max(1e-3) * WAITS) as u32).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_milliseconds_of_the_rate() {
        // 100 Mbit/s, as the draft's example; a slow line; a fast one.
        assert_eq!(fits(1_250_000, 0.1), 62_500);
        assert_eq!(fits(1_000, 0.1), LEAST);
        assert_eq!(fits(12_500_000, 0.1), MOST);
        assert_eq!(fits(0, 0.0), LEAST);
    }

    #[test]
    fn pieces_are_no_longer_than_there_is() {
        let piece = Piece(Arc::new(AtomicU32::new(5)));
        let chunk = Bytes::from_static(b"0123456789");
        assert_eq!(piece.of(&chunk, 100), &b"01234"[..]);
        assert_eq!(piece.of(&chunk, 2), &b"01"[..]);
        assert_eq!(piece.of(&chunk.slice(..3), 100), &b"012"[..]);
    }
}
