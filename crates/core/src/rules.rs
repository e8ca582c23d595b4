//! A person's rules on which flows are urgent: `voice udp port 3478-3481`, `host tv max 15mbit`.
//!
//! A rule is a tier and then conditions, all of which must hold, and what else is done with its flows: a ceiling or a
//! guarantee (`limit`), a mark on the way out; it may hold only at times (`when`). Of a list the first rule that holds
//! and has a tier decides the tier, the first that has a ceiling the ceiling; the default rules come after the
//! person's. Principles: one form on the command line and in files; what is wrong is named with the word that is
//! wrong; nothing is looked up here (a control group's number is the kernel's business, and whose address a name
//! stands for that of a process which stays). Non-goals: payload.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::classify::{Match, Proto, Tier, default_rules};

mod limit;
mod quota;
mod when;

pub use limit::{Amount, Limit};
pub use quota::{Budget, Quota, Used};
pub use when::When;

/// Most rules of a person that the programs ask one after the other.
pub const MOST: usize = 64;
/// Most rules of a person of all kinds: those that have one name and no other condition are found by it, however many
/// there are.
pub const MOST_OF_ALL: usize = 16_384;
/// Most ceilings and guarantees.
pub const MOST_LIMITS: usize = 64;

/// Whose port or address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Ours or theirs.
    Any,
    /// Ours, as seen on the outside of address translation.
    Local,
    /// Theirs.
    Remote,
}

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The first of them.
    pub address: IpAddr,
    /// Bits that count.
    pub length: u8,
}

/// One rule. Conditions that are absent hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRule {
    /// Where its flows go; `None`: wherever another rule says.
    pub tier: Option<Tier>,
    /// IP protocol.
    pub proto: Option<u8>,
    /// First and last port, and whose.
    pub ports: Option<(End, u16, u16)>,
    /// Our address, on the outside of address translation.
    pub local: Option<Prefix>,
    /// Their address.
    pub remote: Option<Prefix>,
    /// DSCP of what we send.
    pub dscp: Option<u8>,
    /// fwmark of what we send, and the bits of it that count.
    pub mark: Option<(u32, u32)>,
    /// Path of a control group of this host; what is below it counts as well.
    pub cgroup: Option<String>,
    /// Name of a program of this host's, of a unit, a container or a flatpak.
    pub program: Option<String>,
    /// DNS name of the far side; what is below it counts as well.
    pub name: Option<String>,
    /// A device on our side: its hardware address, the name that it got its lease by, or an address.
    pub device: Option<String>,
    /// When it holds; always without it.
    pub when: Option<When>,
    /// It holds once the device, or without one the line, has used up so much.
    pub after: Option<Quota>,
    /// How much its flows may have together, and what they always get.
    pub limit: Option<Limit>,
    /// DSCP that is written into what we send.
    pub set_dscp: Option<u8>,
    /// CAKE does as much by itself.
    pub cake_knows: bool,
}

impl FlowRule {
    /// Everything, into a tier.
    pub const fn all(tier: Tier) -> Self {
        FlowRule {
            tier: Some(tier),
            proto: None,
            ports: None,
            local: None,
            remote: None,
            dscp: None,
            mark: None,
            cgroup: None,
            program: None,
            name: None,
            device: None,
            when: None,
            after: None,
            limit: None,
            set_dscp: None,
            cake_knows: false,
        }
    }

    /// Whether it has a condition that the programs ask, beside names and times.
    pub fn asks(&self) -> bool {
        self.proto.is_some()
            || self.ports.is_some()
            || self.local.is_some()
            || self.remote.is_some()
            || self.dscp.is_some()
            || self.mark.is_some()
            || self.cgroup.is_some()
    }

    /// How many conditions it has that are names.
    pub fn names(&self) -> usize {
        [&self.program, &self.name, &self.device]
            .into_iter()
            .flatten()
            .count()
    }

    /// Whether what it means changes with time, so that a process has to stay.
    pub fn needs_process(&self) -> bool {
        self.names() > 0 || self.when.is_some() || self.after.is_some()
    }

