//! Waiting: epoll, a timer on the steady clock, and a waker.
//!
//! Principles: a thread sleeps in one place only; timers are absolute, so that lateness does
//! not add up; nothing spins (in virtual time a spinning process stops the clock).
//! Non-goals: an asynchronous runtime.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::error::{Context, Error};

/// What to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Something to read (or an error).
    Read,
    /// Room to write (or an error).
    Write,
    /// Errors only; they are always told.
    Errors,
}

/// What happened on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The token it was added with.
    pub token: u64,
    /// There is something to read, or the other side closed.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// An error is pending, or something lies in the error queue.
    pub error: bool,
    /// Both directions of a connection are closed.
    pub hangup: bool,
}

/// A set of descriptors to wait for.
#[derive(Debug)]
pub struct Poller(Epoll);

impl Poller {
    /// An empty set.
    pub fn new() -> Result<Self, Error> {
        Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map(Poller)
            .context(|| "make an epoll set".into())
    }

    /// Adds a descriptor under `token`, level triggered.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> Result<(), Error> {
        self.0
            .add(fd, EpollEvent::new(flags(interest), token))
            .context(|| "add to an epoll set".into())
    }

    /// Waits for something else on a descriptor that was added.
    pub fn change(&self, fd: impl AsFd, token: u64, interest: Interest) -> Result<(), Error> {
        self.0
            .modify(fd, &mut EpollEvent::new(flags(interest), token))
            .context(|| "change an epoll set".into())
    }

    /// Takes a descriptor out.
    pub fn remove(&self, fd: impl AsFd) -> Result<(), Error> {
        self.0
            .delete(fd)
            .context(|| "take out of an epoll set".into())
    }

    /// Waits until something happens. A signal returns with nothing.
    pub fn wait(&self, ready: &mut Vec<Ready>) -> Result<(), Error> {
        ready.clear();
        let mut events = [EpollEvent::empty(); 32];
        let n = match self.0.wait(&mut events, EpollTimeout::NONE) {
            Err(Errno::EINTR) => 0,
            n => n.context(|| "wait for events".into())?,
        };
        ready.extend(events[..n].iter().map(|e| {
            let f = e.events();
            Ready {
                token: e.data(),
                readable: f.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP),
                writable: f.contains(EpollFlags::EPOLLOUT),
                error: f.contains(EpollFlags::EPOLLERR),
                hangup: f.contains(EpollFlags::EPOLLHUP),
            }
        }));
        Ok(())
    }
}

fn flags(interest: Interest) -> EpollFlags {
    match interest {
        Interest::Read => EpollFlags::EPOLLIN,
        Interest::Write => EpollFlags::EPOLLOUT,
        Interest::Errors => EpollFlags::empty(),
    }
}

/// A timer on [`crate::clock::monotonic`].
#[derive(Debug)]
pub struct Timer(TimerFd);

impl Timer {
    /// Not running.
    pub fn new() -> Result<Self, Error> {
        TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC,
        )
        .map(Timer)
        .context(|| "make a timer".into())
    }

    /// Readable from `at` on; a time in the past fires at once.
    pub fn set(&self, at: Duration) -> Result<(), Error> {
        let at = at.max(Duration::from_nanos(1)); // zero would switch it off
        self.0
            .set(
                Expiration::OneShot(at.into()),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )
            .context(|| "set a timer".into())
    }

    /// Readable at every `interval` from `at` on.
    pub fn every(&self, at: Duration, interval: Duration) -> Result<(), Error> {
        let at = at.max(Duration::from_nanos(1));
        self.0
            .set(
                Expiration::IntervalDelayed(at.into(), interval.into()),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )
            .context(|| "set a timer".into())
    }

    /// Takes note that it fired.
    pub fn clear(&self) {
        // EAGAIN: it had not fired, which is as good.
        let _ = nix::unistd::read(self.0.as_fd(), &mut [0; 8]);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Wakes a thread that waits in a [`Poller`].
#[derive(Debug)]
pub struct Waker(EventFd);

impl Waker {
    /// Not woken.
    pub fn new() -> Result<Self, Error> {
        EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map(Waker)
            .context(|| "make a waker".into())
    }

    /// Makes it readable, for good.
    pub fn wake(&self) {
        // EAGAIN: the counter is full, so it is readable.
        let _ = self.0.write(1);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
