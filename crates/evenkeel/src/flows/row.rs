//! A flow as it is shown, and as `--json` has it.
//!
//! Non-goals: how it comes about (`flows`).

use evenkeel_core::classify::Tier;
use evenkeel_kernel::lan::Place;
use serde::{Deserialize, Serialize};

/// One flow as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    /// By which it is raised and lowered; the same as long as it lives.
    pub(super) number: u16,
    pub(super) proto: String,
    pub(super) local: String,
    /// The device on our side, by its name, its hardware address or, behind address translation, its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    pub(super) remote: String,
    pub(super) tier: Tier,
    /// The rule, or what was seen of the flow.
    pub(super) why: String,
    pub(super) down_kbit: u64,
    pub(super) up_kbit: u64,
    pub(super) down_bytes: u64,
    pub(super) up_bytes: u64,
    pub(super) down_packets: u64,
    pub(super) up_packets: u64,
    /// Of the latest packet from us.
    pub(super) dscp: u8,
    pub(super) mark: u32,
    /// Round trip between here and the far side: latest and smallest, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rtt_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rtt_min_ms: Option<f64>,
    /// How many were seen.
    pub(super) rtt_count: u32,
    /// The same on our side of the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lan_rtt_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lan_rtt_min_ms: Option<f64>,
    pub(super) lan_rtt_count: u32,
    /// How much may be on its way to us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) window_bytes: Option<u32>,
    /// Its share of the line, and what it reached of late, both at the link layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) share_kbit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reached_kbit: Option<u64>,
    /// Why that much, or why its window is left alone.
    pub(super) window_why: String,
    /// Where it waits, if a queue stands: on the LAN, on the line, or beyond; and how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) queue_ms: Option<f64>,
    /// Number of the control group, if it is this host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cgroup: Option<String>,
    /// It has ended: both sides said so, or one broke it off.
    #[serde(default)]
    pub(super) ended: bool,
    /// Since it was first seen, and since its latest packet.
    pub(super) age_s: f64,
    pub(super) quiet_s: f64,
}
