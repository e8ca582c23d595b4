//! Commands of each peer, and what they say about framing and shares.

use evenkeel_core::tc::Sfq;

use super::parts::qdisc;
use super::*;

fn facts(down: &str, up: &str, framing: &str) -> LineFacts {
    LineFacts {
        down: down.parse().unwrap(),
        up: up.parse().unwrap(),
        framing: framing.parse().unwrap(),
        rtt_ms: 20.0,
        down_buffer_ms: 100.0,
        up_buffer_ms: 100.0,
        varies: false,
        best: None,
    }
}

/// What `name` types on a line, with or without an Ethernet header.
fn commands(name: &str, line: &LineFacts, link_header: u16) -> Vec<String> {
    let all = Peer::all();
    let peer = all.iter().find(|p| p.name == name).unwrap();
    let place = Place {
        wan: "wan",
        link_header,
        mtu: 1500,
        line,
        marks: true,
    };
    peer.ops(&place).iter().map(Op::to_string).collect()
}

#[test]
fn names_are_unique() {
    let all = Peer::all();
    for (i, p) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|q| q.name != p.name), "{}", p.name);
    }
}

/// What is published as told is what is typed; what is taken for the limits follows from it.
#[test]
fn facts_say_what_was_told_and_what_comes_of_it() {
    let adsl = facts("21181kbit", "1171kbit", "atm:40");
    for (name, told, down, up) in [
        (
            "cake-95",
            "20121/1112 kbit/s, atm:40, kind of line",
            Some("20121kbit atm:40"),
            Some("1112kbit atm:40"),
        ),
        ("router-defaults", "", None, None),
        (
            "sqm-95",
            "20181/1112 kbit/s, no framing",
            Some("20181kbit none:14"),
            Some("1112kbit none:14"),
        ),
        (
            "sqm-99-atm44",
            "21000/1160 kbit/s, atm:44",
            Some("21mbit atm:44"),
            Some("1160kbit atm:44"),
        ),
        (
            "inetgw",
            "21181/1171 kbit/s, ATM without overhead",
            Some("20968kbit atm:0"),
            Some("1171kbit atm:14"),
        ),
        (
            "wondershaper-90",
            "19062/1053 kbit/s, no framing",
            Some("19062kbit none:0"),
            Some("947kbit none:14"),
        ),
    ] {
        let all = Peer::all();
        let peer = all.iter().find(|p| p.name == name).unwrap();
        let f = peer.facts(&adsl, 14);
        let show = |c: Option<Charge>| c.map(|c| format!("{} {}", c.rate, c.framing));
        assert_eq!(f.told, told, "{name}");
        assert_eq!(show(f.down).as_deref(), down, "{name}");
        assert_eq!(show(f.up).as_deref(), up, "{name}");
        assert!(!f.about.is_empty() && f.name == name);
    }
}

#[test]
fn cake_as_an_expert_types_it() {
    let adsl = facts("21181kbit", "1171kbit", "atm:40");
    let typed = commands("cake-95", &adsl, 0);
    assert_eq!(
        typed[1],
        "tc qdisc add dev ifb4wan root handle 1: cake bandwidth 20121kbit diffserv4 dual-dsthost \
         nat ingress atm overhead 40 mpu 0"
    );
    let up = &typed[3];
    assert!(
        up.contains("bandwidth 1112kbit") && up.contains(" ack-filter"),
        "{up}"
    );
    let cable = facts("250mbit", "25mbit", "none:18:mpu64");
    assert!(
        commands("cake-99", &cable, 0)
            .iter()
            .all(|c| !c.contains("ack-filter"))
    );
}

