//! What the kernel refused over netlink: its error number, and its own words if it has any.
//!
//! Principles: the kernel's words (extended ACK) are kept; what they mean for a caller is asked by
//! name. Non-goals: which object was meant (`crate::error`), sockets.

use std::io;

use nix::errno::Errno;

/// What the kernel refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct NetlinkError {
    /// Why.
    pub errno: Errno,
    /// The kernel's words, if it has any.
    pub text: Option<String>,
    /// Offset of the offending attribute in the request, if the kernel says.
    pub offset: Option<u32>,
}

impl NetlinkError {
    /// The kernel's words, or the error number's.
    pub fn words(&self) -> &str {
        self.text.as_deref().unwrap_or_else(|| self.errno.desc())
    }

    /// Whether rights are missing.
    pub fn is_permission(&self) -> bool {
        matches!(self.errno, Errno::EPERM | Errno::EACCES)
    }

    /// Whether this kernel lacks the asked kind of discipline, class, filter or action: the
    /// capability probe. `ENOENT` also means that a device's discipline or a filter is not
    /// there, which the kernel says in other words.
    pub fn is_unknown_kind(&self) -> bool {
        // net/sched: sch_api.c, cls_api.c, act_api.c; net/core/rtnetlink.c for links.
        const WORDS: [&str; 4] = [
            "Specified qdisc kind is unknown",
            "TC classifier not found",
            "Failed to load TC action module",
            "Unknown device type",
        ];
        let text = self.text.as_deref().unwrap_or_default();
        WORDS.iter().any(|w| text.starts_with(w))
    }

    pub(super) fn new(errno: Errno) -> Self {
        NetlinkError {
            errno,
            text: None,
            offset: None,
        }
    }
}

impl From<io::Error> for NetlinkError {
    fn from(e: io::Error) -> Self {
        NetlinkError::new(match e.raw_os_error().map(Errno::from_raw) {
            // SO_RCVTIMEO ran out.
            Some(Errno::EAGAIN) => Errno::ETIMEDOUT,
            Some(errno) => errno,
            None => Errno::EIO,
        })
    }
}
