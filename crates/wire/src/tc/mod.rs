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
mod names;
pub mod rtm;
mod stab;
pub mod stats;
mod ticks;
mod u32cls;

pub use dump::{ClassBody, ClassInfo, FilterBody, FilterInfo, QdiscBody, QdiscInfo};
pub use encode::{dump_classes, dump_filters, dump_qdiscs, encode};
pub use stats::Stats;
