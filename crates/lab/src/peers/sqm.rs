//! sqm-scripts' `simple.qos`: HTB in three tiers with fq_codel leaves, both directions.
//!
//! Its design: a class of the whole rate; below it priority (ceiling a third), best effort and
//! background (a sixth each, ceiling 16 kbit/s below the rate); framing by a size table at the
//! root; fq_codel with ECN on what arrives only, its target raised to one and a half packets'
//! time on slow lines; bursts and quanta of 1 ms; DSCP CS1 to background, CS6, EF, AF42 and
//! minimum delay to priority, as are ICMP and DNS on the way out.
//! CeroWRT of seed 002 ran the same design. Without link-layer adaptation packets count as the
//! kernel sees them. Principle: the shape and the numbers of the design, not the script.
//! Non-goals: per-host fairness and GRO handling, which it does not do either.

use std::time::Duration;

use evenkeel_core::framing::Mode;
use evenkeel_core::result::LineFacts;
use evenkeel_core::tc::{ClassSpec, FqCodel, Handle, HtbClass, HtbRoot, Op, Protocol, Qdisc, Stab};
use evenkeel_core::{Framing, Rate};

use super::parts::{IFB, Place, Share, divert, filter, ifb, qdisc, rule};

/// What was typed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) share: Share,
    pub(super) framing: Layer,
}

/// What was typed under "link layer".
#[derive(Debug, Clone, Copy)]
pub(super) enum Layer {
    /// Nothing.
    Untold,
    /// What the line has.
    Right,
    /// ATM with this overhead before the IP packet.
    Atm(i16),
}

impl Layer {
    /// As a framing on `line`.
    pub(super) fn of(self, line: &LineFacts) -> Option<Framing> {
        match self {
            Layer::Untold => None,
            Layer::Right => Some(line.framing),
            Layer::Atm(overhead) => Some(Framing::new(Mode::Atm, overhead, 0)),
        }
    }
}

const PRIORITY: u16 = 0x11;
const BEST_EFFORT: u16 = 0x12;
const BACKGROUND: u16 = 0x13;

pub(super) fn ops(place: &Place<'_>, settings: Settings) -> Vec<Op> {
    let line = place.line;
    let framing = settings.framing.of(line);
    let tree = |dev, rate, ingress| {
        Tree {
            dev,
            rate,
            ingress,
            framing,
            link_header: place.link_header,
            frame: place.mtu + u32::from(place.link_header),
        }
        .ops()
    };
    let mut ops = ifb(tree(IFB, Share::of(line.down, settings.share.down), true));
    ops.extend(tree(
        place.wan,
        Share::of(line.up, settings.share.up),
        false,
    ));
    ops.extend(divert(place.wan));
    ops
}

/// CeroWRT before anything is configured: fq_codel on the device, unshaped, so that the queue
/// stays in the modem.
pub(super) fn router_defaults(place: &Place<'_>) -> Vec<Op> {
    let leaf = FqCodel {
        quantum: Some(300),
        ..FqCodel::default()
    };
    vec![qdisc(
        place.wan,
        Handle::ROOT,
        1,
        Qdisc::FqCodel(leaf),
        None,
    )]
}

struct Tree<'a> {
    dev: &'a str,
    rate: Rate,
    ingress: bool,
    framing: Option<Framing>,
    link_header: u16,
    /// Longest frame, bytes.
    frame: u32,
}

impl Tree<'_> {
    fn ops(&self) -> Vec<Op> {
        let root = HtbRoot {
            default: BEST_EFFORT.into(),
            ..HtbRoot::default()
        };
        let stab = self
            .framing
            .map(|f| Stab::from_framing(f, self.link_header));
        let mut ops = vec![qdisc(self.dev, Handle::ROOT, 1, Qdisc::Htb(root), stab)];
        let kbit = self.rate.kbit();
        let share = |part: u64| Rate::from_kbit((kbit / part).max(8));
        let below = Rate::from_kbit(kbit.saturating_sub(16).max(8));
        ops.push(self.class(Handle::qdisc(1), 1, self.rate, self.rate, None));
        let tiers = [
            (PRIORITY, share(3), share(3), 1),
            (BEST_EFFORT, share(6), below, 2),
            (BACKGROUND, share(6), below, 3),
        ];
        for (minor, rate, ceil, prio) in tiers {
            ops.push(self.class(Handle::class(1, 1), minor, rate, ceil, Some(prio)));
            ops.push(qdisc(
                self.dev,
                Handle::class(1, minor),
                minor * 0x10,
                Qdisc::FqCodel(self.leaf()),
                None,
            ));
        }
        ops.extend(self.filters());
        ops
    }

    fn class(&self, parent: Handle, minor: u16, rate: Rate, ceil: Rate, prio: Option<u32>) -> Op {
        let millisecond = self.rate.bytes_in(Duration::from_millis(1));
        let burst = u32::try_from(millisecond)
            .unwrap_or(u32::MAX)
            .max(self.frame);
        Op::ClassAdd(ClassSpec {
            dev: self.dev.into(),
            parent,
            classid: Handle::class(1, minor),
            class: HtbClass {
                burst,
                cburst: burst,
                quantum: Some(burst),
                prio,
                ..HtbClass::new(rate, ceil)
            },
        })
    }

    fn leaf(&self) -> FqCodel {
        let five = Duration::from_millis(5);
        // One and a half packets at this rate, where that is more than 5 ms.
        let packet = self.rate.time_for(u64::from(self.frame) * 3 / 2);
        let target = packet.unwrap_or(five).max(five);
        FqCodel {
            limit: Some(1001),
            quantum: Some(if self.ingress { 1514 } else { 300 }),
            target: Some(target),
            interval: Some(Duration::from_millis(95) + target),
            ecn: Some(self.ingress),
            ..FqCodel::default()
        }
    }

    fn filters(&self) -> Vec<Op> {
        let root = Handle::qdisc(1);
        let tos = |dscp: u32| (dscp << 18, 0x00fc_0000, 0);
        let mut rules = vec![
            (vec![tos(8)], BACKGROUND),
            (vec![tos(48)], PRIORITY),
            (vec![tos(46)], PRIORITY),
            (vec![tos(36)], PRIORITY),
            (vec![tos(4)], PRIORITY),
        ];
        if !self.ingress {
            rules.push((vec![(0x0001_0000, 0x00ff_0000, 8)], PRIORITY));
            // UDP, no IP options, to port 53.
            let dns = vec![
                (0x0500_0000, 0x0f00_0000, 0),
                (0x0011_0000, 0x00ff_0000, 8),
                (53, 0x0000_ffff, 20),
            ];
            rules.push((dns, PRIORITY));
        }
        (1..)
            .zip(rules)
            .map(|(pref, (keys, minor))| {
                let class = Some(Handle::class(1, minor));
                filter(
                    self.dev,
                    root,
                    pref,
                    Protocol::Ip,
                    rule(&keys, class, Vec::new()),
                )
            })
            .collect()
    }
}
