//! Operations and dump requests to netlink messages. Sequence number and port are left zero.

use evenkeel_core::tc::{ClassSpec, Dev, FilterKey, Handle, Op, Qdisc, QdiscSpec};

use super::names::Names;
use super::rtm::{self, TCA_KIND, TCA_OPTIONS, TCA_STAB};
use super::{cake, filter, htb, leaf, stab};
use crate::attr::Writer;
use crate::error::EncodeError;
use crate::link;
use crate::message::{ACK, CREATE, DUMP, EXCL, REPLACE, REQUEST, finish, start};

/// `struct tcmsg` (rtnetlink.h): family, pad, ifindex, handle, parent, info.
struct Tcm {
    index: u32,
    handle: Handle,
    parent: Handle,
    info: u32,
}

impl Tcm {
    fn start(&self, kind: u16, flags: u16) -> Writer {
        let body = [0, self.index, self.handle.0, self.parent.0, self.info];
        Writer::new(start(kind, flags, &body.map(u32::to_ne_bytes).concat()))
    }
}

/// The message that asks for `op`; `index` finds a device's number by its name.
pub fn encode(op: &Op, index: &dyn Fn(&str) -> Option<u32>) -> Result<Vec<u8>, EncodeError> {
    let names = Names(index);
    let change = REQUEST | ACK;
    let add = change | CREATE | EXCL;
    let writer = match op {
        Op::QdiscAdd(spec) => qdisc(spec, add, &names)?,
        Op::QdiscReplace(spec) => qdisc(spec, change | CREATE | REPLACE, &names)?,
        Op::QdiscChange(spec) => qdisc(spec, change, &names)?,
        Op::QdiscDel {
            dev,
            parent,
            handle,
            kind,
        } => {
            let tcm = Tcm {
                index: names.index(dev)?,
                // There is only one, and its handle is known.
                handle: match (*handle, *parent) {
                    (Handle::NONE, Handle::INGRESS) => Handle::INGRESS_QDISC,
                    (handle, _) => handle,
                },
                parent: *parent,
                info: 0,
            };
            let mut w = tcm.start(rtm::DEL_QDISC, change);
            if let Some(kind) = kind {
                w.text(TCA_KIND, kind);
            }
            w
        }
        Op::ClassAdd(spec) => class(spec, add, &names)?,
        Op::ClassChange(spec) => class(spec, change, &names)?,
        Op::ClassDel { dev, classid } => {
            let tcm = Tcm {
                index: names.index(dev)?,
                handle: *classid,
                parent: Handle::NONE,
                info: 0,
            };
            tcm.start(rtm::DEL_CLASS, change)
        }
        Op::FilterAdd { dev, filter } => {
            let mut w = filter_head(dev, &filter.key(), &names)?.start(rtm::NEW_FILTER, add);
            w.text(TCA_KIND, filter.kind.kind());
            let mut options = Writer::default();
            filter::encode(&mut options, &filter.kind, &names)?;
            w.bytes(TCA_OPTIONS, &options.finish());
            w
        }
        Op::FilterDel { dev, key, kind } => {
            let mut w = filter_head(dev, key, &names)?.start(rtm::DEL_FILTER, change);
            if let Some(kind) = kind {
                w.text(TCA_KIND, kind);
            }
            w
        }
        Op::LinkAddIfb { name } => link::add_ifb(name)?,
        Op::LinkDel { name } => link::del(names.index(&Dev::Name(name.clone()))?),
        Op::LinkSet { name, settings } => {
            link::set(names.index(&Dev::Name(name.clone()))?, settings)
        }
    };
    Ok(finish(writer.finish()))
}

