//! `struct ifreq` and the calls that take one: names of devices with a value behind.
//!
//! Non-goal: whatever netlink does better (links, addresses, routes).

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::error::{Context, Error};

/// A `struct ifreq` with a name and an otherwise zero value.
pub(crate) struct Ifreq(libc::ifreq);

impl Ifreq {
    /// EINVAL unless `name` has 1 to 15 bytes.
    pub(crate) fn named(name: &str) -> Result<Self, Errno> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['/', '\0']) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: all-zero bytes are a valid `ifreq` (a plain C struct of integers, unions of
        // integers and a pointer that may be null).
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Ifreq(request))
    }

    pub(crate) fn set_short(&mut self, value: i16) {
        self.0.ifr_ifru.ifru_flags = value;
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::ifreq {
        &raw mut self.0
    }
}

/// An offload that can be switched on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// TCP segmentation by the device.
    Tso,
    /// Segmentation late in the kernel.
    Gso,
    /// Joining received packets.
    Gro,
}

/// Of linux/sockios.h.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

impl Offload {
    /// (`ETHTOOL_G…`, `ETHTOOL_S…`) of linux/ethtool.h.
    const fn commands(self) -> (u32, u32) {
        match self {
            Offload::Tso => (0x1e, 0x1f),
            Offload::Gso => (0x23, 0x24),
            Offload::Gro => (0x2b, 0x2c),
        }
    }
}

/// Switches an offload of `device` in the calling thread's namespace.
pub fn set_offload(device: &str, offload: Offload, on: bool) -> Result<(), Error> {
    ethtool(device, offload.commands().1, u32::from(on))
        .map(|_| ())
        .context(|| format!("set {offload:?} of {device}"))
}

/// Whether an offload of `device` is on.
pub fn offload(device: &str, offload: Offload) -> Result<bool, Error> {
    ethtool(device, offload.commands().0, 0)
        .map(|v| v != 0)
        .context(|| format!("ask for {offload:?} of {device}"))
}

/// Switches `device` of the calling thread's namespace on.
pub fn set_up(device: &str) -> Result<(), Error> {
    set_flags(device, libc::IFF_UP as i16).context(|| format!("switch {device} on"))
}

fn set_flags(device: &str, flags: i16) -> Result<(), Errno> {
    let fd = control_socket()?;
    let mut request = Ifreq::named(device)?;
    request.set_short(flags);
    // SAFETY: SIOCSIFFLAGS reads the `ifreq`, which lives until the call returns.
    let answer = unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            request.as_mut_ptr(),
        )
    };
    Errno::result(answer).map(|_| ())
}

fn control_socket() -> Result<OwnedFd, Errno> {
    socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
}

fn ethtool(device: &str, cmd: u32, data: u32) -> Result<u32, Errno> {
    let fd = control_socket()?;
    let mut value = EthtoolValue { cmd, data };
    let mut request = Ifreq::named(device)?;
    request.0.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: SIOCETHTOOL reads the `ifreq` and reads and writes the `ethtool_value` behind it;
    // both live until the call returns and no pointer is kept.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL as _, request.as_mut_ptr()) };
    Errno::result(answer).map(|_| value.data)
}
