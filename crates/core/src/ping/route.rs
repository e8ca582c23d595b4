//! The hops to a target: what each answered, which to probe next, which one is the near hop.
//!
//! Principles: a hop that does not answer is silent, not lossy (routers limit how often they
//! answer); only the target can lose probes; a hop that answered some and not others is asked
//! directly, at its own address. Non-goals: more than one path to the target.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::spread::Spread;
use super::{Fate, Outcome};

/// So many hops in a row that never answered: nothing beyond them will be learned.
pub const SILENT_IN_A_ROW: usize = 5;
/// A private address that is so much farther than the hop before is beyond the access line.
const ACCESS_LINE: Duration = Duration::from_millis(3);

/// One distance from here.
#[derive(Debug, Clone, Default)]
pub struct Hop {
    /// Who answered, in the order of first answers. More than one: the path is not constant.
    pub addresses: Vec<IpAddr>,
    /// Probes that were to expire here.
    pub sent: u64,
    /// How many answered.
    pub answered: u64,
    /// Their round trips.
    pub times: Spread,
    /// What it said, if it was not that the probe expired.
    pub last: Option<Fate>,
    /// Echo requests to its own address.
    pub direct_sent: u64,
    /// How many of those were answered.
    pub direct_answered: u64,
    /// Their round trips.
    pub direct: Spread,
}

impl Hop {
    /// It leaves probes unanswered that it could answer: it limits its errors, or drops them.
    pub fn is_reluctant(&self) -> bool {
        self.answered > 0 && self.answered < self.sent && self.last.is_none()
    }

    /// The smallest round trip, of either kind.
    pub fn min(&self) -> Option<Duration> {
        self.times.min().into_iter().chain(self.direct.min()).min()
    }
}

/// All hops, the first at index 0.
#[derive(Debug, Clone)]
pub struct Route {
    target: IpAddr,
    /// From near to far.
    pub hops: Vec<Hop>,
    most: usize,
}

impl Route {
    /// To `target`, of at most `most` hops.
    pub fn new(target: IpAddr, most: u8) -> Self {
        Route {
            target,
            hops: Vec::new(),
            most: usize::from(most),
        }
    }

    /// The fate of a probe with this TTL.
    pub fn add(&mut self, ttl: u8, o: &Outcome) {
        let at = usize::from(ttl.max(1)) - 1;
        if self.hops.len() <= at {
            self.hops.resize_with(at + 1, Hop::default);
        }
        let hop = &mut self.hops[at];
        if matches!(o.fate, Fate::Void | Fate::Unsent) {
            return;
        }
        hop.sent += 1;
        if !o.fate.is_timed() {
            return;
        }
        hop.answered += 1;
        if let Some(d) = o.delays {
            hop.times.add(d.felt);
        }
        if let Some(from) = o.from
            && !hop.addresses.contains(&from)
        {
            hop.addresses.push(from);
        }
        if o.fate != Fate::Expired {
            hop.last = Some(o.fate);
            // What lies behind the end was asked before the end was known.
            self.hops.truncate(at + 1);
        }
    }

    /// The fate of an echo request to a hop's own address.
    pub fn add_direct(&mut self, ttl: u8, o: &Outcome) {
        let Some(hop) = self.hops.get_mut(usize::from(ttl.max(1)) - 1) else {
            return;
        };
        if matches!(o.fate, Fate::Void | Fate::Unsent) {
            return;
        }
        hop.direct_sent += 1;
        if let Some(d) = o.delays.filter(|_| o.fate == Fate::Reply) {
            hop.direct_answered += 1;
            hop.direct.add(d.felt);
        }
    }

    /// Whether a probe with this TTL can tell something new.
    pub fn wants(&self, ttl: u8) -> bool {
        let ttl = usize::from(ttl);
        if ttl == 0 || ttl > self.most {
            return false;
        }
        let before = self
            .hops
            .get(..(ttl - 1).min(self.hops.len()))
            .unwrap_or(&[]);
        let ended = before.iter().any(|h| h.last.is_some());
        let silent = before.iter().rev().take_while(|h| h.answered == 0).count();
        !ended && silent < SILENT_IN_A_ROW
    }

    /// The target answered.
    pub fn is_reached(&self) -> bool {
        self.hops
            .last()
            .is_some_and(|h| h.addresses.contains(&self.target) || h.last == Some(Fate::Reply))
    }

    /// Hops without those behind the last that answered.
    pub fn shown(&self) -> &[Hop] {
        let last = self.hops.iter().rposition(|h| h.answered > 0);
        &self.hops[..last.map_or(0, |l| l + 1)]
    }