#[test]
fn the_series_of_the_cerowrt_post() {
    let adsl = facts("21181kbit", "1171kbit", "atm:40");
    for (name, down, up, overhead) in [
        ("sqm-95", "20181kbit", "1112kbit", None),
        ("sqm-95-atm44", "20181kbit", "1112kbit", Some(44)),
        ("sqm-100-atm44", "21181kbit", "1171kbit", Some(44)),
        ("sqm-99-atm44", "21000kbit", "1160kbit", Some(44)),
        ("sqm-99-atm40", "21000kbit", "1160kbit", Some(40)),
    ] {
        let typed = commands(name, &adsl, 14);
        for (dev, rate) in [("ifb4wan", down), ("wan", up)] {
            let rate: Rate = rate.parse().unwrap();
            let class = format!("tc class add dev {dev} parent 1: classid 1:1 htb rate {rate}");
            assert!(typed.iter().any(|c| c.starts_with(&class)), "{typed:#?}");
        }
        let stab = overhead.map(|o| format!("overhead {} linklayer atm", o - 14));
        let tables = typed.iter().filter(|c| c.contains(" stab ")).count();
        assert_eq!(tables, if stab.is_some() { 2 } else { 0 }, "{name}");
        assert!(
            stab.is_none_or(|s| typed.iter().any(|c| c.contains(&s))),
            "{typed:#?}"
        );
    }
    let plain = commands("router-defaults", &adsl, 14);
    assert_eq!(
        plain,
        ["tc qdisc add dev wan root handle 1: fq_codel quantum 300"]
    );
}

/// Listing 1 with 2304 2304 on an ATM line.
#[test]
fn the_listing_of_inetgw() {
    let sdsl = facts("2304kbit", "2304kbit", "atm:40");
    let typed = commands("inetgw", &sdsl, 0).join("\n");
    for line in [
        "tc qdisc add dev wan root handle 1: htb default 0x11",
        "parent 1:1 classid 1:12 htb rate 768kbit ceil 2304kbit",
        "tc qdisc add dev wan parent 1:11 handle 11: sfq perturb 10",
        "police rate 2257kbit burst 6144 linklayer atm conform-exceed continue/ok",
        "police rate 23kbit burst 8192 linklayer atm conform-exceed continue/ok",
        "pref 121 u32 match u32 0x400 0x400 at 0 classid :1 action drop",
        "police rate 23kbit burst 10240 linklayer atm conform-exceed drop/drop",
        "pref 16 u32 match mark 0xa 0xffffffff classid 1:10",
    ] {
        assert!(typed.contains(line), "{line}\nin\n{typed}");
    }
    // 230 * 128 / 3 is more than a packet: no quanta.
    assert!(!typed.contains("quantum"));
    let slow = facts("384kbit", "128kbit", "none:0");
    let typed = commands("inetgw", &slow, 0).join("\n");
    assert!(
        typed.contains("quantum 1500") && !typed.contains("linklayer atm"),
        "{typed}"
    );
}

#[test]
fn wondershaper_knows_no_framing() {
    let sdsl = facts("2304kbit", "2304kbit", "atm:40");
    let typed = commands("wondershaper", &sdsl, 0).join("\n");
    assert!(
        typed.contains("classid 1:20 htb rate 2073kbit ceil 2073kbit"),
        "{typed}"
    );
    assert!(
        typed.contains("police rate 2304kbit burst 10240 conform-exceed drop/ok"),
        "{typed}"
    );
    assert!(!typed.contains("atm"));
}

#[test]
fn a_lack_is_named() {
    let refused = |errno| Error::Refused {
        what: "add sfq 10: on wan".into(),
        words: "No such file or directory".into(),
        errno,
    };
    let sfq = qdisc("wan", Handle::ROOT, 1, Qdisc::Sfq(Sfq::default()), None);
    let e = explain(&sfq, refused(2));
    assert!(e.downcast_ref::<Lacks>().is_some());
    assert!(
        e.to_string().contains("lacks SFQ (CONFIG_NET_SCH_SFQ)"),
        "{e}"
    );
    assert!(explain(&sfq, refused(22)).downcast_ref::<Error>().is_some());
}
