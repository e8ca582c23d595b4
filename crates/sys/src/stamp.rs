//! Datagram sockets on which the kernel stamps every packet, on its way out and in.
//!
//! Principles: the stamp of the kernel, not the time at which a thread woke up; wall clock,
//! because that is what the kernel stamps with. `Sched` is taken before our own queueing
//! discipline, `Driver` behind it (linux/net_tstamp.h, `OPT_ID` counts datagrams per socket).
//! Non-goals: hardware stamps, raw sockets other than those of ICMP and of whole packets.

use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType,
    SockaddrStorage, TimestampingFlag, bind, connect, getsockname, recvmsg, send, sendto,
    setsockopt, socket, sockopt,
};

use crate::error::{Context, Error};
use crate::packet_options::{PacketOptions, set_bytes, set_hops};

/// `SOF_TIMESTAMPING_TX_SCHED` of linux/net_tstamp.h, which nix does not name.
const TX_SCHED: u32 = 1 << 8;
/// `SO_EE_ORIGIN_…` of linux/errqueue.h.
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;
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
    /// Hops that it could still have gone, if [`StampedSocket::tell_hops`] asked for it.
    pub hops: Option<u8>,
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
    /// An ICMP error about something that was sent.
    Icmp {
        /// ICMPv6 rather than ICMP.
        v6: bool,
        /// ICMP type.
        kind: u8,
        /// ICMP code.
        code: u8,
        /// Who sent it.
        from: Option<IpAddr>,
        /// When the kernel received it, wall clock.
        at: Option<Duration>,
        /// Bytes put into the buffer: what is quoted, of UDP and TCP from behind the header on,
        /// of ICMP from the header on.
        quoted: usize,
    },
    /// An error of this machine.
    Local(Errno),
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

    /// A UDP socket on `local` that stamps what it receives and not what it sends, for many packets at once. It
    /// has room for those, if the kernel lets us.
    pub fn udp_arrivals(local: SocketAddr) -> Result<Self, Error> {
        let this = Self::udp(local)?;
        let what = || format!("ask for time stamps on UDP {local}");
        setsockopt(&this.0, sockopt::Timestamping, &RECEIVED).context(what)?;
        // Beyond rmem_max it needs CAP_NET_ADMIN.
        let _ = setsockopt(&this.0, sockopt::RcvBufForce, &(16 << 20));
        Ok(this)
    }

    /// An ICMP echo socket for addresses of `peer`'s family. It needs no rights, only a group in
    /// `net.ipv4.ping_group_range`. The kernel fills in the identifier and drops what is not ours.
    pub fn echo(peer: IpAddr) -> Result<Self, Error> {
        let name = "ICMP echo (see net.ipv4.ping_group_range)";
        Self::open(peer, Some(icmp(peer)), name)
    }

    /// A raw ICMP socket for addresses of `peer`'s family that hears only messages of the types
    /// `hears`. It needs `CAP_NET_RAW`; an IPv4 one delivers packets with their IP header.
    pub fn raw_icmp(peer: IpAddr, hears: &[u8]) -> Result<Self, Error> {
        /// `SOL_RAW` and `ICMP_FILTER` of linux/icmp.h, `ICMPV6_FILTER` of linux/icmpv6.h.
        const SOL_RAW: libc::c_int = 255;
        const FILTER: libc::c_int = 1;
        let this = Self::open_type(peer, SockType::Raw, Some(icmp(peer)), "raw ICMP")?;
        // A set bit keeps a type out, in both forms.
        let mut out = [u32::MAX; 8];
        for kind in hears {
            out[usize::from(kind >> 5)] &= !(1 << (kind & 31));
        }
        let bytes: Vec<u8> = out.iter().flat_map(|w| w.to_ne_bytes()).collect();
        match peer {
            IpAddr::V4(_) => set_bytes(&this.0, SOL_RAW, FILTER, &bytes[..4]),
            IpAddr::V6(_) => set_bytes(&this.0, libc::IPPROTO_ICMPV6, FILTER, &bytes),
        }
        .context(|| "filter a raw ICMP socket".to_owned())?;
        Ok(this)
    }

    /// Hears every IP packet of the calling thread's namespace on its way in and out, from the IP
    /// header on. It needs `CAP_NET_RAW`.
    pub fn packets() -> Result<Self, Error> {
        let what = || "open a packet socket".to_owned();
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let all = Some(SockProtocol::EthAll);
        let fd = socket(AddressFamily::Packet, SockType::Datagram, flags, all).context(what)?;
        setsockopt(&fd, sockopt::Timestamping, &RECEIVED).context(what)?;
        let _ = setsockopt(&fd, sockopt::RcvBuf, &(1 << 20));
        Ok(StampedSocket(fd))
    }

    /// Sets fields of the IP header of what is sent to addresses of `peer`'s family.
    pub fn set_options(&self, peer: IpAddr, options: &PacketOptions) -> Result<(), Error> {
        options.apply(&self.0, peer)
    }

    /// Sets the TTL or hop limit of what is sent from now on.
    pub fn set_hops(&self, peer: IpAddr, hops: u8) -> Result<(), Error> {
        set_hops(&self.0, peer, hops)
    }

    /// From now on received datagrams come with the hops that they could still have gone.
    pub fn tell_hops(&self, peer: IpAddr) -> Result<(), Error> {
        match peer {
            IpAddr::V4(_) => setsockopt(&self.0, sockopt::Ipv4RecvTtl, &true),
            IpAddr::V6(_) => setsockopt(&self.0, sockopt::Ipv6RecvHopLimit, &true),
        }
        .context(|| "ask for the TTL of what is received".to_owned())
    }

    fn open(of: IpAddr, protocol: Option<SockProtocol>, name: &str) -> Result<Self, Error> {
        Self::open_type(of, SockType::Datagram, protocol, name)
    }

    fn open_type(
        of: IpAddr,
        kind: SockType,
        protocol: Option<SockProtocol>,
        name: &str,
    ) -> Result<Self, Error> {
        let what = || format!("open a socket for {name}");
        let family = match of {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(family, kind, flags, protocol).context(what)?;
        prepare(&fd, of).context(|| format!("ask for time stamps on {name}"))?;
        // The error queue counts against the receive buffer. More than rmem_max is not given.
        let _ = setsockopt(&fd, sockopt::RcvBuf, &(1 << 20));
        Ok(StampedSocket(fd))
    }

    /// Sets the only peer. Errors about it come back through [`Self::notice`].
    pub fn connect(&self, peer: SocketAddr) -> Result<(), Error> {
        connect(self.0.as_raw_fd(), &SockaddrStorage::from(peer))
            .context(|| format!("connect to {peer}"))
    }

    /// The port it sends from; of an ICMP echo socket the identifier of its messages.
    pub fn local_port(&self) -> Result<u16, Error> {
        local_port(&self.0).context(|| "ask a socket for its port".to_owned())
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
        let mut control = nix::cmsg_space!([libc::timespec; 3], libc::c_int);
        let mut parts = [IoSliceMut::new(buffer)];
        match recvmsg::<SockaddrStorage>(
            self.0.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::empty(),
        ) {
            Ok(m) => {
                let (mut at, mut hops) = (None, None);
                for c in m.cmsgs().into_iter().flatten() {
                    match c {
                        ControlMessageOwned::Ipv4Ttl(n) | ControlMessageOwned::Ipv6HopLimit(n) => {
                            hops = u8::try_from(n).ok();
                        }
                        other => at = at.or(stamp(&other)),
                    }
                }
                Ok(Some(Received {
                    len: m.bytes,
                    from: m.address.as_ref().and_then(address),
                    at,
                    hops,
                }))
            }
            // An ICMP error about something sent earlier; its notice stands in the error queue.
            Err(e) if e == Errno::EAGAIN || ICMP_ERRORS.contains(&e) => Ok(None),
            Err(e) => Err(Error::new("receive a datagram", e)),
        }
    }

    /// The next entry of the error queue; `None` if it is empty.
    pub fn notice(&self) -> Result<Option<Notice>, Error> {
        notice(&self.0, &mut [0; 64])
    }

    /// The same, with what an ICMP error quotes put into `quoted`.
    pub fn notice_into(&self, quoted: &mut [u8]) -> Result<Option<Notice>, Error> {
        notice(&self.0, quoted)
    }
}

