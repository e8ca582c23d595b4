//! Whatever we encode decodes to the same; whatever is cut, flipped or made up never panics.

use std::time::Duration;

use evenkeel_core::framing::Mode;
use evenkeel_core::tc::{
    AckFilter, Action, Bpf, Cake, ClassSpec, Dev, Diffserv, Filter, FilterKind, FlowMode, FqCodel,
    Handle, HashKey, HtbClass, HtbLink, HtbRoot, LinkLayer, Mark, Matchall, Offset, Op, Protocol,
    Qdisc, QdiscSpec, Sfq, Stab, Tbf, U32, U32Handle, U32Key, VarOffset, Verdict,
};
use evenkeel_core::{Framing, Rate};
use evenkeel_wire::attr::Writer;
use evenkeel_wire::link::LinkInfo;
use evenkeel_wire::tc::ClassBody;
use evenkeel_wire::{ClassInfo, FilterBody, FilterInfo, QdiscBody, QdiscInfo, encode, messages};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

/// Whole byte/s, as the kernel keeps it.
fn rate() -> impl Strategy<Value = Rate> {
    (1_000u64..50_000_000_000).prop_map(|bytes| Rate::from_bps(bytes * 8))
}

fn time() -> impl Strategy<Value = Duration> {
    any::<u32>().prop_map(|us| Duration::from_micros(us.into()))
}

fn handle() -> impl Strategy<Value = Handle> {
    any::<u32>().prop_map(Handle)
}

fn nonzero() -> impl Strategy<Value = u32> {
    1..=u32::MAX
}

prop_compose! {
    fn framing()(
        mode in select(vec![Mode::None, Mode::Atm, Mode::Ptm]),
        overhead in -64i16..=256,
        mpu in 0u16..=256,
    ) -> Framing {
        Framing { mode, overhead, mpu }
    }
}

fn cake() -> impl Strategy<Value = Cake> {
    use {AckFilter as A, Diffserv as D, FlowMode as F};
    let diffserv = vec![
        D::Diffserv3,
        D::Diffserv4,
        D::Diffserv8,
        D::Besteffort,
        D::Precedence,
    ];
    let flow = vec![
        F::Flowblind,
        F::Srchost,
        F::Dsthost,
        F::Hosts,
        F::Flows,
        F::DualSrchost,
        F::DualDsthost,
        F::TripleIsolate,
    ];
    let ack = vec![A::Off, A::On, A::Aggressive];
    (
        (
            of(rate()),
            of(select(diffserv)),
            of(select(flow)),
            of(any::<bool>()),
            of(any::<bool>()),
        ),
        (
            of(any::<bool>()),
            of(select(ack)),
            of(any::<bool>()),
            of(time()),
            of(time()),
        ),
        (of(any::<u32>()), of(any::<u32>()), of(framing())),
    )
        .prop_map(|(a, b, c)| {
            let (bandwidth, diffserv, flow_mode, nat, wash) = a;
            let (ingress, ack_filter, split_gso, rtt, target) = b;
            let (memlimit, fwmark, framing) = c;
            let cake = Cake {
                bandwidth,
                diffserv,
                flow_mode,
                nat,
                wash,
                ingress,
                ack_filter,
                split_gso,
                rtt,
                target,
                memlimit,
                fwmark,
                framing,
            };
            // What is sent where only an rtt is given.
            Cake {
                target: cake.target_sent(),
                ..cake
            }
        })
}

prop_compose! {
    fn fq_codel()(
        (limit, flows, quantum) in (of(any::<u32>()), of(any::<u32>()), of(any::<u32>())),
        (target, interval, ce_threshold) in (of(time()), of(time()), of(time())),
        (ecn, memory_limit, drop_batch) in (of(any::<bool>()), of(any::<u32>()), of(any::<u32>())),
    ) -> FqCodel {
        FqCodel { limit, flows, quantum, target, interval, ecn, ce_threshold, memory_limit, drop_batch }
    }
}

