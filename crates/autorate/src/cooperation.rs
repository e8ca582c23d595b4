//! With others on the same LAN who look after the same line: what is told them, what is heard, what of the line is ours.
//!
//! Principles: without a socket, a gateway's address or others nothing is other than without it; at most ten beacons
//! a second, and none while nothing passes; what is ours follows from what was told, so that the others know it already;
//! beacons are no load. Non-goals: how a line is divided (`evenkeel_core::sharing`), who wants what of it within this
//! host (the disciplines).

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

use evenkeel_core::framing::Framing;
use evenkeel_core::plan::Target;
use evenkeel_core::sharing::{Demand, DemandEstimator, Group, Heard, Own, Report, Said, TIERS};
use evenkeel_core::{Direction, PerDirection, Rate};
use evenkeel_sys::{LinkGroup, clock};
use evenkeel_wire::beacon::{self, Key};

use crate::lan_identity::LanIdentity;

/// Where beacons go: a group of the link for experiments (RFC 4727, section 2.3), on a port that is nobody's.
pub const GROUP: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 254), PORT));
/// The same by IPv6 (FF0X::114 of RFC 4727), where a LAN has no gateway of IPv4.
pub const GROUP_IPV6: SocketAddr = {
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x114);
    SocketAddr::V6(SocketAddrV6::new(group, PORT, 0, 0))
};
const PORT: u16 = 8019;
/// CS6, as control of a network (RFC 4594, section 3.1): a beacon that waits behind a download is late.
pub(crate) const TOS: u8 = 0xc0;
/// From one beacon to the next under load.
const EACH: Duration = Duration::from_millis(100);
/// A host that carried more than this, bit/s, or than this part of the line or of its share, is under load; for so long
/// after.
const LOAD: f64 = 48_000.0;
const PART: f64 = 0.05;
const PART_OF_SHARE: f64 = 0.5;
const LINGER: Duration = Duration::from_millis(1500);
/// Changes of a share by less than this part are none.
const SAME: f64 = 0.005;
/// While a line is opened others are believed to carry so much of what we may, thousandths: they may be some steps ahead.
const OPENING: u64 = 8000;
/// So many datagrams at once are read: more of them wait.
const BATCH: usize = 64;

/// What people may do about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cooperate {
    /// What hosts of this group know beside the gateway that they have in common; may be empty.
    pub secret: String,
}

/// Something to tell people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Somebody is there who shares the line with us.
    Joined(IpAddr),
    /// He has not been heard of any more.
    Left(IpAddr),
    /// A gateway shapes for us: it is left to it.
    Behind(IpAddr),
    /// It does not any more.
    Alone(IpAddr),
    /// Nobody can be heard, for this reason.
    Without(String),
}

impl std::fmt::Display for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            News::Joined(who) => write!(
                f,
                "{who} has an evenkeel on this line as well: it is shared"
            ),
            News::Left(who) => write!(f, "{who} is not heard of any more: its share is free"),
            News::Behind(who) => write!(
                f,
                "{who} is a gateway with an evenkeel: shaping is left to it, here nothing is shaped"
            ),
            News::Alone(who) => write!(
                f,
                "the gateway {who} is not heard of any more: shaping goes on here"
            ),
            News::Without(why) => write!(f, "{why}: without others on this line"),
        }
    }
}

/// Another host on the line, for people and programs.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Peer {
    /// Where it is heard from.
    pub address: IpAddr,
    /// What of the line is its own, as we reckon it.
    pub up: Option<Rate>,
    /// The same towards it.
    pub down: Option<Rate>,
    /// It shapes for us.
    pub gateway: bool,
}

/// What is ours of the line, and who else is there.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Shared {
    /// The others.
    pub peers: Vec<Peer>,
    /// Ours, from us.
    pub up: Option<Rate>,
    /// Ours, towards us.
    pub down: Option<Rate>,
}

/// One direction of ours.
#[derive(Debug, Clone, Default)]
struct Ours {
    estimator: DemandEstimator,
    /// What was told last, and before that.
    told: [Demand; 2],
    /// Bytes on the line by tier, and what they were reckoned from: bytes of disciplines, and on the line.
    sent: [f64; TIERS],
    tiers: [u64; TIERS],
    line: f64,
    share: Option<Rate>,
}

