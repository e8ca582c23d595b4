//! Netlink tc/link codecs and packet views (pure).
//!
//! Principles: bytes in, typed values out, and the other way round; no sockets, no clock; a
//! parser never panics and never believes a length that it has not checked. What we do not know
//! is kept as bytes. Non-goals: every attribute the kernel has; only what evenkeel sends or reads.

pub mod attr;
pub mod beacon;
pub mod conntrack;
pub mod dns;
mod error;
pub mod flowtable;
pub mod link;
pub mod message;
pub mod neighbour;
pub mod packet;
pub mod tc;

pub use error::EncodeError;
pub use message::{Acknowledgement, Message, messages};
pub use tc::{
    ClassInfo, FilterBody, FilterInfo, QdiscBody, QdiscInfo, Stats, dump_classes, dump_filters,
    dump_qdiscs, encode,
};
