//! TCP sockets for loads: congestion control, send buffers, and what the kernel knows of them.
//!
//! Principles: everything is set on the socket, never on the machine; nothing blocks.
//! Non-goals: data worth reading (senders send zeros, receivers throw away).

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, SockaddrStorage, accept4, bind, connect,
    getsockopt, listen, send, setsockopt, socket, sockopt,
};

use crate::error::{Context, Error};

/// A TCP socket, listening or not.
#[derive(Debug)]
pub struct Tcp(OwnedFd);

/// Where a connection stands that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// So many bytes were moved.
    Moved(usize),
    /// Nothing can be moved now.
    Later,
    /// The other side has closed, or the connection was reset.
    Closed,
}

impl Tcp {
    /// A socket that can connect to `peer`, in the calling thread's namespace.
    /// `congestion`: name of the congestion control.
    pub fn new(peer: SocketAddr, congestion: &str) -> Result<Self, Error> {
        let family = match peer {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(family, SockType::Stream, flags, None)
            .context(|| "open a TCP socket".to_owned())?;
        setsockopt(&fd, sockopt::TcpCongestion, &congestion.into())
            .context(|| format!("set TCP congestion control {congestion}"))?;
        Ok(Tcp(fd))
    }

    /// A listening socket on `local`; what it accepts inherits the congestion control.
    pub fn listener(local: SocketAddr, congestion: &str) -> Result<Self, Error> {
        let this = Self::new(local, congestion)?;
        setsockopt(&this.0, sockopt::ReuseAddr, &true)
            .context(|| format!("reuse TCP address {local}"))?;
        bind(this.0.as_raw_fd(), &SockaddrStorage::from(local))
            .context(|| format!("bind TCP {local}"))?;
        listen(&this.0, Backlog::MAXCONN).context(|| format!("listen on TCP {local}"))?;
        Ok(this)
    }

    /// The next connection of a listening socket; `None` if there is none.
    pub fn accept(&self) -> Result<Option<Tcp>, Error> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        match accept4(self.0.as_raw_fd(), flags) {
            Ok(fd) => {
                use std::os::fd::FromRawFd;
                // SAFETY: accept4 has just made this descriptor; nobody else owns it.
                Ok(Some(Tcp(unsafe { OwnedFd::from_raw_fd(fd) })))
            }
            Err(Errno::EAGAIN | Errno::ECONNABORTED | Errno::EINTR) => Ok(None),
            Err(e) => Err(Error::new("accept a TCP connection", e)),
        }
    }

    /// Begins to connect; writable once it has.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), Error> {
        match connect(self.0.as_raw_fd(), &SockaddrStorage::from(peer)) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(()),
            Err(e) => Err(Error::new(format!("connect to TCP {peer}"), e)),
        }
    }

    /// Room for `bytes` of unacknowledged data, also beyond the machine's limit.
    pub fn set_send_buffer(&self, bytes: usize) -> Result<(), Error> {
        setsockopt(&self.0, sockopt::SndBufForce, &bytes)
            .context(|| format!("set a TCP send buffer of {bytes} bytes"))
    }

    /// Closing resets the connection at once, so that nothing of it stays on the line.
    pub fn reset_on_close(&self) {
        reset_on_close(self);
    }

    /// Hands `data` to the kernel.
    pub fn send(&self, data: &[u8]) -> Io {
        match send(
            self.0.as_raw_fd(),
            data,
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        ) {
            Ok(n) => Io::Moved(n),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOTCONN) => Io::Later,
            Err(_) => Io::Closed,
        }
    }

    /// Takes up to `limit` received bytes without copying them (`MSG_TRUNC`, tcp(7)).
    pub fn discard(&self, limit: usize) -> Io {
        discard(self, limit)
    }

    /// Bytes handed over that the other side has not acknowledged (`SIOCOUTQ`, tcp(7)).
    pub fn unacknowledged(&self) -> usize {
        let mut n: libc::c_int = 0;
        // SAFETY: SIOCOUTQ (= TIOCOUTQ) writes one int, which lives until the call returns.
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &raw mut n) };
        if answer < 0 {
            return 0;
        }
        usize::try_from(n).unwrap_or(0)
    }

    /// Segments sent again since the connection began (`tcpi_total_retrans`).
    pub fn retransmits(&self) -> u64 {
        info(self).map_or(0, |i| i.retransmits)
    }

    /// Why the connection failed, if it did.
    pub fn take_error(&self) -> Option<Errno> {
        match getsockopt(&self.0, sockopt::SocketError) {
            Ok(0) | Err(_) => None,
            Ok(e) => Some(Errno::from_raw(e)),
        }
    }
}

