//! What is probed: found along the way to the Internet, or told.
//!
//! Principles: the nearer the better, since what is behind the access line is not ours to judge;
//! whatever answers will do: ICMP time stamps, which tell directions apart, echo, a refused TCP
//! connection, or the error that says that a probe's TTL ended there; public hosts only if nothing
//! else answers, and then seldom. Non-goals: the others on the way (`candidates`), which of them is
//! believed (`choice`), what the answers mean (`evenkeel_core::control`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::ping::arrivals::Arrivals;
use evenkeel_core::ping::route::{Hop, Route};
use evenkeel_core::ping::track::Event;
use evenkeel_core::ping::{Fate, Outcome};
use evenkeel_measure::hops;
use evenkeel_measure::ping::{Kind, Pinger};
use evenkeel_sys::clock;

use crate::error::Error;
use crate::routes;

/// Where the way to the Internet leads, by IPv4 and by IPv6; only hops on the way are asked.
pub(crate) const FAR: [IpAddr; 2] = [PUBLIC[0], PUBLIC[3]];
/// The near hop is not farther away than this.
const HOPS: u8 = 3;
/// If none of those answers, so many are asked.
pub(crate) const MORE_HOPS: u8 = 8;
/// A hop that takes longer does not answer.
pub(crate) const PATIENCE: Duration = Duration::from_millis(700);
/// Answers of what is used are waited for so long: buffers hold two seconds, and satellites are far away.
const LINE_PATIENCE: Duration = Duration::from_secs(3);
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
pub(crate) const SELDOM: Duration = Duration::from_secs(1);
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
    /// Busy connections lead there, and nothing on the way answers often.
    FarEnd,
}

/// What is said behind its address.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::OnPath => Ok(()),
            Origin::Told => f.write_str(", as told"),
            Origin::FarEnd => f.write_str(
                ", as long as connections there are busy: nothing on the way answers often",
            ),
            Origin::Public => f.write_str(
                ", a public host and only once a second: nothing on the way answers (--target names one that may be probed faster)",
            ),
        }
    }
}

/// How somebody is made to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// By a probe to the address.
    To(Kind),
    /// By an echo request to [`FAR`] whose TTL ends there, after so many hops: routers that do not
    /// answer to their own address say so, or that they know no way on.
    Expiring(u8),
}

/// Something that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) address: IpAddr,
    pub(crate) probe: Probe,
    pub(crate) origin: Origin,
    /// How many hops away; `None`: not known.
    pub(crate) distance: Option<u8>,
    /// No hop answers that is surely beyond the access line: this may be a box in front of it.
    pub(crate) may_be_in_front: bool,
}

impl Found {
    /// What sends probes by `device`, and knows when their answers arrive there if that is of `interest`.
    pub(crate) fn pinger(&self, device: &str, interest: bool) -> Option<Pinger> {
        let arrivals = interest.then(|| arrivals(device)).flatten();
        let patience = if interest { LINE_PATIENCE } else { PATIENCE };
        pinger(device, self.address, self.probe, arrivals, patience)
    }

    /// It came from what was probed.
    pub(crate) fn is_answer(&self, o: &Outcome) -> bool {
        match self.probe {
            Probe::To(_) => matches!(o.fate, Fate::Reply | Fate::Refused),
            Probe::Expiring(_) => {
                let said = matches!(o.fate, Fate::Expired | Fate::NetUnreachable);
                said && o.from == Some(self.address)
            }
        }
    }

    /// It stamps probes.
    pub(crate) fn stamps(&self) -> bool {
        self.probe == Probe::To(Kind::Timestamp)
    }

