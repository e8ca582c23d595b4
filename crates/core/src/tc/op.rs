//! Operations: what is asked of the kernel, one netlink message each.
//!
//! Principles: an operation names its devices, and whoever sends it finds their numbers, because
//! a plan may name an IFB that an earlier operation makes; each prints as the command a person
//! would type. Non-goals: order, undo and the answer (crate `evenkeel-kernel`).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::dev::Dev;
use super::{Filter, FilterKey, Handle, HtbClass, Qdisc, Stab, U32Handle};

/// A queueing discipline in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QdiscSpec {
    /// On which device.
    pub dev: Dev,
    /// [`Handle::ROOT`], [`Handle::INGRESS`], or a class.
    pub parent: Handle,
    /// [`Handle::NONE`]: the kernel picks.
    pub handle: Handle,
    /// What.
    pub qdisc: Qdisc,
    /// How long packets count in it.
    pub stab: Option<Stab>,
}

/// A class of HTB in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassSpec {
    /// On which device.
    pub dev: Dev,
    /// The discipline or the parent class.
    pub parent: Handle,
    /// Its name.
    pub classid: Handle,
    /// What.
    pub class: HtbClass,
}

/// What to set on a link; `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSettings {
    /// Up or down.
    pub up: Option<bool>,
    /// Packets.
    pub txqlen: Option<u32>,
    /// Bytes of the largest super-packet handed to the device.
    pub gso_max_size: Option<u32>,
    /// Segments of the largest super-packet handed to the device.
    pub gso_max_segs: Option<u32>,
    /// Bytes of the largest super-packet put together from IPv6 arrivals (before Linux 6.3:
    /// from all).
    pub gro_max_size: Option<u32>,
    /// Bytes of the largest super-packet put together from IPv4 arrivals (Linux 6.3).
    pub gro_ipv4_max_size: Option<u32>,
}

/// One thing to ask of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Fails if there is one already.
    QdiscAdd(QdiscSpec),
    /// Makes it or takes the place of what is there.
    QdiscReplace(QdiscSpec),
    /// Changes options in place; no packet is lost. The size table cannot be changed.
    QdiscChange(QdiscSpec),
    /// Deletes it with all below it.
    QdiscDel {
        /// On which device.
        dev: Dev,
        /// [`Handle::ROOT`], [`Handle::INGRESS`], or a class.
        parent: Handle,
        /// [`Handle::NONE`]: whichever is there.
        handle: Handle,
        /// The kernel refuses if the kind is another: nobody else's is deleted.
        kind: Option<String>,
    },
    /// Fails if there is one already.
    ClassAdd(ClassSpec),
    /// Changes rates in place; no packet is lost.
    ClassChange(ClassSpec),
    /// Deletes it with its leaf.
    ClassDel {
        /// On which device.
        dev: Dev,
        /// Its name.
        classid: Handle,
    },
    /// Fails if its handle is there already.
    FilterAdd {
        /// On which device.
        dev: Dev,
        /// What.
        filter: Filter,
    },
    /// Deletes one filter, or all of a preference.
    FilterDel {
        /// On which device.
        dev: Dev,
        /// Which.
        key: FilterKey,
        /// Needed with a handle.
        kind: Option<String>,
    },
    /// Makes an IFB.
    LinkAddIfb {
        /// At most 15 bytes.
        name: String,
    },
    /// Deletes a virtual device.
    LinkDel {
        /// Which.
        name: String,
    },
    /// Sets what is `Some`.
    LinkSet {
        /// Which.
        name: String,
        /// What.
        settings: LinkSettings,
    },
}

impl QdiscSpec {
    /// The arguments after `tc qdisc add|replace|change`.
    fn args(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dev {}", self.dev)?;
        // tc knows these two by their name alone.
        if matches!(self.qdisc, Qdisc::Ingress | Qdisc::Clsact) {
            return write!(f, " {}", self.qdisc);
        }
        place(f, self.parent, self.handle)?;
        if let Some(stab) = &self.stab {
            write!(f, " {stab}")?;
        }
        write!(f, " {}", self.qdisc)?;
        let notes = [
            self.stab.as_ref().and_then(Stab::note).map(str::to_owned),
            self.qdisc.note(),
        ];
        notes
            .iter()
            .flatten()
            .try_for_each(|note| write!(f, "  # {note}"))
    }
}

