//! Datagram sockets on which the kernel stamps every packet, on its way out and in.
//!
//! Principles: the stamp of the kernel, not the time at which a thread woke up; wall clock,
//! because that is what the kernel stamps with. `Sched` is taken before our own queueing
//! discipline, `Driver` behind it (linux/net_tstamp.h, `OPT_ID` counts datagrams per socket).
//! Non-goals: hardware stamps, raw sockets.

use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType,
    SockaddrStorage, TimestampingFlag, bind, connect, recvmsg, send, sendto, setsockopt, socket,
    sockopt,
};

use crate::error::{Context, Error};

/// `SOF_TIMESTAMPING_TX_SCHED` of linux/net_tstamp.h, which nix does not name.
const TX_SCHED: u32 = 1 << 8;
/// `SO_EE_ORIGIN_TIMESTAMPING` of linux/errqueue.h.
const ORIGIN_TIMESTAMPING: u8 = 4;
/// `SCM_TSTAMP_SND` and `SCM_TSTAMP_SCHED` of linux/errqueue.h.
const STAMP_DRIVER: u32 = 0;
const STAMP_SCHED: u32 = 1;

/// What an ICMP error becomes (`icmp_err_convert` of net/ipv4/icmp.c, `tab_unreach` of
/// net/ipv6/icmp.c).
const ICMP_ERRORS: [Errno; 10] = [
    Errno::ENETUNREACH,
    Errno::EHOSTUNREACH,
    Errno::ENOPROTOOPT,
    Errno::ECONNREFUSED,
    Errno::EMSGSIZE,
    Errno::EOPNOTSUPP,
    Errno::EHOSTDOWN,
    Errno::ENONET,
    Errno::EPROTO,
    Errno::EACCES,
];

/// A datagram socket with stamps.
#[derive(Debug)]
pub struct StampedSocket(OwnedFd);

/// A datagram that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes put into the buffer.
    pub len: usize,
    /// Who sent it.
    pub from: Option<SocketAddr>,
    /// When the kernel received it, wall clock. Absent on the first packets of a machine that
    /// has only now switched stamping on.
    pub at: Option<Duration>,
}

/// Where on the way out a stamp was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before the queueing discipline of the first device.
    Sched,
    /// In that device's driver.
    Driver,
}

/// Something in the error queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// Datagram `id` (counted from 0 on this socket) passed `stage`.
    Sent {
        /// Which datagram.
        id: u32,
        /// Where.
        stage: Stage,
        /// When, wall clock.
        at: Duration,
    },
    /// An ICMP error or a local one.
    Error(Errno),
    /// Something else.
    Other,
}

impl StampedSocket {
    /// A UDP socket on `local`.
    pub fn udp(local: SocketAddr) -> Result<Self, Error> {
        let this = Self::open(local.ip(), None, &format!("UDP {local}"))?;
        bind(this.0.as_raw_fd(), &SockaddrStorage::from(local))
            .context(|| format!("bind UDP {local}"))?;
        Ok(this)
    }

    /// An ICMP echo socket for addresses of `peer`'s family. It needs no rights, only a group in
    /// `net.ipv4.ping_group_range`. The kernel fills in the identifier and drops what is not ours.
    pub fn echo(peer: IpAddr) -> Result<Self, Error> {
        let protocol = match peer {
            IpAddr::V4(_) => SockProtocol::Icmp,
            IpAddr::V6(_) => SockProtocol::IcmpV6,
        };
        let name = "ICMP echo (see net.ipv4.ping_group_range)";
        Self::open(peer, Some(protocol), name)
    }

