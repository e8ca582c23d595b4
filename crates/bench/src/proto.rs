//! evenkeel's own protocol between `bench` and `serve`, as bytes.
//!
//! One port, TCP and UDP. A TCP connection begins with `EKb1` and a letter. `c`, the control
//! connection: frames of a length (u32, big-endian) and JSON follow in both directions. `s`, a
//! stream: session (u64), number (u16), way (`d` or `u`), TOS, seconds (u16), and then nothing but
//! payload, that way, until one of them closes. UDP: the probes of [`evenkeel_measure::packet`]; the
//! lower 32 bits of the session are theirs. Principles: parsing never panics and never asks for more
//! memory than a limit; a server sends nothing before the handshake of TCP has shown that the
//! peer is there. Non-goals: secrecy (a token keeps strangers out, not listeners).

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// What every TCP connection of ours begins with.
pub const MAGIC: &[u8; 4] = b"EKb1";
/// The version of the control connection's messages.
pub const VERSION: u32 = 1;
/// The port of `serve` unless told otherwise: UDP's is that of the judged probe, which no rule names.
pub const PORT: u16 = evenkeel_measure::PROBE_PORT;
/// The longest frame that a server takes, bytes.
pub const LONGEST_REQUEST: usize = 4096;
/// The longest frame that a client takes, bytes: ten minutes of 64 streams.
pub const LONGEST_ANSWER: usize = 64 << 20;
/// Bytes before a stream's payload.
pub const STREAM_HEAD: usize = 19;
/// The number of downloads of which no report is kept; there may be many.
pub const UNREPORTED: u16 = u16::MAX;
/// Receivers count bytes in intervals of so many ms.
pub const BIN_MS: u64 = 20;

/// What a client says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum Request {
    /// First.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// What the server was started with.
        #[serde(default)]
        token: String,
    },
    /// What became of this session's streams?
    Report,
}

/// What a server says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Request::Hello`].
    Welcome {
        /// Which session; streams and probes name it.
        session: u64,
        /// A stream may last so long, s.
        seconds: u16,
        /// So many streams may be open at once.
        streams: u16,
        /// Bytes that this client may still move, both ways together.
        bytes: u64,
    },
    /// To anything.
    Refused {
        /// Why, in a sentence.
        why: String,
    },
    /// To [`Request::Report`].
    Results {
        /// In no order.
        streams: Vec<StreamReport>,
        /// The server's process had so much of one CPU since the session began, 0..=1.
        cpu: f64,
        /// The server's machine was so busy since then, 0..=1.
        machine: f64,
    },
}

/// What a server saw of a stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// Its number.
    pub id: u16,
    /// Of an upload: payload received in each [`BIN_MS`] since its head came, bytes.
    #[serde(default)]
    pub bytes: Vec<u64>,
    /// Of a download: ms since its head came, round trip in us (`tcpi_rtt`).
    #[serde(default)]
    pub rtt: Vec<(u32, u32)>,
    /// Of a download: segments sent again.
    #[serde(default)]
    pub retransmits: u64,
    /// Why the server ended it; empty if the client did, or its time was over.
    #[serde(default)]
    pub why: String,
}

/// What a stream begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHead {
    /// Which session.
    pub session: u64,
    /// Which of its streams.
    pub id: u16,
    /// The server sends, rather than receives.
    pub download: bool,
    /// TOS of what the server sends.
    pub tos: u8,
    /// It ends by itself after so long, s.
    pub seconds: u16,
}

impl StreamHead {
    /// As bytes.
    pub fn emit(&self) -> [u8; STREAM_HEAD] {
        let mut b = [0; STREAM_HEAD];
        b[..4].copy_from_slice(MAGIC);
        b[4] = b's';
        b[5..13].copy_from_slice(&self.session.to_be_bytes());
        b[13..15].copy_from_slice(&self.id.to_be_bytes());
        b[15] = if self.download { b'd' } else { b'u' };
        b[16] = self.tos;
        b[17..19].copy_from_slice(&self.seconds.to_be_bytes());
        b
    }
}

/// What the first bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// Not enough to say.
    More,
    /// Control; frames follow after so many bytes.
    Control,
    /// A stream.
    Stream(StreamHead),
    /// Something else: TLS, HTTP.
    Foreign,
    /// Ours, but wrong.
    Bad,
}

/// Bytes before the frames of a control connection.
pub const CONTROL_HEAD: usize = 5;

