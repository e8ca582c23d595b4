//! Numbers that every tc message has: message types and attributes
//! (include/uapi/linux/rtnetlink.h).
//!
//! Principle: the kernel's numbers under the kernel's names. Non-goals: attributes of single kinds,
//! which stand with their codec.

/// RTM_NEWQDISC; DEL and GET follow.
pub const NEW_QDISC: u16 = 36;
/// RTM_DELQDISC
pub const DEL_QDISC: u16 = 37;
/// RTM_GETQDISC
pub const GET_QDISC: u16 = 38;
/// RTM_NEWTCLASS
pub const NEW_CLASS: u16 = 40;
/// RTM_DELTCLASS
pub const DEL_CLASS: u16 = 41;
/// RTM_GETTCLASS
pub const GET_CLASS: u16 = 42;
/// RTM_NEWTFILTER
pub const NEW_FILTER: u16 = 44;
/// RTM_DELTFILTER
pub const DEL_FILTER: u16 = 45;
/// RTM_GETTFILTER
pub const GET_FILTER: u16 = 46;

pub(super) const TCA_KIND: u16 = 1;
pub(super) const TCA_OPTIONS: u16 = 2;
pub(super) const TCA_STATS2: u16 = 7;
pub(super) const TCA_STAB: u16 = 8;
pub(super) const TCA_CHAIN: u16 = 11;
