//! Other people's shapers as conditions, built from the kernel's own disciplines.
//!
//! Principles: each is what a person who follows its author's advice would have typed for the
//! line; its operations are a pure function of that line, and what it was told by hand stands
//! beside its name, because that is what evenkeel has to find out by itself; nothing is tuned
//! here that its author did not tune. Non-goals: running foreign scripts, options nobody typed.

mod autorate;
mod cake;
mod inetgw;
mod parts;
mod sqm;
mod wondershaper;

use evenkeel_core::framing::Mode;
use evenkeel_core::plan::Feature;
use evenkeel_core::result::{Charge, ConditionFacts, LineFacts};
use evenkeel_core::tc::{Action, FilterKind, Handle, Op, Qdisc};
use evenkeel_core::{Framing, Rate};
use evenkeel_kernel::{Error, Session, capabilities};

use crate::shaper::{Dropped, Shaper, ShaperError, Site};
use autorate::{Running, Told};
use parts::{IFB, Place, Share, is_atm};

/// A peer with a name. What was typed for it stands in its facts.
#[derive(Debug)]
pub struct Peer {
    name: &'static str,
    build: Build,
    wan: String,
    /// What follows the line, where something does.
    running: Option<autorate::Running>,
}

/// What is built.
#[derive(Debug, Clone, Copy)]
enum Build {
    Cake(Share),
    Autorate,
    Sqm(sqm::Settings),
    Defaults,
    Inetgw(Share),
    Wondershaper(Share),
}

/// What the author of the CeroWRT series typed as 95 %, as shares of his line's rates.
const P95: Share = Share {
    down: (20181, 21181),
    up: (1112, 1171),
};
/// What he typed as 99 %.
const P99: Share = Share {
    down: (21000, 21181),
    up: (1160, 1171),
};

/// What a kernel lacks for a condition.
#[derive(Debug, thiserror::Error)]
#[error("this kernel lacks {what} ({config}); run it in User Mode Linux (--engine uml)")]
pub struct Lacks {
    what: &'static str,
    config: &'static str,
}

impl Peer {
    /// All of them.
    pub fn all() -> Vec<Peer> {
        let of = |name, build| Peer {
            name,
            build,
            wan: String::new(),
            running: None,
        };
        let sqm = |share, framing| Build::Sqm(sqm::Settings { share, framing });
        let atm = |overhead| sqm::Layer::Atm(overhead);
        let whole = Share::percent(100);
        vec![
            of("cake-95", Build::Cake(Share::percent(95))),
            of("cake-97", Build::Cake(Share::percent(97))),
            of("cake-99", Build::Cake(Share::percent(99))),
            of("cake-autorate", Build::Autorate),
            of("sqm-htb", sqm(Share::percent(95), sqm::Layer::Right)),
            of("inetgw", Build::Inetgw(whole)),
            of("inetgw-95", Build::Inetgw(Share::percent(95))),
            of("wondershaper", Build::Wondershaper(whole)),
            of("wondershaper-90", Build::Wondershaper(Share::percent(90))),
            of("router-defaults", Build::Defaults),
            of("sqm-95", sqm(P95, sqm::Layer::Untold)),
            of("sqm-95-atm44", sqm(P95, atm(44))),
            of("sqm-100-atm44", sqm(whole, atm(44))),
            of("sqm-99-atm44", sqm(P99, atm(44))),
            of("sqm-99-atm40", sqm(P99, atm(40))),
        ]
    }

    /// What it is, in a phrase.
    fn about(&self) -> &'static str {
        match self.build {
            Build::Cake(_) => "CAKE on the device and on an IFB",
            Build::Autorate => "CAKE and a loop after cake-autorate",
            Build::Sqm(_) => "SQM's simple.qos: HTB with fq_codel leaves",
            Build::Defaults => "CeroWRT as it comes: fq_codel, unshaped",
            Build::Inetgw(_) => "trafficcontrol-inetgw: HTB with SFQ, policing in three steps",
            Build::Wondershaper(_) => "Wondershaper's HTB variant: three classes, one policer",
        }
    }

    fn ops(&self, place: &Place<'_>) -> Vec<Op> {
        match self.build {
            Build::Cake(share) => {
                let line = place.line;
                let up = Share::of(line.up, share.up);
                cake::ops(place, Share::of(line.down, share.down), up)
            }
            Build::Autorate => {
                let [down, up] = Told::of(place.line);
                cake::ops(place, down.base, up.base)
            }
            Build::Sqm(settings) => sqm::ops(place, settings),
            Build::Defaults => sqm::router_defaults(place),
            Build::Inetgw(share) => inetgw::ops(place, share),
            Build::Wondershaper(share) => wondershaper::ops(place, share),
        }
    }
}

