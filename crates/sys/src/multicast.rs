//! Datagrams to whoever listens on one link, and from there alone.
//!
//! Principles: bound to the device and to the group, so that only what was sent to the group on this link comes; sent
//! with the largest TTL, and heard only with that: who is further away cannot make it (RFC 5082). Non-goals: IPv6, groups
//! that routers forward, what is in the datagrams.

use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrIn, bind, recvmsg,
    sendto, setsockopt, socket, sockopt,
};

use crate::error::{Context, Error};
use crate::packet_options::{DeviceName, set_bytes, set_int};

/// The only TTL that nobody further away can send.
const FARTHEST: u8 = 255;
/// Of linux/in.h.
const IP_MULTICAST_ALL: libc::c_int = 49;

/// A socket for a group on one link.
#[derive(Debug)]
pub struct LinkGroup {
    socket: OwnedFd,
    group: SocketAddrV4,
}

impl LinkGroup {
    /// Joins `group` on `device`, which has this number; what is sent has this TOS.
    pub fn join(device: &str, index: u32, group: SocketAddrV4, tos: u8) -> Result<Self, Error> {
        let what = || format!("join {group} on {device}");
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Inet, SockType::Datagram, flags, None).context(what)?;
        DeviceName::new(device)?.bind(&fd)?;
        setsockopt(&fd, sockopt::ReuseAddr, &true).context(what)?;
        setsockopt(&fd, sockopt::Ipv4RecvTtl, &true).context(what)?;
        let ip = libc::IPPROTO_IP;
        for (name, value) in [
            (libc::IP_MULTICAST_TTL, libc::c_int::from(FARTHEST)),
            (libc::IP_MULTICAST_LOOP, 0),
            (libc::IP_TOS, libc::c_int::from(tos)),
            (IP_MULTICAST_ALL, 0),
        ] {
            set_int(&fd, ip, name, value).context(what)?;
        }
        // `struct ip_mreqn`: group, no address of ours, the device.
        let mut request = group.ip().octets().to_vec();
        request.extend([0; 4]);
        request.extend((index as libc::c_int).to_ne_bytes());
        set_bytes(&fd, ip, libc::IP_ADD_MEMBERSHIP, &request).context(what)?;
        set_bytes(&fd, ip, libc::IP_MULTICAST_IF, &request).context(what)?;
        bind(fd.as_raw_fd(), &SockaddrIn::from(group)).context(what)?;
        Ok(LinkGroup { socket: fd, group })
    }

    /// Sends to all.
    pub fn send(&self, data: &[u8]) -> Result<(), Error> {
        let to = SockaddrIn::from(self.group);
        let sent = sendto(self.socket.as_raw_fd(), data, &to, MsgFlags::empty());
        sent.map(|_| ())
            .context(|| format!("send to {}", self.group))
    }

    /// The next datagram of a host on the link: bytes put into the buffer, and from whom; `None`: there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<(usize, IpAddr)>, Error> {
        loop {
            let mut control = nix::cmsg_space!(libc::c_int);
            let mut parts = [IoSliceMut::new(buffer)];
            let m = match recvmsg::<SockaddrIn>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                MsgFlags::empty(),
            ) {
                Ok(m) => m,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(e) => return Err(Error::new(format!("hear {}", self.group), e)),
            };
            let is_near =
                m.cmsgs().into_iter().flatten().any(
                    |c| matches!(c, ControlMessageOwned::Ipv4Ttl(ttl) if ttl == FARTHEST.into()),
                );
            let from = m.address.map(|a| a.ip());
            if let Some(from) = from.filter(|_| is_near) {
                return Ok(Some((m.bytes, from.into())));
            }
        }
    }
}
