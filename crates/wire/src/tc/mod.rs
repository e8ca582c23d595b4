//! tc messages: operations to bytes, dumps to values.
//!
//! Principles: the bytes are iproute2's wherever the kernel reads them (fixtures/tc holds what
//! it sent, and each difference has a test that names it); a kind that we do not know keeps its
//! options as bytes. Non-goals: `TCA_STATS` (replaced by `TCA_STATS2`), rate estimators, chains.

mod action;
mod cake;
mod dump;
mod encode;
mod filter;
mod htb;
mod leaf;
mod stab;
pub mod stats;
mod ticks;
mod u32cls;

pub use dump::{ClassBody, ClassInfo, FilterBody, FilterInfo, QdiscBody, QdiscInfo};
pub use encode::{EncodeError, dump_classes, dump_filters, dump_qdiscs, encode};
pub use stats::Stats;

// Attributes of every tc message (include/uapi/linux/rtnetlink.h).
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STAB: u16 = 8;
const TCA_CHAIN: u16 = 11;

/// Message types (include/uapi/linux/rtnetlink.h).
pub mod rtm {
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
}

/// Microseconds, the unit of most of tc's times.
fn micros(t: std::time::Duration) -> u32 {
    u32::try_from(t.as_micros()).unwrap_or(u32::MAX)
}
