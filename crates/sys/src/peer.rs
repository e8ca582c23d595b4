//! Who is at the other end of a Unix socket, as the kernel knows it.
//!
//! Principle: credentials are those at the time of connect(2); nothing that a peer says counts. Non-goals: what they
//! may do.

use std::os::fd::{AsFd, AsRawFd as _};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use crate::error::{Context as _, Error};

/// A peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub user: u32,
    /// Its groups, the first one among them.
    pub groups: Vec<u32>,
    /// Its process.
    pub process: i32,
}

/// Who is at the other end of `socket`.
pub fn peer(socket: &impl AsFd) -> Result<Peer, Error> {
    let who = getsockopt(&socket.as_fd(), PeerCredentials)
        .context(|| "ask who is connected".to_owned())?;
    let mut groups = supplementary(socket);
    groups.push(who.gid());
    Ok(Peer {
        user: who.uid(),
        groups,
        process: who.pid(),
    })
}

/// Its other groups; none where the kernel does not tell (before Linux 4.13).
fn supplementary(socket: &impl AsFd) -> Vec<u32> {
    /// As many as a process may have (`NGROUPS_MAX`).
    const MOST: usize = 65_536;
    let mut groups = vec![0u32; 64];
    loop {
        let mut length = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `groups`, which has so many, and the length it needs.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let n = length as usize / size_of::<u32>();
        if failed == 0 {
            groups.truncate(n);
            return groups;
        }
        if n <= groups.len() || n > MOST {
            return Vec::new();
        }
        groups.resize(n, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn it_is_us() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = peer(&one).unwrap();
        assert_eq!(peer.user, nix::unistd::geteuid().as_raw());
        assert_eq!(peer.process, std::process::id().cast_signed());
        assert!(peer.groups.contains(&nix::unistd::getegid().as_raw()));
    }
}
