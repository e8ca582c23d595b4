//! Which kernels an experiment can run on.
//!
//! Non-goals: booting them (`guest`).

use serde::{Deserialize, Serialize};

/// Which kernel carries the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The one that runs now.
    Native,
    /// Debian's user-mode-linux.
    Uml,
    /// User Mode Linux in virtual time: an infinitely fast CPU.
    Virtual,
}

impl Engine {
    /// As on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Native => "native",
            Engine::Uml => "uml",
            Engine::Virtual => "virtual",
        }
    }
}

impl Engine {
    /// Whether a run that is void is made again. In virtual time it would be the same.
    pub(crate) const fn repeats_void_runs(self) -> bool {
        !matches!(self, Engine::Virtual)
    }
}

impl std::str::FromStr for Engine {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        [Engine::Native, Engine::Uml, Engine::Virtual]
            .into_iter()
            .find(|e| e.name() == s)
            .ok_or_else(|| "it must be native, uml or virtual".to_owned())
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
