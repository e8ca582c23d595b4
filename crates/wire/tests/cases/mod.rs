//! The operation that each recorded command means, by the command's name.

use std::time::Duration;

use evenkeel_core::framing::{Mode, PRESETS};
use evenkeel_core::tc::{
    AckFilter, Action, Bpf, Cake, ClassSpec, Diffserv, Filter, FilterKey, FilterKind, FlowMode,
    FqCodel, Handle, HashKey, HtbClass, HtbLink, HtbRoot, LinkLayer, LinkSettings, Mark, Matchall,
    Offset, Op, Protocol, Qdisc, QdiscSpec, Sfq, Stab, Tbf, U32, U32Handle, U32Key, Verdict,
};
use evenkeel_core::{Framing, Rate};

const DEV: &str = "ek-dev";
const IFB: &str = "ek-ifb";

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn spec(parent: Handle, handle: Handle, qdisc: Qdisc) -> QdiscSpec {
    QdiscSpec {
        dev: DEV.into(),
        parent,
        handle,
        qdisc,
        stab: None,
    }
}

/// As a leaf of 1:10.
fn leaf(qdisc: Qdisc) -> Op {
    Op::QdiscAdd(spec(Handle::class(1, 0x10), Handle::qdisc(0x10), qdisc))
}

/// As root 1:.
fn root(qdisc: Qdisc) -> QdiscSpec {
    spec(Handle::ROOT, Handle::qdisc(1), qdisc)
}

/// As root without a handle.
fn cake(change: impl FnOnce(&mut Cake)) -> Op {
    let mut cake = Cake::default();
    change(&mut cake);
    Op::QdiscAdd(spec(Handle::ROOT, Handle::NONE, Qdisc::Cake(cake)))
}

fn shaper(rate: Option<&str>) -> Qdisc {
    let parse = |text: &str| match text {
        "unlimited" => Rate::from_bps(0),
        text => self::rate(text),
    };
    Qdisc::Cake(Cake {
        bandwidth: rate.map(parse),
        ..Cake::default()
    })
}

fn cakes() -> Vec<(&'static str, Op)> {
    let mut all = vec![
        ("cake-default", Op::QdiscAdd(root(shaper(None)))),
        (
            "cake-unlimited",
            Op::QdiscAdd(root(shaper(Some("unlimited")))),
        ),
        ("cake-rate", Op::QdiscReplace(root(shaper(Some("39mbit"))))),
        (
            "cake-rate-40g",
            Op::QdiscReplace(root(shaper(Some("40gbit")))),
        ),
        (
            "cake-change",
            Op::QdiscChange(root(shaper(Some("38500kbit")))),
        ),
        ("cake-nat", cake(|c| c.nat = Some(true))),
        ("cake-nonat", cake(|c| c.nat = Some(false))),
        ("cake-wash", cake(|c| c.wash = Some(true))),
        ("cake-nowash", cake(|c| c.wash = Some(false))),
        ("cake-ingress", cake(|c| c.ingress = Some(true))),
        ("cake-egress", cake(|c| c.ingress = Some(false))),
        ("cake-split-gso", cake(|c| c.split_gso = Some(true))),
        ("cake-no-split-gso", cake(|c| c.split_gso = Some(false))),
        (
            "cake-rtt",
            cake(|c| c.rtt = Some(Duration::from_millis(30))),
        ),
        ("cake-memlimit", cake(|c| c.memlimit = Some(4_000_000))),
        ("cake-fwmark", cake(|c| c.fwmark = Some(0xf0))),
    ];
    let name = |keyword: &str| -> &'static str { format!("cake-{keyword}").leak() };
    for v in [
        Diffserv::Diffserv3,
        Diffserv::Diffserv4,
        Diffserv::Diffserv8,
        Diffserv::Besteffort,
        Diffserv::Precedence,
    ] {
        all.push((name(v.keyword()), cake(|c| c.diffserv = Some(v))));
    }
    for v in [
        FlowMode::Flowblind,
        FlowMode::Srchost,
        FlowMode::Dsthost,
        FlowMode::Hosts,
        FlowMode::Flows,
        FlowMode::DualSrchost,
        FlowMode::DualDsthost,
        FlowMode::TripleIsolate,
    ] {
        all.push((name(v.keyword()), cake(|c| c.flow_mode = Some(v))));
    }
    for v in [AckFilter::Off, AckFilter::On, AckFilter::Aggressive] {
        all.push((name(v.keyword()), cake(|c| c.ack_filter = Some(v))));
    }
    let others = [
        ("numbers", Framing::new(Mode::Atm, 40, 96)),
        ("negative", Framing::new(Mode::Ptm, -4, 64)),
    ];
    for (keyword, framing) in PRESETS.into_iter().chain(others) {
        all.push((name(keyword), cake(|c| c.framing = Some(framing))));
    }
    let everything = Qdisc::Cake(Cake {
        bandwidth: Some(rate("39mbit")),
        diffserv: Some(Diffserv::Diffserv4),
        flow_mode: Some(FlowMode::DualSrchost),
        nat: Some(true),
        wash: Some(true),
        ingress: Some(true),
        ack_filter: Some(AckFilter::On),
        split_gso: Some(true),
        rtt: Some(Duration::from_millis(100)),
        target: None,
        memlimit: Some(8_000_000),
        fwmark: Some(0xff),
        framing: Some(Framing::new(Mode::Ptm, 30, 0)),
    });
    all.push(("cake-all", Op::QdiscReplace(root(everything))));
    all
}

