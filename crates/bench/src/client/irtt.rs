//! A client of irtt's servers: their pings, judged like ours.
//!
//! Its protocol, version 1, as irtt 0.9 speaks it over UDP, least significant bytes first: a packet is the
//! magic number (3 bytes), flags, the token of the connection (8), and of an echo the sequence number (4) and what
//! was agreed upon, here the server's stamps of receiving and sending by its wall clock (8 each). What is agreed
//! upon stands in the packets that open, as pairs of a number and a value (variable-length integers, as
//! Protocol Buffers have them).
//! With a key (its `--hmac`) the flags are followed by an HMAC-MD5 (16) of the whole packet, in which it stands as zeros.
//! Principles: no more is asked for than is used; what the server allows is taken. Non-goals: its payloads, loads.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use evenkeel_measure::packet::Probe;
use evenkeel_measure::prober::Form;
use evenkeel_sys::clock;
use evenkeel_sys::stamp::StampedSocket;
use hmac::{Hmac, Mac as _};
use md5::Md5;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::failed::Failed;

/// irtt's port.
pub const PORT: u16 = 2112;

const MAGIC: [u8; 3] = [0x14, 0xa7, 0x5b];
/// Flags.
const OPEN: u8 = 1;
const REPLY: u8 = 2;
const CLOSE: u8 = 4;
const HMAC: u8 = 8;
/// Bytes of an HMAC-MD5, which stands before the token.
const SEAL: usize = 16;
/// What may be agreed upon.
const VERSION: u64 = 1;
const DURATION: u64 = 2;
const INTERVAL: u64 = 3;
const STAMPS: u64 = 6;
const CLOCK: u64 = 7;
/// Its only version; stamps of sending (1) and receiving (2); the wall clock.
const VERSION_1: i64 = 1;
const BOTH: i64 = 3;
const WALL: i64 = 1;
/// Where the parts of an echo stand.
const TOKEN: usize = 4;
const SEQ: usize = 12;
const RECEIVED: usize = 16;
const SENT: usize = 24;
const ECHO: usize = 32;

/// How long is waited for an answer to each of the packets that open, s; irtt's own client does so.
const PATIENCE: [u64; 4] = [1, 2, 4, 8];

/// What seals packets, so that a server answers those only who know it.
#[derive(Clone, PartialEq)]
pub struct Key(Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl std::str::FromStr for Key {
    type Err = &'static str;

    /// As irtt's `--hmac` has it: text, or `0x` and the bytes in hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = match text.strip_prefix("0x") {
            None => text.as_bytes().to_vec(),
            Some(digits) => {
                let digits = digits.as_bytes().chunks(2);
                let byte = |two: &[u8]| {
                    let is_byte = two.len() == 2 && two.iter().all(u8::is_ascii_hexdigit);
                    let two = str::from_utf8(two).ok().filter(|_| is_byte)?;
                    u8::from_str_radix(two, 16).ok()
                };
                let bytes: Option<Vec<u8>> = digits.map(byte).collect();
                bytes.ok_or("after 0x two hexadecimal digits for each byte are wanted")?
            }
        };
        if bytes.is_empty() {
            return Err("it is empty");
        }
        Ok(Key(bytes))
    }
}

impl Key {
    fn hmac(&self, packet: &[u8]) -> Hmac<Md5> {
        let mut hmac = Hmac::<Md5>::new_from_slice(&self.0).expect("a key may have any length");
        hmac.update(packet);
        hmac
    }

    /// A packet with its seal.
    fn seal(&self, packet: &[u8]) -> Vec<u8> {
        let (head, rest) = packet.split_at(TOKEN);
        let mut sealed = [head, &[0; SEAL], rest].concat();
        sealed[TOKEN - 1] |= HMAC;
        let seal = self.hmac(&sealed).finalize().into_bytes();
        sealed[TOKEN..TOKEN + SEAL].copy_from_slice(&seal);
        sealed
    }

    /// A packet without its seal; nothing if that is not ours.
    fn unseal(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let seal = sealed.get(TOKEN..TOKEN + SEAL)?;
        let mut packet = sealed.to_vec();
        packet[TOKEN..TOKEN + SEAL].fill(0);
        self.hmac(&packet).verify_slice(seal).ok()?;
        packet.drain(TOKEN..TOKEN + SEAL);
        packet[TOKEN - 1] &= !HMAC;
        Some(packet)
    }
}

