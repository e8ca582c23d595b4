//! trafficcontrol-inetgw (Stern, Linux-Magazin 2010), listing 1, line by line.
//!
//! Out: three HTB classes of a third each with the whole rate as ceiling, SFQ below them, and
//! its filters. In: policing in three steps at 98, 99 and 100 %, where the second drops what is
//! longer than 1023 bytes. `linklay atm` charges whole cells but knows no overhead.
//! Today's words for what is refused now: `police rate 0kbit` is a drop; `action ipt` is gone,
//! and its mark (20) was read by nobody; `fw` filters on marks are u32's match on marks. The
//! third policer drops what conforms as well, as printed.
//! Principle: the listing, with its integer arithmetic. Non-goal: lines that are not IPv4.

use evenkeel_core::Rate;
use evenkeel_core::tc::{
    Action, ClassSpec, FilterKind, Handle, HtbClass, HtbLink, HtbRoot, LinkLayer, Mark, Op,
    Protocol, Qdisc, Sfq, U32, Verdict,
};

use super::parts::{Place, Share, filter, ingress, is_atm, qdisc, rule};

const LOW_LATENCY: u16 = 0x10;
const DEFAULT: u16 = 0x11;
const SECOND_ORDER: u16 = 0x12;

/// What tc gives a class without `burst` on kernels with fine clocks: its table's MTU.
pub(super) const TC_BURST: u32 = 1600;

pub(super) fn ops(place: &Place<'_>, share: Share) -> Vec<Op> {
    let layer = if is_atm(place.line.framing) {
        LinkLayer::Atm
    } else {
        LinkLayer::Ethernet
    };
    let up = Share::of(place.line.up, share.up).kbit();
    let down = Share::of(place.line.down, share.down).kbit();
    let mut ops = uplink(place, up, layer);
    ops.extend(downlink(place.wan, down, layer));
    ops
}

fn uplink(place: &Place<'_>, up: u64, layer: LinkLayer) -> Vec<Op> {
    let dev = place.wan;
    let whole = Rate::from_kbit(up);
    let third = Rate::from_kbit(up / 3);
    // Lines 62-70: quanta by hand only where the default would be below a packet.
    let small = (up / 10 * 128 / 3 < 1500).then_some(1500);
    let big = (up / 10 * 128 < 1500).then_some(1500);
    let class = |parent, minor, rate, quantum, prio| {
        Op::ClassAdd(ClassSpec {
            dev: dev.into(),
            parent,
            classid: Handle::class(1, minor),
            class: HtbClass {
                burst: TC_BURST,
                cburst: TC_BURST,
                quantum,
                prio,
                link: HtbLink {
                    layer,
                    ..HtbLink::default()
                },
                ..HtbClass::new(rate, whole)
            },
        })
    };
    let root = HtbRoot {
        default: DEFAULT.into(),
        ..HtbRoot::default()
    };
    let mut ops = vec![
        qdisc(dev, Handle::ROOT, 1, Qdisc::Htb(root), None),
        class(Handle::qdisc(1), 1, whole, big, None),
    ];
    for (prio, minor) in (0..).zip([LOW_LATENCY, DEFAULT, SECOND_ORDER]) {
        ops.push(class(Handle::class(1, 1), minor, third, small, Some(prio)));
    }
    for minor in [LOW_LATENCY, DEFAULT, SECOND_ORDER] {
        let sfq = Sfq {
            perturb: Some(10),
            ..Sfq::default()
        };
        ops.push(qdisc(
            dev,
            Handle::class(1, minor),
            minor,
            Qdisc::Sfq(sfq),
            None,
        ));
    }
    ops.extend(classes(dev, place.marks));
    ops
}

/// Lines 103-135: the first that matches counts.
fn classes(dev: &str, marks: bool) -> Vec<Op> {
    let to = |minor| Some(Handle::class(1, minor));
    let on = |pref, kind| filter(dev, Handle::qdisc(1), pref, Protocol::Ip, kind);
    // TCP, no IP options, shorter than 64 bytes.
    let ack = [
        (0x0006_0000, 0x00ff_0000, 8),
        (0x0500_0000, 0x0f00_0000, 0),
        (0, 0x0000_ffc0, 0),
    ];
    let keys = |keys: &[_], minor| rule(keys, to(minor), Vec::new());
    let mut ops = vec![
        on(22, keys(&ack, LOW_LATENCY)),
        on(10, keys(&[(0x0010_0000, 0x00ff_0000, 0)], LOW_LATENCY)),
        on(24, keys(&[(0x0001_0000, 0x00ff_0000, 8)], LOW_LATENCY)),
        on(50, keys(&[(0, 0, 16)], DEFAULT)),
    ];
    // A kernel that cannot look at marks would match everything.
    if marks {
        for (pref, val, minor) in [
            (16, 10, LOW_LATENCY),
            (18, 11, DEFAULT),
            (20, 12, SECOND_ORDER),
        ] {
            let mark = FilterKind::U32(U32 {
                mark: Some(Mark {
                    val,
                    mask: u32::MAX,
                }),
                classid: to(minor),
                ..U32::default()
            });
            ops.push(on(pref, mark));
        }
    }
    ops
}

/// What its policers let through of `down` together: 98 %, and 1 % more.
pub(super) const fn policed_kbit(down: u64) -> u64 {
    let second = down / 100;
    down * 98 / 100 + if second > 0 { second } else { 1 }
}

/// Lines 140-178.
fn downlink(dev: &str, down: u64, layer: LinkLayer) -> Vec<Op> {
    let all = [(0, 0, 12)];
    let one = Some(Handle::class(0, 1));
    let police = |percent: u64, burst_k: u32, exceed, conform| {
        vec![Action::Police {
            rate: Rate::from_kbit((down * percent / 100).max(1)),
            burst: burst_k * 1024,
            mtu: None,
            layer,
            exceed,
            conform,
        }]
    };
    let drop = || vec![Action::Gact(Verdict::Drop)];
    // Total length with bit 10 or bit 11 set: 1024 bytes and more.
    let long = |bit: u32| [(bit, bit, 0)];
    let steps = [
        (
            110,
            rule(&all, one, police(98, 6, Verdict::Continue, Verdict::Ok)),
        ),
        (
            120,
            rule(&all, one, police(1, 8, Verdict::Continue, Verdict::Ok)),
        ),
        (121, rule(&long(0x0400), one, drop())),
        (122, rule(&long(0x0800), one, drop())),
        (
            130,
            rule(&all, one, police(1, 10, Verdict::Drop, Verdict::Drop)),
        ),
    ];
    let filters = steps
        .into_iter()
        .map(|(pref, kind)| filter(dev, Handle::INGRESS_QDISC, pref, Protocol::Ip, kind));
    std::iter::once(ingress(dev)).chain(filters).collect()
}
