//! The programs on the WAN device, and what they know: flows, their tiers, their round trips.
//!
//! A newcomer's way in: [`Programs::load`] brings `bpf/evenkeel.bpf.c` into the kernel, whoever
//! attaches its descriptors hands it the device's packets, and [`Maps`] reads and sets what the
//! programs look at, also long after the process that loaded them has ended.
//!
//! Principles: what stands in maps is described once, in `bpf/types.h`, of which `build/layout.rs` makes
//! Rust; `values` says what it means; a kernel that refuses is an error with its words, and shaping goes on without.
//! Non-goals: attaching (crate `evenkeel-kernel`, which owns the device's filters), policy.

mod layout;
mod maps;
mod programs;
pub mod values;

pub use maps::Maps;
pub use programs::{NOTHING, Programs, Ran};

/// What can go wrong, with the kernel's words.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not take the programs.
    #[error("load eBPF: {0}")]
    Load(String),
    /// A map could not be read or written.
    #[error("{what} eBPF map {map}: {why}")]
    Map {
        /// `open`, `read` or `set`.
        what: &'static str,
        /// Its name.
        map: &'static str,
        /// The kernel's words.
        why: String,
    },
}
