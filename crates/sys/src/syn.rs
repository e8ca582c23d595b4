//! One attempt to open a TCP connection, as a probe: what came of its SYN, and when.
//!
//! Principles: the kernel's own handshake, so no rights are needed and the other side sees an
//! ordinary connection, reset as soon as it stands; an open connection tells the kernel's own
//! measurement of SYN to SYN-ACK (`tcpi_rtt`, microseconds); ICMP errors come stamped through the
//! error queue. Non-goals: half-open scans, sending data.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::tcp::tcp_info;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, getsockopt, setsockopt,
    socket, sockopt,
};

use crate::error::{Context, Error};
use crate::packet_options::{PacketOptions, set_int};
use crate::stamp::{self, Notice};

/// An attempt under way.
#[derive(Debug)]
pub struct Syn(OwnedFd);

/// How an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynState {
    /// Nothing came yet.
    Waiting,
    /// The other side agreed; SYN to SYN-ACK as the kernel measured it. `None`: the kernel does not say.
    Open(Option<Duration>),
    /// The other side answered, but the SYN had to be sent again, so nobody knows how long that took (Karn's algorithm,
    /// RFC 6298, section 3).
    SentAgain,
    /// The other side refused.
    Refused,
    /// Something else ended it; an ICMP error stands in the error queue.
    Failed(Errno),
}

impl Syn {
    /// Sends a SYN to `peer` from port `local` (0: any).
    pub fn begin(peer: SocketAddr, local: u16, options: &PacketOptions) -> Result<Self, Error> {
        let what = || format!("connect to TCP {peer}");
        let (family, any): (_, IpAddr) = match peer {
            SocketAddr::V4(_) => (AddressFamily::Inet, Ipv4Addr::UNSPECIFIED.into()),
            SocketAddr::V6(_) => (AddressFamily::Inet6, Ipv6Addr::UNSPECIFIED.into()),
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(family, SockType::Stream, flags, None).context(what)?;
        stamp::prepare_errors(&fd, peer.ip()).context(what)?;
        options.apply(&fd, peer.ip())?;
        // Closing resets: nothing of the attempt stays, here or there.
        let reset = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&fd, sockopt::Linger, &reset).context(what)?;
        setsockopt(&fd, sockopt::ReuseAddr, &true).context(what)?;
        // One repetition at most; the probe is given up before it helps.
        let _ = set_int(&fd, libc::IPPROTO_TCP, libc::TCP_SYNCNT, 1);
        if local != 0 {
            let from = SockaddrStorage::from(SocketAddr::new(any, local));
            bind(fd.as_raw_fd(), &from).context(|| format!("bind TCP port {local}"))?;
        }
        match connect(fd.as_raw_fd(), &SockaddrStorage::from(peer)) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(Syn(fd)),
            Err(e) => Err(Error::new(what(), e)),
        }
    }

    /// The port it was sent from.
    pub fn local_port(&self) -> Option<u16> {
        stamp::local_port(&self.0).ok()
    }

    /// How it stands.
    pub fn state(&self) -> SynState {
        /// Offsets in `struct tcp_info` of linux/tcp.h, which only grows at its end.
        const RTT: usize = 68;
        const TOTAL_RETRANS: usize = 100;
        /// `TCP_SYN_SENT` and `TCP_CLOSE` of net/tcp_states.h.
        const SYN_SENT: u8 = 2;
        const CLOSE: u8 = 7;
        match getsockopt(&self.0, sockopt::SocketError) {
            Ok(0 | libc::ECONNREFUSED) => {}
            Ok(e) => return SynState::Failed(Errno::from_raw(e)),
            Err(e) => return SynState::Failed(e),
        }
        let info = match tcp_info(&self.0) {
            Ok(info) => info,
            Err(e) => return SynState::Failed(e),
        };
        match info.state() {
            SYN_SENT => SynState::Waiting,
            _ if info.word(TOTAL_RETRANS) > 0 => SynState::SentAgain,
            CLOSE => SynState::Refused,
            _ => SynState::Open(
                (info.word(RTT) > 0).then(|| Duration::from_micros(info.word(RTT).into())),
            ),
        }
    }

    /// The next entry of the error queue; `None` if it is empty.
    pub fn notice(&self, quoted: &mut [u8]) -> Result<Option<Notice>, Error> {
        stamp::notice(&self.0, quoted)
    }
}

impl AsFd for Syn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
