//! The CAKE backend: one discipline per direction does it all.
//!
//! Principles: what sch_cake decides well by itself (sparse flows, AQM, DSCP) is left to it; it
//! is told the framing, the direction, and whom to be fair to. Non-goal: cake_mq.

use super::filters;
use super::handles::EGRESS;
use super::side::Side;
use crate::tc::{AckFilter, Cake, Diffserv, FlowMode, Handle, Op, Qdisc, QdiscSpec};

/// While a line is followed no more waits at CAKE from us than leaves in so long, s, at the most that the line carried of late:
/// beyond it the longest queue is dropped from (`cake_drop`), which is that of whoever sends more than its share and obeys no
/// signal (decisions 0133, 0140).
const HOLDS: u128 = 2;
/// Memory that a byte of a packet takes: an skb of 1514 bytes has a `truesize` of 2304, those of small packets more.
const MEMORY_PER_BYTE: u128 = 2;
/// Room for some packets of each flow, bytes.
const LEAST_MEMORY: u128 = 64 * 1024;
/// CAKE's own limit is this or what comes in four intervals, bytes (sch_cake.c, `cake_reconfigure`).
const OWN_MEMORY: u128 = 4 << 20;

impl Side<'_> {
    /// CAKE as it is to be, complete, so that the same message makes and changes it.
    pub(super) fn cake(&self) -> QdiscSpec {
        let thin_acks = self.very_asymmetric && !self.ingress;
        QdiscSpec {
            dev: self.dev.clone(),
            parent: Handle::ROOT,
            handle: Handle::qdisc(self.major),
            qdisc: Qdisc::Cake(Cake {
                bandwidth: Some(self.rate),
                diffserv: Some(Diffserv::Diffserv4),
                // Fair to the hosts of the LAN: they send what leaves, they receive what arrives.
                flow_mode: Some(if self.ingress {
                    FlowMode::DualDsthost
                } else {
                    FlowMode::DualSrchost
                }),
                nat: Some(true),
                wash: Some(false),
                ingress: Some(self.ingress),
                ack_filter: Some(if thin_acks {
                    AckFilter::Aggressive
                } else {
                    AckFilter::Off
                }),
                split_gso: Some(true),
                framing: Some(self.framing),
                rtt: self.interval,
                memlimit: self.memlimit(),
                ..Cake::default()
            }),
            stab: None,
        }
    }

    /// How much memory the queue from us may take while a line is followed, and no more than CAKE's own limit; 0: that limit.
    /// `None`: nobody follows it. Neither the cut of a moment nor a line that falls drops what came while more left.
    fn memlimit(&self) -> Option<u32> {
        let interval = self.interval.filter(|_| !self.ingress)?;
        let Some(peak) = self.peak.map(|p| u128::from(p.bytes_per_sec())) else {
            return Some(0);
        };
        let own = 4 * peak * interval.as_micros() / 1_000_000;
        let held = HOLDS * MEMORY_PER_BYTE * peak;
        let memory = held.clamp(LEAST_MEMORY, own.max(OWN_MEMORY));
        Some(u32::try_from(memory).unwrap_or(u32::MAX))
    }

    /// Filters at clsact's egress for what CAKE cannot see by itself, if the kernel can set a
    /// packet's priority.
    pub(super) fn cake_hints(&self, then: Option<&str>) -> Vec<Op> {
        filters::hints(self, Handle::CLSACT_EGRESS, EGRESS, then)
    }
}
