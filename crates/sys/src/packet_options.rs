//! What the header of every packet of a socket says: hops, TOS, don't fragment; and which device
//! it leaves by.
//!
//! Principles: one call for IPv4 and IPv6; only what differs from the kernel's own choice is
//! set. Non-goals: options per packet.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

use crate::error::{Context, Error};

/// Of linux/in.h and linux/in6.h: send what is asked, whatever the path's MTU is thought to be.
const PMTUDISC_DONT: libc::c_int = 0;
const PMTUDISC_PROBE: libc::c_int = 3;

/// The name of a device, as the kernel takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceName([u8; libc::IFNAMSIZ]);

impl DeviceName {
    /// EINVAL unless it has 1 to 15 bytes.
    pub fn new(name: &str) -> Result<Self, Error> {
        let mut bytes = [0; libc::IFNAMSIZ];
        match bytes.get_mut(..name.len()) {
            Some(room) if !name.is_empty() && name.len() < libc::IFNAMSIZ => {
                room.copy_from_slice(name.as_bytes());
                Ok(DeviceName(bytes))
            }
            _ => Err(Error::new(format!("name a device {name:?}"), Errno::EINVAL)),
        }
    }

    /// From now on `socket` sends by this device only, whatever the routes prefer, and hears only
    /// what comes by it.
    pub fn bind(&self, socket: impl AsFd) -> Result<(), Error> {
        set_bytes(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &self.0).context(|| {
            let name = String::from_utf8_lossy(&self.0);
            format!("bind a socket to {}", name.trim_end_matches('\0'))
        })
    }
}

/// Fields of the IP header, and the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketOptions {
    /// TTL or hop limit, 1..=255; the kernel's own choice if absent.
    pub hops: Option<u8>,
    /// TOS or traffic class: DSCP in the upper six bits.
    pub tos: u8,
    /// Never fragment, neither here nor on the way.
    pub dont_fragment: bool,
    /// Which device packets leave and answers come by; the routes' choice if absent.
    pub device: Option<DeviceName>,
}

impl PacketOptions {
    /// Sets them on a socket that sends to addresses of `peer`'s family.
    pub fn apply(&self, socket: impl AsFd, peer: IpAddr) -> Result<(), Error> {
        let v6 = peer.is_ipv6();
        if let Some(device) = self.device {
            device.bind(&socket)?;
        }
        if let Some(hops) = self.hops {
            set_hops(&socket, peer, hops)?;
        }
        if self.tos != 0 {
            let (level, name) = if v6 {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            } else {
                (libc::IPPROTO_IP, libc::IP_TOS)
            };
            set_int(&socket, level, name, self.tos.into())
                .context(|| format!("set a TOS of {}", self.tos))?;
        }
        let (level, name) = if v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)
        } else {
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)
        };
        let discover = if self.dont_fragment {
            PMTUDISC_PROBE
        } else {
            PMTUDISC_DONT
        };
        set_int(&socket, level, name, discover)
            .context(|| "choose whether packets may be fragmented".to_owned())
    }
}

/// Sets the TTL or hop limit of what is sent from now on.
pub fn set_hops(socket: impl AsFd, peer: IpAddr, hops: u8) -> Result<(), Error> {
    let (level, name) = if peer.is_ipv6() {
        (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS)
    } else {
        (libc::IPPROTO_IP, libc::IP_TTL)
    };
    set_int(socket, level, name, hops.into()).context(|| format!("set a TTL of {hops}"))
}

/// Sets a socket option that is an integer.
pub(crate) fn set_int(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> Result<(), Errno> {
    set_bytes(socket, level, name, &value.to_ne_bytes())
}

/// Sets a socket option.
pub(crate) fn set_bytes(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &[u8],
) -> Result<(), Errno> {
    // SAFETY: the kernel reads `value.len()` bytes from `value`, which lives until the call
    // returns, and keeps no pointer to it.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    Errno::result(answer).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_device_may_have() {
        for good in ["a", "fifteen-letters"] {
            assert!(DeviceName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "sixteen-letters-", "many more letters than that"] {
            let e = DeviceName::new(bad).unwrap_err();
            assert!(e.to_string().contains(&format!("{bad:?}")), "{e}");
        }
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let e = DeviceName::new("no-such").unwrap().bind(&socket);
        let e = e.unwrap_err().to_string();
        assert!(e.starts_with("bind a socket to no-such: "), "{e}");
    }
}
