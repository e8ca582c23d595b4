//! Operations against the running kernel, in network namespaces of their own: what was asked for
//! is what it reports. Needs root; without, each test says so and passes.

use std::io::Write as _;
use std::time::Duration;

use evenkeel_core::framing::Mode;
use evenkeel_core::tc::{
    Action, Cake, ClassSpec, Dev, Filter, FilterKey, FilterKind, Handle, HashKey, HtbClass,
    HtbLink, HtbRoot, LinkLayer, LinkSettings, Offset, Op, Protocol, Qdisc, QdiscSpec, Stab, Tbf,
    U32, U32Handle, U32Key,
};
use evenkeel_core::{Framing, Rate};
use evenkeel_sys::Netns;
use evenkeel_sys::netlink::{NetlinkError, Socket};
use evenkeel_wire::link::{LinkInfo, dump_links};
use evenkeel_wire::tc::stats::AppStats;
use evenkeel_wire::tc::{
    ClassBody, ClassInfo, FilterBody, FilterInfo, QdiscBody, QdiscInfo, dump_classes, dump_filters,
    dump_qdiscs, encode,
};
use nix::errno::Errno;

/// A socket in a namespace, and the devices there.
struct Lab {
    socket: Socket,
}

impl Lab {
    fn links(&mut self) -> Vec<LinkInfo> {
        let answer = self.socket.dump(&dump_links()).unwrap();
        answer.iter().flat_map(|m| LinkInfo::all(m)).collect()
    }

    fn link(&mut self, name: &str) -> LinkInfo {
        let mut links = self.links().into_iter();
        links.find(|l| l.name == name).expect(name)
    }

    fn try_apply(&mut self, op: &Op) -> Result<(), NetlinkError> {
        let links = self.links();
        let index = |name: &str| links.iter().find(|l| l.name == name).map(|l| l.index);
        self.socket.request(&encode(op, &index).unwrap())
    }

    fn apply(&mut self, op: &Op) {
        self.try_apply(op).unwrap_or_else(|e| panic!("{op}: {e}"));
    }

    fn qdiscs(&mut self, dev: &str) -> Vec<QdiscInfo> {
        let index = self.link(dev).index;
        let answer = self.socket.dump(&dump_qdiscs()).unwrap();
        let all = answer.iter().flat_map(|m| QdiscInfo::all(m));
        all.filter(|q| q.ifindex == index).collect()
    }

    fn classes(&mut self, dev: &str) -> Vec<ClassInfo> {
        let index = self.link(dev).index;
        let answer = self.socket.dump(&dump_classes(index)).unwrap();
        answer.iter().flat_map(|m| ClassInfo::all(m)).collect()
    }

    fn filters(&mut self, dev: &str, parent: Handle) -> Vec<FilterInfo> {
        let index = self.link(dev).index;
        let answer = self.socket.dump(&dump_filters(index, parent)).unwrap();
        answer.iter().flat_map(|m| FilterInfo::all(m)).collect()
    }
}

/// Runs `test` with a socket and an IFB `wan` that is up, in a fresh namespace.
fn lab(name: &str, test: impl FnOnce(&mut Lab) + Send) {
    if !nix::unistd::geteuid().is_root() {
        // Past the test harness, which hides the output of what passes.
        let _ = writeln!(std::io::stderr(), "SKIP {name}: needs root");
        return;
    }
    let ns = Netns::new(name).unwrap();
    ns.run(|| {
        let mut lab = Lab {
            socket: Socket::open_route().unwrap(),
        };
        lab.apply(&Op::LinkAddIfb { name: "wan".into() });
        lab.apply(&Op::LinkSet {
            name: "wan".into(),
            settings: LinkSettings {
                up: Some(true),
                txqlen: Some(64),
                gso_max_size: Some(3000),
                gro_max_size: Some(4000),
                gro_ipv4_max_size: Some(5000),
                ..LinkSettings::default()
            },
        });
        test(&mut lab);
    })
    .unwrap();
}

fn qdisc(parent: Handle, handle: Handle, qdisc: Qdisc, stab: Option<Stab>) -> QdiscSpec {
    QdiscSpec {
        dev: "wan".into(),
        parent,
        handle,
        qdisc,
        stab,
    }
}