/// A packet as it is sent.
fn sealed(key: Option<&Key>, packet: Vec<u8>) -> Vec<u8> {
    match key {
        None => packet,
        Some(key) => key.seal(&packet),
    }
}

/// A packet as it was before it was sent; nothing if it is nobody's who knows the key.
fn unsealed<'p>(key: Option<&Key>, packet: &'p [u8]) -> Option<Cow<'p, [u8]>> {
    match key {
        None => Some(packet.into()),
        Some(key) => key.unseal(packet).map(Cow::Owned),
    }
}

/// A connection that is open.
#[derive(Debug)]
pub struct Session {
    /// Whom the server knows.
    pub(super) socket: StampedSocket,
    /// Datagrams that it has sent.
    pub(super) sent: u32,
    /// The shortest time from one ping to the next.
    pub(super) interval: Duration,
    /// How long the server answers.
    pub(super) duration: Duration,
    pub(super) form: Echoes,
}

impl Session {
    /// Opens a connection for pings at an interval, for so long.
    pub fn open(
        to: SocketAddr,
        interval: Duration,
        duration: Duration,
        key: Option<&Key>,
    ) -> Result<Self, Failed> {
        let any: SocketAddr = if to.is_ipv6() {
            ([0u16; 8], 0).into()
        } else {
            ([0, 0, 0, 0], 0).into()
        };
        let socket = StampedSocket::udp(any)?;
        socket.connect(to)?;
        let mut question = head(OPEN).to_vec();
        for (what, value) in [
            (VERSION, VERSION_1),
            (DURATION, duration.as_nanos() as i64),
            (INTERVAL, interval.as_nanos() as i64),
            (STAMPS, BOTH),
            (CLOCK, WALL),
        ] {
            put(&mut question, what);
            put(&mut question, zigzag(value));
        }
        let question = sealed(key, question);
        for (sent, seconds) in (1..).zip(PATIENCE) {
            socket
                .send(&question)
                .map_err(|e| Failed::Work(format!("send to irtt at {to}: {e}")))?;
            let until = clock::monotonic() + Duration::from_secs(seconds);
            while let Some(answer) = answer(&socket, until)? {
                let Some(answer) = unsealed(key, &answer) else {
                    continue;
                };
                let Some(agreed) = Agreed::of(&answer).map_err(|why| refused(to, why))? else {
                    continue;
                };
                return Ok(Session {
                    socket,
                    sent,
                    interval: agreed.interval.unwrap_or(interval),
                    duration: agreed.duration.unwrap_or(duration),
                    form: Echoes {
                        token: agreed.token,
                        stamped: agreed.stamped,
                        key: key.cloned(),
                    },
                });
            }
        }
        let is_it = match key {
            None => "without --hmac (which wants --irtt-key)",
            Some(_) => "with this key as its --hmac",
        };
        Err(Failed::Work(format!(
            "irtt at {to} does not answer: is it an irtt server, {is_it}?"
        )))
    }
}

fn refused(to: SocketAddr, why: &str) -> Failed {
    Failed::Work(format!("irtt at {to}: {why}"))
}

/// Waits for a datagram.
fn answer(socket: &StampedSocket, until: Duration) -> Result<Option<Vec<u8>>, Failed> {
    let mut buffer = [0; 512];
    loop {
        // Stamps of what was sent would wake us again and again; an ICMP error is worth another try.
        while socket.notice()?.is_some() {}
        if let Ok(Some(r)) = socket.receive(&mut buffer) {
            return Ok(Some(buffer[..r.len].to_vec()));
        }
        let left = until.saturating_sub(clock::monotonic());
        if left.is_zero() {
            return Ok(None);
        }
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        let wait = PollTimeout::try_from(left + Duration::from_millis(1));
        let _ = poll(&mut fds, wait.unwrap_or(PollTimeout::MAX));
    }
}

fn head(flags: u8) -> [u8; 4] {
    [MAGIC[0], MAGIC[1], MAGIC[2], flags]
}

/// A signed number as an unsigned one (Protocol Buffers: `sint64`).
fn zigzag(v: i64) -> u64 {
    (v << 1 ^ v >> 63) as u64
}

/// Appends a number, seven bits to a byte.
fn put(to: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        to.push(v as u8 | 0x80);
        v >>= 7;
    }
    to.push(v as u8);
}