/// What is known of us at a beacon.
pub(crate) struct Now {
    /// What the controller thinks that the line carries.
    pub capacity: PerDirection<Option<Rate>>,
    /// Somebody loads the line who is not of the group.
    pub has_stranger: PerDirection<bool>,
    /// Bytes on the line so far.
    pub carried: PerDirection<f64>,
    /// Bytes that our disciplines sent, by tier.
    pub tiers: PerDirection<[u64; TIERS]>,
    /// How long what comes now waits in our queues.
    pub waits: PerDirection<Duration>,
    /// What we shape to.
    pub shaped: PerDirection<Option<Rate>>,
    /// How much of it is used for now, thousandths.
    pub permille: PerDirection<u32>,
}

/// The group that a device belongs to, and what we are in it.
pub(crate) struct Cooperation {
    socket: LinkGroup,
    key: Key,
    group: Group,
    id: u64,
    ours: PerDirection<Ours>,
    has_stranger: PerDirection<bool>,
    next: Duration,
    loaded: Duration,
    /// When the load was looked at, and what was carried then.
    looked: Option<(Duration, PerDirection<f64>)>,
    /// What we carried before that, bit/s.
    rate: PerDirection<f64>,
    /// How many share the line, and whether what one of them carries is not counted yet.
    hosts: (usize, bool),
    /// Somebody was counted for the first time since this was asked last.
    has_met: bool,
    gateway: Option<IpAddr>,
    /// Bytes of IP and packets that were beacons.
    beacons: PerDirection<(f64, f64)>,
    /// How the shaper counts packets.
    framing: Framing,
}

impl Cooperation {
    /// Joins those on `device`, where packets are shaped as with `framing`; or why not.
    pub(crate) fn join(
        device: &str,
        index: u32,
        framing: Framing,
        with: &Cooperate,
    ) -> Result<Self, String> {
        let identity = LanIdentity::of(device)?;
        let key = Key::new(&identity.gateway, &identity.network, &with.secret);
        let group = if identity.hop.is_ipv4() {
            GROUP
        } else {
            GROUP_IPV6
        };
        let socket = LinkGroup::join(device, index, group, TOS).map_err(|e| e.to_string())?;
        let id = draw();
        Ok(Cooperation {
            socket,
            key,
            group: Group::new(id, identity.hop),
            id,
            ours: PerDirection::default(),
            has_stranger: PerDirection::default(),
            next: Duration::ZERO,
            loaded: Duration::ZERO,
            looked: None,
            rate: PerDirection::default(),
            hosts: (1, false),
            has_met: false,
            gateway: None,
            beacons: PerDirection::default(),
            framing,
        })
    }

    /// Hears what has come, and who has gone.
    pub(crate) fn hear(&mut self, now: Duration) -> Vec<News> {
        let mut news = Vec::new();
        let mut buffer = [0; 2 * beacon::LEN];
        for _ in 0..BATCH {
            // What cannot be heard is as if nothing were said.
            let Ok(Some((len, from))) = self.socket.receive(&mut buffer) else {
                break;
            };
            self.beacons.down.0 += (len + self.socket.headers()) as f64;
            self.beacons.down.1 += 1.0;
            let Ok(report) = beacon::open(&buffer[..len], &self.key) else {
                continue;
            };
            match self.group.hear(now, clock::realtime(), from, report) {
                Heard::Joined if !report.is_gateway => news.push(News::Joined(from)),
                Heard::Counted => self.has_met = true,
                _ => {}
            }
        }
        let gone = self.group.forget(now);
        let gone = gone.iter().filter(|m| !m.report.is_gateway);
        news.extend(gone.map(|m| News::Left(m.from)));
        let gateway = self.group.gateway();
        if gateway != self.gateway {
            news.extend(match (gateway, self.gateway) {
                (Some(who), _) => Some(News::Behind(who)),
                (None, Some(who)) => Some(News::Alone(who)),
                (None, None) => None,
            });
            self.gateway = gateway;
        }
        news
    }

