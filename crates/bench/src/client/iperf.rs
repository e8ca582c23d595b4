//! The far end that is an iperf3 server.
//!
//! Its protocol, as iperf3 3.x speaks it: a control connection that begins with a cookie of 37 bytes;
//! states of one byte from the server; JSON behind a length (u32, big-endian); streams that begin with
//! the same cookie, in the order in which they were asked for. Principles: TCP only; the server's own
//! counts of an upload are compared with what was acknowledged. Non-goals: its UDP and SCTP tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use evenkeel_report::bench::form::{Stream, Way};
use serde_json::{Value, json};

use super::load::{LoadStream, StreamOutcome};
use crate::failed::Failed;

/// iperf3's port.
pub const PORT: u16 = 5201;
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest results that are read, bytes.
const LONGEST: usize = 8 << 20;

/// States (`iperf_api.h`).
const TEST_START: i8 = 1;
const TEST_RUNNING: i8 = 2;
const TEST_END: i8 = 4;
const PARAM_EXCHANGE: i8 = 9;
const CREATE_STREAMS: i8 = 10;
const EXCHANGE_RESULTS: i8 = 13;
const DISPLAY_RESULTS: i8 = 14;
const IPERF_DONE: i8 = 16;
const ACCESS_DENIED: i8 = -1;
const SERVER_ERROR: i8 = -2;

/// A test that is set up.
#[derive(Debug)]
pub struct Iperf {
    control: TcpStream,
    to: SocketAddr,
}

/// What the server says of the streams that it received.
#[derive(Debug, Default)]
pub struct Theirs {
    /// By stream, in the order of their making: bytes.
    pub bytes: Vec<u64>,
    /// Its CPU in per cent of one.
    pub cpu_percent: f64,
}

impl Iperf {
    /// Sets a test up; its streams begin at once when the load does.
    pub fn open(
        to: SocketAddr,
        down: usize,
        up: usize,
        seconds: u16,
    ) -> Result<(Self, Vec<LoadStream>), Failed> {
        if down > 0 && up > 0 && down != up {
            return Err(Failed::Usage(
                "iperf3 has as many streams up as down".into(),
            ));
        }
        let failed = |e: std::io::Error| Failed::Work(format!("connect to iperf3 at {to}: {e}"));
        let control = TcpStream::connect_timeout(&to, PATIENCE).map_err(failed)?;
        control.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        control.set_nodelay(true).map_err(failed)?;
        let mut this = Iperf { control, to };
        let cookie = cookie()?;
        this.control.write_all(&cookie).map_err(failed)?;
        this.expect(PARAM_EXCHANGE)?;
        let parameters = json!({
            "tcp": true, "omit": 0, "time": seconds, "num": 0, "blockcount": 0,
            "parallel": down.max(up), "len": 131_072, "pacing_timer": 1000,
            "reverse": down > 0 && up == 0, "bidirectional": down > 0 && up > 0,
            "client_version": "3.12",
        });
        // The server takes these as true when they are there at all.
        let parameters = match parameters {
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .filter(|(_, v)| *v != Value::Bool(false))
                    .collect(),
            ),
            other => other,
        };
        this.say_json(&parameters)?;
        this.expect(CREATE_STREAMS)?;
        let mut streams = Vec::new();
        // iperf3's order: those that send first.
        let ways = [(Way::Up, up), (Way::Down, down)];
        for (way, n) in ways {
            for _ in 0..n {
                let mut socket = TcpStream::connect_timeout(&to, PATIENCE).map_err(failed)?;
                socket.write_all(&cookie).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                streams.push(LoadStream {
                    socket,
                    way,
                    mark: "BE".into(),
                    head: Vec::new(),
                });
            }
        }
        this.expect(TEST_START)?;
        Ok((this, streams))
    }

    /// The server begins to send now.
    pub fn begin(&mut self) -> Result<(), Failed> {
        self.expect(TEST_RUNNING)
    }

    /// Ends the test; what the server counted.
    pub fn end(&mut self) -> Result<Theirs, Failed> {
        let to = self.to;
        let failed =
            move |e: std::io::Error| Failed::Work(format!("end the test of iperf3 at {to}: {e}"));
        self.control.write_all(&[TEST_END as u8]).map_err(failed)?;
        self.expect(EXCHANGE_RESULTS)?;
        // What it shows its own user; ours are in our report.
        let ours = json!({ "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0,
            "sender_has_retransmits": 0, "streams": [] });
        self.say_json(&ours)?;
        let theirs = self.hear_json()?;
        self.expect(DISPLAY_RESULTS)?;
        self.control
            .write_all(&[IPERF_DONE as u8])
            .map_err(failed)?;
        let bytes = theirs["streams"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(Theirs {
            bytes: bytes
                .iter()
                .map(|s| s["bytes"].as_u64().unwrap_or(0))
                .collect(),
            cpu_percent: theirs["cpu_util_total"].as_f64().unwrap_or(0.0),
        })
    }

    fn expect(&mut self, state: i8) -> Result<(), Failed> {
        let to = self.to;
        let mut b = [0];
        self.control
            .read_exact(&mut b)
            .map_err(|e| Failed::Work(format!("hear iperf3 at {to}: {e}")))?;
        match b[0] as i8 {
            s if s == state => Ok(()),
            ACCESS_DENIED => Err(Failed::Work(format!(
                "iperf3 at {to} is busy with somebody else's test: try again later"
            ))),
            SERVER_ERROR => Err(Failed::Work(format!(
                "iperf3 at {to} reports an error of its own"
            ))),
            s => Err(Failed::Work(format!(
                "iperf3 at {to} is in state {s} instead of {state}"
            ))),
        }
    }

    fn say_json(&mut self, value: &Value) -> Result<(), Failed> {
        let to = self.to;
        self.control
            .write_all(&frame(value))
            .map_err(|e| Failed::Work(format!("speak to iperf3 at {to}: {e}")))
    }

    fn hear_json(&mut self) -> Result<Value, Failed> {
        let to = self.to;
        let failed =
            |why: String| Failed::Work(format!("hear the results of iperf3 at {to}: {why}"));
        let mut length = [0; 4];
        self.control
            .read_exact(&mut length)
            .map_err(|e| failed(e.to_string()))?;
        let length = u32::from_be_bytes(length) as usize;
        if length > LONGEST {
            return Err(failed(format!("{length} bytes are too many")));
        }
        let mut json = vec![0; length];
        self.control
            .read_exact(&mut json)
            .map_err(|e| failed(e.to_string()))?;
        serde_json::from_slice(&json).map_err(|e| failed(e.to_string()))
    }
}

