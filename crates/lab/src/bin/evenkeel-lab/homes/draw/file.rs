//! An experiment's file as `draw` writes it. Non-goals: reading it (`evenkeel_lab::Experiment`).

use evenkeel_core::Direction;
use serde::Serialize;

/// A load lasts so long, s.
pub(in super::super) const LENGTH: f64 = 40.0;

#[derive(Debug, Serialize)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) clients: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) beside: usize,
    pub(super) conditions: Vec<&'static str>,
    pub(super) line: Line,
    pub(super) servers: Vec<Server>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) radio: Vec<Radio>,
    pub(super) duration: Duration,
    pub(super) probe: Probe,
    pub(super) loads: Vec<Load>,
}

#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) device: &'static str,
    pub(super) down: String,
    pub(super) up: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) down_steps: Vec<(f64, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) up_steps: Vec<(f64, String)>,
    pub(super) framing: String,
    pub(super) rtt_ms: f64,
    pub(super) jitter_ms: f64,
    pub(super) loss: f64,
    pub(super) filters_icmp: bool,
    pub(super) silent: bool,
    pub(super) double_nat: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) box_in_front: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) down_managed: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) up_managed: bool,
    pub(super) down_buffer: String,
    pub(super) up_buffer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) down_bucket: Option<Bucket>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) up_bucket: Option<Bucket>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hop: Option<Hop>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swing: Option<Swing>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(b: &bool) -> bool {
    !b
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_true(b: &bool) -> bool {
    *b
}

#[derive(Debug, Serialize)]
pub(super) struct Swing {
    pub(super) kind: &'static str,
    pub(super) seed: u64,
    pub(super) every_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) factor: Option<f64>,
    pub(super) down: [String; 2],
    pub(super) up: [String; 2],
    pub(super) rtt_ms: [f64; 2],
}

#[derive(Debug, Serialize)]
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) rtt_ms: f64,
    #[serde(skip_serializing_if = "is_true")]
    pub(super) time_stamps: bool,
    #[serde(skip_serializing_if = "is_true")]
    pub(super) sack: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Duration {
    #[serde(rename = "full_s")]
    pub(super) full: f64,
    #[serde(rename = "quick_s")]
    pub(super) quick: f64,
    #[serde(rename = "idle_s")]
    pub(super) idle: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Probe {
    pub(super) interval_ms: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) flows: Vec<Flow>,
}

#[derive(Debug, Serialize)]
pub(super) struct Flow {
    pub(super) kind: &'static str,
    pub(super) direction: Direction,
    pub(super) client: usize,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) beside: bool,
    pub(super) server: &'static str,
    pub(super) count: usize,
    pub(super) start_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) congestion: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) on_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) off_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size_kbyte: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interval_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) packet_bytes: Option<u16>,
}

impl Flow {
    /// One flow of `kind` between a client and a server, all the time.
    pub(super) fn new(
        kind: &'static str,
        direction: Direction,
        client: usize,
        server: &'static str,
    ) -> Self {
        Flow {
            kind,
            direction,
            client,
            beside: false,
            server,
            count: 1,
            start_s: 0.0,
            congestion: None,
            on_s: None,
            off_s: None,
            per_second: None,
            size_kbyte: None,
            interval_ms: None,
            packet_bytes: None,
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Bucket {
    pub(super) kind: &'static str,
    pub(super) rate: String,
    pub(super) burst_kbyte: u64,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Hop {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answers_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stall_every_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stall_ms: Option<[f64; 2]>,
    pub(super) slow_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clock: Option<Clock>,
    pub(super) no_stamps: bool,
    pub(super) mute: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Clock {
    Steps { at_s: f64, by_ms: i32 },
    Stands {},
    Drifts { ppm: f64 },
}

#[derive(Debug, Serialize)]
pub(super) struct Radio {
    pub(super) client: usize,
    pub(super) rate: String,
    pub(super) buffer: String,
    pub(super) turns_ms: f64,
    pub(super) jitter_ms: f64,
    #[serde(skip)]
    pub(super) downloads: usize,
}

pub(super) fn rate(kbit: f64) -> String {
    format!("{:.0}kbit", kbit.max(1.0))
}

pub(super) fn tenth(v: f64) -> f64 {
    (v * 10.0).round() / 10.0
}
