//! The programs in this kernel, on literal packets (`BPF_PROG_TEST_RUN`): every path of the
//! parser, every kind of rule, round trips, behaviour.
//!
//! Principles: a packet is built byte by byte beside the test that needs it; what is expected is
//! read from the flow table and from `skb->priority`. They need root and a kernel with eBPF.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use evenkeel_core::classify::Tier;
use evenkeel_datapath::layout::{End, Flow, Hand, Key, Rule, Side, Why};
use evenkeel_datapath::{Maps, Programs};

const US: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const THEM: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const TCP: u8 = 6;
const UDP: u8 = 17;
const ACK: u8 = 0x10;
const SYN: u8 = 0x02;

/// `TC_ACT_UNSPEC`: the next filter decides.
const NEXT: u32 = u32::MAX;

struct Bench {
    programs: Programs,
    maps: Maps,
}

/// What became of a packet.
struct After {
    priority: u32,
}

impl Bench {
    fn new(link_header: u16, hand: Hand) -> Self {
        let mut programs = Programs::load(link_header).unwrap_or_else(|e| panic!("{e}"));
        let mut maps = programs.maps().unwrap();
        let side = Side {
            hand,
            major: 0xec0,
            longest: None,
        };
        maps.set_sides([
            side,
            Side {
                major: 0xec1,
                ..side
            },
        ])
        .unwrap();
        Bench { programs, maps }
    }

    fn with_rules(link_header: u16, hand: Hand, rules: &[Rule]) -> Self {
        let mut bench = Bench::new(link_header, hand);
        bench.maps.set_rules(rules).unwrap();
        bench
    }

    fn run(&self, program: &str, packet: &[u8], mark: u32, segments: u32) -> After {
        self.try_run(program, packet, mark, segments)
            .unwrap_or_else(|e| panic!("{program}: {e}"))
    }

    /// The kernel refuses to make a packet of what is shorter than its headers say.
    fn try_run(
        &self,
        program: &str,
        packet: &[u8],
        mark: u32,
        segments: u32,
    ) -> Result<After, evenkeel_datapath::Error> {
        // struct __sk_buff: mark at 8, priority at 32, gso_segs at 164, gso_size at 176.
        let mut context = [0u8; 192];
        context[8..12].copy_from_slice(&mark.to_ne_bytes());
        if segments > 1 {
            context[164..168].copy_from_slice(&segments.to_ne_bytes());
            context[176..180].copy_from_slice(&1448u32.to_ne_bytes());
        }
        let (returned, after, _) = self.programs.test_run(program, packet, &context, 1)?;
        assert_eq!(returned, NEXT, "{program} never decides");
        Ok(After {
            priority: u32::from_ne_bytes(after[32..36].try_into().unwrap()),
        })
    }

    fn up(&self, packet: &[u8]) -> After {
        self.run("ek_egress", packet, 0, 1)
    }

    fn down(&self, packet: &[u8]) -> After {
        self.run("ek_ingress", packet, 0, 1)
    }

    fn flow(&self, key: Key) -> Flow {
        self.maps
            .flow(key)
            .unwrap_or_else(|| panic!("{key:?} is not among {:?}", self.maps.flows().unwrap()))
    }
}

fn key(proto: u8, local_port: u16, remote_port: u16) -> Key {
    Key {
        local: US.into(),
        remote: THEM.into(),
        local_port,
        remote_port,
        proto,
    }
}

fn key6(proto: u8, local_port: u16, remote_port: u16) -> Key {
    Key {
        local: us6().into(),
        remote: them6().into(),
        local_port,
        remote_port,
        proto,
    }
}

fn us6() -> Ipv6Addr {
    "2001:db8::2".parse().unwrap()
}

fn them6() -> Ipv6Addr {
    "2001:db8:1::9".parse().unwrap()
}

/// An IPv4 packet; `fragment` is the field with flags and offset.
fn v4(from: Ipv4Addr, to: Ipv4Addr, proto: u8, dscp: u8, fragment: u16, body: &[u8]) -> Vec<u8> {
    let length = (20 + body.len()) as u16;
    let mut p = vec![0x45, dscp << 2];
    p.extend(length.to_be_bytes());
    p.extend([0x12, 0x34]);
    p.extend(fragment.to_be_bytes());
    p.extend([64, proto, 0, 0]);
    p.extend(from.octets());
    p.extend(to.octets());
    p.extend(body);
    p
}

fn v6(from: Ipv6Addr, to: Ipv6Addr, next: u8, dscp: u8, body: &[u8]) -> Vec<u8> {
    let mut p = vec![0x60 | dscp >> 2, dscp << 6, 0, 0];
    p.extend((body.len() as u16).to_be_bytes());
    p.extend([next, 64]);
    p.extend(from.octets());
    p.extend(to.octets());
    p.extend(body);
    p
}

