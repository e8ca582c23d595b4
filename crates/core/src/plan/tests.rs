//! Tests of plans: what is set up, changed and removed, for each kernel and line.

use super::*;
use crate::tc::{HtbClass, LinkLayer};
use std::collections::BTreeSet;

/// The WAN device of the tests here and in `filters`.
pub(super) fn device(link_header: u16) -> Device {
    Device {
        name: "wan".into(),
        ifindex: 7,
        link_header,
        mtu: 1500,
        is_port: false,
        has_clsact: false,
        sizes: LinkSizes {
            gso: Some(65536),
            gro: Some(65536),
            gro_ipv4: Some(65536),
        },
    }
}

pub(super) fn vdsl() -> Line {
    Line {
        down: Rate::from_kbit(109_341),
        up: Rate::from_kbit(40_143),
        framing: "bridged-ptm".parse().unwrap(),
    }
}

pub(super) fn caps(backend: Backend) -> Capabilities {
    let mut all: BTreeSet<Feature> = Feature::ALL.into();
    if backend != Backend::Cake {
        all.remove(&Feature::Cake);
    }
    if backend == Backend::HtbBuckets {
        // What the smallest cloud kernels have.
        for f in [
            Feature::FqCodel,
            Feature::U32Mark,
            Feature::Matchall,
            Feature::Skbedit,
        ] {
            all.remove(&f);
        }
    }
    Capabilities(all)
}

fn classes(plan: &Plan, dev: &str) -> Vec<(u16, HtbClass)> {
    plan.setup
        .iter()
        .filter_map(|op| match op {
            Op::ClassAdd(c) if c.dev == dev.into() => Some((c.classid.minor(), c.class)),
            _ => None,
        })
        .collect()
}

#[test]
fn the_best_backend_is_taken() {
    for backend in Backend::ALL {
        let p = plan(&caps(backend), &device(14), vdsl(), Policy::default()).unwrap();
        assert_eq!(p.backend, backend);
    }
    let p = plan(
        &caps(Backend::Cake),
        &device(14),
        vdsl(),
        Policy {
            mode: Mode::Ping,
            choice: Choice::Htb,
            ingress: Ingress::Auto,
            ..Policy::default()
        },
    )
    .unwrap();
    assert_eq!(p.backend, Backend::HtbFqCodel);
}

#[test]
fn what_is_missing_is_named() {
    for (feature, name) in [
        (Feature::Clsact, "clsact"),
        (Feature::Htb, "HTB"),
        (Feature::Mirred, "mirred"),
    ] {
        let mut caps = caps(Backend::HtbBuckets);
        caps.0.remove(&feature);
        let e = plan(&caps, &device(14), vdsl(), Policy::default())
            .unwrap_err()
            .to_string();
        assert!(e.contains(name) && e.contains(feature.config()), "{e}");
    }
    let e = plan(
        &caps(Backend::HtbBuckets),
        &device(14),
        vdsl(),
        Policy {
            mode: Mode::Ping,
            choice: Choice::Cake,
            ingress: Ingress::Auto,
            ..Policy::default()
        },
    )
    .unwrap_err();
    assert!(e.to_string().contains("CAKE"), "{e}");
}

#[test]
fn every_feature_has_a_configuration_option() {
    let all: BTreeSet<_> = Feature::ALL.iter().map(|f| f.config()).collect();
    assert_eq!(all.len(), Feature::ALL.len());
    assert!(all.iter().all(|c| c.starts_with("CONFIG_")), "{all:?}");
}

#[test]
fn no_handle_is_given_twice() {
    for backend in Backend::ALL {
        let p = plan(&caps(backend), &device(14), vdsl(), Policy::default()).unwrap();
        let mut seen = BTreeSet::new();
        for op in &p.setup {
            match op {
                Op::QdiscAdd(q) | Op::QdiscReplace(q) => {
                    assert!(seen.insert((q.dev.to_string(), q.handle)), "{op}");
                }
                Op::ClassAdd(c) => assert!(seen.insert((c.dev.to_string(), c.classid)), "{op}"),
                _ => {}
            }
        }
    }
}

