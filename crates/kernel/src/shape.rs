//! Shaping a device and taking it back.
//!
//! Principles: look first, refuse whole, record, act, record; the same request twice is the same
//! as once; another rate is a change in place; what an interrupted run left is removed before
//! anything is built. Non-goals: following a line that changes.

use evenkeel_core::plan::{
    Backend, Capabilities, Choice, Device, EGRESS, Feature, Ingress, LinkSizes, Mode, Plan, Policy,
    ifb_name, plan, removal,
};
use evenkeel_core::rules::{FlowRule, limits};
use evenkeel_core::segments::Mss;
use evenkeel_core::tc::{Handle, Op};
use evenkeel_core::{Framing, Line, Rate};
use evenkeel_datapath::values::RuleSet;
use evenkeel_wire::QdiscInfo;
use evenkeel_wire::link::{Hardware, LinkInfo};

use crate::rule_set::refuse_what_changes;
use crate::{Error, Session, Shortened, State, StateDir, bypass, capabilities, programs};

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The device that leads to the Internet.
    pub device: String,
    /// Link-layer rate of the line towards us.
    pub down: Rate,
    /// Link-layer rate of the line from us.
    pub up: Rate,
    /// Framing of the line; assumed from the rates if none is given.
    pub framing: Option<Framing>,
    /// Which disciplines.
    pub choice: Choice,
    /// What becomes of arrivals.
    pub ingress: Ingress,
    /// What matters more.
    pub mode: Mode,
    /// Bound receive windows of downloads, where the kernel takes eBPF.
    pub windows: bool,
    /// Hold queues behind the gateway short as well, by those windows.
    pub lan: bool,
    /// Bound the segments of new TCP connections, where the kernel takes eBPF.
    pub mss: Mss,
    /// Remove somebody else's root discipline.
    pub replace: bool,
    /// Which flows are urgent; the default rules come after these.
    pub rules: Vec<FlowRule>,
}

/// What was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaped {
    /// The record of it.
    pub state: State,
    /// Shaped rate from us.
    pub egress: Rate,
    /// Shaped rate towards us.
    pub ingress: Rate,
    /// How TCP's packets from us are shortened, if they are.
    pub segments_up: Option<Shortened>,
    /// Those towards us.
    pub segments_down: Option<Shortened>,
    /// The tree stood already and was changed in place.
    pub in_place: bool,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// What `clear` found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cleared {
    /// Nothing of ours was there.
    Nothing,
    /// All is as it was before.
    AsBefore,
    /// Ours is gone; the discipline that `--replace` removed is not back, the kernel's default is.
    DefaultInsteadOf(String),
    /// Ours is gone; without a record, earlier settings are not known.
    WithoutRecord,
}

/// Everything that is known before anything is done.
struct Before {
    link: LinkInfo,
    root: Option<QdiscInfo>,
    ours: bool,
    has_clsact: bool,
    foreign_ingress: bool,
    state: Option<State>,
}

/// Looks at a device. Errors if it is not one to shape.
fn look(session: &mut Session, dir: &StateDir, device: &str) -> Result<Before, Error> {
    let unfit = |why: &str| Error::Unfit {
        device: device.to_owned(),
        why: why.to_owned(),
    };
    let link = session
        .link(device)?
        .ok_or_else(|| Error::NoDevice(device.to_owned()))?;
    if link.hardware == Hardware::Loopback {
        return Err(unfit(
            "it is the loopback device, which leads nowhere; name the one of the Internet line",
        ));
    }
    if link.kind == "ifb" {
        return Err(unfit(
            "it is an IFB, where arrivals are shaped already; name the device of the Internet line",
        ));
    }
    let state = dir.load(device)?.filter(|s| s.ifindex == link.index);
    let qdiscs = session.qdiscs(link.index)?;
    let root = qdiscs.iter().find(|q| q.parent == Handle::ROOT).cloned();
    let at_ingress = |kind: &str| {
        qdiscs
            .iter()
            .any(|q| q.handle == Handle::INGRESS_QDISC && q.kind == kind)
    };
    Ok(Before {
        ours: root
            .as_ref()
            .is_some_and(|q| q.handle == Handle::qdisc(EGRESS)),
        has_clsact: at_ingress("clsact"),
        foreign_ingress: at_ingress("ingress"),
        link,
        root,
        state,
    })
}

