//! Which tier a flow is in: every kind of rule, their order, and what changes while it runs.

use std::net::{IpAddr, Ipv6Addr};

use evenkeel_core::classify::Tier;
use evenkeel_datapath::values::{End, PriorityMode, Reason, Rule};

use crate::bench::{ACK, Bench, TCP, THEM, UDP, US, down4, tcp, them6, udp, up4, us6, v4, v6};

#[test]
fn each_kind_of_rule() {
    let prefix = |a: &str, n: u8| -> (Ipv6Addr, u8) {
        match a.parse().unwrap() {
            IpAddr::V4(a) => (a.to_ipv6_mapped(), 96 + n),
            IpAddr::V6(a) => (a, n),
        }
    };
    let rule = Rule {
        tier: 3,
        ..Rule::default()
    };
    let yes4 = v4(US, THEM, UDP, 46, 0, &udp(4000, 5060, 300));
    let yes6 = v6(us6(), them6(), UDP, 46, &udp(4000, 5060, 300));
    for (what, rule, packet, holds) in [
        ("nothing asked", rule, &yes4, true),
        (
            "protocol",
            Rule {
                proto: Some(UDP),
                ..rule
            },
            &yes4,
            true,
        ),
        (
            "protocol",
            Rule {
                proto: Some(TCP),
                ..rule
            },
            &yes4,
            false,
        ),
        (
            "DSCP",
            Rule {
                dscp: Some(46),
                ..rule
            },
            &yes4,
            true,
        ),
        (
            "DSCP",
            Rule {
                dscp: Some(46),
                ..rule
            },
            &yes6,
            true,
        ),
        (
            "DSCP",
            Rule {
                dscp: Some(45),
                ..rule
            },
            &yes6,
            false,
        ),
        (
            "mark",
            Rule {
                mark: Some((0x12, 0xff)),
                ..rule
            },
            &yes4,
            true,
        ),
        (
            "mark",
            Rule {
                mark: Some((0x12, 0xffff)),
                ..rule
            },
            &yes4,
            false,
        ),
        (
            "remote port",
            Rule {
                ports: Some((End::Remote, 5060, 5061)),
                ..rule
            },
            &yes4,
            true,
        ),
        (
            "remote port",
            Rule {
                ports: Some((End::Remote, 5061, 65535)),
                ..rule
            },
            &yes4,
            false,
        ),
        (
            "local port",
            Rule {
                ports: Some((End::Local, 0, 4000)),
                ..rule
            },
            &yes6,
            true,
        ),
        (
            "local port",
            Rule {
                ports: Some((End::Local, 5060, 5060)),
                ..rule
            },
            &yes6,
            false,
        ),
        (
            "any port",
            Rule {
                ports: Some((End::Any, 5060, 5060)),
                ..rule
            },
            &yes6,
            true,
        ),
        (
            "any port",
            Rule {
                ports: Some((End::Any, 4000, 4000)),
                ..rule
            },
            &yes4,
            true,
        ),
        (
            "any port",
            Rule {
                ports: Some((End::Any, 53, 53)),
                ..rule
            },
            &yes4,
            false,
        ),
        (
            "remote",
            Rule {
                remote: Some(prefix("198.51.100.0", 24)),
                ..rule
            },
            &yes4,
            true,
        ),
        (
            "remote",
            Rule {
                remote: Some(prefix("198.51.101.0", 24)),
                ..rule
            },
            &yes4,
            false,
        ),
        (
            "remote",
            Rule {
                remote: Some(prefix("0.0.0.0", 0)),
                ..rule
            },
            &yes4,
            true,
        ),
        (
            "remote",
            Rule {
                remote: Some(prefix("0.0.0.0", 0)),
                ..rule
            },
            &yes6,
            false,
        ),
        (
            "remote",
            Rule {
                remote: Some(prefix("2001:db8:1::", 48)),
                ..rule
            },
            &yes6,
            true,
        ),
        (
            "remote",
            Rule {
                remote: Some(prefix("2001:db8:2::", 48)),
                ..rule
            },
            &yes6,
            false,
        ),
        (
            "local",
            Rule {
                local: Some(prefix("192.0.2.2", 32)),
                ..rule
            },
            &yes4,
            true,
        ),
        (
            "local",
            Rule {
                local: Some(prefix("192.0.2.3", 32)),
                ..rule
            },
            &yes4,
            false,
        ),
        (
            "two conditions",
            Rule {
                proto: Some(UDP),
                dscp: Some(1),
                ..rule
            },
            &yes4,
            false,
        ),
    ] {
        let b = Bench::with_rules(0, PriorityMode::TierClass, &[rule]);
        b.run("ek_egress", packet, 0x112, 1);
        let (_, flow) = b.maps.flows().unwrap()[0];
        let found = (flow.tier, flow.reason);
        let expected = if holds {
            (Tier::Bulk, Reason::Rule(0))
        } else {
            (Tier::BestEffort, Reason::Default)
        };
        assert_eq!(found, expected, "{what}: {rule:?}");
    }
}

#[test]
fn the_first_rule_wins_and_replies_inherit() {
    let rules = [
        Rule {
            tier: 1,
            ports: Some((End::Remote, 443, 443)),
            ..Rule::default()
        },
        Rule {
            tier: 3,
            proto: Some(TCP),
            ..Rule::default()
        },
    ];
    let b = Bench::with_rules(0, PriorityMode::TierClass, &rules);
    let data = |from, to| tcp(from, to, ACK, &[], 1000);
    assert_eq!(b.up(&up4(&data(9000, 443), TCP)).priority, 0xec0_0020);
    assert_eq!(b.down(&down4(&data(443, 9000), TCP)).priority, 0xec1_0020);
    assert_eq!(b.up(&up4(&data(9000, 80), TCP)).priority, 0xec0_0040);
    // The far side's own marking does not move it.
    let marked = v4(THEM, US, TCP, 46, 0, &data(80, 9000));
    assert_eq!(b.down(&marked).priority, 0xec1_0040);
}

#[test]
fn marks_dscp_and_new_rules_move_a_flow_while_it_runs() {
    let voice = Rule {
        tier: 0,
        dscp: Some(46),
        ..Rule::default()
    };
    let bulk = Rule {
        tier: 3,
        mark: Some((12, u32::MAX)),
        ..Rule::default()
    };
    let mut b = Bench::with_rules(0, PriorityMode::TierClass, &[bulk, voice]);
    let packet = |dscp| v4(US, THEM, TCP, dscp, 0, &tcp(1, 2, ACK, &[], 900));
    let priority = |b: &Bench, dscp, mark| b.run("ek_egress", &packet(dscp), mark, 1).priority;
    assert_eq!(priority(&b, 0, 0), 0xec0_0030);
    assert_eq!(priority(&b, 46, 0), 0xec0_0010);
    assert_eq!(priority(&b, 46, 12), 0xec0_0040);
    assert_eq!(priority(&b, 0, 0), 0xec0_0030);
    let video = Rule {
        tier: 1,
        ..Rule::default()
    };
    b.maps.set_rules(&[video]).unwrap();
    assert_eq!(priority(&b, 0, 0), 0xec0_0020, "without a new flow");
    b.maps.set_rules(&[]).unwrap();
    assert_eq!(priority(&b, 0, 0), 0xec0_0030);
    assert!(b.maps.set_rules(&[video; 129]).is_err());
    assert_eq!(priority(&b, 0, 0), 0xec0_0030, "refused whole");
    assert_eq!(b.maps.flows().unwrap().len(), 1);
}