impl Shaper for Peer {
    fn name(&self) -> &str {
        self.name
    }

    fn facts(&self, line: &LineFacts, link_header: u16) -> ConditionFacts {
        let rates = |share: Share| {
            (
                Share::of(line.down, share.down),
                Share::of(line.up, share.up),
            )
        };
        let seen = Framing::new(Mode::None, link_header as i16, 0);
        // Rates as typed, framing as typed, and the limits that come of it.
        let (typed, words, limits) = match self.build {
            Build::Defaults => (None, String::new(), None),
            Build::Cake(share) => {
                let (down, up) = rates(share);
                let limit = |rate| (rate, line.framing);
                let words = format!("{}, kind of line", line.framing);
                (Some((down, up)), words, Some((limit(down), limit(up))))
            }
            Build::Autorate => {
                let [down, up] = Told::of(line);
                let words = format!(
                    "at least {}/{}, at most {}/{}, {}, kind of line",
                    down.min.kbit(),
                    up.min.kbit(),
                    down.max.kbit(),
                    up.max.kbit(),
                    line.framing
                );
                (Some((down.base, up.base)), words, None)
            }
            Build::Sqm(sqm::Settings { share, framing }) => {
                let (down, up) = rates(share);
                let told = framing.of(line);
                let limit = |rate| (rate, told.unwrap_or(seen));
                let words = told.map_or("no framing".into(), |f| f.to_string());
                (Some((down, up)), words, Some((limit(down), limit(up))))
            }
            Build::Inetgw(share) => {
                let (down, up) = rates(share);
                let atm = is_atm(line.framing);
                let mode = if atm { Mode::Atm } else { Mode::None };
                // Policers count what is behind the link header; the third one drops all.
                let policed = Rate::from_kbit(inetgw::policed_kbit(down.kbit()));
                let limits = (
                    (policed, Framing::new(mode, 0, 0)),
                    (up, Framing::new(mode, seen.overhead, 0)),
                );
                let words = if atm {
                    "ATM without overhead"
                } else {
                    "no ATM"
                };
                (Some((down, up)), words.into(), Some(limits))
            }
            Build::Wondershaper(share) => {
                let (down, up) = rates(share);
                let bulk = Rate::from_kbit(wondershaper::bulk_kbit(up.kbit()));
                let limits = ((down, Framing::default()), (bulk, seen));
                (Some((down, up)), "no framing".into(), Some(limits))
            }
        };
        let charge = |(rate, framing)| Charge { rate, framing };
        ConditionFacts {
            name: self.name.to_owned(),
            about: self.about().to_owned(),
            told: typed.map_or(String::new(), |(down, up)| {
                format!("{}/{} kbit/s, {words}", down.kbit(), up.kbit())
            }),
            down: limits.map(|l| charge(l.0)),
            up: limits.map(|l| charge(l.1)),
        }
    }

    fn apply(&mut self, site: &Site) -> Result<(), ShaperError> {
        self.wan.clone_from(&site.wan);
        let mut session = Session::open()?;
        let link = session
            .link(&site.wan)?
            .ok_or_else(|| Error::NoDevice(site.wan.clone()))?;
        let place = Place {
            wan: &site.wan,
            link_header: link.hardware.header_len().unwrap_or(14),
            mtu: link.mtu,
            line: &site.line,
            marks: capabilities()?.has(Feature::U32Mark),
        };
        let ops = self.ops(&place);
        for op in &ops {
            session.apply(op).map_err(|e| explain(op, e))?;
        }
        if let Build::Autorate = self.build {
            self.running = Some(Running::start(site, &ops)?);
        }
        Ok(())
    }

