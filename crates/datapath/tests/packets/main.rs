//! The programs in this kernel, on literal packets (`BPF_PROG_TEST_RUN`): every path of the
//! parser, every kind of rule, round trips, behaviour, stamps of probes' answers.
//!
//! Principles: a packet is built byte by byte beside the test that needs it; what is expected is
//! read from the flow table and from `skb->priority`. They need root and a kernel with eBPF.

mod bench;
mod classify;
mod ifb_bypass;
mod parse;
mod priority;
mod probe_stamps;
mod retransmissions;
mod rtt;
mod unresponsive;