    fn open(of: IpAddr, protocol: Option<SockProtocol>, name: &str) -> Result<Self, Error> {
        let what = || format!("open a socket for {name}");
        let family = match of {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(family, SockType::Datagram, flags, protocol).context(what)?;
        match of {
            IpAddr::V4(_) => setsockopt(&fd, sockopt::Ipv4RecvErr, &true),
            IpAddr::V6(_) => setsockopt(&fd, sockopt::Ipv6RecvErr, &true),
        }
        .context(what)?;
        let stamps = TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY
            | TimestampingFlag::from_bits_retain(TX_SCHED);
        setsockopt(&fd, sockopt::Timestamping, &stamps)
            .context(|| format!("ask for time stamps on {name}"))?;
        // The error queue counts against the receive buffer. More than rmem_max is not given.
        let _ = setsockopt(&fd, sockopt::RcvBuf, &(1 << 20));
        Ok(StampedSocket(fd))
    }

    /// Sets the only peer. Errors about it come back through [`Self::notice`].
    pub fn connect(&self, peer: SocketAddr) -> Result<(), Error> {
        connect(self.0.as_raw_fd(), &SockaddrStorage::from(peer))
            .context(|| format!("connect to {peer}"))
    }

    /// Sends to the connected peer.
    pub fn send(&self, data: &[u8]) -> Result<(), Errno> {
        send(self.0.as_raw_fd(), data, MsgFlags::empty()).map(|_| ())
    }

    /// Sends to `peer`.
    pub fn send_to(&self, data: &[u8], peer: SocketAddr) -> Result<(), Errno> {
        let to = SockaddrStorage::from(peer);
        sendto(self.0.as_raw_fd(), data, &to, MsgFlags::empty()).map(|_| ())
    }

    /// The next datagram; `None` if there is none. Pending errors are skipped.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Received>, Error> {
        let mut control = nix::cmsg_space!([libc::timespec; 3]);
        let mut parts = [IoSliceMut::new(buffer)];
        match recvmsg::<SockaddrStorage>(
            self.0.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::empty(),
        ) {
            Ok(m) => Ok(Some(Received {
                len: m.bytes,
                from: m.address.as_ref().and_then(address),
                at: m.cmsgs().ok().and_then(|mut c| c.find_map(|c| stamp(&c))),
            })),
            // An ICMP error about something sent earlier; its notice stands in the error queue.
            Err(e) if e == Errno::EAGAIN || ICMP_ERRORS.contains(&e) => Ok(None),
            Err(e) => Err(Error::new("receive a datagram", e)),
        }
    }

    /// The next entry of the error queue; `None` if it is empty.
    pub fn notice(&self) -> Result<Option<Notice>, Error> {
        let mut control = nix::cmsg_space!(
            [libc::timespec; 3],
            libc::sock_extended_err,
            libc::sockaddr_in6
        );
        let mut payload = [0; 64];
        let mut parts = [IoSliceMut::new(&mut payload)];
        let m = match recvmsg::<SockaddrStorage>(
            self.0.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::MSG_ERRQUEUE,
        ) {
            Ok(m) => m,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(e) => return Err(Error::new("read the error queue", e)),
        };
        let (mut at, mut error) = (None, None);
        for c in m.cmsgs().into_iter().flatten() {
            match c {
                ControlMessageOwned::Ipv4RecvErr(e, _) | ControlMessageOwned::Ipv6RecvErr(e, _) => {
                    error = Some(e);
                }
                other => at = at.or(stamp(&other)),
            }
        }
        Ok(Some(match (error, at) {
            (Some(e), Some(at)) if e.ee_origin == ORIGIN_TIMESTAMPING => match e.ee_info {
                STAMP_SCHED | STAMP_DRIVER => Notice::Sent {
                    id: e.ee_data,
                    stage: if e.ee_info == STAMP_SCHED {
                        Stage::Sched
                    } else {
                        Stage::Driver
                    },
                    at,
                },
                _ => Notice::Other,
            },
            (Some(e), _) if e.ee_origin != ORIGIN_TIMESTAMPING => {
                Notice::Error(Errno::from_raw(e.ee_errno as i32))
            }
            _ => Notice::Other,
        }))
    }
}

impl AsFd for StampedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The software stamp of a control message, if it carries one.
fn stamp(message: &ControlMessageOwned) -> Option<Duration> {
    match message {
        ControlMessageOwned::ScmTimestampsns(t) => {
            let at = Duration::from(t.system);
            (!at.is_zero()).then_some(at)
        }
        _ => None,
    }
}

fn address(a: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = a.as_sockaddr_in().map(|v| SocketAddrV4::from(*v).into());
    v4.or_else(|| a.as_sockaddr_in6().map(|v| SocketAddrV6::from(*v).into()))
}
