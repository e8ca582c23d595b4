//! What else could be probed than what was found first: hops along the way, and how often each
//! answers.
//!
//! Principles: in the order of the way, since the nearest beyond the bottleneck is the best; at the
//! same hop time stamps rather than echo, echo rather than a TCP connection, and all of them rather
//! than probes that expire there, which routers answer seldom and late; how often somebody answers
//! is tried out once, on one after the other. Non-goals: which of them is believed (`choice`).

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::ping::Outcome;
use evenkeel_core::ping::route::Route;
use evenkeel_core::ping::track::Event;
use evenkeel_measure::hops;
use evenkeel_sys::clock;

use crate::answer_limit::{AnswerLimit, NEARLY_ALL, SLOWEST};
use crate::error::Error;
use crate::reflector::{
    FAR, Found, Host, MORE_HOPS, Origin, PATIENCE, Probe, SIZE, addresses, far_beyond, kind_of,
};
use crate::routes;

/// So many are kept beside the first: each costs a probe in ten seconds.
const MOST: usize = 3;
/// So many hops are asked for them.
const ASKED: usize = 6;
/// How often somebody answers is tried by so many probes, as often as a loaded line is probed.
const TRIAL: u32 = 55;
const FAST: Duration = Duration::from_millis(20);

/// Something that answers, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) found: Found,
    /// It answers no more often than this; nought: as often as it is asked. `None`: that is not known.
    pub(crate) interval: Option<Duration>,
    /// The least that an answer took.
    pub(crate) least: Option<Duration>,
}

impl Candidate {
    /// How often it is asked as long as that is not known. Most routers that do not answer to their own address say
    /// that a probe expired once a second (Linux: `icmp_ratelimit`), and what asks more often hears of nothing else.
    pub(crate) fn assumed(&self) -> Duration {
        match self.found.probe {
            Probe::Expiring(_) => SLOWEST,
            Probe::To(_) => Duration::ZERO,
        }
    }
}

/// `first`, and what else answers: in the order of the way, or of those `told`.
pub(crate) fn candidates(
    device: &str,
    told: &[Host],
    first: Found,
    stop: &AtomicBool,
) -> Result<Vec<Candidate>, Error> {
    let mut all = match first.origin {
        // Strangers are asked for no more than what is needed.
        Origin::Public | Origin::FarEnd => return Ok(Vec::new()),
        Origin::Told => others_told(device, told, &first, stop)?,
        Origin::OnPath => others_on_path(device, &first, stop)?,
    };
    all.truncate(MOST);
    let at = all.partition_point(|f| f.distance < first.distance);
    all.insert(at, first);
    let tried = all.into_iter().map(|found| trial(device, found, stop));
    let tried: Result<Vec<_>, Error> = tried.collect();
    Ok(tried?.into_iter().flatten().collect())
}

fn others_told(
    device: &str,
    told: &[Host],
    first: &Found,
    stop: &AtomicBool,
) -> Result<Vec<Found>, Error> {
    let all = told.iter().flat_map(addresses);
    let others: Vec<_> = all.filter(|a| *a != first.address).take(ASKED).collect();
    each(&others, |&address| {
        kind_of(device, address, Origin::Told, &|| {
            stop.load(Ordering::Relaxed)
        })
    })
}

fn others_on_path(device: &str, first: &Found, stop: &AtomicBool) -> Result<Vec<Found>, Error> {
    let far = far_beyond(first.address);
    let options = routes::leave_by(device, far);
    let to = SocketAddr::new(far, 0);
    let Ok(route) = hops::first_hops(to, options, MORE_HOPS, PATIENCE, stop) else {
        return Ok(Vec::new());
    };
    each(&along(&route, first), |&(hops, address)| {
        let over = || stop.load(Ordering::Relaxed);
        let by_itself = kind_of(device, address, Origin::OnPath, &over)?;
        // It answered to a probe that expired there a moment ago.
        let found = by_itself.unwrap_or(Found {
            address,
            probe: Probe::Expiring(hops),
            origin: Origin::OnPath,
            distance: None,
            may_be_in_front: false,
        });
        Ok(Some(Found {
            distance: Some(hops),
            ..found
        }))
    })
}

/// Hops that may be probed instead of the first: those beyond the access line, or beyond the first
/// one if nobody knows where that is.
fn along(route: &Route, first: &Found) -> Vec<(u8, IpAddr)> {
    let beyond = first.distance.map_or(1, |d| d.saturating_add(1));
    let from = route.near_from_gateway().map_or(beyond, |near| near.0);
    let hops = (1..).zip(&route.hops);
    // Where the way ends is a stranger.
    let on_the_way = hops.filter(|(at, h)| *at >= from && h.last.is_none());
    let all = on_the_way.filter_map(|(at, h)| Some((at, *h.addresses.first()?)));
    let others = all.filter(|(_, a)| *a != first.address && !FAR.contains(a));
    others.take(ASKED).collect()
}