    /// Roots count what their leaves drop, and `ingress` what its policers drop.
    fn dropped(&mut self) -> Result<Dropped, ShaperError> {
        let mut session = Session::open()?;
        let mut sum = 0;
        for device in [self.wan.as_str(), IFB] {
            let Some(link) = session.link(device)? else {
                continue;
            };
            let ours = |p| p == Handle::ROOT || p == Handle::INGRESS;
            let all = session.qdiscs(link.index)?;
            let roots = all.iter().filter(|q| ours(q.parent));
            sum += roots.map(|q| u64::from(q.stats.drops)).sum::<u64>();
        }
        Ok(Dropped {
            packets: sum,
            acks: None,
        })
    }

    fn clear(&mut self) -> Result<(), ShaperError> {
        // What it could not go on with is told when the rest is done.
        let followed = self.running.take().map_or(Ok(()), Running::stop);
        let mut session = Session::open()?;
        let Some(link) = session.link(&self.wan)? else {
            return followed;
        };
        for q in session.qdiscs(link.index)? {
            // 0: is the kernel's own default.
            let made = q.handle != Handle::NONE;
            if made && (q.parent == Handle::ROOT || q.parent == Handle::INGRESS) {
                session.apply(&Op::QdiscDel {
                    dev: self.wan.as_str().into(),
                    parent: q.parent,
                    handle: q.handle,
                    kind: None,
                })?;
            }
        }
        if session.link(IFB)?.is_some() {
            session.apply(&Op::LinkDel { name: IFB.into() })?;
        }
        followed
    }
}

/// An unknown kind is the kernel's lack, with its name; anything else stays as it is.
fn explain(op: &Op, e: Error) -> ShaperError {
    /// No such kind, and no module for it.
    const ENOENT: i32 = 2;
    /// No such kind of device.
    const EOPNOTSUPP: i32 = 95;
    let unknown =
        matches!(&e, Error::Refused { errno, .. } if [ENOENT, EOPNOTSUPP].contains(errno));
    match lacking(op).filter(|_| unknown) {
        Some(lack) => Box::new(lack),
        None => Box::new(e),
    }
}

/// What a kernel without `op`'s kind is called to lack.
fn lacking(op: &Op) -> Option<Lacks> {
    let (what, config) = match op {
        Op::QdiscAdd(q) => match q.qdisc {
            Qdisc::Cake(_) => ("CAKE", "CONFIG_NET_SCH_CAKE"),
            Qdisc::Htb(_) => ("HTB", "CONFIG_NET_SCH_HTB"),
            Qdisc::FqCodel(_) => ("fq_codel", "CONFIG_NET_SCH_FQ_CODEL"),
            Qdisc::Sfq(_) => ("SFQ", "CONFIG_NET_SCH_SFQ"),
            Qdisc::Ingress | Qdisc::Clsact => ("the ingress discipline", "CONFIG_NET_SCH_INGRESS"),
            _ => return None,
        },
        Op::LinkAddIfb { .. } => ("IFB devices", "CONFIG_IFB"),
        Op::FilterAdd { filter, .. } => {
            let actions = match &filter.kind {
                FilterKind::U32(u) => &u.actions,
                FilterKind::Matchall(m) => &m.actions,
                FilterKind::Bpf(_) => return None,
            };
            match (actions.first(), &filter.kind) {
                (Some(Action::Police { .. }), _) => ("the police action", "CONFIG_NET_ACT_POLICE"),
                (Some(Action::Redirect { .. }), _) => {
                    ("the mirred action", "CONFIG_NET_ACT_MIRRED")
                }
                (Some(Action::Gact(_)), _) => ("the gact action", "CONFIG_NET_ACT_GACT"),
                (_, FilterKind::Matchall(_)) => {
                    ("the matchall classifier", "CONFIG_NET_CLS_MATCHALL")
                }
                _ => ("the u32 classifier", "CONFIG_NET_CLS_U32"),
            }
        }
        _ => return None,
    };
    Some(Lacks { what, config })
}

#[cfg(test)]
mod tests;
