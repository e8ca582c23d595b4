//! Every path of the parser: link layers, options, fragments, and what is garbled.

use evenkeel_core::units::PerDirection;
use evenkeel_datapath::values::{Key, PriorityMode};

use crate::bench::{
    ACK, Bench, SYN, TCP, THEM, UDP, US, down4, ethernet, key, key6, stamps, tcp, them6, udp, up4,
    us6, v4, v6,
};

#[test]
fn both_directions_are_one_flow() {
    let b = Bench::new(0, PriorityMode::None);
    b.up(&up4(&udp(4000, 53, 30), UDP));
    b.down(&down4(&udp(53, 4000, 100), UDP));
    let flow = b.flow(key(UDP, 4000, 53));
    assert_eq!(
        (flow.direction.up.bytes, flow.direction.down.bytes),
        (58, 128)
    );
    assert_eq!(
        (flow.direction.up.packets, flow.direction.down.packets),
        (1, 1)
    );
    assert_eq!(b.maps.flows().unwrap().len(), 1);
    let counts = b.maps.counts().unwrap();
    let PerDirection { up, down } = counts.direction;
    assert_eq!((up.packets, down.packets, counts.new_flows), (1, 1, 1));
    assert_eq!((up.bytes, down.bytes), (58, 128));
    // With 40 bytes more each, in cells.
    assert_eq!((up.wire_bytes, down.wire_bytes), (3 * 53, 4 * 53));
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
        let b = Bench::new(14, PriorityMode::None);
        b.up(&packet);
        let length = if found.local.is_ipv4() { 68 } else { 88 };
        assert_eq!(b.flow(found).direction.up.bytes, length, "{what}");
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
        let b = Bench::new(14, PriorityMode::TierClass);
        assert_eq!(b.up(&packet).priority, 0, "{what}");
        let other = b.maps.counts().unwrap().direction.map(|d| d.other);
        assert_eq!((other.up, other.down), (1, 0), "{what}");
        assert!(b.maps.flows().unwrap().is_empty(), "{what}");
    }
}

#[test]
fn ipv4_options_and_fragments() {
    let b = Bench::new(0, PriorityMode::None);
    let mut options = up4(&[], UDP);
    options[0] = 0x47;
    options.extend([1; 8]);
    options.extend(udp(10, 20, 0));
    options[3] = 36;
    b.up(&options);
    assert_eq!(b.flow(key(UDP, 10, 20)).direction.up.bytes, 36);

    let whole = udp(30, 40, 1600);
    b.up(&v4(US, THEM, UDP, 0, 0x2000, &whole[..800]));
    b.up(&v4(US, THEM, UDP, 0, 100, &whole[800..]));
    let flow = b.flow(key(UDP, 30, 40));
    assert_eq!(
        flow.direction.up.packets, 2,
        "the later fragment is the same flow"
    );
    // Nobody saw the first one.
    b.up(&v4(THEM, US, UDP, 0, 100, &whole[800..]));
    let other = Key {
        local: THEM.into(),
        remote: US.into(),
        ..key(UDP, 0, 0)
    };
    assert_eq!(b.flow(other).direction.up.packets, 1);
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
        let b = Bench::new(0, PriorityMode::None);
        let (next, mut body) = chain(&headers, UDP);
        body.extend(&transport);
        b.up(&v6(us6(), them6(), next, 0, &body));
        let names: Vec<u8> = headers.iter().map(|h| h.0).collect();
        assert_eq!(b.flow(key6(UDP, 5, 6)).direction.up.packets, 1, "{names:?}");
        if names == [44] {
            let later = (44u8, vec![0, 0, 0, 0x10, 9, 9, 9, 9]);
            let (next, mut body) = chain(&[later], UDP);
            body.extend([0xbb; 30]);
            b.up(&v6(us6(), them6(), next, 0, &body));
            assert_eq!(b.flow(key6(UDP, 5, 6)).direction.up.packets, 2);
        }
    }
}

/// Behind a tag a packet is taken apart step by step, without one nearly always in one go.
#[test]
fn both_parsers_find_the_same() {
    let tagged = |family: u16, ip: &[u8]| {
        let tag = [&[0, 7], &family.to_be_bytes()[..], ip].concat();
        ethernet(0x8100, &tag)
    };
    let benches = [(); 2].map(|()| Bench::new(14, PriorityMode::TierClass));
    let mut port = 1000;
    for (what, proto, body) in [
        ("a datagram", UDP, udp(1, 2, 200)),
        ("a short one", UDP, udp(1, 2, 3)),
        ("an acknowledgement", TCP, tcp(1, 2, ACK, &[], 0)),
        ("with time stamps", TCP, tcp(1, 2, ACK, &stamps(7, 8), 0)),
        ("a segment", TCP, tcp(1, 2, ACK, &stamps(7, 8), 1448)),
        ("a SYN", TCP, tcp(1, 2, SYN, &[2, 4, 5, 180, 1, 3, 3, 7], 0)),
        ("odd options", TCP, tcp(1, 2, ACK, &[1, 1, 1, 0], 9)),
    ] {
        for (family, padded) in [(4, false), (4, true), (6, false), (6, true)] {
            port += 1;
            let body = [&u16::to_be_bytes(port), &body[2..]].concat();
            let (proto_of, key, ip) = if family == 4 {
                let ip = v4(US, THEM, proto, 46, 0, &body);
                (0x0800, key(proto, port, 2), ip)
            } else {
                let ip = v6(us6(), them6(), proto, 46, &body);
                (0x86dd, key6(proto, port, 2), ip)
            };
            let mut filled = ip.clone();
            // What Ethernet fills a short frame up with is no part of the packet.
            if padded && ip.len() < 46 {
                filled.resize(46, 0);
            }
            let frames = [ethernet(proto_of, &filled), tagged(proto_of, &filled)];
            let [quick, long] = [0, 1].map(|i| {
                let priority = benches[i].up(&frames[i]).priority;
                let flow = benches[i].flow(key);
                (flow.direction.up.bytes, flow.direction.up.packets, priority)
            });
            assert_eq!(quick, long, "{what}, IPv{family}, {padded}");
            assert_eq!(quick.0, ip.len() as u64, "{what}, IPv{family}, {padded}");
        }
    }
}

#[test]
fn a_super_packet_counts_by_its_segments() {
    let b = Bench::new(0, PriorityMode::None);
    let packet = up4(&tcp(1, 2, ACK, &stamps(1, 0), 2 * 1448), TCP);
    b.run("ek_egress", &packet, 0, 2);
    let way = b.flow(key(TCP, 1, 2)).direction.up;
    assert_eq!((way.packets, way.bytes), (2, 2 * 1500));
    let counts = b.maps.counts().unwrap();
    let up = counts.direction.up;
    assert_eq!((up.packets, up.segments), (1, 2));
    // 33 cells each.
    assert_eq!((up.bytes, up.wire_bytes), (2 * 1500, 2 * 33 * 53));
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
    let b = Bench::new(14, PriorityMode::BucketClass);
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
