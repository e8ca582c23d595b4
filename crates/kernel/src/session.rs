//! A conversation with the kernel about one network namespace.
//!
//! Principles: operations name devices, the session finds their numbers; errors say which
//! operation on which object, with the kernel's words. Non-goals: deciding what to ask.

use std::collections::HashMap;

use evenkeel_core::tc::{Handle, Op};
use evenkeel_sys::netlink::Socket;
use evenkeel_wire::link::{Counters, LinkInfo, dump_links};
use evenkeel_wire::neighbour::{Neighbour, dump_neighbours};
use evenkeel_wire::{
    ClassInfo, FilterInfo, QdiscInfo, dump_classes, dump_filters, dump_qdiscs, encode,
};

use crate::Error;

/// An open netlink socket and what it knows of devices.
#[derive(Debug)]
pub struct Session {
    socket: Socket,
    indices: HashMap<String, u32>,
}

impl Session {
    /// For the calling thread's network namespace.
    pub fn open() -> Result<Self, Error> {
        let socket = Socket::open_route().map_err(|e| {
            Error::refused("open a netlink socket", e.errno().desc(), e.errno() as i32)
        })?;
        Ok(Session {
            socket,
            indices: HashMap::new(),
        })
    }

    fn dump<T, I>(
        &mut self,
        what: &str,
        request: &[u8],
        all: impl Fn(&[u8]) -> I,
    ) -> Result<Vec<T>, Error>
    where
        I: Iterator<Item = T>,
    {
        let datagrams = self
            .socket
            .dump(request)
            .map_err(|e| Error::refused(format_args!("list {what}"), e.words(), e.errno as i32))?;
        Ok(datagrams
            .iter()
            .flat_map(|d| all(d).collect::<Vec<_>>())
            .collect())
    }

    /// All devices.
    pub fn links(&mut self) -> Result<Vec<LinkInfo>, Error> {
        let links: Vec<LinkInfo> = self.dump("devices", &dump_links(), |d| {
            LinkInfo::all(d).collect::<Vec<_>>().into_iter()
        })?;
        self.indices = links.iter().map(|l| (l.name.clone(), l.index)).collect();
        Ok(links)
    }

    /// The device of this name, if there is one.
    pub fn link(&mut self, name: &str) -> Result<Option<LinkInfo>, Error> {
        Ok(self.links()?.into_iter().find(|l| l.name == name))
    }

    /// Those whose addresses are known on one device.
    pub fn neighbours(&mut self, index: u32) -> Result<Vec<Neighbour>, Error> {
        let mut all: Vec<Neighbour> = self.dump("neighbours", &dump_neighbours(), |d| {
            Neighbour::all(d).collect::<Vec<_>>().into_iter()
        })?;
        all.retain(|n| n.ifindex == index);
        Ok(all)
    }

    /// What passed one device so far.
    pub fn counters(&mut self, index: u32) -> Result<Counters, Error> {
        let what = || format!("read counters of device {index}");
        let answer = self
            .socket
            .ask(&Counters::request(index), Counters::decode)
            .map_err(|e| Error::refused(what(), e.words(), e.errno as i32))?;
        answer.ok_or_else(|| Error::refused(what(), "no answer", 0))
    }

    /// Disciplines of one device.
    pub fn qdiscs(&mut self, index: u32) -> Result<Vec<QdiscInfo>, Error> {
        let mut all: Vec<QdiscInfo> = self.dump("queueing disciplines", &dump_qdiscs(), |d| {
            QdiscInfo::all(d).collect::<Vec<_>>().into_iter()
        })?;
        all.retain(|q| q.ifindex == index);
        Ok(all)
    }

    /// Classes of one device.
    pub fn classes(&mut self, index: u32) -> Result<Vec<ClassInfo>, Error> {
        self.dump("classes", &dump_classes(index), |d| {
            ClassInfo::all(d).collect::<Vec<_>>().into_iter()
        })
    }

    /// Filters at one place of a device.
    pub fn filters(&mut self, index: u32, parent: Handle) -> Result<Vec<FilterInfo>, Error> {
        self.dump("filters", &dump_filters(index, parent), |d| {
            FilterInfo::all(d).collect::<Vec<_>>().into_iter()
        })
    }

    /// Carries out one operation.
    pub fn apply(&mut self, op: &Op) -> Result<(), Error> {
        self.apply_all(&[op])
    }

    /// Carries out several, in their order, with one call of the kernel. None may name a device
    /// that another makes: then nothing is sent. Otherwise the error is that of the first that was
    /// refused; those behind it were carried out nevertheless.
    pub fn apply_all(&mut self, ops: &[&Op]) -> Result<(), Error> {
        let mut all = Vec::with_capacity(ops.len());
        for op in ops {
            all.push(self.message(op)?);
        }
        self.socket
            .request_all(&all)
            .map_err(|(n, e)| Error::refused(short(ops[n]), e.words(), e.errno as i32))
    }

    /// Several as one string of bytes that any route netlink socket of this namespace may send. None
    /// may name a device that another makes.
    pub(crate) fn messages(&mut self, ops: &[&Op]) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        for op in ops {
            all.extend(self.message(op)?);
            all.resize(all.len().next_multiple_of(4), 0);
        }
        Ok(all)
    }

    fn message(&mut self, op: &Op) -> Result<Vec<u8>, Error> {
        if matches!(op, Op::LinkAddIfb { .. } | Op::LinkDel { .. }) {
            self.indices.clear();
        }
        let mut message = encode(op, &|name| self.indices.get(name).copied());
        if message.is_err() {
            // A device that an earlier operation made.
            self.links()?;
            message = encode(op, &|name| self.indices.get(name).copied());
        }
        message.map_err(|e| Error::refused(short(op), e, 0))
    }
}

/// An operation in few words: `add cake on eth0`.
fn short(op: &Op) -> String {
    match op {
        Op::QdiscAdd(q) | Op::QdiscReplace(q) => {
            format!("add {} {} on {}", q.qdisc.kind(), q.handle, q.dev)
        }
        Op::QdiscChange(q) => format!("change {} {} on {}", q.qdisc.kind(), q.handle, q.dev),
        Op::QdiscDel { dev, handle, .. } => format!("delete qdisc {handle} on {dev}"),
        Op::ClassAdd(c) => format!("add class {} on {}", c.classid, c.dev),
        Op::ClassChange(c) => format!("change class {} on {}", c.classid, c.dev),
        Op::ClassDel { dev, classid } => format!("delete class {classid} on {dev}"),
        Op::FilterAdd { dev, filter } => format!(
            "add {} filter at {} on {dev}",
            filter.kind.kind(),
            filter.parent
        ),
        Op::FilterDel { dev, key, .. } => format!("delete filters at {} on {dev}", key.parent),
        Op::LinkAddIfb { name } => format!("add IFB {name}"),
        Op::LinkDel { name } => format!("delete {name}"),
        Op::LinkSet { name, .. } => format!("set {name}"),
    }
}
