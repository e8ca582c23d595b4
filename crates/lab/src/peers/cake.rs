//! CAKE as an expert types it: a share of the true rate, the right framing, an IFB.
//!
//! ```text
//! tc qdisc add dev wan root cake bandwidth 95% diffserv4 dual-srchost nat [ack-filter] FRAMING
//! tc qdisc add dev ifb root cake bandwidth 95% diffserv4 dual-dsthost nat ingress FRAMING
//! ```
//! Principle: tc-cake(8) and its examples, nothing of ours. Non-goal: autorate.

use evenkeel_core::tc::{AckFilter, Cake, Diffserv, FlowMode, Handle, Op, Qdisc};

use super::{IFB, Place, Share, divert, ifb, qdisc};

pub(super) fn ops(place: &Place<'_>, share: Share) -> Vec<Op> {
    let line = place.line;
    let both = Cake {
        diffserv: Some(Diffserv::Diffserv4),
        nat: Some(true),
        framing: Some(line.framing),
        ..Cake::default()
    };
    // "ack-filter where very asymmetric": beyond 10:1.
    let thin = line.down.bps() > 10 * line.up.bps();
    let up = Cake {
        bandwidth: Some(Share::of(line.up, share.up)),
        flow_mode: Some(FlowMode::DualSrchost),
        ack_filter: thin.then_some(AckFilter::On),
        ..both.clone()
    };
    let down = Cake {
        bandwidth: Some(Share::of(line.down, share.down)),
        flow_mode: Some(FlowMode::DualDsthost),
        ingress: Some(true),
        ..both
    };
    let root = |dev, cake| qdisc(dev, Handle::ROOT, 1, Qdisc::Cake(cake), None);
    let mut ops = ifb(vec![root(IFB, down)]);
    ops.push(root(place.wan, up));
    ops.extend(divert(place.wan));
    ops
}
