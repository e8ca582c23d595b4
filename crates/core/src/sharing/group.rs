//! Who is there, what they say, and what follows for us.
//!
//! Principles: a host is heard of for so long as its reports come, and has gone within a second without them; between two
//! reports it goes on as it did, cut as we are cut, since all of us see the same queue; what it says is bounded by what
//! it may use; one address is one host. Non-goals: packets, keys.

use std::net::IpAddr;
use std::time::Duration;

use super::{Demand, Report, Said, shares};
use crate::{Direction, PerDirection, Rate};

/// Without a report for so long a host has gone, s: eight reports, of which some are lost.
const GONE: f64 = 0.8;
/// A gateway says that it is there each second and a half, so after that, s.
const GATEWAY_GONE: f64 = 5.0;
/// Nothing is guessed of what a host carries beyond so long after its report, s; nor are reports delayed by times that
/// differ by more.
const GUESSED: f64 = 0.25;
/// What is recorded and sent again later than this is not believed, ms.
const OLD: u64 = 60_000;
/// Who has gone is remembered for so long, s: longer than what was recorded of him would be believed.
const REMEMBERED: f64 = 130.0;
/// So many hosts are heard, and so many remembered, at most.
const HOSTS: usize = 16;
const GONE_HOSTS: usize = 64;
/// With so many reports it is known what a host carries.
const COUNTED: u32 = 2;
/// So long after that, s, all know what all carry; before that they say what the line carried beside some of them.
const KNOWS: f64 = 0.25;
/// What the others say may move what we think that the line carries by this part of it, at most.
const MOVES: f64 = 0.3;
/// Whoever wants little may use this part of the line before he has said that he wants more.
const FREE: f64 = 1.0 / 64.0;
/// Or so much, bit/s: less of it is a standstill.
const LEAST: f64 = 64_000.0;
/// News of what others carried are spread over so long, s.
const SPREAD: f64 = 0.1;
/// What a host says that it carried may be beyond its share by this factor.
const BEYOND: f64 = 1.25;
/// Who says so many times in a row that he carried so many times what the line does, lies, and is not heard for so long, s.
const OFTEN: u32 = 3;
const ABSURD: f64 = 4.0;
const EXPELLED: f64 = 60.0;
/// So many bytes may pass at once.
const BURST: f64 = 30_000.0;

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Somebody new.
    Joined,
    /// Somebody new has reported for the second time: it is known what it carries, and its share counts.
    Counted,
    /// Somebody known.
    Known,
    /// It was sent before one that was heard already.
    Replayed,
    /// It is of another time.
    OtherTime,
    /// Its address is another host's, or there are too many; or it says that it is a gateway, and is not ours.
    Refused,
    /// It is our own.
    Own,
}

/// What we are and want.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Own {
    /// What we think that the line carries.
    pub capacity: Rate,
    /// What of it is used or tried for now: the line as we would shape it alone.
    pub level: Rate,
    /// What we have told the others that we want.
    pub demand: Demand,
    /// Somebody loads the line who is not of the group.
    pub has_stranger: bool,
}

/// One direction of a host.
#[derive(Debug, Clone, Copy, Default)]
struct Carried {
    /// bytes/s, over the time between two reports.
    rate: f64,
    /// What it may use at most, as far as we know, bytes/s.
    most: f64,
    /// What the line carries, as far as we know, bytes/s.
    line: Option<f64>,
}

/// A host of the group.
#[derive(Debug, Clone)]
pub struct Member {
    /// Where its reports come from.
    pub from: IpAddr,
    /// Its latest report.
    pub report: Report,
    /// When that came, s.
    heard: f64,
    carried: PerDirection<Carried>,
    /// How often it has reported what can be, up to one more than [`COUNTED`].
    reports: u32,
    /// So many reports in a row said more than can be.
    absurd: u32,
    /// By so much more than passed here its next report may say that time has passed, s: reports are delayed, and each
    /// by other times, but a clock that runs ahead is no reason to believe more.
    ahead: f64,
    /// What is its own of the line, as we reckon it.
    pub share: PerDirection<Option<Rate>>,
}

