//! The HTB backends: a root class at the rate, a class per tier, leaves below.
//!
//! Principles: tiers are guaranteed shares that add up to the rate and borrow the rest, the
//! urgent ones first; leaves have next to no rate of their own, so that they always borrow from
//! their tier and share it frame by frame (quantum of one frame). Every leaf is, or hangs below,
//! a TBF whose bucket holds one frame: it splits super-packets, so that each frame is scheduled
//! and charged by itself. Framing is charged by HTB per frame, after the split (record 0003
//! of docs/decisions says why not by a size table). A ceiling is a class beside the tiers, with the four tiers' leaves
//! below it; what it is guaranteed the tiers do without. Non-goal: fairness between hosts; only CAKE has that.

use std::time::Duration;

use super::filters;
use super::leaf::{BUCKETS, LIGHT, Leaf, limit_minor};
use super::side::Side;
use crate::classify::Tier;
use crate::framing::{Framing, Mode};
use crate::rules::Amount;
use crate::tc::{
    ClassSpec, FqCodel, Handle, HtbClass, HtbLink, HtbRoot, LinkLayer, Op, Qdisc, QdiscSpec, Tbf,
};
use crate::{Direction, PerDirection, Rate};

/// Minor of the class that holds the rate.
const ROOT_CLASS: u16 = 1;

/// A leaf's own rate: enough that HTB gives it tokens at all.
const LEAF_RATE: Rate = Rate::from_kbit(8);

/// Of the rate, thousandths: so much the ceilings that have no guarantee of their own get together, so that none starves,
/// and all guarantees together at most.
const USUAL_GUARANTEE: u64 = 200;
const MOST_GUARANTEED: u64 = 800;

/// No limit of a leaf's own, nor of a splitting TBF.
const UNLIMITED: Rate = Rate::MAX;

/// What HTB is told so that it charges a frame of the device what `framing` makes of it: how to
/// count, and by what the rate is to be scaled (n/d).
///
/// HTB knows overheads from zero on and cells, not 64b/65b: that is 1/64 more and at most one
/// byte, so one byte is added and the rate scaled. An overhead smaller than the device's own
/// header (IP over ATM without Ethernet, on an Ethernet device) counts as zero: up to six bytes
/// too many per packet, never too few.
pub fn htb_link(framing: Framing, link_header: u16) -> (HtbLink, (u64, u64)) {
    let relative = i32::from(framing.overhead) - i32::from(link_header);
    let (extra, layer, scale) = match framing.mode {
        Mode::None => (0, LinkLayer::Ethernet, (1, 1)),
        Mode::Atm => (0, LinkLayer::Atm, (1, 1)),
        Mode::Ptm => (1, LinkLayer::Ethernet, (64, 65)),
    };
    let overhead = (relative + extra).max(0) as u16;
    let mpu = if framing.mpu == 0 {
        0
    } else {
        framing.mpu + extra as u16
    };
    (
        HtbLink {
            overhead,
            mpu,
            layer,
        },
        scale,
    )
}

/// What a ceiling's class is told.
struct Ceiling {
    guaranteed: Rate,
    most: Rate,
}

