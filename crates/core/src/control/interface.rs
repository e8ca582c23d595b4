//! What the controller is told, and what it tells: the types of its interface.
//!
//! Principles: rates and times are types of their own; one-way times and bytes are numbers in s and bytes, as the model
//! reckons with them. Non-goals: deciding (`super`), reasons (`reason`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::reason::{Notice, Reason};
use crate::plan::Target;
use crate::{Framing, PerDirection, Rate};

/// What a person may say; all of it may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The rates are never below this.
    pub least: Option<Rate>,
    /// Never above this.
    pub most: Option<Rate>,
    /// A first guess of the line's rate, or what was learned of it before.
    pub guess: Option<Rate>,
}

/// Bytes of IP of a probe: an ICMP time stamp request over IPv4 (RFC 792: 20 + 20).
const PROBE: u32 = 40;

/// Settings of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What a person said of each direction.
    pub bounds: PerDirection<Bounds>,
    /// Bytes on the line of a full packet.
    pub packet: u32,
    /// Bytes on the line of a probe.
    pub probe: u32,
}

impl Settings {
    /// For a line that frames packets like this, behind a device of this MTU (bytes of IP).
    pub fn new(bounds: PerDirection<Bounds>, framing: Framing, mtu: u32) -> Self {
        Settings {
            bounds,
            packet: framing.wire_len(mtu),
            probe: framing.wire_len(PROBE),
        }
    }
}

/// A probe's way, told apart by the clocks at both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneWay {
    /// From us to it, by both clocks, which need not agree: only differences count.
    pub there: f64,
    /// From it to us.
    pub back: f64,
}

/// What the serialization delay of large probes says that the line carries from us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SerializationRate {
    /// Rather too low than too high: an upload is opened from half of it.
    pub at_least: Rate,
    /// The best estimate, still too low by what other links and the way back take: packets of first uploads are bounded
    /// as on such a line (decision 0126).
    pub likely: Rate,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answered {
    /// When the probe was handed to the line (behind our own queue), steady clock.
    pub sent: Duration,
    /// When the answer came, before our own queue for arrivals.
    pub came: Duration,
    /// One-way times in ms, where the far side stamps; ms are enough.
    pub one_way: Option<OneWay>,
    /// When it was handed to the line is not known: a packet in our own shaper may have been in front of it.
    pub left_unseen: bool,
}

/// Bytes on the line so far, both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted {
    /// From us.
    pub up: f64,
    /// Towards us.
    pub down: f64,
    /// In so many packets, where that is known.
    pub packets: Option<PerDirection<f64>>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action {
    /// Shape to this.
    Shape {
        /// What each direction is to be shaped to; `None`: not at all.
        targets: PerDirection<Option<Target>>,
        /// Why.
        why: Reason,
    },
    /// Probe this often from now on.
    Pace(Duration),
    /// Something a person may want to know; rates stay.
    Noticed(Notice),
}

/// The model, for people and programs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Base round trip to what is probed; `None`: nothing was answered yet.
    pub base_ms: Option<f64>,
    /// From which on a delay counts as a queue.
    pub rise_ms: f64,
    /// From us.
    pub up: DirectionView,
    /// Towards us.
    pub down: DirectionView,
}

impl View {
    /// What the line carries, as far as that is known.
    pub fn capacity(&self) -> PerDirection<Option<Rate>> {
        PerDirection {
            up: self.up.capacity,
            down: self.down.capacity,
        }
    }
}

/// One direction of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DirectionView {
    /// What the line carries, if that is known.
    pub capacity: Option<Rate>,
    /// How old the evidence is, s.
    pub age_s: f64,
    /// What passes now.
    pub throughput: Rate,
    /// Queue at the bottleneck.
    pub queue_ms: f64,
    /// Longest queue before anything was shaped.
    pub unshaped_queue_ms: f64,
}