/// The others.
#[derive(Debug, Clone)]
pub struct Group {
    id: u64,
    /// Our next hop: only what comes from there may say that it shapes for us.
    router: IpAddr,
    members: Vec<Member>,
    /// Who has gone: its latest clock, and when that was heard.
    gone: Vec<(u64, u64, f64)>,
    /// Who lied, and when.
    liars: Vec<(IpAddr, f64)>,
    /// When somebody was counted for the first time, s.
    met: f64,
    /// What all of them have carried until their latest reports, bytes.
    carried: PerDirection<f64>,
    /// What was answered last, and when, s: it neither goes back nor jumps.
    answered: PerDirection<(f64, f64)>,
    /// What is believed of somebody whose share is not known yet.
    newcomer: PerDirection<Carried>,
}

fn seconds(t: Duration) -> f64 {
    t.as_secs_f64()
}

impl Group {
    /// Of whoever has drawn this number, and whose next hop towards the Internet is `router`.
    pub fn new(id: u64, router: IpAddr) -> Self {
        Group {
            id,
            router,
            members: Vec::new(),
            gone: Vec::new(),
            liars: Vec::new(),
            met: f64::MIN,
            carried: PerDirection::default(),
            answered: PerDirection::default(),
            newcomer: PerDirection::default(),
        }
    }

    /// A report came from an address on the link; `wall` is our own wall clock.
    pub fn hear(&mut self, now: Duration, wall: Duration, from: IpAddr, report: Report) -> Heard {
        if report.id == self.id {
            return Heard::Own;
        }
        if (wall.as_millis() as u64).abs_diff(report.wall_ms) > OLD {
            return Heard::OtherTime;
        }
        if report.is_gateway && from != self.router {
            return Heard::Refused;
        }
        self.forget(now);
        let now = seconds(now);
        if self.liars.iter().any(|l| l.0 == from) {
            return Heard::Refused;
        }
        if let Some(member) = self.members.iter_mut().find(|m| m.report.id == report.id) {
            if member.report.clock_us >= report.clock_us {
                return Heard::Replayed;
            }
            if member.from != from {
                return Heard::Refused;
            }
            let time = member.time_until(&report, now);
            if member.lies(&report, time) {
                self.liars.push((from, now));
                self.members.retain(|m| m.from != from);
                return Heard::Refused;
            }
            let can_be = member.absurd == 0;
            for direction in Direction::BOTH.into_iter().filter(|_| can_be) {
                self.carried[direction] += member.carry(direction, &report, time);
            }
            (member.report, member.heard) = (report, now);
            if !can_be || report.is_gateway {
                return Heard::Known;
            }
            member.reports = (member.reports + 1).min(COUNTED + 1);
            if member.reports == COUNTED {
                self.met = now;
                return Heard::Counted;
            }
            return Heard::Known;
        }
        if let Some(gone) = self.gone.iter().find(|g| g.0 == report.id)
            && gone.1 >= report.clock_us
        {
            return Heard::Replayed;
        }
        if self.members.len() >= HOSTS || self.members.iter().any(|m| m.from == from) {
            return Heard::Refused;
        }
        self.members.push(Member {
            from,
            report,
            heard: now,
            carried: self.newcomer,
            reports: 1,
            absurd: 0,
            ahead: GUESSED,
            share: PerDirection::default(),
        });
        Heard::Joined
    }

    /// Those who have gone by now.
    pub fn forget(&mut self, now: Duration) -> Vec<Member> {
        let now = seconds(now);
        let stays = |m: &Member| {
            if m.report.is_gateway {
                GATEWAY_GONE
            } else {
                GONE
            }
        };
        let is_gone = |m: &mut Member| now - m.heard > stays(m);
        let gone: Vec<Member> = self.members.extract_if(.., is_gone).collect();
        self.gone.retain(|g| now - g.2 < REMEMBERED);
        self.liars.retain(|l| now - l.1 < EXPELLED);
        for m in &gone {
            if self.gone.len() == GONE_HOSTS {
                self.gone.remove(0);
            }
            self.gone.push((m.report.id, m.report.clock_us, m.heard));
        }
        gone
    }

