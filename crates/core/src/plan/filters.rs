//! The default rules as u32 filters, our programs in their place where the kernel takes them, and
//! the filter that sends arrivals to the IFB.
//!
//! Principles: one preference per protocol, rules in order within it; a rule leads to a class
//! (fq_codel leaves), to the hash of its tier (bucket leaves) or to a priority (CAKE).
//! Buckets are chosen by bits 1 to 4 of the port on our side of the line, because bit 0 has one
//! parity for all connections of a Linux host. Non-goals: extension headers and flows.

use super::features::Feature;
use super::handles::{PROGRAM_PREF, PROGRAMS, clsact_pref};
use super::leaf::{BUCKETS, Leaf};
use super::side::Side;
use crate::classify::{Match, Proto, Rule, Tier, default_rules};
use crate::tc::{
    Action, Bpf, Dev, Filter, FilterKind, Handle, HashKey, Mark, Matchall, Op, Protocol, U32,
    U32Handle, U32Key,
};

const FAMILIES: [Protocol; 2] = [Protocol::Ip, Protocol::Ipv6];

/// Rules that hold here: marks exist only on the way out, and only if u32 can see them.
fn rules(side: &Side<'_>) -> Vec<Rule> {
    let marks = !side.ingress && side.caps.has(Feature::U32Mark);
    let mut rules = default_rules();
    rules.retain(|r| marks || !matches!(r.when, Match::Mark(_)));
    rules
}

fn key(val: u32, mask: u32, off: i32) -> U32Key {
    U32Key {
        val,
        mask,
        off,
        nexthdr: false,
    }
}

/// IPv4 without options and not a later fragment, so that ports stand at 20; or IPv6.
fn transport(family: Protocol, proto: Proto) -> Vec<U32Key> {
    let number = u32::from(proto.number());
    match family {
        Protocol::Ipv6 => vec![key(number << 8, 0x0000_ff00, 4)],
        _ => vec![
            key(0x0500_0000, 0x0f00_0000, 0),
            key(0, 0x0000_1fff, 4),
            key(number << 16, 0x00ff_0000, 8),
        ],
    }
}

const fn ports_at(family: Protocol) -> i32 {
    if matches!(family, Protocol::Ipv6) {
        40
    } else {
        20
    }
}

/// What a rule looks at; a port gives two, one for each side.
fn matches(when: Match, family: Protocol) -> Vec<U32> {
    let v6 = family == Protocol::Ipv6;
    let keys = |keys| {
        vec![U32 {
            keys,
            ..U32::default()
        }]
    };
    match when {
        Match::Mark(val) => vec![U32 {
            mark: Some(Mark {
                val,
                mask: u32::MAX,
            }),
            ..U32::default()
        }],
        Match::Icmp if v6 => keys(vec![key(58 << 8, 0x0000_ff00, 4)]),
        Match::Icmp => keys(vec![key(1 << 16, 0x00ff_0000, 8)]),
        Match::Dscp(d) if v6 => keys(vec![key(u32::from(d) << 22, 0x0fc0_0000, 0)]),
        Match::Dscp(d) => keys(vec![key(u32::from(d) << 18, 0x00fc_0000, 0)]),
        Match::Port(proto, port) => [
            (u32::from(port) << 16, 0xffff_0000),
            (u32::from(port), 0x0000_ffff),
        ]
        .into_iter()
        .map(|(val, mask)| {
            let mut keys = transport(family, proto);
            keys.push(key(val, mask, ports_at(family)));
            U32 {
                keys,
                ..U32::default()
            }
        })
        .collect(),
        Match::Smaller(proto, size) => {
            // The length is below `size`, a power of two, if no bit from there on is set.
            let mask = u32::from(!(size - 1));
            let mut all = transport(family, proto);
            all.push(if v6 {
                key(0, mask << 16, 4)
            } else {
                key(0, mask, 0)
            });
            keys(all)
        }
    }
}

fn add(dev: &Dev, parent: Handle, pref: u16, protocol: Protocol, handle: u32, kind: U32) -> Op {
    let filter = Filter {
        parent,
        pref,
        protocol,
        handle,
        kind: FilterKind::U32(kind),
    };
    Op::FilterAdd {
        dev: dev.clone(),
        filter,
    }
}

/// Number of the table that spreads a tier over its buckets.
const fn spread_table(tier: Tier) -> u16 {
    1 + tier as u16
}

/// Number of the table that tells a tier's transports apart.
const fn tier_table(tier: Tier, family: Protocol) -> u16 {
    0x10 + tier as u16
        + if matches!(family, Protocol::Ipv6) {
            4
        } else {
            0
        }
}

/// A leaf's class.
fn class(side: &Side<'_>, leaf: Leaf) -> Handle {
    Handle::class(side.major, leaf.minor())
}

/// The table of a tier's buckets.
fn spread(side: &Side<'_>, tier: Tier, push: &mut dyn FnMut(u32, U32)) {
    let table = spread_table(tier);
    push(
        U32Handle::table(table).0,
        U32 {
            divisor: Some(BUCKETS.into()),
            ..U32::default()
        },
    );
    for bucket in 0..BUCKETS {
        push(
            0,
            U32 {
                ht: Some(U32Handle::bucket(table, bucket)),
                classid: Some(class(side, Leaf::Bucket(tier, bucket))),
                ..U32::default()
            },
        );
    }
}

