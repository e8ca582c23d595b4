//! The far end that is `evenkeel serve`.
//!
//! Non-goals: phases and figures.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use evenkeel_report::bench::form::{BIN_S, Stream, Way};
use evenkeel_sys::tcp;

use super::load::{LoadStream, StreamOutcome};
use crate::failed::Failed;
use crate::proto::{
    self, Answer, BIN_MS, LONGEST_ANSWER, MAGIC, Request, StreamHead, StreamReport,
};

/// How long is waited for a connection or an answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The control connection.
#[derive(Debug)]
pub struct Control {
    socket: TcpStream,
    heard: Vec<u8>,
    to: SocketAddr,
    /// The session's number.
    pub session: u64,
    /// A stream may last so long, s.
    pub seconds: u16,
    /// So many may be open.
    pub streams: u16,
    /// Bytes that may be moved.
    pub bytes: u64,
}

/// What the server saw.
#[derive(Debug, Default)]
pub struct Report {
    /// Of each stream.
    pub streams: Vec<StreamReport>,
    /// Of one CPU, 0..=1.
    pub cpu: f64,
    /// Of its machine, 0..=1.
    pub machine: f64,
}

/// Whether something like us answers there: `Err` is why not.
impl Control {
    /// Says hello.
    pub fn open(to: SocketAddr, token: &str) -> Result<Self, Failed> {
        let failed = |e: std::io::Error| {
            Failed::Work(format!(
                "connect to TCP {to}: {e}; is `evenkeel serve` running there?"
            ))
        };
        let socket = TcpStream::connect_timeout(&to, PATIENCE).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        let mut this = Control {
            socket,
            heard: Vec::new(),
            to,
            session: 0,
            seconds: 0,
            streams: 0,
            bytes: 0,
        };
        let hello = Request::Hello {
            version: proto::VERSION,
            token: token.into(),
        };
        let mut first = MAGIC.to_vec();
        first.push(b'c');
        first.extend(proto::emit(&hello));
        this.socket.write_all(&first).map_err(failed)?;
        match this.hear(PATIENCE)? {
            Answer::Welcome {
                session,
                seconds,
                streams,
                bytes,
            } => {
                (this.session, this.seconds, this.streams, this.bytes) =
                    (session, seconds, streams, bytes);
                Ok(this)
            }
            Answer::Refused { why } => Err(Failed::Work(format!("{to} refuses: {why}"))),
            Answer::Results { .. } => Err(Failed::Work(format!("{to} answers what was not asked"))),
        }
    }

    fn hear(&mut self, patience: Duration) -> Result<Answer, Failed> {
        let to = self.to;
        let until = Instant::now() + patience;
        let mut b = vec![0; 64 * 1024];
        loop {
            let frame = proto::take(&mut self.heard, LONGEST_ANSWER);
            if let Some(answer) =
                frame.map_err(|why| Failed::Work(format!("{to} answers with {why}")))?
            {
                return Ok(answer);
            }
            let left = until.saturating_duration_since(Instant::now());
            let silent = || {
                Failed::Work(format!(
                    "{to} takes longer than {} s to answer",
                    patience.as_secs()
                ))
            };
            if left.is_zero() {
                return Err(silent());
            }
            let _ = self.socket.set_read_timeout(Some(left));
            match self.socket.read(&mut b) {
                Ok(0) => {
                    return Err(Failed::Work(format!(
                        "{to} closed the connection: it is no `evenkeel serve`, or is full"
                    )));
                }
                Ok(n) => self.heard.extend(&b[..n]),
                Err(e)
                    if matches!(
                        e.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    return Err(silent());
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Failed::Work(format!("hear {to}: {e}"))),
            }
        }
    }

    /// Asks for what the server saw.
    pub fn report(&mut self) -> Result<Report, Failed> {
        let to = self.to;
        self.socket
            .write_all(&proto::emit(&Request::Report))
            .map_err(|e| Failed::Work(format!("ask {to} for its results: {e}")))?;
        // Behind a full line they take their time.
        match self.hear(3 * PATIENCE)? {
            Answer::Results {
                streams,
                cpu,
                machine,
            } => Ok(Report {
                streams,
                cpu,
                machine,
            }),
            Answer::Refused { why } => Err(Failed::Work(format!("{to} refuses: {why}"))),
            Answer::Welcome { .. } => Err(Failed::Work(format!("{to} answers what was not asked"))),
        }
    }