impl ClassSpec {
    fn args(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClassSpec {
            dev,
            parent,
            classid,
            class,
        } = self;
        write!(f, "dev {dev} parent {parent} classid {classid} {class}")
    }
}

fn place(f: &mut fmt::Formatter<'_>, parent: Handle, handle: Handle) -> fmt::Result {
    match parent {
        Handle::ROOT => f.write_str(" root")?,
        parent => write!(f, " parent {parent}")?,
    }
    match handle {
        Handle::NONE => Ok(()),
        handle => write!(f, " handle {handle}"),
    }
}

impl fmt::Display for LinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(up) = self.up {
            f.write_str(if up { " up" } else { " down" })?;
        }
        for (name, value) in [
            ("txqueuelen", self.txqlen),
            ("gso_max_size", self.gso_max_size),
            ("gso_max_segs", self.gso_max_segs),
            ("gro_max_size", self.gro_max_size),
            ("gro_ipv4_max_size", self.gro_ipv4_max_size),
        ] {
            if let Some(value) = value {
                write!(f, " {name} {value}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Op {
    /// The whole command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::QdiscAdd(spec) => {
                f.write_str("tc qdisc add ")?;
                spec.args(f)
            }
            Op::QdiscReplace(spec) => {
                f.write_str("tc qdisc replace ")?;
                spec.args(f)
            }
            Op::QdiscChange(spec) => {
                f.write_str("tc qdisc change ")?;
                spec.args(f)
            }
            Op::QdiscDel {
                dev,
                parent,
                handle,
                kind,
            } => {
                write!(f, "tc qdisc del dev {dev}")?;
                match (*parent, kind) {
                    (Handle::INGRESS, Some(kind)) => write!(f, " {kind}"),
                    (Handle::INGRESS, None) => f.write_str(" ingress"),
                    (parent, kind) => {
                        place(f, parent, *handle)?;
                        kind.iter().try_for_each(|kind| write!(f, " {kind}"))
                    }
                }
            }
            Op::ClassAdd(spec) => {
                f.write_str("tc class add ")?;
                spec.args(f)
            }
            Op::ClassChange(spec) => {
                f.write_str("tc class change ")?;
                spec.args(f)
            }
            Op::ClassDel { dev, classid } => write!(f, "tc class del dev {dev} classid {classid}"),
            Op::FilterAdd { dev, filter } => write!(f, "tc filter add dev {dev} {filter}"),
            Op::FilterDel { dev, key, kind } => {
                write!(f, "tc filter del dev {dev} {key}")?;
                match (key.handle, kind.as_deref()) {
                    (0, _) => {}
                    (h, Some("u32")) => write!(f, " handle {}", U32Handle(h))?,
                    (h, _) => write!(f, " handle {h:#x}")?,
                }
                kind.iter().try_for_each(|kind| write!(f, " {kind}"))
            }
            Op::LinkAddIfb { name } => write!(f, "ip link add {name} type ifb"),
            Op::LinkDel { name } => write!(f, "ip link del {name}"),
            Op::LinkSet { name, settings } => write!(f, "ip link set dev {name}{settings}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Framing;
    use crate::framing::Mode;
    use crate::tc::{Cake, HtbRoot};
    use std::time::Duration;

    /// Most commands are compared with iproute2's messages in crates/wire/tests/oracle.rs; these
    /// say what tc cannot.
    #[test]
    fn what_tc_cannot_say_is_a_comment() {
        let spec = |qdisc, stab| {
            Op::QdiscAdd(QdiscSpec {
                dev: Dev::Index(5),
                parent: Handle::ROOT,
                handle: Handle::qdisc(1),
                qdisc,
                stab,
            })
        };
        let vdsl = Stab::from_framing(Framing::new(Mode::Ptm, 30, 0), 14);
        assert_eq!(
            spec(Qdisc::Htb(HtbRoot::default()), Some(vdsl)).to_string(),
            "tc qdisc add dev if5 root handle 1: stab mtu 2047 tsize 2048 overhead 16 linklayer \
             ethernet htb default 0x0  # the size table also counts PTM's 64b/65b, which tc's \
             stab cannot say"
        );
        let cake = Cake {
            rtt: Some(Duration::from_millis(100)),
            target: Some(Duration::from_millis(2)),
            ..Cake::default()
        };
        assert_eq!(
            spec(Qdisc::Cake(cake), None).to_string(),
            "tc qdisc add dev if5 root handle 1: cake rtt 100ms  # with a target of 2ms, which tc \
             cannot say"
        );
    }
}