/// The table in which TCP and UDP of a tier go to its buckets by our side's port, and all else to the
/// first.
fn tell_transports_apart(
    side: &Side<'_>,
    tier: Tier,
    family: Protocol,
    push: &mut dyn FnMut(u32, U32),
) {
    let table = tier_table(tier, family);
    let within = Some(U32Handle::bucket(table, 0));
    push(
        U32Handle::table(table).0,
        U32 {
            divisor: Some(1),
            ..U32::default()
        },
    );
    let ours = if side.ingress {
        0x0000_001e
    } else {
        0x001e_0000
    };
    for proto in [Proto::Tcp, Proto::Udp] {
        push(
            0,
            U32 {
                ht: within,
                keys: transport(family, proto),
                link: Some(U32Handle::table(spread_table(tier))),
                hashkey: Some(HashKey {
                    mask: ours,
                    at: ports_at(family) as i16,
                }),
                ..U32::default()
            },
        );
    }
    push(
        0,
        U32 {
            ht: within,
            classid: Some(class(side, Leaf::Bucket(tier, 0))),
            ..U32::default()
        },
    );
}

/// All filters of an HTB root.
pub(super) fn htb(side: &Side<'_>, buckets: bool) -> Vec<Op> {
    let root = Handle::qdisc(side.major);
    let mut ops = Vec::new();
    for (pref, family) in (1..).zip(FAMILIES) {
        let mut push =
            |handle: u32, kind| ops.push(add(&side.dev, root, pref, family, handle, kind));
        if buckets {
            for tier in Tier::ALL {
                if family == Protocol::Ip {
                    spread(side, tier, &mut push);
                }
                tell_transports_apart(side, tier, family, &mut push);
            }
        }
        let lead = |mut kind: U32, tier| {
            if buckets {
                kind.link = Some(U32Handle::table(tier_table(tier, family)));
            } else {
                kind.classid = Some(class(side, Leaf::Tier(tier)));
            }
            kind
        };
        for rule in rules(side) {
            for kind in matches(rule.when, family) {
                push(0, lead(kind, rule.tier));
            }
        }
        push(0, lead(U32::default(), Tier::BestEffort));
    }
    ops
}

/// Filters that set the priority by which CAKE picks a tin, for what it cannot see itself; and
/// then redirect, if `then` names a device. None where the kernel cannot do that.
pub(super) fn hints(side: &Side<'_>, parent: Handle, major: u16, then: Option<&str>) -> Vec<Op> {
    if !side.caps.has(Feature::Skbedit) || !side.caps.has(Feature::U32) {
        return Vec::new();
    }
    let mut ops = Vec::new();
    for family in FAMILIES {
        for rule in rules(side).into_iter().filter(|r| !r.cake_knows) {
            for mut kind in matches(rule.when, family) {
                let priority = Handle::class(major, rule.tier.cake_minor());
                kind.actions.push(Action::Skbedit { priority });
                kind.actions.extend(then.map(redirect));
                ops.push(add(&side.dev, parent, clsact_pref(family), family, 0, kind));
            }
        }
    }
    ops
}

/// One of our programs at a hook of the WAN device. It sets priorities and lets the next filter
/// decide. Whoever applies the plan has loaded it and knows its descriptor.
pub(super) fn program(wan: &Side<'_>, hook: Handle) -> Op {
    let ingress = hook == Handle::CLSACT_INGRESS;
    Op::FilterAdd {
        dev: wan.dev.clone(),
        filter: Filter {
            parent: hook,
            pref: PROGRAM_PREF,
            protocol: Protocol::All,
            handle: 1,
            kind: FilterKind::Bpf(Bpf {
                fd: -1,
                id: None,
                name: PROGRAMS[usize::from(ingress)].to_owned(),
                classid: None,
                direct_action: true,
            }),
        },
    }
}

fn redirect(dev: &str) -> Action {
    Action::Redirect { dev: dev.into() }
}

/// Sends everything that arrives on `wan` to `ifb`; for CAKE (`cake`: its major) with hints.
pub(super) fn divert(wan: &Side<'_>, ifb: &str, cake: Option<u16>) -> Vec<Op> {
    let arriving = Side {
        dev: wan.dev.clone(),
        ingress: true,
        ..*wan
    };
    let mut ops = match cake {
        Some(major) => hints(&arriving, Handle::CLSACT_INGRESS, major, Some(ifb)),
        None => Vec::new(),
    };
    let actions = vec![redirect(ifb)];
    let kind = if wan.caps.has(Feature::Matchall) {
        FilterKind::Matchall(Matchall {
            classid: None,
            actions,
        })
    } else {
        FilterKind::U32(U32 {
            actions,
            ..U32::default()
        })
    };
    ops.push(Op::FilterAdd {
        dev: wan.dev.clone(),
        filter: Filter {
            parent: Handle::CLSACT_INGRESS,
            pref: clsact_pref(Protocol::All),
            protocol: Protocol::All,
            handle: 0,
            kind,
        },
    });
    ops
}