impl Before {
    /// Refuses a device that cannot be shaped as it is.
    fn check(&self, request: &Request) -> Result<(), Error> {
        if !self.link.is_up() {
            return Err(Error::Down {
                device: request.device.clone(),
            });
        }
        if self.link.hardware.header_len().is_none() {
            return Err(Error::Unfit {
                device: request.device.clone(),
                why: "its frames are of a kind that evenkeel cannot measure (neither Ethernet nor bare IP)".into(),
            });
        }
        match self.foreign() {
            Some(found) if !request.replace => Err(Error::Foreign {
                device: request.device.clone(),
                found,
            }),
            _ => Ok(()),
        }
    }

    /// Somebody else's discipline in our way, as tc would name it.
    fn foreign(&self) -> Option<String> {
        // The kernel's own default has no handle.
        let root = self
            .root
            .as_ref()
            .filter(|q| !self.ours && q.handle != Handle::NONE);
        let root = root.map(|q| format!("qdisc {} {}", q.kind, q.handle));
        root.or_else(|| {
            self.foreign_ingress
                .then(|| "qdisc ingress ffff:".to_owned())
        })
    }

    fn sizes(&self) -> LinkSizes {
        LinkSizes {
            gso: self.link.gso_max_size,
            gro: self.link.gro_max_size,
            gro_ipv4: self.link.gro_ipv4_max_size,
        }
    }
}

/// The plan for a request, and whether a tree stands that only needs to be changed.
fn prepare(before: &Before, caps: &Capabilities, request: &Request) -> Result<(Plan, bool), Error> {
    // While our own bounds are in force, the device's true sizes are in the record.
    let sizes = before
        .state
        .as_ref()
        .map_or(before.sizes(), |s| s.sizes_before);
    let made_clsact = before.state.as_ref().is_some_and(|s| s.made_clsact);
    let line = Line {
        down: request.down,
        up: request.up,
        framing: request
            .framing
            .unwrap_or_else(|| Line::assume_framing(request.down, request.up)),
    };
    let device = device(&before.link, before.has_clsact && !made_clsact, sizes);
    let plan = plan(caps, &device, line, policy(request))?;
    Ok((plan, made_clsact))
}

/// What a plan has to know of a device; its sizes are those without ours.
pub(crate) fn device(link: &LinkInfo, has_clsact: bool, sizes: LinkSizes) -> Device {
    Device {
        name: link.name.clone(),
        ifindex: link.index,
        link_header: link.hardware.header_len().unwrap_or(14),
        mtu: link.mtu,
        is_port: link.master != 0,
        has_clsact,
        sizes,
    }
}

/// What of a request decides about the plan.
pub(crate) fn policy(request: &Request) -> Policy {
    Policy {
        mode: request.mode,
        choice: request.choice,
        ingress: request.ingress,
        windows: request.windows,
        mss: request.mss,
        limits: limits(&request.rules),
    }
}

/// What `shape` would do, without doing it: the plan, and what is wrong with the request.
pub fn preview(dir: &StateDir, request: &Request) -> Result<(Plan, Vec<String>), Error> {
    let mut session = Session::open()?;
    let before = look(&mut session, dir, &request.device)?;
    before.check(request)?;
    refuse_what_changes(&request.rules)?;
    let caps = capabilities()?;
    if caps.has(Feature::Bpf) {
        programs::compile(&request.rules)?;
    }
    let (plan, _) = prepare(&before, &caps, request)?;
    Ok((plan, warnings(request)))
}

/// Shapes a device, or changes how it is shaped.
pub fn shape(dir: &StateDir, request: &Request) -> Result<Shaped, Error> {
    check(dir, request)?;
    refuse_what_changes(&request.rules)?;
    shape_with(&capabilities()?, dir, request)
}

