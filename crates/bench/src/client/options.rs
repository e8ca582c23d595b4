//! What may be asked of a run: the loads by their names, and everything else that a user says.
//!
//! Non-goals: how it is typed (the program's command line).

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::irtt::Key;

/// The draft's connections at most.
const MOST_OF_THE_DRAFT: usize = 16;

/// Which load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// Four streams each way, in the classes BE, BK, CS5 and EF
    Rrul,
    /// The same, all best effort
    RrulBe,
    /// Down only
    Download,
    /// Up only
    Upload,
    /// Both ways at once, eight streams each
    Both,
    /// No load: the line as it is
    Idle,
    /// A call, a video in bursts, pages, and a backup: what homes do at once
    Household,
    /// Responsiveness: HTTP/2 connections, one more each second, both ways at once
    Rpm,
    /// The same, down only
    RpmDownload,
    /// The same, up only
    RpmUpload,
}

impl Test {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Test::Rrul => "rrul",
            Test::RrulBe => "rrul-be",
            Test::Download => "download",
            Test::Upload => "upload",
            Test::Both => "both",
            Test::Idle => "idle",
            Test::Household => "household",
            Test::Rpm => "rpm",
            Test::RpmDownload => "rpm-download",
            Test::RpmUpload => "rpm-upload",
        }
    }

    /// It is the responsiveness draft's load.
    pub(crate) fn is_rpm(self) -> bool {
        matches!(self, Test::Rpm | Test::RpmDownload | Test::RpmUpload)
    }

    /// Streams down and up, unless told otherwise.
    pub(super) fn streams(self, asked: Option<usize>) -> (usize, usize) {
        let n = asked.unwrap_or(match self {
            Test::Both => 8,
            // The video and the pages, and the backup.
            Test::Household => return (2, 1),
            _ if self.is_rpm() => MOST_OF_THE_DRAFT,
            _ => 4,
        });
        match self {
            Test::Download | Test::RpmDownload => (n, 0),
            Test::Upload | Test::RpmUpload => (0, n),
            Test::Idle => (0, 0),
            _ => (n, n),
        }
    }
}

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// URL or host.
    pub to: String,
    /// An irtt server whose pings are judged, `irtt://HOST`.
    pub pings: Option<String>,
    /// What seals packets to and from irtt servers.
    pub irtt_key: Option<Key>,
    /// Which load.
    pub test: Test,
    /// Streams each way.
    pub streams: Option<usize>,
    /// Length of the load, s.
    pub seconds: u16,
    /// Length of the phase before.
    pub idle: Duration,
    /// And of the one after.
    pub tail: Duration,
    /// Between two judged probes; found out if absent.
    pub interval: Option<Duration>,
    /// For `evenkeel serve`.
    pub token: String,
    /// An authority to trust beside the system's.
    pub ca: Option<PathBuf>,
    /// What results call it.
    pub label: String,
    /// What was typed.
    pub command: String,
}

/// What goes on now.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// `idle`, `load`, `tail`.
    pub phase: &'static str,
    /// s until the run's end.
    pub left: f64,
    /// Mbit/s down and up since the last look.
    pub down: f64,
    /// Up.
    pub up: f64,
    /// Median of the pings since the last look, ms.
    pub ping: Option<f64>,
}
