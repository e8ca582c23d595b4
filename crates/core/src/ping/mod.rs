//! What `ping` and `trace` know of probes: their fates, times, statistics and log lines.
//!
//! Principles: every probe has exactly one fate; what answered with an error is timed and counted
//! as what it is, never as a reply; nothing grows with the length of a run. Times come from
//! outside: the steady clock decides what is late, the kernel's stamps (wall clock) say how long
//! it took. Non-goals: sockets (crate `evenkeel-measure`), how lines look (the program).

pub mod arrivals;
pub mod fit;
pub mod log;
pub mod route;
pub mod sizes;
pub mod spread;
pub mod tally;
pub mod track;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The target answered.
    Reply,
    /// ICMP time exceeded in transit (RFC 792 type 11, RFC 4443 type 3).
    Expired,
    /// ICMP unreachable: network (IPv4 code 0, IPv6 code 0).
    NetUnreachable,
    /// ICMP unreachable: host or address.
    HostUnreachable,
    /// ICMP unreachable: protocol.
    ProtocolUnreachable,
    /// ICMP unreachable: port.
    PortUnreachable,
    /// ICMP fragmentation needed, or packet too big.
    TooBig,
    /// ICMP unreachable: prohibited by policy.
    Prohibited,
    /// ICMP unreachable of another kind.
    Unreachable,
    /// The target refused the TCP connection.
    Refused,
    /// The target sent back less than it was sent.
    Damaged,
    /// Nothing came in time.
    Timeout,
    /// The wall clock was stepped meanwhile, so that its stamps say nothing.
    Void,
    /// This machine did not send it.
    Unsent,
}

/// All of them with their words, as in logs.
const WORDS: [(Fate, &str); 14] = [
    (Fate::Reply, "reply"),
    (Fate::Expired, "expired"),
    (Fate::NetUnreachable, "net-unreachable"),
    (Fate::HostUnreachable, "host-unreachable"),
    (Fate::ProtocolUnreachable, "protocol-unreachable"),
    (Fate::PortUnreachable, "port-unreachable"),
    (Fate::TooBig, "too-big"),
    (Fate::Prohibited, "prohibited"),
    (Fate::Unreachable, "unreachable"),
    (Fate::Refused, "refused"),
    (Fate::Damaged, "damaged"),
    (Fate::Timeout, "timeout"),
    (Fate::Void, "void"),
    (Fate::Unsent, "unsent"),
];

impl Fate {
    /// From an ICMP error's type and code; `None` if it is no error about a packet.
    pub fn of_icmp(v6: bool, kind: u8, code: u8) -> Option<Fate> {
        Some(match (v6, kind, code) {
            (false, 11, _) | (true, 3, _) => Fate::Expired,
            (false, 3, 0 | 6) | (true, 1, 0) => Fate::NetUnreachable,
            (false, 3, 1 | 7) | (true, 1, 3) => Fate::HostUnreachable,
            (false, 3, 2) | (true, 4, 1) => Fate::ProtocolUnreachable,
            (false, 3, 3) | (true, 1, 4) => Fate::PortUnreachable,
            (false, 3, 4) | (true, 2, _) => Fate::TooBig,
            (false, 3, 9 | 10 | 13) | (true, 1, 1 | 5 | 6) => Fate::Prohibited,
            (false, 3, _) | (true, 1, _) => Fate::Unreachable,
            _ => return None,
        })
    }

    /// An answer that says no, from the target or from a hop: timed, but not a reply.
    pub fn is_error(self) -> bool {
        self >= Fate::Expired && self <= Fate::Refused
    }

    /// Something answered, and the time is that of the network.
    pub fn is_timed(self) -> bool {
        self == Fate::Reply || self.is_error()
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|w| w.0 == *self).map_or("", |w| w.1);
        f.pad(word)
    }
}

impl FromStr for Fate {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        WORDS.iter().find(|w| w.1 == s).map(|w| w.0).ok_or(())
    }
}

