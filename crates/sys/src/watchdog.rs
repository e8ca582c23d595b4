//! A watchdog: a small process that takes a change of the kernel back if nobody renews it.
//!
//! Principles: what is to be done is handed over ready made, as netlink messages, so that the
//! process decides nothing and allocates nothing; it acts when nothing was renewed for a time
//! (`kill -STOP`, a hang) and when the other end of its socket has gone (`kill -9`); what it did it
//! says, so that one who comes back knows what is in force. It sleeps without a timeout while it has
//! nothing to take back. Terminals, service managers and group signals do not end it: it has a
//! session of its own and hears no signal but `SIGKILL` and `SIGSTOP`. Non-goals: what the messages
//! mean, trying again.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::socket::{
    AddressFamily, MsgFlags, Shutdown, SockFlag, SockType, recv, send, shutdown, socketpair,
};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};

use crate::error::{Context, Error};
use crate::netlink::Socket;

/// The longest datagram that it takes, bytes: more than the kernel lets a socket send at once
/// (`net.core.wmem_default`, 212992).
const ROOM: usize = 1 << 18;
/// Its end is waited for so long, ms; then it is killed.
const FAREWELL_MS: u16 = 500;

/// First byte of a datagram: the messages behind it are to be sent if nobody renews them.
const ARM: u8 = b'a';
/// What was handed over still holds.
const RENEW: u8 = b'r';
/// Nothing is to be sent.
const DISARM: u8 = b'd';
/// What the watchdog says when it has sent them.
const FIRED: u8 = b'f';

/// A process that takes something back. If this is dropped while armed, it does so at once.
#[derive(Debug)]
pub struct Watchdog {
    socket: OwnedFd,
    process: Pid,
}

impl Watchdog {
    /// Starts it, for the calling thread's network namespace. It acts if nothing was renewed for
    /// `patience`. To be called while this process is small: the pages that it has in use are kept
    /// for both.
    pub fn start(patience: Duration) -> Result<Self, Error> {
        let what = || "start the watchdog".to_owned();
        let netlink = Socket::open_route()?;
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).context(what)?;
        let mut child = Child {
            link: theirs.as_raw_fd(),
            netlink: netlink.as_raw_fd(),
            patience_ms: patience.as_millis() as libc::c_int,
            buffer: vec![0; ROOM],
        };
        // No handler of ours may run there.
        let before = SigSet::all()
            .thread_swap_mask(SigmaskHow::SIG_SETMASK)
            .context(what)?;
        // SAFETY: other threads may hold locks, so the child must do nothing that takes one:
        // `Child::run` never returns, makes only system calls that are async-signal-safe
        // (signal-safety(7)), and uses only memory that stands ready in `child`.
        let forked = match unsafe { fork() } {
            Ok(ForkResult::Child) => child.run(),
            Ok(ForkResult::Parent { child }) => Ok(child),
            Err(e) => Err(e),
        };
        // It was valid before.
        let _ = before.thread_set_mask();
        Ok(Watchdog {
            socket: ours,
            process: forked.context(what)?,
        })
    }

    /// Its process.
    pub fn id(&self) -> i32 {
        self.process.as_raw()
    }

    /// From now on `messages` (whole netlink messages, aligned) are sent if nobody renews them;
    /// instead of those before.
    pub fn arm(&self, messages: &[u8]) -> Result<(), Error> {
        if messages.len() >= ROOM {
            return Err(Error::new("arm the watchdog", Errno::EMSGSIZE));
        }
        self.say(&[&[ARM], messages].concat(), "arm the watchdog")
    }

    /// What was handed over holds for as long again.
    pub fn renew(&self) -> Result<(), Error> {
        self.say(&[RENEW], "renew what the watchdog holds")
    }

    /// Nothing is to be taken back.
    pub fn disarm(&self) -> Result<(), Error> {
        self.say(&[DISARM], "disarm the watchdog")
    }

    /// Whether it has acted since the last call; it is disarmed since.
    pub fn has_fired(&self) -> bool {
        let mut said = [0; 1];
        let n = recv(self.socket.as_raw_fd(), &mut said, MsgFlags::MSG_DONTWAIT);
        n == Ok(1) && said == [FIRED]
    }

    /// One that does not listen must not keep us waiting.
    fn say(&self, datagram: &[u8], what: &str) -> Result<(), Error> {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        send(self.socket.as_raw_fd(), datagram, flags)
            .map(|_| ())
            .context(|| what.to_owned())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Write);
        // POLLHUP, which comes unasked when its end is closed.
        let mut gone = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        let _ = poll(&mut gone, PollTimeout::from(FAREWELL_MS));
        let _ = kill(self.process, Signal::SIGKILL);
        while waitpid(self.process, None) == Err(Errno::EINTR) {}
    }
}

