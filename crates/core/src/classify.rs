//! Which packets go first: the default rules, as data.
//!
//! Principles: first match wins; everything here can be read from the fixed part of an IP, TCP
//! or UDP header, so that the plainest classifier of the kernel (u32) can do it. What the
//! gateway's owner says (fwmark) beats what the packet says of itself (DSCP), which beats what
//! it looks like (small). The floor is trafficcontrol-inetgw's list (Stern, Linux-Magazin):
//! ACK, TOS minimum delay, marks 10/11/12, ICMP, default.
//! Non-goals: flows, processes and payloads. Those need a flow table, not a header.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One of four classes of service, in CAKE's `diffserv4` sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Calls, games, name look-ups, acknowledgements.
    Voice,
    /// Streams that must keep up.
    Video,
    /// Everything that says nothing.
    BestEffort,
    /// What may wait.
    Bulk,
}

impl Tier {
    /// All of them, most urgent first.
    pub const ALL: [Tier; 4] = [Tier::Voice, Tier::Video, Tier::BestEffort, Tier::Bulk];

    /// Guaranteed share of the rate in thousandths. They add up to 1000: no tier can starve
    /// another, and what one does not use the others borrow, the urgent ones first.
    pub const fn share_permille(self) -> u64 {
        match self {
            Tier::Voice | Tier::Video => 250,
            Tier::BestEffort => 400,
            Tier::Bulk => 100,
        }
    }

    /// Minor number by which `skb->priority` selects this tier's tin in CAKE's diffserv4
    /// (`cake_select_tin`: `tin_order[minor - 1]` with `bulk_order` = 1, 0, 2, 3).
    pub const fn cake_minor(self) -> u16 {
        match self {
            Tier::Bulk => 1,
            Tier::BestEffort => 2,
            Tier::Video => 3,
            Tier::Voice => 4,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Tier::Voice => "voice",
            Tier::Video => "video",
            Tier::BestEffort => "best effort",
            Tier::Bulk => "bulk",
        })
    }
}

/// What a rule looks at. One condition each: alternatives are further rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// `skb->mark`, set by the gateway's packet filter. Egress only: ingress comes before it.
    Mark(u32),
    /// ICMP on IPv4, ICMPv6 on IPv6.
    Icmp,
    /// The whole TOS or traffic-class byte less its two ECN bits, as DSCP.
    Dscp(u8),
    /// TCP or UDP from or to this port.
    Port(Proto, u16),
    /// A packet of this protocol whose IP length (IPv6: payload length) is below a power of two.
    Smaller(Proto, u16),
}

/// A transport protocol with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proto {
    /// IP protocol 6.
    Tcp,
    /// IP protocol 17.
    Udp,
}

impl Proto {
    /// IANA's protocol number.
    pub const fn number(self) -> u8 {
        match self {
            Proto::Tcp => 6,
            Proto::Udp => 17,
        }
    }
}

/// A condition and where its packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The condition.
    pub when: Match,
    /// The destination.
    pub tier: Tier,
    /// CAKE gets there without help: it reads DSCP itself, and puts a flow of few or small
    /// packets before the others of its tin. For HTB every rule is a filter.
    pub cake_knows: bool,
}

/// The rules, in order. What matches none is best effort.
pub fn default_rules() -> Vec<Rule> {
    let rule = |when, tier, cake_knows| Rule {
        when,
        tier,
        cake_knows,
    };
    let mut rules = vec![
        // Listing 1 of trafficcontrol-inetgw: "Low Latency", "Bulk and Default",
        // "Second-Order Bandwidth".
        rule(Match::Mark(10), Tier::Voice, false),
        rule(Match::Mark(11), Tier::BestEffort, false),
        rule(Match::Mark(12), Tier::Bulk, false),
        rule(Match::Icmp, Tier::Voice, false),
        rule(Match::Port(Proto::Udp, 53), Tier::Voice, false),
        rule(Match::Port(Proto::Tcp, 53), Tier::Voice, false),
        // TOS minimum delay is 0x10, DSCP 4. CAKE has it in its video tin.
        rule(Match::Dscp(4), Tier::Voice, false),
    ];
    // sch_cake's diffserv4 table, by tin.
    let voice = [46, 44, 40, 48, 56, 32];
    let video = [34, 36, 38, 26, 28, 30, 24, 18, 20, 22, 16];
    let bulk = [8, 1];
    for (codes, tier) in [
        (&voice[..], Tier::Voice),
        (&video[..], Tier::Video),
        (&bulk[..], Tier::Bulk),
    ] {
        rules.extend(
            codes
                .iter()
                .map(|&dscp| rule(Match::Dscp(dscp), tier, true)),
        );
    }
    // Empty acknowledgements with all their options are below 128 bytes, as are keystrokes;
    // a packet of a call or a game is below 256.
    rules.push(rule(Match::Smaller(Proto::Tcp, 128), Tier::Voice, true));
    rules.push(rule(Match::Smaller(Proto::Udp, 256), Tier::Voice, true));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_none_is_zero() {
        assert_eq!(
            Tier::ALL.iter().map(|t| t.share_permille()).sum::<u64>(),
            1000
        );
        assert!(Tier::ALL.iter().all(|t| t.share_permille() >= 50));
    }

    #[test]
    fn the_floor_is_there() {
        let find = |when| {
            default_rules()
                .into_iter()
                .find(|r| r.when == when)
                .map(|r| r.tier)
        };
        assert_eq!(find(Match::Mark(10)), Some(Tier::Voice));
        assert_eq!(find(Match::Mark(11)), Some(Tier::BestEffort));
        assert_eq!(find(Match::Mark(12)), Some(Tier::Bulk));
        assert_eq!(find(Match::Icmp), Some(Tier::Voice));
        assert_eq!(find(Match::Dscp(4)), Some(Tier::Voice));
        assert_eq!(find(Match::Smaller(Proto::Tcp, 128)), Some(Tier::Voice));
    }

    #[test]
    fn every_dscp_has_one_tier() {
        let mut seen = std::collections::BTreeSet::new();
        for rule in default_rules() {
            if let Match::Dscp(d) = rule.when {
                assert!(d < 64 && seen.insert(d), "{d}");
            }
        }
    }

    /// `cake_select_tin`: `tin_order[minor - 1]`, and diffserv4's `bulk_order` is 1, 0, 2, 3.
    #[test]
    fn tiers_are_cakes_tins() {
        let bulk_order = [1, 0, 2, 3];
        let tin = |tier: Tier| bulk_order[usize::from(tier.cake_minor()) - 1];
        // Tins of diffserv4: best effort, bulk, video, voice.
        let tins = [Tier::BestEffort, Tier::Bulk, Tier::Video, Tier::Voice].map(tin);
        assert_eq!(tins, [0, 1, 2, 3]);
        let names = Tier::ALL.map(|t| t.to_string());
        assert_eq!(names, ["voice", "video", "best effort", "bulk"]);
    }
}
