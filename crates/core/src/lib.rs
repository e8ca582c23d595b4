//! The part of evenkeel that decides: units, framing, statistics, plans and line models.
//!
//! Principles: pure. No clock, no randomness, no I/O; `now` is always an argument and what is
//! to be done is returned as data. Non-goals: talking to a kernel (crate `evenkeel-kernel`) or
//! knowing bytes on a wire (crate `evenkeel-wire`).

pub mod classify;
pub mod control;
pub mod exit;
pub mod fluid;
pub mod framing;
pub mod line;
pub mod linklayer;
pub mod ping;
pub mod pipe;
pub mod plan;
pub mod police;
pub mod recent;
pub mod result;
pub mod rules;
pub mod segments;
pub mod sharing;
pub mod stats;
pub mod swing;
pub mod tc;
pub mod units;
pub mod wire_count;

pub use framing::Framing;
pub use line::Line;
pub use stats::Summary;
pub use units::{Direction, PerDirection, Rate};
