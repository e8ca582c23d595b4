//! What this kernel can do, found out by doing it.
//!
//! Principles: each thing is tried in an empty network namespace that nobody else sees and that
//! goes away with the thread; version numbers and configuration files are not believed; asking
//! loads modules just as using would. Non-goals: performance, and offloads of hardware.

use evenkeel_core::Rate;
use evenkeel_core::plan::{Capabilities, Feature, PROGRAMS};
use evenkeel_core::tc::{
    Action, Bpf, Cake, Dev, Filter, FilterKind, FqCodel, Handle, HtbRoot, LinkSettings, Mark,
    Matchall, Op, Protocol, Qdisc, QdiscSpec, Tbf, U32,
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
    let mut session = Session::open()?;
    let mut caps = Capabilities::default();
    let mut note = |feature, result: Result<(), Error>| -> Result<bool, Error> {
        match result {
            Ok(()) => {
                caps.0.insert(feature);
                Ok(true)
            }
            Err(e @ Error::NotPermitted { .. }) => Err(e),
            Err(_) => Ok(false),
        }
    };
    // Without IFB the loopback device of the namespace serves.
    let ifb = note(
        Feature::Ifb,
        session.apply(&Op::LinkAddIfb {
            name: "probe".into(),
        }),
    )?;
    let name = if ifb { "probe" } else { "lo" };
    let dev = Dev::from(name);
    let up = LinkSettings {
        up: Some(true),
        ..LinkSettings::default()
    };
    session.apply(&Op::LinkSet {
        name: name.into(),
        settings: up,
    })?;

    let root = |qdisc| {
        Op::QdiscReplace(QdiscSpec {
            dev: dev.clone(),
            parent: Handle::ROOT,
            handle: Handle::qdisc(1),
            qdisc,
            stab: None,
        })
    };
    let gone = Op::QdiscDel {
        dev: dev.clone(),
        parent: Handle::ROOT,
        handle: Handle::NONE,
        kind: None,
    };
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
        if note(feature, session.apply(&root(qdisc)))? {
            session.apply(&gone)?;
        }
    }

    let clsact = Op::QdiscAdd(QdiscSpec {
        dev: dev.clone(),
        parent: Handle::INGRESS,
        handle: Handle::INGRESS_QDISC,
        qdisc: Qdisc::Clsact,
        stab: None,
    });
    if !note(Feature::Clsact, session.apply(&clsact))? {
        return Ok(caps);
    }
    let mut pref = 0;
    let mut filter = |kind| {
        pref += 1;
        let parent = Handle::CLSACT_INGRESS;
        Op::FilterAdd {
            dev: dev.clone(),
            filter: Filter {
                parent,
                pref,
                protocol: Protocol::Ip,
                handle: 0,
                kind,
            },
        }
    };
    let u32_with = |actions| {
        FilterKind::U32(U32 {
            actions,
            ..U32::default()
        })
    };
    let mark = U32 {
        mark: Some(Mark { val: 1, mask: 1 }),
        ..U32::default()
    };
    let matchall = note(
        Feature::Matchall,
        session.apply(&filter(FilterKind::Matchall(Matchall::default()))),
    )?;
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
    let redirect = Action::Redirect { dev: dev.clone() };
    let skbedit = Action::Skbedit {
        priority: Handle::class(1, 1),
    };
    for (feature, kind) in [
        (Feature::U32, u32_with(Vec::new())),
        (Feature::U32Mark, FilterKind::U32(mark)),
        (Feature::Mirred, with(vec![redirect])),
        (Feature::Skbedit, with(vec![skbedit])),
    ] {
        note(feature, session.apply(&filter(kind)))?;
    }
    // Our programs themselves: what a verifier takes is known only when it was asked.
    if let Ok(programs) = Programs::load(0) {
        let attach = Filter {
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
        };
        let attach = Op::FilterAdd {
            dev: dev.clone(),
            filter: attach,
        };
        note(Feature::Bpf, session.apply(&attach))?;
    }
    // A kernel without marks in u32 takes the filter and forgets the mark: it would match all.
    let index = session.link(name)?.map_or(0, |l| l.index);
    let filters = session.filters(index, Handle::CLSACT_INGRESS)?;
    let remembered = filters
        .iter()
        .any(|f| matches!(&f.body, FilterBody::Known(FilterKind::U32(u)) if u.mark.is_some()));
    if !remembered {
        caps.0.remove(&Feature::U32Mark);
    }
    Ok(caps)
}