    /// The tiers whose flows have this ceiling or mark, whatever brought them there: `bulk max 20%`; `any max 5mbit` is
    /// about all.
    pub fn of_tiers(&self) -> &[Tier] {
        let acts = self.limit.is_some() || self.set_dscp.is_some();
        match (&self.tier, acts && !self.asks() && self.names() == 0) {
            (_, false) => &[],
            (None, true) => &Tier::ALL,
            (Some(tier), true) => std::slice::from_ref(tier),
        }
    }
}

/// The ceilings and guarantees of a list, in order: flows are given the number of theirs in it.
pub fn limits(rules: &[FlowRule]) -> Vec<Limit> {
    rules.iter().filter_map(|r| r.limit).collect()
}

/// What is wrong with a list, and with which of it, from 0.
pub fn check(rules: &[FlowRule]) -> Result<(), (usize, String)> {
    let mut asked = 0;
    let mut limits = 0;
    let mut sets = 0;
    for (n, rule) in rules.iter().enumerate() {
        if rule.asks() || rule.names() != 1 {
            asked += 1;
            sets += rule.names();
        }
        limits += usize::from(rule.limit.is_some());
        let wrong = if n >= MOST_OF_ALL {
            format!("{MOST_OF_ALL} rules are the most")
        } else if asked > MOST {
            format!("{MOST} rules are the most, beside those whose only condition is a name")
        } else if sets > u64::BITS as usize {
            format!("{} names with further conditions are the most", u64::BITS)
        } else if limits > MOST_LIMITS {
            format!("{MOST_LIMITS} ceilings and guarantees are the most")
        } else {
            continue;
        };
        return Err((n, wrong));
    }
    Ok(())
}

/// The rules that come after a person's: [`default_rules`] as far as they speak of flows. What a
/// packet's size says is seen by watching the flow.
pub fn defaults() -> Vec<FlowRule> {
    let mut all = Vec::new();
    for rule in default_rules() {
        let flow = FlowRule {
            cake_knows: rule.cake_knows,
            ..FlowRule::all(rule.tier)
        };
        match rule.when {
            Match::Mark(mark) => all.push(FlowRule {
                mark: Some((mark, u32::MAX)),
                ..flow
            }),
            Match::Icmp => all.extend([1, 58].map(|proto| FlowRule {
                proto: Some(proto),
                ..flow.clone()
            })),
            Match::Dscp(dscp) => all.push(FlowRule {
                dscp: Some(dscp),
                ..flow
            }),
            Match::Port(proto, port) => all.push(FlowRule {
                proto: Some(proto.number()),
                ports: Some((End::Any, port, port)),
                ..flow
            }),
            Match::Smaller(Proto::Tcp | Proto::Udp, _) => {}
        }
    }
    all
}

const FORM: &str = "a rule is a tier (voice, video, best-effort, bulk, any) and conditions: tcp, udp, \
                    icmp, proto N, port N-M, local-port N-M, remote-port N-M, local ADDRESS/BITS, \
                    remote ADDRESS/BITS, dscp N, mark N/MASK, cgroup PATH, program NAME, name NAME, \
                    device NAME, HH:MM-HH:MM, mon-fri, after 100GB/month, after 2h/day; and what is done: max RATE, min RATE, set-dscp N";

