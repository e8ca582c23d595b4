//! From what a kernel can do and what a line is to a list of kernel operations.
//!
//! Principles: a plan is data; the same data is printed by `--dry-run`, applied, and compared
//! with what the kernel reports. Handles are fixed, so that our own work is known again and a
//! packet's priority can name a class. Setting up ends with what diverts traffic; a change of
//! rate is made in place and never rebuilds a tree. Non-goals: sending anything to a kernel, and
//! choosing rates by measurement.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::line::Line;
use crate::police::Policer;
use crate::rules::Limit;
use crate::tc::{FilterKey, Handle, LinkSettings, Op, Protocol};
use crate::{Framing, PerDirection, Rate};
use handles::clsact_pref;
use side::Side;

mod cake;
mod features;
mod filters;
mod handles;
mod htb;
mod leaf;
mod mode;
mod policy;
mod shaping;
mod side;
mod target;

pub use features::{Backend, Capabilities, Choice, Feature};
pub use handles::{EGRESS, INGRESS, PROGRAM_PREF, PROGRAMS, is_our_pref};
pub use htb::htb_link;
pub use leaf::{ceiling_minor, is_leaf_of, tier_minor};
pub use mode::Mode;
pub use policy::{Ingress, Policy};
pub use shaping::{Given, INTERVAL, Segments, Shaping};
pub use target::{Likely, Target};

/// The device that leads to the Internet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its number.
    pub ifindex: u32,
    /// Bytes before the IP packet in its frames: 14 on Ethernet, 0 on TUN and ppp.
    pub link_header: u16,
    /// Its MTU, bytes of IP.
    pub mtu: u32,
    /// It belongs to another (a bridge, a bond), which passes its frames on as they are.
    pub is_port: bool,
    /// Somebody has put a clsact there.
    pub has_clsact: bool,
    /// Its segment sizes now.
    pub sizes: LinkSizes,
}

/// Largest super-packets of a device, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkSizes {
    /// Handed to it.
    pub gso: Option<u32>,
    /// Put together from what it receives.
    pub gro: Option<u32>,
    /// The same for IPv4, where the kernel keeps them apart.
    pub gro_ipv4: Option<u32>,
}

impl LinkSizes {
    /// As a change of the device.
    pub fn settings(self) -> LinkSettings {
        LinkSettings {
            gso_max_size: self.gso,
            gro_max_size: self.gro,
            gro_ipv4_max_size: self.gro_ipv4,
            ..LinkSettings::default()
        }
    }

    /// No super-packet longer than 1 ms at the direction's rate, nor than now; two full frames
    /// are always allowed.
    fn bounded(self, egress: Rate, ingress: Rate, frame: u32) -> Self {
        let most = |rate: Rate, now: Option<u32>| {
            let ms = u32::try_from(rate.bytes_in(Duration::from_millis(1))).unwrap_or(u32::MAX);
            now.map(|now| ms.max(2 * frame).min(now))
        };
        LinkSizes {
            gso: most(egress, self.gso),
            gro: most(ingress, self.gro),
            gro_ipv4: most(ingress, self.gro_ipv4),
        }
    }
}

/// What the kernel is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How it shapes.
    pub backend: Backend,
    /// What it shapes.
    pub device: Device,
    /// The line as told.
    pub line: Line,
    /// What matters more.
    pub mode: Mode,
    /// Shaped rate from us, link layer.
    pub egress: Rate,
    /// Shaped rate towards us, link layer; the line's own where arrivals are policed.
    pub ingress: Rate,
    /// What receive windows aim at, link layer; `None`: they are left alone.
    pub windows: Option<Rate>,
    /// What the shaper towards us counts beside the bytes of senders that no window holds,
    /// ten-thousandths.
    pub surcharge: u32,
    /// By how much round trips may be longer than the base without a window shrinking, beyond what
    /// the disciplines need.
    pub slack: Duration,
    /// CAKE's intervals, where they are not its default.
    pub intervals: PerDirection<Option<Duration>>,
    /// The most that the line carried from us of late, where that limits what may wait at CAKE.
    pub peak: Option<Rate>,
    /// How long packets of new TCP connections may be.
    pub segments: Segments,
    /// Name of the IFB that arriving packets are redirected to, if they are not policed.
    pub ifb: String,
    /// What the policer is told; absent if arrivals are shaped on the IFB.
    pub policer: Option<Policer>,
    /// Our programs tell the disciplines how urgent a packet is; else u32 filters do.
    pub programs: bool,
    /// Ceilings and guarantees, by their numbers from 1 on; none without programs.
    pub limits: Vec<Limit>,
    /// Setting it all up, in order.
    pub setup: Vec<Op>,
    /// Bringing an existing tree of this backend to these rates and this framing, in place.
    pub update: Vec<Op>,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The kernel lacks something.
    #[error(
        "shape {device}: this kernel lacks {missing} ({config}); use a kernel or load the module that has it"
    )]
    Lacks {
        /// Which device was to be shaped.
        device: String,
        /// What it lacks.
        missing: String,
        /// Its configuration options.
        config: String,
    },
    /// What has no ceilings was asked for them.
    #[error(
        "shape {device}: CAKE has no ceilings and no guarantees; use --backend htb, or rules without max and min"
    )]
    Ceilings {
        /// Which device was to be shaped.
        device: String,
    },
}

