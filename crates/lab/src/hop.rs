//! The near hop's ways: how the provider's router answers what is asked of it, or does not.
//!
//! Principles: what it does with other people's packets is the line's matter; here is only what
//! dies at it or is for it, told by destination and TTL, and what it says itself, told by its
//! source. Whatever is random comes from the seed. Non-goals: a router's real reasons; IPv6.

use std::net::Ipv4Addr;
use std::time::Duration;

use evenkeel_core::pipe::SplitMix64;

/// How the hop treats what is for it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HopConfig {
    /// It answers at most so many in a second, a second's worth at once.
    pub answers_per_second: Option<f64>,
    /// It stalls for a while, again and again.
    pub stalls: Option<Stalls>,
    /// It takes up to so much longer to answer while the line is busy.
    pub slow: Duration,
    /// What its time stamps are made with; `None`: a right clock.
    pub clock: Option<HopClock>,
    /// It answers no requests for time stamps.
    pub no_stamps: bool,
    /// It says nothing at all, not even that a packet's time has run out.
    pub mute: bool,
    /// Seed of all luck.
    pub seed: u64,
}

/// Times in which a hop answers nothing and then everything.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stalls {
    /// From the end of one to the start of the next, on average.
    pub every: Duration,
    /// Shortest and longest.
    pub lasts: [Duration; 2],
}

/// A clock that is not right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HopClock {
    /// It is set ahead or back by so many ms from this time on.
    Steps {
        /// After the beginning.
        at: Duration,
        /// By how much.
        by_ms: i32,
    },
    /// It shows the time of the beginning, for good.
    Stands,
    /// It is fast by so many millionths.
    Drifts {
        /// Negative: slow.
        ppm: f64,
    },
}

/// What becomes of a request that the line has brought to the hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treated {
    /// It is not for the hop.
    Passes,
    /// The hop looks at it so much later.
    Later(Duration),
    /// It gets no answer.
    Ignored,
}

/// The hop.
#[derive(Debug)]
pub(crate) struct Hop {
    config: HopConfig,
    address: Ipv4Addr,
    random: SplitMix64,
    begun: Option<Duration>,
    /// Answers that may be given now, and since when.
    tokens: f64,
    filled: Duration,
    /// Start and end of the stall that is now or comes next.
    stall: Option<(Duration, Duration)>,
    /// It answers in order.
    last: Duration,
}

const ICMP: u8 = 1;
const TIMESTAMP: u8 = 13;
const TIMESTAMP_REPLY: u8 = 14;

/// An ICMP message in an IPv4 packet: where it begins.
fn icmp(ip: &[u8]) -> Option<usize> {
    let first = *ip.first()?;
    let is_icmp = first >> 4 == 4 && *ip.get(9)? == ICMP;
    is_icmp.then_some(usize::from(first & 15) * 4)
}

impl Hop {
    pub(crate) fn new(config: HopConfig, address: Ipv4Addr) -> Self {
        let random = SplitMix64::new(config.seed ^ 0x0040_7007);
        Hop {
            tokens: config.answers_per_second.map_or(0.0, |n| n.max(1.0)),
            config,
            address,
            random,
            begun: None,
            filled: Duration::ZERO,
            stall: None,
            last: Duration::ZERO,
        }
    }