/// What is wrong with the request itself is said before anything is touched.
pub(crate) fn check(dir: &StateDir, request: &Request) -> Result<(), Error> {
    look(&mut Session::open()?, dir, &request.device)?.check(request)
}

/// The same on a kernel of which only `caps` are to be used.
pub fn shape_with(caps: &Capabilities, dir: &StateDir, request: &Request) -> Result<Shaped, Error> {
    let _lock = dir.lock(&request.device)?;
    shape_locked(caps, dir, request)
}

/// The same for who has the device's lock.
pub(crate) fn shape_locked(
    caps: &Capabilities,
    dir: &StateDir,
    request: &Request,
) -> Result<Shaped, Error> {
    let mut session = Session::open()?;
    let before = look(&mut session, dir, &request.device)?;
    before.check(request)?;
    // Of one that was killed.
    dir.remove_model(&request.device)?;
    let (plan, made_clsact) = prepare(&before, caps, request)?;
    let rules = if plan.programs {
        programs::compile(&request.rules)?
    } else {
        RuleSet::default()
    };
    let mut job = Job {
        session,
        dir,
        request,
        before,
        plan,
        rules,
    };
    if job.stands()? {
        job.change(made_clsact)
    } else {
        job.set_up(made_clsact)
    }
}

/// Shaping one device, once what there was is known and what is to be is planned.
struct Job<'a> {
    session: Session,
    dir: &'a StateDir,
    request: &'a Request,
    before: Before,
    plan: Plan,
    rules: RuleSet,
}

impl Job<'_> {
    /// Whether what stands is ours, whole, and of the same kind: then it is changed in place.
    fn stands(&mut self) -> Result<bool, Error> {
        let same_kind = self.before.state.as_ref().is_some_and(|s| {
            s.complete
                && s.backend == self.plan.backend
                && s.policer.is_some() == self.plan.policer.is_some()
        });
        Ok(self.before.ours && same_kind && is_whole(&mut self.session, &self.before, &self.plan)?)
    }

    /// Brings what stands to the new rates.
    fn change(mut self, made_clsact: bool) -> Result<Shaped, Error> {
        self.dir.save(&self.state(false, made_clsact, true))?;
        for op in self.plan.further_limits(self.standing_limits()) {
            self.session.apply(op)?;
        }
        for op in &self.plan.update {
            self.session.apply(op)?;
        }
        if let Some(mut maps) = programs::maps(&self.request.device)? {
            programs::tell(&mut maps, &self.plan, &self.rules, self.request.lan)?;
        }
        self.done(made_clsact, true)
    }

    /// Ceilings whose classes stand. Those that are not wanted any more stay, and nothing goes there.
    fn standing_limits(&self) -> usize {
        self.before.state.as_ref().map_or(0, |s| s.limits)
    }

    /// Sets everything up; whatever fails, nothing is left.
    fn set_up(mut self, made_clsact: bool) -> Result<Shaped, Error> {
        let (before, plan) = (&self.before, &self.plan);
        // What an interrupted run or another backend left.
        if before.state.is_some() || before.ours || self.session.link(&plan.ifb)?.is_some() {
            self.undo(made_clsact)?;
        }
        let (before, plan) = (&self.before, &self.plan);
        let loaded = plan
            .programs
            .then(|| programs::load(plan, &self.rules, self.request.lan))
            .transpose()?;
        let makes_clsact = !plan.device.has_clsact && !before.foreign_ingress
            || before.foreign_ingress && self.request.replace;
        self.dir.save(&self.state(false, makes_clsact, false))?;
        if before.foreign_ingress {
            self.session.apply(&Op::QdiscDel {
                dev: self.request.device.as_str().into(),
                parent: Handle::INGRESS,
                handle: Handle::INGRESS_QDISC,
                kind: Some("ingress".into()),
            })?;
        }
        for op in &self.plan.setup {
            let applied = programs::with_descriptor(op, loaded.as_ref());
            if let Err(e) = applied.and_then(|op| self.session.apply(&op)) {
                self.undo(makes_clsact)?;
                self.dir.remove(&self.request.device)?;
                return Err(e);
            }
        }
        self.done(makes_clsact, false)
    }

    fn undo(&mut self, made_clsact: bool) -> Result<(), Error> {
        undo(
            &mut self.session,
            &self.request.device,
            &self.plan.ifb,
            made_clsact,
            self.plan.device.sizes,
        )
    }

    /// The record.
    fn state(&self, complete: bool, made_clsact: bool, in_place: bool) -> State {
        let (request, before, plan) = (self.request, &self.before, &self.plan);
        let replaced_before = || before.state.as_ref().and_then(|s| s.replaced.clone());
        State {
            version: 0,
            device: request.device.clone(),
            ifindex: before.link.index,
            boot_id: String::new(),
            complete,
            backend: plan.backend,
            down: request.down,
            up: request.up,
            framing: plan.line.framing,
            framing_assumed: request.framing.is_none(),
            mode: request.mode,
            windows: plan.windows,
            lan: request.lan && plan.windows.is_some(),
            segments: plan.segments,
            ifb: plan.ifb.clone(),
            policer: plan.policer,
            made_clsact,
            replaced: before.foreign().or_else(replaced_before),
            without_programs: (!plan.programs).then(programs::missing),
            limits: if in_place {
                plan.limits.len().max(self.standing_limits())
            } else {
                plan.limits.len()
            },
            rules: request.rules.iter().map(ToString::to_string).collect(),
            sizes_before: plan.device.sizes,
        }
        .stamp()
    }

    /// Records that it is complete, and says what was done.
    fn done(self, made_clsact: bool, in_place: bool) -> Result<Shaped, Error> {
        let (request, plan) = (self.request, &self.plan);
        let shortened =
            |longest, rate| Shortened::new(longest, rate, plan.line.framing, plan.device.mtu);
        let mut warnings = warnings(request);
        if !plan.programs && !request.rules.is_empty() {
            warnings.push("this kernel does not take eBPF programs: --rule has no effect".into());
        }
        // Whoever changes rates in place has been told.
        if !in_place {
            let found = Session::open().and_then(|mut s| bypass::bypasses(&mut s, &request.device));
            warnings.extend(found.unwrap_or_default());
        }
        let shaped = Shaped {
            state: self.state(true, made_clsact, in_place),
            egress: plan.egress,
            ingress: plan.ingress,
            segments_up: shortened(plan.segments.up, request.up),
            segments_down: shortened(plan.segments.down, request.down),
            in_place,
            warnings,
        };
        self.dir.save(&shaped.state)?;
        Ok(shaped)
    }
}

