//! Trains of packets between `line` and `serve`, as bytes, and sent.
//!
//! All are UDP payloads of [`LEN`] bytes, big-endian, that begin with a mark, the session (u32) and a number
//! (u32). `EKc1` ends a train from us, and asks how many packets came before it. `EKt1` asks for a train
//! towards us: how many packets (u32), in how many us (u32), three lengths of IP packets (u16, zero where
//! there are fewer), and how much later the marker comes (u16, 10 us each). `EKm1` answers both: how long the question was held (ns, u64), in which time the train
//! was sent (us, u32), and the number of packets (u32). What is between is filling, of any length, with
//! nothing in it that could be a mark.
//!
//! Principles: parsing never panics; who asks for a train has shown by TCP that he is there; no train
//! is longer than [`LONGEST`] or larger than [`MOST_BYTES`]; nothing spins while it waits. Non-goals: what
//! trains are good for (`evenkeel_core::linklayer`).

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::linklayer::saturation::{LONGEST, Train};
use evenkeel_sys::clock;
use evenkeel_sys::stamp::StampedSocket;
use nix::errno::Errno;

/// Bytes of each payload.
pub const LEN: usize = 32;
/// What a train may have: 300 ms of 1 Gbit/s.
pub const MOST_BYTES: u64 = 40_000_000;
/// Packets of a train.
const MOST_PACKETS: u32 = 20_000;
/// A train that is spread out is so far ahead of its beat, and by no more than this share of it: a thread wakes
/// late, and the line must not wait for it.
const AHEAD: Duration = Duration::from_millis(4);
const AHEAD_SHARE: u32 = 50;
/// A full socket or device is tried again after so long.
const AGAIN: Duration = Duration::from_micros(30);
/// Headers of UDP in IPv4 and IPv6.
const HEADERS: [u32; 2] = [28, 48];

/// One of the three.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Which session.
    pub session: u32,
    /// Which of its messages.
    pub seq: u32,
    /// What it says.
    pub says: Says,
}

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// `EKc1`: how many were there?
    Count,
    /// `EKt1`: send these, and then a marker.
    Send(Train),
    /// `EKm1`.
    Marker {
        /// From the question's arrival to the answer, or to the first packet of the train.
        held: Duration,
        /// From the first packet to this one.
        sent_in: Duration,
        /// Packets before it: that came, or that were sent.
        count: u32,
    },
}

impl Message {
    /// As bytes.
    pub fn emit(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        let mark = match &self.says {
            Says::Count => b"EKc1",
            Says::Send(train) => {
                b[12..16].copy_from_slice(&train.count.to_be_bytes());
                let spread = u32::try_from(train.spread.as_micros()).unwrap_or(u32::MAX);
                b[16..20].copy_from_slice(&spread.to_be_bytes());
                for (room, size) in b[20..26].chunks_exact_mut(2).zip(&train.sizes) {
                    let size = u16::try_from(*size).unwrap_or(u16::MAX);
                    room.copy_from_slice(&size.to_be_bytes());
                }
                let pause = u16::try_from(train.pause.as_micros() / 10).unwrap_or(u16::MAX);
                b[26..28].copy_from_slice(&pause.to_be_bytes());
                b"EKt1"
            }
            Says::Marker {
                held,
                sent_in,
                count,
            } => {
                b[12..20].copy_from_slice(&(held.as_nanos() as u64).to_be_bytes());
                b[20..24].copy_from_slice(&(sent_in.as_micros() as u32).to_be_bytes());
                b[24..28].copy_from_slice(&count.to_be_bytes());
                b"EKm1"
            }
        };
        b[..4].copy_from_slice(mark);
        b[4..8].copy_from_slice(&self.session.to_be_bytes());
        b[8..12].copy_from_slice(&self.seq.to_be_bytes());
        b
    }

    /// From bytes; `None` if they are something else, or ask for what nobody sends.
    pub fn parse(b: &[u8]) -> Option<Message> {
        let b: &[u8; LEN] = b.try_into().ok()?;
        let word = |at: usize| Some(u32::from_be_bytes(b.get(at..at + 4)?.try_into().ok()?));
        let says = match &b[..4] {
            b"EKc1" => Says::Count,
            b"EKt1" => {
                let sizes = b[20..26].chunks_exact(2);
                let sizes = sizes.map(|s| u32::from(u16::from_be_bytes([s[0], s[1]])));
                let train = Train {
                    sizes: sizes.take_while(|s| *s > 0).collect(),
                    count: word(12)?,
                    spread: Duration::from_micros(word(16)?.into()),
                    pause: Duration::from_micros(
                        10 * u64::from(u16::from_be_bytes([b[26], b[27]])),
                    ),
                };
                Says::Send(may_be(train)?)
            }
            b"EKm1" => Says::Marker {
                held: Duration::from_nanos(u64::from_be_bytes(b[12..20].try_into().ok()?)),
                sent_in: Duration::from_micros(word(20)?.into()),
                count: word(24)?,
            },
            _ => return None,
        };
        Some(Message {
            session: word(4)?,
            seq: word(8)?,
            says,
        })
    }
}

