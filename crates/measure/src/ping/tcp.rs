//! TCP probes: handshakes that are reset as soon as they stand.
//!
//! Principles: one connection for each probe, from the lowest port of ours that is free, so that
//! the flow stays the same as long as answers come before the next probe; an open port's time is
//! the kernel's own (SYN to SYN-ACK), a hop's error is stamped, a refusal is timed by the program.
//! Non-goals: half-open scans, which would need rights.

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::ping::Fate;
use evenkeel_core::ping::track::{Answer, Time, Tracker};
use evenkeel_sys::poll::{Interest, Poller};
use evenkeel_sys::stamp::Notice;
use evenkeel_sys::syn::{Syn, SynState};
use evenkeel_sys::{Error, PacketOptions};
use nix::errno::Errno;

use super::clocks::now;
use super::port::{Ids, noted};
use super::token::SOCKET;

#[derive(Default)]
struct Slot {
    /// The port that the first of its probes was sent from.
    port: u16,
    attempt: Option<(Syn, u64)>,
}

pub(super) struct Handshakes {
    target: SocketAddr,
    pub(super) options: PacketOptions,
    slots: Vec<Slot>,
}

impl Handshakes {
    pub(super) fn new(target: SocketAddr, options: PacketOptions) -> Self {
        Handshakes {
            target,
            options,
            slots: Vec::new(),
        }
    }

    pub(super) fn send(
        &mut self,
        seq: u64,
        tracker: &mut Tracker,
        poller: &Poller,
    ) -> Result<Result<(), Errno>, Error> {
        self.give_up(tracker);
        let free = self.slots.iter().position(|s| s.attempt.is_none());
        let which = free.unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let slot = &mut self.slots[which];
        let begun = Syn::begin(self.target, slot.port, &self.options)
            // Somebody else may have taken the port meanwhile.
            .or_else(|_| Syn::begin(self.target, 0, &self.options));
        let syn = match begun {
            Ok(syn) => syn,
            // On loopback a refusal is known before the call returns.
            Err(e) if e.errno() == Errno::ECONNREFUSED => {
                tracker.answer(seq, answer(Fate::Refused, Time::Seen, self.target), now());
                return Ok(Ok(()));
            }
            Err(e) => return Ok(Err(e.errno())),
        };
        slot.port = syn.local_port().unwrap_or(0);
        poller.add(&syn, SOCKET + which as u64, Interest::Write)?;
        slot.attempt = Some((syn, seq));
        Ok(Ok(()))
    }

    pub(super) fn hear(&mut self, which: usize, tracker: &mut Tracker) -> Result<(), Error> {
        let Some(slot) = self.slots.get_mut(which) else {
            return Ok(());
        };
        let Some((syn, seq)) = &slot.attempt else {
            return Ok(());
        };
        let seq = *seq;
        let mut quoted = [0; 64];
        while let Some(notice) = syn.notice(&mut quoted)? {
            if matches!(notice, Notice::Icmp { .. })
                && let Some((error, _)) = noted(&notice, &Ids::default(), tracker)
            {
                tracker.answer(seq, error, now());
                slot.attempt = None;
                return Ok(());
            }
        }
        let (fate, time) = match syn.state() {
            SynState::Waiting => return Ok(()),
            SynState::Open(Some(rtt)) => (Fate::Reply, Time::Measured(rtt)),
            SynState::Open(None) => (Fate::Reply, Time::Seen),
            SynState::Refused => (Fate::Refused, Time::Seen),
            SynState::SentAgain | SynState::Failed(Errno::ETIMEDOUT) => {
                // The tracker's own timeout says that the probe was lost.
                slot.attempt = None;
                return Ok(());
            }
            SynState::Failed(_) => (Fate::Unreachable, Time::Seen),
        };
        tracker.answer(seq, answer(fate, time, self.target), now());
        slot.attempt = None;
        Ok(())
    }

    /// Ends attempts whose probes have their fate.
    pub(super) fn give_up(&mut self, tracker: &Tracker) {
        for slot in &mut self.slots {
            if slot.attempt.as_ref().is_some_and(|a| !tracker.is_open(a.1)) {
                slot.attempt = None;
            }
        }
    }
}

fn answer(fate: Fate, time: Time, target: SocketAddr) -> Answer {
    Answer {
        fate,
        from: Some(target.ip()),
        received: None,
        ttl: None,
        time,
        arrived: None,
        held: Duration::ZERO,
    }
}
