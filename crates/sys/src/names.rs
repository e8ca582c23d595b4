//! Names of addresses, as the system's resolver gives them.
//!
//! Principle: a name that cannot be found is no error. Non-goals: looking names up without
//! blocking (the caller has a thread for that), the other direction (the standard library does).

use std::ffi::CStr;
use std::net::{IpAddr, SocketAddr};

use nix::sys::socket::{SockaddrLike as _, SockaddrStorage};

/// The name of `address`, if it has one. May take seconds.
pub fn name_of(address: IpAddr) -> Option<String> {
    let socket = SockaddrStorage::from(SocketAddr::new(address, 0));
    let mut host = [0 as libc::c_char; libc::NI_MAXHOST as usize];
    // SAFETY: `socket` holds an address of the length that `len` says, `host` is as long as is
    // said, and no service is asked for; nothing is kept after the call.
    let answer = unsafe {
        libc::getnameinfo(
            socket.as_ptr(),
            socket.len(),
            host.as_mut_ptr(),
            host.len() as libc::socklen_t,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    if answer != 0 {
        return None;
    }
    // SAFETY: on success the kernel's C library has put a string with its end into `host`.
    let name = unsafe { CStr::from_ptr(host.as_ptr()) };
    // A name server may say anything; what could steer a terminal is no name.
    let name = name.to_str().ok()?;
    let clean = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    name.chars().all(clean).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_has_no_name_has_none() {
        // TEST-NET-1 (RFC 5737) is nobody's; without a name server there is no answer either.
        assert_eq!(super::name_of([192, 0, 2, 77].into()), None);
    }
}