    /// The others of now.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many share the line, with us.
    pub fn hosts(&self) -> usize {
        1 + self.peers().count()
    }

    /// Whether what somebody carries is not counted yet, or not by all.
    pub fn has_newcomer(&self, now: Duration) -> bool {
        seconds(now) < self.met + KNOWS || self.peers().any(|m| !m.is_counted())
    }

    /// The gateway that shapes for all of us, if there is one.
    pub fn gateway(&self) -> Option<IpAddr> {
        let gateway = self.members.iter().find(|m| m.report.is_gateway);
        gateway.map(|m| m.from)
    }

    fn peers(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|m| !m.report.is_gateway)
    }

    /// What all think that the line carries, in the middle of them; `own` is what we think. `None`: the others do not know.
    pub fn capacity(&self, direction: Direction, own: Option<Rate>) -> Option<Rate> {
        let said = self
            .peers()
            .filter(|m| own.is_none() || m.heard >= self.met + KNOWS)
            .filter_map(|m| m.report.said[direction].capacity);
        let said: Vec<Rate> = said.collect();
        let (least, most) = (said.iter().min()?, said.iter().max()?);
        // What is said of a line that we do not know must not be the word of one.
        let alone = said.len() < 2 || said.len() == 2 && most.bps() > 2 * least.bps();
        if own.is_none() && alone {
            return None;
        }
        median(said.into_iter().chain(own).collect())
    }

    /// What the others carry, as they said last.
    pub fn rate(&self, direction: Direction) -> Rate {
        let rates = self.peers().map(|m| {
            let carried = &m.carried[direction];
            carried.rate.min(carried.most)
        });
        Rate::from_bps((8.0 * rates.sum::<f64>()) as u64)
    }

    /// What of the line is ours; `None`: all of it, since nobody else is there.
    pub fn share(&mut self, direction: Direction, own: &Own) -> Option<Rate> {
        let alone = own.capacity.bps() as f64 / 8.0;
        self.newcomer[direction] = Carried {
            rate: 0.0,
            most: BEYOND * alone,
            line: Some(alone),
        };
        let others: Vec<usize> = (0..self.members.len())
            .filter(|i| self.members[*i].is_counted())
            .collect();
        if others.is_empty() {
            return None;
        }
        let middle = self.capacity(direction, Some(own.capacity));
        let known = middle.unwrap_or_default().max(own.capacity).bps() as f64;
        let tries = own.level.bps() as f64 / own.capacity.bps().max(1) as f64;
        let line = self.agreed(direction, own.capacity) * tries;
        let mut demands = vec![own.demand];
        demands.extend(
            others
                .iter()
                .map(|i| self.members[*i].report.said[direction].demand),
        );
        if own.has_stranger {
            // He takes what he gets, and is left as much as anybody.
            let mut all = Demand::default();
            all.0[0] = Rate::MAX;
            demands.push(all);
        }
        let all = shares(line, &demands);
        let rate = |bps: f64| Rate::from_bps(bps as u64);
        for (i, share) in others.iter().zip(&all[1..]) {
            let member = &mut self.members[*i];
            member.share[direction] = Some(rate(*share));
            let carried = &mut member.carried[direction];
            carried.most = BEYOND * (share + (FREE * line).max(LEAST)) / 8.0;
            carried.line = Some(known / 8.0);
        }
        Some(rate(all[0].max((FREE * line).max(LEAST).min(line))))
    }

    /// Where we know nothing of the line: so much is believed of what each of the others says that he carried.
    pub fn believe(&mut self, direction: Direction, most: Rate) {
        let most = most.bps() as f64 / 8.0;
        self.newcomer[direction] = Carried {
            most,
            ..Carried::default()
        };
        for member in &mut self.members {
            member.carried[direction].most = most;
        }
    }

    /// What we take the line for, bit/s: the middle of what all think, if that is near what we see ourselves.
    fn agreed(&self, direction: Direction, own: Rate) -> f64 {
        let middle = self.capacity(direction, Some(own));
        let own = own.bps() as f64;
        let middle = middle.map_or(own, |m| m.bps() as f64);
        middle.clamp((1.0 - MOVES) * own, (1.0 + MOVES) * own)
    }

    /// What the others have put on the line so far, bytes; it never goes back, and news of it are spread over some time,
    /// since they came evenly. `permille`: what we use of our share for now.
    pub fn carried(&mut self, now: Duration, direction: Direction, permille: u32) -> f64 {
        let now = seconds(now);
        let peers = self.peers();
        let (rate, since) = peers.fold((0.0, 0.0), |(rate, since), m| {
            let (r, s) = m.goes_on(now, direction, permille);
            (rate + r, since + s)
        });
        let (value, at) = self.answered[direction];
        let time = (now - at).max(0.0);
        let lacks = self.carried[direction] + since - value;
        let goes = rate * time;
        let part = (time / SPREAD).min(1.0);
        let value = value + (goes + (lacks - goes) * part).max(0.0);
        self.answered[direction] = (value, now);
        value
    }
}

