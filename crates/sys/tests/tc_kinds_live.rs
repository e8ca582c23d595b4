//! Every kind of queueing discipline, filter and action: what was asked for is what the kernel
//! reports.
//!
//! Principles: this machine's kernel may lack a kind, if its own words say so; Debian's
//! user-mode-linux, where the last test runs all of them again, must have every one. Needs root.

use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use evenkeel_core::framing::PRESETS;
use evenkeel_core::tc::{
    AckFilter, Action, Cake, Diffserv, Filter, FilterKind, FlowMode, FqCodel, Handle, LinkLayer,
    Mark, Matchall, Op, Protocol, Qdisc, QdiscSpec, Sfq, U32, Verdict,
};
use evenkeel_core::{Framing, Rate};
use evenkeel_sys::Netns;
use evenkeel_sys::netlink::{NetlinkError, Socket};
use evenkeel_wire::link::{LinkInfo, dump_links};
use evenkeel_wire::tc::stats::AppStats;
use evenkeel_wire::{
    FilterBody, FilterInfo, QdiscBody, QdiscInfo, dump_filters, dump_qdiscs, encode,
};

/// A socket in a namespace with an IFB.
struct Lab {
    socket: Socket,
    index: u32,
}

impl Lab {
    fn apply(&mut self, op: &Op) -> Result<(), NetlinkError> {
        let index = self.index;
        self.socket.request(&encode(op, &|_| Some(index)).unwrap())
    }

    /// False: this machine's kernel lacks it.
    fn has(&mut self, op: &Op) -> bool {
        match self.apply(op) {
            Ok(()) => true,
            Err(e) if e.is_unknown_kind() && !is_guest() => {
                eprintln!("only in User Mode Linux: {op}: {e}");
                false
            }
            Err(e) => panic!("{op}: {e}"),
        }
    }

    fn root(&mut self) -> QdiscInfo {
        let answer = self.socket.dump(&dump_qdiscs()).unwrap();
        let mut all = answer.iter().flat_map(|m| QdiscInfo::all(m));
        all.find(|q| q.ifindex == self.index && q.parent == Handle::ROOT)
            .expect("a root qdisc")
    }

    fn filters(&mut self, parent: Handle) -> Vec<FilterInfo> {
        let request = dump_filters(self.index, parent);
        let answer = self.socket.dump(&request).unwrap();
        answer.iter().flat_map(|m| FilterInfo::all(m)).collect()
    }
}

fn is_guest() -> bool {
    std::env::var_os("EVENKEEL_UML").is_some()
}

/// Whether we are root; says that `test` is skipped if not.
fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        // Past the test harness, which hides the output of what passes.
        let _ = writeln!(std::io::stderr(), "SKIP {test}: needs root");
    }
    root
}

fn lab(name: &str, test: impl FnOnce(&mut Lab) + Send) {
    if !is_root(name) {
        return;
    }
    let ns = Netns::new(name).unwrap();
    ns.run(|| {
        let mut lab = Lab {
            socket: Socket::open_route().unwrap(),
            index: 0,
        };
        lab.apply(&Op::LinkAddIfb { name: "wan".into() }).unwrap();
        let links = lab.socket.dump(&dump_links()).unwrap();
        let mut links = links.iter().flat_map(|m| LinkInfo::all(m));
        lab.index = links.find(|l| l.name == "wan").unwrap().index;
        test(&mut lab);
    })
    .unwrap();
}

fn root(qdisc: Qdisc) -> QdiscSpec {
    QdiscSpec {
        dev: "wan".into(),
        parent: Handle::ROOT,
        handle: Handle::qdisc(1),
        qdisc,
        stab: None,
    }
}