    /// How many share the line, with us, and whether what one of them carries is not counted yet, if that has changed.
    pub(crate) fn hosts(&mut self, now: Duration) -> Option<(usize, bool)> {
        let hosts = (self.group.hosts(), self.group.has_newcomer(now));
        (std::mem::replace(&mut self.hosts, hosts) != hosts).then_some(hosts)
    }

    /// What passes together with somebody who was just counted for the first time.
    pub(crate) fn newly_met(&mut self) -> Option<PerDirection<Rate>> {
        let all = |d| Rate::from_bps(self.group.rate(d).bps() + self.rate[d] as u64);
        std::mem::take(&mut self.has_met).then(|| PerDirection::of(all))
    }

    /// Whether a gateway shapes for us.
    pub(crate) fn is_behind(&self) -> bool {
        self.gateway.is_some()
    }

    /// Bytes of IP and packets that passed the device and were beacons.
    pub(crate) fn beacons(&self) -> PerDirection<(f64, f64)> {
        self.beacons
    }

    /// What the others have put on the line so far, bytes.
    pub(crate) fn carried(
        &mut self,
        now: Duration,
        targets: PerDirection<Option<Target>>,
    ) -> PerDirection<f64> {
        PerDirection::of(|d| self.group.carried(now, d, permille(targets[d])))
    }

    /// The median of what the others think that the line carries, and what we think.
    pub(crate) fn median(
        &self,
        capacity: PerDirection<Option<Rate>>,
    ) -> PerDirection<Option<Rate>> {
        PerDirection::of(|d| self.group.capacity(d, capacity[d]))
    }

    /// Whether it is time for a beacon. While nothing passes it is not.
    pub(crate) fn is_due(
        &mut self,
        now: Duration,
        carried: PerDirection<f64>,
        capacity: PerDirection<Option<Rate>>,
    ) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + EACH;
        if let Some((at, before)) = self.looked {
            let time = now.saturating_sub(at).as_secs_f64();
            let is_load = |d: Direction| {
                let line = capacity[d].map_or(f64::MAX, |c| PART * c.bps() as f64);
                let share = self.ours[d].share;
                let share = share.map_or(f64::MAX, |s| PART_OF_SHARE * s.bps() as f64);
                (carried[d] - before[d]) * 8.0 > LOAD.min(line).min(share) * time
            };
            if Direction::BOTH.into_iter().any(is_load) {
                self.loaded = now;
            }
            self.rate = PerDirection::of(|d| (carried[d] - before[d]) * 8.0 / time);
        }
        self.looked = Some((now, carried));
        self.loaded > Duration::ZERO && now.saturating_sub(self.loaded) < LINGER
    }

    /// Tells the others about us.
    pub(crate) fn tell(&mut self, now: Duration, known: &Now) {
        let said = PerDirection::of(|d| {
            let ours = &mut self.ours[d];
            ours.count(known.tiers[d], known.carried[d]);
            ours.estimator
                .look(now, ours.sent, known.shaped[d], known.waits[d]);
            ours.told = [ours.estimator.demand(), ours.told[0]];
            Said {
                capacity: known.capacity[d],
                carried: known.carried[d] as u64,
                permille: known.permille[d] as u16,
                demand: ours.told[0],
            }
        });
        self.has_stranger = known.has_stranger;
        let report = Report {
            id: self.id,
            clock_us: now.as_micros() as u64,
            wall_ms: clock::realtime().as_millis() as u64,
            is_gateway: false,
            said,
        };
        let sent = self.socket.send(&beacon::seal(&report, &self.key));
        if sent.is_ok() {
            self.beacons.up.0 += (beacon::LEN + self.socket.headers()) as f64;
            self.beacons.up.1 += 1.0;
        }
    }

    /// What of `targets`, which are for the whole line, is ours.
    pub(crate) fn bound(
        &mut self,
        targets: PerDirection<Option<Target>>,
        capacity: PerDirection<Option<Rate>>,
    ) -> PerDirection<Option<Target>> {
        if self.is_behind() {
            return PerDirection::default();
        }
        PerDirection::of(|d| {
            let Some(target) = targets[d] else {
                // Whatever they say of it, it is theirs.
                self.group.believe(d, Rate::default());
                self.ours[d].share = None;
                return None;
            };
            if target.opening.is_some() {
                // Each of us begins with little, and counts what the others send.
                self.group.believe(d, target.capacity.permille(OPENING));
                self.ours[d].share = None;
                return Some(target);
            }
            let ours = &self.ours[d];
            let own = Own {
                capacity: capacity[d].unwrap_or(target.capacity),
                level: target.capacity,
                demand: both(ours.told),
                has_stranger: self.has_stranger[d],
            };
            let share = self.group.share(d, &own);
            self.ours[d].share = share;
            let passes = share.map(|s| Rate::from_bps(s.bps() + self.rate_of_beacons(d).bps()));
            Some(Target {
                capacity: passes.unwrap_or(target.capacity),
                ..target
            })
        })
    }

    /// What beacons take of what the shaper lets out: they end on the LAN, and the line carries none of them. Those that
    /// arrive are small, and go past the shaper.
    fn rate_of_beacons(&self, direction: Direction) -> Rate {
        let length = match direction {
            Direction::Up => beacon::LEN + self.socket.headers(),
            Direction::Down => return Rate::default(),
        };
        let wire = self.framing.wire_len(length as u32);
        Rate::from_bps(u64::from(8 * wire) * 1000 / EACH.as_millis() as u64)
    }

    /// For people and programs.
    pub(crate) fn shared(&self) -> Shared {
        let peers = self.group.members().iter().map(|m| Peer {
            address: m.from,
            up: m.share.up,
            down: m.share.down,
            gateway: m.report.is_gateway,
        });
        Shared {
            peers: peers.collect(),
            up: self.ours.up.share,
            down: self.ours.down.share,
        }
    }
}

