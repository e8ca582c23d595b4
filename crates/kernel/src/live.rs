//! A device that is shaped by a process which stays: rates that change many times a second.
//!
//! Principles: set up and taken back as `shape` and `clear` do it; a change asks the kernel only
//! for what differs from the last one; the record follows at most once a second; windows are
//! bounded and rates are cut on a lease, so that the line is as it was soon after the process is
//! gone or stopped. Non-goals: deciding (`evenkeel_core::control`), and what a target means for disciplines and windows
//! (`evenkeel_core::plan`).

use std::time::Duration;

use evenkeel_core::classify::Tier;
use evenkeel_core::control::{RttSample, TcpPayload, TcpTimestamp};
use evenkeel_core::plan::{Capabilities, EGRESS, INGRESS, Plan, Target, plan, plan_followed};
use evenkeel_core::tc::{Op, Qdisc};
use evenkeel_core::wire_count::{Framed, Passed};
use evenkeel_core::{Direction, Framing, Line, PerDirection, Rate};
use evenkeel_datapath::Maps;
use evenkeel_sys::clock;
use evenkeel_wire::link::Counters;

use crate::lease::RateLease;
use crate::own_queue::OwnQueueDelay;
use crate::shape::{Request, check, device, policy, shape_locked};
use crate::state::Lock;
use crate::status::{damage, direction, dropped, waiting};
use crate::{Error, Session, State, StateDir, capabilities, clear, programs};

/// Windows open again so long after the last renewal.
const LEASE: Duration = Duration::from_secs(2);
/// From one record to the next.
const RECORD: Duration = Duration::from_secs(1);

/// What connections that passed showed.
#[derive(Debug, Clone, Default)]
pub struct ConnectionSamples {
    /// Round trips beyond us.
    pub round_trips: Vec<RttSample>,
    /// When their answers were sent, by the far sides' clocks.
    pub stamps: Vec<TcpTimestamp>,
}

/// Our own queues.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnQueues {
    /// How long what waits in them takes.
    pub waits: PerDirection<Duration>,
    /// Packets with payload of TCP that they have thrown away so far, about.
    pub dropped: PerDirection<u64>,
}

/// A device that this process shapes.
#[allow(missing_debug_implementations)] // aya's maps have none.
pub struct Live {
    dir: StateDir,
    request: Request,
    caps: Capabilities,
    session: Session,
    maps: Option<Maps>,
    plan: Plan,
    targets: PerDirection<Option<Target>>,
    state: State,
    /// When the record was written last, and whether it is behind.
    recorded: Duration,
    behind: bool,
    leased: Duration,
    /// Rates towards us and from us that the sizes of queues and super-packets are for.
    sized: [Rate; 2],
    own_queue: OwnQueueDelay,
    /// Bytes that had left the device when its counters were read last.
    sent: u64,
    rates: RateLease,
    _lock: Lock,
}

/// How long a queue or a packet may be: right for rates that differ by half as well.
fn is_size(op: &Op) -> bool {
    match op {
        Op::LinkSet { .. } => true,
        Op::QdiscChange(spec) => matches!(spec.qdisc, Qdisc::Tbf(_) | Qdisc::FqCodel(_)),
        _ => false,
    }
}

/// Whether `next` wants other sizes than those for rates `sized`.
fn is_far(sized: [Rate; 2], next: &Plan) -> bool {
    let far = |a: Rate, b: Rate| 2 * a.bps() > 3 * b.bps();
    let rates = sized.into_iter().zip([next.ingress, next.egress]);
    rates.into_iter().any(|(a, b)| far(a, b) || far(b, a))
}

/// Whether `plan` wants something else in the place of `op`, the `n`th of another plan for the same
/// device. Plans of one backend name the same objects in the same order.
fn differs(plan: &Plan, n: usize, op: &Op) -> bool {
    plan.update.get(n) != Some(op)
}

/// Some of what brings a tree to `plan`, by number.
fn some(plan: &Plan, which: impl Fn(usize, &Op) -> bool) -> Vec<&Op> {
    let all = (0..).zip(&plan.update).filter(|(n, op)| which(*n, op));
    all.map(|(_, op)| op).collect()
}

/// How long `bytes` take at this rate.
fn takes(bytes: u64, rate: Rate) -> Duration {
    rate.time_for(bytes).unwrap_or_default()
}

