//! Wondershaper's HTB variant (Hubert, 2002): three classes with SFQ, and one policer.
//!
//! Out: interactive (the whole rate), default (nine tenths) and background (eight tenths), with
//! bursts of 6 kB; TOS minimum delay, ICMP and ACKs are interactive. In: whatever exceeds the
//! rate is dropped, whoever it belongs to. It knows no framing.
//! Principle: its three arguments, its numbers. Non-goal: its optional lists of unloved hosts
//! and ports, which are empty as shipped.

use evenkeel_core::Rate;
use evenkeel_core::tc::{
    Action, ClassSpec, Handle, HtbClass, HtbRoot, LinkLayer, Op, Protocol, Qdisc, Sfq, Verdict,
};

use super::parts::{Place, Share, filter, ingress, qdisc, rule};

const INTERACTIVE: u16 = 0x10;
const DEFAULT: u16 = 0x20;
const BACKGROUND: u16 = 0x30;
const BURST: u32 = 6 * 1024;

pub(super) fn ops(place: &Place<'_>, share: Share) -> Vec<Op> {
    let dev = place.wan;
    let up = Share::of(place.line.up, share.up).kbit();
    let class = |parent, minor, kbit, prio| {
        let rate = Rate::from_kbit(kbit);
        Op::ClassAdd(ClassSpec {
            dev: dev.into(),
            parent,
            classid: Handle::class(1, minor),
            class: HtbClass {
                burst: BURST,
                cburst: super::inetgw::TC_BURST,
                prio,
                ..HtbClass::new(rate, rate)
            },
        })
    };
    let root = HtbRoot {
        default: DEFAULT.into(),
        ..HtbRoot::default()
    };
    let mut ops = vec![
        qdisc(dev, Handle::ROOT, 1, Qdisc::Htb(root), None),
        class(Handle::qdisc(1), 1, up, None),
    ];
    for (minor, kbit, prio) in [
        (INTERACTIVE, up, 1),
        (DEFAULT, bulk_kbit(up), 2),
        (BACKGROUND, up * 8 / 10, 2),
    ] {
        ops.push(class(Handle::class(1, 1), minor, kbit, Some(prio)));
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
    ops.extend(classes(dev));
    let police = Action::Police {
        rate: Share::of(place.line.down, share.down),
        burst: 10 * 1024,
        mtu: None,
        layer: LinkLayer::Ethernet,
        exceed: Verdict::Drop,
        conform: Verdict::Ok,
    };
    let all = rule(&[(0, 0, 12)], Some(Handle::class(0, 1)), vec![police]);
    ops.push(ingress(dev));
    ops.push(filter(dev, Handle::INGRESS_QDISC, 50, Protocol::Ip, all));
    ops
}

/// What the default class may send of `up`.
pub(super) const fn bulk_kbit(up: u64) -> u64 {
    up * 9 / 10
}

fn classes(dev: &str) -> Vec<Op> {
    let on = |pref, keys: &[_], minor| {
        let kind = rule(keys, Some(Handle::class(1, minor)), Vec::new());
        filter(dev, Handle::qdisc(1), pref, Protocol::Ip, kind)
    };
    // TCP, no IP options, shorter than 64 bytes, the ACK bit.
    let ack = [
        (0x0006_0000, 0x00ff_0000, 8),
        (0x0500_0000, 0x0f00_0000, 0),
        (0, 0x0000_ffc0, 0),
        (0x0010_0000, 0x00ff_0000, 32),
    ];
    vec![
        on(10, &[(0x0010_0000, 0x00ff_0000, 0)], INTERACTIVE),
        on(11, &[(0x0001_0000, 0x00ff_0000, 8)], INTERACTIVE),
        on(12, &ack, INTERACTIVE),
        on(18, &[(0, 0, 16)], DEFAULT),
    ]
}