prop_compose! {
    fn sfq()(
        (quantum, perturb, limit) in (of(nonzero()), of(nonzero()), of(nonzero())),
        (divisor, flows, depth, headdrop) in
            (of(nonzero()), of(nonzero()), of(nonzero()), any::<bool>()),
    ) -> Sfq {
        Sfq { quantum, perturb, limit, divisor, flows, depth, headdrop }
    }
}

fn qdisc() -> impl Strategy<Value = Qdisc> {
    prop_oneof![
        cake().prop_map(Qdisc::Cake),
        (any::<u32>(), any::<u32>(), of(any::<u32>())).prop_map(|(default, r2q, direct_qlen)| {
            Qdisc::Htb(HtbRoot {
                default,
                r2q: Some(r2q),
                direct_qlen,
            })
        }),
        fq_codel().prop_map(Qdisc::FqCodel),
        sfq().prop_map(Qdisc::Sfq),
        (rate(), any::<u32>(), any::<u32>()).prop_map(|(rate, burst, limit)| Qdisc::Tbf(Tbf {
            rate,
            burst,
            limit
        })),
        of(any::<u32>()).prop_map(|limit| Qdisc::Bfifo { limit }),
        of(any::<u32>()).prop_map(|limit| Qdisc::Pfifo { limit }),
        Just(Qdisc::Ingress),
        Just(Qdisc::Clsact),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    use Verdict as V;
    select(vec![V::Ok, V::Drop, V::Pipe, V::Continue, V::Reclassify])
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        any::<u32>().prop_map(|i| Action::Redirect { dev: Dev::Index(i) }),
        verdict().prop_map(Action::Gact),
        handle().prop_map(|priority| Action::Skbedit { priority }),
        (of(nonzero()), any::<bool>(), verdict(), verdict()).prop_map(
            |(mtu, atm, exceed, conform)| Action::Police {
                // Whole ticks, so that the burst comes back: 64 ns at 8 Gbit/s are 64 bytes.
                rate: Rate::from_kbit(8_000_000),
                burst: 64_000,
                mtu,
                layer: if atm {
                    LinkLayer::Atm
                } else {
                    LinkLayer::Ethernet
                },
                exceed,
                conform,
            }
        ),
    ]
}

prop_compose! {
    fn key()(mask: u32, val: u32, off: i32, nexthdr: bool) -> U32Key {
        U32Key { val: val & mask, mask, off, nexthdr }
    }
}

fn offset() -> impl Strategy<Value = Offset> {
    let var = (any::<i16>(), any::<u16>(), any::<u8>()).prop_map(|(at, mask, shift)| VarOffset {
        at,
        mask,
        shift,
    });
    (of(any::<u16>()), of(var), any::<bool>())
        .prop_map(|(plus, var, eat)| Offset { plus, var, eat })
        .prop_filter("nothing said", |o| *o != Offset::default())
}

prop_compose! {
    fn u32_rule()(
        (ht, link) in (of(any::<u32>()), of(any::<u32>())),
        keys in vec(key(), 1..8),
        mark in of((any::<u32>(), any::<u32>())),
        hashkey in of((nonzero(), any::<i16>())),
        offset in of(offset()),
        classid in of(handle()),
        actions in vec(action(), 0..4),
    ) -> U32 {
        U32 {
            divisor: None,
            ht: ht.map(U32Handle),
            keys,
            mark: mark.map(|(val, mask)| Mark { val, mask }),
            link: link.map(U32Handle),
            hashkey: hashkey.map(|(mask, at)| HashKey { mask, at }),
            offset,
            classid,
            actions,
        }
    }
}

