//! What this kernel can do, found out by doing it.
//!
//! Principles: each thing is tried in an empty network namespace that nobody else sees and that
//! goes away with the thread; version numbers and configuration files are not believed; asking
//! loads modules just as using would. Non-goals: performance, and offloads of hardware.

use evenkeel_core::Rate;
use evenkeel_core::plan::{Capabilities, Feature, PROGRAMS};
use evenkeel_core::tc::{
    Action, Bpf, Cake, Filter, FilterKind, FqCodel, Handle, HtbRoot, LinkSettings, Mark, Matchall,
    Op, Protocol, Qdisc, QdiscSpec, Tbf, U32,
};
use evenkeel_datapath::Programs;
use evenkeel_sys::netns::Netns;
use evenkeel_wire::FilterBody;

use crate::{Error, Session};

/// Asks the kernel. Needs the right to make a network namespace.
pub fn capabilities() -> Result<Capabilities, Error> {
    let scratch = Netns::new("probe").map_err(|e| {
        Error::refused(
            "make a scratch network namespace",
            e.errno().desc(),
            e.errno() as i32,
        )
    })?;
    scratch.run(probe).map_err(|e| {
        Error::refused(
            "enter the scratch network namespace",
            e.errno().desc(),
            e.errno() as i32,
        )
    })?
}

fn probe() -> Result<Capabilities, Error> {
    let mut scratch = Scratch::new()?;
    scratch.disciplines()?;
    if scratch.clsact()? {
        scratch.filters()?;
        scratch.programs()?;
        scratch.forget_marks_that_were_forgotten()?;
    }
    Ok(scratch.caps)
}

/// A device in a namespace of its own, on which everything is tried.
struct Scratch {
    session: Session,
    caps: Capabilities,
    name: &'static str,
    /// Preference of the latest filter.
    pref: u16,
}

impl Scratch {
    /// An IFB; where there are none the loopback device of the namespace serves.
    fn new() -> Result<Self, Error> {
        let mut scratch = Scratch {
            session: Session::open()?,
            caps: Capabilities::default(),
            name: "lo",
            pref: 0,
        };
        let ifb = Op::LinkAddIfb {
            name: "probe".into(),
        };
        if scratch.has(Feature::Ifb, &ifb)? {
            scratch.name = "probe";
        }
        scratch.session.apply(&Op::LinkSet {
            name: scratch.name.into(),
            settings: LinkSettings {
                up: Some(true),
                ..LinkSettings::default()
            },
        })?;
        Ok(scratch)
    }

    /// Tries `op`, and notes `feature` if the kernel takes it.
    fn has(&mut self, feature: Feature, op: &Op) -> Result<bool, Error> {
        match self.session.apply(op) {
            Ok(()) => {
                self.caps.0.insert(feature);
                Ok(true)
            }
            Err(e @ Error::NotPermitted { .. }) => Err(e),
            Err(_) => Ok(false),
        }
    }

    /// Root disciplines, one after the other.
    fn disciplines(&mut self) -> Result<(), Error> {
        let tbf = Tbf {
            rate: Rate::from_kbit(1000),
            burst: 4000,
            limit: 4000,
        };
        for (feature, qdisc) in [
            (Feature::Cake, Qdisc::Cake(Cake::default())),
            (Feature::FqCodel, Qdisc::FqCodel(FqCodel::default())),
            (Feature::Tbf, Qdisc::Tbf(tbf)),
            (Feature::Htb, Qdisc::Htb(HtbRoot::default())),
        ] {
            let root = Op::QdiscReplace(QdiscSpec {
                dev: self.name.into(),
                parent: Handle::ROOT,
                handle: Handle::qdisc(1),
                qdisc,
                stab: None,
            });
            if self.has(feature, &root)? {
                self.session.apply(&Op::QdiscDel {
                    dev: self.name.into(),
                    parent: Handle::ROOT,
                    handle: Handle::NONE,
                    kind: None,
                })?;
            }
        }
        Ok(())
    }

    fn clsact(&mut self) -> Result<bool, Error> {
        let clsact = Op::QdiscAdd(QdiscSpec {
            dev: self.name.into(),
            parent: Handle::INGRESS,
            handle: Handle::INGRESS_QDISC,
            qdisc: Qdisc::Clsact,
            stab: None,
        });
        self.has(Feature::Clsact, &clsact)
    }

    /// A filter of this kind, each with a preference of its own.
    fn filter(&mut self, kind: FilterKind) -> Op {
        self.pref += 1;
        Op::FilterAdd {
            dev: self.name.into(),
            filter: Filter {
                parent: Handle::CLSACT_INGRESS,
                pref: self.pref,
                protocol: Protocol::Ip,
                handle: 0,
                kind,
            },
        }
    }

    /// Classifiers, and actions behind one that there is.
    fn filters(&mut self) -> Result<(), Error> {
        let op = self.filter(FilterKind::Matchall(Matchall::default()));
        let matchall = self.has(Feature::Matchall, &op)?;
        let u32_with = |actions| {
            FilterKind::U32(U32 {
                actions,
                ..U32::default()
            })
        };
        let with = |actions: Vec<Action>| {
            if matchall {
                FilterKind::Matchall(Matchall {
                    classid: None,
                    actions,
                })
            } else {
                u32_with(actions)
            }
        };
        let mark = U32 {
            mark: Some(Mark { val: 1, mask: 1 }),
            ..U32::default()
        };
        let redirect = Action::Redirect {
            dev: self.name.into(),
        };
        let skbedit = Action::Skbedit {
            priority: Handle::class(1, 1),
        };
        for (feature, kind) in [
            (Feature::U32, u32_with(Vec::new())),
            (Feature::U32Mark, FilterKind::U32(mark)),
            (Feature::Mirred, with(vec![redirect])),
            (Feature::Skbedit, with(vec![skbedit])),
        ] {
            let op = self.filter(kind);
            self.has(feature, &op)?;
        }
        Ok(())
    }

    /// Our programs themselves: what a verifier takes is known only when it was asked.
    fn programs(&mut self) -> Result<(), Error> {
        let Ok(programs) = Programs::load(0) else {
            return Ok(());
        };
        let attach = Op::FilterAdd {
            dev: self.name.into(),
            filter: Filter {
                parent: Handle::CLSACT_INGRESS,
                pref: 100,
                protocol: Protocol::All,
                handle: 1,
                kind: FilterKind::Bpf(Bpf {
                    fd: programs.fd(PROGRAMS[1])?,
                    id: None,
                    name: PROGRAMS[1].to_owned(),
                    classid: None,
                    direct_action: true,
                }),
            },
        };
        self.has(Feature::Bpf, &attach).map(|_| ())
    }

    /// A kernel without marks in u32 takes the filter and forgets the mark: it would match all.
    fn forget_marks_that_were_forgotten(&mut self) -> Result<(), Error> {
        let index = self.session.link(self.name)?.map_or(0, |l| l.index);
        let filters = self.session.filters(index, Handle::CLSACT_INGRESS)?;
        let remembered = filters
            .iter()
            .any(|f| matches!(&f.body, FilterBody::Known(FilterKind::U32(u)) if u.mark.is_some()));
        if !remembered {
            self.caps.0.remove(&Feature::U32Mark);
        }
        Ok(())
    }
}