    /// Who opens streams of this session.
    pub fn opener(&self) -> Opener {
        Opener {
            to: self.to,
            session: self.session,
        }
    }
}

/// Opens streams of a session.
#[derive(Debug, Clone, Copy)]
pub struct Opener {
    to: SocketAddr,
    session: u64,
}

impl Opener {
    /// Connects a stream; it begins when its head is sent.
    pub fn stream(
        &self,
        id: u16,
        way: Way,
        mark: &str,
        tos: u8,
        seconds: u16,
    ) -> Result<LoadStream, Failed> {
        let to = self.to;
        let failed = |e: std::io::Error| Failed::Work(format!("connect a stream to {to}: {e}"));
        let socket = TcpStream::connect_timeout(&to, PATIENCE).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        if tos != 0 {
            tcp::set_tos(&socket, to.ip(), tos).map_err(|e| Failed::Work(e.to_string()))?;
        }
        let head = StreamHead {
            session: self.session,
            id,
            download: way == Way::Down,
            tos,
            seconds,
        };
        Ok(LoadStream {
            socket,
            way,
            mark: mark.into(),
            head: head.emit().to_vec(),
        })
    }
}

/// What both sides saw of the streams, put together. `half_rtt` (s) passes until a head arrives.
pub fn merge(outcomes: Vec<StreamOutcome>, report: Option<&Report>, half_rtt: f64) -> Vec<Stream> {
    let reports = report.map_or(&[][..], |r| &r.streams);
    let streams = outcomes.into_iter().zip(0u16..).map(|(o, id)| {
        let theirs = reports.iter().find(|r| r.id == id);
        let arrived = o.began + half_rtt;
        let mut s = Stream {
            way: o.way,
            mark: o.mark,
            bytes: o.bytes,
            by_sender: o.way == Way::Up,
            retransmits: (o.way == Way::Up).then_some(o.retransmits),
            rtt_ms: o.rtt_ms,
        };
        if let Some(theirs) = theirs {
            if o.way == Way::Up {
                s.bytes = rebin(&theirs.bytes, arrived);
                s.by_sender = false;
            } else {
                let at = |ms: u32| arrived + f64::from(ms) / 1000.0;
                let rtt = theirs.rtt.iter().filter(|r| r.1 > 0);
                s.rtt_ms = rtt
                    .map(|(t, us)| (at(*t), f64::from(*us) / 1000.0))
                    .collect();
                s.retransmits = Some(theirs.retransmits);
            }
        }
        s
    });
    streams.collect()
}

/// Bytes in bins of [`BIN_MS`] that begin at `from` (s), in bins of [`BIN_S`] that begin at 0. None is
/// lost; one that lies across two is shared by time.
fn rebin(theirs: &[u64], from: f64) -> Vec<u64> {
    let width = BIN_MS as f64 / 1000.0;
    let mut exact: Vec<f64> = Vec::new();
    for (i, n) in theirs.iter().enumerate() {
        let (start, end) = (from + i as f64 * width, from + (i + 1) as f64 * width);
        let (first, last) = ((start / BIN_S) as usize, (end / BIN_S) as usize);
        if exact.len() <= last {
            exact.resize(last + 1, 0.0);
        }
        let border = last as f64 * BIN_S;
        let before = if first == last {
            0.0
        } else {
            ((border - start) / width).clamp(0.0, 1.0)
        };
        exact[first.min(last)] += *n as f64 * before;
        exact[last] += *n as f64 * (1.0 - before);
    }
    // Rounded so that sums stay.
    let (mut sum, mut given) = (0.0, 0u64);
    let rounded = exact.iter().map(|v| {
        sum += v;
        let now = (sum.round() as u64).saturating_sub(given);
        given += now;
        now
    });
    rounded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_that_lie_across() {
        // 20 ms bins from 90 ms on: half of the first is in the first bin of 100 ms.
        assert_eq!(rebin(&[100, 10], 0.09), [50, 60]);
        assert_eq!(rebin(&[7; 5], 0.0), [35, 0]);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(bytes in prop::collection::vec(0u64..1_000_000, 0..500), from in 0.0..30.0f64) {
            prop_assert_eq!(rebin(&bytes, from).iter().sum::<u64>(), bytes.iter().sum::<u64>());
        }
    }
}
