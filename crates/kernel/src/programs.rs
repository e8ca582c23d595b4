//! Our programs on a device: loaded and told what to do before they are attached, found again
//! afterwards by what hangs at the device's hooks.
//!
//! Principles: the filter holds the program and the program its maps, so nothing of ours has to
//! run on; rules are checked whole before anything is touched, and change without a gap.
//! Non-goals: what the programs do (crate `evenkeel-datapath`).

use std::sync::OnceLock;
use std::time::Duration;

use evenkeel_core::plan::{Backend, EGRESS, Feature, INGRESS, PROGRAM_PREF, PROGRAMS, Plan};
use evenkeel_core::rules::FlowRule;
use evenkeel_core::tc::{Filter, FilterKind, Handle, Op};
use evenkeel_core::units::PerDirection;
use evenkeel_datapath::values::{DirectionConfig, Line, PriorityMode, RuleSet};
use evenkeel_datapath::{Maps, Programs};
use evenkeel_wire::FilterBody;

use crate::rule_set::refused;
use crate::{Error, Known, Session, StateDir, rule_set};

/// A person's rules and then the defaults, as the programs take them while nothing is known of names.
pub(crate) fn compile(rules: &[FlowRule]) -> Result<RuleSet, Error> {
    if let Some((n, rule)) = rules.iter().enumerate().find(|r| r.1.cgroup.is_some())
        && !has_cgroups()?
    {
        let why = "this kernel cannot tell control groups (CONFIG_SOCK_CGROUP_DATA)";
        return Err(refused(n, rule, why));
    }
    rule_set(rules, &Known::now())
}

/// Whether rules on control groups have an effect on this kernel. It is asked once, as [`missing`] is.
fn has_cgroups() -> Result<bool, Error> {
    static HAS: OnceLock<bool> = OnceLock::new();
    if let Some(has) = HAS.get() {
        return Ok(*has);
    }
    let has = Programs::load(0)?.has_cgroups();
    Ok(*HAS.get_or_init(|| has))
}

/// Loads the programs, told what `plan` wants of them.
pub(crate) fn load(plan: &Plan, rules: &RuleSet, lan: bool) -> Result<Programs, Error> {
    let mut programs = Programs::load(plan.device.link_header)?;
    tell(&mut programs.maps()?, plan, rules, lan)?;
    Ok(programs)
}

/// Tells programs what `plan` wants of them, also while they run.
pub(crate) fn tell(maps: &mut Maps, plan: &Plan, rules: &RuleSet, lan: bool) -> Result<(), Error> {
    maps.set_directions(directions(plan))?;
    maps.set_policer(plan.policer.as_ref())?;
    maps.set_rule_set(rules, None)?;
    maps.set_line(line(plan, lan))?;
    Ok(())
}

/// How tiers are told to the queueing disciplines, and how long packets of new connections may be.
pub(crate) fn directions(plan: &Plan) -> PerDirection<DirectionConfig> {
    let mode = match plan.backend {
        Backend::Cake => PriorityMode::CakeTin,
        Backend::HtbFqCodel => PriorityMode::TierClass,
        Backend::HtbBuckets => PriorityMode::BucketClass,
    };
    PerDirection {
        up: DirectionConfig {
            mode,
            major: EGRESS,
            max_packet: plan.segments.up.0,
            framing: plan.line.framing,
        },
        down: DirectionConfig {
            // Behind the policer nothing waits.
            mode: plan.policer.as_ref().map_or(mode, |_| PriorityMode::None),
            major: INGRESS,
            max_packet: plan.segments.down.0,
            framing: plan.line.framing,
        },
    }
}

/// What the windows are told: a lasting lease, until somebody says otherwise. `lan`: queues behind us
/// are theirs too.
pub(crate) fn line(plan: &Plan, lan: bool) -> Option<Line> {
    plan.windows.map(|target| Line {
        lease: Duration::MAX,
        rate: plan.line.down,
        target,
        framing: plan.line.framing,
        mtu: plan.segments.down.packet(plan.device.mtu),
        slack: plan.slack,
        surcharge: plan.surcharge,
        // Plans are in whole kbit/s.
        fills: plan.policer.is_some() && target.bps() + 1000 > plan.line.down.bps(),
        lan,
    })
}

/// `op` with the descriptor of the program that it attaches, if it does.
pub(crate) fn with_descriptor(op: &Op, programs: Option<&Programs>) -> Result<Op, Error> {
    let mut op = op.clone();
    if let Op::FilterAdd {
        filter: Filter {
            kind: FilterKind::Bpf(bpf),
            ..
        },
        ..
    } = &mut op
        && let Some(programs) = programs
    {
        bpf.fd = programs.fd(&bpf.name)?;
    }
    Ok(op)
}

/// Numbers of our programs at a device's two hooks; `None` unless both are there.
pub(crate) fn attached(session: &mut Session, ifindex: u32) -> Result<Option<u32>, Error> {
    let mut found = None;
    for (hook, name) in [Handle::CLSACT_EGRESS, Handle::CLSACT_INGRESS]
        .into_iter()
        .zip(PROGRAMS)
    {
        let filters = session.filters(ifindex, hook)?;
        let id = filters.iter().find_map(|f| match &f.body {
            FilterBody::Known(FilterKind::Bpf(b)) if f.pref == PROGRAM_PREF && b.name == name => {
                b.id
            }
            _ => None,
        });
        let Some(id) = id else { return Ok(None) };
        found = Some(id);
    }
    Ok(found)
}

/// Why there are no programs on this kernel. It is asked once: its verifier may look at the programs for a second before
/// it says no.
pub(crate) fn missing() -> String {
    static WHY: OnceLock<String> = OnceLock::new();
    let ask = || match Programs::load(0) {
        Err(e) => e.to_string(),
        Ok(_) => format!("it lacks {}", Feature::Bpf.config()),
    };
    WHY.get_or_init(ask).clone()
}

/// The maps of the programs on a device; `None` if there are none.
pub fn maps(device: &str) -> Result<Option<Maps>, Error> {
    let mut session = Session::open()?;
    let link = session
        .link(device)?
        .ok_or_else(|| Error::NoDevice(device.to_owned()))?;
    match attached(&mut session, link.index)? {
        Some(id) => Ok(Some(Maps::of_program(id)?)),
        None => Ok(None),
    }
}

/// The maps of the programs on every device of this namespace that is shaped by `dir`'s records.
/// What may not be read, or has no programs, is left out.
pub fn all_maps(dir: &StateDir) -> Vec<Maps> {
    let devices = dir.devices().unwrap_or_default();
    let readable = devices.iter().filter_map(|d| maps(d).ok().flatten());
    readable.collect()
}
