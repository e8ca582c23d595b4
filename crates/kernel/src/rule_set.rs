//! A person's rules and the default ones as the programs take them, with what is known now of names and times.
//!
//! Principles: a rule that has one name and no other condition becomes an entry for each address or socket that the
//! name stands for, so that ten thousand cost what one costs; all others are asked one after the other, and ask for
//! their names by a bit. A rule whose time has not come is not there. Non-goals: finding out what names stand for (crate
//! `evenkeel-names`).

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::classify::Tier;
use evenkeel_core::rules::{FlowRule, Used, check, defaults};
use evenkeel_datapath::values::{Name, NameKey, Rule, RuleSet};
use evenkeel_sys::clock;

use crate::Error;
use crate::groups::control_group;

/// What names stand for, by the names as rules have them.
pub type Keys = BTreeMap<String, BTreeSet<NameKey>>;

/// What is known now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// Minute of the week by the clock on the wall; Monday begins it.
    pub minute: u16,
    /// Of programs.
    pub programs: Keys,
    /// Of DNS names.
    pub names: Keys,
    /// Of devices on our side.
    pub devices: Keys,
    /// What devices have used, by the names that rules have for them.
    pub used: BTreeMap<String, Used>,
    /// The same of the whole line.
    pub used_by_all: Used,
    /// Flows that somebody put into a tier by hand.
    pub by_hand: BTreeMap<NameKey, Tier>,
}

impl Known {
    /// Nothing but the time.
    pub fn now() -> Self {
        Known {
            minute: minute_of_week(clock::realtime().as_secs()),
            ..Known::default()
        }
    }
}

/// Minute of the week, of local time, at `now`, seconds since 1970.
fn minute_of_week(now: u64) -> u16 {
    let minutes = now.saturating_add_signed(clock::local_offset(now)) / 60;
    // 1970 began on a Thursday.
    ((minutes + 3 * 1440) % 10_080) as u16
}

/// A rule that cannot be used, by its place from 0.
pub(crate) fn refused(n: usize, rule: &FlowRule, why: &str) -> Error {
    Error::Rule {
        number: n + 1,
        rule: rule.to_string(),
        why: why.to_owned(),
    }
}

/// What cannot be kept by a process that ends.
pub(crate) fn refuse_what_changes(rules: &[FlowRule]) -> Result<(), Error> {
    match rules.iter().enumerate().find(|r| r.1.needs_process()) {
        Some((n, rule)) => {
            let why = "programs, names, devices and times need a process that stays: evenkeel run";
            Err(refused(n, rule, why))
        }
        None => Ok(()),
    }
}

/// A person's rules and then the defaults.
pub fn rule_set(rules: &[FlowRule], known: &Known) -> Result<RuleSet, Error> {
    check(rules).map_err(|(n, why)| refused(n, &rules[n], &why))?;
    let mut job = Job {
        known,
        set: RuleSet::default(),
        limits: 0,
        bits: 0,
    };
    for (key, tier) in &known.by_hand {
        let tier = Some((0, *tier));
        job.set.say(
            *key,
            Name {
                tier,
                ..Name::default()
            },
        );
    }
    for (n, rule) in rules.iter().enumerate() {
        job.add(n as u32 + 1, rule)
            .map_err(|why| refused(n, rule, &why))?;
    }
    for (n, rule) in defaults().iter().enumerate() {
        let position = (rules.len() + n) as u32 + 1;
        job.set.rules.push(Rule {
            position,
            ..Rule::new(rule, None)
        });
    }
    job.set.asks_dns = rules.iter().any(|r| r.name.is_some());
    Ok(job.set)
}

/// Rules that are added one after the other.
struct Job<'a> {
    known: &'a Known,
    set: RuleSet,
    /// Ceilings and names with further conditions so far.
    limits: u8,
    bits: u32,
}

