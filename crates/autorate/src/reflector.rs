//! What is probed: found along the way to the Internet, or told.
//!
//! Principles: the nearer the better, since what is behind the access line is not ours to judge;
//! whatever answers will do: ICMP time stamps, which tell directions apart, echo, or a refused TCP
//! connection; public hosts only if nothing else answers, and then seldom. Non-goals: what the
//! answers mean (`evenkeel_core::control`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::ping::arrivals::Arrivals;
use evenkeel_core::ping::track::Event;
use evenkeel_core::ping::{Fate, Outcome};
use evenkeel_measure::hops;
use evenkeel_measure::ping::{Kind, Pinger};
use evenkeel_sys::clock;

use crate::error::Error;
use crate::routes;

/// Where the way to the Internet leads, by IPv4 and by IPv6; only hops on the way are asked.
const FAR: [IpAddr; 2] = [PUBLIC[0], PUBLIC[3]];
/// The near hop is not farther away than this.
const HOPS: u8 = 3;
/// If none of those answers, so many are asked.
const MORE_HOPS: u8 = 8;
/// A hop that takes longer does not answer.
const PATIENCE: Duration = Duration::from_millis(700);
/// So often it is seen that another answered.
const SLICE: Duration = Duration::from_millis(20);
/// Public name servers of three operators that answer ICMP echo.
const PUBLIC: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1)),
    IpAddr::V4(Ipv4Addr::new(9, 9, 9, 9)),
    IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8)),
    IpAddr::V6(Ipv6Addr::new(0x2606, 0x4700, 0x4700, 0, 0, 0, 0, 0x1111)),
    IpAddr::V6(Ipv6Addr::new(0x2620, 0xfe, 0, 0, 0, 0, 0, 0xfe)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0x4860, 0x4860, 0, 0, 0, 0, 0x8888)),
];
/// They are not asked more often.
const SELDOM: Duration = Duration::from_secs(1);
/// Where a TCP connection is asked for.
const TCP_PORT: u16 = 80;
/// Payload of a probe.
pub(crate) const SIZE: u32 = 16;

/// An address or a name that somebody wants to have probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host(String);

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-:_".contains(c);
        if text.is_empty() || !text.chars().all(plain) {
            return Err(format!("{text:?} is neither an address nor a host's name"));
        }
        Ok(Host(text.to_owned()))
    }
}

/// Why it is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// On the way, behind the access line or before it.
    OnPath,
    /// Somebody wants it.
    Told,
    /// Nothing else answers.
    Public,
}

/// What is said behind its address.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::OnPath => Ok(()),
            Origin::Told => f.write_str(", as told"),
            Origin::Public => f.write_str(
                ", a public host and only once a second: nothing on the way answers (--target names one that may be probed faster)",
            ),
        }
    }
}

/// What is probed.
pub(crate) struct Reflector {
    pub(crate) pinger: Pinger,
    pub(crate) address: IpAddr,
    pub(crate) origin: Origin,
    /// It stamps probes.
    pub(crate) stamps: bool,
    /// Which probe reached it when, ms since midnight by its clock.
    pub(crate) far: Option<(u64, u32)>,
    /// When it was probed last.
    asked: Duration,
}

/// Something that answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    address: IpAddr,
    kind: Kind,
    origin: Origin,
}

impl Reflector {
    /// What answered, from now on.
    pub(crate) fn open(device: &str, found: Found) -> Option<Self> {
        Some(Reflector {
            pinger: pinger(device, found.address, found.kind, arrivals(device))?,
            address: found.address,
            origin: found.origin,
            stamps: found.kind == Kind::Timestamp,
            far: None,
            asked: Duration::ZERO,
        })
    }

    /// Whether it may be probed again; says yes once.
    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let due = self.origin != Origin::Public || now.saturating_sub(self.asked) >= SELDOM;
        if due {
            self.asked = now;
        }
        due
    }
}

/// The first that answers: of those `told`, if there are any; else, by IPv4 and then by IPv6, what
/// is on the way; else public hosts.
pub(crate) fn find(device: &str, told: &[Host], stop: &AtomicBool) -> Result<Option<Found>, Error> {
    if !told.is_empty() {
        let all = told.iter().flat_map(addresses);
        return first(device, all, Origin::Told, stop);
    }
    let mut public = Vec::new();
    for far in FAR {
        let (found, leads_there) = on_the_way(device, far, stop)?;
        if found.is_some() {
            return Ok(found);
        }
        if leads_there {
            public.extend(PUBLIC.into_iter().filter(|p| p.is_ipv6() == far.is_ipv6()));
        }
    }
    first(device, public, Origin::Public, stop)
}