    /// Where it is on a route.
    fn at(mut self, route: Option<&Route>) -> Self {
        let hops = route.map_or(&[][..], |r| &r.hops[..]);
        let at = hops
            .iter()
            .position(|h| h.addresses.contains(&self.address));
        self.distance = at.map(|at| at as u8 + 1);
        self
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
    let beyond = route.as_ref().and_then(Route::near_from_gateway);
    let (beyond_hops, beyond) = (beyond.map(|b| b.0), beyond.map(|b| b.1));
    let near = route.iter().flat_map(|r| r.hops.iter().rev());
    let rest = near.filter_map(|h| h.addresses.first().copied());
    let next = routes::next_hops(device).into_iter();
    let next = next.filter(|hop| hop.is_ipv6() == far.is_ipv6());
    let close = beyond.into_iter().chain(rest).chain(next);
    let found = first(device, close, Origin::OnPath, stop)?;
    let mut found = found.map(|f| f.at(route.as_ref()));
    if let (Some(found), Some(near)) = (&mut found, &route) {
        let is_unsure = found.distance.is_some() && !leads_beyond(near);
        found.may_be_in_front = is_unsure && !hops(MORE_HOPS).as_ref().is_some_and(leads_beyond);
    }
    if found.is_some() || route.is_none() {
        // What answers before the access line sees no queue of it; what only lets probes expire beyond it does.
        let before = |f: &Found| f.distance.zip(beyond_hops).is_some_and(|(d, b)| d < b);
        let seen = route
            .as_ref()
            .filter(|_| found.as_ref().is_some_and(before));
        return Ok((seen.and_then(expiring).or(found), route.is_some()));
    }
    let route = hops(MORE_HOPS);
    let more = route.iter().flat_map(|r| r.hops.iter().skip(HOPS.into()));
    let rest = more.filter_map(|h| h.addresses.first().copied());
    let on_the_way = rest.filter(|a| *a != far);
    let found = first(device, on_the_way, Origin::OnPath, stop)?;
    let found = found.map(|f| f.at(route.as_ref()));
    Ok((found.or_else(|| expiring(route.as_ref()?)), true))
}

/// Whether a hop that is surely beyond the access line answers. Where the way ends tells nothing of the hops before.
fn leads_beyond(route: &Route) -> bool {
    route
        .near_from_gateway()
        .is_some_and(|near| !FAR.contains(&near.1))
}

/// The hop of a route that probes are best made to expire at: the first beyond the access line, or
/// else the farthest one. Not where the way ends.
fn expiring(route: &Route) -> Option<Found> {
    let answered = |h: &Hop| h.answered > 0 && h.last.is_none();
    let far = || {
        let at = route.hops.iter().rposition(answered)?;
        Some((at as u8 + 1, *route.hops[at].addresses.first()?))
    };
    let near = route.near_from_gateway().filter(|n| !FAR.contains(&n.1));
    let (hops, address) = near.or_else(far)?;
    Some(Found {
        address,
        probe: Probe::Expiring(hops),
        origin: Origin::OnPath,
        distance: Some(hops),
        may_be_in_front: false,
    })
}

/// The far host on the way to which a hop is.
pub(crate) fn far_beyond(hop: IpAddr) -> IpAddr {
    FAR[usize::from(hop.is_ipv6())]
}

/// Those of a host; none if nobody knows it (now).
pub(crate) fn addresses(host: &Host) -> impl Iterator<Item = IpAddr> + use<> {
    let found = (host.0.as_str(), 0).to_socket_addrs();
    found.into_iter().flatten().map(|a| a.ip())
}

/// Whether nobody waits for an answer any more.
pub(crate) type Over<'a> = dyn Fn() -> bool + Sync + 'a;

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
            kind_of(device, address, origin, over)
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// What an address answers to. Where ICMP is filtered, a refused TCP connection is an answer too;
/// strangers are asked for neither that nor their clock.
pub(crate) fn kind_of(
    device: &str,
    address: IpAddr,
    origin: Origin,
    over: &Over<'_>,
) -> Result<Option<Found>, Error> {
    let rounds: &[&[Kind]] = match origin {
        Origin::Public | Origin::FarEnd => &[&[Kind::Echo]],
        Origin::OnPath | Origin::Told => &[&[Kind::Timestamp, Kind::Echo], &[Kind::Tcp]],
    };
    for kinds in rounds {
        let found = at_once(kinds, over, |&kind, over| {
            let found = Found {
                address,
                probe: Probe::To(kind),
                origin,
                distance: None,
                may_be_in_front: false,
            };
            Ok(answers(device, &found, over)?.then_some(found))
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
    probe: Probe,
    arrivals: Option<Box<dyn Arrivals>>,
    patience: Duration,
) -> Option<Pinger> {
    let mut options = routes::leave_by(device, address);
    let (to, kind) = match probe {
        Probe::To(Kind::Tcp) => (SocketAddr::new(address, TCP_PORT), Kind::Tcp),
        Probe::To(kind) => (SocketAddr::new(address, 0), kind),
        Probe::Expiring(hops) => {
            options.hops = Some(hops);
            (SocketAddr::new(far_beyond(address), 0), Kind::Echo)
        }
    };
    Pinger::open(to, kind, options, patience, SIZE, arrivals).ok()
}

/// Knows when answers arrive at `device`, before any queue of our own, in which they do not wait: a shaper that is cut
/// would keep what is to set it.
fn arrivals(device: &str) -> Option<Box<dyn Arrivals>> {
    let maps = evenkeel_kernel::maps(device).ok().flatten()?;
    Some(Box::new(maps.with_answers_at_once()))
}

/// Whether a probe is answered, with stamps if it asks for them, before it is `over`.
pub(crate) fn answers(device: &str, found: &Found, over: &Over<'_>) -> Result<bool, Error> {
    let Some(mut pinger) = found.pinger(device, false) else {
        return Ok(false);
    };
    let outcome = outcome(&mut pinger, SIZE, over)?;
    Ok(outcome.is_some_and(|o| found.is_answer(&o)))
}

/// What becomes of one probe with `size` bytes of payload, if that is known before it is `over`.
pub(crate) fn outcome(
    pinger: &mut Pinger,
    size: u32,
    over: &Over<'_>,
) -> Result<Option<Outcome>, Error> {
    if pinger.send(size)?.is_err() {
        return Ok(None);
    }
    while !over() {
        while let Some(event) = pinger.poll() {
            if let Event::Outcome(o) = event {
                return Ok(Some(o));
            }
        }
        let until = clock::monotonic() + SLICE;
        pinger.wait(Some(until))?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(fate: Fate, from: &str) -> Outcome {
        Outcome {
            seq: 0,
            sent: Duration::ZERO,
            size: SIZE,
            fate,
            from: from.parse().ok(),
            received: None,
            ttl: None,
            delays: None,
            stamped: true,
        }
    }

    #[test]
    fn an_answer_is_of_the_kind_that_was_asked_for() {
        let found = |probe| Found {
            address: IpAddr::from([198, 51, 100, 1]),
            probe,
            origin: Origin::OnPath,
            distance: Some(2),
            may_be_in_front: false,
        };
        let (echo, expiring) = (Probe::To(Kind::Echo), Probe::Expiring(2));
        for (probe, fate, from, is_answer) in [
            (echo, Fate::Reply, "198.51.100.1", true),
            (echo, Fate::Expired, "198.51.100.1", false),
            (Probe::To(Kind::Tcp), Fate::Refused, "198.51.100.1", true),
            (expiring, Fate::Expired, "198.51.100.1", true),
            (expiring, Fate::NetUnreachable, "198.51.100.1", true),
            (expiring, Fate::Expired, "198.51.100.2", false),
            (expiring, Fate::Reply, "1.1.1.1", false),
            (expiring, Fate::Timeout, "", false),
        ] {
            let got = found(probe).is_answer(&outcome(fate, from));
            assert_eq!(got, is_answer, "{probe:?} {fate} {from}");
        }
    }

    /// Routes as they are seen: `*` is silent.
    fn route(hops: &[(&str, Fate)]) -> Route {
        let mut route = Route::new(FAR[0], MORE_HOPS);
        for (ttl, (from, fate)) in (1..).zip(hops) {
            route.add(ttl, &outcome(*fate, from));
        }
        // Times make no difference here: none of the private ones is far away.
        for hop in &mut route.hops {
            hop.times.add(Duration::from_micros(500));
        }
        route
    }

    #[test]
    fn probes_expire_beyond_the_access_line_or_far_away() {
        use Fate::{Expired, Reply, Timeout};
        for (hops, at) in [
            (&[("10.0.0.1", Expired), ("62.1.2.3", Expired)][..], Some(2)),
            (&[("62.1.2.3", Expired), ("62.1.2.4", Expired)], Some(1)),
            (
                &[("10.0.0.1", Expired), ("10.1.0.1", Expired), ("", Timeout)],
                Some(2),
            ),
            (&[("1.1.1.1", Reply)], None),
            (&[("", Timeout), ("", Timeout)], None),
            (&[], None),
        ] {
            let found = expiring(&route(hops)).and_then(|f| f.distance);
            assert_eq!(found, at, "{hops:?}");
        }
    }

    #[test]
    fn a_box_that_is_alone_may_be_in_front() {
        use Fate::{Expired, Reply, Timeout};
        for (hops, leads_beyond) in [
            (&[("10.0.0.1", Expired), ("", Timeout)][..], false),
            (
                &[("10.0.0.1", Expired), ("", Timeout), ("1.1.1.1", Reply)],
                false,
            ),
            (
                &[("10.0.0.1", Expired), ("", Timeout), ("62.1.2.3", Expired)],
                true,
            ),
            (&[("62.1.2.3", Expired), ("", Timeout)], true),
            (&[], false),
        ] {
            assert_eq!(super::leads_beyond(&route(hops)), leads_beyond, "{hops:?}");
        }
    }

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
