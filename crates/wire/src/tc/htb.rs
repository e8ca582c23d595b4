//! HTB's root and classes (`TCA_HTB_*`, include/uapi/linux/pkt_sched.h; sch_htb.c).
//!
//! Principle: no rate tables. tc still sends two of 1024 bytes per class; the kernel has not
//! looked at them since 3.8 where the link layer is told. Non-goal: offload.

use evenkeel_core::tc::{HtbClass, HtbRoot};

use super::ticks::{RATESPEC, bytes, link, rate, rate64, ratespec, ticks};
use crate::attr::{Writer, find, u32_at, u64_at};

const PARMS: u16 = 1;
const INIT: u16 = 2;
const DIRECT_QLEN: u16 = 5;
const RATE64: u16 = 6;
const CEIL64: u16 = 7;

/// `HTB_VER >> 16` (sch_htb.c): the kernel refuses another major version.
const VERSION: u32 = 3;
/// What tc sends where nothing is said, and the kernel's own default.
const R2Q: u32 = 10;

/// `struct tc_htb_glob`: version, rate2quantum, defcls, debug, direct_pkts.
pub(super) fn encode_root(w: &mut Writer, htb: &HtbRoot) {
    let glob = [VERSION, htb.r2q.unwrap_or(R2Q), htb.default, 0, 0];
    w.bytes(INIT, &glob.map(u32::to_ne_bytes).concat());
    w.u32_if(DIRECT_QLEN, htb.direct_qlen);
}

pub(super) fn decode_root(options: &[u8]) -> Option<HtbRoot> {
    let glob = find(options, INIT)?;
    Some(HtbRoot {
        default: u32_at(glob, 8)?,
        r2q: Some(u32_at(glob, 4)?),
        direct_qlen: find(options, DIRECT_QLEN).and_then(|v| u32_at(v, 0)),
    })
}

/// `struct tc_htb_opt`: rate, ceil, buffer, cbuffer, quantum, level, prio.
pub(super) fn encode_class(w: &mut Writer, class: &HtbClass) {
    for (kind, rate) in [(RATE64, class.rate), (CEIL64, class.ceil)] {
        if let Some(rate) = rate64(rate) {
            w.u64(kind, rate);
        }
    }
    let mut opt = [
        ratespec(class.rate, class.link),
        ratespec(class.ceil, class.link),
    ]
    .concat();
    for field in [
        ticks(class.rate, class.burst),
        ticks(class.ceil, class.cburst),
        class.quantum.unwrap_or(0),
        0,
        class.prio.unwrap_or(0),
    ] {
        opt.extend(field.to_ne_bytes());
    }
    w.bytes(PARMS, &opt);
}

/// Bursts come back as what their ticks make of the rate: equal, or a tick's worth more.
pub(super) fn decode_class(options: &[u8]) -> Option<HtbClass> {
    let opt = find(options, PARMS)?;
    let wide = |kind| find(options, kind).and_then(|v| u64_at(v, 0));
    let (rate, ceil) = (
        rate(opt, 0, wide(RATE64))?,
        rate(opt, RATESPEC, wide(CEIL64))?,
    );
    let field = |i: usize| u32_at(opt, 2 * RATESPEC + 4 * i);
    Some(HtbClass {
        rate,
        ceil,
        burst: bytes(rate, field(0)?),
        cburst: bytes(ceil, field(1)?),
        quantum: field(2).filter(|q| *q != 0),
        prio: Some(field(4)?),
        link: link(opt, 0)?,
    })
}
