//! A netlink socket: requests with their acknowledgements, and dumps.
//!
//! Principles: an answer belongs to what was asked last or is thrown away; the kernel's words
//! (extended ACK) are part of every error; an answer that does not come is an error, not a hang;
//! an inconsistent dump is asked for again. Non-goals: notifications, questions while others are
//! open, what the bytes mean (`evenkeel-wire`).
//!
//! A socket belongs to the network namespace of the thread that opened it, and stays there.

mod error;

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use evenkeel_wire::message::{self, Acknowledgement, Message, messages};
use netlink_sys::SocketAddr;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use nix::sys::time::TimeVal;

use crate::error::{Context, Error};

pub use error::NetlinkError;

/// Room for what the kernel sends while we are not looking.
const RECEIVE_BUFFER: usize = 1 << 20;
/// The kernel fills datagrams of a dump up to 32 kB (`netlink_dump`, af_netlink.c); one message
/// alone has 64 kB attributes at most.
const DATAGRAM: usize = 1 << 17;
/// How long an answer may take. Deleting a tree of thousands of classes takes well below.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a dump is asked for again if something changed meanwhile.
const TRIES: usize = 16;

/// A route netlink socket.
#[derive(Debug)]
pub struct Socket {
    inner: netlink_sys::Socket,
    port: u32,
    sequence: u32,
    /// For one datagram: large, so it is not made anew for each.
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens one in the calling thread's network namespace.
    pub fn open_route() -> Result<Self, Error> {
        Self::open(NETLINK_ROUTE, "route")
    }

    /// The same for netfilter's questions (nftables), which only `CAP_NET_ADMIN` may ask.
    pub fn open_netfilter() -> Result<Self, Error> {
        Self::open(NETLINK_NETFILTER, "netfilter")
    }