#[test]
fn cake() {
    lab("cake", |lab| {
        let mut cake = Cake {
            bandwidth: Some(Rate::from_kbit(39_000)),
            diffserv: Some(Diffserv::Diffserv4),
            flow_mode: Some(FlowMode::DualSrchost),
            nat: Some(false),
            wash: Some(true),
            ingress: Some(true),
            ack_filter: Some(AckFilter::Aggressive),
            split_gso: Some(true),
            rtt: Some(Duration::from_millis(30)),
            target: Some(Duration::from_micros(1_500)),
            memlimit: Some(4_000_000),
            fwmark: Some(0xf0),
            framing: Some(Framing::default()),
        };
        if !lab.has(&Op::QdiscAdd(root(Qdisc::Cake(cake.clone())))) {
            return;
        }
        // In place, through every framing; the mpu goes back to 0, too.
        for (name, framing) in PRESETS {
            cake.framing = Some(framing);
            let op = Op::QdiscChange(root(Qdisc::Cake(cake.clone())));
            lab.apply(&op).unwrap_or_else(|e| panic!("{op}: {e}"));
            let got = lab.root();
            assert_eq!(
                got.body,
                QdiscBody::Known(Qdisc::Cake(cake.clone())),
                "{name}"
            );
            let AppStats::Cake(stats) = got.stats.app else {
                panic!("{got:?}")
            };
            assert_eq!(stats.tins.len(), 4);
            assert!(stats.tins[3].threshold < cake.bandwidth.unwrap());
        }
        // Only the rate: all else stays.
        cake.bandwidth = Some(Rate::from_kbit(38_500));
        let only = Cake {
            bandwidth: cake.bandwidth,
            ..Cake::default()
        };
        lab.apply(&Op::QdiscChange(root(Qdisc::Cake(only))))
            .unwrap();
        assert_eq!(lab.root().body, QdiscBody::Known(Qdisc::Cake(cake)));
    });
}

#[test]
fn fq_codel_and_sfq() {
    lab("fq_codel_and_sfq", |lab| {
        let fq = FqCodel {
            limit: Some(1000),
            flows: Some(512),
            quantum: Some(300),
            target: Some(Duration::from_millis(5)),
            interval: Some(Duration::from_millis(100)),
            ecn: Some(true),
            ce_threshold: None,
            memory_limit: Some(4_000_000),
            drop_batch: Some(32),
        };
        if lab.has(&Op::QdiscReplace(root(Qdisc::FqCodel(fq.clone())))) {
            let got = lab.root();
            assert!(matches!(got.stats.app, AppStats::FqCodel(_)), "{got:?}");
            let QdiscBody::Known(Qdisc::FqCodel(got)) = got.body else {
                panic!("{got:?}")
            };
            // Times are kept in 1024 ns.
            let near = |a: Option<Duration>, b: Option<Duration>| {
                a.unwrap().abs_diff(b.unwrap()) <= Duration::from_micros(2)
            };
            assert!(
                near(got.target, fq.target) && near(got.interval, fq.interval),
                "{got:?}"
            );
            let (target, interval) = (fq.target, fq.interval);
            assert_eq!(
                FqCodel {
                    target,
                    interval,
                    ..got
                },
                fq
            );
        }
        let sfq = Sfq {
            limit: Some(100),
            perturb: Some(10),
            quantum: Some(1514),
            divisor: Some(1024),
            flows: Some(64),
            depth: Some(20),
            headdrop: true,
        };
        if lab.has(&Op::QdiscReplace(QdiscSpec {
            handle: Handle::qdisc(2),
            ..root(Qdisc::Sfq(sfq.clone()))
        })) {
            assert_eq!(lab.root().body, QdiscBody::Known(Qdisc::Sfq(sfq)));
        }
        let fifo = Qdisc::Pfifo { limit: Some(20) };
        lab.apply(&Op::QdiscReplace(QdiscSpec {
            handle: Handle::qdisc(3),
            ..root(fifo.clone())
        }))
        .unwrap();
        assert_eq!(lab.root().body, QdiscBody::Known(fifo));
    });
}

