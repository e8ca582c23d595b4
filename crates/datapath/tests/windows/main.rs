//! Receive windows as the programs in this kernel bound them (`BPF_PROG_TEST_RUN`): what leaves
//! is compared byte by byte with what came, and its checksum is computed anew.
//!
//! Principles: a receiver is modelled in offsets that do not wrap, packets carry them wrapped; what
//! is random comes from a number that a failure names. Non-goals: rates, which need a line (the
//! lab's). They need root and a kernel with eBPF.

mod bench;
mod lan;
mod receiver;
mod right_edge;
mod short_flows;
#[path = "../tcp/mod.rs"]
mod tcp;
mod window_size;
