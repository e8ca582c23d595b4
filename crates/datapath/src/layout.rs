//! What stands in maps, byte by byte: made by `build/layout.rs` of `bpf/types.h`.
//!
//! Principles: nothing is written by hand here; names, types and offsets are the C compiler's, so a field
//! that is renamed, removed or given another type does not build where it is used. Non-goals: units and
//! meaning (`values`).

// Not every field of the programs is the loader's business, and nobody reads what was generated.
#![allow(dead_code, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/layout.rs"));