/// Looks at the first bytes of a connection.
pub fn head(b: &[u8]) -> Head {
    let known = b.len().min(4);
    if b[..known] != MAGIC[..known] {
        return Head::Foreign;
    }
    match b.get(4) {
        None => Head::More,
        Some(b'c') => Head::Control,
        Some(b's') => stream_head(b),
        Some(_) => Head::Bad,
    }
}

fn stream_head(b: &[u8]) -> Head {
    let Some(Ok(b)) = b.get(..STREAM_HEAD).map(<[u8; STREAM_HEAD]>::try_from) else {
        return Head::More;
    };
    let download = match b[15] {
        b'd' => true,
        b'u' => false,
        _ => return Head::Bad,
    };
    let [
        _,
        _,
        _,
        _,
        _,
        s0,
        s1,
        s2,
        s3,
        s4,
        s5,
        s6,
        s7,
        i0,
        i1,
        _,
        tos,
        t0,
        t1,
    ] = b;
    Head::Stream(StreamHead {
        session: u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
        id: u16::from_be_bytes([i0, i1]),
        download,
        tos,
        seconds: u16::from_be_bytes([t0, t1]),
    })
}

/// A message as a frame.
pub fn emit(message: &impl Serialize) -> Vec<u8> {
    // These types have no map with other keys than strings, so JSON takes them.
    let json = serde_json::to_vec(message).unwrap_or_default();
    let mut b = (json.len() as u32).to_be_bytes().to_vec();
    b.extend(json);
    b
}

/// Takes the first frame off `b`; `None` if it is not whole yet.
///
/// Errors: it is longer than `longest`, or no such message.
pub fn take<T: DeserializeOwned>(b: &mut Vec<u8>, longest: usize) -> Result<Option<T>, String> {
    let Some(Ok(length)) = b.get(..4).map(<[u8; 4]>::try_from) else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(length) as usize;
    if length > longest {
        return Err(format!(
            "a message of {length} bytes is longer than {longest}"
        ));
    }
    let Some(json) = b.get(4..4 + length) else {
        return Ok(None);
    };
    let message = serde_json::from_slice(json).map_err(|e| format!("no such message: {e}"))?;
    b.drain(..4 + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literal_bytes_and_back() {
        let s = StreamHead {
            session: 0x0102_0304_0506_0708,
            id: 3,
            download: true,
            tos: 0xb8,
            seconds: 60,
        };
        let b = s.emit();
        assert_eq!(
            &b,
            b"EKb1s\x01\x02\x03\x04\x05\x06\x07\x08\0\x03d\xb8\0\x3c"
        );
        assert_eq!(head(&b), Head::Stream(s));
        for n in 0..STREAM_HEAD {
            assert_eq!(head(&b[..n]), Head::More, "{n}");
        }
        assert_eq!(head(b"EKb1c"), Head::Control);
        assert_eq!(head(b"EKb1x"), Head::Bad);
        assert_eq!(head(b"GET / HTTP/1.1"), Head::Foreign);
        assert_eq!(head(b"\x16\x03\x01"), Head::Foreign);
        let hello = Request::Hello {
            version: 1,
            token: "x".into(),
        };
        let mut b = emit(&hello);
        assert_eq!(&b[..4], &[0, 0, 0, 39]);
        assert_eq!(&b[4..], br#"{"say":"hello","version":1,"token":"x"}"#);
        b.extend(emit(&Request::Report));
        assert_eq!(take(&mut b, 100), Ok(Some(hello)));
        assert_eq!(take(&mut b, 100), Ok(Some(Request::Report)));
        assert_eq!(take::<Request>(&mut b, 100), Ok(None));
        assert!(
            take::<Request>(&mut vec![0, 1, 0, 0], 100).is_err(),
            "too long"
        );
        assert!(take::<Request>(&mut b"\0\0\0\x02{}".to_vec(), 100).is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics(b in prop::collection::vec(any::<u8>(), 0..64)) {
            head(&b);
            let _ = take::<Request>(&mut b.clone(), 32);
            let _ = take::<Answer>(&mut b.clone(), 32);
            let mut ours = MAGIC.to_vec();
            ours.extend(b);
            head(&ours);
        }

        #[test]
        fn heads_come_back(session: u64, id: u16, download: bool, tos: u8, seconds: u16) {
            let s = StreamHead { session, id, download, tos, seconds };
            prop_assert_eq!(head(&s.emit()), Head::Stream(s));
        }
    }
}
