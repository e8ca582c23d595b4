//! A scene: a line, who sends on it and when, and what else happens.
//!
//! Principles: pure data, in bytes and seconds; what changes is a list of (from when on, value).
//! Non-goals: what comes of it.

use crate::PerDirection;
use crate::control::Rule;
use crate::framing::Framing;

/// From one step to the next.
pub(super) const STEP: f64 = 0.001;
/// Full packets, bytes of IP.
pub(super) const MTU: u32 = 1500;

/// One direction of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Bytes per second from each time on, s; the first is at 0.
    pub capacity: Vec<(f64, f64)>,
    /// What fits into the buffer, bytes.
    pub buffer: f64,
}

impl Side {
    pub(super) fn capacity_at(&self, t: f64, hint: &mut usize) -> f64 {
        while self.capacity.get(*hint + 1).is_some_and(|s| s.0 <= t) {
            *hint += 1;
        }
        self.capacity.get(*hint).map_or(1.0, |s| s.1)
    }
}

/// From when on, until when (s), and how many flows send.
pub type Load = (f64, f64, u32);

/// A line and what happens on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Both directions.
    pub sides: PerDirection<Side>,
    /// Base round trip, s.
    pub rtt: f64,
    /// Each way takes up to this much longer, s.
    pub jitter: f64,
    /// Share of probes and packets lost.
    pub loss: f64,
    /// The round trip grows by so much from each time on, s.
    pub wander: Vec<(f64, f64)>,
    /// This share of that is on the way from us.
    pub wander_up: f64,
    /// Bytes per second that somebody else on the line takes whatever happens, from each time on.
    pub cross_traffic: PerDirection<Vec<(f64, f64)>>,
    /// Flows of somebody else on the line, whom nobody shapes.
    pub competitors: PerDirection<Vec<Load>>,
    /// How packets are framed.
    pub framing: Framing,
    /// The far side stamps probes.
    pub stamps: bool,
    /// Nothing answers probes: only connections that pass show their round trips.
    pub silent: bool,
    /// Where that is so, their far ends answer echoes as long as they are busy.
    pub far_ends: bool,
    /// Far sides of connections date what they send (RFC 7323), in ms.
    pub dated: bool,
    /// What answers probes falls silent then, s.
    pub answers_until: f64,
    /// Receive windows bound the downloads.
    pub windows: bool,
    /// When each direction is loaded.
    pub loads: PerDirection<Vec<Load>>,
    /// How long, s.
    pub length: f64,
    /// Of jitter and loss.
    pub seed: u64,
    /// What the controller does without.
    pub without: Option<Rule>,
}

/// The value at `t` of steps of (from when on, value); nothing before the first.
pub(super) fn stepped(steps: &[(f64, f64)], t: f64) -> f64 {
    let past = steps.partition_point(|s| s.0 <= t);
    past.checked_sub(1)
        .and_then(|i| steps.get(i))
        .map_or(0.0, |s| s.1)
}
