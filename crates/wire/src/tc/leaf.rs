//! The plain disciplines: fq_codel, SFQ, TBF and the FIFOs.
//!
//! Principle: an option of zero that means "default" to the kernel is `None`. Non-goals: SFQ's
//! RED and TBF's peak rate.

use std::time::Duration;

use evenkeel_core::tc::{FqCodel, HtbLink, Sfq, Tbf};

use super::ticks::{RATESPEC, bytes, micros, rate, rate64, ratespec, ticks};
use crate::attr::{Writer, attrs, find, u32_at, u64_at};

// TCA_FQ_CODEL_* (include/uapi/linux/pkt_sched.h).
const FQ_TARGET: u16 = 1;
const FQ_LIMIT: u16 = 2;
const FQ_INTERVAL: u16 = 3;
const FQ_ECN: u16 = 4;
const FQ_FLOWS: u16 = 5;
const FQ_QUANTUM: u16 = 6;
const FQ_CE_THRESHOLD: u16 = 7;
const FQ_DROP_BATCH: u16 = 8;
const FQ_MEMORY_LIMIT: u16 = 9;

// TCA_TBF_* (include/uapi/linux/pkt_sched.h).
const TBF_PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_BURST: u16 = 6;

pub(super) fn encode_fq_codel(w: &mut Writer, fq: &FqCodel) {
    w.u32_if(FQ_LIMIT, fq.limit);
    w.u32_if(FQ_FLOWS, fq.flows);
    w.u32_if(FQ_QUANTUM, fq.quantum);
    w.u32_if(FQ_INTERVAL, fq.interval.map(micros));
    w.u32_if(FQ_TARGET, fq.target.map(micros));
    w.u32_if(FQ_ECN, fq.ecn.map(u32::from));
    w.u32_if(FQ_CE_THRESHOLD, fq.ce_threshold.map(micros));
    w.u32_if(FQ_MEMORY_LIMIT, fq.memory_limit);
    w.u32_if(FQ_DROP_BATCH, fq.drop_batch);
}

/// The kernel keeps times in units of 1024 ns, so 5 ms comes back as 4.999 ms.
pub(super) fn decode_fq_codel(options: &[u8]) -> FqCodel {
    let mut fq = FqCodel::default();
    for (kind, v) in attrs(options) {
        let number = u32_at(v, 0);
        let time = number.map(|n| Duration::from_micros(u64::from(n)));
        match kind {
            FQ_LIMIT => fq.limit = number,
            FQ_FLOWS => fq.flows = number,
            FQ_QUANTUM => fq.quantum = number,
            FQ_INTERVAL => fq.interval = time,
            FQ_TARGET => fq.target = time,
            FQ_ECN => fq.ecn = number.map(|n| n != 0),
            FQ_CE_THRESHOLD => fq.ce_threshold = time,
            FQ_MEMORY_LIMIT => fq.memory_limit = number,
            FQ_DROP_BATCH => fq.drop_batch = number,
            _ => {}
        }
    }
    fq
}

/// `struct tc_sfq_qopt_v1`, 72 bytes: quantum, perturb, limit, divisor, flows, depth, headdrop,
/// then RED's fields and statistics, all zero. Nothing at all where nothing is set.
pub(super) fn sfq_options(sfq: &Sfq) -> Option<Vec<u8>> {
    if *sfq == Sfq::default() {
        return None;
    }
    let mut opt: Vec<u8> = [
        sfq.quantum,
        sfq.perturb,
        sfq.limit,
        sfq.divisor,
        sfq.flows,
        sfq.depth,
        Some(u32::from(sfq.headdrop)),
    ]
    .iter()
    .flat_map(|v| v.unwrap_or(0).to_ne_bytes())
    .collect();
    opt.resize(72, 0);
    Some(opt)
}

pub(super) fn decode_sfq(opt: &[u8]) -> Sfq {
    let field = |i: usize| u32_at(opt, 4 * i).filter(|v| *v != 0);
    Sfq {
        quantum: field(0),
        perturb: field(1),
        limit: field(2),
        divisor: field(3),
        flows: field(4),
        depth: field(5),
        headdrop: field(6).is_some(),
    }
}

/// `struct tc_tbf_qopt`: rate, peakrate, limit, buffer, mtu.
pub(super) fn encode_tbf(w: &mut Writer, tbf: &Tbf) {
    let mut opt = ratespec(tbf.rate, HtbLink::default()).to_vec();
    opt.extend([0; RATESPEC]);
    for field in [tbf.limit, ticks(tbf.rate, tbf.burst), 0] {
        opt.extend(field.to_ne_bytes());
    }
    w.bytes(TBF_PARMS, &opt);
    w.u32(TBF_BURST, tbf.burst);
    if let Some(rate) = rate64(tbf.rate) {
        w.u64(TBF_RATE64, rate);
    }
}

/// The kernel does not report the burst in bytes (`tbf_dump`): it is what its ticks make
/// of it, a byte or a tick's worth off.
pub(super) fn decode_tbf(options: &[u8]) -> Option<Tbf> {
    let opt = find(options, TBF_PARMS)?;
    let rate = rate(opt, 0, find(options, TBF_RATE64).and_then(|v| u64_at(v, 0)))?;
    let burst = find(options, TBF_BURST).and_then(|v| u32_at(v, 0));
    Some(Tbf {
        rate,
        limit: u32_at(opt, 2 * RATESPEC)?,
        burst: burst.or_else(|| Some(bytes(rate, u32_at(opt, 2 * RATESPEC + 4)?)))?,
    })
}

/// `struct tc_fifo_qopt`: the limit in bytes or packets.
pub(super) fn decode_fifo(opt: &[u8]) -> Option<u32> {
    u32_at(opt, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::Rate;

    /// Linux reports TBF's burst in ticks of 64 ns: 1600 bytes at 8 Mbit/s take 25000.
    #[test]
    fn a_burst_in_ticks() {
        let mut w = Writer::default();
        let mut opt = ratespec(Rate::from_kbit(8000), HtbLink::default()).to_vec();
        opt.extend([0; RATESPEC]);
        for field in [3000u32, 25_000, 0] {
            opt.extend(field.to_ne_bytes());
        }
        w.bytes(TBF_PARMS, &opt);
        let tbf = Tbf {
            rate: Rate::from_kbit(8000),
            limit: 3000,
            burst: 1600,
        };
        assert_eq!(decode_tbf(&w.finish()), Some(tbf));
    }
}