fn ethernet(proto: u16, body: &[u8]) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    p.extend(proto.to_be_bytes());
    p.extend(body);
    p
}

fn udp(from: u16, to: u16, payload: usize) -> Vec<u8> {
    let mut p = Vec::new();
    p.extend(from.to_be_bytes());
    p.extend(to.to_be_bytes());
    p.extend(((8 + payload) as u16).to_be_bytes());
    p.extend([0, 0]);
    p.resize(8 + payload, 0xaa);
    p
}

fn tcp(from: u16, to: u16, flags: u8, options: &[u8], payload: usize) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0);
    let mut p = Vec::new();
    p.extend(from.to_be_bytes());
    p.extend(to.to_be_bytes());
    p.extend([0; 8]);
    p.push(((20 + options.len()) as u8 / 4) << 4);
    p.push(flags);
    p.extend([1, 0, 0, 0, 0, 0]);
    p.extend(options);
    p.resize(p.len() + payload, 0xaa);
    p
}

/// NOP NOP TIMESTAMPS.
fn stamps(value: u32, echo: u32) -> Vec<u8> {
    let mut o = vec![1, 1, 8, 10];
    o.extend(value.to_be_bytes());
    o.extend(echo.to_be_bytes());
    o
}

fn up4(body: &[u8], proto: u8) -> Vec<u8> {
    v4(US, THEM, proto, 0, 0, body)
}

fn down4(body: &[u8], proto: u8) -> Vec<u8> {
    v4(THEM, US, proto, 0, 0, body)
}

#[test]
fn both_directions_are_one_flow() {
    let b = Bench::new(0, Hand::Nothing);
    b.up(&up4(&udp(4000, 53, 30), UDP));
    b.down(&down4(&udp(53, 4000, 100), UDP));
    let flow = b.flow(key(UDP, 4000, 53));
    assert_eq!((flow.ways[0].bytes, flow.ways[1].bytes), (58, 128));
    assert_eq!((flow.ways[0].packets, flow.ways[1].packets), (1, 1));
    assert_eq!(b.maps.flows().unwrap().len(), 1);
    let counts = b.maps.counts().unwrap();
    assert_eq!((counts.packets, counts.new_flows), ([1, 1], 1));
    assert_eq!(counts.bytes, [58, 128]);
}

#[test]
fn link_layers() {
    let ip = up4(&udp(1, 2, 40), UDP);
    let ip6 = v6(us6(), them6(), UDP, 0, &udp(1, 2, 40));
    let tag = |tci: u16, proto: u16, body: &[u8]| {
        [&tci.to_be_bytes()[..], &proto.to_be_bytes(), body].concat()
    };
    let session = |proto: u16, body: &[u8]| {
        let length = (body.len() + 2) as u16;
        [
            &[0x11, 0, 0, 7][..],
            &length.to_be_bytes(),
            &proto.to_be_bytes(),
            body,
        ]
        .concat()
    };
    for (what, packet, found) in [
        ("plain", ethernet(0x0800, &ip), key(UDP, 1, 2)),
        ("IPv6", ethernet(0x86dd, &ip6), key6(UDP, 1, 2)),
        (
            "VLAN",
            ethernet(0x8100, &tag(7, 0x0800, &ip)),
            key(UDP, 1, 2),
        ),
        (
            "two tags",
            ethernet(0x88a8, &tag(7, 0x8100, &tag(8, 0x86dd, &ip6))),
            key6(UDP, 1, 2),
        ),
        (
            "PPPoE",
            ethernet(0x8864, &session(0x0021, &ip)),
            key(UDP, 1, 2),
        ),
        (
            "PPPoE in a VLAN",
            ethernet(0x8100, &tag(7, 0x8864, &session(0x0057, &ip6))),
            key6(UDP, 1, 2),
        ),
    ] {
        let b = Bench::new(14, Hand::Nothing);
        b.up(&packet);
        let length = if found.local.is_ipv4() { 68 } else { 88 };
        assert_eq!(b.flow(found).ways[0].bytes, length, "{what}");
    }
    for (what, packet) in [
        ("ARP", ethernet(0x0806, &[0; 46])),
        ("PPPoE discovery", ethernet(0x8863, &[0; 46])),
        ("LCP", ethernet(0x8864, &session(0xc021, &[0; 46]))),
        ("IPv4 that is not", ethernet(0x0800, &ip6)),
        ("IPv6 that is not", ethernet(0x86dd, &ip)),
        ("cut off", ethernet(0x8100, &tag(7, 0x0800, &ip[..19]))),
        (
            "no header length",
            ethernet(0x0800, &[&[0x44], &ip[1..]].concat()),
        ),
    ] {
        let b = Bench::new(14, Hand::Tiers);
        assert_eq!(b.up(&packet).priority, 0, "{what}");
        assert_eq!(b.maps.counts().unwrap().other, [1, 0], "{what}");
        assert!(b.maps.flows().unwrap().is_empty(), "{what}");
    }
}

