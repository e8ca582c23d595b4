//! TUN and TAP devices: one packet for each read and write.
//!
//! Principles: no packet information header, never blocking; the device lives in the namespace
//! of the thread that opens it and goes away with the handle. Non-goals: multiple queues,
//! offloads (without them the kernel hands over packets of at most the MTU, checksums done).

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;

use crate::error::{Context, Error};
use crate::ifreq::Ifreq;

/// `_IOW('T', 202, int)` of linux/if_tun.h.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// Which layer the device carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunKind {
    /// IP packets, no link header.
    Tun,
    /// Ethernet frames.
    Tap,
}

impl TunKind {
    /// Bytes in front of the IP packet in what is read and written.
    pub const fn header_len(self) -> usize {
        match self {
            TunKind::Tun => 0,
            TunKind::Tap => 14,
        }
    }
}

/// An open device.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// Makes device `name` in the calling thread's namespace.
    pub fn open(name: &str, kind: TunKind) -> Result<Self, Error> {
        let what = || format!("make {kind:?} device {name}");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .context(|| format!("{} (open /dev/net/tun)", what()))?;
        let flags = match kind {
            TunKind::Tun => libc::IFF_TUN,
            TunKind::Tap => libc::IFF_TAP,
        } | libc::IFF_NO_PI;
        let mut request = Ifreq::named(name).context(what)?;
        request.set_short(flags as i16);
        // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which `request` is, and keeps
        // no pointer to it.
        let answer = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, request.as_mut_ptr()) };
        Errno::result(answer).context(what)?;
        Ok(Tun {
            file,
            name: name.to_owned(),
        })
    }

    /// The next packet that the kernel sends through the device; `None` if there is none.
    pub fn read(&self, buffer: &mut [u8]) -> Result<Option<usize>, Error> {
        match (&self.file).read(buffer) {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(Error::io(format!("read from {}", self.name), &e)),
        }
    }

    /// Hands a packet to the kernel as received. `false`: the device is down or full.
    pub fn write(&self, packet: &[u8]) -> Result<bool, Error> {
        match nix::unistd::write(&self.file, packet) {
            Ok(_) => Ok(true),
            Err(Errno::EIO | Errno::EAGAIN | Errno::ENOBUFS | Errno::EINVAL) => Ok(false),
            Err(e) => Err(Error::new(format!("write to {}", self.name), e)),
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
