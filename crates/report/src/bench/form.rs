//! The form of a bench result: what `evenkeel bench` saw, over time.
//!
//! Principles: raw series are kept, so that every figure can be computed again ([`super::figures`]);
//! names carry their unit; times are s since the run's beginning; fields are added, never renamed.
//! Non-goals: figures.

use serde::{Deserialize, Serialize};

/// The version this code writes.
pub const VERSION: u32 = 1;

/// Which way load goes, seen from the one who measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// To the one who measures.
    Down,
    /// From there.
    Up,
}

/// One run of `evenkeel bench`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// [`VERSION`].
    pub bench_version: u32,
    /// What the user calls it (`without evenkeel`).
    pub label: String,
    /// `rrul`, `rrul-be`, `download`, `upload`, `both`, `idle`, `rpm`, `rpm-download`, `rpm-upload`, `household`.
    pub test: String,
    /// The far end as it was given.
    pub to: String,
    /// What the far end is: `evenkeel serve`, `responsiveness server`, `iperf3`, `irtt`, `web server`; or
    /// whose file it was: `flent`, `Crusader`.
    pub far_end: String,
    /// Its address.
    pub address: String,
    /// This machine's name.
    pub host: String,
    /// When it began, s since 1970.
    pub began: f64,
    /// The command.
    pub command: String,
    /// Release of this machine's kernel.
    pub kernel: String,
    /// This program's version.
    pub program: String,
    /// What was in force on the device that leads to the far end (`evenkeel`, `cake`, `fq_codel`).
    #[serde(default)]
    pub shaper: String,
    /// When the load began and ended, and when the run did.
    pub phases: Phases,
    /// Every stream of the load.
    pub streams: Vec<Stream>,
    /// Every kind of probe; the first is the judged one.
    pub probes: Vec<Probes>,
    /// What was asked of the responsiveness draft; absent without such a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpm: Option<RpmSamples>,
    /// How long pages took, of a household.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<Page>,
    /// What our own queue held, where this machine shapes: time (s), bytes; and packets dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backlog: Vec<(f64, f64)>,
    /// Packets that our own queue dropped.
    #[serde(default)]
    pub dropped_by_us: u64,
    /// What could have spoiled it.
    pub checks: Vec<Check>,
    /// Its user ended it early.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// A page that somebody waited for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// When it was asked for, s.
    pub t: f64,
    /// How long it took; absent if it never came whole.
    pub ms: Option<f64>,
}

/// Ends of the phases, s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// The load began.
    pub load: f64,
    /// The load ended.
    pub tail: f64,
    /// Nothing was measured any more.
    pub end: f64,
}

/// A stream of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Which way.
    pub way: Way,
    /// `BE`, `BK`, `CS5`, `EF`; `VIDEO`, `PAGES` of a household.
    pub mark: String,
    /// Payload that arrived in each [`BIN_S`] since the run's beginning, bytes, counted by its receiver.
    pub bytes: Vec<u64>,
    /// The receiver did not tell: counted were bytes that it acknowledged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_sender: bool,
    /// Segments sent again, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Round trips of its sender (`tcpi_rtt`): time (s), ms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtt_ms: Vec<(f64, f64)>,
}

/// Length of the intervals in which bytes are counted, s.
pub const BIN_S: f64 = 0.1;

/// All probes of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probes {
    /// `UDP`, `ICMP`, `HTTP`, `TCP`, `irtt`.
    pub kind: String,
    /// `BE` (unmarked), `EF`, `BK` (CS1); `CALL`: those of a call.
    pub mark: String,
    /// Each probe in the order of sending.
    pub probes: Vec<Probe>,
}

impl Probes {
    /// Probes of a kind, in the order of sending.
    pub fn new(kind: &str, mark: &str, probes: Vec<Probe>) -> Self {
        Probes {
            kind: kind.into(),
            mark: mark.into(),
            probes,
        }
    }
}

/// What became of one probe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// When it was sent, s.
    pub t: f64,
    /// Its round trip, ms; absent if it was lost.
    pub rtt: Option<f64>,
    /// From here to the far end by both clocks, ms: right but for the clocks' difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<f64>,
    /// How long it waited in this machine's own queueing discipline, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<f64>,
}

impl Probe {
    /// Sent at `t` (s), back after `rtt` (ms).
    pub fn new(t: f64, rtt: Option<f64>) -> Self {
        Probe {
            t,
            rtt,
            up: None,
            own: None,
        }
    }
}

/// What the probes of the responsiveness draft took, ms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RpmSamples {
    /// Times of the last four intervals only count; s.
    pub from: f64,
    /// Connections that loaded the line at the end.
    pub connections: usize,
    /// The load was stable by the draft's rule.
    pub stable: bool,
    /// When and how long: TCP handshakes on connections of their own.
    pub tcp_foreign: Vec<(f64, f64)>,
    /// TLS handshakes, the same; empty without TLS.
    pub tls_foreign: Vec<(f64, f64)>,
    /// Requests on connections of their own.
    pub http_foreign: Vec<(f64, f64)>,
    /// Requests on connections that load the line.
    pub http_self: Vec<(f64, f64)>,
}

/// How a self-check went, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing was found.
    Ok,
    /// It could not be looked at.
    Unknown,
    /// Figures are to be taken with care.
    Doubt,
    /// Figures say nothing about the line.
    Void,
}

/// One self-check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at (`CPU of this machine`).
    pub name: String,
    /// How it went.
    pub verdict: Verdict,
    /// One sentence with its figure.
    pub says: String,
}

impl Bench {
    /// Nothing but phases and one kind of probe, the judged one: what figures can be taken of.
    pub fn of(phases: Phases, judged: Probes) -> Self {
        Bench {
            phases,
            probes: vec![judged],
            ..Bench::default()
        }
    }

    /// What makes it void, in one line; empty if it counts.
    pub fn void(&self) -> String {
        let void = self.checks.iter().filter(|c| c.verdict == Verdict::Void);
        void.map(|c| c.says.as_str()).collect::<Vec<_>>().join("; ")
    }

    /// The judged probes.
    pub fn judged(&self) -> Option<&Probes> {
        self.probes.iter().find(|p| !p.probes.is_empty())
    }
}
