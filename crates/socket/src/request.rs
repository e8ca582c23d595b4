//! What can be asked, and how it is answered.
//!
//! Principles: what is not understood is refused with the reason; a request names all that it needs, so that each
//! stands alone. Non-goals: who may ask it (`right`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request: a line of JSON like `{"ask":"status"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What is in force, and the line's model.
    Status {
        /// Of this device; of all without it.
        #[serde(default)]
        device: Option<String>,
    },
    /// Who uses the line.
    Flows {
        /// Of this device; of the one that is shaped without it.
        #[serde(default)]
        device: Option<String>,
        /// Also those that have been quiet for long.
        #[serde(default)]
        all: bool,
    },
    /// What the line did.
    History {
        /// Of this device; of all that have a history without it.
        #[serde(default)]
        device: Option<String>,
        /// From then on, seconds since 1970.
        from: u64,
        /// Until then.
        to: u64,
        /// At most so many minutes.
        points: usize,
        /// The story of this moment, rather than of the whole.
        #[serde(default)]
        at: Option<u64>,
    },
    /// How much the line has moved, and for whom.
    Usage {
        /// Of this device; of all that were counted without it.
        #[serde(default)]
        device: Option<String>,
    },
    /// To follow a device no more and to take everything back from it.
    Clear {
        /// From this one; from all that the daemon follows without it.
        #[serde(default)]
        device: Option<String>,
        /// Needed from a page's server.
        #[serde(default)]
        token: Option<String>,
    },
    /// To do something in another way until the next reload.
    Set {
        /// On this device; on all without it.
        #[serde(default)]
        device: Option<String>,
        /// What matters more.
        #[serde(default)]
        mode: Option<String>,
        /// Rules, instead of those that were told.
        #[serde(default)]
        rules: Option<Vec<String>>,
        /// Needed from a page's server.
        #[serde(default)]
        token: Option<String>,
    },
    /// To put a flow into another tier until it ends.
    Move {
        /// Of this device; of the one that is shaped without it.
        #[serde(default)]
        device: Option<String>,
        /// Its number.
        flow: u16,
        /// A more urgent one; a less urgent one otherwise.
        raise: bool,
        /// Needed from a page's server.
        #[serde(default)]
        token: Option<String>,
    },
    /// To let everything that is no call wait behind everything else for a while.
    Quiet {
        /// On this device; on all without it.
        #[serde(default)]
        device: Option<String>,
        /// For so long; nought ends it.
        seconds: u32,
        /// Needed from a page's server.
        #[serde(default)]
        token: Option<String>,
    },
    /// To let go of a device for a while: it is as it was before until the lease ends. Asked again it is prolonged.
    Pause {
        /// Which.
        device: String,
        /// The lease.
        seconds: u16,
        /// Needed from a page's server.
        #[serde(default)]
        token: Option<String>,
    },
    /// To follow a device again before its lease ends.
    Resume {
        /// Which.
        device: String,
        /// Needed from a page's server.
        #[serde(default)]
        token: Option<String>,
    },
    /// To read the file with the settings again.
    Reload {
        /// Needed from a page's server.
        #[serde(default)]
        token: Option<String>,
    },
    /// Whether this is the token.
    Check {
        /// The token.
        token: String,
    },
}

impl Request {
    /// Whether it changes something, which takes longer than to read it.
    pub fn is_order(&self) -> bool {
        match self {
            Request::Clear { .. }
            | Request::Set { .. }
            | Request::Move { .. }
            | Request::Quiet { .. }
            | Request::Pause { .. }
            | Request::Resume { .. }
            | Request::Reload { .. } => true,
            Request::Status { .. }
            | Request::Flows { .. }
            | Request::History { .. }
            | Request::Usage { .. }
            | Request::Check { .. } => false,
        }
    }

    /// The token that it brings.
    pub fn token(&self) -> Option<&str> {
        match self {
            Request::Clear { token, .. }
            | Request::Set { token, .. }
            | Request::Move { token, .. }
            | Request::Quiet { token, .. }
            | Request::Pause { token, .. }
            | Request::Resume { token, .. }
            | Request::Reload { token } => token.as_deref(),
            Request::Check { token } => Some(token),
            Request::Status { .. }
            | Request::Flows { .. }
            | Request::History { .. }
            | Request::Usage { .. } => None,
        }
    }
}

/// An answer: a line of JSON, `{"ok":...}` or `{"error":"...","code":3}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reply {
    /// It was done, with this to show.
    Done {
        /// What there is to show.
        ok: Value,
    },
    /// It was not.
    Refused {
        /// Why, in a line.
        error: String,
        /// As an exit code: 1 it failed, 2 it makes no sense, 3 not permitted.
        code: u8,
    },
}

impl Reply {
    /// It was done.
    pub fn done(ok: impl Serialize) -> Self {
        match serde_json::to_value(ok) {
            Ok(ok) => Reply::Done { ok },
            Err(e) => Reply::refused(1, e),
        }
    }

    /// It was not.
    #[allow(clippy::needless_pass_by_value)] // Words are made for this call.
    pub fn refused(code: u8, error: impl ToString) -> Self {
        let error = error.to_string().replace('\n', " ");
        Reply::Refused { error, code }
    }
}

/// A request of a line.
pub fn parse(line: &[u8]) -> Result<Request, Reply> {
    serde_json::from_slice(line)
        .map_err(|e| Reply::refused(2, format_args!("this is no request: {e}")))
}