#[test]
fn guaranteed_shares_do_not_exceed_the_rate() {
    for backend in [Backend::HtbFqCodel, Backend::HtbBuckets] {
        for kbit in [64, 384, 1171, 40_143, 900_000] {
            let line = Line {
                up: Rate::from_kbit(kbit),
                ..vdsl()
            };
            let p = plan(&caps(backend), &device(14), line, Policy::default()).unwrap();
            let classes = classes(&p, "wan");
            let (_, root) = classes.iter().find(|(minor, _)| *minor == 1).unwrap();
            let tiers: u64 = classes
                .iter()
                .filter(|(m, _)| (0x10..=0x40).contains(m))
                .map(|(_, c)| c.rate.bps())
                .sum();
            assert!(tiers <= root.rate.bps() && tiers + 8 > root.rate.bps());
            assert!(classes.iter().all(|(_, c)| c.quantum == Some(1514)));
        }
    }
}

#[test]
fn ack_filter_only_from_us_and_only_if_very_asymmetric() {
    let count = |line| {
        let p = plan(&caps(Backend::Cake), &device(14), line, Policy::default()).unwrap();
        p.setup
            .iter()
            .filter(|op| op.to_string().contains(" ack-filter"))
            .count()
    };
    assert_eq!(count(vdsl()), 0);
    let cable = Line {
        down: Rate::from_kbit(250_000),
        up: Rate::from_kbit(20_000),
        ..vdsl()
    };
    assert_eq!(count(cable), 1);
}

#[test]
fn super_packets_are_bounded_to_a_millisecond_but_not_below_two_frames() {
    let sizes = LinkSizes {
        gso: Some(65536),
        gro: Some(65536),
        gro_ipv4: None,
    };
    let b = sizes.bounded(Rate::from_kbit(40_000), Rate::from_kbit(2_000_000), 1514);
    assert_eq!(
        b,
        LinkSizes {
            gso: Some(5000),
            gro: Some(65536),
            gro_ipv4: None
        }
    );
    let b = sizes.bounded(Rate::from_kbit(400), Rate::from_kbit(400), 1514);
    assert_eq!(b.gso, Some(3028));
}

/// What HTB charges (`psched_l2t_ns`), in wire bytes after the rate was scaled.
fn htb_charges(framing: Framing, link_header: u16, ip: u32) -> f64 {
    let (link, (n, d)) = htb_link(framing, link_header);
    let len = (ip + u32::from(link_header) + u32::from(link.overhead)).max(u32::from(link.mpu));
    let len = if link.layer == LinkLayer::Atm {
        len.div_ceil(48) * 53
    } else {
        len
    };
    f64::from(len) * d as f64 / n as f64
}

#[test]
fn htb_charges_what_the_line_takes() {
    use crate::framing::{Mode, PRESETS};
    for header in [0, 14] {
        for (name, framing) in PRESETS {
            for ip in 20..=1500 {
                let (line, htb) = (
                    f64::from(framing.wire_len(ip)),
                    htb_charges(framing, header, ip),
                );
                let at_most = match framing.mode {
                    // The byte added for 64b/65b, itself stretched.
                    Mode::Ptm => 65.0 / 64.0 * 2.0,
                    // An overhead below the device's own header counts as none: a cell at worst.
                    _ if framing.overhead < header as i16 => 53.0,
                    _ => 0.0,
                };
                assert!(
                    htb >= line - 1e-9 && htb <= line + at_most,
                    "{name} {header} {ip}: {htb} {line}"
                );
            }
        }
    }
}

#[test]
fn framing_is_assumed_on_the_safe_side() {
    let adsl = Line::assume_framing(Rate::from_kbit(21_181), Rate::from_kbit(1171));
    let vdsl = Line::assume_framing(Rate::from_kbit(109_341), Rate::from_kbit(40_143));
    let ethernet: Framing = "ethernet".parse().unwrap();
    let llcsnap: Framing = "pppoe-llcsnap".parse().unwrap();
    assert!(adsl.wire_len(1500) >= llcsnap.wire_len(1500));
    assert!(vdsl.wire_len(1500) >= ethernet.wire_len(1500));
}

