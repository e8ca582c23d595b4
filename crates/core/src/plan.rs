//! From what a kernel can do and what a line is to a list of kernel operations.
//!
//! Principles: a plan is data; the same data is printed by `--dry-run`, applied, and compared
//! with what the kernel reports. Handles are fixed, so that our own work is known again and a
//! packet's priority can name a class. Setting up ends with what diverts traffic; a change of
//! rate is made in place and never rebuilds a tree. Non-goals: sending anything to a kernel, and
//! choosing rates by measurement.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::police::Policer;
use crate::segments::{Longest, Mss};
use crate::tc::{Dev, FilterKey, Handle, LinkSettings, Op, Protocol};
use crate::{Framing, Rate};

mod cake;
mod filters;
mod htb;

pub use htb::{htb_link, is_leaf_of, tier_minor};

/// Major number of our root discipline on the WAN device.
pub const EGRESS: u16 = 0xec0;
/// Major number of our root discipline on the IFB.
pub const INGRESS: u16 = 0xec1;
/// Preference of our programs on the WAN device's clsact: high, so that others' filters come
/// first, and before our own, which redirect.
pub const PROGRAM_PREF: u16 = 0xec00;
/// Preferences of our filters there.
const CLSACT_PREF: u16 = PROGRAM_PREF + 1;
/// Names of our programs: for what leaves, and for what arrives.
pub const PROGRAMS: [&str; 2] = ["ek_egress", "ek_ingress"];

/// Something a kernel has or lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// sch_cake.
    Cake,
    /// sch_htb.
    Htb,
    /// sch_fq_codel.
    FqCodel,
    /// sch_tbf.
    Tbf,
    /// sch_ingress's clsact.
    Clsact,
    /// cls_u32.
    U32,
    /// cls_u32's match on marks.
    U32Mark,
    /// cls_matchall.
    Matchall,
    /// act_mirred.
    Mirred,
    /// act_skbedit.
    Skbedit,
    /// The ifb driver.
    Ifb,
    /// Our own eBPF programs, and cls_bpf to attach them.
    Bpf,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 12] = [
        Feature::Cake,
        Feature::Htb,
        Feature::FqCodel,
        Feature::Tbf,
        Feature::Clsact,
        Feature::U32,
        Feature::U32Mark,
        Feature::Matchall,
        Feature::Mirred,
        Feature::Skbedit,
        Feature::Ifb,
        Feature::Bpf,
    ];

    /// The kernel's configuration option that brings it.
    pub const fn config(self) -> &'static str {
        match self {
            Feature::Cake => "CONFIG_NET_SCH_CAKE",
            Feature::Htb => "CONFIG_NET_SCH_HTB",
            Feature::FqCodel => "CONFIG_NET_SCH_FQ_CODEL",
            Feature::Tbf => "CONFIG_NET_SCH_TBF",
            Feature::Clsact => "CONFIG_NET_SCH_INGRESS",
            Feature::U32 => "CONFIG_NET_CLS_U32",
            Feature::U32Mark => "CONFIG_CLS_U32_MARK",
            Feature::Matchall => "CONFIG_NET_CLS_MATCHALL",
            Feature::Mirred => "CONFIG_NET_ACT_MIRRED",
            Feature::Skbedit => "CONFIG_NET_ACT_SKBEDIT",
            Feature::Ifb => "CONFIG_IFB",
            Feature::Bpf => "CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Feature::Cake => "CAKE",
            Feature::Htb => "HTB",
            Feature::FqCodel => "fq_codel",
            Feature::Tbf => "TBF",
            Feature::Clsact => "clsact",
            Feature::U32 => "the u32 classifier",
            Feature::U32Mark => "u32's match on marks",
            Feature::Matchall => "the matchall classifier",
            Feature::Mirred => "the mirred action",
            Feature::Skbedit => "the skbedit action",
            Feature::Ifb => "IFB devices",
            Feature::Bpf => "eBPF",
        })
    }
}

/// What this kernel can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities(pub BTreeSet<Feature>);

impl Capabilities {
    /// Whether it has `feature`.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.contains(&feature)
    }
}

