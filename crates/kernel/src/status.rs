//! What is in force on a device, and what it did so far.
//!
//! Principles: the kernel is asked, the record only says what was meant; if the two differ, that
//! is said. Needs no rights, but for what our programs have seen: the kernel shows maps to root
//! only. Non-goals: history and live rates.

use evenkeel_core::classify::Tier;
use evenkeel_core::plan::{Backend, EGRESS, INGRESS, Mode};
use evenkeel_core::police::Policer;
use evenkeel_core::segments::Longest;
use evenkeel_core::tc::{Cake, Handle, Qdisc};
use evenkeel_core::{Framing, Line, Rate};
use evenkeel_datapath::Maps;
use evenkeel_wire::QdiscInfo;
use evenkeel_wire::tc::stats::AppStats;
use evenkeel_wire::tc::{ClassBody, QdiscBody};
use serde::{Deserialize, Serialize};

use crate::lan::{self, LanQueues};
use crate::{Error, PassiveStatistics, Session, State, StateDir, bypass, passive, programs};

/// One device that evenkeel shapes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub device: String,
    /// Whether what was set up is still there.
    pub health: Health,
    /// How it is shaped.
    pub backend: Backend,
    /// Framing of the line.
    pub framing: String,
    /// The framing was assumed, not told.
    pub framing_assumed: bool,
    /// What matters more.
    pub mode: Mode,
    /// What receive windows of downloads aim at; absent if they are left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<Rate>,
    /// Queues behind the gateway that those windows hold short; absent if none stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lan: Option<LanQueues>,
    /// Why our programs are not there, and u32 filters do what they can; absent if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_programs: Option<String>,
    /// How TCP's packets from us are shortened; absent if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_up: Option<Shortened>,
    /// Those towards us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_down: Option<Shortened>,
    /// What our programs have seen; absent if they are not there, or for want of rights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<PassiveStatistics>,
    /// What was done to arrivals, if they are policed rather than shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policed: Option<Policing>,
    /// What makes shaping a lie, in sentences; some of it is seen with rights only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bypasses: Vec<String>,
    /// From us.
    pub up: DirectionStatus,
    /// Towards us.
    pub down: DirectionStatus,
}

/// Packets of new TCP connections in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shortened {
    /// Longest IP packet, bytes.
    pub packet: u16,
    /// How long the line takes for it, ms.
    pub takes_ms: f64,
    /// Goodput that it costs beside full packets, per cent; below 0 if it brings some.
    pub costs_percent: f64,
}

impl Shortened {
    /// Of a direction of this rate, on a device of this MTU (bytes).
    pub fn new(longest: Longest, rate: Rate, framing: Framing, mtu: u32) -> Option<Self> {
        let packet = longest.0?;
        let takes = rate.time_for(framing.wire_len(packet.into()).into())?;
        Some(Shortened {
            packet,
            takes_ms: takes.as_secs_f64() * 1000.0,
            costs_percent: longest.cost(framing, mtu),
        })
    }
}

/// Whether record and kernel agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// They do.
    Working,
    /// They do not: what is missing, and what to do.
    Broken(String),
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// Where its queue is.
    pub device: String,
    /// Rate of the line as told.
    pub line: Rate,
    /// Rate that the kernel shapes to; absent if it does not.
    pub shaped: Option<Rate>,
    /// Bytes sent, as the device counts them.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped in the queue.
    pub dropped: u64,
    /// Packets marked (ECN) rather than dropped.
    pub marked: u64,
    /// Bytes that wait now.
    pub backlog: u64,
    /// The same by tier.
    pub tiers: Vec<TierCounters>,
}

/// What the policer did, packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policing {
    /// Marked as having experienced congestion (ECN).
    pub marked: u64,
    /// Given the fwmark.
    pub flagged: u64,
    /// Long packets dropped.
    pub dropped_large: u64,
    /// Others, dropped when dropping all long ones was not enough.
    pub dropped_small: u64,
    /// Empty acknowledgements, dropped when there was nothing else to drop.
    pub dropped_acks: u64,
}