/// Whether everything that a change in place relies on is still there.
fn is_whole(session: &mut Session, before: &Before, plan: &Plan) -> Result<bool, Error> {
    let wanted = if plan.backend == Backend::Cake {
        "cake"
    } else {
        "htb"
    };
    let kind = before.root.as_ref().map(|q| q.kind.as_str());
    let attached = programs::attached(session, before.link.index)?.is_some();
    if kind != Some(wanted) || plan.programs != attached {
        return Ok(false);
    }
    if plan.policer.is_some() {
        return Ok(true);
    }
    let Some(ifb) = session.link(&plan.ifb)? else {
        return Ok(false);
    };
    let root = session
        .qdiscs(ifb.index)?
        .into_iter()
        .find(|q| q.parent == Handle::ROOT);
    let filters = session.filters(before.link.index, Handle::CLSACT_INGRESS)?;
    Ok(root.is_some_and(|q| q.kind == wanted)
        && ifb.is_up()
        && filters
            .iter()
            .any(|f| evenkeel_core::plan::is_our_pref(f.pref)))
}

/// Takes everything of ours back; what is gone already is no error.
fn undo(
    session: &mut Session,
    device: &str,
    ifb: &str,
    made_clsact: bool,
    sizes: LinkSizes,
) -> Result<(), Error> {
    // Only our own root is deleted: its handle is in the request, and the kernel compares.
    let link = session
        .link(device)?
        .ok_or_else(|| Error::NoDevice(device.to_owned()))?;
    let qdiscs = session.qdiscs(link.index)?;
    let ours = qdiscs
        .iter()
        .any(|q| q.parent == Handle::ROOT && q.handle == Handle::qdisc(EGRESS));
    let clsact = qdiscs.iter().any(|q| q.kind == "clsact");
    // Somebody may have put filters of his own into the clsact that we made.
    let shared = clsact && made_clsact && has_foreign_filters(session, link.index)?;
    let ifb_there = session.link(ifb)?.is_some();
    let mut first_error = None;
    for op in removal(device, ifb, made_clsact && !shared, sizes) {
        let needless = match &op {
            Op::QdiscDel {
                parent: Handle::ROOT,
                ..
            } => !ours,
            Op::QdiscDel { .. } | Op::FilterDel { .. } => !clsact,
            Op::LinkDel { .. } => !ifb_there,
            _ => false,
        };
        if needless {
            continue;
        }
        match session.apply(&op) {
            // ENOENT, ENODEV, EINVAL: no such filter, device or preference.
            Err(Error::Refused {
                errno: 2 | 19 | 22, ..
            }) if matches!(op, Op::FilterDel { .. }) => {}
            Err(e) => first_error = first_error.or(Some(e)),
            Ok(()) => {}
        }
    }
    first_error.map_or(Ok(()), Err)
}

