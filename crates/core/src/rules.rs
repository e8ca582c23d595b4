//! A person's rules on which flows are urgent: `voice udp port 3478-3481`.
//!
//! A rule is a tier and then conditions, all of which must hold; of a list the first rule that
//! holds decides, and the default rules come after the person's. Principles: one form on the
//! command line and in files; what is wrong is named with the word that is wrong; nothing is
//! looked up here (a control group's number is the kernel's business). Non-goals: actions other
//! than a tier, payload, names of hosts.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::classify::{Match, Proto, Tier, default_rules};

/// Most rules of a person.
pub const MOST: usize = 64;

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
    /// Where its flows go.
    pub tier: Tier,
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
    /// CAKE does as much by itself.
    pub cake_knows: bool,
}

impl FlowRule {
    /// Everything, into a tier.
    pub const fn all(tier: Tier) -> Self {
        FlowRule {
            tier,
            proto: None,
            ports: None,
            local: None,
            remote: None,
            dscp: None,
            mark: None,
            cgroup: None,
            cake_knows: false,
        }
    }
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

const FORM: &str = "a rule is a tier (voice, video, best-effort, bulk) and conditions: tcp, udp, \
                    icmp, proto N, port N-M, local-port N-M, remote-port N-M, local ADDRESS/BITS, \
                    remote ADDRESS/BITS, dscp N, mark N/MASK, cgroup PATH";

impl FromStr for FlowRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let tier = match words.next() {
            Some("voice") => Tier::Voice,
            Some("video") => Tier::Video,
            Some("best-effort") => Tier::BestEffort,
            Some("bulk") => Tier::Bulk,
            Some(other) => return Err(format!("{other:?} is no tier; {FORM}")),
            None => return Err(format!("it is empty; {FORM}")),
        };
        let mut rule = FlowRule::all(tier);
        let mut seen: Vec<&str> = Vec::new();
        while let Some(word) = words.next() {
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
                other => return Err(format!("{other:?} is no condition; {FORM}")),
            }
        }
        if rule.local.is_some() && rule.remote.is_some() {
            return Err("local and remote: a rule has one address".into());
        }
        Ok(rule)
    }
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
            Tier::Voice => "voice",
            Tier::Video => "video",
            Tier::BestEffort => "best-effort",
            Tier::Bulk => "bulk",
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
        if let Some(path) = &self.cgroup {
            write!(f, " cgroup {path}")?;
        }
        Ok(())
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
                .any(|r| r.dscp == Some(8) && r.tier == Tier::Bulk)
        );
        assert!(all.len() + MOST <= 128);
    }
}
