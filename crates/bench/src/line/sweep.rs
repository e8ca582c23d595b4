//! Echoes of many sizes, one at a time.
//!
//! Principles: one under way, and no more than a hundred a second; kernel time stamps from the driver to the
//! socket. Non-goals: what they mean (`evenkeel_core::linklayer::idle`).

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_core::linklayer::idle::Sweep;
use evenkeel_core::ping::Fate;
use evenkeel_core::ping::track::Event;
use evenkeel_measure::ping::{Kind, PingError, Pinger};
use evenkeel_sys::PacketOptions;

use crate::failed::Failed;

/// What is being done, for whom it may concern.
pub type Show<'a> = &'a mut dyn FnMut(&str);

/// From one echo to the next.
const GAP: Duration = Duration::from_millis(10);
/// One that takes longer is lost.
const PATIENCE: Duration = Duration::from_millis(800);
/// Headers of IP and ICMP.
const HEADERS: [u32; 2] = [28, 48];

/// Sweeps in at most so many rounds.
pub(super) fn sweep(
    to: IpAddr,
    mtu: u32,
    rounds: u32,
    cancel: &AtomicBool,
    show: Show<'_>,
) -> Result<Sweep, Failed> {
    let headers = HEADERS[usize::from(to.is_ipv6())];
    let mut sweep = Sweep::new(mtu).at_most(rounds);
    let whole = PacketOptions {
        dont_fragment: true,
        ..PacketOptions::default()
    };
    let target = SocketAddr::new(to, 0);
    let opened = Pinger::open(target, Kind::Echo, whole, PATIENCE, 12, None);
    let mut pinger = opened.map_err(|e| match e {
        PingError::NotPermitted { .. } => Failed::Denied(e.to_string()),
        e => Failed::Work(e.to_string()),
    })?;
    while let Some(size) = sweep.next() {
        if cancel.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        let (asked, answered) = sweep.counts();
        if asked % 16 == 0 {
            show(&format!(
                "echoes of many sizes: {asked}, {answered} answers"
            ));
        }
        let rtt = echo(&mut pinger, size.saturating_sub(headers), cancel)?;
        sweep.seen(size, rtt);
        nap(GAP.saturating_sub(began.elapsed()), cancel);
    }
    Ok(sweep)
}

/// One echo's round trip, without our own queue.
fn echo(
    pinger: &mut Pinger,
    payload: u32,
    cancel: &AtomicBool,
) -> Result<Option<Duration>, Failed> {
    if pinger.send(payload)?.is_err() {
        return Ok(None);
    }
    loop {
        while let Some(event) = pinger.poll() {
            if let Event::Outcome(o) = event {
                let reply = o.fate == Fate::Reply && o.received == Some(payload);
                let took = o.delays.map(|d| d.path.unwrap_or(d.felt));
                return Ok(took.filter(|_| reply));
            }
        }
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        pinger.wait(None)?;
    }
}

/// Sleeps for so long, or until somebody wants to stop.
fn nap(time: Duration, cancel: &AtomicBool) {
    let end = Instant::now() + time;
    while Instant::now() < end && !cancel.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
