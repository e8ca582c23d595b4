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

/// The hardware address of an Ethernet `device`, in the calling thread's namespace.
pub fn hardware_address(device: &str) -> Result<[u8; 6], Error> {
    let what = || format!("ask for the hardware address of {device}");
    let asks = control_socket().context(what)?;
    let mut request = Ifreq::named(device).context(what)?;
    // SAFETY: SIOCGIFHWADDR reads and writes one `struct ifreq`, which `request` is, and keeps no pointer to it.
    let answer = unsafe {
        let get = libc::SIOCGIFHWADDR as _;
        libc::ioctl(asks.as_raw_fd(), get, request.as_mut_ptr())
    };
    Errno::result(answer).context(what)?;
    // SAFETY: the call has filled in this member of the union, whose bytes are all integers.
    let address = unsafe { request.0.ifr_ifru.ifru_hwaddr };
    if address.sa_family != libc::ARPHRD_ETHER {
        return Err(Error::new(what(), Errno::EAFNOSUPPORT));
    }
    let mut found = [0; 6];
    for (to, from) in found.iter_mut().zip(address.sa_data) {
        *to = from as u8;
    }
    Ok(found)
}

/// Whether an offload of `device` is on.
pub fn offload(device: &str, offload: Offload) -> Result<bool, Error> {
    ethtool(device, offload.commands().0, 0)
        .map(|v| v != 0)
        .context(|| format!("ask for {offload:?} of {device}"))
}

/// Whether a feature of `device` is on, by the name that ethtool(8) has for it; `None` if this kernel or this device has
/// no such feature.
pub fn feature(device: &str, name: &str) -> Result<Option<bool>, Error> {
    /// Of linux/ethtool.h.
    const GSTRINGS: u32 = 0x1b;
    const GSSET_INFO: u32 = 0x37;
    const GFEATURES: u32 = 0x3a;
    const FEATURES: u32 = 4;
    const NAME: usize = 32;
    let asked = || format!("ask for {name} of {device}");
    // `ethtool_sset_info`: command, reserved, mask of sets (u64), a count for each.
    let mut info = vec![GSSET_INFO, 0, 0, 0, 0];
    info[2..4].copy_from_slice(&halves(1 << FEATURES));
    let info = ethtool_words(device, info).context(asked)?;
    let count = info[4] as usize;
    // `ethtool_gstrings`: command, set, length, names of 32 bytes.
    let mut names = vec![GSTRINGS, FEATURES, count as u32];
    names.resize(3 + count * NAME / 4, 0);
    let names = ethtool_words(device, names).context(asked)?;
    let bytes: Vec<u8> = names[3..].iter().flat_map(|w| w.to_ne_bytes()).collect();
    let is = |n: &[u8]| n.split(|b| *b == 0).next() == Some(name.as_bytes());
    let Some(at) = bytes.chunks(NAME).position(is) else {
        return Ok(None);
    };
    // `ethtool_gfeatures`: command, blocks; a block of 32 features: available, requested, active, never changed.
    let blocks = count.div_ceil(32);
    let mut active = vec![GFEATURES, blocks as u32];
    active.resize(2 + blocks * 4, 0);
    let active = ethtool_words(device, active).context(asked)?;
    Ok(Some(active[2 + at / 32 * 4 + 2] >> (at % 32) & 1 != 0))
}

/// A number of 64 bits as two words in the order of memory.
fn halves(n: u64) -> [u32; 2] {
    let b = n.to_ne_bytes();
    [
        u32::from_ne_bytes([b[0], b[1], b[2], b[3]]),
        u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
    ]
}

/// Hands a structure of words to ethtool's call, which answers in its place.
fn ethtool_words(device: &str, mut words: Vec<u32>) -> Result<Vec<u32>, Errno> {
    let fd = control_socket()?;
    let mut request = Ifreq::named(device)?;
    request.0.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: SIOCETHTOOL reads the `ifreq` and reads and writes the structure behind it, as many entries as its own
    // head says, for which the callers have made room; both live until the call returns and no pointer is kept.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL as _, request.as_mut_ptr()) };
    Errno::result(answer).map(|_| words)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_have_names() {
        // The loopback device is one that returns what is sent, and has no hardware.
        for (name, on) in [
            ("loopback", Some(true)),
            ("hw-tc-offload", Some(false)),
            ("no such feature", None),
        ] {
            assert_eq!(feature("lo", name).unwrap(), on, "{name}");
        }
        assert!(feature("there is none", "loopback").is_err());
    }
}