/// The times of one probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// What a user feels: from before our own queueing discipline to the kernel's receive stamp.
    pub felt: Duration,
    /// Our own egress queue: from before the discipline to the driver. Absent without stamps.
    pub queue: Option<Duration>,
    /// The path: from the driver to the receive stamp, without `ingress`. Where that is absent,
    /// an ingress shaper of this machine is in it.
    pub path: Option<Duration>,
    /// Our own ingress queue: from the arrival to the receive stamp. Absent unless somebody
    /// stands before that queue ([`arrivals::Arrivals`]).
    pub ingress: Option<Duration>,
}

/// One probe and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Which, counted from 0.
    pub seq: u64,
    /// When it was sent, wall clock, since 1970.
    pub sent: Duration,
    /// Bytes of its payload.
    pub size: u32,
    /// What became of it.
    pub fate: Fate,
    /// Who answered.
    pub from: Option<IpAddr>,
    /// Bytes of payload that came back in a reply.
    pub received: Option<u32>,
    /// Hops that the answer could still have gone.
    pub ttl: Option<u8>,
    /// How long it took; absent if nothing (or nothing usable) came.
    pub delays: Option<Delays>,
    /// Both ends were stamped by the kernel; else the program's own clock stood in.
    pub stamped: bool,
}

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// Steady.
    pub mono: Duration,
    /// Since 1970.
    pub wall: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for (fate, word) in WORDS {
            assert_eq!(fate.to_string(), word);
            assert_eq!(word.parse(), Ok(fate));
        }
        assert_eq!("lost".parse::<Fate>(), Err(()));
    }

    /// RFC 792 and RFC 1812 (5.2.7.1) for IPv4, RFC 4443 for IPv6.
    #[test]
    fn icmp_errors() {
        for (v6, kind, code, fate) in [
            (false, 11, 0, Some(Fate::Expired)),
            (false, 11, 1, Some(Fate::Expired)),
            (false, 3, 0, Some(Fate::NetUnreachable)),
            (false, 3, 1, Some(Fate::HostUnreachable)),
            (false, 3, 2, Some(Fate::ProtocolUnreachable)),
            (false, 3, 3, Some(Fate::PortUnreachable)),
            (false, 3, 4, Some(Fate::TooBig)),
            (false, 3, 5, Some(Fate::Unreachable)),
            (false, 3, 6, Some(Fate::NetUnreachable)),
            (false, 3, 7, Some(Fate::HostUnreachable)),
            (false, 3, 9, Some(Fate::Prohibited)),
            (false, 3, 10, Some(Fate::Prohibited)),
            (false, 3, 13, Some(Fate::Prohibited)),
            (false, 3, 200, Some(Fate::Unreachable)),
            (false, 0, 0, None),
            (false, 5, 0, None),
            (false, 12, 0, None),
            (true, 3, 0, Some(Fate::Expired)),
            (true, 1, 0, Some(Fate::NetUnreachable)),
            (true, 1, 1, Some(Fate::Prohibited)),
            (true, 1, 2, Some(Fate::Unreachable)),
            (true, 1, 3, Some(Fate::HostUnreachable)),
            (true, 1, 4, Some(Fate::PortUnreachable)),
            (true, 1, 5, Some(Fate::Prohibited)),
            (true, 1, 6, Some(Fate::Prohibited)),
            (true, 2, 0, Some(Fate::TooBig)),
            (true, 4, 0, None),
            (true, 4, 1, Some(Fate::ProtocolUnreachable)),
            (true, 129, 0, None),
        ] {
            assert_eq!(Fate::of_icmp(v6, kind, code), fate, "{v6} {kind} {code}");
        }
    }

    #[test]
    fn errors_are_timed_but_no_replies() {
        let all: Vec<_> = WORDS.iter().map(|w| w.0).collect();
        assert_eq!(all.iter().filter(|f| f.is_error()).count(), 9);
        assert!(Fate::Reply.is_timed() && !Fate::Reply.is_error());
        assert!(!Fate::Damaged.is_timed() && !Fate::Timeout.is_timed());
        let first_and_last = [Fate::Expired, Fate::Refused];
        assert!(first_and_last.iter().all(|f| f.is_error() && f.is_timed()));
    }
}
