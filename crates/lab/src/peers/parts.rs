//! What several peers are made of: shares of the line, and the operations that their authors type.
//!
//! Non-goals: which peer is made of which.

use evenkeel_core::framing::Mode;
use evenkeel_core::result::LineFacts;
use evenkeel_core::tc::{
    Action, Dev, Filter, FilterKind, Handle, LinkSettings, Matchall, Op, Protocol, Qdisc,
    QdiscSpec, Stab, U32, U32Key,
};
use evenkeel_core::{Framing, Rate};

/// The device that a peer builds for arrivals. The gateway's namespace is its own.
pub(super) const IFB: &str = "ifb4wan";

/// A share of the line's rates, (to us, from us), as fractions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) down: (u64, u64),
    pub(super) up: (u64, u64),
}

impl Share {
    pub(super) const fn percent(n: u64) -> Self {
        Share {
            down: (n, 100),
            up: (n, 100),
        }
    }

    pub(super) fn of(rate: Rate, (n, d): (u64, u64)) -> Rate {
        Rate::from_kbit(rate.kbit().saturating_mul(n) / d)
    }
}

/// Facts about the place that the author of a peer would have looked up.
pub(super) struct Place<'a> {
    pub(super) wan: &'a str,
    /// Bytes before the IP packet in its frames.
    pub(super) link_header: u16,
    pub(super) mtu: u32,
    pub(super) line: &'a LineFacts,
    /// Whether u32 can look at marks; no lab sets any.
    pub(super) marks: bool,
}

pub(super) fn qdisc(
    dev: &str,
    parent: Handle,
    handle: u16,
    qdisc: Qdisc,
    stab: Option<Stab>,
) -> Op {
    Op::QdiscAdd(QdiscSpec {
        dev: dev.into(),
        parent,
        handle: Handle::qdisc(handle),
        qdisc,
        stab,
    })
}

/// `tc qdisc add dev DEV handle ffff: ingress`
pub(super) fn ingress(dev: &str) -> Op {
    Op::QdiscAdd(QdiscSpec {
        dev: dev.into(),
        parent: Handle::INGRESS,
        handle: Handle::INGRESS_QDISC,
        qdisc: Qdisc::Ingress,
        stab: None,
    })
}

pub(super) fn filter(
    dev: &str,
    parent: Handle,
    pref: u16,
    protocol: Protocol,
    kind: FilterKind,
) -> Op {
    Op::FilterAdd {
        dev: dev.into(),
        filter: Filter {
            parent,
            pref,
            protocol,
            handle: 0,
            kind,
        },
    }
}

/// A u32 rule for IPv4: keys of (value, mask, offset).
pub(super) fn rule(
    keys: &[(u32, u32, i32)],
    classid: Option<Handle>,
    actions: Vec<Action>,
) -> FilterKind {
    let keys = keys.iter().map(|&(val, mask, off)| U32Key {
        val,
        mask,
        off,
        nexthdr: false,
    });
    FilterKind::U32(U32 {
        keys: keys.collect(),
        classid,
        actions,
        ..U32::default()
    })
}

/// Makes the IFB with `root` on it.
pub(super) fn ifb(root: Vec<Op>) -> Vec<Op> {
    let mut ops = vec![Op::LinkAddIfb { name: IFB.into() }];
    ops.extend(root);
    ops.push(Op::LinkSet {
        name: IFB.into(),
        settings: LinkSettings {
            up: Some(true),
            ..LinkSettings::default()
        },
    });
    ops
}

/// Sends everything that arrives through the IFB.
pub(super) fn divert(wan: &str) -> [Op; 2] {
    let all = FilterKind::Matchall(Matchall {
        classid: None,
        actions: vec![Action::Redirect {
            dev: Dev::from(IFB),
        }],
    });
    [
        ingress(wan),
        filter(wan, Handle::INGRESS_QDISC, 10, Protocol::All, all),
    ]
}

/// Whether the line's framing is in cells.
pub(super) fn is_atm(framing: Framing) -> bool {
    framing.mode == Mode::Atm
}