impl Member {
    /// It is known what it carries.
    fn is_counted(&self) -> bool {
        self.reports >= COUNTED && !self.report.is_gateway
    }

    /// So long after its latest report it has sent this one, as it says, and no longer than can be, s.
    fn time_until(&mut self, report: &Report, now: f64) -> f64 {
        let says = (report.clock_us - self.report.clock_us) as f64 / 1e6;
        let seen = (now - self.heard).max(0.0) + self.ahead;
        let time = says.min(seen);
        self.ahead = (seen - time).min(GUESSED);
        time
    }

    /// Whether what it says cannot be: again and again far more than the line carries.
    fn lies(&mut self, report: &Report, time: f64) -> bool {
        let is_absurd = Direction::BOTH.into_iter().any(|d| {
            let (before, after) = (self.report.said[d].carried, report.said[d].carried);
            let bytes = after.saturating_sub(before) as f64;
            let line = self.carried[d].line;
            line.is_some_and(|line| bytes > ABSURD * line * time + BURST)
        });
        self.absurd = if is_absurd { self.absurd + 1 } else { 0 };
        self.absurd >= OFTEN
    }

    /// Bytes that it has carried since its latest report, `time` ago, by another one, of which no more are believed than
    /// it may use.
    fn carry(&mut self, direction: Direction, report: &Report, time: f64) -> f64 {
        let (before, after) = (&self.report.said[direction], &report.said[direction]);
        let bytes = after.carried.saturating_sub(before.carried) as f64;
        let carried = &mut self.carried[direction];
        let bytes = bytes.min(carried.most * time);
        if time > 0.0 {
            carried.rate = bytes / time;
        }
        bytes
    }

    /// The rate at which it goes on, as far as can be guessed, bytes/s, and what that came to since its latest report.
    fn goes_on(&self, now: f64, direction: Direction, permille: u32) -> (f64, f64) {
        let Said { permille: was, .. } = self.report.said[direction];
        let cut = f64::from(permille) / f64::from(was.max(1));
        let carried = &self.carried[direction];
        let rate = (carried.rate * cut).min(carried.most);
        let since = now - self.heard;
        if since > GUESSED {
            return (0.0, rate * GUESSED);
        }
        (rate, rate * since.max(0.0))
    }
}