fn qdisc(spec: &QdiscSpec, flags: u16, names: &Names<'_>) -> Result<Writer, EncodeError> {
    let tcm = Tcm {
        index: names.index(&spec.dev)?,
        handle: match spec.qdisc {
            Qdisc::Ingress | Qdisc::Clsact => Handle::INGRESS_QDISC,
            _ => spec.handle,
        },
        parent: spec.parent,
        info: 0,
    };
    let mut w = tcm.start(rtm::NEW_QDISC, flags);
    w.text(TCA_KIND, spec.qdisc.kind());
    match &spec.qdisc {
        Qdisc::Cake(cake) => {
            w.nest(TCA_OPTIONS, |w| cake::encode(w, cake));
        }
        Qdisc::Htb(root) => {
            w.nest(TCA_OPTIONS, |w| htb::encode_root(w, root));
        }
        Qdisc::FqCodel(fq) => {
            w.nest(TCA_OPTIONS, |w| leaf::encode_fq_codel(w, fq));
        }
        Qdisc::Tbf(tbf) => {
            w.nest(TCA_OPTIONS, |w| leaf::encode_tbf(w, tbf));
        }
        Qdisc::Sfq(sfq) => {
            if let Some(options) = leaf::sfq_options(sfq) {
                w.bytes(TCA_OPTIONS, &options);
            }
        }
        Qdisc::Bfifo { limit } | Qdisc::Pfifo { limit } => {
            w.u32_if(TCA_OPTIONS, *limit);
        }
        Qdisc::Ingress | Qdisc::Clsact => {}
    }
    if let Some(table) = &spec.stab {
        w.nest(TCA_STAB, |w| stab::encode(w, table));
    }
    Ok(w)
}

fn class(spec: &ClassSpec, flags: u16, names: &Names<'_>) -> Result<Writer, EncodeError> {
    let tcm = Tcm {
        index: names.index(&spec.dev)?,
        handle: spec.classid,
        parent: spec.parent,
        info: 0,
    };
    let mut w = tcm.start(rtm::NEW_CLASS, flags);
    w.text(TCA_KIND, "htb");
    w.nest(TCA_OPTIONS, |w| htb::encode_class(w, &spec.class));
    Ok(w)
}

/// `tcm_info` of a filter: preference above, EtherType in network order below.
fn filter_head(dev: &Dev, key: &FilterKey, names: &Names<'_>) -> Result<Tcm, EncodeError> {
    let protocol = key.protocol.map_or(0, |p| p.ethertype().to_be());
    Ok(Tcm {
        index: names.index(dev)?,
        handle: Handle(key.handle),
        parent: key.parent,
        info: u32::from(key.pref) << 16 | u32::from(protocol),
    })
}

fn dump(kind: u16, index: u32, parent: Handle) -> Vec<u8> {
    let tcm = Tcm {
        index,
        handle: Handle::NONE,
        parent,
        info: 0,
    };
    finish(tcm.start(kind, REQUEST | DUMP).finish())
}

/// Asks for all disciplines. The kernel answers for every device (`tc_dump_qdisc`): look at each
/// answer's `ifindex`.
pub fn dump_qdiscs() -> Vec<u8> {
    dump(rtm::GET_QDISC, 0, Handle::NONE)
}

/// Asks for a device's classes.
pub fn dump_classes(index: u32) -> Vec<u8> {
    dump(rtm::GET_CLASS, index, Handle::NONE)
}

/// Asks for the filters of a discipline, a class, or one of clsact's hooks.
pub fn dump_filters(index: u32, parent: Handle) -> Vec<u8> {
    dump(rtm::GET_FILTER, index, parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct tcmsg` and flags of the three requests for dumps.
    #[test]
    fn literal_dump_requests() {
        let literal = |kind: u16, index: u32, parent: u32| {
            let mut bytes = 36u32.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(0x301u16.to_ne_bytes()); // NLM_F_REQUEST, NLM_F_DUMP
            bytes.extend([0; 8]);
            bytes.extend([0, index, 0, parent, 0].map(u32::to_ne_bytes).concat());
            bytes
        };
        assert_eq!(dump_qdiscs(), literal(38, 0, 0));
        assert_eq!(dump_classes(7), literal(42, 7, 0));
        let hook = Handle::CLSACT_EGRESS;
        assert_eq!(dump_filters(7, hook), literal(46, 7, hook.0));
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let op = Op::LinkDel { name: "wan".into() };
        let unknown = encode(&op, &|_| None);
        assert_eq!(unknown, Err(EncodeError::NoDevice("wan".into())));
        assert!(encode(&op, &|name| (name == "wan").then_some(7)).is_ok());
    }
}