    /// Probes that the target lost: unanswered ones at its distance, where it does answer.
    pub fn lost(&self) -> Option<(u64, u64)> {
        let last = self.hops.last().filter(|_| self.is_reached())?;
        Some((last.sent - last.answered, last.sent))
    }

    /// TTL and address of the near hop: the first one beyond the access line. That is the first
    /// with an address of the provider's (a public one, or one of RFC 6598), or a private one
    /// that is at least 3 ms farther than the hop before it.
    pub fn near(&self) -> Option<(u8, IpAddr)> {
        self.near_from(None)
    }

    /// The same as seen from the machine that the access line ends at.
    pub fn near_from_gateway(&self) -> Option<(u8, IpAddr)> {
        self.near_from(Some(Duration::ZERO))
    }

    /// `before`: how far away the user's own network is.
    fn near_from(&self, mut before: Option<Duration>) -> Option<(u8, IpAddr)> {
        for (i, hop) in self.hops.iter().enumerate() {
            let (Some(address), Some(min)) = (hop.addresses.first(), hop.min()) else {
                continue;
            };
            let farther = before.is_some_and(|b| min >= b + ACCESS_LINE);
            if !is_private(*address) || farther {
                return Some((i as u8 + 1, *address));
            }
            before = Some(before.map_or(min, |b| b.min(min)));
        }
        None
    }
}

