//! What is sent, and what became of it.

use std::time::Duration;

use evenkeel_sys::clock;

use crate::packet::Probe;

/// A kind of probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Echo requests, rather than UDP to an [`crate::echo::Echo`].
    pub icmp: bool,
    /// TOS or traffic class: DSCP in the upper six bits.
    pub tos: u8,
    /// From one to the next.
    pub interval: Duration,
    /// Bytes behind the header of UDP; [`crate::packet::LEN`] at least, and always of ICMP.
    pub bytes: usize,
}

/// What became of one probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// When it was sent, wall clock.
    pub sent: Duration,
    /// Its round trip; `None` if it was lost.
    pub rtt: Option<Duration>,
    /// How much of that the answer waited in our own ingress queue; `None` if it is not known.
    pub held: Option<Duration>,
    /// How much of that it waited in our own queueing discipline; `None` if it is not known.
    pub own: Option<Duration>,
    /// When it arrived at the server, by the server's wall clock; `None` if it does not say.
    pub there: Option<Duration>,
}

/// All probes of one kind.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// In the order of sending.
    pub probes: Vec<Sample>,
    /// Answers beyond the first to the same probe.
    pub duplicates: u64,
    /// Answers that came after the answer to a later probe.
    pub reordered: u64,
    /// Probes that the local system refused to send; they are among the lost.
    pub not_sent: u64,
    /// Probes whose send stamp never came; user space's time of sending stands in.
    pub unstamped: u64,
}

/// How questions and answers look on the wire, where they are not our own.
pub trait Form: Send {
    /// The question with a number, from 0 on.
    fn question(&self, seq: u32) -> Vec<u8>;
    /// An answer; `None` if the bytes are something else. Its session is not looked at.
    fn answer(&self, bytes: &[u8]) -> Option<Probe>;
    /// What is sent when all is over.
    fn farewell(&self) -> Option<Vec<u8>>;
}

/// How far the wall clock is ahead of the steady one.
pub(super) fn wall_ahead() -> Duration {
    clock::realtime().saturating_sub(clock::monotonic())
}