/// The one in the middle; between two their geometric mean.
fn median(mut all: Vec<Rate>) -> Option<Rate> {
    all.sort_unstable();
    let n = all.len();
    let low = *all.get(n.checked_sub(1)? / 2)?;
    let high = *all.get(n / 2)?;
    let [low, high] = [low, high].map(|r| r.bps() as f64);
    Some(Rate::from_bps((low * high).sqrt() as u64))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::sharing::TIERS;

    const LINE: Rate = Rate::from_kbit(40_000);
    const WALL: Duration = Duration::from_secs(1_800_000_000);

    fn from(n: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(192, 168, 0, n))
    }

    fn greedy() -> Demand {
        let mut demand = Demand::default();
        demand.0[2] = Rate::MAX;
        demand
    }

    fn own() -> Own {
        Own {
            capacity: LINE,
            level: LINE,
            demand: greedy(),
            has_stranger: false,
        }
    }

    /// Of a host that wants all, `ms` after the beginning, and has carried 1 MB/s.
    fn report(id: u64, ms: u64) -> Report {
        let up = Said {
            capacity: Some(LINE),
            carried: ms * 1000,
            permille: 1000,
            demand: greedy(),
        };
        Report {
            id,
            clock_us: ms * 1000,
            wall_ms: WALL.as_millis() as u64 + ms,
            is_gateway: false,
            said: PerDirection {
                up,
                down: Said::default(),
            },
        }
    }

    fn hear(group: &mut Group, ms: u64, n: u8, report: Report) -> Heard {
        let now = Duration::from_millis(ms);
        group.hear(now, WALL + now, from(n), report)
    }

    fn share(group: &mut Group) -> Option<u64> {
        group.share(Direction::Up, &own()).map(Rate::kbit)
    }

    #[test]
    fn a_share_is_free_within_a_second() {
        let mut group = Group::new(1, from(1));
        assert_eq!(share(&mut group), None);
        assert_eq!(hear(&mut group, 900, 2, report(2, 900)), Heard::Joined);
        assert_eq!(share(&mut group), None);
        assert_eq!(hear(&mut group, 1000, 2, report(2, 1000)), Heard::Counted);
        assert_eq!(share(&mut group), Some(20_000));
        assert!(group.forget(Duration::from_millis(1700)).is_empty());
        assert_eq!(group.forget(Duration::from_millis(1900)).len(), 1);
        assert_eq!(share(&mut group), None);
    }

    #[test]
    fn what_was_recorded_is_refused() {
        let mut group = Group::new(1, from(1));
        let old = report(2, 1000);
        hear(&mut group, 1000, 2, old);
        assert_eq!(hear(&mut group, 1050, 2, old), Heard::Replayed);
        assert_eq!(hear(&mut group, 1100, 2, report(2, 1100)), Heard::Counted);
        assert_eq!(hear(&mut group, 1200, 2, report(2, 1200)), Heard::Known);
        // Also when the host has gone, and as long as its clock would be believed.
        assert_eq!(hear(&mut group, 9000, 2, old), Heard::Replayed);
        assert_eq!(hear(&mut group, 59_000, 7, old), Heard::Replayed);
        assert_eq!(hear(&mut group, 70_000, 2, old), Heard::OtherTime);
        // One address is one host, and one host has one address.
        let id = |id| report(id, 70_000);
        assert_eq!(hear(&mut group, 70_000, 3, id(3)), Heard::Joined);
        assert_eq!(hear(&mut group, 70_000, 3, id(4)), Heard::Refused);
        assert_eq!(
            hear(&mut group, 70_100, 4, report(3, 70_100)),
            Heard::Refused
        );
        assert_eq!(hear(&mut group, 70_000, 5, id(1)), Heard::Own);
    }

    #[test]
    fn a_gateway_is_no_host_that_wants_something() {
        let mut group = Group::new(1, from(1));
        let gateway = Report {
            is_gateway: true,
            ..report(2, 1000)
        };
        // Who is not on the way to the Internet cannot shape for us.
        assert_eq!(hear(&mut group, 1000, 2, gateway), Heard::Refused);
        assert_eq!(hear(&mut group, 1000, 1, gateway), Heard::Joined);
        assert_eq!((share(&mut group), group.gateway()), (None, Some(from(1))));
        group.forget(Duration::from_millis(5900));
        assert!(group.gateway().is_some());
        group.forget(Duration::from_millis(6100));
        assert_eq!(group.gateway(), None);
    }

    #[test]
    fn who_is_not_of_the_group_is_left_a_share() {
        let mut group = Group::new(1, from(1));
        hear(&mut group, 900, 2, report(2, 900));
        hear(&mut group, 1000, 2, report(2, 1000));
        let stranger = Own {
            has_stranger: true,
            ..own()
        };
        let share = group.share(Direction::Up, &stranger).unwrap();
        assert_eq!(share.kbit(), 13_333);
    }

    /// Neither before its share is known, nor by a clock that runs ahead; and who says what cannot be is not counted.
    #[test]
    fn what_a_host_says_that_it_carried_is_within_what_can_be() {
        let line = LINE.bps() as f64 / 8.0;
        // Each tenth of a second it says so many bytes, as seconds of the whole line, and so many seconds by its clock.
        for (bytes, seconds, most) in [(100.0, 0.1, 0.0), (0.3, 0.1, 0.3), (0.3, 100.0, 0.55)] {
            let mut group = Group::new(1, from(1));
            assert_eq!(share(&mut group), None);
            for i in 0..4 {
                let mut lie = report(2, 1000 + 100 * i);
                lie.clock_us = 1 + (i as f64 * seconds * 1e6) as u64;
                lie.said.up.carried = (i as f64 * bytes * line) as u64;
                hear(&mut group, 1000 + 100 * i, 2, lie);
                share(&mut group);
            }
            let carried = group.carried(Duration::from_millis(1300), Direction::Up, 1000);
            assert!(
                carried <= most * BEYOND * line,
                "{bytes} {seconds}: {carried}"
            );
            assert_eq!(group.members().is_empty(), most == 0.0);
        }
    }

    fn said() -> impl Strategy<Value = Said> {
        let demand = prop::array::uniform4(0..=Rate::MAX.bps());
        (any::<u32>(), any::<u64>(), any::<u16>(), demand).prop_map(
            |(capacity, carried, permille, demand)| Said {
                capacity: Some(Rate::from_kbit(capacity.into())).filter(|c| c.bps() > 0),
                carried,
                permille,
                demand: Demand(demand.map(Rate::from_bps)),
            },
        )
    }

    proptest! {
        /// Whatever reports say, in whatever order, from 15 addresses: who wants all has his part of what he sees
        /// himself, but for what the others may move that by; and no counter goes back or stands still for ever.
        #[test]
        fn nothing_that_is_said_takes_more_than_a_part(
            all in prop::collection::vec(
                (0u64..20, 2u8..17, 0u64..300, any::<u16>(), said(), 0usize..TIERS), 1..60),
        ) {
            let mut group = Group::new(1000, from(1));
            let (mut ms, mut before) = (1000, 0.0);
            for (id, n, later, clock, said, tier) in all {
                ms += later;
                let report = Report {
                    clock_us: ms * 1000 + u64::from(clock),
                    said: PerDirection { up: said, down: said },
                    ..report(id, ms)
                };
                hear(&mut group, ms, n, report);
                let mut demand = Demand::default();
                demand.0[tier] = Rate::MAX;
                let hosts = group.members().len() + 1;
                prop_assert!(hosts <= HOSTS + 1);
                let Some(share) = group.share(Direction::Up, &Own { demand, ..own() }) else {
                    continue;
                };
                let fair = LINE.bps() as f64 / hosts as f64;
                prop_assert!(share.bps() as f64 >= (1.0 - MOVES) * fair - 1.0);
                prop_assert!(share.bps() as f64 <= (1.0 + MOVES) * LINE.bps() as f64 + 1.0);
                let carried = group.carried(Duration::from_millis(ms), Direction::Up, 1000);
                prop_assert!(carried >= before && carried.is_finite());
                before = carried;
            }
        }
    }
}
