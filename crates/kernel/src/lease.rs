//! Rates on a lease: a rate below what the line carries is only in force while somebody renews it.
//!
//! Principles: what brings rates back is made when they are cut, so that a process of its own can
//! do it without knowing anything (`evenkeel_sys::watchdog`); where nothing is cut nothing is held.
//! Non-goals: which rates those are (`live`); windows, whose lease is in the eBPF programs' map.

use std::time::Duration;

use evenkeel_sys::Watchdog;

use crate::Error;

/// Rates come back so long after the last renewal. Renewed each half second; a router that is busy
/// enough to miss two in a row loses nothing but a moment of draining.
const LEASE: Duration = Duration::from_millis(1500);

/// Who brings rates back.
#[derive(Debug)]
pub(crate) struct RateLease {
    watchdog: Watchdog,
    /// What it would send; nothing while nothing is cut.
    messages: Vec<u8>,
    /// It had to be replaced: what its predecessor did at its end is not known.
    replaced: bool,
}

impl RateLease {
    /// Nothing is cut. For the calling thread's network namespace.
    pub(crate) fn start() -> Result<Self, Error> {
        Ok(RateLease {
            watchdog: watchdog()?,
            messages: Vec::new(),
            replaced: false,
        })
    }

    /// `messages` bring rates back. To be said before they are cut.
    pub(crate) fn hold(&mut self, messages: Vec<u8>) -> Result<(), Error> {
        self.messages = messages;
        self.say(Watchdog::arm)
    }

    /// Rates are cut for as long again.
    pub(crate) fn renew(&mut self) -> Result<(), Error> {
        if self.messages.is_empty() {
            return Ok(());
        }
        self.say(|watchdog, _| watchdog.renew())
    }

    /// Nothing is cut any more.
    pub(crate) fn release(&mut self) -> Result<(), Error> {
        if self.messages.is_empty() {
            return Ok(());
        }
        self.messages.clear();
        self.say(|watchdog, _| watchdog.disarm())
    }

    /// There is nothing any more that could come back.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        self.release()
    }

    /// Whether rates came back by themselves since the last call. Nothing is held then.
    pub(crate) fn has_run_out(&mut self) -> bool {
        let replaced = std::mem::take(&mut self.replaced);
        self.watchdog.has_fired() || replaced
    }

    /// One that was killed, or does not listen, is replaced by one that knows the same.
    fn say(
        &mut self,
        what: impl Fn(&Watchdog, &[u8]) -> Result<(), evenkeel_sys::Error>,
    ) -> Result<(), Error> {
        if what(&self.watchdog, &self.messages).is_ok() {
            return Ok(());
        }
        self.watchdog = watchdog()?;
        self.replaced = true;
        if self.messages.is_empty() {
            return Ok(());
        }
        self.watchdog.arm(&self.messages).map_err(refused)
    }
}

fn watchdog() -> Result<Watchdog, Error> {
    Watchdog::start(LEASE).map_err(refused)
}

fn refused(e: evenkeel_sys::Error) -> Error {
    let errno = e.errno() as i32;
    Error::refused("keep rates on a lease", e, errno)
}