fn filter_kind() -> impl Strategy<Value = FilterKind> {
    prop_oneof![
        u32_rule().prop_map(FilterKind::U32),
        any::<u32>().prop_map(|d| FilterKind::U32(U32 {
            divisor: Some(d),
            ..U32::default()
        })),
        (of(handle()), vec(action(), 0..4))
            .prop_map(|(classid, actions)| FilterKind::Matchall(Matchall { classid, actions })),
        (0..1000i32, "[a-z/:]{0,20}", of(handle()), any::<bool>()).prop_map(
            |(fd, name, classid, direct_action)| {
                FilterKind::Bpf(Bpf {
                    fd,
                    id: None,
                    name,
                    classid,
                    direct_action,
                })
            }
        ),
    ]
}

fn filter_op() -> impl Strategy<Value = Op> {
    (
        handle(),
        any::<u16>(),
        any::<u16>(),
        any::<u32>(),
        filter_kind(),
    )
        .prop_map(|(parent, pref, protocol, handle, kind)| Op::FilterAdd {
            dev: Dev::Index(7),
            filter: Filter {
                parent,
                pref,
                protocol: Protocol::from_ethertype(protocol),
                handle,
                kind,
            },
        })
}

prop_compose! {
    fn class_op()(
        (parent, classid) in (handle(), handle()),
        (rate, ceil, burst, cburst) in (rate(), rate(), 0u32..1 << 20, 0u32..1 << 20),
        (quantum, prio) in (of(nonzero()), any::<u32>()),
        (overhead, mpu, atm) in (any::<u16>(), any::<u16>(), any::<bool>()),
    ) -> Op {
        let layer = if atm { LinkLayer::Atm } else { LinkLayer::Ethernet };
        let link = HtbLink { overhead, mpu, layer };
        let class = HtbClass { rate, ceil, burst, cburst, quantum, prio: Some(prio), link };
        Op::ClassAdd(ClassSpec { dev: Dev::Index(7), parent, classid, class })
    }
}

fn qdisc_op() -> impl Strategy<Value = Op> {
    let stab = of((framing(), 0u16..20).prop_map(|(f, header)| Stab::from_framing(f, header)));
    (handle(), handle(), qdisc(), stab).prop_map(|(parent, handle, qdisc, stab)| {
        let dev = Dev::Index(7);
        Op::QdiscAdd(QdiscSpec {
            dev,
            parent,
            handle,
            qdisc,
            stab,
        })
    })
}

fn bytes_of(op: &Op) -> Vec<u8> {
    encode(op, &|_| None).unwrap()
}

