//! Datagrams to whoever listens on one link, and from there alone.
//!
//! Principles: bound to the device and to the group, so that only what was sent to the group on this link comes; sent
//! with the largest TTL or hop limit, and heard only with that: who is further away cannot make it (RFC 5082). Non-goals:
//! groups that routers forward, what is in the datagrams.

use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage, bind,
    recvmsg, sendto, setsockopt, socket, sockopt,
};

use crate::error::{Context, Error};
use crate::packet_options::{DeviceName, set_bytes, set_int};

/// The only TTL, and hop limit, that nobody further away can send.
const FARTHEST: libc::c_int = 255;
/// Of linux/in.h.
const IP_MULTICAST_ALL: libc::c_int = 49;
/// Of linux/in6.h.
const IPV6_MULTICAST_ALL: libc::c_int = 29;

/// A socket for a group on one link.
#[derive(Debug)]
pub struct LinkGroup {
    socket: OwnedFd,
    group: SocketAddr,
    address: SockaddrStorage,
}

impl LinkGroup {
    /// Joins `group` on `device`, which has this number; what is sent has this TOS or traffic class.
    pub fn join(device: &str, index: u32, group: SocketAddr, tos: u8) -> Result<Self, Error> {
        let what = || format!("join {group} on {device}");
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let family = match group {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let fd = socket(family, SockType::Datagram, flags, None).context(what)?;
        DeviceName::new(device)?.bind(&fd)?;
        setsockopt(&fd, sockopt::ReuseAddr, &true).context(what)?;
        let address = match group.ip() {
            IpAddr::V4(ip) => {
                join_ipv4(&fd, index, ip, tos).context(what)?;
                SockaddrStorage::from(group)
            }
            IpAddr::V6(ip) => {
                join_ipv6(&fd, index, ip, tos).context(what)?;
                // A group of the link is one only together with the link.
                let scoped = std::net::SocketAddrV6::new(ip, group.port(), 0, index);
                SockaddrStorage::from(scoped)
            }
        };
        bind(fd.as_raw_fd(), &address).context(what)?;
        Ok(LinkGroup {
            socket: fd,
            group,
            address,
        })
    }

    /// Bytes of IP and UDP before each datagram (RFC 791, RFC 8200, RFC 768).
    pub fn headers(&self) -> usize {
        match self.group {
            SocketAddr::V4(_) => 20 + 8,
            SocketAddr::V6(_) => 40 + 8,
        }
    }

    /// Sends to all.
    pub fn send(&self, data: &[u8]) -> Result<(), Error> {
        let sent = sendto(
            self.socket.as_raw_fd(),
            data,
            &self.address,
            MsgFlags::empty(),
        );
        sent.map(|_| ())
            .context(|| format!("send to {}", self.group))
    }

    /// The next datagram of a host on the link: bytes put into the buffer, and from whom; `None`: there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<(usize, IpAddr)>, Error> {
        loop {
            let mut control = nix::cmsg_space!(libc::c_int);
            let mut parts = [IoSliceMut::new(buffer)];
            let m = match recvmsg::<SockaddrStorage>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                MsgFlags::empty(),
            ) {
                Ok(m) => m,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(e) => return Err(Error::new(format!("hear {}", self.group), e)),
            };
            let is_near = m.cmsgs().into_iter().flatten().any(|c| match c {
                ControlMessageOwned::Ipv4Ttl(hops) | ControlMessageOwned::Ipv6HopLimit(hops) => {
                    hops == FARTHEST
                }
                _ => false,
            });
            let from = m.address.and_then(|a| ip(&a));
            if let Some(from) = from.filter(|_| is_near) {
                return Ok(Some((m.bytes, from)));
            }
        }
    }
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|a| a.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|a| a.ip().into()))
}

fn set_all(
    fd: &OwnedFd,
    level: libc::c_int,
    options: &[(libc::c_int, libc::c_int)],
) -> Result<(), Errno> {
    let mut all = options.iter();
    all.try_for_each(|(name, value)| set_int(fd, level, *name, *value))
}

fn join_ipv4(fd: &OwnedFd, index: u32, group: Ipv4Addr, tos: u8) -> Result<(), Errno> {
    let options = [
        (libc::IP_RECVTTL, 1),
        (libc::IP_MULTICAST_TTL, FARTHEST),
        (libc::IP_MULTICAST_LOOP, 0),
        (libc::IP_TOS, tos.into()),
        (IP_MULTICAST_ALL, 0),
    ];
    set_all(fd, libc::IPPROTO_IP, &options)?;
    // `struct ip_mreqn`: group, no address of ours, the device.
    let mut request = group.octets().to_vec();
    request.extend([0; 4]);
    request.extend((index as libc::c_int).to_ne_bytes());
    set_bytes(fd, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &request)?;
    set_bytes(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
}

fn join_ipv6(fd: &OwnedFd, index: u32, group: Ipv6Addr, tos: u8) -> Result<(), Errno> {
    let options = [
        (libc::IPV6_V6ONLY, 1),
        (libc::IPV6_RECVHOPLIMIT, 1),
        (libc::IPV6_MULTICAST_HOPS, FARTHEST),
        (libc::IPV6_MULTICAST_LOOP, 0),
        (libc::IPV6_TCLASS, tos.into()),
        (libc::IPV6_MULTICAST_IF, index as libc::c_int),
        (IPV6_MULTICAST_ALL, 0),
    ];
    set_all(fd, libc::IPPROTO_IPV6, &options)?;
    // `struct ipv6_mreq`: group, the device.
    let mut request = group.octets().to_vec();
    request.extend(index.to_ne_bytes());
    set_bytes(fd, libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &request)
}
