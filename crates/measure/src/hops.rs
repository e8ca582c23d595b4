//! The hops to a host, and which of them is the near hop.
//!
//! Principles: one probe under way at a time, or one for each of the first hops, and no hop asked
//! more often than once a second, so that no router has work with it; all probes of a run are one
//! flow, so that load balancers do not split the path; a hop that leaves some unanswered is asked
//! directly, at its own address. Non-goals: all paths at once, printing, judging losses
//! (`evenkeel_core::ping::route`).

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_core::ping::route::Route;
use evenkeel_core::ping::track::Event;
use evenkeel_core::ping::{Fate, Outcome};
use evenkeel_sys::{DeviceName, PacketOptions};

use crate::ping::{Kind, PingError, Pinger};

/// From one round to the next: routers answer about once a second.
pub const ROUND: Duration = Duration::from_secs(1);
/// Bytes of the probes' payload.
pub const SIZE: u32 = 32;
/// A hop that never answered in so many rounds is left alone.
const PATIENCE: u64 = 3;
/// The near hop is not farther away than this.
const NEAR_HOPS: u8 = 8;

/// What asks the hops.
pub struct Tracer<'a> {
    /// What is known of them.
    pub route: Route,
    pinger: Pinger,
    direct: HashMap<IpAddr, Pinger>,
    device: Option<DeviceName>,
    timeout: Duration,
    max: u8,
    cancel: &'a AtomicBool,
}

/// Sends a probe and waits for its fate. `None`: the caller wants to stop.
fn ask(pinger: &mut Pinger, cancel: &AtomicBool) -> Result<Option<Outcome>, PingError> {
    let sent = pinger.send(SIZE)?;
    loop {
        while let Some(event) = pinger.poll() {
            if let Event::Outcome(o) = event {
                return match sent {
                    Err(errno) if o.fate == Fate::Unsent => Err(pinger.unsent(SIZE, errno)),
                    _ => Ok(Some(o)),
                };
            }
        }
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        pinger.wait(None)?;
    }
}

impl<'a> Tracer<'a> {
    /// Asks up to `max` hops on the way to `target`, by the probes of `kind`.
    pub fn open(
        target: SocketAddr,
        kind: Kind,
        options: PacketOptions,
        timeout: Duration,
        max: u8,
        cancel: &'a AtomicBool,
    ) -> Result<Self, PingError> {
        Ok(Tracer {
            route: Route::new(target.ip(), max),
            pinger: Pinger::open(target, kind, options, timeout, SIZE, None)?,
            direct: HashMap::new(),
            device: options.device,
            timeout,
            max,
            cancel,
        })
    }

    /// Asks each hop once. `false`: the caller wants to stop.
    pub fn round(&mut self) -> Result<bool, PingError> {
        let mut ttl = 0;
        while ttl < self.max && self.route.wants(ttl + 1) {
            ttl += 1;
            let hop = self.route.hops.get(usize::from(ttl) - 1);
            if hop.is_some_and(|h| h.answered == 0 && h.sent >= PATIENCE) {
                continue;
            }
            self.pinger.set_hops(ttl)?;
            let Some(o) = ask(&mut self.pinger, self.cancel)? else {
                return Ok(false);
            };
            self.route.add(ttl, &o);
        }
        self.ask_directly()
    }

    /// Those that left a probe unanswered are asked at their own addresses.
    fn ask_directly(&mut self) -> Result<bool, PingError> {
        let reluctant: Vec<(u8, IpAddr)> = (1..)
            .zip(&self.route.hops)
            .filter(|(_, h)| h.is_reluctant() || h.direct_sent > 0)
            .filter_map(|(ttl, h)| Some((ttl, *h.addresses.first()?)))
            .collect();
        for (ttl, address) in reluctant {
            let pinger = match self.direct.entry(address) {
                std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
                std::collections::hash_map::Entry::Vacant(e) => {
                    let Ok(pinger) = echo(address, self.device, self.timeout) else {
                        continue;
                    };
                    e.insert(pinger)
                }
            };
            match ask(pinger, self.cancel)? {
                Some(o) => self.route.add_direct(ttl, &o),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// ICMP echo to a hop's own address.
fn echo(
    address: IpAddr,
    device: Option<DeviceName>,
    timeout: Duration,
) -> Result<Pinger, PingError> {
    let to = SocketAddr::new(address, 0);
    let options = PacketOptions {
        device,
        ..PacketOptions::default()
    };
    Pinger::open(to, Kind::Echo, options, timeout, SIZE, None)
}

/// Waits until `end`, or until the caller wants to stop.
pub fn rest(end: Instant, cancel: &AtomicBool) {
    while Instant::now() < end && !cancel.load(Ordering::Relaxed) {
        std::thread::sleep(
            Duration::from_millis(20).min(end.saturating_duration_since(Instant::now())),
        );
    }
}

/// The first hops on the way to `target`, each asked once, all at the same time.
pub fn first_hops(
    target: SocketAddr,
    options: PacketOptions,
    most: u8,
    timeout: Duration,
    cancel: &AtomicBool,
) -> Result<Route, PingError> {
    let mut pinger = Pinger::open(target, Kind::Echo, options, timeout, SIZE, None)?;
    let mut asked = HashMap::new();
    for ttl in 1..=most {
        pinger.set_hops(ttl)?;
        let sent = pinger.send(SIZE)?;
        let seq = sent.map_err(|errno| pinger.unsent(SIZE, errno))?;
        asked.insert(seq, ttl);
    }
    let mut answers = BTreeMap::new();
    while answers.len() < asked.len() && !cancel.load(Ordering::Relaxed) {
        pinger.wait(None)?;
        while let Some(event) = pinger.poll() {
            if let Event::Outcome(o) = event
                && let Some(ttl) = asked.get(&o.seq)
            {
                answers.insert(*ttl, o);
            }
        }
    }
    let mut route = Route::new(target.ip(), most);
    for (ttl, outcome) in &answers {
        if route.wants(*ttl) {
            route.add(*ttl, outcome);
        }
    }
    Ok(route)
}

/// The first hop beyond the access line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearHop {
    /// How many hops away.
    pub ttl: u8,
    /// Its address.
    pub address: IpAddr,
    /// Whether it answers to its own address.
    pub answers: bool,
}

/// The first hop beyond the access line on the way to `target`; `None` if none answered.
pub fn near(target: SocketAddr) -> Result<Option<NearHop>, PingError> {
    let timeout = Duration::from_secs(1);
    let never = AtomicBool::new(false);
    let options = PacketOptions::default();
    let mut tracer = Tracer::open(target, Kind::Echo, options, timeout, NEAR_HOPS, &never)?;
    for _ in 0..2 {
        let next = Instant::now() + ROUND;
        tracer.round()?;
        if let Some((ttl, address)) = tracer.route.near() {
            let asked = ask(&mut echo(address, None, timeout)?, &never)?;
            return Ok(Some(NearHop {
                ttl,
                address,
                answers: asked.is_some_and(|o| o.fate == Fate::Reply),
            }));
        }
        rest(next, &never);
    }
    Ok(None)
}