/// All decoders on one buffer.
fn decode_all(bytes: &[u8]) -> usize {
    messages(bytes).for_each(|m| {
        m.acknowledgement();
    });
    QdiscInfo::all(bytes).count()
        + ClassInfo::all(bytes).count()
        + FilterInfo::all(bytes).count()
        + LinkInfo::all(bytes).count()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn qdiscs(op in qdisc_op()) {
        let Op::QdiscAdd(spec) = &op else { unreachable!() };
        let infos: Vec<_> = QdiscInfo::all(&bytes_of(&op)).collect();
        prop_assert_eq!(infos.len(), 1);
        prop_assert_eq!(infos[0].ifindex, 7);
        prop_assert_eq!(infos[0].parent, spec.parent);
        prop_assert_eq!(&infos[0].body, &QdiscBody::Known(spec.qdisc.clone()));
        prop_assert_eq!(&infos[0].stab, &spec.stab);
    }

    #[test]
    fn classes(op in class_op()) {
        let Op::ClassAdd(spec) = &op else { unreachable!() };
        let infos: Vec<_> = ClassInfo::all(&bytes_of(&op)).collect();
        let ClassBody::Htb(got) = infos[0].body else { panic!("{infos:?}") };
        let asked = spec.class;
        for (got, asked, rate) in
            [(got.burst, asked.burst, asked.rate), (got.cburst, asked.cburst, asked.ceil)]
        {
            let tick = 1 + rate.bytes_in(Duration::from_nanos(64)) as u32;
            // Never less, but for a bucket that takes longer than ticks can count.
            let longest = rate.bytes_in(Duration::from_nanos(64) * u32::MAX);
            prop_assert!(u64::from(got) >= u64::from(asked).min(longest).saturating_sub(1));
            prop_assert!(got <= asked + tick);
        }
        prop_assert_eq!(HtbClass { burst: asked.burst, cburst: asked.cburst, ..got }, asked);
        prop_assert_eq!((infos[0].classid, infos[0].parent), (spec.classid, spec.parent));
    }

    #[test]
    fn filters(op in filter_op()) {
        let Op::FilterAdd { filter, .. } = &op else { unreachable!() };
        let infos: Vec<_> = FilterInfo::all(&bytes_of(&op)).collect();
        let info = &infos[0];
        prop_assert_eq!(&info.body, &FilterBody::Known(filter.kind.clone()));
        prop_assert_eq!(
            (info.parent, info.pref, info.protocol, info.handle),
            (filter.parent, filter.pref, filter.protocol, filter.handle)
        );
    }

    /// Kinds that we do not know keep their bytes.
    #[test]
    fn unknown_kinds(options in vec(any::<u8>(), 0..64)) {
        for (op, kind) in [("qdisc", 36u16), ("class", 40), ("filter", 44)] {
            let mut head = vec![0; 36];
            head[4..6].copy_from_slice(&kind.to_ne_bytes());
            let mut w = Writer::new(head);
            w.text(1, "hfsc").bytes(2, &options);
            let mut bytes = w.finish();
            let length = bytes.len() as u32;
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            let kept = match op {
                "qdisc" => QdiscInfo::all(&bytes).next().map(|i| i.body == QdiscBody::Raw(options.clone())),
                "class" => ClassInfo::all(&bytes).next().map(|i| i.body == ClassBody::Raw(options.clone())),
                _ => FilterInfo::all(&bytes).next().map(|i| i.body == FilterBody::Raw(options.clone())),
            };
            prop_assert_eq!(kept, Some(true));
        }
    }

    /// A message that is cut, with its length corrected or not, and with bytes flipped.
    #[test]
    fn cut_and_flipped_messages_never_panic(
        op in prop_oneof![qdisc_op(), class_op(), filter_op()],
        cut in any::<prop::sample::Index>(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = bytes_of(&op);
        // Flips fall where lengths and types are: the table at the end of a message is dull.
        let lively = bytes.len().min(400);
        for (at, with) in flips {
            bytes[at.index(lively)] ^= with;
        }
        decode_all(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        decode_all(&bytes);
        if bytes.len() >= 4 {
            let length = bytes.len() as u32;
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            decode_all(&bytes);
        }
    }

    /// Made-up attributes of our kinds, behind a right header.
    #[test]
    fn made_up_attributes_never_panic(
        kind in select(vec![16u16, 36, 40, 44]),
        name in select(vec![
            "cake", "htb", "fq_codel", "sfq", "tbf", "bfifo", "pfifo", "u32", "matchall", "bpf",
        ]),
        attributes in vec((0u16..24, vec(any::<u8>(), 0..40)), 0..12),
        stats: Vec<u8>,
    ) {
        let mut head = vec![0; if kind == 16 { 32 } else { 36 }];
        head[4..6].copy_from_slice(&kind.to_ne_bytes());
        let mut w = Writer::new(head);
        w.text(1, name);
        w.nest(2, |w| attributes.iter().for_each(|(k, v)| { w.bytes(*k, v); }));
        w.nest(8, |w| attributes.iter().for_each(|(k, v)| { w.bytes(*k, v); }));
        w.bytes(7, &stats);
        for (k, v) in &attributes {
            w.bytes(*k + 12, v);
        }
        let mut bytes = w.finish();
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        decode_all(&bytes);
    }

    #[test]
    fn noise_never_panics(bytes: Vec<u8>) {
        decode_all(&bytes);
    }

    /// Every operation prints one line.
    #[test]
    fn prints_one_line(op in prop_oneof![qdisc_op(), class_op(), filter_op()]) {
        let text = op.to_string();
        prop_assert!(text.starts_with("tc ") && !text.contains('\n'), "{}", text);
    }
}
