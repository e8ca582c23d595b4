//! Prober and load generation.
//!
//! Principles: kernel time stamps only; every thread sleeps in one place; nothing assumes that
//! real time passes while it works, so the same code runs in virtual time. Non-goals: judging
//! (crate `evenkeel-core`), making networks (crate `evenkeel-lab`).

pub mod call;
pub mod echo;
pub mod hops;
pub mod load;
pub mod packet;
pub mod ping;
pub mod probe;
pub mod prober;
pub mod quic;
pub mod web;

mod task;

pub use task::Task;

/// UDP port of the judged probe. No rule of any shaper names it.
pub const PROBE_PORT: u16 = 44811;
