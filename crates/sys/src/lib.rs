//! Sockets, time stamps, timers, namespaces, TUN, the watchdog: the only unsafe code.
//!
//! Principles: each call names its object in its error; handles close what they opened; a safe
//! wrapper of a library comes before a system call of our own. Non-goals: deciding anything.
#![allow(unsafe_code)]

pub mod child;
pub mod clock;
pub mod error;
pub mod ifreq;
pub mod memory;
pub mod multicast;
pub mod names;
pub mod netlink;
pub mod netns;
pub mod packet_options;
pub mod peer;
pub mod poll;
pub mod sched;
pub mod stamp;
pub mod syn;
pub mod tcp;
pub mod tun;
pub mod watchdog;

pub use error::Error;
pub use multicast::LinkGroup;
pub use netns::Netns;
pub use packet_options::{DeviceName, PacketOptions};
pub use watchdog::Watchdog;
