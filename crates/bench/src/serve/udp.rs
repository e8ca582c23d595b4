//! Which probes are answered.
//!
//! Principles: probes of no session only where no token is asked for, and only so many a second;
//! none that is longer than a packet. Non-goals: answering (`evenkeel_measure::echo`).

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_measure::echo::Echo;
use evenkeel_sys::{Error, clock};

/// Probes without a session that are answered in a second: twenty probers at 5 ms.
const STRANGERS_PER_S: u32 = 4000;
/// The longest probe that is answered: a packet of an Ethernet.
const LONGEST: usize = 1500;

/// Which sessions there are, by the lower half of their number.
pub(super) type Sessions = Arc<Mutex<HashSet<u32>>>;

/// Answers on `local` until dropped.
pub(super) fn start(local: SocketAddr, sessions: Sessions, strangers: bool) -> Result<Echo, Error> {
    let (mut second, mut answered) = (Duration::ZERO, 0);
    let admits = move |probe: &evenkeel_measure::packet::Probe, bytes: usize| {
        let known = sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&probe.session);
        if !known {
            let now = clock::monotonic();
            if now.saturating_sub(second) > Duration::from_secs(1) {
                (second, answered) = (now, 0);
            }
            answered += 1;
            if !strangers || answered > STRANGERS_PER_S {
                return false;
            }
        }
        bytes <= LONGEST
    };
    Echo::start_with(local, Box::new(admits))
}