fn has_foreign_filters(session: &mut Session, index: u32) -> Result<bool, Error> {
    for parent in [Handle::CLSACT_INGRESS, Handle::CLSACT_EGRESS] {
        let filters = session.filters(index, parent)?;
        if filters
            .iter()
            .any(|f| !evenkeel_core::plan::is_our_pref(f.pref))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes everything back from a device.
pub fn clear(dir: &StateDir, device: &str) -> Result<Cleared, Error> {
    let mut session = Session::open()?;
    let Some(link) = session.link(device)? else {
        // The device has gone and took its disciplines along; our IFB stays behind.
        let Some(state) = dir.load(device)? else {
            return Err(Error::NoDevice(device.to_owned()));
        };
        let _lock = dir.lock(device)?;
        if session.link(&state.ifb)?.is_some() {
            session.apply(&Op::LinkDel {
                name: state.ifb.clone(),
            })?;
        }
        dir.remove(device)?;
        return Ok(Cleared::AsBefore);
    };
    let state = dir.load(device)?.filter(|s| s.ifindex == link.index);
    let root = session
        .qdiscs(link.index)?
        .into_iter()
        .find(|q| q.parent == Handle::ROOT);
    let ours = root.is_some_and(|q| q.handle == Handle::qdisc(EGRESS));
    let ifb = state
        .as_ref()
        .map_or_else(|| ifb_name(link.index), |s| s.ifb.clone());
    let ifb_there = session.link(&ifb)?.is_some_and(|l| l.kind == "ifb");
    if state.is_none() && !ours && !ifb_there {
        dir.remove(device)?; // a record of another boot
        return Ok(Cleared::Nothing);
    }
    let _lock = dir.lock(device)?;
    let (made_clsact, sizes) = match &state {
        Some(s) => (s.made_clsact, s.sizes_before),
        // Nothing is known of before: our filters go, an empty clsact stays, sizes stay.
        None => (false, LinkSizes::default()),
    };
    undo(&mut session, device, &ifb, made_clsact, sizes)?;
    dir.remove(device)?;
    Ok(match state {
        None => Cleared::WithoutRecord,
        Some(State {
            replaced: Some(what),
            ..
        }) => Cleared::DefaultInsteadOf(what),
        Some(_) => Cleared::AsBefore,
    })
}

/// What looks like a slip but may be meant.
fn warnings(request: &Request) -> Vec<String> {
    let mut all = Vec::new();
    // Lines give more towards the customer or the same; the other way round is rare.
    if request.up.bps() > request.down.bps() {
        all.push(format!(
            "upload {} is faster than download {}: the order is DEV DOWN UP",
            request.up, request.down
        ));
    }
    if request.down.bps() > 100 * request.up.bps() {
        all.push(format!(
            "download {} is more than 100 times the upload {}: is a unit missing?",
            request.down, request.up
        ));
    }
    all
}
