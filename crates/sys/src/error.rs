//! What the kernel refused, on which object, and what to do about it.
//!
//! Principles: one line; the kernel's words are kept. Non-goals: exit codes (the binary's).

use nix::errno::Errno;

use crate::netlink::NetlinkError;

/// A failed call to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {}{}", words.as_deref().unwrap_or(errno.desc()), hint(*errno))]
pub struct Error {
    what: String,
    errno: Errno,
    words: Option<String>,
}

impl Error {
    /// `what` was tried (with its object), the kernel answered `errno`.
    pub fn new(what: impl Into<String>, errno: Errno) -> Self {
        Error {
            what: what.into(),
            errno,
            words: None,
        }
    }

    /// `what` was tried, the kernel refused it over netlink, perhaps in words of its own.
    pub fn netlink(what: impl Into<String>, e: NetlinkError) -> Self {
        Error {
            what: what.into(),
            errno: e.errno,
            words: e.text,
        }
    }

    /// The same from an I/O error.
    pub fn io(what: impl Into<String>, e: &std::io::Error) -> Self {
        Error::new(
            what,
            Errno::from_raw(e.raw_os_error().unwrap_or(nix::libc::EIO)),
        )
    }

    /// The kernel's answer.
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// Whether rights are missing.
    pub fn is_permission(&self) -> bool {
        matches!(self.errno, Errno::EPERM | Errno::EACCES)
    }
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM | Errno::EACCES => " (root, or CAP_NET_ADMIN and CAP_SYS_ADMIN, is needed)",
        _ => "",
    }
}

/// Adds the object to a bare error number.
pub(crate) trait Context<T> {
    /// Names what was tried.
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Context<T> for Result<T, Errno> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|e| Error::new(what(), e))
    }
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|e| Error::io(what(), &e))
    }
}