fn htb() -> Qdisc {
    Qdisc::Htb(HtbRoot {
        default: 0x30,
        r2q: None,
        direct_qlen: Some(50),
    })
}

fn rule(pref: u16, handle: u32, u32: U32) -> Filter {
    Filter {
        parent: Handle::qdisc(1),
        pref,
        protocol: Protocol::Ip,
        handle,
        kind: FilterKind::U32(u32),
    }
}

#[test]
fn links() {
    lab("links", |lab| {
        let wan = lab.link("wan");
        assert!(wan.is_up());
        assert_eq!((wan.kind.as_str(), wan.txqlen), ("ifb", 64));
        assert_eq!(wan.hardware.header_len(), Some(14));
        assert_eq!(wan.gso_max_size, Some(3000));
        assert_eq!(wan.gro_max_size, Some(4000));
        // Linux 6.3 has it; before, the attribute is ignored.
        assert!(matches!(wan.gro_ipv4_max_size, Some(5000) | None));
        let again = lab.try_apply(&Op::LinkAddIfb { name: "wan".into() });
        assert_eq!(again.unwrap_err().errno, Errno::EEXIST);
        lab.apply(&Op::LinkDel { name: "wan".into() });
        assert!(lab.links().iter().all(|l| l.name != "wan"));
    });
}

#[test]
fn tree_of_classes() {
    lab("tree_of_classes", |lab| {
        let stab = Stab::from_framing(Framing::new(Mode::Atm, 10, 0), 14);
        let root = qdisc(Handle::ROOT, Handle::qdisc(1), htb(), Some(stab.clone()));
        lab.apply(&Op::QdiscAdd(root.clone()));
        let again = lab.try_apply(&Op::QdiscAdd(root)).unwrap_err();
        assert_eq!(again.errno, Errno::EEXIST, "{again}");

        classes_are_as_asked(lab);
        leaves_are_as_asked(lab, &stab);
        only_what_is_named_is_deleted(lab);
    });
}

fn class(minor: u16, class: HtbClass) -> ClassSpec {
    ClassSpec {
        dev: "wan".into(),
        parent: Handle::qdisc(1),
        classid: Handle::class(1, minor),
        class,
    }
}

fn classes_are_as_asked(lab: &mut Lab) {
    let classes = [
        (0x10, "20kbit", "20kbit"),
        (0x20, "1mbit", "40gbit"),
        (0x30, "40gbit", "40gbit"),
    ];
    for (minor, rate, ceil) in classes {
        let mut options = HtbClass::new(rate.parse().unwrap(), ceil.parse().unwrap());
        options.prio = Some(3);
        options.quantum = Some(1514);
        options.link = HtbLink {
            overhead: 24,
            mpu: 84,
            layer: LinkLayer::Atm,
        };
        let spec = class(minor, options);
        lab.apply(&Op::ClassAdd(spec.clone()));
        let reported = lab.classes("wan");
        let found = reported.iter().find(|c| c.classid == spec.classid).unwrap();
        let ClassBody::Htb(got) = found.body else {
            panic!("{found:?}")
        };
        assert!(matches!(found.stats.app, AppStats::Htb(_)), "{found:?}");
        // A burst is kept in ticks of 64 ns: at most a tick's worth more.
        for (got, asked, rate) in [
            (got.burst, options.burst, options.rate),
            (got.cburst, options.cburst, options.ceil),
        ] {
            let tick = 1 + rate.bytes_in(Duration::from_nanos(64)) as u32;
            assert!(got.abs_diff(asked) <= tick, "{got} {asked}");
        }
        assert_eq!(
            HtbClass {
                burst: options.burst,
                cburst: options.cburst,
                ..got
            },
            options
        );
    }
    // In place: the tree stays, the rate is another.
    let changed = HtbClass::new(Rate::from_kbit(38_500), Rate::from_kbit(39_000));
    lab.apply(&Op::ClassChange(class(0x10, changed)));
    let reported = lab.classes("wan");
    assert_eq!(reported.len(), 3);
    assert!(reported.iter().any(|c| matches!(c.body, ClassBody::Htb(h)
            if c.classid == Handle::class(1, 0x10) && h.rate == changed.rate)));
}