/// Turns facts into a plan.
pub fn plan(
    caps: &Capabilities,
    device: &Device,
    line: Line,
    policy: Policy,
) -> Result<Plan, PlanError> {
    planned(caps, device, line, policy, None)
}

/// The same while a process follows the line: a direction without a target is not shaped.
pub fn plan_followed(
    caps: &Capabilities,
    device: &Device,
    framing: Framing,
    policy: Policy,
    targets: PerDirection<Option<Target>>,
) -> Result<Plan, PlanError> {
    let known = targets.map(|t| t.and_then(Target::at_capacity));
    let capacity = known.map(|t| t.map_or(Line::OPEN, |t| t.capacity));
    let line = Line {
        down: capacity.down,
        up: capacity.up,
        framing,
    };
    planned(caps, device, line, policy, Some(targets))
}

#[allow(clippy::needless_pass_by_value)] // Made for this call.
fn planned(
    caps: &Capabilities,
    device: &Device,
    line: Line,
    policy: Policy,
    targets: Option<PerDirection<Option<Target>>>,
) -> Result<Plan, PlanError> {
    let policer = policy.ingress.policer(caps, &line, device.mtu);
    let programs = caps.has(Feature::Bpf);
    let limits = if programs {
        policy.limits.clone()
    } else {
        Vec::new()
    };
    let choice = match policy.choice {
        Choice::Auto if !limits.is_empty() => Choice::Htb,
        Choice::Cake if !limits.is_empty() => {
            let device = device.name.clone();
            return Err(PlanError::Ceilings { device });
        }
        choice => choice,
    };
    let backend = backend(caps, device, choice, policer.is_some())?;
    let given = Given {
        line,
        mtu: device.mtu,
        programs,
        policed: policer.is_some(),
        likely: targets.and_then(|t| t.up?.opening?.0),
    };
    let told = Shaping::told(&policy, &given);
    let shaping = match targets {
        Some(targets) => told.followed(targets),
        None => told,
    };
    let mut plan = Plan {
        backend,
        device: device.clone(),
        line,
        mode: policy.mode,
        egress: shaping.up,
        ingress: shaping.down,
        windows: shaping.windows,
        // What is passed on as it is must not be longer than it was, and HTB's leaves take no
        // frame that is longer than the device's.
        surcharge: if device.is_port || backend != Backend::Cake {
            0
        } else {
            shaping.surcharge
        },
        slack: shaping.slack,
        intervals: shaping.intervals,
        peak: shaping.peak,
        segments: shaping.segments,
        ifb: ifb_name(device.ifindex),
        policer,
        programs,
        limits,
        setup: Vec::new(),
        update: Vec::new(),
    };
    plan.fill(caps);
    Ok(plan)
}

/// The best discipline of `choice` that this kernel has.
fn backend(
    caps: &Capabilities,
    device: &Device,
    choice: Choice,
    policed: bool,
) -> Result<Backend, PlanError> {
    let candidates: &[Backend] = match choice {
        Choice::Auto => &Backend::ALL,
        Choice::Cake => &[Backend::Cake],
        Choice::Htb => &[Backend::HtbFqCodel, Backend::HtbBuckets],
        Choice::Bare => &[Backend::HtbBuckets],
    };
    let missing_for = |backend: Backend| -> Vec<Feature> {
        let mut needs = vec![Feature::Clsact];
        if policed {
            needs.push(Feature::Bpf);
        } else {
            needs.extend([Feature::Ifb, Feature::Mirred]);
            if !caps.has(Feature::Matchall) {
                needs.push(Feature::U32);
            }
        }
        needs.extend(backend.needs());
        needs.retain(|f| !caps.has(*f));
        needs
    };
    if let Some(&backend) = candidates.iter().find(|b| missing_for(**b).is_empty()) {
        return Ok(backend);
    }
    // What the least demanding candidate lacks is what the user must add.
    let missing = missing_for(*candidates.last().unwrap_or(&Backend::HtbBuckets));
    let list =
        |f: &dyn Fn(&Feature) -> String| missing.iter().map(f).collect::<Vec<_>>().join(" and ");
    Err(PlanError::Lacks {
        device: device.name.clone(),
        missing: list(&|f| f.to_string()),
        config: list(&|f| f.config().to_owned()),
    })
}

/// Our IFB for the device of this number. The number, because names of 15 bytes leave no room.
pub fn ifb_name(ifindex: u32) -> String {
    format!("ek-ifb{ifindex}")
}