fn class(parent: Handle, minor: u16, rates: [&str; 2], bursts: [u32; 2]) -> ClassSpec {
    ClassSpec {
        dev: DEV.into(),
        parent,
        classid: Handle::class(1, minor),
        class: HtbClass {
            burst: bursts[0],
            cburst: bursts[1],
            ..HtbClass::new(rate(rates[0]), rate(rates[1]))
        },
    }
}

fn with(mut spec: ClassSpec, change: impl FnOnce(&mut HtbClass)) -> ClassSpec {
    change(&mut spec.class);
    spec
}

fn htbs() -> Vec<(&'static str, Op)> {
    let htb = HtbRoot {
        default: 0x30,
        ..HtbRoot::default()
    };
    let all_set = HtbRoot {
        r2q: Some(5),
        direct_qlen: Some(100),
        ..htb.clone()
    };
    let stab = |framing| {
        Op::QdiscAdd(QdiscSpec {
            stab: Some(Stab::from_framing(framing, 14)),
            ..root(Qdisc::Htb(htb.clone()))
        })
    };
    let (top, one) = (Handle::qdisc(1), Handle::class(1, 1));
    let plain = |minor, rate, burst| class(one, minor, [rate; 2], [burst; 2]);
    let charged = |rates, bursts, overhead, mpu, layer| {
        with(class(top, 1, rates, bursts), |c| {
            c.link = HtbLink {
                overhead,
                mpu,
                layer,
            };
        })
    };
    vec![
        ("htb-root", Op::QdiscAdd(root(Qdisc::Htb(htb.clone())))),
        ("htb-root-all", Op::QdiscReplace(root(Qdisc::Htb(all_set)))),
        ("stab-atm", stab(Framing::new(Mode::Atm, 10, 0))),
        ("stab-ethernet", stab(Framing::new(Mode::None, 38, 84))),
        (
            "htb-class-20k",
            Op::ClassAdd(class(top, 1, ["20kbit"; 2], [3028; 2])),
        ),
        (
            "htb-class-1m",
            Op::ClassAdd(with(
                class(one, 0x10, ["1mbit", "10mbit"], [3028; 2]),
                |c| {
                    c.quantum = Some(1514);
                    c.prio = Some(1);
                },
            )),
        ),
        (
            "htb-class-40m",
            Op::ClassChange(with(
                class(one, 0x10, ["39200kbit", "40143kbit"], [4900, 5017]),
                |c| {
                    c.quantum = Some(3028);
                    c.prio = Some(7);
                },
            )),
        ),
        ("htb-class-1g", Op::ClassAdd(plain(0x20, "1gbit", 125_000))),
        (
            "htb-class-10g",
            Op::ClassAdd(plain(0x30, "10gbit", 1_250_000)),
        ),
        (
            "htb-class-40g",
            Op::ClassAdd(plain(0x40, "40gbit", 5_000_000)),
        ),
        (
            "htb-class-atm",
            Op::ClassAdd(with(
                charged(["1100kbit", "1150kbit"], [3028; 2], 26, 0, LinkLayer::Atm),
                |c| c.prio = Some(2),
            )),
        ),
        (
            "htb-class-mpu",
            Op::ClassAdd(charged(
                ["40mbit"; 2],
                [5000; 2],
                24,
                84,
                LinkLayer::Ethernet,
            )),
        ),
        (
            "htb-class-del",
            Op::ClassDel {
                dev: DEV.into(),
                classid: Handle::class(1, 0x40),
            },
        ),
    ]
}