/// A TBF that holds a FIFO below a class, and the size table of the root.
fn leaves_are_as_asked(lab: &mut Lab, stab: &Stab) {
    let tbf = Tbf {
        rate: Rate::from_kbit(39_000),
        burst: 4_875,
        limit: 30_000,
    };
    let fifo = Qdisc::Bfifo {
        limit: Some(15_140),
    };
    lab.apply(&Op::QdiscAdd(qdisc(
        Handle::class(1, 0x10),
        Handle::qdisc(0x10),
        Qdisc::Tbf(tbf),
        None,
    )));
    let inner = |stab| {
        let (parent, handle) = (Handle::class(0x10, 1), Handle::qdisc(0x110));
        Op::QdiscAdd(qdisc(parent, handle, fifo.clone(), stab))
    };
    // Newer kernels say so; before, a leaf's table was taken.
    if let Err(e) = lab.try_apply(&inner(Some(stab.clone()))) {
        assert_eq!(e.to_string(), "STAB not supported on a non root");
        lab.apply(&inner(None));
    }
    let reported = lab.qdiscs("wan");
    let find = |major| {
        reported
            .iter()
            .find(|q| q.handle == Handle::qdisc(major))
            .unwrap()
    };
    let QdiscBody::Known(Qdisc::Tbf(got)) = find(0x10).body else {
        panic!("{:?}", find(0x10))
    };
    // The kernel rounds the burst to time and back.
    assert!(got.burst.abs_diff(tbf.burst) <= 4, "{got:?}");
    let burst = tbf.burst;
    assert_eq!(Tbf { burst, ..got }, tbf);
    assert_eq!(find(0x10).parent, Handle::class(1, 0x10));
    assert_eq!(find(0x110).body, QdiscBody::Known(fifo));
    // The kernel keeps the data to itself.
    let head = Stab {
        data: Vec::new(),
        ..stab.clone()
    };
    assert_eq!(find(1).stab.as_ref(), Some(&head));
    let QdiscBody::Known(Qdisc::Htb(got)) = &find(1).body else {
        panic!("{:?}", find(1))
    };
    assert_eq!(
        (got.default, got.r2q, got.direct_qlen),
        (0x30, Some(10), Some(50))
    );
}

/// Someone else's kind is not.
fn only_what_is_named_is_deleted(lab: &mut Lab) {
    let del = |kind: &str| Op::QdiscDel {
        dev: "wan".into(),
        parent: Handle::ROOT,
        handle: Handle::qdisc(1),
        kind: Some(kind.into()),
    };
    let refused = lab.try_apply(&del("cake")).unwrap_err();
    assert_eq!(refused.errno, Errno::EINVAL, "{refused}");
    lab.apply(&Op::ClassDel {
        dev: "wan".into(),
        classid: Handle::class(1, 0x20),
    });
    // TBF reports itself as a class, too.
    let left = lab.classes("wan");
    assert_eq!(left.iter().filter(|c| c.kind == "htb").count(), 2);
    lab.apply(&del("htb"));
    assert!(lab.qdiscs("wan").iter().all(|q| q.kind != "htb"));
}

/// A hash table, a filter in it, and two that lead there.
fn linked_filters() -> [Filter; 4] {
    let key = |val, mask, off, nexthdr| U32Key {
        val,
        mask,
        off,
        nexthdr,
    };
    [
        rule(
            10,
            U32Handle::table(2).0,
            U32 {
                divisor: Some(256),
                ..U32::default()
            },
        ),
        rule(
            10,
            U32Handle::node(2, 5, 1).0,
            U32 {
                ht: Some(U32Handle::bucket(2, 5)),
                keys: vec![key(53, 0xffff, 0, true)],
                classid: Some(Handle::class(1, 0x11)),
                ..U32::default()
            },
        ),
        rule(
            10,
            U32Handle::node(0x800, 0, 1).0,
            U32 {
                ht: Some(U32Handle::bucket(0x800, 0)),
                keys: vec![key(0x0011_0000, 0x00ff_0000, 8, false)],
                link: Some(U32Handle::table(2)),
                hashkey: Some(HashKey { mask: 0xff, at: 0 }),
                offset: Some(Offset::IPV4_HEADER),
                ..U32::default()
            },
        ),
        rule(
            10,
            U32Handle::node(0x800, 0, 2).0,
            U32 {
                ht: Some(U32Handle::bucket(0x800, 0)),
                keys: vec![key(0, 0, 0, false)],
                link: Some(U32Handle::table(2)),
                offset: Some(Offset::fixed(40)),
                ..U32::default()
            },
        ),
    ]
}