impl DirectionStatus {
    /// Nothing is known of it yet.
    fn empty(device: &str, line: Rate) -> Self {
        DirectionStatus {
            device: device.to_owned(),
            line,
            shaped: None,
            bytes: 0,
            packets: 0,
            dropped: 0,
            marked: 0,
            backlog: 0,
            tiers: Vec::new(),
        }
    }
}

/// What went through one tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierCounters {
    /// Which.
    pub tier: Tier,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// All devices of this namespace with a record, or the one named.
pub fn status(dir: &StateDir, device: Option<&str>) -> Result<Vec<Status>, Error> {
    let mut session = Session::open()?;
    let names = match device {
        Some(name) => vec![name.to_owned()],
        None => dir.devices()?,
    };
    let mut all = Vec::new();
    for name in names {
        let link = session.link(&name)?;
        if link.is_none() && device.is_some() {
            return Err(Error::NoDevice(name));
        }
        let Some(state) = dir.load(&name)? else {
            continue;
        };
        let program = match &link {
            Some(l) => programs::attached(&mut session, l.index)?,
            None => None,
        };
        let maps = program.and_then(|id| Maps::of_program(id).ok());
        let seen = maps.as_ref().map(passive::statistics).transpose()?;
        let up = direction(&mut session, &name, state.up, state.framing, EGRESS)?;
        let known = maps.as_ref().zip(seen.as_ref());
        let (down, policed) = towards(&mut session, &state, program.is_some(), known)?;
        let same = link.as_ref().is_some_and(|l| l.index == state.ifindex);
        let diverted = match &link {
            Some(l) => session
                .filters(l.index, Handle::CLSACT_INGRESS)?
                .iter()
                .any(|f| evenkeel_core::plan::is_our_pref(f.pref)),
            None => false,
        };
        let trouble = trouble(
            &name,
            &state,
            &Found {
                same,
                up: up.shaped.is_some(),
                down: down.shaped.is_some(),
                programs: program.is_some(),
                diverted,
            },
        );
        let shortened = |longest, rate| {
            let mtu = link.as_ref()?.mtu;
            Shortened::new(longest, rate, state.framing, mtu)
        };
        let bypasses = match &link {
            Some(_) => bypass::bypasses(&mut session, &name)?,
            None => Vec::new(),
        };
        all.push(Status {
            health: trouble.map_or(Health::Working, |t| {
                Health::Broken(format!(
                    "{t}; `evenkeel shape {name} {} {}` sets it up again",
                    state.down, state.up
                ))
            }),
            device: name,
            backend: state.backend,
            framing: state.framing.to_string(),
            framing_assumed: state.framing_assumed,
            mode: state.mode,
            // Where nothing is known they hold nothing.
            windows: state.windows.filter(|_| state.down != Line::OPEN),
            lan: maps.as_ref().map(lan::queues).transpose()?.flatten(),
            segments_up: shortened(state.segments.up, state.up),
            segments_down: shortened(state.segments.down, state.down),
            without_programs: state.without_programs,
            seen,
            policed,
            bypasses,
            up,
            down,
        });
    }
    Ok(all)
}

/// Arrivals: on the IFB, or what the policer did.
fn towards(
    session: &mut Session,
    state: &State,
    has_program: bool,
    known: Option<(&Maps, &PassiveStatistics)>,
) -> Result<(DirectionStatus, Option<Policing>), Error> {
    match &state.policer {
        None => {
            let ifb = direction(session, &state.ifb, state.down, state.framing, INGRESS)?;
            Ok((ifb, None))
        }
        Some(policer) => arrivals(&state.device, policer, has_program, known),
    }
}

/// What of a device's shaping is still there.
struct Found {
    /// The device itself.
    same: bool,
    /// Our discipline on it.
    up: bool,
    /// That on the IFB, or the policer.
    down: bool,
    /// Our programs.
    programs: bool,
    /// The filter that sends arrivals to the IFB.
    diverted: bool,
}