    /// Its clock begins to be wrong from here on.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.begun = Some(now);
    }

    /// What becomes of a packet from the customer that reaches the hop at `at`; whether the line is
    /// `busy` then.
    pub(crate) fn treats(&mut self, ip: &[u8], at: Duration, busy: bool) -> Treated {
        let is_v4 = ip.first().is_some_and(|b| b >> 4 == 4);
        let for_it = ip.get(16..20) == Some(&self.address.octets()[..]);
        let dies = ip.get(8).is_some_and(|ttl| *ttl <= 1);
        if !is_v4 || !for_it && !dies {
            return Treated::Passes;
        }
        let kind = icmp(ip).and_then(|i| ip.get(i));
        if self.config.mute || self.config.no_stamps && for_it && kind == Some(&TIMESTAMP) {
            return Treated::Ignored;
        }
        if !self.may_answer(at) {
            return Treated::Ignored;
        }
        let mut ready = at;
        if let Some(end) = self.stalls_until(at) {
            ready = end;
        }
        if busy && !self.config.slow.is_zero() {
            // Most are quick and a few are not.
            let luck = self.random.unit();
            ready += self.config.slow.mul_f64(luck * luck);
        }
        self.last = self.last.max(ready);
        Treated::Later(self.last.saturating_sub(at))
    }

    /// Takes an answer's token, if there is one.
    fn may_answer(&mut self, at: Duration) -> bool {
        let Some(rate) = self.config.answers_per_second else {
            return true;
        };
        let since = at.saturating_sub(self.filled).as_secs_f64();
        self.filled = self.filled.max(at);
        self.tokens = (self.tokens + since * rate).min(rate.max(1.0));
        let may = self.tokens >= 1.0;
        if may {
            self.tokens -= 1.0;
        }
        may
    }

    /// The end of the stall in which `at` is.
    fn stalls_until(&mut self, at: Duration) -> Option<Duration> {
        let Stalls { every, lasts } = self.config.stalls?;
        let next = |after: Duration, random: &mut SplitMix64| {
            let start = after + every.mul_f64(0.5 + random.unit());
            let long = lasts[1].saturating_sub(lasts[0]).mul_f64(random.unit());
            (start, start + lasts[0] + long)
        };
        let mut stall = match self.stall {
            Some(stall) => stall,
            None => next(at, &mut self.random),
        };
        while stall.1 <= at {
            stall = next(stall.1, &mut self.random);
        }
        self.stall = Some(stall);
        (stall.0 <= at).then_some(stall.1)
    }

    /// Puts what its clock shows into a reply to a request for time stamps that it sends at `now`.
    pub(crate) fn stamps(&self, ip: &mut [u8], now: Duration) {
        let (Some(clock), Some(at)) = (self.config.clock, icmp(ip)) else {
            return;
        };
        if ip.get(12..16) != Some(&self.address.octets()[..]) {
            return;
        }
        let since = self.begun.map_or(Duration::ZERO, |b| now.saturating_sub(b));
        let Some(message) = ip.get_mut(at..at + 20) else {
            return;
        };
        if message[0] != TIMESTAMP_REPLY {
            return;
        }
        for field in [12, 16] {
            let right =
                u32::from_be_bytes(message[field..field + 4].try_into().unwrap_or_default());
            let shown = shown(clock, right, since);
            message[field..field + 4].copy_from_slice(&shown.to_be_bytes());
        }
        // RFC 1071, over the whole message: 20 bytes.
        message[2..4].fill(0);
        let pairs = message.chunks_exact(2);
        let sum: u32 = pairs
            .map(|p| u32::from(u16::from_be_bytes([p[0], p[1]])))
            .sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        message[2..4].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    }
}