/// A way to shape, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// CAKE on the WAN device and, with `ingress`, on an IFB.
    Cake,
    /// HTB's tiers with fq_codel leaves.
    HtbFqCodel,
    /// HTB's tiers with short FIFOs, one for each heavy flow, or flows spread over them by a hash
    /// where there is no eBPF.
    HtbBuckets,
}

impl Backend {
    /// All of them, best first.
    pub const ALL: [Backend; 3] = [Backend::Cake, Backend::HtbFqCodel, Backend::HtbBuckets];

    /// What it cannot do without, beside what every backend needs for downloads.
    fn needs(self) -> &'static [Feature] {
        match self {
            Backend::Cake => &[Feature::Cake],
            Backend::HtbFqCodel => &[Feature::Htb, Feature::FqCodel, Feature::Tbf, Feature::U32],
            Backend::HtbBuckets => &[Feature::Htb, Feature::Tbf, Feature::U32],
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Backend::Cake => "CAKE",
            Backend::HtbFqCodel => "HTB with fq_codel",
            Backend::HtbBuckets => "HTB with hash buckets",
        })
    }
}

/// What the user wants for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The best that the kernel has.
    #[default]
    Auto,
    /// CAKE or nothing.
    Cake,
    /// HTB, with fq_codel if the kernel has it.
    Htb,
    /// HTB with FIFOs of our own, as on kernels that have nothing else.
    Bare,
}

/// What the user wants for arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ingress {
    /// Shaped on an IFB, policed where the kernel cannot have one.
    #[default]
    Auto,
    /// Shaped on an IFB or nothing.
    Ifb,
    /// Policed by our program, for CPUs to which the way over an IFB is too much.
    Police {
        /// fwmark of what comes above 98 % and cannot be marked by ECN; 0: none.
        mark: u32,
    },
}

impl Ingress {
    /// The policer, if arrivals are policed.
    fn policer(self, caps: &Capabilities, line: &Line, mtu: u32) -> Option<Policer> {
        let mark = match self {
            Ingress::Police { mark } => mark,
            Ingress::Auto if !caps.has(Feature::Ifb) && caps.has(Feature::Bpf) => 0,
            Ingress::Auto | Ingress::Ifb => return None,
        };
        Some(Policer::new(line, mtu, mark))
    }
}

/// What matters more when both cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Ping time: a little headroom keeps the queue where we control it.
    #[default]
    Ping,
    /// Bandwidth: no headroom; temporary rises of the ping are accepted.
    Bandwidth,
}

impl FromStr for Choice {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "auto" => Ok(Choice::Auto),
            "cake" => Ok(Choice::Cake),
            "htb" => Ok(Choice::Htb),
            "bare" => Ok(Choice::Bare),
            _ => Err(format!("{s:?} is none of auto, cake, htb, bare")),
        }
    }
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "ping" => Ok(Mode::Ping),
            "bandwidth" => Ok(Mode::Bandwidth),
            _ => Err(format!("{s:?} is neither ping nor bandwidth")),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Ping => "ping",
            Mode::Bandwidth => "bandwidth",
        })
    }
}

impl Mode {
    /// The rates that a line of `up` and `down` is shaped to, and what receive windows aim at
    /// where they are bounded on downloads in packets of so many bytes.
    ///
    /// From us the queue is all ours as soon as we send less than the line takes; the rest is
    /// for clocks that differ. Towards us the queue moves to our side only as far as we are
    /// slower than the line, and one that was built there drains at the difference. Where
    /// senders are held by their windows no queue is built, and the shaper is there for the
    /// others: it is a little slower than the line, and the windows aim a little below it. Where
    /// arrivals are policed there is no shaper that windows have to stay below.
    pub fn shaped(self, line: &Line, windows: Option<u32>, policed: bool) -> Shaped {
        let (from, towards, aim) = match (self, windows) {
            (Mode::Ping, Some(_)) if policed => (9900, 10_000, 10_000),
            (Mode::Ping, Some(packet)) => {
                let spare = spare_for_windows(line, packet);
                (9900, 9990 - spare / 2, 9980 - spare / 2)
            }
            (Mode::Ping, None) => (9900, 9600, 0),
            (Mode::Bandwidth, Some(_)) => (10_000, 10_000, 10_000),
            (Mode::Bandwidth, None) => (10_000, 9900, 0),
        };
        Shaped {
            up: whole_kbit(line.up.per_ten_thousand(from)),
            down: if policed {
                line.down
            } else {
                whole_kbit(line.down.per_ten_thousand(towards))
            },
            windows: windows.map(|_| whole_kbit(line.down.per_ten_thousand(aim))),
        }
    }
}