    fn open(protocol: isize, name: &str) -> Result<Self, Error> {
        let what = || format!("open a {name} netlink socket");
        let mut socket = netlink_sys::Socket::new(protocol).context(what)?;
        // Refused on very old kernels only, where errors then have no words.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        // Beyond net.core.rmem_max with CAP_NET_ADMIN, up to it without.
        if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
            let _ = setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER);
        }
        let patience = TimeVal::new(PATIENCE.as_secs() as i64, 0);
        setsockopt(&socket, sockopt::ReceiveTimeout, &patience).context(what)?;
        setsockopt(&socket, sockopt::SendTimeout, &patience).context(what)?;
        let port = socket.bind_auto().context(what)?.port_number();
        socket.connect(&SocketAddr::new(0, 0)).context(what)?;
        Ok(Socket {
            inner: socket,
            port,
            sequence: 0,
            buffer: vec![0; DATAGRAM],
        })
    }

    /// Sends one message and waits for its acknowledgement. Sequence number and port are filled
    /// in here, and an acknowledgement is asked for.
    pub fn request(&mut self, bytes: &[u8]) -> Result<(), NetlinkError> {
        self.request_all(&[bytes]).map_err(|(_, e)| e)
    }

    /// Sends several messages at once and waits until the kernel has been through all of them,
    /// in their order (`netlink_rcv_skb`, af_netlink.c). `Err`: the first that it refused, and why;
    /// those behind it were carried out nevertheless.
    pub fn request_all(&mut self, all: &[impl AsRef<[u8]>]) -> Result<(), (usize, NetlinkError)> {
        let Some(last) = all.len().checked_sub(1) else {
            return Ok(());
        };
        let (mut bytes, mut sequences) = (Vec::new(), Vec::new());
        for (n, message) in all.iter().enumerate() {
            // What is refused answers in any case.
            let flags = if n == last { message::ACK } else { 0 };
            let put = self.put(&mut bytes, message.as_ref(), flags);
            sequences.push(put.map_err(|e| (n, e))?);
        }
        again(|| self.inner.send(&bytes, 0)).map_err(|e| (0, e.into()))?;
        let mut refused = None;
        loop {
            let datagram = self.receive().map_err(|e| (last, e))?;
            for m in messages(&datagram) {
                let ours = |&s: &u32| self.is_ours(&m, s);
                let (Some(n), Some(ack)) = (sequences.iter().position(ours), m.acknowledgement())
                else {
                    continue;
                };
                if let Err(e) = check(ack) {
                    refused.get_or_insert((n, e));
                }
                if n == last {
                    return refused.map_or(Ok(()), Err);
                }
            }
        }
    }

    /// Sends a question that one message answers, and hands that message to `read`. `None`: what
    /// came is none that `read` takes.
    pub fn ask<T>(
        &mut self,
        bytes: &[u8],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, NetlinkError> {
        let sequence = self.send(bytes, 0)?;
        loop {
            let length = self.receive_into()?;
            let datagram = self.buffer.get(..length);
            let datagram = datagram.ok_or_else(|| NetlinkError::new(Errno::EMSGSIZE))?;
            if let Some(m) = messages(datagram).find(|m| self.is_ours(m, sequence)) {
                if let Some(ack) = m.acknowledgement() {
                    check(ack)?;
                }
                return Ok(read(m.bytes));
            }
        }
    }

    /// Sends a dump request and gathers the messages of its answer. Asked for again if the
    /// kernel says that it changed meanwhile or that messages were lost.
    pub fn dump(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, NetlinkError> {
        let mut last = NetlinkError::new(Errno::EINTR);
        for _ in 0..TRIES {
            match self.dump_once(bytes) {
                Err(e) if matches!(e.errno, Errno::EINTR | Errno::ENOBUFS) => {
                    self.drain();
                    last = e;
                }
                done => return done,
            }
        }
        Err(last)
    }

    fn dump_once(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, NetlinkError> {
        let sequence = self.send(bytes, 0)?;
        let mut answer = Vec::new();
        let mut interrupted = false;
        loop {
            let datagram = self.receive()?;
            for m in messages(&datagram).filter(|m| self.is_ours(m, sequence)) {
                interrupted |= m.flags & message::DUMP_INTR != 0;
                if let Some(ack) = m.acknowledgement() {
                    check(ack)?;
                    if interrupted {
                        return Err(NetlinkError::new(Errno::EINTR));
                    }
                    return Ok(answer);
                }
                if !m.is_noop() {
                    answer.push(m.bytes.to_vec());
                }
            }
        }
    }

    /// An answer that a former request did not wait for must not be taken for this one's.
    fn is_ours(&self, m: &Message<'_>, sequence: u32) -> bool {
        m.sequence == sequence && m.port == self.port
    }

    fn send(&mut self, bytes: &[u8], flags: u16) -> Result<u32, NetlinkError> {
        let mut all = Vec::with_capacity(bytes.len());
        let sequence = self.put(&mut all, bytes, flags)?;
        again(|| self.inner.send(&all, 0))?;
        Ok(sequence)
    }

    /// Puts a message behind others, aligned as netlink wants it, with a number of its own.
    fn put(&mut self, all: &mut Vec<u8>, bytes: &[u8], flags: u16) -> Result<u32, NetlinkError> {
        // Never 0, which notifications have.
        self.sequence = self.sequence.checked_add(1).unwrap_or(1);
        let at = all.len();
        all.extend_from_slice(bytes);
        all.resize(all.len().next_multiple_of(4), 0);
        let header = all
            .get_mut(at..)
            .and_then(|m| m.first_chunk_mut::<{ message::HEADER }>())
            .ok_or_else(|| NetlinkError::new(Errno::EINVAL))?;
        header[message::SEQUENCE].copy_from_slice(&self.sequence.to_ne_bytes());
        header[12..].copy_from_slice(&self.port.to_ne_bytes());
        let flags = flags | u16::from_ne_bytes([header[6], header[7]]);
        header[6..8].copy_from_slice(&flags.to_ne_bytes());
        Ok(self.sequence)
    }

    fn receive(&mut self) -> Result<Vec<u8>, NetlinkError> {
        let length = self.receive_into()?;
        let datagram = self.buffer.get(..length);
        datagram
            .map(<[u8]>::to_vec)
            .ok_or_else(|| NetlinkError::new(Errno::EMSGSIZE))
    }

    /// Into the buffer; how long it is, also if it does not fit.
    fn receive_into(&mut self) -> Result<usize, NetlinkError> {
        let (fd, buffer) = (self.inner.as_raw_fd(), &mut self.buffer);
        Ok(again(|| Ok(recv(fd, buffer, MsgFlags::MSG_TRUNC)?))?)
    }

    /// Throws away what is waiting.
    fn drain(&self) {
        let mut buffer = [0; 64];
        loop {
            match recv(self.inner.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(_) | Err(Errno::EINTR | Errno::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

/// Again after a signal.
fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn check(ack: Acknowledgement) -> Result<(), NetlinkError> {
    match ack.errno {
        0 => Ok(()),
        errno => Err(NetlinkError {
            errno: Errno::from_raw(errno),
            text: ack.text,
            offset: ack.offset,
        }),
    }
}
