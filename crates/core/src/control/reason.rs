//! What the controller says of what it does: reasons of rates, and things to know.
//!
//! Principles: a person can read it without having read the program. Non-goals: deciding.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Direction;

/// Why rates change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Reason {
    /// Told beforehand, or learned before.
    Guess,
    /// A queue stands at the bottleneck.
    Queue {
        /// In this direction.
        dir: Direction,
        /// So long.
        queue_ms: f64,
    },
    /// Nothing is known yet: what was let out has passed, and twice as much may.
    Opening {
        /// In this direction.
        dir: Direction,
    },
    /// It is going.
    Draining {
        /// In this direction.
        dir: Direction,
        /// So long still.
        queue_ms: f64,
    },
    /// It has gone.
    Drained {
        /// In this direction.
        dir: Direction,
    },
    /// Used to the full without a queue: perhaps there is more.
    ProbingUp {
        /// In this direction.
        dir: Direction,
    },
    /// The line never settles: a short queue or pulses show what it carries.
    Following {
        /// In this direction.
        dir: Direction,
    },
    /// So much went through without a queue.
    Proven {
        /// In this direction.
        dir: Direction,
    },
    /// What is sent is lost, without a queue.
    Losses {
        /// In this direction.
        dir: Direction,
        /// So much of it.
        percent: f64,
    },
    /// As much is lost at a lower rate, so the line loses it by itself.
    LosesByItself {
        /// In this direction.
        dir: Direction,
    },
    /// Others on the line who know what is sent together think so.
    Agreed {
        /// In this direction.
        dir: Direction,
    },
    /// The delay did not follow what was done about it; the other direction is looked at.
    Elsewhere {
        /// Suspected in this direction.
        dir: Direction,
        /// So much of it.
        queue_ms: f64,
    },
    /// Somebody else's queue stands in this direction: the line is shared with it.
    Shared {
        /// In this direction.
        dir: Direction,
        /// So long.
        queue_ms: f64,
    },
    /// The delay did not follow what was done about it.
    NotOurs {
        /// Suspected in this direction.
        dir: Direction,
        /// So much of it.
        queue_ms: f64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |d: &Direction| match d {
            Direction::Up => "upload",
            Direction::Down => "download",
        };
        match self {
            Reason::Guess => write!(f, "a first guess: told, or learned before"),
            Reason::Queue { dir, queue_ms } => write!(
                f,
                "{}: a queue of {queue_ms:.1} ms stands at the bottleneck, which shows what it carries",
                word(dir)
            ),
            Reason::Opening { dir } => {
                write!(
                    f,
                    "{}: opened step by step until a queue shows what the line carries",
                    word(dir)
                )
            }
            Reason::Draining { dir, queue_ms } => {
                write!(
                    f,
                    "{}: {queue_ms:.1} ms of queue are left to drain",
                    word(dir)
                )
            }
            Reason::Drained { dir } => write!(f, "{}: the queue has gone", word(dir)),
            Reason::ProbingUp { dir } => write!(
                f,
                "{}: used to the full without a queue; trying whether there is more",
                word(dir)
            ),
            Reason::Following { dir } => {
                write!(f, "{}: the line never settles, and is followed", word(dir))
            }
            Reason::Proven { dir } => {
                write!(f, "{}: so much went through without a queue", word(dir))
            }
            Reason::Losses { dir, percent } => {
                write!(
                    f,
                    "{dir}: {percent:.0} % of what is sent is lost and no queue stands, so the line carries less"
                )
            }
            Reason::LosesByItself { dir } => {
                write!(
                    f,
                    "{dir}: as much is lost of less, so the line loses that by itself"
                )
            }
            Reason::Agreed { dir } => {
                write!(f, "{}: agreed with the others on this line", word(dir))
            }
            Reason::Elsewhere { dir, queue_ms } => write!(
                f,
                "{}: {queue_ms:.1} ms of queue did not follow a cut, so they are not here",
                word(dir)
            ),
            Reason::Shared { dir, queue_ms } => write!(
                f,
                "{}: {queue_ms:.1} ms of queue stay whatever we send: somebody else fills the line, and it is shared",
                word(dir)
            ),
            Reason::NotOurs { dir, queue_ms } => write!(
                f,
                "{}: {queue_ms:.1} ms more stay whatever we send: another route, or somebody else's load",
                word(dir)
            ),
        }
    }
}

/// Things that change no rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Notice {
    /// The round trip of the idle line became longer.
    BaseRose {
        /// To so much.
        base_ms: f64,
    },
    /// No probe is answered any more.
    NoSignal,
    /// They are again.
    SignalBack,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::BaseRose { base_ms } => write!(
                f,
                "the idle line's round trip rose to {base_ms:.1} ms: another route, or somebody else's load"
            ),
            Notice::NoSignal => write!(
                f,
                "no probe is answered any more: rates stay, unless connections that pass say otherwise"
            ),
            Notice::SignalBack => write!(f, "probes are answered again"),
        }
    }
}