fn frame(value: &Value) -> Vec<u8> {
    let json = value.to_string();
    let mut b = (json.len() as u32).to_be_bytes().to_vec();
    b.extend(json.as_bytes());
    b
}

/// 36 letters and digits and a zero, as iperf3 makes them.
fn cookie() -> Result<[u8; 37], Failed> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; 37];
    for part in cookie[..36].chunks_mut(12) {
        let mut bits = crate::random().ok_or_else(|| Failed::Work("read /dev/urandom".into()))?;
        for c in part {
            *c = LETTERS[(bits % 32) as usize];
            bits /= 32;
        }
    }
    Ok(cookie)
}

/// The streams of a test; the server's sums of uploads replace what was acknowledged, in proportion.
pub fn merge(outcomes: Vec<StreamOutcome>, theirs: Option<&Theirs>) -> Vec<Stream> {
    let uploads = outcomes.iter().filter(|o| o.way == Way::Up).count();
    let known = theirs.filter(|t| t.bytes.len() >= uploads);
    let streams = outcomes.into_iter().enumerate().map(|(i, mut o)| {
        o.close();
        let acked: u64 = o.bytes.iter().sum();
        let received = known.and_then(|t| t.bytes.get(i)).copied();
        let received = received.filter(|n| o.way == Way::Up && *n > 0 && acked > 0);
        // The server goes on counting until it hears of the end: what was acknowledged by then is all.
        let share = received.map(|n| (n as f64 / acked as f64).min(1.0));
        let bytes = match share {
            Some(share) => o.bytes.iter().map(|n| (*n as f64 * share) as u64).collect(),
            None => o.bytes,
        };
        Stream {
            way: o.way,
            mark: o.mark,
            bytes,
            by_sender: o.way == Way::Up,
            retransmits: (o.way == Way::Up).then_some(o.retransmits),
            rtt_ms: o.rtt_ms,
        }
    });
    streams.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_and_frames() {
        let c = cookie().unwrap();
        assert_eq!(c[36], 0);
        assert!(
            c[..36]
                .iter()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        );
        assert_ne!(c, cookie().unwrap());
        assert_eq!(frame(&json!({"a": 1})), b"\0\0\0\x07{\"a\":1}");
    }
}