impl AsFd for Tcp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What the kernel knows of a connection (`TCP_INFO`). Zero where it does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Info {
    /// Smoothed round trip (`tcpi_rtt`).
    pub rtt: std::time::Duration,
    /// Segments sent again since the connection began (`tcpi_total_retrans`).
    pub retransmits: u64,
    /// Payload that the other side has acknowledged, bytes (`tcpi_bytes_acked`, RFC 4898).
    pub acked: u64,
}

/// Asks the kernel about any TCP socket; `None` if it is none.
pub fn info(socket: impl AsFd) -> Option<Info> {
    /// Offsets in `struct tcp_info` of linux/tcp.h; the struct only grows at its end.
    const RTT: usize = 68;
    const TOTAL_RETRANS: usize = 100;
    const BYTES_ACKED: usize = 120;
    let info = tcp_info(&socket.as_fd()).ok()?;
    let (low, high) = (info.word(BYTES_ACKED), info.word(BYTES_ACKED + 4));
    let [low, high] = if cfg!(target_endian = "big") {
        [high, low]
    } else {
        [low, high]
    };
    Some(Info {
        rtt: std::time::Duration::from_micros(info.word(RTT).into()),
        retransmits: info.word(TOTAL_RETRANS).into(),
        acked: u64::from(high) << 32 | u64::from(low),
    })
}

/// Takes up to `limit` received bytes of any TCP socket without copying them.
pub fn discard(socket: impl AsFd, limit: usize) -> Io {
    // SAFETY: with MSG_TRUNC a TCP socket drops the data and writes nothing to the buffer,
    // which may therefore be null.
    let n = unsafe {
        libc::recv(
            socket.as_fd().as_raw_fd(),
            std::ptr::null_mut(),
            limit,
            libc::MSG_TRUNC | libc::MSG_DONTWAIT,
        )
    };
    match Errno::result(n) {
        Ok(0) => Io::Closed,
        Ok(n) => Io::Moved(n as usize),
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOTCONN) => Io::Later,
        Err(_) => Io::Closed,
    }
}

/// Closing resets the connection at once, so that nothing of it stays on the line.
pub fn reset_on_close(socket: impl AsFd) {
    let now = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // Refused: the connection closes the polite way, only later.
    let _ = setsockopt(&socket.as_fd(), sockopt::Linger, &now);
}

/// No more than `bytes` wait unsent in the socket (`TCP_NOTSENT_LOWAT`, tcp(7)), so that what is
/// written next does not wait behind them.
pub fn bound_unsent(socket: impl AsFd, bytes: u32) -> Result<(), Error> {
    let value = bytes as libc::c_int;
    // SAFETY: the kernel reads one int, which lives until the call returns.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    Errno::result(answer)
        .map(|_| ())
        .context(|| format!("bound what a TCP socket has unsent to {bytes} bytes"))
}

/// TOS or traffic class of what a connected socket sends to `peer`'s family.
pub fn set_tos(socket: impl AsFd, peer: std::net::IpAddr, tos: u8) -> Result<(), Error> {
    let (fd, value) = (socket.as_fd(), i32::from(tos));
    match peer {
        std::net::IpAddr::V4(_) => setsockopt(&fd, sockopt::Ipv4Tos, &value),
        std::net::IpAddr::V6(_) => setsockopt(&fd, sockopt::Ipv6TClass, &value),
    }
    .context(|| format!("set a TOS of {tos}"))
}

/// The kernel's `struct tcp_info` of a connection (tcp(7), `TCP_INFO`).
pub(crate) struct TcpInfo([u8; 256], usize);

impl TcpInfo {
    /// The 32 bits at an offset; 0 if this kernel's struct ends before.
    pub(crate) fn word(&self, at: usize) -> u32 {
        match self.0.get(at..at + 4) {
            Some(&[a, b, c, d]) if self.1 >= at + 4 => u32::from_ne_bytes([a, b, c, d]),
            _ => 0,
        }
    }

    /// `tcpi_state`, of net/tcp_states.h.
    pub(crate) const fn state(&self) -> u8 {
        self.0[0]
    }
}

pub(crate) fn tcp_info(socket: &impl AsRawFd) -> Result<TcpInfo, Errno> {
    let mut info = [0u8; 256];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `info` and says how many.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    Errno::result(answer)?;
    Ok(TcpInfo(info, len as usize))
}