impl Live {
    /// Sets up shaping as `request` says, with its rates; [`Line::OPEN`] where none is known.
    /// Returns warnings as well.
    pub fn start(dir: &StateDir, request: &Request) -> Result<(Self, Vec<String>), Error> {
        check(dir, request)?;
        let lock = dir.lock(&request.device)?;
        // Before anything is loaded: it is as large as this process is now.
        let rates = RateLease::start()?;
        let caps = capabilities()?;
        let shaped = shape_locked(&caps, dir, request)?;
        let mut session = Session::open()?;
        let link = session
            .link(&request.device)?
            .ok_or_else(|| Error::NoDevice(request.device.clone()))?;
        let device = device(&link, true, shaped.state.sizes_before);
        let line = Line {
            down: request.down,
            up: request.up,
            framing: shaped.state.framing,
        };
        let plan = plan(&caps, &device, line, policy(request))?;
        let maps = programs::maps(&request.device)?;
        let mut live = Live {
            dir: dir.clone(),
            request: request.clone(),
            caps,
            session,
            maps,
            sized: [plan.ingress, plan.egress],
            plan,
            targets: PerDirection::default(),
            state: shaped.state,
            recorded: Duration::ZERO,
            behind: false,
            leased: Duration::ZERO,
            own_queue: OwnQueueDelay::default(),
            sent: 0,
            rates,
            _lock: lock,
        };
        live.lend(clock::monotonic())?;
        Ok((live, shaped.warnings))
    }

    /// Framing of the line, told or assumed.
    pub fn framing(&self) -> Framing {
        self.plan.line.framing
    }

    /// Bytes before the IP packet in the device's counters, and its MTU.
    pub fn frame(&self) -> (u16, u32) {
        (self.plan.device.link_header, self.plan.device.mtu)
    }

    /// What passed the device so far.
    pub fn counters(&mut self) -> Result<Counters, Error> {
        let counters = self.session.counters(self.plan.device.ifindex);
        let counters = counters.map_err(|e| self.or_gone(e))?;
        self.sent = counters.tx_bytes;
        Ok(counters)
    }

    /// What our programs saw of single packets so far, as the line frames them. Nothing without them.
    pub fn framed(&self) -> Result<Option<PerDirection<Framed>>, Error> {
        let Some(maps) = &self.maps else {
            return Ok(None);
        };
        let counts = maps.counts()?.direction;
        Ok(Some(PerDirection::of(|d| Framed {
            passed: Passed {
                bytes: counts[d].bytes as f64,
                packets: counts[d].segments as f64,
            },
            wire_bytes: counts[d].wire_bytes as f64,
        })))
    }

    /// Whether [`Live::connection_samples`] can tell anything.
    pub fn has_programs(&self) -> bool {
        self.maps.is_some()
    }

    /// What connections that passed showed since the last call. To be called often, and after [`Live::counters`]: how
    /// long our own queue is, is seen only then. `light_waits`: so little is let out that acknowledgements may wait too.
    /// Nothing without our programs.
    pub fn connection_samples(
        &mut self,
        now: Duration,
        light_waits: bool,
    ) -> Result<ConnectionSamples, Error> {
        let Some(maps) = &mut self.maps else {
            return Ok(ConnectionSamples::default());
        };
        let mut samples = maps.take_rtt_samples()?;
        samples.retain(|s| s.answered_at + OwnQueueDelay::RECENT > now);
        // What is light goes first, and asks nothing of the kernel.
        if light_waits || samples.iter().any(|s| s.may_have_queued) {
            self.look_at_own_queue(now, light_waits)?;
        }
        let mut found = ConnectionSamples::default();
        for s in &samples {
            let left = s.answered_at.saturating_sub(s.rtt);
            found.round_trips.push(RttSample {
                remote: s.remote,
                left,
                waited: self.own_queue.at(left, !s.may_have_queued),
                came: s.answered_at,
            });
            found.stamps.extend(s.tsval.map(|tsval| TcpTimestamp {
                remote: s.remote,
                connection: u32::from(s.ports[0]) << 16 | u32::from(s.ports[1]),
                tsval,
                came: s.answered_at,
            }));
        }
        Ok(found)
    }

    fn look_at_own_queue(&mut self, now: Duration, light_waits: bool) -> Result<(), Error> {
        let mut backlog = 0;
        if self.targets.up.is_some() {
            let qdiscs = self.session.qdiscs(self.plan.device.ifindex);
            let qdiscs = qdiscs.map_err(|e| self.or_gone(e))?;
            backlog = waiting(&qdiscs, EGRESS);
        }
        let packet = self.plan.device.mtu;
        let (sent, rate) = (self.sent, self.plan.egress);
        self.own_queue
            .look(now, (sent, backlog), packet, rate, light_waits);
        Ok(())
    }

    /// Whether the device has gone, also if one of its name has come since.
    pub fn has_gone(&mut self) -> bool {
        let device = &self.plan.device;
        let link = self.session.link(&device.name);
        link.is_ok_and(|link| link.is_none_or(|l| l.index != device.ifindex))
    }

