//! Where programs are.
//!
//! Principle: an ordinary user finds the administrator's as well. Non-goals: packages.

use std::path::PathBuf;

/// The first of `PATH`'s directories (and the administrator's) that has `program`.
pub(super) fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|d| d.join(program))
        .find(|p| p.is_file())
}