/// What a clock shows (ms since midnight UTC) where a right one shows `right`.
fn shown(clock: HopClock, right: u32, since: Duration) -> u32 {
    const DAY: i64 = 86_400_000;
    let ms = since.as_millis() as i64;
    let wrong = match clock {
        HopClock::Steps { at, by_ms } if since >= at => i64::from(by_ms),
        HopClock::Steps { .. } => 0,
        HopClock::Stands => -ms,
        HopClock::Drifts { ppm } => (ms as f64 * ppm / 1e6) as i64,
    };
    (i64::from(right) + wrong).rem_euclid(DAY) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOP: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);

    fn ms(v: u64) -> Duration {
        Duration::from_millis(v)
    }

    fn packet(from: Ipv4Addr, to: Ipv4Addr, ttl: u8, kind: u8) -> Vec<u8> {
        let mut ip = vec![0; 40];
        ip[0] = 0x45;
        ip[8] = ttl;
        ip[9] = ICMP;
        ip[12..16].copy_from_slice(&from.octets());
        ip[16..20].copy_from_slice(&to.octets());
        ip[20] = kind;
        ip
    }

    fn ping(ttl: u8) -> Vec<u8> {
        packet(Ipv4Addr::new(100, 64, 0, 2), HOP, ttl, 8)
    }

    fn hop(config: HopConfig) -> Hop {
        Hop::new(config, HOP)
    }

    #[test]
    fn what_is_for_it_and_what_dies_at_it() {
        let mut usual = hop(HopConfig::default());
        let far = Ipv4Addr::new(198, 18, 0, 2);
        let at_once = Treated::Later(Duration::ZERO);
        for (to, ttl, is) in [
            (HOP, 64, at_once),
            (far, 1, at_once),
            (far, 2, Treated::Passes),
        ] {
            let p = packet(HOP, to, ttl, 8);
            assert_eq!(usual.treats(&p, ms(1), true), is, "{to} {ttl}");
        }
        assert_eq!(usual.treats(&[], ms(1), false), Treated::Passes);
        let mut quiet = hop(HopConfig {
            no_stamps: true,
            ..HopConfig::default()
        });
        let stamp = packet(HOP, HOP, 64, TIMESTAMP);
        assert_eq!(quiet.treats(&stamp, ms(1), false), Treated::Ignored);
        assert_eq!(quiet.treats(&ping(64), ms(1), false), at_once);
        let mut mute = hop(HopConfig {
            mute: true,
            ..HopConfig::default()
        });
        assert_eq!(mute.treats(&ping(1), ms(1), false), Treated::Ignored);
    }

    #[test]
    fn any_bytes_do_no_harm() {
        let mut random = SplitMix64::new(7);
        let mut hop = hop(HopConfig {
            answers_per_second: Some(5.0),
            clock: Some(HopClock::Stands),
            no_stamps: true,
            ..HopConfig::default()
        });
        for n in 0..20_000u64 {
            let mut bytes: Vec<u8> = (0..n % 70).map(|_| random.next_u64() as u8).collect();
            // Most are nearly a reply of the hop's.
            if n % 3 > 0 {
                let reply = packet(HOP, HOP, 1, TIMESTAMP_REPLY);
                let most = bytes.len().min(20);
                bytes[..most].copy_from_slice(&reply[..most]);
                if let Some(first) = bytes.first_mut() {
                    *first = 0x40 | random.next_u64() as u8 & 15;
                }
            }
            hop.stamps(&mut bytes, ms(n));
            hop.treats(&bytes, ms(n), true);
        }
    }

    #[test]
    fn it_answers_so_many_a_second() {
        let mut hop = hop(HopConfig {
            answers_per_second: Some(12.0),
            ..HopConfig::default()
        });
        let answered = |hop: &mut Hop, from: u64| {
            let asked = (0..100).map(|i| hop.treats(&ping(64), ms(from + i * 10), false));
            asked.filter(|t| *t != Treated::Ignored).count()
        };
        assert_eq!(answered(&mut hop, 0), 23, "a second's worth at once");
        assert_eq!(answered(&mut hop, 1000), 12);
    }

    #[test]
    fn it_stalls_and_then_answers_in_order() {
        let mut hop = hop(HopConfig {
            stalls: Some(Stalls {
                every: ms(1000),
                lasts: [ms(20), ms(300)],
            }),
            slow: ms(30),
            ..HopConfig::default()
        });
        let (mut before, mut longest, mut late) = (Duration::ZERO, Duration::ZERO, 0);
        for i in 0..3000 {
            let at = ms(i * 10);
            let Treated::Later(by) = hop.treats(&ping(64), at, i < 1500) else {
                panic!("{i} was ignored");
            };
            assert!(at + by >= before, "{i}");
            before = at + by;
            longest = longest.max(by);
            late += u32::from(i >= 1500 && !by.is_zero());
        }
        assert!(longest > ms(150) && longest <= ms(330), "{longest:?}");
        assert!((60..500).contains(&late), "{late}");
    }

    #[test]
    fn its_clock_is_wrong_in_its_replies_and_the_sum_right() {
        let sent = |clock, now| {
            let mut hop = hop(HopConfig {
                clock: Some(clock),
                ..HopConfig::default()
            });
            hop.begin(ms(1000));
            let mut ip = packet(HOP, Ipv4Addr::new(100, 64, 0, 2), 64, TIMESTAMP_REPLY);
            for field in [28, 32, 36] {
                ip[field..field + 4].copy_from_slice(&50_000u32.to_be_bytes());
            }
            hop.stamps(&mut ip, now);
            let sum: u32 = ip[20..]
                .chunks_exact(2)
                .map(|p| u32::from(u16::from_be_bytes([p[0], p[1]])))
                .sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            assert_eq!(ip[28..32], 50_000u32.to_be_bytes(), "the asker's own");
            u32::from_be_bytes(ip[36..40].try_into().unwrap())
        };
        let steps = HopClock::Steps {
            at: ms(5000),
            by_ms: -500,
        };
        assert_eq!(sent(steps, ms(5999)), 50_000);
        assert_eq!(sent(steps, ms(6000)), 49_500);
        assert_eq!(sent(HopClock::Stands, ms(3000)), 48_000);
        assert_eq!(sent(HopClock::Drifts { ppm: 200.0 }, ms(11_000)), 50_002);
        assert_eq!(shown(HopClock::Stands, 5, ms(10)), 86_399_995);
    }
}
