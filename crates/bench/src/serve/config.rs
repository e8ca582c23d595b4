//! What a server is told, and why it does not serve.
//!
//! Non-goals: command lines.

use std::net::SocketAddr;
use std::path::PathBuf;

use evenkeel_sys::Error;

use super::clients::Limits;

/// What a server is told.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Addresses to listen on; with port 0 the kernel chooses one.
    pub listen: Vec<SocketAddr>,
    /// What clients must say; empty: anybody may measure.
    pub token: String,
    /// Certificate chain and key, PEM; without them HTTP is not encrypted.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// What each client may take.
    pub limits: Limits,
}

/// Why it does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The kernel refused.
    #[error(transparent)]
    Sys(#[from] Error),
    /// The certificate or its key.
    #[error("read {}: {why}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}
