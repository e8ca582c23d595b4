//! Network namespaces without a name: they live as long as this process holds them.
//!
//! Principles: nothing under /run/netns, so nothing is left after `kill -9`; a thread enters a
//! namespace once and never leaves it; the caller's own thread is never moved.
//! Non-goals: user or mount namespaces, namespaces of other programs.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::{Context, Error};

/// A handle to a network namespace of our own.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
    name: String,
}

impl Netns {
    /// An empty namespace (a loopback device, down). `name` is for messages only.
    pub fn new(name: &str) -> Result<Self, Error> {
        let fd = std::thread::scope(|s| {
            s.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET)
                    .context(|| format!("make network namespace {name}"))?;
                File::open("/proc/thread-self/ns/net")
                    .context(|| format!("open network namespace {name}"))
            })
            .join()
            .unwrap_or_else(|p| std::panic::resume_unwind(p))
        })?;
        Ok(Netns {
            fd: fd.into(),
            name: name.to_owned(),
        })
    }

    /// What it was called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Moves the calling thread into the namespace, for good.
    pub fn enter(&self) -> Result<(), Error> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET)
            .context(|| format!("enter network namespace {}", self.name))
    }

    /// Runs `f` on a scratch thread inside the namespace and waits for it.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
        std::thread::scope(|s| {
            s.spawn(|| self.enter().map(|()| f()))
                .join()
                .unwrap_or_else(|p| std::panic::resume_unwind(p))
        })
    }

    /// Starts a thread of its own inside the namespace.
    pub fn spawn<T: Send + 'static>(
        &self,
        thread: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Result<T, Error>>, Error> {
        let what = || format!("start thread {thread} in network namespace {}", self.name);
        let own = Netns {
            fd: self.fd.try_clone().context(what)?,
            name: self.name.clone(),
        };
        std::thread::Builder::new()
            .name(thread.to_owned())
            .spawn(move || {
                own.enter()?;
                drop(own);
                Ok(f())
            })
            .context(what)
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sets a value under `/proc/sys` as the calling thread's namespace has it.
pub fn set_sysctl(key: &str, value: &str) -> Result<(), Error> {
    let path = format!("/proc/sys/{}", key.replace('.', "/"));
    std::fs::write(&path, value).context(|| format!("set {key} to {value}"))
}
