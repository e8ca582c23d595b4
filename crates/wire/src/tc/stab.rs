//! Size tables (`TCA_STAB_*`, `struct tc_sizespec`; `qdisc_get_stab`, net/sched/sch_api.c).
//!
//! The kernel reports a table's head and never its data.

use evenkeel_core::tc::{LinkLayer, Stab};

use crate::attr::{Writer, find, u32_at};

const BASE: u16 = 1;
const DATA: u16 = 2;

/// `TC_LINKLAYER_*`, by number.
const LINKLAYER: [LinkLayer; 3] = [LinkLayer::Unaware, LinkLayer::Ethernet, LinkLayer::Atm];

/// `struct tc_sizespec`: cell_log, size_log, cell_align, overhead, linklayer, mpu, mtu, tsize.
pub(super) fn encode(w: &mut Writer, stab: &Stab) {
    let mut base = vec![stab.cell_log, stab.size_log];
    base.extend(stab.cell_align.to_ne_bytes());
    base.extend(stab.overhead.to_ne_bytes());
    let layer = LINKLAYER.iter().position(|l| *l == stab.linklayer);
    for field in [
        layer.unwrap_or(0) as u32,
        stab.mpu,
        stab.mtu,
        stab.data.len() as u32,
    ] {
        base.extend(field.to_ne_bytes());
    }
    w.bytes(BASE, &base);
    if !stab.data.is_empty() {
        let data: Vec<u8> = stab.data.iter().flat_map(|v| v.to_ne_bytes()).collect();
        w.bytes(DATA, &data);
    }
}

/// A report has the head only, so `data` is empty there, whatever `tsize` says.
pub(super) fn decode(options: &[u8]) -> Option<Stab> {
    let base = find(options, BASE)?;
    let data = find(options, DATA).unwrap_or_default();
    let head = u32_at(base, 0)?.to_ne_bytes();
    Some(Stab {
        cell_log: head[0],
        size_log: head[1],
        cell_align: i16::from_ne_bytes([head[2], head[3]]),
        overhead: u32_at(base, 4)? as i32,
        linklayer: LINKLAYER
            .get(u32_at(base, 8)? as usize)
            .copied()
            .unwrap_or_default(),
        mpu: u32_at(base, 12)?,
        mtu: u32_at(base, 16)?,
        data: data
            .chunks_exact(2)
            .map(|v| u16::from_ne_bytes([v[0], v[1]]))
            .collect(),
    })
}