/// Asks all at the same time.
fn each<T: Sync>(
    all: &[T],
    ask: impl Fn(&T) -> Result<Option<Found>, Error> + Sync,
) -> Result<Vec<Found>, Error> {
    std::thread::scope(|scope| {
        let ask = &ask;
        let asked: Vec<_> = all
            .iter()
            .map(|one| scope.spawn(move || ask(one)))
            .collect();
        let answers = asked.into_iter().map(|a| match a.join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let found: Result<Vec<_>, Error> = answers.collect();
        Ok(found?.into_iter().flatten().collect())
    })
}

/// Tries how often it answers; `None` if it does not at all.
fn trial(device: &str, found: Found, stop: &AtomicBool) -> Result<Option<Candidate>, Error> {
    let Some(mut pinger) = found.pinger(device, false) else {
        return Ok(None);
    };
    let begun = clock::monotonic();
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut sent = 0;
    while outcomes.len() < TRIAL as usize && !stop.load(Ordering::Relaxed) {
        let due = begun + FAST * sent;
        if sent < TRIAL && clock::monotonic() >= due {
            sent += 1;
            // What the kernel refuses to send has its outcome.
            let _ = pinger.send(SIZE)?;
            continue;
        }
        let next = if sent < TRIAL {
            due
        } else {
            clock::monotonic() + FAST
        };
        pinger.wait(Some(next))?;
        while let Some(event) = pinger.poll() {
            if let Event::Outcome(o) = event {
                outcomes.push(o);
            }
        }
    }
    outcomes.sort_by_key(|o| o.seq);
    let delay = |o: &Outcome| {
        let delays = o.delays.filter(|_| found.is_answer(o))?;
        Some(delays.path.unwrap_or(delays.felt))
    };
    let mut limit = AnswerLimit::new(Duration::ZERO, begun);
    for o in &outcomes {
        limit.note(o.sent, delay(o));
    }
    let least = outcomes.iter().filter_map(delay).min();
    let answers = outcomes.iter().filter_map(delay).count() as f64;
    let known = answers > NEARLY_ALL * outcomes.len() as f64 || !limit.interval().is_zero();
    // Beside a queue it is not known what became of the others.
    let interval = known.then(|| limit.interval());
    Ok(least.map(|least| Candidate {
        found,
        interval,
        least: Some(least),
    }))
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ping::Fate;
    use evenkeel_measure::ping::Kind;

    use super::*;

    fn route(hops: &[&str]) -> Route {
        let mut route = Route::new(FAR[0], MORE_HOPS);
        for (ttl, from) in (1..).zip(hops) {
            let fate = match *from {
                "" => Fate::Timeout,
                "1.1.1.1" => Fate::Reply,
                _ => Fate::Expired,
            };
            let outcome = Outcome {
                seq: 0,
                sent: Duration::ZERO,
                size: SIZE,
                fate,
                from: from.parse().ok(),
                received: None,
                ttl: None,
                delays: None,
                stamped: true,
            };
            route.add(ttl, &outcome);
            if fate.is_timed() {
                let hop = &mut route.hops[usize::from(ttl) - 1];
                hop.times.add(Duration::from_micros(500));
            }
        }
        route
    }

    #[test]
    fn others_are_beyond_the_access_line() {
        for (hops, first, others) in [
            // A box in front, then a provider of whom the first router is silent.
            (
                &["10.0.0.1", "", "62.1.2.3", "62.1.2.4", "1.1.1.1"][..],
                ("10.0.0.1", Some(1)),
                &[(3, "62.1.2.3"), (4, "62.1.2.4")][..],
            ),
            // What is probed is farther away than the first hop beyond the line.
            (
                &["62.1.2.2", "62.1.2.3", "62.1.2.4"],
                ("62.1.2.3", Some(2)),
                &[(1, "62.1.2.2"), (3, "62.1.2.4")],
            ),
            // Nobody knows where the line is.
            (
                &["10.0.0.1", "10.1.0.1", "10.2.0.1"],
                ("10.1.0.1", Some(2)),
                &[(3, "10.2.0.1")],
            ),
            (&["62.1.2.2", "1.1.1.1"], ("62.1.2.2", Some(1)), &[]),
            (&[], ("10.0.0.1", None), &[]),
        ] {
            let first = Found {
                address: first.0.parse().unwrap(),
                probe: Probe::To(Kind::Echo),
                origin: Origin::OnPath,
                distance: first.1,
                may_be_in_front: false,
            };
            let others: Vec<(u8, IpAddr)> = others
                .iter()
                .map(|(at, a)| (*at, a.parse().unwrap()))
                .collect();
            assert_eq!(along(&route(hops), &first), others, "{hops:?}");
        }
    }
}