#[test]
fn removal_touches_only_what_is_ours() {
    let text = |made| {
        removal("wan", "ek-ifb7", made, LinkSizes::default())
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(text(true).contains("tc qdisc del dev wan clsact"));
    assert!(!text(false).contains("clsact"));
    assert!(text(false).contains("tc qdisc del dev wan root handle ec0:"));
}

#[test]
fn policing_needs_no_ifb() {
    let police = Ingress::Police { mark: 20 };
    for (ingress, lacks, policed) in [
        (Ingress::Auto, None, Some(false)),
        (Ingress::Ifb, None, Some(false)),
        (police, None, Some(true)),
        (Ingress::Auto, Some(Feature::Ifb), Some(true)),
        (Ingress::Ifb, Some(Feature::Ifb), None),
        (police, Some(Feature::Mirred), Some(true)),
        (police, Some(Feature::Bpf), None),
    ] {
        for backend in Backend::ALL {
            let mut caps = caps(backend);
            if let Some(feature) = lacks {
                caps.0.remove(&feature);
            }
            let p = plan(
                &caps,
                &device(14),
                vdsl(),
                Policy {
                    mode: Mode::Ping,
                    choice: Choice::Auto,
                    ingress,
                    ..Policy::default()
                },
            );
            match policed {
                None => {
                    let e = p.unwrap_err().to_string();
                    assert!(e.contains(lacks.unwrap().config()), "{e}");
                }
                Some(policed) => {
                    let p = p.unwrap();
                    let ops = p.setup.iter().chain(&p.update);
                    let text: Vec<_> = ops.map(ToString::to_string).collect();
                    let text = text.join("\n");
                    assert_eq!(p.policer.is_some(), policed);
                    assert_eq!(text.contains("ek-ifb7"), !policed, "{text}");
                    assert_eq!(p.ingress == vdsl().down, policed);
                }
            }
        }
    }
}

#[test]
fn only_cake_counts_more_and_not_on_a_port() {
    let of = |backend, is_port, line: Line, mode| {
        let device = Device {
            is_port,
            ..device(14)
        };
        let policy = Policy {
            mode,
            windows: true,
            ..Policy::default()
        };
        let p = plan(&caps(backend), &device, line, policy).unwrap();
        p.surcharge
    };
    let slow = Line {
        down: Rate::from_kbit(2304),
        ..vdsl()
    };
    assert_eq!(of(Backend::Cake, false, vdsl(), Mode::Ping), 484);
    assert_eq!(of(Backend::Cake, false, slow, Mode::Ping), 660);
    for backend in [Backend::HtbFqCodel, Backend::HtbBuckets] {
        assert_eq!(of(backend, false, vdsl(), Mode::Ping), 0);
    }
    assert_eq!(of(Backend::Cake, true, vdsl(), Mode::Ping), 0);
    assert_eq!(of(Backend::Cake, false, vdsl(), Mode::Bandwidth), 0);
}

/// Super-packets are bounded while we shape, and as before afterwards.
#[test]
fn sizes_are_set_with_the_rates_and_given_back() {
    let set = |ops: &[Op]| {
        let set: Vec<_> = ops
            .iter()
            .filter_map(|op| match op {
                Op::LinkSet { name, settings } if name == "wan" => Some(settings),
                _ => None,
            })
            .collect();
        assert_eq!(set.len(), 1);
        let s = &set[0];
        (s.gso_max_size, s.gro_max_size, s.gro_ipv4_max_size)
    };
    let line = Line {
        down: Rate::from_kbit(40_000),
        up: Rate::from_kbit(400),
        ..vdsl()
    };
    let mut device = device(14);
    device.sizes.gro_ipv4 = Some(3200);
    let p = plan(&caps(Backend::Cake), &device, line, Policy::default()).unwrap();
    // Two frames of 1514; 96 % of 40 Mbit/s for 1 ms; what it was.
    let bounded = (Some(3028), Some(4800), Some(3200));
    assert_eq!((set(&p.setup), set(&p.update)), (bounded, bounded));
    let removed = removal("wan", "ek-ifb7", true, device.sizes);
    assert_eq!(set(&removed), (Some(65536), Some(65536), Some(3200)));
}

#[test]
fn a_kernel_without_matchall_needs_u32_for_downloads() {
    let without = |features: &[Feature]| {
        let mut caps = caps(Backend::Cake);
        for feature in features {
            assert!(caps.0.remove(feature));
        }
        plan(&caps, &device(14), vdsl(), Policy::default())
    };
    assert_eq!(
        without(&[Feature::Matchall]).unwrap().backend,
        Backend::Cake
    );
    assert_eq!(without(&[Feature::U32]).unwrap().backend, Backend::Cake);
    let e = without(&[Feature::Matchall, Feature::U32]).unwrap_err();
    assert!(e.to_string().contains("CONFIG_NET_CLS_U32"), "{e}");
}

/// What `--dry-run` prints.
fn printed(caps: &Capabilities, device: &Device, policy: Policy) -> String {
    let line = Line {
        down: Rate::from_kbit(50_000),
        up: Rate::from_kbit(2000),
        ..vdsl()
    };
    let p = plan(caps, device, line, policy).unwrap();
    let lines = |ops: &[Op]| {
        ops.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    format!("{}\nthen\n{}\n", lines(&p.setup), lines(&p.update))
}

#[test]
fn cake_as_printed() {
    let expected = "\
ip link add ek-ifb7 type ifb
tc qdisc replace dev ek-ifb7 root handle ec1: cake bandwidth 48mbit diffserv4 dual-dsthost nat nowash ingress no-ack-filter split-gso ptm overhead 22 mpu 0
tc qdisc replace dev wan root handle ec0: cake bandwidth 1990kbit diffserv4 dual-srchost nat nowash egress ack-filter-aggressive split-gso ptm overhead 22 mpu 0
ip link set dev wan gso_max_size 3028 gro_max_size 6000 gro_ipv4_max_size 6000
ip link set dev ek-ifb7 up
tc qdisc add dev wan clsact
tc filter add dev wan parent ffff:fff3 protocol all pref 60416 handle 0x1 bpf direct-action object-pinned \"ek_egress\"
tc filter add dev wan parent ffff:fff2 protocol all pref 60416 handle 0x1 bpf direct-action object-pinned \"ek_ingress\"
tc filter add dev wan parent ffff:fff2 protocol all pref 60419 matchall action mirred egress redirect dev ek-ifb7
then
tc qdisc change dev ek-ifb7 root handle ec1: cake bandwidth 48mbit diffserv4 dual-dsthost nat nowash ingress no-ack-filter split-gso ptm overhead 22 mpu 0
tc qdisc change dev wan root handle ec0: cake bandwidth 1990kbit diffserv4 dual-srchost nat nowash egress ack-filter-aggressive split-gso ptm overhead 22 mpu 0
ip link set dev wan gso_max_size 3028 gro_max_size 6000 gro_ipv4_max_size 6000
";
    let caps = caps(Backend::Cake);
    let policy = Policy::default();
    assert_eq!(printed(&caps, &device(14), policy.clone()), expected);
    // Somebody else's clsact is used.
    let device = Device {
        has_clsact: true,
        ..device(14)
    };
    let without = expected.replace("tc qdisc add dev wan clsact\n", "");
    assert_eq!(printed(&caps, &device, policy), without);
}

/// 64b/65b is 1/65 of the rate: 64/65 of 1990 kbit/s, of which tiers have 25, 25, 40 and 10 %.
#[test]
fn htb_as_printed() {
    let all = printed(&caps(Backend::HtbFqCodel), &device(14), Policy::default());
    let expected = "\
tc qdisc replace dev wan root handle ec0: htb default 0x30
tc class add dev wan parent ec0: classid ec0:1 htb rate 1959384bit ceil 1959384bit burst 3028 cburst 3028 overhead 9 quantum 1514
tc class add dev wan parent ec0:1 classid ec0:10 htb rate 489846bit ceil 1959384bit burst 3028 cburst 3028 overhead 9 quantum 1514 prio 0
tc class add dev wan parent ec0:1 classid ec0:30 htb rate 783753bit ceil 1959384bit burst 3028 cburst 3028 overhead 9 quantum 1514 prio 2
tc class add dev wan parent ec0:1 classid ec0:40 htb rate 195938bit ceil 1959384bit burst 3028 cburst 3028 overhead 9 quantum 1514 prio 3
tc qdisc add dev wan parent ec0:10 handle e010: tbf rate 400gbit burst 1522 limit 12112
tc qdisc add dev wan parent e010:1 handle f010: fq_codel quantum 300 target 9129us interval 104129us ecn
tc qdisc add dev wan parent ec0:30 handle e030: tbf rate 400gbit burst 1522 limit 12112
tc qdisc add dev wan parent e030:1 handle f030: fq_codel quantum 300 target 9129us interval 104129us ecn
tc class change dev wan parent ec0:1 classid ec0:30 htb rate 783753bit ceil 1959384bit burst 3028 cburst 3028 overhead 9 quantum 1514 prio 2
tc qdisc change dev wan parent e030:1 handle f030: fq_codel quantum 300 target 9129us interval 104129us ecn
tc qdisc add dev ek-ifb7 parent e010:1 handle f010: fq_codel quantum 1464 target 5ms interval 100ms ecn
tc class add dev ek-ifb7 parent ec1: classid ec1:1 htb rate 47261538bit ceil 47261538bit burst 5907 cburst 5907 overhead 9 quantum 1514
";
    for line in expected.lines() {
        assert!(all.lines().any(|l| l == line), "{line}\nin\n{all}");
    }
    // Two jumbo frames are more than a millisecond.
    let jumbo = Device {
        mtu: 9000,
        ..device(14)
    };
    let jumbo = printed(&caps(Backend::HtbFqCodel), &jumbo, Policy::default());
    assert!(jumbo.contains(" burst 18028 cburst 18028 overhead 9 quantum 9014\n"));
    // A splitting TBF stays as it is.
    assert!(!all.contains("qdisc change dev wan parent ec0:"));
    assert!(!all.contains(" u32 "), "the programs do it");
}

#[test]
fn buckets_as_printed() {
    let mut caps = caps(Backend::HtbBuckets);
    let all = printed(&caps, &device(14), Policy::default());
    for line in [
        // 16 for heavy flows, and behind them 4 for light ones, of which the last has the rest.
        "tc qdisc replace dev wan root handle ec0: htb default 0x313",
        "tc class add dev wan parent ec0:20 classid ec0:20f htb rate 8kbit ceil 400gbit burst 1 cburst 1048576 overhead 9 quantum 1514 prio 3",
        "tc class add dev wan parent ec0:20 classid ec0:210 htb rate 8kbit ceil 400gbit burst 1 cburst 1048576 overhead 9 quantum 1514 prio 2",
        "tc class add dev wan parent ec0:40 classid ec0:413 htb rate 8kbit ceil 400gbit burst 1 cburst 1048576 overhead 9 quantum 1514 prio 6",
        // 40 ms from us are less than eight frames; 10 ms towards us are not.
        "tc qdisc add dev wan parent ec0:20f handle e20f: tbf rate 400gbit burst 1522 limit 12112",
        "tc qdisc add dev ek-ifb7 parent ec1:413 handle e413: tbf rate 400gbit burst 1522 limit 60000",
        "tc qdisc change dev ek-ifb7 parent ec1:413 handle e413: tbf rate 400gbit burst 1522 limit 60000",
    ] {
        assert!(all.lines().any(|l| l == line), "{line}\nin\n{all}");
    }
    // Without programs a tier's flows are spread alike.
    caps.0.remove(&Feature::Bpf);
    let all = printed(&caps, &device(14), Policy::default());
    for line in [
        "tc qdisc replace dev wan root handle ec0: htb default 0x30f",
        "tc class add dev wan parent ec0:20 classid ec0:20f htb rate 8kbit ceil 400gbit burst 1 cburst 1048576 overhead 9 quantum 1514 prio 1",
    ] {
        assert!(all.lines().any(|l| l == line), "{line}\nin\n{all}");
    }
    assert!(!all.contains("classid ec0:210"));
}

#[test]
fn our_handles_are_known_again() {
    use crate::classify::Tier;
    assert_eq!(Tier::ALL.map(tier_minor), [0x10, 0x20, 0x30, 0x40]);
    let leaves = |tier| {
        (0..=u16::MAX)
            .filter(|major| is_leaf_of(Handle::qdisc(*major), tier))
            .collect::<Vec<_>>()
    };
    // Those below ceilings, its own TBF, and those of its 20 buckets.
    let ceilings = (1..=0xff).map(|n| 0xd000 + 8 * n + 2);
    let own = [0xe020].into_iter().chain(0xe200..0xe214);
    let video: Vec<u16> = ceilings.chain(own).collect();
    assert_eq!(leaves(Tier::Video), video);
    let ours: Vec<_> = (0..=u16::MAX).filter(|p| is_our_pref(*p)).collect();
    // The programs, IPv4, IPv6, and everything.
    assert_eq!(ours, [0xec00, 0xec01, 0xec02, 0xec03]);
    // Where somebody else has filters too, ours are taken away one by one.
    let removed = removal("wan", "ek-ifb7", false, LinkSizes::default());
    let prefs: Vec<_> = removed
        .iter()
        .filter_map(|op| match op {
            Op::FilterDel { key, .. } => Some((key.pref, key.protocol)),
            _ => None,
        })
        .collect();
    let all = Some(Protocol::All);
    let (four, six) = (Some(Protocol::Ip), Some(Protocol::Ipv6));
    let hook = [(0xec00, all), (0xec01, four), (0xec02, six), (0xec03, all)];
    assert_eq!(prefs, [hook, hook].concat());
}

#[test]
fn words_of_the_command_line() {
    let choices = ["auto", "cake", "htb", "bare"].map(|w| w.parse::<Choice>().unwrap());
    assert_eq!(
        choices,
        [Choice::Auto, Choice::Cake, Choice::Htb, Choice::Bare]
    );
    assert!(
        "CAKE"
            .parse::<Choice>()
            .unwrap_err()
            .contains("auto, cake, htb, bare")
    );
    for mode in [Mode::Ping, Mode::Bandwidth] {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    assert!("fast".parse::<Mode>().is_err());
    let names = Backend::ALL.map(|b| b.to_string());
    let known = ["CAKE", "HTB with fq_codel", "HTB with hash buckets"];
    assert_eq!(names, known);
}

/// A minimum of the line counts the byte that 64b/65b may add.
#[test]
fn htb_keeps_a_minimum() {
    for (text, mpu) in [("none:18:mpu64", 64), ("ptm:18:mpu64", 65), ("ptm:18", 0)] {
        let (link, _) = htb_link(text.parse().unwrap(), 14);
        assert_eq!(link.mpu, mpu, "{text}");
    }
}

#[test]
fn ceilings_are_classes_beside_the_tiers() {
    use crate::rules::{FlowRule, limits};
    let rules = [
        "host tv max 4mbit/1mbit",
        "bulk max 20%",
        "voice program zoom min 50%",
    ];
    let rules: Vec<FlowRule> = rules.iter().map(|r| r.parse().unwrap()).collect();
    let line = Line {
        down: Rate::from_kbit(50_000),
        up: Rate::from_kbit(10_000),
        framing: Framing::default(),
    };
    let mut policy = Policy {
        limits: limits(&rules),
        ..Policy::default()
    };
    // CAKE is the best there is, and has none.
    let caps = Capabilities(Feature::ALL.into());
    let all = plan(&caps, &device(14), line, policy.clone()).unwrap();
    assert_eq!(all.backend, Backend::HtbFqCodel);
    let class = |dev: &str, minor: u16| {
        let mut found = all.setup.iter().filter_map(|op| match op {
            Op::ClassAdd(c) if c.dev == dev.into() && c.classid.minor() == minor => Some(c.class),
            _ => None,
        });
        found.next().unwrap()
    };
    let (wan, ifb) = (device(14).name, all.ifb.clone());
    assert_eq!(class(&wan, ceiling_minor(1)).ceil, Rate::from_kbit(1000));
    assert_eq!(class(&ifb, ceiling_minor(1)).ceil, Rate::from_kbit(4000));
    assert_eq!(class(&wan, ceiling_minor(2)).ceil, all.egress.permille(200));
    assert_eq!(class(&wan, ceiling_minor(3)).rate, all.egress.permille(500));
    // All that is guaranteed is no more than there is.
    let root = class(&wan, 1).rate.bps();
    let minors = crate::classify::Tier::ALL.map(tier_minor).into_iter();
    let sum: u64 = minors
        .chain((1..=3).map(ceiling_minor))
        .map(|minor| class(&wan, minor).rate.bps())
        .sum();
    assert!(sum <= root && sum > root / 100 * 99, "{sum} {root}");
    // Handles are unique.
    let mut handles: Vec<_> = all
        .setup
        .iter()
        .filter_map(|op| match op {
            Op::QdiscAdd(q) => Some(format!("{:?} {}", q.dev, q.handle)),
            _ => None,
        })
        .collect();
    let count = handles.len();
    handles.sort();
    handles.dedup();
    assert_eq!(handles.len(), count);
    // Of three that are wanted one stands.
    let further = all.further_limits(1).count();
    assert_eq!(further, 2 * 2 * (1 + 4 + 4 + 4));
    assert_eq!(all.further_limits(3).count(), 0);
    policy.choice = Choice::Cake;
    let refused = plan(&caps, &device(14), line, policy).unwrap_err();
    assert!(refused.to_string().contains("--backend htb"), "{refused}");
}