/// The train, if it is one that anybody should send.
fn may_be(train: Train) -> Option<Train> {
    let sizes = train.sizes.iter().all(|s| (28..=1500).contains(s));
    let some = !train.sizes.is_empty() || train.count == 0;
    let short = train.count <= MOST_PACKETS && train.spread + train.pause <= LONGEST;
    (sizes && some && short && train.bytes() <= MOST_BYTES).then_some(train)
}

/// Bytes of headers before a payload for `to`.
pub fn headers(to: SocketAddr) -> u32 {
    HEADERS[usize::from(to.is_ipv6() && !is_mapped(to))]
}

/// An IPv4 address as an IPv6 socket sees it.
fn is_mapped(a: SocketAddr) -> bool {
    matches!(a, SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some())
}

/// Sends a train's packets, without a marker, to `to` or to the connected peer. Returns when the first one
/// went, and how many did not go.
pub fn send(
    socket: &StampedSocket,
    to: Option<SocketAddr>,
    headers: u32,
    train: &Train,
) -> (Duration, u32) {
    let filling = crate::payload(1500);
    let first = clock::realtime();
    let begun = clock::monotonic();
    let each = train.spread / train.count.max(1);
    let ahead = AHEAD.min(train.spread / AHEAD_SHARE);
    let mut lacking = 0;
    for i in 0..train.count {
        let due = (each * i).saturating_sub(ahead);
        let early = due.saturating_sub(clock_since(begun, each));
        if !early.is_zero() {
            std::thread::sleep(early);
        }
        let length = train.size(i).saturating_sub(headers) as usize;
        let Some(payload) = filling.get(..length) else {
            continue;
        };
        lacking += u32::from(!once(socket, to, payload));
    }
    let rest = train.spread.saturating_sub(ahead);
    let early = rest.saturating_sub(clock_since(begun, each));
    if train.count > 0 && !early.is_zero() {
        std::thread::sleep(early);
    }
    if !train.pause.is_zero() {
        std::thread::sleep(train.pause);
    }
    (first, lacking)
}

/// How long ago that was; a burst does not ask.
fn clock_since(begun: Duration, each: Duration) -> Duration {
    if each.is_zero() {
        return Duration::ZERO;
    }
    clock::monotonic().saturating_sub(begun)
}

/// Sends one packet, as soon as there is room. `false`: it did not go.
pub fn once(socket: &StampedSocket, to: Option<SocketAddr>, payload: &[u8]) -> bool {
    let mut refused = 0;
    loop {
        let sent = match to {
            Some(to) => socket.send_to(payload, to),
            None => socket.send(payload),
        };
        match sent {
            Ok(()) => return true,
            Err(Errno::EAGAIN | Errno::ENOBUFS) if refused < 3000 => {
                std::thread::sleep(AGAIN);
                refused += 1;
            }
            // An ICMP error about an earlier one fails the next: it goes the second time.
            Err(Errno::ECONNREFUSED | Errno::EHOSTUNREACH) if refused < 3 => {
                while let Ok(Some(_)) = socket.notice() {}
                refused += 1;
            }
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literal_bytes_and_back() {
        let train = Train {
            sizes: vec![1500, 64],
            count: 7,
            spread: Duration::from_millis(250),
            pause: Duration::from_micros(2570),
        };
        for (says, bytes) in [
            (
                Says::Count,
                &b"EKc1\0\0\0\x05\0\0\0\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..],
            ),
            (
                Says::Send(train),
                b"EKt1\0\0\0\x05\0\0\0\x09\0\0\0\x07\0\x03\xd0\x90\x05\xdc\0\x40\0\0\x01\x01\0\0\0\0",
            ),
            (
                Says::Marker {
                    held: Duration::from_nanos(258),
                    sent_in: Duration::from_micros(3),
                    count: 4,
                },
                b"EKm1\0\0\0\x05\0\0\0\x09\0\0\0\0\0\0\x01\x02\0\0\0\x03\0\0\0\x04\0\0\0\0",
            ),
        ] {
            let m = Message {
                session: 5,
                seq: 9,
                says,
            };
            assert_eq!(m.emit(), bytes);
            assert_eq!(Message::parse(bytes), Some(m));
        }
    }

    #[test]
    fn nobody_sends_what_is_too_much() {
        let ask = |sizes: &[u32], count, ms| {
            let says = Says::Send(Train {
                sizes: sizes.to_vec(),
                count,
                spread: Duration::from_millis(ms),
                pause: Duration::ZERO,
            });
            let m = Message {
                session: 1,
                seq: 1,
                says,
            };
            Message::parse(&m.emit()).is_some()
        };
        assert!(ask(&[1500], 20_000, 300) && ask(&[], 0, 0) && ask(&[28, 576, 1500], 3, 0));
        assert!(!ask(&[1500], 20_001, 0) && !ask(&[1500], 1, 301) && !ask(&[], 1, 0));
        assert!(!ask(&[27], 1, 0) && !ask(&[1501], 1, 0));
    }

    proptest! {
        #[test]
        fn nothing_panics(b in prop::collection::vec(any::<u8>(), 0..40), mark in 0usize..3) {
            let _ = Message::parse(&b);
            let mut ours = [b"EKc1", b"EKt1", b"EKm1"][mark].to_vec();
            ours.extend(b);
            ours.resize(LEN, 0);
            if let Some(m) = Message::parse(&ours) {
                prop_assert_eq!(Message::parse(&m.emit()), Some(m));
            }
        }
    }
}