impl Plan {
    fn fill(&mut self, caps: &Capabilities) {
        let side = |dev: &str, ingress| Side {
            dev: dev.into(),
            major: if ingress { INGRESS } else { EGRESS },
            rate: if ingress { self.ingress } else { self.egress },
            framing: self.line.framing,
            link_header: self.device.link_header,
            mtu: self.device.mtu,
            ingress,
            very_asymmetric: self.line.very_asymmetric(),
            interval: if ingress {
                self.intervals.down
            } else {
                self.intervals.up
            },
            peak: self.peak.filter(|_| !ingress),
            programs: self.programs,
            limits: &self.limits,
            caps,
        };
        let wan = side(&self.device.name, false);
        let ifb = side(&self.ifb, true);
        let mut setup = Vec::new();
        let mut update = Vec::new();
        let shapes_arrivals = self.policer.is_none();
        if shapes_arrivals {
            setup.push(Op::LinkAddIfb {
                name: self.ifb.clone(),
            });
        }
        for side in shapes_arrivals.then_some(&ifb).into_iter().chain([&wan]) {
            match self.backend {
                Backend::Cake => {
                    setup.push(Op::QdiscReplace(side.cake()));
                    update.push(Op::QdiscChange(side.cake()));
                }
                Backend::HtbFqCodel | Backend::HtbBuckets => {
                    let buckets = self.backend == Backend::HtbBuckets;
                    setup.extend(side.htb_tree(buckets));
                    update.extend(side.htb_update(buckets));
                }
            }
        }
        let frame = self.device.mtu + u32::from(self.device.link_header);
        let sizes = Op::LinkSet {
            name: self.device.name.clone(),
            settings: self
                .device
                .sizes
                .bounded(self.egress, self.ingress, frame)
                .settings(),
        };
        setup.push(sizes.clone());
        update.push(sizes);
        if shapes_arrivals {
            setup.push(Op::LinkSet {
                name: self.ifb.clone(),
                settings: LinkSettings {
                    up: Some(true),
                    ..LinkSettings::default()
                },
            });
        }
        if !self.device.has_clsact {
            setup.push(clsact(&self.device.name));
        }
        if self.programs {
            setup.push(filters::program(&wan, Handle::CLSACT_EGRESS));
            setup.push(filters::program(&wan, Handle::CLSACT_INGRESS));
        } else if self.backend == Backend::Cake {
            setup.extend(wan.cake_hints(None));
        }
        if shapes_arrivals {
            let hints = self.backend == Backend::Cake && !self.programs;
            setup.extend(filters::divert(&wan, &self.ifb, hints.then_some(INGRESS)));
        }
        self.setup = setup;
        self.update = update;
    }

    /// What a tree that stands with so many ceilings lacks: those of higher numbers.
    pub fn further_limits(&self, standing: usize) -> impl Iterator<Item = &Op> {
        let further = move |n: Option<u8>| n.is_some_and(|n| usize::from(n) > standing);
        self.setup.iter().filter(move |op| match op {
            Op::ClassAdd(c) => further(leaf::limit_of_class(c.classid.minor())),
            Op::QdiscAdd(q) => further(leaf::limit_of_qdisc(q.handle.major()).map(|l| l.0)),
            _ => false,
        })
    }
}

fn clsact(device: &str) -> Op {
    use crate::tc::{Qdisc, QdiscSpec};
    Op::QdiscAdd(QdiscSpec {
        dev: device.into(),
        parent: Handle::INGRESS,
        handle: Handle::INGRESS_QDISC,
        qdisc: Qdisc::Clsact,
        stab: None,
    })
}

/// Taking everything back: filters first, so that no packet goes where nobody is. Each may fail
/// because it is gone already; none touches what is not ours.
pub fn removal(device: &str, ifb: &str, made_clsact: bool, sizes_before: LinkSizes) -> Vec<Op> {
    let mut ops = Vec::new();
    if made_clsact {
        ops.push(Op::QdiscDel {
            dev: device.into(),
            parent: Handle::INGRESS,
            handle: Handle::INGRESS_QDISC,
            kind: Some("clsact".into()),
        });
    } else {
        for parent in [Handle::CLSACT_INGRESS, Handle::CLSACT_EGRESS] {
            let programs = (PROGRAM_PREF, Protocol::All);
            let protocols = [Protocol::Ip, Protocol::Ipv6, Protocol::All];
            let rest = protocols.map(|p| (clsact_pref(p), p));
            for (pref, protocol) in std::iter::once(programs).chain(rest) {
                let key = FilterKey {
                    parent,
                    pref,
                    protocol: Some(protocol),
                    handle: 0,
                };
                ops.push(Op::FilterDel {
                    dev: device.into(),
                    key,
                    kind: None,
                });
            }
        }
    }
    ops.push(Op::QdiscDel {
        dev: device.into(),
        parent: Handle::ROOT,
        handle: Handle::qdisc(EGRESS),
        kind: None,
    });
    ops.push(Op::LinkDel {
        name: ifb.to_owned(),
    });
    ops.push(Op::LinkSet {
        name: device.to_owned(),
        settings: sizes_before.settings(),
    });
    ops
}

#[cfg(test)]
mod tests;