fn leaves() -> Vec<(&'static str, Op)> {
    let ms = Duration::from_millis;
    let fq = FqCodel {
        limit: Some(1000),
        flows: Some(512),
        quantum: Some(300),
        target: Some(ms(5)),
        interval: Some(ms(100)),
        ecn: Some(true),
        ce_threshold: Some(ms(1)),
        memory_limit: Some(4_000_000),
        drop_batch: Some(32),
    };
    let noecn = FqCodel {
        ecn: Some(false),
        ..FqCodel::default()
    };
    let sfq = Sfq {
        limit: Some(100),
        perturb: Some(10),
        quantum: Some(1514),
        divisor: Some(1024),
        ..Sfq::default()
    };
    let sfq1 = Sfq {
        flows: Some(64),
        depth: Some(20),
        headdrop: true,
        ..sfq.clone()
    };
    let tbf = |rate, burst, limit| {
        let rate = self::rate(rate);
        leaf(Qdisc::Tbf(Tbf { rate, burst, limit }))
    };
    let hook = |qdisc| Op::QdiscAdd(spec(Handle::INGRESS, Handle::NONE, qdisc));
    let del = |parent, handle, kind: Option<&str>| Op::QdiscDel {
        dev: DEV.into(),
        parent,
        handle,
        kind: kind.map(str::to_owned),
    };
    vec![
        ("fq-codel-default", leaf(Qdisc::FqCodel(FqCodel::default()))),
        ("fq-codel-all", leaf(Qdisc::FqCodel(fq))),
        ("fq-codel-noecn", leaf(Qdisc::FqCodel(noecn))),
        ("sfq-default", leaf(Qdisc::Sfq(Sfq::default()))),
        ("sfq-v0", leaf(Qdisc::Sfq(sfq))),
        ("sfq-v1", leaf(Qdisc::Sfq(sfq1))),
        ("tbf", tbf("10mbit", 3028, 30_000)),
        ("tbf-40g", tbf("40gbit", 5_000_000, 9_000_000)),
        (
            "bfifo",
            leaf(Qdisc::Bfifo {
                limit: Some(15_140),
            }),
        ),
        ("bfifo-default", leaf(Qdisc::Bfifo { limit: None })),
        ("pfifo", leaf(Qdisc::Pfifo { limit: Some(20) })),
        ("ingress", hook(Qdisc::Ingress)),
        ("clsact", hook(Qdisc::Clsact)),
        ("qdisc-del-root", del(Handle::ROOT, Handle::NONE, None)),
        (
            "qdisc-del-handle",
            del(Handle::ROOT, Handle::qdisc(1), Some("htb")),
        ),
        (
            "qdisc-del-clsact",
            del(Handle::INGRESS, Handle::NONE, Some("clsact")),
        ),
    ]
}

fn filter(parent: Handle, protocol: Protocol, pref: u16, handle: u32, kind: FilterKind) -> Op {
    Op::FilterAdd {
        dev: DEV.into(),
        filter: Filter {
            parent,
            pref,
            protocol,
            handle,
            kind,
        },
    }
}

const TOP: Handle = Handle::qdisc(1);
const ALWAYS: U32Key = key(0, 0, 0);

const fn key(val: u32, mask: u32, off: i32) -> U32Key {
    U32Key {
        val,
        mask,
        off,
        nexthdr: false,
    }
}

fn ip(handle: u32, u32: U32) -> Op {
    filter(TOP, Protocol::Ip, 10, handle, FilterKind::U32(u32))
}

fn u32s() -> Vec<(&'static str, Op)> {
    let classid = Some(Handle::class(1, 0x10));
    let tcp = vec![key(0x0006_0000, 0x00ff_0000, 8)];
    let always = |actions| {
        FilterKind::U32(U32 {
            keys: vec![ALWAYS],
            actions,
            ..U32::default()
        })
    };
    let police = |mtu, exceed, conform| {
        let action = Action::Police {
            rate: rate("1mbit"),
            burst: 10_000,
            mtu,
            layer: LinkLayer::Ethernet,
            exceed,
            conform,
        };
        filter(
            Handle::CLSACT_INGRESS,
            Protocol::Ip,
            1,
            0,
            always(vec![action]),
        )
    };
    let redirect = Action::Redirect { dev: IFB.into() };
    vec![
        (
            "u32-match",
            ip(
                0,
                U32 {
                    keys: vec![key(0x0001_0000, 0x00ff_0000, 8)],
                    classid,
                    ..U32::default()
                },
            ),
        ),
        (
            "u32-neg",
            filter(
                TOP,
                Protocol::All,
                10,
                0,
                FilterKind::U32(U32 {
                    keys: vec![key(0x1234, 0xffff, -4), ALWAYS],
                    classid,
                    ..U32::default()
                }),
            ),
        ),
        (
            "u32-table",
            ip(
                U32Handle::table(2).0,
                U32 {
                    divisor: Some(256),
                    ..U32::default()
                },
            ),
        ),
        (
            "u32-link",
            ip(
                0,
                U32 {
                    keys: tcp.clone(),
                    link: Some(U32Handle::table(2)),
                    offset: Some(Offset::IPV4_HEADER),
                    hashkey: Some(HashKey { mask: 0xff, at: 0 }),
                    ..U32::default()
                },
            ),
        ),
        (
            "u32-link-eat",
            ip(
                0,
                U32 {
                    keys: tcp,
                    link: Some(U32Handle::table(2)),
                    offset: Some(Offset {
                        eat: true,
                        ..Offset::fixed(20)
                    }),
                    ..U32::default()
                },
            ),
        ),
        (
            "u32-bucket",
            ip(
                U32Handle::node(2, 5, 1).0,
                U32 {
                    ht: Some(U32Handle::bucket(2, 5)),
                    keys: vec![U32Key {
                        nexthdr: true,
                        ..key(5, 0xff, 0)
                    }],
                    classid: Some(Handle::class(1, 0x11)),
                    ..U32::default()
                },
            ),
        ),
        (
            "u32-root-link",
            ip(
                0,
                U32 {
                    ht: Some(U32Handle::bucket(0x800, 0)),
                    keys: vec![ALWAYS],
                    link: Some(U32Handle::table(3)),
                    hashkey: Some(HashKey { mask: 0xff, at: 12 }),
                    ..U32::default()
                },
            ),
        ),
        (
            "u32-mark",
            filter(
                TOP,
                Protocol::All,
                11,
                0,
                FilterKind::U32(U32 {
                    keys: vec![ALWAYS],
                    mark: Some(Mark {
                        val: 10,
                        mask: 0xff,
                    }),
                    classid,
                    ..U32::default()
                }),
            ),
        ),
        (
            "u32-mirred",
            filter(
                Handle::CLSACT_INGRESS,
                Protocol::All,
                1,
                0,
                always(vec![redirect]),
            ),
        ),
        ("u32-police", police(None, Verdict::Drop, Verdict::Ok)),
        (
            "u32-police-mtu",
            police(Some(65535), Verdict::Continue, Verdict::Pipe),
        ),
    ]
}