    /// What somebody has taken away of what was set up, in words; `None`: all of it is there.
    pub fn damage(&mut self) -> Result<Option<String>, Error> {
        let name = &self.plan.device.name;
        damage(&mut self.session, name, &self.state)
    }

    /// `e`, unless it is only because the device has gone.
    fn or_gone(&mut self, e: Error) -> Error {
        if self.has_gone() {
            return Error::Gone(self.plan.device.name.clone());
        }
        e
    }

    /// Rates that are in force; `None`: not known, and not shaped.
    pub fn shaped(&self) -> PerDirection<Option<Rate>> {
        let plan = &self.plan;
        let down = plan.windows.map_or(plan.ingress, |w| w.min(plan.ingress));
        PerDirection {
            up: (plan.line.up != Line::OPEN).then_some(plan.egress),
            down: (plan.line.down != Line::OPEN).then_some(down),
        }
    }

    /// Shapes to `targets` from now on.
    pub fn set(
        &mut self,
        targets: PerDirection<Option<Target>>,
        now: Duration,
    ) -> Result<(), Error> {
        let known = !self.rates.has_run_out();
        self.put(targets, known)?;
        self.lend(now)?;
        self.state.down = self.plan.line.down;
        self.state.up = self.plan.line.up;
        self.state.windows = self.plan.windows.filter(|_| targets.down.is_some());
        self.behind = true;
        Ok(())
    }

    fn planned(&self, targets: PerDirection<Option<Target>>) -> Result<Plan, Error> {
        let (device, framing) = (&self.plan.device, self.plan.line.framing);
        let policy = policy(&self.request);
        Ok(plan_followed(&self.caps, device, framing, policy, targets)?)
    }

    /// Puts `targets` in force; if they cut rates, on a lease. What is in force before is `known`
    /// unless rates came back by themselves.
    fn put(&mut self, targets: PerDirection<Option<Target>>, known: bool) -> Result<(), Error> {
        let next = self.planned(targets)?;
        let full = self.planned(targets.map(|t| t.and_then(Target::at_capacity)))?;
        // Sizes follow rates loosely: there are as many as there are leaves, and each change of a
        // device's is news to all who watch links.
        let sizes = !known || is_far(self.sized, &next);
        if sizes {
            self.sized = [next.ingress, next.egress];
        }
        let mut rates = (0..).zip(&full.update).filter(|(_, op)| !is_size(op));
        let is_cut = rates.any(|(n, op)| differs(&next, n, op));
        if is_cut {
            self.hold(&next, &full, known)?;
        }
        let wanted = |n, op: &Op| match op {
            size if is_size(size) => sizes,
            rate => !known || differs(&self.plan, n, rate),
        };
        let ops = some(&next, wanted);
        let applied = self.session.apply_all(&ops);
        applied.map_err(|e| self.or_gone(e))?;
        if !is_cut {
            self.rates.release()?;
        }
        self.put_in_maps(&next)?;
        self.plan = next;
        self.targets = targets;
        Ok(())
    }

    /// Hands over what brings rates back to `full`, from `next` as well as from what is in force
    /// before it, if that is `known`.
    fn hold(&mut self, next: &Plan, full: &Plan, known: bool) -> Result<(), Error> {
        let sizes = is_far(self.sized, full);
        let comes_back = |n, op: &Op| match op {
            size if is_size(size) => sizes,
            rate => !known || differs(next, n, rate) || differs(&self.plan, n, rate),
        };
        let messages = self.session.messages(&some(full, comes_back));
        let messages = messages.map_err(|e| self.or_gone(e))?;
        self.rates.hold(messages)
    }

    /// Tells our programs what is new in `next`.
    fn put_in_maps(&mut self, next: &Plan) -> Result<(), Error> {
        let Some(maps) = &mut self.maps else {
            return Ok(());
        };
        if self.plan.segments != next.segments || self.plan.line.framing != next.line.framing {
            maps.set_directions(programs::directions(next))?;
        }
        if let Some(policer) = &next.policer
            && self.plan.policer.as_ref() != Some(policer)
        {
            maps.set_policer(Some(policer))?;
        }
        Ok(())
    }

    /// Renews the lease of rates. If it has run out meanwhile (this process was stopped), rates are
    /// cut again.
    fn renew(&mut self) -> Result<(), Error> {
        if self.rates.has_run_out() {
            return self.put(self.targets, false);
        }
        self.rates.renew()
    }