/// Ten-thousandths that windows leave of a line: the longer it takes for a packet the more, up
/// to 2.2 %, because whole segments are granted and one too many then lasts long.
fn spare_for_windows(line: &Line, packet: u32) -> u64 {
    let us = line
        .down
        .time_for(line.framing.wire_len(packet).into())
        .map_or(u64::MAX, |t| t.as_micros() as u64);
    (us.saturating_sub(100) * 4 / 10).min(220)
}

/// What a line is shaped to, at the link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaped {
    /// From us.
    pub up: Rate,
    /// Towards us; the line's own rate where arrivals are policed.
    pub down: Rate,
    /// What receive windows aim at, if they are bounded.
    pub windows: Option<Rate>,
}

impl Shaped {
    fn tuned(self, tuning: Tuning) -> Self {
        let part =
            |rate: Rate, permille: u32| whole_kbit(rate.permille(permille.into())).max(Rate::MIN);
        Shaped {
            up: part(self.up, tuning.up),
            down: part(self.down, tuning.down),
            windows: self.windows.map(|w| part(w, tuning.windows)),
        }
    }
}

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

/// The line as it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Link-layer rate towards us.
    pub down: Rate,
    /// Link-layer rate from us.
    pub up: Rate,
    /// How packets are framed on it.
    pub framing: Framing,
}

impl Line {
    /// A direction of which nothing is known yet: more than any line that one machine shapes.
    pub const OPEN: Rate = Rate::from_kbit(10_000_000);

    /// Empty ACKs of a full download are more than the other direction can bear.
    fn very_asymmetric(&self) -> bool {
        self.down != Self::OPEN && self.down.bps() > 10 * self.up.bps()
    }

    /// A framing for someone who named none, on the safe side for lines of these rates: below
    /// ADSL2+'s limits (ITU-T G.992.5: 24 and 3.5 Mbit/s) cells, otherwise PTM with PPPoE and
    /// a VLAN, which for full packets covers Ethernet's 38 bytes as well.
    pub fn assume_framing(down: Rate, up: Rate) -> Framing {
        use crate::framing::Mode::{Atm, Ptm};
        if down <= Rate::from_kbit(24_500) && up <= Rate::from_kbit(3_500) {
            Framing::new(Atm, 44, 0)
        } else {
            Framing::new(Ptm, 34, 0)
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
    /// CAKE's interval from us, if it is not its default.
    pub interval: Option<Duration>,
    /// How long packets of new TCP connections may be.
    pub segments: Segments,
    /// Name of the IFB that arriving packets are redirected to, if they are not policed.
    pub ifb: String,
    /// What the policer is told; absent if arrivals are shaped on the IFB.
    pub policer: Option<Policer>,
    /// Our programs tell the disciplines how urgent a packet is; else u32 filters do.
    pub programs: bool,
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
}

/// How long IP packets of new TCP connections may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Segments {
    /// From us.
    pub up: Longest,
    /// Towards us.
    pub down: Longest,
}

/// What is wanted of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// What matters more.
    pub mode: Mode,
    /// Which disciplines.
    pub choice: Choice,
    /// What becomes of arrivals.
    pub ingress: Ingress,
    /// Bound receive windows, where the kernel takes eBPF.
    pub windows: bool,
    /// Bound the segments of new TCP connections, where the kernel takes eBPF.
    pub mss: Mss,
}

/// Turns facts into a plan.
pub fn plan(
    caps: &Capabilities,
    device: &Device,
    line: Line,
    policy: Policy,
) -> Result<Plan, PlanError> {
    plan_tuned(caps, device, line, policy, Tuning::default())
}