fn others() -> Vec<(&'static str, Op)> {
    let out = Handle::CLSACT_EGRESS;
    let matchall = |classid, actions| FilterKind::Matchall(Matchall { classid, actions });
    let verdict = |v| {
        let kind = matchall(None, vec![Action::Gact(v)]);
        filter(out, Protocol::Ip, 3, 0, kind)
    };
    let priority = Handle::class(1, 0x10);
    let bpf = |direct_action, classid| {
        FilterKind::Bpf(Bpf {
            // The first that tc opens after its sockets, and the name it makes up.
            fd: 4,
            id: None,
            name: "ek-prog:[*fsobj]".to_owned(),
            classid,
            direct_action,
        })
    };
    let del = |handle, kind: Option<&str>| Op::FilterDel {
        dev: DEV.into(),
        key: FilterKey {
            parent: TOP,
            pref: 10,
            protocol: Some(Protocol::Ip),
            handle,
        },
        kind: kind.map(str::to_owned),
    };
    let set = |settings| Op::LinkSet {
        name: IFB.into(),
        settings,
    };
    let name = || "ek-test".to_owned();
    vec![
        (
            "matchall-class",
            filter(
                TOP,
                Protocol::All,
                20,
                0,
                matchall(Some(Handle::class(1, 0x30)), Vec::new()),
            ),
        ),
        (
            "matchall-mirred",
            filter(
                Handle::CLSACT_INGRESS,
                Protocol::All,
                1,
                0,
                matchall(None, vec![Action::Redirect { dev: IFB.into() }]),
            ),
        ),
        (
            "matchall-actions",
            filter(
                out,
                Protocol::Ipv6,
                2,
                0,
                matchall(
                    None,
                    vec![Action::Skbedit { priority }, Action::Gact(Verdict::Ok)],
                ),
            ),
        ),
        ("matchall-drop", verdict(Verdict::Drop)),
        ("matchall-pipe", verdict(Verdict::Pipe)),
        ("matchall-continue", verdict(Verdict::Continue)),
        ("filter-del-pref", del(0, None)),
        (
            "filter-del-u32",
            del(U32Handle::node(0x800, 0, 0x800).0, Some("u32")),
        ),
        ("bpf-da", filter(out, Protocol::All, 5, 0, bpf(true, None))),
        (
            "bpf-class",
            filter(TOP, Protocol::All, 5, 0, bpf(false, Some(priority))),
        ),
        ("ifb-add", Op::LinkAddIfb { name: name() }),
        ("link-del", Op::LinkDel { name: name() }),
        (
            "link-up",
            set(LinkSettings {
                up: Some(true),
                ..LinkSettings::default()
            }),
        ),
        (
            "link-set",
            set(LinkSettings {
                txqlen: Some(64),
                gso_max_size: Some(3000),
                gso_max_segs: Some(2),
                gro_max_size: Some(4000),
                ..LinkSettings::default()
            }),
        ),
    ]
}

/// All.
pub(crate) fn all() -> Vec<(&'static str, Op)> {
    [cakes(), htbs(), leaves(), u32s(), others()].concat()
}
