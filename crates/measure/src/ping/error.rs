//! Why there is no prober, and what to do about it.
//!
//! Principles: an error names the probe or the target, and keeps the kernel's words. Non-goals: a
//! probe's own fate (`evenkeel_core::ping`).

use std::net::SocketAddr;

use evenkeel_core::exit::{Exit, Exits};
use evenkeel_sys::Error;
use nix::errno::Errno;

/// Why there is no prober.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The kernel wants rights for it.
    #[error("{what}: not permitted: {remedy}")]
    NotPermitted {
        /// What was to be opened.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// It does not exist for this target.
    #[error("{0}")]
    Impossible(&'static str),
    /// The first probe could not be sent.
    #[error("send {size} bytes to {target}: {}{}", errno.desc(), hint(*errno))]
    Unsent {
        /// Payload bytes.
        size: u32,
        /// To whom.
        target: SocketAddr,
        /// The kernel's answer.
        errno: Errno,
    },
    /// There is no way to the target.
    #[error("{0} (no route to it: see ip route)")]
    NoRoute(Error),
    /// Something else was refused.
    #[error(transparent)]
    Sys(Error),
}

impl Exits for PingError {
    fn exit(&self) -> Exit {
        match self {
            PingError::NotPermitted { .. } => Exit::NotPermitted,
            PingError::Impossible(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}

impl From<Error> for PingError {
    fn from(e: Error) -> Self {
        match e.errno() {
            Errno::ENETUNREACH | Errno::EHOSTUNREACH => PingError::NoRoute(e),
            _ => PingError::Sys(e),
        }
    }
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::EMSGSIZE => {
            " (more than the device's MTU with don't-fragment: a smaller size, or without -f)"
        }
        Errno::ENETUNREACH | Errno::EHOSTUNREACH => " (no route to it: see ip route)",
        Errno::EACCES => " (a broadcast address, or a rule of this machine's firewall)",
        Errno::EPERM => " (a rule of this machine's firewall)",
        _ => "",
    }
}
