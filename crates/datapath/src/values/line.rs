//! The line that receive windows are computed from.

use std::time::Duration;

use evenkeel_core::{Framing, Rate};

use crate::layout;

/// Headers of a full packet, bytes: IPv4, TCP, time stamps.
const HEADERS: u32 = 52;

/// What receive windows are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Until when windows are bounded, on the steady clock; [`Duration::MAX`]: for good.
    pub lease: Duration,
    /// Link-layer rate towards us.
    pub rate: Rate,
    /// What all flows together are to use of it.
    pub target: Rate,
    /// How packets are framed.
    pub framing: Framing,
    /// Length of TCP's full IP packets, bytes.
    pub mtu: u32,
    /// Round trips may be so much longer than the least without it meaning much: on lines whose
    /// delay wanders, and where a short queue is kept.
    pub slack: Duration,
    /// What a shaper behind the programs counts beside the bytes that come of unresponsive flows,
    /// ten-thousandths; 0: there is none, or it is not to.
    pub surcharge: u32,
    /// The line is to be full, though a short queue stands: who polices compares with those who
    /// fill it.
    pub fills: bool,
    /// Queues behind us, as of a slow Wi-Fi, are held short as well.
    pub lan: bool,
}

impl Line {
    /// As in the map. Rates above 34 Gbit/s count as that.
    pub(crate) fn to_layout(self) -> layout::Line {
        let bytes = |rate: Rate| u32::try_from(rate.bps() / 8).unwrap_or(u32::MAX);
        let packet = self.framing.wire_len(self.mtu);
        let took = u64::from(packet) * 8 * 1_000_000_000 / self.rate.bps().max(1);
        layout::Line {
            lease: u64::try_from(self.lease.as_nanos()).unwrap_or(u64::MAX),
            rate: bytes(self.rate),
            target: bytes(self.target),
            packet,
            packet_ns: u32::try_from(took).unwrap_or(u32::MAX),
            framing: super::framing(self.framing),
            segment: self.mtu.saturating_sub(HEADERS).max(1),
            slack: u32::try_from(self.slack.as_micros()).unwrap_or(u32::MAX),
            surcharge: self.surcharge,
            fills: self.fills.into(),
            lan: self.lan.into(),
        }
    }
}