impl Ours {
    /// So many bytes were sent by the disciplines, and so many on the line. What passed no discipline was light.
    fn count(&mut self, tiers: [u64; TIERS], line: f64) {
        let more: Vec<f64> = tiers
            .iter()
            .zip(self.tiers)
            .map(|(a, b)| a.saturating_sub(b) as f64)
            .collect();
        let all: f64 = more.iter().sum();
        let on_line = (line - self.line).max(0.0);
        // Framing takes what it takes of each.
        let factor = if all > 0.0 {
            (on_line / all).min(1.3)
        } else {
            0.0
        };
        for (sent, more) in self.sent.iter_mut().zip(&more) {
            *sent += more * factor;
        }
        self.sent[0] += (on_line - all * factor).max(0.0);
        (self.tiers, self.line) = (tiers, line);
    }
}

/// A number that nobody else has: the standard library's keys of hash maps are random.
pub(crate) fn draw() -> u64 {
    RandomState::new().hash_one(clock::realtime())
}

/// What the others know for certain: one of the last two beacons may be lost.
fn both([last, before]: [Demand; 2]) -> Demand {
    let mut both = last;
    for (a, b) in both.0.iter_mut().zip(before.0) {
        *a = (*a).min(b);
    }
    both
}

fn permille(target: Option<Target>) -> u32 {
    target.map_or(1000, |t| t.permille.min(1000))
}

/// Whether `a` and `b` come to the same.
pub(crate) fn are_same(a: PerDirection<Option<Target>>, b: PerDirection<Option<Target>>) -> bool {
    let same = |a: Option<Target>, b: Option<Target>| match (a, b) {
        (Some(a), Some(b)) => {
            let part = a.capacity.bps() as f64 / b.capacity.bps().max(1) as f64;
            Target {
                capacity: b.capacity,
                peak_permille: b.peak_permille,
                ..a
            } == b
                && (part - 1.0).abs() < SAME
        }
        (a, b) => a == b,
    };
    same(a.up, b.up) && same(a.down, b.down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_no_discipline_is_light() {
        let mut ours = Ours::default();
        ours.count([0, 0, 1000, 0], 1100.0);
        assert_eq!(ours.sent.map(|b| b.round() as u64), [0, 0, 1100, 0]);
        ours.count([0, 0, 1000, 500], 2100.0);
        assert_eq!(ours.sent.map(|b| b.round() as u64), [350, 0, 1100, 650]);
        ours.count([0; 4], 3100.0);
        assert_eq!(ours.sent.map(|b| b.round() as u64), [1350, 0, 1100, 650]);
    }
}
