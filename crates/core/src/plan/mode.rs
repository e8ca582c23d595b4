//! What matters more, ping or bandwidth.
//!
//! Non-goals: the rates that follow from it (`shaping`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What matters more when both cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Ping time: a little headroom keeps the queue where we control it.
    #[default]
    Ping,
    /// Bandwidth: no headroom; temporary rises of the ping are accepted.
    Bandwidth,
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "ping" => Ok(Mode::Ping),
            "bandwidth" => Ok(Mode::Bandwidth),
            _ => Err(format!("{s:?} is neither ping nor bandwidth")),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Ping => "ping",
            Mode::Bandwidth => "bandwidth",
        })
    }
}
