//! The CAKE backend: one discipline per direction does it all.
//!
//! Principles: what sch_cake decides well by itself (sparse flows, AQM, DSCP) is left to it; it
//! is told the framing, the direction, and whom to be fair to. Non-goal: cake_mq.

use super::filters;
use super::handles::EGRESS;
use super::side::Side;
use crate::tc::{AckFilter, Cake, Diffserv, FlowMode, Handle, Op, Qdisc, QdiscSpec};

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
                ..Cake::default()
            }),
            stab: None,
        }
    }

    /// Filters at clsact's egress for what CAKE cannot see by itself, if the kernel can set a
    /// packet's priority.
    pub(super) fn cake_hints(&self, then: Option<&str>) -> Vec<Op> {
        filters::hints(self, Handle::CLSACT_EGRESS, EGRESS, then)
    }
}