/// Takes a number from the front.
fn take(from: &mut &[u8]) -> Option<u64> {
    let mut v = 0u64;
    for i in 0..10 {
        let (first, rest) = from.split_first()?;
        *from = rest;
        v |= u64::from(first & 0x7f) << (7 * i);
        if first & 0x80 == 0 {
            return Some(v);
        }
    }
    None
}

/// What an answer to a packet that opens says.
#[derive(Debug, PartialEq)]
struct Agreed {
    token: [u8; 8],
    interval: Option<Duration>,
    duration: Option<Duration>,
    /// Both stamps, by the wall clock and no other.
    stamped: bool,
}

impl Agreed {
    /// From bytes; nothing if they are something else.
    fn of(bytes: &[u8]) -> Result<Option<Self>, &'static str> {
        let flags = match bytes.get(..TOKEN) {
            Some(h) if h[..3] == MAGIC && h[3] & (OPEN | REPLY) == OPEN | REPLY => h[3],
            _ => return Ok(None),
        };
        if flags & HMAC != 0 {
            return Err("it wants a key (its --hmac): --irtt-key");
        }
        if flags & CLOSE != 0 {
            return Err("it speaks another version of its protocol than 1");
        }
        let Some(token) = bytes.get(TOKEN..SEQ).and_then(|t| t.try_into().ok()) else {
            return Ok(None);
        };
        let (mut interval, mut duration, mut stamps, mut clock) = (None, None, 0, 0);
        let mut rest = &bytes[SEQ..];
        while let Some(what) = take(&mut rest) {
            let Some(value) = take(&mut rest).map(|v| (v >> 1) as i64 ^ -((v & 1) as i64)) else {
                break;
            };
            let time = Duration::from_nanos(value.max(0) as u64);
            match what {
                DURATION => duration = Some(time),
                INTERVAL => interval = Some(time),
                STAMPS => stamps = value,
                CLOCK => clock = value,
                _ => {}
            }
        }
        Ok(Some(Agreed {
            token,
            interval,
            duration,
            stamped: (stamps, clock) == (BOTH, WALL),
        }))
    }
}

/// The pings of a connection.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Echoes {
    token: [u8; 8],
    /// Answers have both stamps.
    stamped: bool,
    key: Option<Key>,
}

impl Form for Echoes {
    fn question(&self, seq: u32) -> Vec<u8> {
        let mut bytes = vec![0; ECHO];
        bytes[..TOKEN].copy_from_slice(&head(0));
        bytes[TOKEN..SEQ].copy_from_slice(&self.token);
        bytes[SEQ..RECEIVED].copy_from_slice(&seq.to_le_bytes());
        sealed(self.key.as_ref(), bytes)
    }

    fn answer(&self, bytes: &[u8]) -> Option<Probe> {
        let bytes = unsealed(self.key.as_ref(), bytes)?;
        let flags = *bytes.get(3)?;
        let ours = bytes[..3] == MAGIC && bytes.get(TOKEN..SEQ)? == self.token;
        if !ours || flags & (OPEN | REPLY | HMAC) != REPLY {
            return None;
        }
        let seq = u32::from_le_bytes(bytes.get(SEQ..RECEIVED)?.try_into().ok()?);
        let stamp = |at: usize| {
            let ns = bytes.get(at..at + 8).filter(|_| self.stamped)?;
            Some(Duration::from_nanos(u64::from_le_bytes(
                ns.try_into().ok()?,
            )))
        };
        Some(Probe {
            server_rx: stamp(RECEIVED).unwrap_or_default(),
            server_tx: stamp(SENT).unwrap_or_default(),
            ..Probe::asking(0, seq)
        })
    }

