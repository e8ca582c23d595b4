//! The programs on the WAN device, and what they know: flows, their tiers, their round trips.
//!
//! A newcomer's way in: [`Programs::load`] brings `bpf/evenkeel.bpf.c` into the kernel, whoever
//! attaches its descriptors hands it the device's packets, and [`Maps`] reads and sets what the
//! programs look at, also long after the process that loaded them has ended.
//!
//! Principles: what stands in maps is described once, in `bpf/types.h`, of which `build/layout.rs`
//! makes Rust; [`values`] says what it means; a kernel that refuses is an error with its words, and
//! shaping goes on without.
//! Non-goals: attaching (crate `evenkeel-kernel`, which owns the device's filters), policy.

mod error;
mod layout;
mod maps;
mod programs;
pub mod values;

pub use error::Error;
pub use maps::Maps;
pub use programs::{NOTHING, Programs, Ran};
