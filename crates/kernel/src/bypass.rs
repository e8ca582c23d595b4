//! What makes shaping a lie: connections that pass a device's hardware, and a second shaper on the same way.
//!
//! Principles: only what is seen in this kernel is said, each with what to do; what cannot be asked (for want of rights,
//! or on a kernel without it) is not said. Non-goals: undoing it, other machines' shapers.

use evenkeel_core::tc::Qdisc;
use evenkeel_sys::ifreq;
use evenkeel_sys::netlink::Socket;
use evenkeel_wire::flowtable::{Flowtable, dump_flowtables};
use evenkeel_wire::link::LinkInfo;
use evenkeel_wire::messages;
use evenkeel_wire::tc::QdiscBody;

use crate::{Error, Session};

/// Root disciplines that hold packets back to a rate. CAKE only if it is told one.
const SHAPERS: [&str; 4] = ["cake", "htb", "tbf", "hfsc"];

/// What is wrong around `device`, in sentences.
pub(crate) fn bypasses(session: &mut Session, device: &str) -> Result<Vec<String>, Error> {
    let mut all: Vec<String> = flowtables()
        .iter()
        .filter(|f| f.devices.iter().any(|d| d == device))
        .map(said)
        .collect();
    // Devices that cannot be asked have no such thing.
    if ifreq::feature(device, "hw-tc-offload") == Ok(Some(true)) {
        all.push(format!(
            "{device} may carry out traffic control's filters in hardware, where packets pass no queue: `ethtool -K {device} hw-tc-offload off`"
        ));
    }
    let links = session.links()?;
    if let Some(ours) = links.iter().find(|l| l.name == device) {
        for other in links.iter().filter(|l| same_way(ours, l)) {
            if shapes(session, other)? {
                all.push(format!(
                    "{} shapes by {} as well, and packets of {device} pass it: the slower of both has the queue",
                    other.name, other.qdisc
                ));
            }
        }
    }
    Ok(all)
}

fn said(f: &Flowtable) -> String {
    if f.hardware {
        format!(
            "connections in nftables' flowtable {} {} are forwarded by hardware, past every queue: remove `flags offload`",
            f.table, f.name
        )
    } else {
        format!(
            "connections in nftables' flowtable {} {} skip netfilter, and marks that it would set: they are shaped, but rules by mark may not see them",
            f.table, f.name
        )
    }
}

/// All flowtables; none where they cannot be asked for.
fn flowtables() -> Vec<Flowtable> {
    let Ok(mut socket) = Socket::open_netfilter() else {
        return Vec::new();
    };
    let answer = socket.dump(&dump_flowtables()).unwrap_or_default();
    let read = |bytes: &Vec<u8>| {
        let all = messages(bytes).filter_map(|m| Flowtable::decode(&m));
        all.collect::<Vec<_>>()
    };
    answer.iter().flat_map(read).collect()
}

/// Whether packets of `ours` pass the other device too: one stands on the other. What PPP stands on the kernel does not
/// tell; it is hardware.
fn same_way(ours: &LinkInfo, other: &LinkInfo) -> bool {
    let stands_on = |a: &LinkInfo, b: &LinkInfo| {
        a.index != b.index
            && a.kind != "veth"
            && (a.lower == b.index || a.kind == "ppp" && b.kind.is_empty() && b.name != "lo")
    };
    stands_on(ours, other) || stands_on(other, ours)
}

fn shapes(session: &mut Session, link: &LinkInfo) -> Result<bool, Error> {
    if !SHAPERS.contains(&link.qdisc.as_str()) {
        return Ok(false);
    }
    if link.qdisc != "cake" {
        return Ok(true);
    }
    let told =
        |b: &QdiscBody| matches!(b, QdiscBody::Known(Qdisc::Cake(c)) if c.bandwidth.is_some());
    Ok(session.qdiscs(link.index)?.iter().any(|q| told(&q.body)))
}
