//! CAKE as an expert types it: a share of the true rate, the right framing, an IFB.
//!
//! ```text
//! tc qdisc add dev wan root cake bandwidth 95% diffserv4 dual-srchost nat [ack-filter] FRAMING
//! tc qdisc add dev ifb root cake bandwidth 95% diffserv4 dual-dsthost nat ingress FRAMING
//! ```
//! Principle: tc-cake(8) and its examples, nothing of ours. Non-goal: rates that change
//! (`autorate`).

use evenkeel_core::Rate;
use evenkeel_core::tc::{AckFilter, Cake, Diffserv, FlowMode, Handle, Op, Qdisc};

use super::parts::{IFB, Place, divert, ifb, qdisc};

/// Shaped to these rates, towards us and from us.
pub(super) fn ops(place: &Place<'_>, down: Rate, up: Rate) -> Vec<Op> {
    let line = place.line;
    let both = Cake {
        diffserv: Some(Diffserv::Diffserv4),
        nat: Some(true),
        framing: Some(line.framing),
        ..Cake::default()
    };
    // "ack-filter where very asymmetric": beyond 10:1.
    let thin = line.down.bps() > 10 * line.up.bps();
    let egress = Cake {
        bandwidth: Some(up),
        flow_mode: Some(FlowMode::DualSrchost),
        ack_filter: thin.then_some(AckFilter::On),
        ..both.clone()
    };
    let ingress = Cake {
        bandwidth: Some(down),
        flow_mode: Some(FlowMode::DualDsthost),
        ingress: Some(true),
        ..both
    };
    let root = |dev, cake| qdisc(dev, Handle::ROOT, 1, Qdisc::Cake(cake), None);
    let mut ops = ifb(vec![root(IFB, ingress)]);
    ops.push(root(place.wan, egress));
    ops.extend(divert(place.wan));
    ops
}