impl FromStr for FlowRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let (tier, first) = match words.next() {
            Some("voice") => (Some(Tier::Voice), None),
            Some("video") => (Some(Tier::Video), None),
            Some("best-effort") => (Some(Tier::BestEffort), None),
            Some("bulk") => (Some(Tier::Bulk), None),
            Some("any") => (None, None),
            // `host tv` is short for `any device tv`.
            Some("host") => (None, Some("device")),
            Some(other) => return Err(format!("{other:?} is no tier; {FORM}")),
            None => return Err(format!("it is empty; {FORM}")),
        };
        let mut rule = FlowRule {
            tier,
            ..FlowRule::all(Tier::BestEffort)
        };
        let mut seen: Vec<&str> = Vec::new();
        let mut words = first.into_iter().chain(words);
        while let Some(word) = words.next() {
            if when::is_part(word) {
                When::add(&mut rule.when, word)?;
                continue;
            }
            // `tcp` and `proto` say the same thing, as the three kinds of ports do.
            let kind = match word {
                "tcp" | "udp" | "icmp" => "proto",
                "local-port" | "remote-port" => "port",
                other => other,
            };
            if seen.contains(&kind) {
                return Err(format!("{word:?}: {kind} was said before"));
            }
            seen.push(kind);
            let mut value = || {
                words
                    .next()
                    .ok_or_else(|| format!("{word:?} lacks its value"))
            };
            match word {
                "tcp" => rule.proto = Some(6),
                "udp" => rule.proto = Some(17),
                "icmp" => rule.proto = Some(1),
                "proto" => rule.proto = Some(number(value()?, "a protocol's number")?),
                "port" => rule.ports = Some(ports(End::Any, value()?)?),
                "local-port" => rule.ports = Some(ports(End::Local, value()?)?),
                "remote-port" => rule.ports = Some(ports(End::Remote, value()?)?),
                "local" => rule.local = Some(value()?.parse()?),
                "remote" => rule.remote = Some(value()?.parse()?),
                "dscp" => rule.dscp = Some(dscp(value()?)?),
                "mark" => rule.mark = Some(mark(value()?)?),
                "cgroup" => {
                    let path = value()?;
                    if !path.starts_with('/') || path.split('/').any(|p| p == "..") {
                        return Err(format!("{path:?} is no control group: it begins with /"));
                    }
                    rule.cgroup = Some(path.to_owned());
                }
                "program" => rule.program = Some(value()?.to_owned()),
                "name" => rule.name = Some(dns_name(value()?)?),
                "device" => rule.device = Some(value()?.to_lowercase()),
                "max" => rule.limit.get_or_insert_default().max = Some(limit::pair(value()?)?),
                "min" => rule.limit.get_or_insert_default().min = Some(limit::pair(value()?)?),
                "after" => rule.after = Some(value()?.parse()?),
                "set-dscp" => rule.set_dscp = Some(dscp(value()?)?),
                other => return Err(format!("{other:?} is no condition; {FORM}")),
            }
        }
        rule.checked()
    }
}

impl FlowRule {
    /// Itself, if it makes sense.
    fn checked(self) -> Result<Self, String> {
        if self.local.is_some() && self.remote.is_some() {
            return Err("local and remote: a rule has one address".into());
        }
        if self.tier.is_none() && self.limit.is_none() && self.set_dscp.is_none() {
            return Err("without a tier it needs max, min or set-dscp".into());
        }
        Ok(self)
    }
}

/// A DNS name in lower case, without a dot at its end or `*.` before it: what is below counts anyway.
fn dns_name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(allowed)
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return Err(format!("{text:?} is not a DNS name"));
    }
    Ok(name.to_ascii_lowercase())
}

fn number<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not {what}"))
}

fn ports(end: End, text: &str) -> Result<(End, u16, u16), String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (number(low, "a port")?, number(high, "a port")?);
    if low > high {
        return Err(format!("{text:?}: the smaller port comes first"));
    }
    Ok((end, low, high))
}

fn mark(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| {
        let parsed = match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => text.parse(),
        };
        parsed.map_err(|_| format!("{text:?} is not a mark"))
    };
    match text.split_once('/') {
        Some((mark, mask)) => Ok((number(mark)?, number(mask)?)),
        None => Ok((number(text)?, u32::MAX)),
    }
}