fn icmp(peer: IpAddr) -> SockProtocol {
    match peer {
        IpAddr::V4(_) => SockProtocol::Icmp,
        IpAddr::V6(_) => SockProtocol::IcmpV6,
    }
}

/// Asks for an error queue and for stamps of everything that is sent and received.
fn prepare(fd: &OwnedFd, of: IpAddr) -> Result<(), Errno> {
    prepare_errors(fd, of)?;
    let stamps = RECEIVED
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY
        | TimestampingFlag::from_bits_retain(TX_SCHED);
    setsockopt(fd, sockopt::Timestamping, &stamps)
}

const RECEIVED: TimestampingFlag = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
    .union(TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE);

/// Asks for an error queue with stamped errors.
pub(crate) fn prepare_errors(fd: &OwnedFd, of: IpAddr) -> Result<(), Errno> {
    match of {
        IpAddr::V4(_) => setsockopt(fd, sockopt::Ipv4RecvErr, &true),
        IpAddr::V6(_) => setsockopt(fd, sockopt::Ipv6RecvErr, &true),
    }?;
    setsockopt(fd, sockopt::Timestamping, &RECEIVED)
}

/// The next entry of a socket's error queue.
pub(crate) fn notice(fd: &OwnedFd, quoted: &mut [u8]) -> Result<Option<Notice>, Error> {
    let mut control = nix::cmsg_space!(
        [libc::timespec; 3],
        libc::sock_extended_err,
        libc::sockaddr_in6,
        libc::c_int
    );
    let mut parts = [IoSliceMut::new(quoted)];
    let m = match recvmsg::<SockaddrStorage>(
        fd.as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::MSG_ERRQUEUE,
    ) {
        Ok(m) => m,
        Err(Errno::EAGAIN) => return Ok(None),
        Err(e) => return Err(Error::new("read the error queue", e)),
    };
    let (mut at, mut error, mut from) = (None, None, None);
    for c in m.cmsgs().into_iter().flatten() {
        match c {
            ControlMessageOwned::Ipv4RecvErr(e, offender) => {
                error = Some(e);
                from =
                    offender.map(|o| IpAddr::from(u32::from_be(o.sin_addr.s_addr).to_be_bytes()));
            }
            ControlMessageOwned::Ipv6RecvErr(e, offender) => {
                error = Some(e);
                from = offender.map(|o| IpAddr::from(o.sin6_addr.s6_addr));
            }
            other => at = at.or(stamp(&other)),
        }
    }
    let stage = |info| match info {
        STAMP_SCHED => Some(Stage::Sched),
        STAMP_DRIVER => Some(Stage::Driver),
        _ => None,
    };
    Ok(Some(match error {
        Some(e) if e.ee_origin == ORIGIN_TIMESTAMPING => match (stage(e.ee_info), at) {
            (Some(stage), Some(at)) => Notice::Sent {
                id: e.ee_data,
                stage,
                at,
            },
            _ => Notice::Other,
        },
        Some(e) if matches!(e.ee_origin, ORIGIN_ICMP | ORIGIN_ICMP6) => Notice::Icmp {
            v6: e.ee_origin == ORIGIN_ICMP6,
            kind: e.ee_type,
            code: e.ee_code,
            from,
            at,
            quoted: m.bytes,
        },
        Some(e) => Notice::Local(Errno::from_raw(e.ee_errno as i32)),
        None => Notice::Other,
    }))
}

impl AsFd for StampedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The port that a socket is bound to.
pub(crate) fn local_port(fd: &OwnedFd) -> Result<u16, Errno> {
    let name = getsockname::<SockaddrStorage>(fd.as_raw_fd())?;
    Ok(address(&name).map_or(0, |a| a.port()))
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