#[test]
fn u32_tables() {
    lab("u32_tables", |lab| {
        lab.apply(&Op::QdiscAdd(qdisc(
            Handle::ROOT,
            Handle::qdisc(1),
            htb(),
            None,
        )));
        let filters = linked_filters();
        for filter in &filters {
            lab.apply(&Op::FilterAdd {
                dev: "wan".into(),
                filter: filter.clone(),
            });
        }
        let reported = lab.filters("wan", Handle::qdisc(1));
        for filter in &filters {
            let found = reported
                .iter()
                .find(|f| f.handle == filter.handle && f.pref == 10);
            let body = found.map(|f| &f.body);
            assert_eq!(
                body,
                Some(&FilterBody::Known(filter.kind.clone())),
                "{filter}"
            );
        }
        lab.apply(&Op::FilterDel {
            dev: "wan".into(),
            key: filters[3].key(),
            kind: Some("u32".into()),
        });
        let count = |lab: &mut Lab, pref| {
            let all = lab.filters("wan", Handle::qdisc(1));
            all.iter().filter(|f| f.pref == pref).count()
        };
        let before = count(lab, 10);
        assert!(before >= 4, "{before}");
        lab.apply(&Op::FilterDel {
            dev: "wan".into(),
            key: FilterKey {
                parent: Handle::qdisc(1),
                pref: 10,
                protocol: None,
                handle: 0,
            },
            kind: None,
        });
        assert_eq!(count(lab, 10), 0);
    });
}

#[test]
fn redirect_to_an_ifb() {
    lab("redirect_to_an_ifb", |lab| {
        lab.apply(&Op::LinkAddIfb { name: "in".into() });
        lab.apply(&Op::QdiscAdd(qdisc(
            Handle::INGRESS,
            Handle::NONE,
            Qdisc::Clsact,
            None,
        )));
        let filter = |dev: Dev| Filter {
            parent: Handle::CLSACT_INGRESS,
            pref: 1,
            protocol: Protocol::All,
            handle: U32Handle::node(0x800, 0, 0x800).0,
            kind: FilterKind::U32(U32 {
                ht: Some(U32Handle::bucket(0x800, 0)),
                keys: vec![U32Key {
                    val: 0,
                    mask: 0,
                    off: 0,
                    nexthdr: false,
                }],
                actions: vec![Action::Redirect { dev }],
                ..U32::default()
            }),
        };
        lab.apply(&Op::FilterAdd {
            dev: "wan".into(),
            filter: filter("in".into()),
        });
        let index = lab.link("in").index;
        let reported = lab.filters("wan", Handle::CLSACT_INGRESS);
        let expected = FilterBody::Known(filter(Dev::Index(index)).kind);
        assert!(reported.iter().any(|f| f.body == expected), "{reported:#?}");
        assert!(lab.filters("wan", Handle::CLSACT_EGRESS).is_empty());
        let clsact = lab.qdiscs("wan");
        let clsact = clsact.iter().find(|q| q.kind == "clsact").unwrap();
        assert_eq!(
            (clsact.handle, clsact.parent),
            (Handle::INGRESS_QDISC, Handle::INGRESS)
        );
        lab.apply(&Op::QdiscDel {
            dev: "wan".into(),
            parent: Handle::INGRESS,
            handle: Handle::NONE,
            kind: Some("clsact".into()),
        });
        assert!(lab.qdiscs("wan").iter().all(|q| q.kind != "clsact"));
    });
}