impl Job<'_> {
    fn add(&mut self, position: u32, rule: &FlowRule) -> Result<(), String> {
        let limit = rule.limit.map(|_| {
            self.limits += 1;
            self.limits
        });
        let bits = if rule.asks() || rule.names() != 1 {
            rule.names() as u32
        } else {
            0
        };
        let first_bit = self.bits;
        self.bits += bits;
        let is_time = rule.when.is_none_or(|w| w.holds(self.known.minute));
        if !is_time || !self.is_used_up(rule) {
            return Ok(());
        }
        let tiers = rule.of_tiers();
        for tier in tiers {
            let (own, mark) = (&mut self.set.tier_limit, &mut self.set.tier_dscp);
            own[*tier as usize] = own[*tier as usize].or(limit);
            mark[*tier as usize] = mark[*tier as usize].or(rule.set_dscp);
        }
        if !tiers.is_empty() {
            return Ok(());
        }
        let says = Name {
            sets: 0,
            tier: rule.tier.map(|t| (position, t)),
            limit: limit.map(|l| (position, l)),
            set_dscp: rule.set_dscp.map(|d| (position, d)),
        };
        let mut sets = 0;
        for (n, keys) in Self::keys(self.known, rule).into_iter().enumerate() {
            let bit = Name {
                sets: 1 << (first_bit + n as u32),
                ..Name::default()
            };
            sets |= bit.sets;
            for key in keys.into_iter().flatten() {
                self.set.say(*key, if bits == 0 { says } else { bit });
            }
        }
        if bits > 0 || rule.names() == 0 {
            let group = rule.cgroup.as_deref().map(control_group).transpose()?;
            self.set.rules.push(Rule {
                position,
                limit,
                sets,
                ..Rule::new(rule, group)
            });
        }
        Ok(())
    }

    /// Whether what a rule waits for has been used.
    fn is_used_up(&self, rule: &FlowRule) -> bool {
        let Some(quota) = rule.after else {
            return true;
        };
        let used = match &rule.device {
            Some(device) => self.known.used.get(device).copied().unwrap_or_default(),
            None => self.known.used_by_all,
        };
        quota.percent(used) >= 100
    }

    /// What each of a rule's names stands for, as far as that is known.
    fn keys<'k>(known: &'k Known, rule: &FlowRule) -> Vec<Option<&'k BTreeSet<NameKey>>> {
        let kinds = [
            (&rule.program, &known.programs),
            (&rule.name, &known.names),
            (&rule.device, &known.devices),
        ];
        kinds
            .into_iter()
            .filter_map(|(name, keys)| name.as_ref().map(|name| keys.get(name)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rules(texts: &[&str]) -> Vec<FlowRule> {
        texts.iter().map(|t| t.parse().unwrap()).collect()
    }

    fn rules_of_a_budget() -> Vec<FlowRule> {
        rules(&[
            "any max 4mbit after 5GB/month",
            "host tv max 1mbit after 1GB/month",
            "bulk device tv after 2h/day",
        ])
    }

    #[test]
    fn names_alone_are_entries_and_others_are_asked() {
        let rules = rules(&[
            "video name example.org max 5mbit",
            "voice udp name example.org",
            "bulk name example.net 22:00-06:00",
            "bulk max 20%",
            "best-effort tcp port 99",
        ]);
        let key = |n: u8| NameKey::Remote([192, 0, 2, n].into());
        let mut known = Known::default();
        known
            .names
            .insert("example.org".into(), [key(1), key(2)].into());
        known.names.insert("example.net".into(), [key(2)].into());
        known.minute = 23 * 60;
        let set = rule_set(&rules, &known).unwrap();
        let one = Name {
            sets: 1,
            tier: Some((1, Tier::Video)),
            limit: Some((1, 1)),
            set_dscp: None,
        };
        assert_eq!(set.names[&key(1)], one);
        // The third rule holds as well, and comes later.
        assert_eq!(set.names[&key(2)], one);
        assert_eq!((set.rules[0].position, set.rules[0].sets), (2, 1));
        assert_eq!((set.rules[1].position, set.rules[1].sets), (5, 0));
        assert_eq!(set.rules[2].position, 6);
        assert_eq!(set.tier_limit, [None, None, None, Some(2)]);
        assert!(set.asks_dns);
        // Used up: the rule is there from then on.
        let waits = rules_of_a_budget();
        assert_eq!(rule_set(&waits, &known).unwrap().tier_limit, [None; 4]);
        known.used_by_all.bytes = 5_000_000_000;
        assert_eq!(rule_set(&waits, &known).unwrap().tier_limit, [Some(1); 4]);
        let tv = NameKey::Local([192, 0, 2, 9].into());
        known.devices.insert("tv".into(), [tv].into());
        assert_eq!(rule_set(&waits, &known).unwrap().names.get(&tv), None);
        let time = Duration::from_secs(7200);
        known.used.insert("tv".into(), Used { bytes: 0, time });
        let said = rule_set(&waits, &known).unwrap().names[&tv];
        assert_eq!(said.tier, Some((3, Tier::Bulk)));
        known.devices.clear();
        // By day a ceiling has the number that it has at night.
        known.minute = 12 * 60;
        known.names.remove("example.org");
        let day = rule_set(&rules, &known).unwrap();
        assert!(day.names.is_empty() && day.tier_limit == set.tier_limit);
        assert_eq!(day.rules, set.rules);
    }

    #[test]
    fn weeks_begin_on_monday() {
        // 2026-11-23 00:01 UTC was a Monday.
        let at = 1_795_392_060;
        let local = minute_of_week(at);
        let utc = 1i64;
        let offset = clock::local_offset(at) / 60;
        assert_eq!(i64::from(local), (utc + offset).rem_euclid(10_080));
    }
}