#[test]
fn ipv4_options_and_fragments() {
    let b = Bench::new(0, Hand::Nothing);
    let mut options = up4(&[], UDP);
    options[0] = 0x47;
    options.extend([1; 8]);
    options.extend(udp(10, 20, 0));
    b.up(&options);
    assert_eq!(b.flow(key(UDP, 10, 20)).ways[0].bytes, 36);

    let whole = udp(30, 40, 1600);
    b.up(&v4(US, THEM, UDP, 0, 0x2000, &whole[..800]));
    b.up(&v4(US, THEM, UDP, 0, 100, &whole[800..]));
    let flow = b.flow(key(UDP, 30, 40));
    assert_eq!(
        flow.ways[0].packets, 2,
        "the later fragment is the same flow"
    );
    // Nobody saw the first one.
    b.up(&v4(THEM, US, UDP, 0, 100, &whole[800..]));
    let other = Key {
        local: THEM.into(),
        remote: US.into(),
        ..key(UDP, 0, 0)
    };
    assert_eq!(b.flow(other).ways[0].packets, 1);
}

#[test]
fn ipv6_extension_headers() {
    let transport = udp(5, 6, 20);
    // Each is (number, bytes with 0 for the next header).
    let chain = |headers: &[(u8, Vec<u8>)], last: u8| {
        let mut numbers: Vec<u8> = headers.iter().map(|h| h.0).collect();
        numbers.push(last);
        let mut body = Vec::new();
        for (i, (_, bytes)) in headers.iter().enumerate() {
            body.push(numbers[i + 1]);
            body.extend(&bytes[1..]);
        }
        (numbers[0], body)
    };
    let hop = (0u8, vec![0, 0, 1, 4, 0, 0, 0, 0]);
    let long = (60u8, [vec![0, 1], vec![0; 14]].concat());
    let routing = (43u8, vec![0, 0, 0, 0, 0, 0, 0, 0]);
    let ah = (51u8, [vec![0, 4], vec![0; 22]].concat());
    let first = (44u8, vec![0, 0, 0, 1, 9, 9, 9, 9]);
    let atomic = (44u8, vec![0, 0, 0, 0, 9, 9, 9, 8]);
    for headers in [
        vec![],
        vec![hop.clone()],
        vec![hop.clone(), long.clone()],
        vec![routing.clone(), atomic],
        vec![hop, long, routing, ah],
        vec![first],
    ] {
        let b = Bench::new(0, Hand::Nothing);
        let (next, mut body) = chain(&headers, UDP);
        body.extend(&transport);
        b.up(&v6(us6(), them6(), next, 0, &body));
        let names: Vec<u8> = headers.iter().map(|h| h.0).collect();
        assert_eq!(b.flow(key6(UDP, 5, 6)).ways[0].packets, 1, "{names:?}");
        if names == [44] {
            let later = (44u8, vec![0, 0, 0, 0x10, 9, 9, 9, 9]);
            let (next, mut body) = chain(&[later], UDP);
            body.extend([0xbb; 30]);
            b.up(&v6(us6(), them6(), next, 0, &body));
            assert_eq!(b.flow(key6(UDP, 5, 6)).ways[0].packets, 2);
        }
    }
}