/// RFC 1918, RFC 3927, RFC 4193, RFC 4291: addresses of the user's own network.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_private() || a.is_link_local() || a.is_loopback(),
        IpAddr::V6(a) => {
            let first = Ipv6Addr::segments(&a)[0];
            first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80 || a.is_loopback()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Delays;
    use super::*;

    fn outcome(fate: Fate, from: &str, us: u64) -> Outcome {
        Outcome {
            seq: 0,
            sent: Duration::ZERO,
            size: 0,
            fate,
            from: from.parse().ok(),
            received: None,
            ttl: None,
            delays: fate.is_timed().then_some(Delays {
                felt: Duration::from_micros(us),
                queue: None,
                path: None,
                ingress: None,
            }),
            stamped: true,
        }
    }

    fn route(hops: &[(&str, u64)]) -> Route {
        let mut r = Route::new([192, 0, 2, 1].into(), 30);
        for (ttl, (from, us)) in (1..).zip(hops) {
            let fate = match *from {
                "" => Fate::Timeout,
                "192.0.2.1" => Fate::Reply,
                _ => Fate::Expired,
            };
            r.add(ttl, &outcome(fate, from, *us));
        }
        r
    }

    #[test]
    fn the_near_hop() {
        for (hops, near) in [
            // A home: router, provider.
            (
                &[("192.168.1.1", 400), ("62.1.2.3", 9000)][..],
                Some((2, "62.1.2.3")),
            ),
            // On the gateway itself; carrier-grade NAT counts as the provider's.
            (
                &[("100.64.0.1", 8000), ("62.1.2.3", 9000)],
                Some((1, "100.64.0.1")),
            ),
            // Two private networks at home, then a provider with private addresses.
            (
                &[("192.168.1.1", 300), ("10.0.0.1", 600), ("10.20.0.1", 9000)],
                Some((3, "10.20.0.1")),
            ),
            // The provider's first hop is silent: the next is as good.
            (
                &[("192.168.1.1", 400), ("", 0), ("62.1.2.3", 9000)],
                Some((3, "62.1.2.3")),
            ),
            (
                &[("fe80::1", 400), ("2001:db8::1", 9000)],
                Some((2, "2001:db8::1")),
            ),
            (&[("192.168.1.1", 400), ("192.168.2.1", 500)], None),
            (&[], None),
        ] {
            let near = near.map(|(ttl, a): (u8, &str)| (ttl, a.parse().unwrap()));
            assert_eq!(route(hops).near(), near, "{hops:?}");
        }
    }

    #[test]
    fn ends_at_the_target_or_in_silence() {
        let r = route(&[("10.0.0.1", 1), ("192.0.2.1", 2)]);
        assert!(r.is_reached() && r.wants(1) && r.wants(2) && !r.wants(3));
        let r = route(&[("10.0.0.1", 1), ("", 0), ("", 0), ("", 0), ("", 0)]);
        assert!(!r.is_reached() && r.wants(6));
        let r = route(&[("10.0.0.1", 1), ("", 0), ("", 0), ("", 0), ("", 0), ("", 0)]);
        assert!(!r.wants(7) && r.wants(6));
        assert_eq!(r.shown().len(), 1);
        assert!(!Route::new([192, 0, 2, 1].into(), 4).wants(5));
        // A hop that says that the target cannot be reached ends it as well.
        let mut r = route(&[("10.0.0.1", 1)]);
        r.add(2, &outcome(Fate::HostUnreachable, "10.0.0.2", 5));
        assert!(!r.wants(3) && !r.is_reached());
    }

    #[test]
    fn silence_is_not_loss() {
        let mut r = route(&[("10.0.0.1", 1), ("192.0.2.1", 2)]);
        assert_eq!(r.lost(), Some((0, 1)));
        for _ in 0..3 {
            r.add(1, &outcome(Fate::Timeout, "", 0));
        }
        assert_eq!(r.lost(), Some((0, 1)), "only the target loses");
        assert!(r.hops[0].is_reluctant() && !r.hops[1].is_reluctant());
        r.add_direct(1, &outcome(Fate::Reply, "10.0.0.1", 900));
        r.add_direct(1, &outcome(Fate::Timeout, "", 0));
        let h = &r.hops[0];
        assert_eq!(
            (h.direct_sent, h.direct_answered, h.direct.count()),
            (2, 1, 1)
        );
        r.add(2, &outcome(Fate::Timeout, "", 0));
        assert_eq!(r.lost(), Some((1, 2)));
    }

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn only_a_hop_that_answers_some_is_reluctant() {
        let expired = outcome(Fate::Expired, "10.0.0.1", 1);
        let silent = outcome(Fate::Timeout, "", 0);
        let refused = outcome(Fate::Prohibited, "10.0.0.1", 1);
        for (fates, reluctant) in [
            (&[expired][..], false),
            (&[expired, expired], false),
            (&[silent, silent], false),
            (&[expired, silent], true),
            (&[silent, expired, expired], true),
            (&[refused, silent], false),
        ] {
            let mut r = route(&[]);
            for o in fates {
                r.add(1, o);
            }
            assert_eq!(r.hops[0].is_reluctant(), reluctant, "{fates:?}");
        }
        assert!(!Hop::default().is_reluctant());
    }

    #[test]
    fn what_a_hop_said_is_kept_at_its_distance() {
        let mut r = route(&[]);
        r.add(3, &outcome(Fate::Expired, "10.0.0.3", 700));
        assert_eq!((r.hops.len(), r.hops[0].sent, r.hops[1].sent), (3, 0, 0));
        for (from, us) in [("10.0.0.4", 500), ("10.0.0.3", 900), ("10.0.0.4", 600)] {
            r.add(3, &outcome(Fate::Expired, from, us));
        }
        let hop = &r.hops[2];
        assert_eq!((hop.sent, hop.answered, hop.last), (4, 4, None));
        assert_eq!((hop.times.count(), hop.min()), (4, Some(500 * US)));
        let [one, two] = [[10, 0, 0, 3], [10, 0, 0, 4]].map(IpAddr::from);
        assert_eq!(hop.addresses, [one, two], "in the order of first answers");
        // Without a TTL it is the first hop; what was void or not sent tells nothing.
        r.add(0, &outcome(Fate::Expired, "10.0.0.1", 100));
        r.add(1, &outcome(Fate::Void, "", 0));
        r.add(1, &outcome(Fate::Unsent, "", 0));
        assert_eq!((r.hops[0].sent, r.hops[0].answered), (1, 1));
        assert_eq!((r.hops.len(), r.hops[1].min()), (3, None));
    }

    #[test]
    fn what_lies_behind_the_end_is_dropped() {
        let mut r = route(&[("10.0.0.1", 1), ("", 0), ("", 0), ("", 0)]);
        r.add(3, &outcome(Fate::PortUnreachable, "192.0.2.1", 9));
        assert_eq!(r.hops.len(), 3);
        assert_eq!(r.hops[2].last, Some(Fate::PortUnreachable));
        assert!(r.is_reached(), "it is the target that says so");
        assert_eq!(r.lost(), Some((1, 2)));
        // One that says nothing drops nothing.
        let mut r = route(&[("10.0.0.1", 1), ("", 0)]);
        r.add(1, &outcome(Fate::Expired, "10.0.0.1", 9));
        assert_eq!((r.hops.len(), r.lost()), (2, None));
        // Some targets reply from another of their addresses.
        r.add(2, &outcome(Fate::Reply, "192.0.2.77", 9));
        assert!(r.is_reached());
    }

    #[test]
    fn echoes_to_a_hop_are_counted_beside_its_errors() {
        let mut r = route(&[("10.0.0.1", 400), ("10.0.0.2", 800)]);
        r.add_direct(2, &outcome(Fate::Reply, "10.0.0.2", 700));
        r.add_direct(2, &outcome(Fate::PortUnreachable, "10.0.0.2", 5));
        r.add_direct(2, &outcome(Fate::Void, "", 0));
        r.add_direct(2, &outcome(Fate::Unsent, "", 0));
        r.add_direct(3, &outcome(Fate::Reply, "10.0.0.3", 5));
        r.add_direct(0, &outcome(Fate::Reply, "10.0.0.1", 300));
        let counts = |h: &Hop| (h.sent, h.direct_sent, h.direct_answered);
        assert_eq!(counts(&r.hops[0]), (1, 1, 1));
        assert_eq!(counts(&r.hops[1]), (1, 2, 1));
        assert_eq!(r.hops.len(), 2);
        let mins = [r.hops[0].min(), r.hops[1].min()];
        assert_eq!(mins, [Some(300 * US), Some(700 * US)], "of either kind");
        assert_eq!(r.hops[1].times.min(), Some(800 * US));
    }

    #[test]
    fn hops_are_asked_for_up_to_the_most_and_past_five_silent_ones() {
        let empty = Route::new([192, 0, 2, 1].into(), 4);
        let wanted: Vec<u8> = (0..=255).filter(|ttl| empty.wants(*ttl)).collect();
        assert_eq!(wanted, [1, 2, 3, 4]);
        let (answers, silent) = (("10.0.0.1", 1), ("", 0));
        for (hops, ttl, wants) in [
            (&[silent; 4][..], 5, true),
            (&[silent; 5], 5, true),
            (&[silent; 5], 6, false),
            (&[silent, silent, silent, silent, answers], 6, true),
            // Five silent ones before one that answered do not end it.
            (&[silent, silent, silent, silent, silent, answers], 7, true),
            (&[silent, silent, silent, silent, silent, answers], 6, false),
        ] {
            assert_eq!(route(hops).wants(ttl), wants, "{hops:?} {ttl}");
        }
    }

    #[test]
    fn hops_behind_the_last_that_answered_are_not_shown() {
        let (answers, silent) = (("10.0.0.1", 1), ("", 0));
        for (hops, shown) in [
            (&[][..], 0),
            (&[silent, silent], 0),
            (&[answers], 1),
            (&[silent, answers, silent], 2),
            (&[answers, silent, answers, silent, silent], 3),
        ] {
            assert_eq!(route(hops).shown().len(), shown, "{hops:?}");
        }
        assert_eq!(route(&[]).lost(), None);
    }

    /// Private addresses are told from the provider's by 3 ms more than the nearest of them.
    #[test]
    fn a_private_hop_is_near_from_three_milliseconds_on() {
        let lan = "192.168.1.1";
        for (hops, near, from_gateway) in [
            (&[(lan, 400), ("10.0.0.1", 3399)][..], None, Some(2)),
            (&[(lan, 400), ("10.0.0.1", 3400)], Some(2), Some(2)),
            (&[(lan, 2999)], None, None),
            (&[(lan, 3000)], None, Some(1)),
            // The nearest of those before it counts.
            (
                &[(lan, 2500), ("10.0.0.1", 400), ("10.0.0.2", 3400)],
                Some(3),
                Some(3),
            ),
            (
                &[(lan, 400), ("10.0.0.1", 2500), ("10.0.0.2", 3400)],
                Some(3),
                Some(3),
            ),
            (&[("", 0), ("62.1.2.3", 10)], Some(2), Some(2)),
        ] {
            let r = route(hops);
            assert_eq!(r.near().map(|n| n.0), near, "{hops:?}");
            assert_eq!(r.near_from_gateway().map(|n| n.0), from_gateway, "{hops:?}");
        }
    }

    /// RFC 1918, 3927, 4193 and 4291, and the neighbours of each of their ranges.
    #[test]
    fn addresses_of_ones_own_network() {
        for (address, private) in [
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("172.16.0.0", true),
            ("172.32.0.0", false),
            ("192.168.255.255", true),
            ("192.169.0.0", false),
            ("169.254.1.1", true),
            ("127.0.0.1", true),
            ("100.64.0.1", false),
            ("fbff::1", false),
            ("fc00::1", true),
            ("fdff::1", true),
            ("fe00::1", false),
            ("fe7f::1", false),
            ("fe80::1", true),
            ("febf::1", true),
            ("fec0::1", false),
            ("::1", true),
            ("::2", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_private(address.parse().unwrap()), private, "{address}");
        }
    }
}