/// CAKE where the kernel has it; otherwise its refusal is the capability probe.
#[test]
#[allow(clippy::single_match_else)] // Both arms are results.
fn cake_or_its_refusal() {
    lab("cake_or_its_refusal", |lab| {
        let cake = Cake {
            bandwidth: Some(Rate::from_kbit(39_000)),
            framing: Some(Framing::new(Mode::Ptm, 30, 0)),
            nat: Some(true),
            ..Cake::default()
        };
        let spec = qdisc(
            Handle::ROOT,
            Handle::qdisc(1),
            Qdisc::Cake(cake.clone()),
            None,
        );
        match lab.try_apply(&Op::QdiscReplace(spec)) {
            Err(e) => {
                assert!(e.is_unknown_kind(), "{e}");
                assert_eq!(
                    (e.errno, e.to_string().as_str()),
                    (Errno::ENOENT, "Specified qdisc kind is unknown")
                );
                eprintln!("skipped CAKE's report: {e}");
            }
            Ok(()) => {
                let reported = lab.qdiscs("wan");
                let QdiscBody::Known(Qdisc::Cake(got)) = &reported[0].body else {
                    panic!("{reported:?}")
                };
                assert_eq!(
                    (got.bandwidth, got.framing, got.nat),
                    (cake.bandwidth, cake.framing, cake.nat)
                );
                assert!(matches!(reported[0].stats.app, AppStats::Cake(_)));
            }
        }
    });
}

/// A dump of more than one datagram, and a device that is not there.
#[test]
fn long_dumps_and_errors() {
    lab("long_dumps_and_errors", |lab| {
        lab.apply(&Op::QdiscAdd(qdisc(
            Handle::ROOT,
            Handle::qdisc(1),
            htb(),
            None,
        )));
        for minor in 1..=700 {
            let spec = ClassSpec {
                dev: "wan".into(),
                parent: Handle::qdisc(1),
                classid: Handle::class(1, minor),
                class: HtbClass::new(Rate::from_kbit(100), Rate::from_kbit(100)),
            };
            let index = Dev::Index(lab.link("wan").index);
            let spec = ClassSpec { dev: index, ..spec };
            lab.socket
                .request(&encode(&Op::ClassAdd(spec), &|_| None).unwrap())
                .unwrap();
        }
        assert_eq!(lab.classes("wan").len(), 700);
        let gone = Op::ClassDel {
            dev: Dev::Index(4242),
            classid: Handle::class(1, 1),
        };
        assert_eq!(lab.try_apply(&gone).unwrap_err().errno, Errno::ENODEV);
        let unknown = lab.try_apply(&Op::ClassDel {
            dev: "wan".into(),
            classid: Handle::class(1, 0x999),
        });
        assert_eq!(unknown.unwrap_err().errno, Errno::ENOENT);
    });
}

/// Several at once: all are carried out in their order, and the first refusal is told.
#[test]
fn many_at_once() {
    lab("many_at_once", |lab| {
        let wan = Dev::Index(lab.link("wan").index);
        let class = |minor, kbit| ClassSpec {
            dev: wan.clone(),
            parent: Handle::qdisc(1),
            classid: Handle::class(1, minor),
            class: HtbClass::new(Rate::from_kbit(kbit), Rate::from_kbit(kbit)),
        };
        let root = QdiscSpec {
            dev: wan.clone(),
            ..qdisc(Handle::ROOT, Handle::qdisc(1), htb(), None)
        };
        let gone = |minor| Op::ClassDel {
            dev: wan.clone(),
            classid: Handle::class(1, minor),
        };
        let mut all = |ops: &[Op]| {
            let bytes = ops.iter().map(|op| encode(op, &|_| None).unwrap());
            lab.socket.request_all(&bytes.collect::<Vec<_>>())
        };
        all(&[]).unwrap();
        let classes = (1..=60).map(|minor| Op::ClassAdd(class(minor, 100)));
        all(&[Op::QdiscAdd(root)]
            .into_iter()
            .chain(classes)
            .collect::<Vec<_>>())
        .unwrap();
        let refused = all(&[
            Op::ClassChange(class(1, 200)),
            gone(0x998),
            gone(0x999),
            gone(60),
        ]);
        let (which, why) = refused.unwrap_err();
        assert_eq!((which, why.errno), (1, Errno::ENOENT));
        // The last of all may be the one.
        let (which, _) = all(&[gone(59), gone(59)]).unwrap_err();
        assert_eq!(which, 1);
        all(&[gone(58)]).unwrap();
        assert_eq!(lab.classes("wan").len(), 57);
    });
}