/// How a line is used for now, by a process that follows it; shares are thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Share of what the shaper towards us would otherwise be set to.
    pub down: u32,
    /// Share of what receive windows would otherwise aim at.
    pub windows: u32,
    /// Share of what the shaper from us would otherwise be set to.
    pub up: u32,
    /// CAKE's interval from us; `None`: its own default, which it keeps once it has another.
    pub interval: Option<Duration>,
}

impl Default for Tuning {
    /// As usual.
    fn default() -> Self {
        Tuning {
            down: 1000,
            windows: 1000,
            up: 1000,
            interval: None,
        }
    }
}

/// The same for a line that is used otherwise for now.
pub fn plan_tuned(
    caps: &Capabilities,
    device: &Device,
    line: Line,
    policy: Policy,
    tuning: Tuning,
) -> Result<Plan, PlanError> {
    let policer = policy.ingress.policer(caps, &line, device.mtu);
    let candidates: &[Backend] = match policy.choice {
        Choice::Auto => &Backend::ALL,
        Choice::Cake => &[Backend::Cake],
        Choice::Htb => &[Backend::HtbFqCodel, Backend::HtbBuckets],
        Choice::Bare => &[Backend::HtbBuckets],
    };
    let missing_for = |backend: Backend| -> Vec<Feature> {
        let mut needs = vec![Feature::Clsact];
        if policer.is_some() {
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
    let Some(&backend) = candidates.iter().find(|b| missing_for(**b).is_empty()) else {
        // What the least demanding candidate lacks is what the user must add.
        let missing = missing_for(*candidates.last().unwrap_or(&Backend::HtbBuckets));
        let list = |f: &dyn Fn(&Feature) -> String| {
            missing.iter().map(f).collect::<Vec<_>>().join(" and ")
        };
        return Err(PlanError::Lacks {
            device: device.name.clone(),
            missing: list(&|f| f.to_string()),
            config: list(&|f| f.config().to_owned()),
        });
    };
    let programs = caps.has(Feature::Bpf);
    let mss = if programs { policy.mss } else { Mss::Off };
    let segments = Segments {
        up: mss.longest(line.up, line.framing, device.mtu),
        down: mss.longest(line.down, line.framing, device.mtu),
    };
    let packet = segments.down.packet(device.mtu);
    let windows = (policy.windows && programs).then_some(packet);
    let shaped = policy
        .mode
        .shaped(&line, windows, policer.is_some())
        .tuned(tuning);
    let mut plan = Plan {
        backend,
        device: device.clone(),
        line,
        mode: policy.mode,
        egress: shaped.up,
        ingress: shaped.down,
        windows: shaped.windows,
        interval: tuning.interval,
        segments,
        ifb: ifb_name(device.ifindex),
        policer,
        programs,
        setup: Vec::new(),
        update: Vec::new(),
    };
    plan.fill(caps);
    Ok(plan)
}

/// Rates are told and shown in kbit/s.
const fn whole_kbit(rate: Rate) -> Rate {
    Rate::from_kbit(rate.kbit())
}

/// Our IFB for the device of this number. The number, because names of 15 bytes leave no room.
pub fn ifb_name(ifindex: u32) -> String {
    format!("ek-ifb{ifindex}")
}

/// One direction: where its tree hangs and what it is to carry.
struct Side<'a> {
    dev: Dev,
    major: u16,
    rate: Rate,
    framing: Framing,
    link_header: u16,
    mtu: u32,
    ingress: bool,
    very_asymmetric: bool,
    interval: Option<Duration>,
    programs: bool,
    caps: &'a Capabilities,
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
            interval: self.interval.filter(|_| !ingress),
            programs: self.programs,
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

/// Whether a filter of this preference on a clsact is one of ours.
pub const fn is_our_pref(pref: u16) -> bool {
    pref >= PROGRAM_PREF && pref <= clsact_pref(Protocol::All)
}

/// A preference holds one protocol, so each has its own; the catch-all comes last.
const fn clsact_pref(protocol: Protocol) -> u16 {
    CLSACT_PREF
        + match protocol {
            Protocol::Ip => 0,
            Protocol::Ipv6 => 1,
            _ => 2,
        }
}

#[cfg(test)]
mod tests;
