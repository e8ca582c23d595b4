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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Line;
    use crate::plan::tests::device;
    use crate::plan::{Capabilities, Choice, Policy, plan};
    use crate::{Framing, Rate};

    fn line() -> Line {
        Line {
            down: Rate::from_kbit(50_000),
            up: Rate::from_kbit(10_000),
            framing: Framing::default(),
        }
    }

    /// What the plan hangs on `dev` at `parent`, on a kernel without eBPF and without `lacks`.
    fn filters(choice: Choice, lacks: &[Feature], dev: &str, parent: Handle) -> Vec<Filter> {
        let mut caps = Capabilities(Feature::ALL.into());
        caps.0.remove(&Feature::Bpf);
        for feature in lacks {
            assert!(caps.0.remove(feature));
        }
        let policy = Policy {
            choice,
            ..Policy::default()
        };
        let plan = plan(&caps, &device(14), line(), policy).unwrap();
        let here = |op: Op| match op {
            Op::FilterAdd { dev: d, filter } if d == dev.into() && filter.parent == parent => {
                Some(filter)
            }
            _ => None,
        };
        plan.setup.into_iter().filter_map(here).collect()
    }

    /// An IP packet as cls_u32 sees it.
    #[derive(Clone, Copy)]
    struct Packet {
        v6: bool,
        dscp: u8,
        proto: u8,
        /// Total length of IPv4, payload length of IPv6.
        length: u16,
        ports: (u16, u16),
        fragment: u16,
        options: bool,
        mark: u32,
    }

    const PLAIN: Packet = Packet {
        v6: false,
        dscp: 0,
        proto: 6,
        length: 1400,
        ports: (40_000, 50_000),
        fragment: 0,
        options: false,
        mark: 0,
    };

    impl Packet {
        fn family(self) -> Protocol {
            if self.v6 {
                Protocol::Ipv6
            } else {
                Protocol::Ip
            }
        }

        fn bytes(self) -> Vec<u8> {
            let length = self.length.to_be_bytes();
            let mut bytes = if self.v6 {
                let first = 0x6000_0000 | u32::from(self.dscp) << 22 | 0xabcde;
                let mut head = first.to_be_bytes().to_vec();
                head.extend([length[0], length[1], self.proto, 64]);
                head.resize(40, 0x20);
                head
            } else {
                let ihl = if self.options { 6 } else { 5 };
                let mut head = vec![0x40 | ihl, self.dscp << 2, length[0], length[1], 0x12, 0x34];
                head.extend((0x4000 | self.fragment).to_be_bytes());
                head.extend([64, self.proto]);
                head.resize(20, 0x20);
                head
            };
            for port in [self.ports.0, self.ports.1] {
                bytes.extend(port.to_be_bytes());
            }
            bytes.resize(bytes.len() + 40, 0);
            bytes
        }
    }

    /// `u32_classify` (net/sched/cls_u32.c), as far as our filters use it: the first rule that holds
    /// and leads somewhere, by preference.
    fn classify(filters: &[Filter], packet: Packet) -> Option<&U32> {
        walk(filters, None, packet, &packet.bytes())
    }

    fn walk<'a>(
        filters: &'a [Filter],
        bucket: Option<U32Handle>,
        packet: Packet,
        bytes: &[u8],
    ) -> Option<&'a U32> {
        let word = |at: i32| u32::from_be_bytes(*bytes[at as usize..].first_chunk().unwrap());
        for filter in filters {
            let FilterKind::U32(rule) = &filter.kind else {
                continue;
            };
            let asked = match bucket {
                None => rule.ht.is_none() && filter.protocol == packet.family(),
                Some(_) => rule.ht == bucket,
            };
            let marked = |m: &Mark| packet.mark & m.mask == m.val;
            let holds = rule.keys.iter().all(|k| word(k.off) & k.mask == k.val)
                && rule.mark.as_ref().is_none_or(marked);
            if rule.divisor.is_some() || !asked || !holds {
                continue;
            }
            let Some(table) = rule.link else {
                return Some(rule);
            };
            let divisor = filters.iter().find_map(|f| match &f.kind {
                FilterKind::U32(u) if f.handle == table.0 => u.divisor,
                _ => None,
            });
            let hash = rule.hashkey.map_or(0, |h| {
                (word(h.at.into()) & h.mask) >> h.mask.trailing_zeros()
            });
            let below = hash & (divisor.expect("the table was made") - 1);
            let number = (table.0 >> 20) as u16;
            let next = U32Handle::bucket(number, below as u8);
            let found = walk(filters, Some(next), packet, bytes);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Packets and the tiers that the default rules say.
    fn cases() -> Vec<(Packet, Tier)> {
        use Tier::{BestEffort, Bulk, Video, Voice};
        // Protocol, DSCP, length, ports: alike in both families. Below 128 bytes of TCP and 256 of
        // UDP is small.
        let alike = [
            (6, 0, 1400, (40_000, 50_000), BestEffort),
            (17, 0, 1400, (40_000, 50_000), BestEffort),
            (47, 0, 1400, (53, 53), BestEffort),
            (6, 0, 1400, (53, 9), Voice),
            (6, 0, 1400, (9, 53), Voice),
            (17, 0, 1400, (53, 9), Voice),
            (17, 0, 1400, (9, 53), Voice),
            (6, 0, 127, (40_000, 50_000), Voice),
            (6, 0, 128, (40_000, 50_000), BestEffort),
            (17, 0, 255, (40_000, 50_000), Voice),
            (17, 0, 256, (40_000, 50_000), BestEffort),
            (6, 4, 1400, (40_000, 50_000), Voice),
            (6, 46, 1400, (40_000, 50_000), Voice),
            (6, 34, 1400, (40_000, 50_000), Video),
            (6, 8, 1400, (40_000, 50_000), Bulk),
        ];
        let of = |v6| {
            alike.map(|(proto, dscp, length, ports, tier)| {
                let packet = Packet {
                    v6,
                    dscp,
                    proto,
                    length,
                    ports,
                    ..PLAIN
                };
                (packet, tier)
            })
        };
        let mut all = [of(false), of(true)].concat();
        // ICMP's number is not ICMPv6's, nor the other way round.
        for (v6, proto, tier) in [
            (false, 1, Voice),
            (true, 58, Voice),
            (true, 1, BestEffort),
            (false, 58, BestEffort),
        ] {
            all.push((Packet { v6, proto, ..PLAIN }, tier));
        }
        // Where ports would be is something else.
        for (fragment, options) in [(185, false), (0, true)] {
            let packet = Packet {
                proto: 17,
                ports: (53, 53),
                fragment,
                options,
                ..PLAIN
            };
            all.push((packet, BestEffort));
        }
        all
    }

    const SIDES: [(&str, u16); 2] = [("wan", 0xec0), ("ek-ifb7", 0xec1)];

    #[test]
    fn packets_reach_the_class_of_their_tier() {
        for (dev, major) in SIDES {
            let all = filters(Choice::Htb, &[], dev, Handle::qdisc(major));
            for (packet, tier) in cases() {
                let class = classify(&all, packet).and_then(|r| r.classid);
                let expected = Handle::class(major, Leaf::Tier(tier).minor());
                assert_eq!(class, Some(expected), "{dev} {:x?}", packet.bytes());
            }
        }
    }

    /// Bare kernels: TCP and UDP by bits 1 to 4 of the port on our side, all else in the first bucket.
    #[test]
    fn packets_reach_a_bucket_of_their_tier() {
        for (dev, major) in SIDES {
            let all = filters(Choice::Bare, &[], dev, Handle::qdisc(major));
            for (packet, tier) in cases() {
                for port in [40_000, 40_001, 40_002, 40_031, 40_032] {
                    let mut packet = packet;
                    let ours = if major == 0xec0 {
                        &mut packet.ports.0
                    } else {
                        &mut packet.ports.1
                    };
                    if *ours != 53 {
                        *ours = port;
                    }
                    let bits = (*ours >> 1 & 0xf) as u8;
                    let has_ports =
                        matches!(packet.proto, 6 | 17) && packet.fragment == 0 && !packet.options;
                    let bucket = if has_ports { bits } else { 0 };
                    let class = classify(&all, packet).and_then(|r| r.classid);
                    let expected = Handle::class(major, Leaf::Bucket(tier, bucket).minor());
                    assert_eq!(class, Some(expected), "{dev} {:x?}", packet.bytes());
                }
            }
        }
    }

    /// The kernel refuses a link to a table that is not there, and numbers table 0 itself.
    #[test]
    fn tables_are_made_once_and_before_they_are_used() {
        for (dev, major) in SIDES {
            let mut made = Vec::new();
            for filter in filters(Choice::Bare, &[], dev, Handle::qdisc(major)) {
                let FilterKind::U32(rule) = filter.kind else {
                    continue;
                };
                if rule.divisor.is_some() {
                    assert!(filter.handle != 0 && !made.contains(&filter.handle));
                    made.push(filter.handle);
                }
                if let Some(table) = rule.link {
                    assert!(made.contains(&table.0), "{table:?}");
                }
            }
            // Four tiers, and for each the transports of both families.
            assert_eq!(made.len(), 4 + 8, "{dev}");
        }
    }

    /// Ingress comes before the packet filter that marks, and some kernels' u32 sees no marks.
    #[test]
    fn marks_count_on_the_way_out() {
        let tier = |dev: &str, major, lacks: &[Feature], mark| {
            let all = filters(Choice::Htb, lacks, dev, Handle::qdisc(major));
            let class = classify(&all, Packet { mark, ..PLAIN }).and_then(|r| r.classid);
            class.map(Handle::minor)
        };
        for (mark, minor) in [(10, 0x10), (11, 0x30), (12, 0x40), (13, 0x30)] {
            assert_eq!(tier("wan", 0xec0, &[], mark), Some(minor), "{mark}");
            assert_eq!(tier("ek-ifb7", 0xec1, &[], mark), Some(0x30));
            assert_eq!(tier("wan", 0xec0, &[Feature::U32Mark], mark), Some(0x30));
        }
        let marked = |hook| {
            let all = filters(Choice::Cake, &[], "wan", hook);
            classify(&all, Packet { mark: 10, ..PLAIN }).is_some()
        };
        assert!(marked(Handle::CLSACT_EGRESS) && !marked(Handle::CLSACT_INGRESS));
    }

    /// CAKE reads DSCP and sees small flows itself; of the rest it is told the tin.
    #[test]
    fn cake_is_told_what_it_does_not_see() {
        for (hook, major) in [
            (Handle::CLSACT_EGRESS, 0xec0),
            (Handle::CLSACT_INGRESS, 0xec1),
        ] {
            let all = filters(Choice::Cake, &[], "wan", hook);
            for (packet, tier) in cases() {
                let small = packet.length < 256;
                let knows = small || matches!(packet.dscp, 46 | 34 | 8);
                let told = (tier != Tier::BestEffort && !knows)
                    .then(|| Handle::class(major, tier.cake_minor()));
                let rule = classify(&all, packet);
                let mut actions: Vec<_> = told
                    .map(|priority| Action::Skbedit { priority })
                    .into_iter()
                    .collect();
                if told.is_some() && hook == Handle::CLSACT_INGRESS {
                    actions.push(redirect("ek-ifb7"));
                }
                let got = rule.map(|r| r.actions.clone()).unwrap_or_default();
                assert_eq!(got, actions, "{major:x} {:x?}", packet.bytes());
            }
        }
        for lacks in [Feature::Skbedit, Feature::U32] {
            let all = filters(Choice::Cake, &[lacks], "wan", Handle::CLSACT_EGRESS);
            assert_eq!(all, [], "{lacks}");
        }
    }

    /// After all else, everything that arrives goes to the IFB.
    #[test]
    fn what_arrives_is_diverted() {
        for lacks in [&[][..], &[Feature::Matchall]] {
            let all = filters(Choice::Cake, lacks, "wan", Handle::CLSACT_INGRESS);
            let last = all.last().unwrap();
            assert!(all.iter().all(|f| f.pref <= last.pref));
            assert_eq!(last.protocol, Protocol::All);
            let actions = match &last.kind {
                FilterKind::Matchall(m) if lacks.is_empty() => &m.actions,
                FilterKind::U32(u) if !lacks.is_empty() && u.keys.is_empty() => &u.actions,
                other => panic!("{other:?}"),
            };
            assert_eq!(*actions, [redirect("ek-ifb7")]);
        }
    }

    #[test]
    fn programs_stand_at_both_hooks_instead() {
        let mut caps = Capabilities(Feature::ALL.into());
        caps.0.remove(&Feature::Cake);
        let plan = plan(&caps, &device(14), line(), Policy::default()).unwrap();
        let mut hooks = Vec::new();
        for op in &plan.setup {
            let Op::FilterAdd { filter, .. } = op else {
                continue;
            };
            match &filter.kind {
                FilterKind::Bpf(bpf) => {
                    assert!(bpf.direct_action && filter.pref == PROGRAM_PREF);
                    assert_eq!(bpf.fd, -1, "not known yet");
                    hooks.push((filter.parent, bpf.name.as_str()));
                }
                FilterKind::Matchall(_) => {}
                FilterKind::U32(_) => panic!("{op}"),
            }
        }
        let expected = [
            (Handle::CLSACT_EGRESS, "ek_egress"),
            (Handle::CLSACT_INGRESS, "ek_ingress"),
        ];
        assert_eq!(hooks, expected);
    }
}