#[test]
fn a_super_packet_counts_by_its_segments() {
    let b = Bench::new(0, Hand::Nothing);
    let packet = up4(&tcp(1, 2, ACK, &stamps(1, 0), 2 * 1448), TCP);
    b.run("ek_egress", &packet, 0, 2);
    let way = b.flow(key(TCP, 1, 2)).ways[0];
    assert_eq!((way.packets, way.bytes), (2, 2 * 1500));
    let counts = b.maps.counts().unwrap();
    assert_eq!((counts.packets[0], counts.segments[0]), (1, 2));
}

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
        let b = Bench::with_rules(0, Hand::Tiers, &[rule]);
        b.run("ek_egress", packet, 0x112, 1);
        let (_, flow) = b.maps.flows().unwrap()[0];
        let found = (flow.tier, flow.why);
        let expected = if holds {
            (Tier::Bulk, Why::Rule(0))
        } else {
            (Tier::BestEffort, Why::Default)
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
    let b = Bench::with_rules(0, Hand::Tiers, &rules);
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
    let mut b = Bench::with_rules(0, Hand::Tiers, &[bulk, voice]);
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

#[test]
fn cake_gets_hints_only_where_it_needs_them() {
    let rules = [
        Rule {
            tier: 0,
            dscp: Some(46),
            cake_knows: true,
            ..Rule::default()
        },
        Rule {
            tier: 0,
            proto: Some(1),
            ..Rule::default()
        },
        Rule {
            tier: 3,
            ports: Some((End::Any, 6881, 6889)),
            ..Rule::default()
        },
    ];
    let b = Bench::with_rules(0, Hand::Cake, &rules);
    let big = |to| tcp(1, to, ACK, &[], 1200);
    for (what, packet, tin) in [
        (
            "DSCP is CAKE's business",
            v4(US, THEM, TCP, 46, 0, &big(80)),
            0,
        ),
        ("ICMP", up4(&[8, 0, 0, 0, 0, 0, 0, 0], 1), 0xec0_0004),
        ("bulk", up4(&big(6881), TCP), 0xec0_0001),
        ("default", up4(&big(80), TCP), 0),
        ("small UDP", up4(&udp(1, 2, 60), UDP), 0),
        (
            "an empty acknowledgement",
            up4(&tcp(1, 6881, ACK, &[], 0), TCP),
            0,
        ),
    ] {
        assert_eq!(b.up(&packet).priority, tin, "{what}");
    }
}

#[test]
fn small_datagrams_and_acknowledgements_go_first_in_htb() {
    let b = Bench::new(0, Hand::Tiers);
    let ack = tcp(1, 2, ACK, &stamps(1, 1), 0);
    assert_eq!(b.up(&up4(&ack, TCP)).priority, 0xec0_0010);
    assert_eq!(b.up(&up4(&udp(3, 4, 172), UDP)).priority, 0xec0_0010);
    let call = b.flow(key(UDP, 3, 4));
    assert_eq!(
        (call.tier, call.why),
        (Tier::Voice, Why::Small),
        "and is shown so"
    );
    assert_eq!(b.up(&up4(&udp(5, 6, 1200), UDP)).priority, 0xec0_0030);
    // Many small ones are no call.
    let mut last = 0;
    for _ in 0..1000 {
        last = b.up(&up4(&udp(3, 4, 172), UDP)).priority;
    }
    assert_eq!(last, 0xec0_0030);
    let flood = b.flow(key(UDP, 3, 4));
    assert_eq!((flood.tier, flood.why), (Tier::BestEffort, Why::Default));
}

#[test]
fn heavy_flows_have_buckets_of_their_own() {
    let b = Bench::new(0, Hand::Buckets);
    let mut seen = std::collections::BTreeSet::new();
    for port in 1000..1016 {
        let packet = up4(&tcp(port, 80, ACK, &[], 1400), TCP);
        let light = b.up(&packet).priority;
        assert!((0xec0_0310..0xec0_0314).contains(&light), "{light:x}");
        let mut heavy = 0;
        for _ in 0..60 {
            heavy = b.up(&packet).priority;
        }
        assert!((0xec0_0300..0xec0_0310).contains(&heavy), "{heavy:x}");
        assert_eq!(b.up(&packet).priority, heavy, "it stays there");
        seen.insert(heavy);
        let flow = b.flow(key(TCP, port, 80));
        assert!(flow.ways[0].heavy && !flow.ways[1].heavy);
    }
    assert_eq!(seen.len(), 16, "{seen:x?}");
    // The seventeenth shares one.
    let packet = up4(&tcp(2000, 80, ACK, &[], 1400), TCP);
    for _ in 0..60 {
        b.up(&packet);
    }
    let last = b.up(&packet).priority;
    assert!(seen.contains(&last));
}

#[test]
fn round_trips_of_a_handshake() {
    let b = Bench::new(0, Hand::Nothing);
    let wait = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    let options = [2, 4, 5, 180, 1, 3, 3, 7];
    b.up(&up4(&tcp(1, 2, SYN, &options, 0), TCP));
    wait(20);
    b.down(&down4(&tcp(2, 1, SYN | ACK, &options, 0), TCP));
    wait(5);
    b.up(&up4(&tcp(1, 2, ACK, &[], 0), TCP));
    let [up, down] = b.flow(key(TCP, 1, 2)).ways;
    let ms = |w: evenkeel_datapath::layout::Way| w.rtt.unwrap().as_secs_f64() * 1000.0;
    assert!((20.0..500.0).contains(&ms(up)), "{up:?}");
    assert!((5.0..500.0).contains(&ms(down)), "{down:?}");
    assert_eq!((up.rtt_count, down.rtt_count), (1, 1));
    assert_eq!((up.scale, down.scale), (Some(7), Some(7)));
    let [internet, lan] = b.maps.round_trips().unwrap();
    let total = |h: &evenkeel_datapath::RttHistogram| h.iter().map(|s| s.1).sum::<u64>();
    assert_eq!((total(&internet), total(&lan)), (1, 1));
    // What was sent twice is not measured.
    b.up(&up4(&tcp(3, 4, SYN, &options, 0), TCP));
    b.up(&up4(&tcp(3, 4, SYN, &options, 0), TCP));
    b.down(&down4(&tcp(4, 3, SYN | ACK, &options, 0), TCP));
    assert_eq!(b.flow(key(TCP, 3, 4)).ways[0].rtt, None);
}

#[test]
fn round_trips_of_time_stamps() {
    let b = Bench::new(0, Hand::Nothing);
    let wait = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    let up = |value, echo, n| b.up(&up4(&tcp(1, 2, ACK, &stamps(value, echo), n), TCP));
    let down = |value, echo, n| b.down(&down4(&tcp(2, 1, ACK, &stamps(value, echo), n), TCP));
    let flow = || b.flow(key(TCP, 1, 2)).ways[0];
    up(100, 50, 1000);
    wait(2);
    up(100, 50, 1000); // The same stamp later: the first one counts.
    wait(18);
    down(60, 99, 0); // Answers something else.
    assert_eq!(flow().rtt, None);
    down(60, 100, 0);
    let ms = flow().rtt.unwrap().as_secs_f64() * 1000.0;
    assert!((20.0..500.0).contains(&ms), "{ms}");
    down(60, 100, 0);
    assert_eq!(flow().rtt_count, 1, "once");
    // An empty acknowledgement waits for nothing.
    up(200, 60, 0);
    wait(5);
    down(70, 200, 1000);
    assert_eq!(flow().rtt_count, 1);
    // Stamps wrap round.
    up(u32::MAX, 70, 10);
    up(3, 70, 10);
    down(80, 3, 0);
    assert_eq!(
        flow().rtt_count,
        1,
        "the echo of a later one says nothing exact"
    );
    up(5, 80, 10);
    down(90, 5, 0);
    assert_eq!(flow().rtt_count, 2);
    assert!(flow().rtt_min.unwrap() < flow().rtt.unwrap() * 2);
}

#[test]
fn garbled_packets_pass() {
    // Every prefix of every kind, and every byte of the headers changed.
    let ran = std::cell::Cell::new(0);
    let bodies = [
        up4(
            &tcp(
                1,
                2,
                SYN,
                &[
                    2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 14,
                ],
                40,
            ),
            TCP,
        ),
        up4(&udp(1, 2, 60), UDP),
        v6(
            us6(),
            them6(),
            0,
            0,
            &[&[UDP, 0, 1, 4, 0, 0, 0, 0][..], &udp(1, 2, 60)].concat(),
        ),
        v6(
            us6(),
            them6(),
            44,
            0,
            &[
                &[TCP, 0, 0, 1, 1, 2, 3, 4][..],
                &tcp(1, 2, ACK, &stamps(1, 2), 40),
            ]
            .concat(),
        ),
    ];
    let b = Bench::new(14, Hand::Buckets);
    for ip in bodies {
        let proto = if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
        let whole = ethernet(proto, &ip);
        let both = |packet: &[u8]| {
            for program in ["ek_egress", "ek_ingress"] {
                ran.set(ran.get() + u32::from(b.try_run(program, packet, 0, 1).is_ok()));
            }
        };
        for n in 14..whole.len() {
            both(&whole[..n]);
        }
        for at in 12..whole.len().min(100) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut garbled = whole.clone();
                garbled[at] = value;
                both(&garbled);
            }
        }
    }
    assert!(ran.get() > 3000, "{}", ran.get());
}

#[test]
fn two_hundred_thousand_flows() {
    let b = Bench::new(0, Hand::Buckets);
    let mut packet = up4(&udp(1, 2, 60), UDP);
    for n in 0..200_000u32 {
        packet[16..20].copy_from_slice(&(0x0a00_0000 + n).to_be_bytes());
        b.up(&packet);
    }
    let counts = b.maps.counts().unwrap();
    assert_eq!((counts.new_flows, counts.full), (200_000, 0));
    let known = b.maps.flows().unwrap().len();
    assert!((10_000..=32_768).contains(&known), "{known}");
}