/// What is missing of what was set up on `name`, in words; `None`: all of it is there. Asks the kernel for little.
pub(crate) fn damage(
    session: &mut Session,
    name: &str,
    state: &State,
) -> Result<Option<String>, Error> {
    let Some(link) = session.link(name)? else {
        return Ok(Some(format!("{name} has gone")));
    };
    let is_ours = |qdiscs: &[QdiscInfo], major| {
        let is_root = |q: &QdiscInfo| q.parent == Handle::ROOT && q.handle == Handle::qdisc(major);
        qdiscs.iter().any(is_root)
    };
    let up = is_ours(&session.qdiscs(link.index)?, EGRESS);
    let programs = programs::attached(session, link.index)?.is_some();
    let filters = session.filters(link.index, Handle::CLSACT_INGRESS)?;
    let down = match &state.policer {
        Some(_) => programs,
        None => match session.link(&state.ifb)? {
            Some(ifb) => ifb.is_up() && is_ours(&session.qdiscs(ifb.index)?, INGRESS),
            None => false,
        },
    };
    let found = Found {
        same: link.index == state.ifindex,
        up,
        down,
        programs,
        diverted: filters
            .iter()
            .any(|f| evenkeel_core::plan::is_our_pref(f.pref)),
    };
    Ok(trouble(name, state, &found))
}

/// What is wrong, in words; the first thing that explains the others.
fn trouble(name: &str, state: &State, found: &Found) -> Option<String> {
    if !found.same {
        Some(format!("{name} has gone (and may be another device now)"))
    } else if !state.complete {
        Some("setting it up was interrupted".to_owned())
    } else if !found.up {
        Some(format!("our queueing discipline on {name} has gone"))
    } else if state.policer.is_some() && !found.down {
        Some("our policer has gone".to_owned())
    } else if !found.down {
        Some(format!(
            "{} has gone or lost its queueing discipline",
            state.ifb
        ))
    } else if state.without_programs.is_none() && !found.programs {
        Some("our programs have gone".to_owned())
    } else if state.policer.is_none() && !found.diverted {
        Some(format!(
            "the filter that sends arrivals to {} has gone",
            state.ifb
        ))
    } else {
        None
    }
}

/// What the policer lets through and what it does not; nothing if it is not there.
fn arrivals(
    device: &str,
    policer: &Policer,
    attached: bool,
    known: Option<(&Maps, &PassiveStatistics)>,
) -> Result<(DirectionStatus, Option<Policing>), Error> {
    let mut found = DirectionStatus::empty(device, policer.rate);
    let Some((maps, seen)) = known else {
        found.shaped = attached.then_some(policer.rate);
        return Ok((found, None));
    };
    let did = maps.policed()?;
    found.shaped = maps.is_policed(policer)?.then_some(policer.rate);
    found.bytes = seen.down.bytes;
    found.packets = seen.down.segments;
    found.dropped = did.dropped();
    found.marked = did.marked;
    found.tiers = seen
        .down
        .tiers
        .iter()
        .map(|t| TierCounters {
            tier: t.tier,
            bytes: t.bytes,
            packets: t.segments,
            // The policer looks at sizes and flows, not at tiers.
            dropped: 0,
        })
        .collect();
    let policing = Policing {
        marked: did.marked,
        flagged: did.flagged,
        dropped_large: did.large,
        dropped_small: did.small,
        dropped_acks: did.acks,
    };
    Ok((found, Some(policing)))
}

/// CAKE's diffserv4 tins in the order of its report (`cake_dump_stats` walks `tin_order`).
const TINS: [Tier; 4] = [Tier::Bulk, Tier::BestEffort, Tier::Video, Tier::Voice];

/// Bytes that wait in our queue, of all of a device's disciplines. That of an HTB root is not to
/// be believed once super-packets were split below it.
pub(crate) fn waiting(qdiscs: &[QdiscInfo], major: u16) -> u64 {
    let is_root = |q: &&QdiscInfo| q.parent == Handle::ROOT && q.handle == Handle::qdisc(major);
    let Some(root) = qdiscs.iter().find(is_root) else {
        return 0;
    };
    if let QdiscBody::Known(Qdisc::Cake(_)) = root.body {
        return root.stats.backlog.into();
    }
    let is_leaf = |q: &&QdiscInfo| {
        let of = |tier: &Tier| evenkeel_core::plan::is_leaf_of(q.handle, *tier);
        Tier::ALL.iter().any(of)
    };
    let leaves = qdiscs.iter().filter(is_leaf);
    leaves.map(|q| u64::from(q.stats.backlog)).sum()
}

