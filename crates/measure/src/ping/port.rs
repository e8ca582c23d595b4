//! A stamped socket that probes are sent from, and what comes back through it.
//!
//! Principles: sending, the kernel's stamps and the error queue are the same for all datagram
//! sockets ([`Ports`]); whose answer something is differs, and is asked of the kind of probe. No
//! system call asks for what is not there. Non-goals: that decision, and TCP.

use std::collections::VecDeque;
use std::time::Duration;

use evenkeel_core::ping::Fate;
use evenkeel_core::ping::arrivals::{Arrivals, Sender};
use evenkeel_core::ping::track::{Answer, Stamp, Time, Tracker};
use evenkeel_sys::Error;
use evenkeel_sys::poll::Ready;
use evenkeel_sys::stamp::{Notice, Received, Stage, StampedSocket};
use nix::errno::Errno;

/// Send stamps come at once: so many probes are remembered for them.
const STAMPS: usize = 4096;

/// The probe for each number that the kernel has given to a datagram of one socket.
#[derive(Debug, Default)]
pub(super) struct Ids {
    first: u32,
    seqs: VecDeque<u64>,
    /// Stamps were not there at once: our own queue, or a driver that sends later.
    slow: bool,
}

impl Ids {
    /// A datagram was handed over, with this result.
    fn sent(&mut self, seq: u64, result: Result<(), Errno>) {
        // ENOBUFS: dropped by our own queueing discipline, after a number was given out.
        if matches!(result, Ok(()) | Err(Errno::ENOBUFS)) {
            self.seqs.push_back(seq);
            if self.seqs.len() > STAMPS {
                self.seqs.pop_front();
                self.first = self.first.wrapping_add(1);
            }
        }
    }

    /// Whether a stamp of the probe just sent is worth asking for.
    fn expects(&self, seq: u64, tracker: &Tracker) -> bool {
        // The first one is taken before our own queue, and is there if the kernel knows it.
        match tracker.stamps_of(seq) {
            0 => true,
            1 => !self.slow,
            _ => false,
        }
    }

    fn seq(&self, id: u32) -> Option<u64> {
        self.seqs.get(id.wrapping_sub(self.first) as usize).copied()
    }
}

/// Takes in a send stamp; of an ICMP error the answer that it is, and how much it quotes.
pub(super) fn noted(notice: &Notice, ids: &Ids, tracker: &mut Tracker) -> Option<(Answer, usize)> {
    match *notice {
        Notice::Sent { id, stage, at } => {
            if let Some(seq) = ids.seq(id) {
                let stamp = match stage {
                    Stage::Sched => Stamp::Sched,
                    Stage::Driver => Stamp::Driver,
                };
                tracker.stamp(seq, stamp, at);
            }
            None
        }
        Notice::Icmp {
            v6,
            kind,
            code,
            from,
            at,
            quoted,
        } => {
            let answer = Answer {
                fate: Fate::of_icmp(v6, kind, code)?,
                from,
                received: None,
                ttl: None,
                time: at.map_or(Time::Seen, Time::Stamp),
                arrived: None,
                held: Duration::ZERO,
            };
            Some((answer, quoted))
        }
        Notice::Local(_) | Notice::Other => None,
    }
}

/// Who may know when answers arrived.
pub(super) type Knows = Option<Box<dyn Arrivals>>;

/// A socket and what was sent from it.
pub(super) struct Port {
    pub(super) socket: StampedSocket,
    /// As answers and errors name it.
    pub(super) sender: Sender,
    ids: Ids,
}

impl Port {
    /// A connected socket. Its answers are watched for.
    pub(super) fn new(socket: StampedSocket, sender: Sender, arrivals: &mut Knows) -> Self {
        if let Some(arrivals) = arrivals {
            arrivals.watch(sender);
        }
        Port {
            socket,
            sender,
            ids: Ids::default(),
        }
    }
}

/// The sockets of one kind of probe.
pub(super) trait Ports {
    /// The one with this number.
    fn port(&mut self, which: usize) -> Option<&mut Port>;

    /// Room for the largest datagram.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// Something was received on it.
    fn answer(&self, which: usize, received: &Received, bytes: &[u8], tracker: &mut Tracker);

    /// An ICMP error about something sent from it, and what it quotes.
    fn error(&self, which: usize, error: Answer, quoted: &[u8], tracker: &mut Tracker);

    /// Sends probe `seq`. The inner error is the kernel's refusal.
    fn hand_over(
        &mut self,
        which: usize,
        seq: u64,
        bytes: &[u8],
        tracker: &mut Tracker,
    ) -> Result<Result<(), Errno>, Error> {
        let send = |this: &mut Self| match this.port(which) {
            Some(port) => port.socket.send(bytes),
            None => Err(Errno::EBADF),
        };
        let mut sent = send(self);
        if sent.is_err() && sent != Err(Errno::ENOBUFS) {
            // An ICMP error about an earlier probe fails the next send: drain it, try once more.
            while self.notice(which, tracker)? {}
            sent = send(self);
        }
        if let Some(port) = self.port(which) {
            port.ids.sent(seq, sent);
        }
        if sent.is_ok() {
            // The stamps are most often there: this spares waking up for them.
            while let Some(port) = self.port(which)
                && port.ids.expects(seq, tracker)
            {
                if !self.notice(which, tracker)?
                    && let Some(port) = self.port(which)
                {
                    port.ids.slow = true;
                    break;
                }
            }
        }
        Ok(sent)
    }

    /// Takes in what is there.
    fn hear(&mut self, which: usize, ready: &Ready, tracker: &mut Tracker) -> Result<(), Error> {
        // One entry at a time: asking for one more than there is is a system call for nothing,
        // and the next wait returns at once if there is more. An error without an entry is
        // cleared by receiving.
        let noted = ready.error && self.notice(which, tracker)?;
        if ready.readable || ready.error && !noted {
            let mut buffer = std::mem::take(self.buffer());
            if let Some(port) = self.port(which)
                && let Some(r) = port.socket.receive(&mut buffer)?
            {
                self.answer(which, &r, &buffer[..r.len], tracker);
            }
            *self.buffer() = buffer;
        }
        Ok(())
    }

    /// Takes in an entry of the error queue. `false`: there was none.
    fn notice(&mut self, which: usize, tracker: &mut Tracker) -> Result<bool, Error> {
        let mut quoted = [0; 64];
        let Some(port) = self.port(which) else {
            return Ok(false);
        };
        let Some(notice) = port.socket.notice_into(&mut quoted)? else {
            return Ok(false);
        };
        if let Some((error, n)) = noted(&notice, &port.ids, tracker) {
            self.error(which, error, &quoted[..n], tracker);
        }
        Ok(true)
    }
}