/// Names of RFC 4594 beside numbers.
fn dscp(text: &str) -> Result<u8, String> {
    let named = match text {
        "ef" => Some(46),
        "le" => Some(1),
        "va" => Some(44),
        _ => {
            let digits = |prefix| {
                let rest = text.strip_prefix(prefix)?;
                rest.bytes()
                    .all(|b| b.is_ascii_digit())
                    .then(|| rest.bytes().map(|b| b - b'0').collect::<Vec<_>>())
            };
            match (digits("cs").as_deref(), digits("af").as_deref()) {
                (Some([n @ 0..=7]), _) => Some(8 * n),
                (_, Some([class @ 1..=4, drop @ 1..=3])) => Some(8 * class + 2 * drop),
                _ => None,
            }
        }
    };
    match named.or_else(|| text.parse().ok()) {
        Some(n @ 0..64) => Ok(n),
        _ => Err(format!("{text:?} is not a DSCP (0 to 63, ef, cs1, af41)")),
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not an address or prefix");
        let (address, length) = match text.split_once('/') {
            Some((a, n)) => (a, Some(n)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(n) => n.parse().map_err(|_| wrong())?,
            None => most,
        };
        if length > most {
            return Err(format!("{text:?}: a prefix has at most {most} bits"));
        }
        Ok(Prefix { address, length })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// In the form that is read.
impl fmt::Display for FlowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.tier {
            Some(Tier::Voice) => "voice",
            Some(Tier::Video) => "video",
            Some(Tier::BestEffort) => "best-effort",
            Some(Tier::Bulk) => "bulk",
            None => "any",
        })?;
        match self.proto {
            Some(6) => f.write_str(" tcp")?,
            Some(17) => f.write_str(" udp")?,
            Some(1) => f.write_str(" icmp")?,
            Some(n) => write!(f, " proto {n}")?,
            None => {}
        }
        if let Some((end, low, high)) = self.ports {
            f.write_str(match end {
                End::Any => " port ",
                End::Local => " local-port ",
                End::Remote => " remote-port ",
            })?;
            if low == high {
                write!(f, "{low}")?;
            } else {
                write!(f, "{low}-{high}")?;
            }
        }
        if let Some(p) = self.local {
            write!(f, " local {p}")?;
        }
        if let Some(p) = self.remote {
            write!(f, " remote {p}")?;
        }
        if let Some(n) = self.dscp {
            write!(f, " dscp {n}")?;
        }
        match self.mark {
            Some((n, u32::MAX)) => write!(f, " mark {n}")?,
            Some((n, mask)) => write!(f, " mark {n:#x}/{mask:#x}")?,
            None => {}
        }
        let named = [
            ("cgroup", &self.cgroup),
            ("program", &self.program),
            ("name", &self.name),
            ("device", &self.device),
        ];
        for (word, value) in named {
            if let Some(value) = value {
                write!(f, " {word} {value}")?;
            }
        }
        if let Some(limit) = &self.limit {
            write!(f, "{limit}")?;
        }
        if let Some(n) = self.set_dscp {
            write!(f, " set-dscp {n}")?;
        }
        if let Some(quota) = self.after {
            write!(f, " after {quota}")?;
        }
        match &self.when {
            Some(when) => write!(f, " {when}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> FlowRule {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn every_condition() {
        let all = rule(
            "voice udp port 3478-3481 remote 2001:db8::/32 dscp ef mark 0x10/0xf0 \
             cgroup /system.slice/voip.service",
        );
        assert_eq!(
            all,
            FlowRule {
                proto: Some(17),
                ports: Some((End::Any, 3478, 3481)),
                remote: Some("2001:db8::/32".parse().unwrap()),
                dscp: Some(46),
                mark: Some((0x10, 0xf0)),
                cgroup: Some("/system.slice/voip.service".into()),
                ..FlowRule::all(Tier::Voice)
            }
        );
        for text in [
            "bulk",
            "bulk tcp port 80",
            "video proto 132 local-port 1-65535",
            "best-effort local 192.0.2.0/24",
            "bulk icmp mark 12",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
        assert_eq!(rule(&all.to_string()), all);
    }

    #[test]
    fn names_times_and_what_is_done() {
        for text in [
            "voice program zoom",
            "video name netflix.com max 40%",
            "bulk device 02:00:5e:00:53:01 22:00-06:00 mon-fri",
            "any device tv max 15mbit/5mbit",
            "voice udp program zoom name zoom.us set-dscp 46 08:00-18:00",
            "bulk max 20% min 1mbit sat,sun",
            "any device tv max 2mbit after 100GB/month",
            "bulk device tv after 90min/day",
            "any max 5mbit 08:00-12:00",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
        assert_eq!(
            rule("host TV max 15mbit"),
            rule("any device tv max 15mbit/15mbit")
        );
        assert_eq!(
            rule("video name *.Example.ORG."),
            rule("video name example.org")
        );
        assert_eq!(rule("bulk max 20%").of_tiers(), [Tier::Bulk]);
        assert_eq!(rule("any max 20% 18:00-23:00").of_tiers(), Tier::ALL);
        assert_eq!(rule("bulk").of_tiers(), []);
        assert_eq!(rule("bulk port 80 max 20%").of_tiers(), []);
        assert!(rule("bulk 18:00-23:00").needs_process() && !rule("bulk max 20%").needs_process());
    }

    #[test]
    fn a_list_has_bounds() {
        let many = |text: &str, n: usize| vec![rule(text); n];
        assert_eq!(check(&many("voice name example.org", MOST_OF_ALL)), Ok(()));
        assert_eq!(check(&many("voice port 5", MOST)), Ok(()));
        let place = |rules: &[FlowRule]| check(rules).unwrap_err().0;
        assert_eq!(
            place(&many("voice name example.org", MOST_OF_ALL + 1)),
            MOST_OF_ALL
        );
        assert_eq!(place(&many("voice port 5", MOST + 1)), MOST);
        assert_eq!(
            place(&many("host tv max 5mbit", MOST_LIMITS + 1)),
            MOST_LIMITS
        );
        assert_eq!(place(&many("voice udp name a.b program c", 40)), 32);
    }

    #[test]
    fn names_of_dscp() {
        for (text, n) in [
            ("0", 0),
            ("63", 63),
            ("ef", 46),
            ("le", 1),
            ("va", 44),
            ("cs0", 0),
            ("cs7", 56),
            ("af11", 10),
            ("af43", 38),
        ] {
            assert_eq!(dscp(text), Ok(n), "{text}");
        }
        for text in ["64", "-1", "cs8", "cs", "af", "af14", "af51", "af411", "xf"] {
            assert!(dscp(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("", "empty"),
            ("voip", "\"voip\" is no tier"),
            ("voice port", "\"port\" lacks its value"),
            ("voice port 70000", "\"70000\" is not a port"),
            ("voice port 9-1", "\"9-1\""),
            ("voice tcp udp", "\"udp\": proto was said before"),
            ("voice port 1 remote-port 2", "port was said before"),
            ("voice remote 10.0.0.0/33", "at most 32 bits"),
            ("voice remote example.org", "not an address"),
            ("voice local ::1 remote ::1", "one address"),
            ("voice dscp 64", "not a DSCP"),
            ("voice mark 0xzz", "not a mark"),
            ("voice cgroup user.slice", "begins with /"),
            ("voice cgroup /../x", "begins with /"),
            ("voice user alice", "\"user\" is no condition"),
            ("any port 5", "needs max"),
            ("any max 5mbit after 5GB", "\"5GB\""),
            ("voice name a..b", "not a DNS name"),
            ("host tv max 0%", "\"0%\""),
            ("host tv max 101%", "\"101%\""),
            ("host tv max 5mbit/x", "\"x\""),
            ("bulk 25:00-06:00", "\"25:00\""),
            ("bulk 22:00", "\"22:00\""),
            ("bulk 22:00-06:00 22:00-06:00", "was said before"),
            ("bulk mon-xyz", "\"xyz\""),
            ("voice set-dscp 64", "not a DSCP"),
        ] {
            let e = text.parse::<FlowRule>().unwrap_err();
            assert!(e.contains(named), "{text}: {e}");
        }
    }

    #[test]
    fn defaults_are_the_header_rules_without_sizes() {
        let all = defaults();
        let headers = default_rules().len();
        assert_eq!(all.len(), headers - 2 + 1, "ICMP is two protocols");
        assert_eq!(all[0], rule("voice mark 10"));
        assert!(all.contains(&rule("voice udp port 53")));
        // ICMP and ICMPv6.
        assert!(all.contains(&rule("voice proto 1")) && all.contains(&rule("voice proto 58")));
        // CAKE reads DSCP itself, but for TOS minimum delay, and never marks.
        let known = |r: &FlowRule| r.cake_knows;
        assert!(
            all.iter()
                .all(|r| known(r) == (r.dscp.is_some() && r.dscp != Some(4)))
        );
        assert!(
            all.iter()
                .any(|r| r.dscp == Some(8) && r.tier == Some(Tier::Bulk))
        );
        assert!(all.len() + MOST <= 128);
    }
}