/// What the process has after the fork.
struct Child {
    link: RawFd,
    netlink: RawFd,
    patience_ms: libc::c_int,
    /// The latest datagram; of a shorter one that followed, only the first byte.
    buffer: Vec<u8>,
}

impl Child {
    /// All that the process does. No locks, no memory from the heap, no panics.
    fn run(&mut self) -> ! {
        self.settle_in();
        // Bytes behind the first one that are to be sent; 0: disarmed.
        let mut held = 0;
        loop {
            let in_time = self.sleep(held > 0);
            match self.listen() {
                Some(0) => {
                    self.fire(held);
                    // SAFETY: _exit(2) touches no memory and runs no handlers.
                    unsafe { libc::_exit(0) }
                }
                Some(n) => match self.buffer.first() {
                    Some(&ARM) => held = n - 1,
                    Some(&DISARM) => held = 0,
                    _ => {}
                },
                // A reset, if what we said was not read; behind it stand what came before, and
                // the end.
                None if in_time => {}
                None => {
                    self.fire(held);
                    held = 0;
                }
            }
        }
    }

    /// Leaves the session, the directory and all descriptors of the parent's.
    fn settle_in(&self) {
        let (low, high) = (self.link.min(self.netlink), self.link.max(self.netlink));
        // SAFETY: system calls; the two strings are constants that end with a zero.
        unsafe {
            libc::setsid();
            libc::chdir(c"/".as_ptr());
            libc::prctl(libc::PR_SET_NAME, c"evenkeel-watch".as_ptr());
        }
        close_all(0, low - 1);
        close_all(low + 1, high - 1);
        close_all(high + 1, RawFd::MAX);
    }

    /// Until something is there to hear; if `armed`, at most until patience is over: `false`.
    fn sleep(&self, armed: bool) -> bool {
        let mut link = libc::pollfd {
            fd: self.link,
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout = if armed { self.patience_ms } else { -1 };
        // SAFETY: the kernel writes to one pollfd, which lives until the call returns. It measures
        // the timeout on the steady clock.
        unsafe { libc::poll(&raw mut link, 1, timeout) != 0 }
    }

    /// The length of the next datagram, 0 at the end of the conversation.
    fn listen(&mut self) -> Option<usize> {
        let (to, room) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
        // SAFETY: the kernel writes at most `room` bytes to the buffer, which has so many.
        let n = unsafe { libc::recv(self.link, to, room, libc::MSG_DONTWAIT) };
        usize::try_from(n).ok()
    }

    /// Sends what is held, and says so.
    fn fire(&mut self, held: usize) {
        let Some(messages) = self.buffer.get(1..=held).filter(|m| !m.is_empty()) else {
            return;
        };
        let (fired, flags) = ([FIRED], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        let mut answer = [0u8; 64];
        let to = answer.as_mut_ptr().cast();
        // SAFETY: the kernel reads `messages.len()` bytes of `messages` and one of `fired`; it
        // writes at most `answer.len()` bytes to `answer`. Route netlink has carried the messages out when
        // the first call returns; acknowledgements are of no interest, but must not pile up.
        unsafe {
            libc::send(self.netlink, messages.as_ptr().cast(), messages.len(), 0);
            while libc::recv(self.netlink, to, answer.len(), libc::MSG_DONTWAIT) > 0 {}
            libc::send(self.link, fired.as_ptr().cast(), 1, flags);
        }
    }
}

/// Closes descriptors `first..=last`, if there are any.
fn close_all(first: RawFd, last: RawFd) {
    /// Without close_range(2), before Linux 5.9, as many as `ulimit -n` usually allows.
    const USUAL: RawFd = 1 << 16;
    if first > last {
        return;
    }
    // SAFETY: system calls on descriptors that nobody uses in this process.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
            for fd in first..=last.min(USUAL) {
                libc::close(fd);
            }
        }
    }
}