    fn farewell(&self) -> Option<Vec<u8>> {
        let bytes = [&head(CLOSE)[..], &self.token].concat();
        Some(sealed(self.key.as_ref(), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 10 ms and 20 s, both stamps, the wall clock.
    const OPENED: &[u8] = b"\x14\xa7\x5b\x03\x01\x02\x03\x04\x05\x06\x07\x08\x01\x02\
        \x02\x80\xa0\xbe\x81\x95\x01\x03\x80\xda\xc4\x09\x06\x06\x07\x02";

    #[test]
    fn what_was_agreed_upon() {
        let agreed = Agreed::of(OPENED).unwrap().unwrap();
        assert_eq!(agreed.token, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(agreed.interval, Some(Duration::from_millis(10)));
        assert_eq!(agreed.duration, Some(Duration::from_secs(20)));
        assert!(agreed.stamped);
        let other = |at: usize, with: u8| {
            let mut bytes = OPENED.to_vec();
            bytes[at] = with;
            Agreed::of(&bytes)
        };
        assert_eq!(other(0, 0), Ok(None));
        assert_eq!(other(3, 0x02), Ok(None));
        assert!(other(3, 0x07).unwrap_err().contains("version"));
        assert!(other(3, 0x0b).unwrap_err().contains("key"));
        assert!(!other(OPENED.len() - 1, 0x06).unwrap().unwrap().stamped);
    }

    #[test]
    fn numbers_of_seven_bits() {
        let mut bytes = Vec::new();
        for v in [0, 1, 127, 128, 300, u64::MAX] {
            bytes.clear();
            put(&mut bytes, v);
            assert_eq!(take(&mut &bytes[..]), Some(v));
        }
        put(&mut bytes, 300);
        assert!(bytes.ends_with(b"\xac\x02"));
        assert_eq!((zigzag(1), zigzag(-1), zigzag(20)), (2, 1, 40));
    }

    #[test]
    fn literal_echoes() {
        let form = Echoes {
            token: [1, 2, 3, 4, 5, 6, 7, 8],
            stamped: true,
            key: None,
        };
        let mut bytes = form.question(0x0102);
        assert_eq!(
            bytes[..16],
            *b"\x14\xa7\x5b\x00\x01\x02\x03\x04\x05\x06\x07\x08\x02\x01\x00\x00"
        );
        assert_eq!(bytes.len(), ECHO);
        assert_eq!(form.answer(&bytes), None, "a question");
        bytes[3] = REPLY;
        (bytes[16], bytes[24]) = (7, 9);
        let p = form.answer(&bytes).unwrap();
        assert_eq!(
            (p.seq, p.server_rx.as_nanos(), p.server_tx.as_nanos()),
            (0x0102, 7, 9)
        );
        bytes[4] = 0;
        assert_eq!(form.answer(&bytes), None, "another connection");
        assert_eq!(form.farewell().unwrap()[3], CLOSE);
    }

    #[test]
    fn keys() {
        assert_eq!("0x6b6579".parse::<Key>(), "key".parse());
        for wrong in ["", "0x", "0x6", "0x6g", "0x+6", "0xé9"] {
            assert!(wrong.parse::<Key>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn literal_seals() {
        let form = Echoes {
            token: [1, 2, 3, 4, 5, 6, 7, 8],
            stamped: true,
            key: "key".parse().ok(),
        };
        let plain = Echoes {
            key: None,
            ..form.clone()
        };
        // By Python's hmac.
        assert_eq!(
            form.farewell().unwrap()[..TOKEN + SEAL],
            *b"\x14\xa7\x5b\x0c\x39\xf9\x7a\x7f\x11\xfd\x6b\x50\x27\xe4\x4d\x3a\x08\x7c\x7c\xbc"
        );
        let mut sealed = form.question(7);
        assert_eq!(sealed[..4], *b"\x14\xa7\x5b\x08");
        assert_eq!(sealed.len(), ECHO + SEAL);
        assert_eq!(sealed[TOKEN + SEAL..], plain.question(7)[TOKEN..]);
        let key = form.key.as_ref().unwrap();
        assert_eq!(key.unseal(&sealed).as_deref(), Some(&plain.question(7)[..]));
        sealed[30] ^= 1;
        assert_eq!(key.unseal(&sealed), None, "changed on the way");
        let mut answer = plain.question(7);
        answer[3] = REPLY;
        assert_eq!(form.answer(&answer), None, "without a seal");
        assert_eq!(form.answer(&key.seal(&answer)), plain.answer(&answer));
        assert!(plain.answer(&answer).is_some());
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), at in 0..OPENED.len(), with in any::<u8>()) {
            let form = Echoes { token: [0; 8], stamped: true, key: None };
            let key = Some(Key(vec![1]));
            let _ = (form.answer(&bytes), Agreed::of(&bytes), Echoes { key, ..form.clone() }.answer(&bytes));
            let mut bytes = OPENED.to_vec();
            bytes[at] = with;
            let _ = (form.answer(&bytes), Agreed::of(&bytes));
        }
    }
}