/// Packets with payload of TCP that our queue has thrown away so far, about: acknowledgements are urgent where there are
/// leaves, and are counted apart by CAKE (`b->ack_drops` in `cake_enqueue`).
pub(crate) fn dropped(qdiscs: &[QdiscInfo], major: u16) -> u64 {
    let is_root = |q: &&QdiscInfo| q.parent == Handle::ROOT && q.handle == Handle::qdisc(major);
    if let Some(root) = qdiscs.iter().find(is_root)
        && let AppStats::Cake(cake) = &root.stats.app
    {
        let tins = cake.tins.iter();
        return tins.map(|t| u64::from(t.dropped_packets)).sum();
    }
    let has_payload = |q: &&QdiscInfo| {
        let of = |tier: &Tier| evenkeel_core::plan::is_leaf_of(q.handle, *tier);
        Tier::ALL.iter().filter(|t| **t != Tier::Voice).any(of)
    };
    let leaves = qdiscs.iter().filter(has_payload);
    leaves.map(|q| u64::from(q.stats.drops)).sum()
}

pub(crate) fn direction(
    session: &mut Session,
    device: &str,
    line: Rate,
    framing: Framing,
    major: u16,
) -> Result<DirectionStatus, Error> {
    let mut found = DirectionStatus::empty(device, line);
    let Some(link) = session.link(device)? else {
        return Ok(found);
    };
    let qdiscs = session.qdiscs(link.index)?;
    let Some(root) = qdiscs
        .iter()
        .find(|q| q.parent == Handle::ROOT && q.handle == Handle::qdisc(major))
    else {
        return Ok(found);
    };
    found.bytes = root.stats.bytes;
    found.packets = root.stats.packets;
    found.dropped = root.stats.drops.into();
    found.backlog = waiting(&qdiscs, major);
    if let QdiscBody::Known(Qdisc::Cake(Cake { bandwidth, .. })) = &root.body {
        found.shaped = *bandwidth;
        if let AppStats::Cake(cake) = &root.stats.app {
            found.marked = cake
                .tins
                .iter()
                .map(|t| u64::from(t.ecn_marked_packets))
                .sum();
            found.tiers = TINS
                .iter()
                .zip(&cake.tins)
                .map(|(tier, t)| TierCounters {
                    tier: *tier,
                    bytes: t.sent_bytes,
                    packets: t.sent_packets.into(),
                    dropped: t.dropped_packets.into(),
                })
                .collect();
        }
        found.tiers.sort_by_key(|t| t.tier);
        return Ok(found);
    }
    // HTB: its tiers' classes count what went through, the leaves below what was dropped.
    let classes = session.classes(link.index)?;
    for tier in Tier::ALL {
        let minor = evenkeel_core::plan::tier_minor(tier);
        let Some(class) = classes
            .iter()
            .find(|c| c.classid == Handle::class(major, minor))
        else {
            continue;
        };
        let below = |q: &Handle| evenkeel_core::plan::is_leaf_of(*q, tier);
        let leaves = || qdiscs.iter().filter(|q| below(&q.handle));
        found.marked += leaves()
            .map(|q| match &q.stats.app {
                AppStats::FqCodel(fq) => u64::from(fq.ecn_mark),
                _ => 0,
            })
            .sum::<u64>();
        found.tiers.push(TierCounters {
            tier,
            bytes: class.stats.bytes,
            packets: class.stats.packets,
            dropped: leaves().map(|q| u64::from(q.stats.drops)).sum(),
        });
    }
    found.shaped = classes.iter().find_map(|c| match (&c.body, c.classid) {
        (ClassBody::Htb(htb), id) if id == Handle::class(major, 1) => {
            Some(unscaled(htb.rate, framing))
        }
        _ => None,
    });
    Ok(found)
}

/// The line's rate from the one that HTB was given for it, to the nearest kbit/s.
fn unscaled(rate: Rate, framing: Framing) -> Rate {
    let (_, (n, d)) = evenkeel_core::plan::htb_link(framing, 0);
    Rate::from_kbit((rate.bps() * d / n + 500) / 1000)
}
