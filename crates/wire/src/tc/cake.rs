//! CAKE's options (`TCA_CAKE_*`, include/uapi/linux/pkt_sched.h; `cake_policy`, sch_cake.c).
//!
//! Principles: framing is always sent whole (mode, overhead, mpu), so a change can take an mpu
//! back, which tc cannot; `raw` is never sent. Non-goal: autorate-ingress, which is switched off.

use std::time::Duration;

use evenkeel_core::framing::Mode;
use evenkeel_core::tc::{AckFilter, Cake, Diffserv, FlowMode};
use evenkeel_core::{Framing, Rate};

use super::ticks::micros;
use crate::attr::{Writer, attrs, u32_at, u64_at};

const BASE_RATE64: u16 = 2;
const DIFFSERV_MODE: u16 = 3;
const ATM: u16 = 4;
const FLOW_MODE: u16 = 5;
const OVERHEAD: u16 = 6;
const RTT: u16 = 7;
const TARGET: u16 = 8;
const AUTORATE: u16 = 9;
const MEMORY: u16 = 10;
const NAT: u16 = 11;
const RAW: u16 = 12;
const WASH: u16 = 13;
const MPU: u16 = 14;
const INGRESS: u16 = 15;
const ACK_FILTER: u16 = 16;
const SPLIT_GSO: u16 = 17;
const FWMARK: u16 = 18;

/// `CAKE_DIFFSERV_*`, by number.
const DIFFSERV: [Diffserv; 5] = [
    Diffserv::Diffserv3,
    Diffserv::Diffserv4,
    Diffserv::Diffserv8,
    Diffserv::Besteffort,
    Diffserv::Precedence,
];
/// `CAKE_FLOW_*`, by number.
const FLOW: [FlowMode; 8] = [
    FlowMode::Flowblind,
    FlowMode::Srchost,
    FlowMode::Dsthost,
    FlowMode::Hosts,
    FlowMode::Flows,
    FlowMode::DualSrchost,
    FlowMode::DualDsthost,
    FlowMode::TripleIsolate,
];
/// `CAKE_ACK_*`, by number.
const ACK: [AckFilter; 3] = [AckFilter::Off, AckFilter::On, AckFilter::Aggressive];
/// `CAKE_ATM_*`, by number.
const MODE: [Mode; 3] = [Mode::None, Mode::Atm, Mode::Ptm];

/// The number of `value` in one of the tables above.
fn number<T: PartialEq + Copy>(table: &[T], value: Option<T>) -> Option<u32> {
    let value = value?;
    table.iter().position(|v| *v == value).map(|i| i as u32)
}

/// The value with that number.
fn value<T: Copy>(table: &[T], bytes: &[u8]) -> Option<T> {
    table.get(u32_at(bytes, 0)? as usize).copied()
}

pub(super) fn encode(w: &mut Writer, cake: &Cake) {
    if let Some(rate) = cake.bandwidth {
        w.u64(BASE_RATE64, rate.bytes_per_sec());
    }
    w.u32_if(DIFFSERV_MODE, number(&DIFFSERV, cake.diffserv));
    w.u32_if(ATM, number(&MODE, cake.framing.map(|f| f.mode)));
    w.u32_if(FLOW_MODE, number(&FLOW, cake.flow_mode));
    if let Some(framing) = cake.framing {
        w.u32(OVERHEAD, i32::from(framing.overhead) as u32);
        w.u32(MPU, u32::from(framing.mpu));
    }
    w.u32_if(RTT, cake.rtt.map(micros));
    w.u32_if(TARGET, cake.target_sent().map(micros));
    // As tc: whoever sets a rate by hand ends autorate.
    w.u32_if(AUTORATE, cake.bandwidth.map(|_| 0));
    w.u32_if(MEMORY, cake.memlimit);
    w.u32_if(FWMARK, cake.fwmark);
    w.u32_if(NAT, cake.nat.map(u32::from));
    w.u32_if(WASH, cake.wash.map(u32::from));
    w.u32_if(SPLIT_GSO, cake.split_gso.map(u32::from));
    w.u32_if(INGRESS, cake.ingress.map(u32::from));
    w.u32_if(ACK_FILTER, number(&ACK, cake.ack_filter));
}

/// `cake_dump`: every option is there. Framing is `None` where the kernel counts raw lengths.
pub(super) fn decode(options: &[u8]) -> Cake {
    let mut cake = Cake::default();
    let (mut mode, mut overhead, mut mpu, mut raw) = (Mode::None, None, 0, false);
    for (kind, v) in attrs(options) {
        let number = u32_at(v, 0);
        let flag = number.map(|n| n != 0);
        let time = number.map(|n| Duration::from_micros(u64::from(n)));
        match kind {
            BASE_RATE64 => {
                cake.bandwidth = u64_at(v, 0).map(|r| Rate::from_bps(r.saturating_mul(8)));
            }
            DIFFSERV_MODE => cake.diffserv = value(&DIFFSERV, v),
            ATM => mode = value(&MODE, v).unwrap_or_default(),
            FLOW_MODE => cake.flow_mode = value(&FLOW, v),
            OVERHEAD => overhead = number.map(|n| n as i32),
            MPU => mpu = number.unwrap_or(0),
            RAW => raw = true,
            RTT => cake.rtt = time,
            TARGET => cake.target = time,
            MEMORY => cake.memlimit = number,
            FWMARK => cake.fwmark = number,
            NAT => cake.nat = flag,
            WASH => cake.wash = flag,
            SPLIT_GSO => cake.split_gso = flag,
            INGRESS => cake.ingress = flag,
            ACK_FILTER => cake.ack_filter = value(&ACK, v),
            _ => {}
        }
    }
    cake.framing = overhead.filter(|_| !raw).and_then(|overhead| {
        let overhead = i16::try_from(overhead).ok()?;
        Some(Framing::new(mode, overhead, u16::try_from(mpu).ok()?))
    });
    cake
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `overhead 0 raw` is what `cake_dump` reports where no framing was set.
    #[test]
    fn raw_lengths_are_no_framing() {
        let mut w = Writer::default();
        w.u32(OVERHEAD, 0).u32(MPU, 0).u32(ATM, 0);
        let framed = w.finish();
        assert_eq!(decode(&framed).framing, Some(Framing::default()));
        let mut w = Writer::new(framed);
        w.u32(RAW, 0);
        assert_eq!(decode(&w.finish()).framing, None);
    }
}
