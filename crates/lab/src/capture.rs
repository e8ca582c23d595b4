//! A capture of what passes a host: when the kernel saw each packet, by nobody's account but its
//! own. It is what the accuracy of probers is held against.
//!
//! Principles: stamps of the kernel on a packet socket of its own; a probe's truth is the time
//! between the first sight of its request and the last sight of its answer; where it stands (the
//! host next to the prober) everything of the path is behind it. Non-goals: storing packets.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_sys::poll::{Interest, Poller, Waker};
use evenkeel_sys::stamp::StampedSocket;
use evenkeel_sys::{Error, Netns, sched};
use evenkeel_wire::packet::{Echo, EchoKind, Ip, Udp, protocol};

/// One packet as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// When, wall clock.
    pub at: Duration,
    /// Which: ICMP sequence, or the start of the UDP payload.
    pub key: Vec<u8>,
    /// Bytes of its payload.
    pub bytes: usize,
    /// An answer rather than a request.
    pub answer: bool,
}

/// What the thread brings.
type Seen = Result<Vec<Captured>, Error>;

/// A running capture. It stops when dropped.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<Waker>,
    thread: Option<JoinHandle<Result<Seen, Error>>>,
}

impl Capture {
    /// Watches every device of `host`. UDP packets are those to and from `port`; `key` says which
    /// bytes of their payload tell probes apart.
    pub fn start(host: &Netns, port: u16, key: std::ops::Range<usize>) -> Result<Self, Error> {
        let stop = Arc::new(Waker::new()?);
        let until = Arc::clone(&stop);
        let thread = host.spawn("capture", move || watch(port, &key, &until))?;
        Ok(Capture {
            stop,
            thread: Some(thread),
        })
    }

    /// Everything that was seen, in its order.
    pub fn finish(mut self) -> Result<Vec<Captured>, Error> {
        self.stop.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(packets)) => packets?,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.wake();
    }
}

/// Round trips of the probes with so many bytes of payload, as they were captured: key and time,
/// in the order of the requests.
pub fn round_trips(packets: &[Captured], bytes: usize) -> Vec<(Vec<u8>, Duration)> {
    let mut found: Vec<(&[u8], Duration, Option<Duration>)> = Vec::new();
    for s in packets.iter().filter(|s| s.bytes == bytes) {
        // The same key comes again after a wrap: the latest request is meant.
        let known = found.iter_mut().rev().take(1000).find(|f| f.0 == s.key);
        match known {
            None if !s.answer => found.push((&s.key, s.at, None)),
            Some(probe) if s.answer => probe.2 = Some(s.at),
            _ => {}
        }
    }
    found
        .into_iter()
        .filter_map(|(key, from, to)| Some((key.to_vec(), to?.checked_sub(from)?)))
        .collect()
}

fn watch(port: u16, key: &std::ops::Range<usize>, stop: &Waker) -> Result<Vec<Captured>, Error> {
    let socket = StampedSocket::packets()?;
    // Its stamps are the kernel's; only a full socket could lose something.
    let _ = sched::realtime_thread(10);
    let poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Read)?;
    poller.add(stop, 1, Interest::Read)?;
    let (mut ready, mut packets) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        poller.wait(&mut ready)?;
        while let Some(r) = socket.receive(&mut buffer)? {
            let packet =
                r.at.and_then(|at| captured(&buffer[..r.len], at, port, key));
            packets.extend(packet);
        }
        if ready.iter().any(|r| r.token == 1) {
            return Ok(packets);
        }
    }
}

fn captured(
    packet: &[u8],
    at: Duration,
    port: u16,
    key: &std::ops::Range<usize>,
) -> Option<Captured> {
    let ip = Ip::parse(packet).ok()?;
    if ip.protocol() == protocol::UDP {
        let udp = Udp::parse(ip.payload()).ok()?;
        let answer = udp.source == port;
        (answer || udp.destination == port).then_some(())?;
        return Some(Captured {
            at,
            key: udp.payload().get(key.clone())?.to_vec(),
            bytes: udp.payload().len(),
            answer,
        });
    }
    let echo = Echo::parse(ip.payload()).ok()?;
    Some(Captured {
        at,
        key: echo.sequence.to_be_bytes().to_vec(),
        bytes: echo.payload.len(),
        answer: matches!(echo.kind, EchoKind::Reply | EchoKind::Reply6),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sight_of_the_request_to_last_sight_of_the_answer() {
        let sight = |us, key: u8, answer| Captured {
            at: Duration::from_micros(us),
            key: vec![key],
            bytes: 56,
            answer,
        };
        // Each packet passes two devices; the second probe is never answered.
        let seen = [
            sight(10, 1, false),
            sight(12, 1, false),
            sight(20, 2, false),
            sight(50, 1, true),
            sight(53, 1, true),
        ];
        assert_eq!(
            round_trips(&seen, 56),
            [(vec![1], Duration::from_micros(43))]
        );
        assert_eq!(round_trips(&seen, 57), []);
    }
}