impl Side<'_> {
    fn frame(&self) -> u32 {
        self.mtu + u32::from(self.link_header)
    }

    fn qdisc(&self, parent: Handle, major: u16, qdisc: Qdisc) -> QdiscSpec {
        QdiscSpec {
            dev: self.dev.clone(),
            parent,
            handle: Handle::qdisc(major),
            qdisc,
            stab: None,
        }
    }

    fn class(&self, parent: u16, minor: u16, class: HtbClass) -> ClassSpec {
        ClassSpec {
            dev: self.dev.clone(),
            parent: Handle::class(self.major, parent),
            classid: Handle::class(self.major, minor),
            class,
        }
    }

    /// The root class, the tiers, and the leaves below them if there are buckets.
    fn classes(&self, buckets: bool) -> Vec<ClassSpec> {
        let (link, (n, d)) = htb_link(self.framing, self.link_header);
        let rate = Rate::from_bps(self.rate.bps() * n / d);
        let frame = self.frame();
        let quantum = Some(frame);
        let burst = |rate| HtbClass::burst_for(rate).max(2 * frame);
        let ceilings = self.ceilings();
        let reserved: u64 = ceilings.iter().map(|c| c.guaranteed.bps()).sum();
        let shared = Rate::from_bps(rate.bps().saturating_sub(reserved));
        let mut classes = vec![self.class(
            0,
            ROOT_CLASS,
            HtbClass {
                rate,
                ceil: rate,
                burst: burst(rate),
                cburst: burst(rate),
                quantum,
                prio: None,
                link,
            },
        )];
        for (prio, tier) in (0..).zip(Tier::ALL) {
            let share = shared.permille(tier.share_permille());
            let minor = Leaf::Tier(tier).minor();
            classes.push(self.class(
                ROOT_CLASS,
                minor,
                HtbClass {
                    rate: share,
                    ceil: rate,
                    burst: burst(share),
                    cburst: burst(rate),
                    quantum,
                    prio: Some(prio),
                    link,
                },
            ));
            if !buckets {
                continue;
            }
            for bucket in 0..self.buckets() {
                // Light flows before heavy ones of the same tier.
                let turn = if self.programs {
                    2 * prio + u32::from(bucket < BUCKETS)
                } else {
                    prio
                };
                classes.push(self.class(
                    minor,
                    Leaf::Bucket(tier, bucket).minor(),
                    HtbClass {
                        rate: LEAF_RATE,
                        ceil: UNLIMITED,
                        burst: 1,        // one frame, then it borrows
                        cburst: 1 << 20, // 20 us at the highest rate
                        quantum,
                        prio: Some(turn),
                        link,
                    },
                ));
            }
        }
        classes.extend(self.ceiling_classes(&ceilings, buckets));
        classes
    }

    /// A class for each ceiling, and the tiers' below it.
    fn ceiling_classes(&self, ceilings: &[Ceiling], buckets: bool) -> Vec<ClassSpec> {
        let (link, _) = htb_link(self.framing, self.link_header);
        let frame = self.frame();
        let quantum = Some(frame);
        let burst = |rate| HtbClass::burst_for(rate).max(2 * frame);
        let mut classes = Vec::new();
        for (number, ceiling) in (1..).zip(ceilings) {
            let (rate, ceil) = (ceiling.guaranteed, ceiling.most);
            let own = HtbClass {
                rate,
                ceil,
                burst: burst(rate),
                cburst: burst(ceil),
                quantum,
                prio: None,
                link,
            };
            classes.push(self.class(ROOT_CLASS, limit_minor(number), own));
            for (prio, tier) in (0..).zip(Tier::ALL) {
                let leaf = HtbClass {
                    rate: LEAF_RATE,
                    ceil: UNLIMITED,
                    burst: 1,
                    cburst: 1 << 20,
                    quantum,
                    // As the tier's heavy flows, where those have places of their own.
                    prio: Some(if buckets && self.programs {
                        2 * prio + 1
                    } else {
                        prio
                    }),
                    link,
                };
                let minor = Leaf::Limit(number, tier).minor();
                classes.push(self.class(limit_minor(number), minor, leaf));
            }
        }
        classes
    }

    /// What the ceilings are at this rate, as HTB is to be told.
    fn ceilings(&self) -> Vec<Ceiling> {
        let (_, (n, d)) = htb_link(self.framing, self.link_header);
        let scaled = |rate: Rate| Rate::from_bps(rate.bps() * n / d);
        let rate = scaled(self.rate);
        let usual = rate.permille(USUAL_GUARANTEE / self.limits.len().max(1) as u64);
        let direction = if self.ingress {
            Direction::Down
        } else {
            Direction::Up
        };
        let of = |amount: Option<PerDirection<Amount>>| {
            amount.map(|a| scaled(a[direction].of(self.rate)))
        };
        let mut all: Vec<Ceiling> = self
            .limits
            .iter()
            .map(|limit| {
                let most = of(limit.max).unwrap_or(rate);
                let guaranteed = of(limit.min).unwrap_or(usual).min(most);
                Ceiling { guaranteed, most }
            })
            .collect();
        let sum: u64 = all.iter().map(|c| c.guaranteed.bps()).sum();
        let most = rate.permille(MOST_GUARANTEED).bps();
        for ceiling in &mut all {
            if sum > most {
                let share =
                    u128::from(ceiling.guaranteed.bps()) * u128::from(most) / u128::from(sum);
                ceiling.guaranteed = Rate::from_bps(share as u64);
            }
            // HTB has no rate of nought.
            ceiling.guaranteed = ceiling.guaranteed.max(LEAF_RATE).min(ceiling.most);
        }
        all
    }

    /// Bucket leaves of a tier.
    const fn buckets(&self) -> u8 {
        if self.programs {
            BUCKETS + LIGHT
        } else {
            BUCKETS
        }
    }

    /// Bytes that may wait in one bucket. From us: what a flow with a long way to go needs to
    /// keep the line busy after it backs off. Towards us: less, because a drop is the signal
    /// and the sooner it comes, the less waits at the provider. Measured on 109 Mbit/s with one
    /// flow over 9 and one over 60 ms: 20 ms keep 97.7 and 93.8 Mbit/s at +1.30 ms, 10 ms 97.8
    /// and 91.4 at +0.72, 5 ms 95.6 and 68.7 at +0.61 (CAKE: 97.8 and 87.2 at +0.65).
    fn bucket_limit(&self) -> u32 {
        let time = Duration::from_millis(if self.ingress { 10 } else { 40 });
        self.queue_of(self.rate, time)
    }

    /// Bytes that may wait for so long at `rate`; at least a few frames.
    fn queue_of(&self, rate: Rate, time: Duration) -> u32 {
        let bytes = u32::try_from(rate.bytes_in(time)).unwrap_or(u32::MAX);
        bytes.max(8 * self.frame())
    }

    fn fq_codel(&self, rate: Rate) -> FqCodel {
        // As CAKE: a target of five milliseconds or one and a half frames.
        let frame = rate.time_for(u64::from(self.frame())).unwrap_or_default();
        let target = Duration::from_millis(5).max(frame * 3 / 2);
        let quantum = (rate.bytes_per_sec() >> 12).clamp(300, 1514);
        FqCodel {
            quantum: Some(quantum as u32),
            target: Some(Duration::from_micros(target.as_micros() as u64)),
            interval: Some(
                Duration::from_millis(95) + Duration::from_micros(target.as_micros() as u64),
            ),
            ecn: Some(true),
            ..FqCodel::default()
        }
    }

    /// What hangs below the leaf classes.
    fn leaves(&self, buckets: bool) -> Vec<QdiscSpec> {
        let tbf = |leaf: Leaf, limit| {
            let parent = Handle::class(self.major, leaf.minor());
            // Room for VLAN tags; two segments of a super-packet are always longer.
            let burst = self.frame() + 8;
            self.qdisc(
                parent,
                leaf.tbf(),
                Qdisc::Tbf(Tbf {
                    rate: UNLIMITED,
                    burst,
                    limit,
                }),
            )
        };
        let mut leaves = Vec::new();
        for tier in Tier::ALL {
            if buckets {
                leaves.extend(
                    (0..self.buckets()).map(|b| tbf(Leaf::Bucket(tier, b), self.bucket_limit())),
                );
            } else {
                let leaf = Leaf::Tier(tier);
                // fq_codel takes the place of the FIFO that this would bound.
                leaves.push(tbf(leaf, 8 * self.frame()));
                let below = Handle::class(leaf.tbf(), 1);
                let codel = Qdisc::FqCodel(self.fq_codel(self.rate));
                leaves.push(self.qdisc(below, leaf.fq_codel(), codel));
            }
        }
        for (number, ceiling) in (1..).zip(self.ceilings()) {
            for tier in Tier::ALL {
                let leaf = Leaf::Limit(number, tier);
                // What waits here waits for its own ceiling and nobody else's.
                let limit = self.queue_of(ceiling.most, Duration::from_millis(40));
                if buckets {
                    leaves.push(tbf(leaf, limit));
                    continue;
                }
                leaves.push(tbf(leaf, 8 * self.frame()));
                let below = Handle::class(leaf.tbf(), 1);
                let codel = Qdisc::FqCodel(self.fq_codel(ceiling.most));
                leaves.push(self.qdisc(below, leaf.fq_codel(), codel));
            }
        }
        leaves
    }

    /// The whole tree, root first.
    pub(super) fn htb_tree(&self, buckets: bool) -> Vec<Op> {
        let default = if buckets {
            Leaf::Bucket(Tier::BestEffort, self.buckets() - 1)
        } else {
            Leaf::Tier(Tier::BestEffort)
        };
        let root = HtbRoot {
            default: default.minor().into(),
            ..HtbRoot::default()
        };
        let mut ops = vec![Op::QdiscReplace(self.qdisc(
            Handle::ROOT,
            self.major,
            Qdisc::Htb(root),
        ))];
        ops.extend(self.classes(buckets).into_iter().map(Op::ClassAdd));
        ops.extend(self.leaves(buckets).into_iter().map(Op::QdiscAdd));
        if !self.programs {
            ops.extend(filters::htb(self, buckets));
        }
        ops
    }

    /// New rates, framing and limits for a tree that stands.
    pub(super) fn htb_update(&self, buckets: bool) -> Vec<Op> {
        let classes = self.classes(buckets).into_iter().map(Op::ClassChange);
        let leaves = self
            .leaves(buckets)
            .into_iter()
            .filter(|l| buckets || matches!(l.qdisc, Qdisc::FqCodel(_)));
        classes.chain(leaves.map(Op::QdiscChange)).collect()
    }
}