#[test]
fn matchall_and_actions() {
    lab("matchall_and_actions", |lab| {
        lab.apply(&Op::QdiscAdd(QdiscSpec {
            parent: Handle::INGRESS,
            handle: Handle::NONE,
            ..root(Qdisc::Clsact)
        }))
        .unwrap();
        let police = |exceed, conform| Action::Police {
            // Whole ticks, so that the burst comes back.
            rate: Rate::from_kbit(8_000),
            burst: 64_000,
            mtu: Some(65_535),
            layer: LinkLayer::Ethernet,
            exceed,
            conform,
        };
        let lists = [
            vec![
                Action::Skbedit {
                    priority: Handle::class(1, 0x10),
                },
                Action::Gact(Verdict::Ok),
            ],
            vec![Action::Gact(Verdict::Drop)],
            vec![Action::Gact(Verdict::Continue)],
            vec![police(Verdict::Drop, Verdict::Ok)],
            vec![
                police(Verdict::Continue, Verdict::Pipe),
                Action::Gact(Verdict::Reclassify),
            ],
        ];
        for (i, actions) in lists.into_iter().enumerate() {
            let matchall = FilterKind::Matchall(Matchall {
                classid: None,
                actions: actions.clone(),
            });
            let u32 = FilterKind::U32(U32 {
                actions,
                ..U32::default()
            });
            for (pref, kind) in [(10 + i as u16, matchall), (50 + i as u16, u32)] {
                let filter = Filter {
                    parent: Handle::CLSACT_EGRESS,
                    pref,
                    protocol: Protocol::All,
                    handle: 0,
                    kind,
                };
                let op = Op::FilterAdd {
                    dev: "wan".into(),
                    filter: filter.clone(),
                };
                if !lab.has(&op) {
                    continue;
                }
                let reported = lab.filters(Handle::CLSACT_EGRESS);
                let found = reported.iter().any(|f| match (&f.body, &filter.kind) {
                    _ if f.pref != pref => false,
                    (FilterBody::Known(FilterKind::U32(got)), FilterKind::U32(asked)) => {
                        got.actions == asked.actions
                    }
                    (FilterBody::Known(got), asked) => got == asked,
                    (FilterBody::Raw(_), _) => false,
                });
                assert!(found, "{op}: {reported:#?}");
            }
        }
    });
}

#[test]
fn u32_marks() {
    lab("u32_marks", |lab| {
        lab.apply(&Op::QdiscAdd(QdiscSpec {
            parent: Handle::INGRESS,
            handle: Handle::NONE,
            ..root(Qdisc::Clsact)
        }))
        .unwrap();
        let mark = Some(Mark {
            val: 10,
            mask: 0xff,
        });
        let op = Op::FilterAdd {
            dev: "wan".into(),
            filter: Filter {
                parent: Handle::CLSACT_EGRESS,
                pref: 11,
                protocol: Protocol::All,
                handle: 0,
                kind: FilterKind::U32(U32 {
                    mark,
                    classid: Some(Handle::class(1, 0x12)),
                    ..U32::default()
                }),
            },
        };
        lab.apply(&op).unwrap();
        let reported = lab.filters(Handle::CLSACT_EGRESS);
        let got = reported.iter().find_map(|f| match &f.body {
            FilterBody::Known(FilterKind::U32(got)) if got.classid.is_some() => Some(got.mark),
            _ => None,
        });
        // Without CONFIG_CLS_U32_MARK the kernel leaves the mark out and says nothing.
        let lacks = got == Some(None) && !is_guest();
        assert!(got == Some(mark) || lacks, "{op}: {reported:#?}");
    });
}

/// Everything above once more, on a kernel that has every kind.
#[test]
fn all_kinds_in_user_mode_linux() {
    if is_guest() || !is_root("all_kinds_in_user_mode_linux") {
        return;
    }
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let out = Command::new(format!("{top}/scripts/uml/run"))
        .args(["--ro", top, "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--test-threads=1"])
        .output()
        .expect("run scripts/uml/run");
    let text = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}\n{errors}");
    assert!(text.contains("5 passed"), "not all ran:\n{text}");
}
