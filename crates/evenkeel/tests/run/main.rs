//! `run` as a person meets it: bad input, signals, kill, others at the same device, a device that
//! goes, the model and the profile that it leaves to read.
//!
//! Each test works in a network namespace of its own. Needs root; without it each says so and
//! passes.

#[path = "../common/mod.rs"]
mod common;
mod devices;
mod ends;
mod model;
mod people;
mod probes;
#[path = "../provider/mod.rs"]
mod provider;
mod running;
mod service;
mod told;