/// What answers on the way to `far`: the first hop beyond the access line, the farthest of the
/// first ones, hops farther away. And whether there is a way.
fn on_the_way(
    device: &str,
    far: IpAddr,
    stop: &AtomicBool,
) -> Result<(Option<Found>, bool), Error> {
    // No way to the Internet is no error: there may be one later. Hops that say nothing of
    // probes that expire may answer to their own address all the same.
    let options = routes::leave_by(device, far);
    let to = SocketAddr::new(far, 0);
    let hops = |most| hops::first_hops(to, options, most, PATIENCE, stop).ok();
    let route = hops(HOPS);
    let beyond = route.as_ref().and_then(|r| Some(r.near_from_gateway()?.1));
    let near = route.iter().flat_map(|r| r.hops.iter().rev());
    let rest = near.filter_map(|h| h.addresses.first().copied());
    let next = routes::next_hops(device).into_iter();
    let next = next.filter(|hop| hop.is_ipv6() == far.is_ipv6());
    let close = beyond.into_iter().chain(rest).chain(next);
    let found = first(device, close, Origin::OnPath, stop)?;
    if found.is_some() || route.is_none() {
        return Ok((found, route.is_some()));
    }
    let route = hops(MORE_HOPS);
    let more = route.iter().flat_map(|r| r.hops.iter().skip(HOPS.into()));
    let rest = more.filter_map(|h| h.addresses.first().copied());
    let on_the_way = rest.filter(|a| *a != far);
    Ok((first(device, on_the_way, Origin::OnPath, stop)?, true))
}

/// Those of a host; none if nobody knows it (now).
fn addresses(host: &Host) -> impl Iterator<Item = IpAddr> + use<> {
    let found = (host.0.as_str(), 0).to_socket_addrs();
    found.into_iter().flatten().map(|a| a.ip())
}

/// Whether nobody waits for an answer any more.
type Over<'a> = dyn Fn() -> bool + Sync + 'a;

/// The first of `all` that answers something. Strangers are asked one after the other.
fn first(
    device: &str,
    all: impl IntoIterator<Item = IpAddr>,
    origin: Origin,
    stop: &AtomicBool,
) -> Result<Option<Found>, Error> {
    let all: Vec<_> = all.into_iter().collect();
    let together = if origin == Origin::Public {
        1
    } else {
        all.len().max(1)
    };
    let stopped = || stop.load(Ordering::Relaxed);
    for some in all.chunks(together) {
        let found = at_once(some, &stopped, |&address, over| {
            let kind = kind_of(device, address, origin, over)?;
            Ok(kind.map(|kind| Found {
                address,
                kind,
                origin,
            }))
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// What an address answers to. Where ICMP is filtered, a refused TCP connection is an answer too;
/// strangers are asked for neither that nor their clock.
fn kind_of(
    device: &str,
    address: IpAddr,
    origin: Origin,
    over: &Over<'_>,
) -> Result<Option<Kind>, Error> {
    let rounds: &[&[Kind]] = match origin {
        Origin::Public => &[&[Kind::Echo]],
        Origin::OnPath | Origin::Told => &[&[Kind::Timestamp, Kind::Echo], &[Kind::Tcp]],
    };
    for kinds in rounds {
        let found = at_once(kinds, over, |&kind, over| {
            let Some(mut pinger) = pinger(device, address, kind, None) else {
                return Ok(None);
            };
            Ok(answers(&mut pinger, over)?.then_some(kind))
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Asks all at once; of those that answer, the first in their order.
fn at_once<T: Sync, R: Send>(
    all: &[T],
    over: &Over<'_>,
    ask: impl Fn(&T, &Over<'_>) -> Result<Option<R>, Error> + Sync,
) -> Result<Option<R>, Error> {
    let enough = AtomicBool::new(false);
    let over = || enough.load(Ordering::Relaxed) || over();
    std::thread::scope(|s| {
        let (ask, over) = (&ask, &over);
        let asked: Vec<_> = all
            .iter()
            .map(|one| s.spawn(move || ask(one, over)))
            .collect();
        let mut found = Ok(None);
        for answer in asked {
            found = match answer.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            if !matches!(found, Ok(None)) {
                break;
            }
        }
        enough.store(true, Ordering::Relaxed);
        found
    })
}

fn pinger(
    device: &str,
    address: IpAddr,
    kind: Kind,
    arrivals: Option<Box<dyn Arrivals>>,
) -> Option<Pinger> {
    let port = if kind == Kind::Tcp { TCP_PORT } else { 0 };
    let options = routes::leave_by(device, address);
    let address = SocketAddr::new(address, port);
    Pinger::open(address, kind, options, PATIENCE, SIZE, arrivals).ok()
}

/// Knows when answers arrive at `device`, before the queue of our own that they then wait in.
fn arrivals(device: &str) -> Option<Box<dyn Arrivals>> {
    let maps = evenkeel_kernel::maps(device).ok().flatten()?;
    Some(Box::new(maps))
}

/// It came from what was probed.
pub(crate) fn is_answer(o: &Outcome) -> bool {
    matches!(o.fate, Fate::Reply | Fate::Refused)
}

/// Whether a probe is answered, with stamps if it asks for them, before it is `over`.
fn answers(pinger: &mut Pinger, over: &Over<'_>) -> Result<bool, Error> {
    if pinger.send(SIZE)?.is_err() {
        return Ok(false);
    }
    while !over() {
        while let Some(event) = pinger.poll() {
            if let Event::Outcome(o) = event {
                return Ok(is_answer(&o));
            }
        }
        let until = clock::monotonic() + SLICE;
        pinger.wait(Some(until))?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_names() {
        for good in ["192.0.2.1", "2001:db8::1", "gw.example", "my-router_2"] {
            assert_eq!(good.parse(), Ok(Host(good.into())));
        }
        for bad in ["", "a b", "http://gw.example/", "a,b"] {
            assert!(bad.parse::<Host>().is_err(), "{bad}");
        }
        let all: Vec<_> = addresses(&Host("192.0.2.1".into())).collect();
        assert_eq!(all, [IpAddr::from([192, 0, 2, 1])]);
    }
}