    /// Renews the windows' lease.
    fn lend(&mut self, now: Duration) -> Result<(), Error> {
        self.leased = now;
        let known = self.plan.line.down != Line::OPEN;
        if let Some(maps) = &mut self.maps {
            let lan = self.request.lan;
            // A line that is not known bounds nothing; what is behind us may.
            let mut line = programs::line(&self.plan, lan).filter(|_| known || lan);
            if let Some(line) = &mut line {
                line.lease = now + LEASE;
                if !known {
                    line.surcharge = 0;
                }
            }
            maps.set_line(line)?;
        }
        Ok(())
    }

    /// What has to be done from time to time, at least each second: the leases, the record.
    pub fn tend(&mut self, now: Duration) -> Result<(), Error> {
        self.renew()?;
        if now.saturating_sub(self.leased) >= LEASE / 4 {
            self.lend(now)?;
        }
        if self.behind && now.saturating_sub(self.recorded) >= RECORD {
            self.recorded = now;
            self.behind = false;
            self.dir.save(&self.state)?;
        }
        Ok(())
    }

    /// What our own queues hold, and have thrown away so far; nothing where a direction is not shaped.
    pub fn own_queues(&mut self) -> Result<OwnQueues, Error> {
        let mut found = OwnQueues::default();
        let (device, ifb) = (self.plan.device.ifindex, self.plan.ifb.clone());
        let rates = self.shaped();
        if let Some(rate) = rates.up {
            let qdiscs = self.session.qdiscs(device);
            let qdiscs = qdiscs.map_err(|e| self.or_gone(e))?;
            found.waits.up = takes(waiting(&qdiscs, EGRESS), rate);
            found.dropped.up = dropped(&qdiscs, EGRESS);
        }
        if let Some(rate) = rates.down
            && self.plan.policer.is_none()
            && let Some(link) = self.session.link(&ifb)?
        {
            let qdiscs = self.session.qdiscs(link.index)?;
            found.waits.down = takes(waiting(&qdiscs, INGRESS), rate);
            found.dropped.down = dropped(&qdiscs, INGRESS);
        }
        Ok(found)
    }

    /// TCP's payload so far, as our programs and `queues` saw it; `None` without programs, and where our own policer
    /// throws away what nobody counts here.
    pub fn tcp_payload(
        &self,
        queues: &OwnQueues,
    ) -> Result<Option<PerDirection<TcpPayload>>, Error> {
        let maps = self.maps.as_ref().filter(|_| self.plan.policer.is_none());
        let Some(maps) = maps else {
            return Ok(None);
        };
        let counts = maps.counts()?.direction;
        let packet = f64::from(self.plan.device.mtu);
        Ok(Some(PerDirection::of(|d| TcpPayload {
            all: counts[d].payload as f64,
            retransmitted: counts[d].retransmitted as f64,
            dropped: queues.dropped[d] as f64 * packet,
        })))
    }

    /// Bytes that our disciplines have sent so far, by tier, most urgent first; nought where a direction has none.
    pub fn tiers(&mut self) -> Result<PerDirection<[u64; Tier::ALL.len()]>, Error> {
        let framing = self.plan.line.framing;
        let (device, ifb) = (self.plan.device.name.clone(), self.plan.ifb.clone());
        let places = PerDirection {
            up: (device, EGRESS),
            down: (ifb, INGRESS),
        };
        let mut sent = PerDirection::<[u64; Tier::ALL.len()]>::default();
        for d in Direction::BOTH {
            let (name, major) = &places[d];
            let found = direction(&mut self.session, name, Line::OPEN, framing, *major)?;
            for t in found.tiers {
                sent[d][t.tier as usize] = t.bytes;
            }
        }
        Ok(sent)
    }

    /// Number of the device.
    pub fn index(&self) -> u32 {
        self.plan.device.ifindex
    }

    /// Leaves the device shaped, at what the line carries, as `shape` would have; the next start goes on from there.
    pub fn leave(mut self) -> Result<(), Error> {
        let known = !self.rates.has_run_out();
        self.put(self.targets.map(|t| t.and_then(Target::at_capacity)), known)?;
        let is_known = self.plan.line.down != Line::OPEN;
        if let Some(maps) = &mut self.maps {
            maps.set_line(programs::line(&self.plan, self.request.lan).filter(|_| is_known))?;
        }
        self.dir.save(&self.state)?;
        // Whoever finds a model without a process takes the device back.
        self.dir.remove_model(&self.request.device)?;
        self.rates.end()
    }

    /// Takes everything back.
    pub fn stop(self) -> Result<(), Error> {
        let Live {
            dir,
            request,
            session,
            maps,
            rates,
            _lock: lock,
            ..
        } = self;
        drop((session, maps, lock));
        clear(&dir, &request.device)?;
        // Until here a kill would have left rates cut.
        rates.end()
    }
}
