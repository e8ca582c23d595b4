//! What the service manager is told (sd_notify(3)): ready, status, alive, stopping.
//!
//! Principles: nobody is told anything where no service manager listens; alive is said only if the
//! loop that follows the line has done something since, not by a timer that beats whatever happens:
//! that loop replaces the line's model each second, and the file is looked at. Non-goals: units
//! (`packaging/evenkeel.service`).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;

/// Where the service manager listens.
const SOCKET: &str = "NOTIFY_SOCKET";
/// From one look at the model to the next; a few for each second that the loop takes.
const LOOK: Duration = Duration::from_millis(250);

/// The service manager, if this is a service.
pub(crate) struct Service {
    listens: bool,
}

impl Service {
    /// As the environment says.
    pub(crate) fn from_environment() -> Self {
        Service {
            listens: std::env::var_os(SOCKET).is_some(),
        }
    }

    fn tell(&self, state: &[NotifyState<'_>]) {
        if self.listens {
            // Who does not hear it kills us in time and says so: there is nobody else to tell.
            let _ = sd_notify::notify(state);
        }
    }

    /// The start is over.
    pub(crate) fn ready(&self) {
        self.tell(&[NotifyState::Ready]);
    }

    /// What it does now, on one line.
    pub(crate) fn status(&self, text: &str) {
        self.tell(&[NotifyState::Status(&text.replace('\n', " "))]);
    }

    /// It works.
    pub(crate) fn alive(&self) {
        self.tell(&[NotifyState::Watchdog]);
    }

    /// Does `work`, which replaces `model` as long as it lives, and says so meanwhile.
    pub(crate) fn watch<T>(
        &self,
        model: &Path,
        cancel: &AtomicBool,
        work: impl FnOnce() -> T,
    ) -> T {
        if !self.listens {
            return work();
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| self.look(model, cancel, &over));
            let done = work();
            over.store(true, Ordering::Relaxed);
            watch.thread().unpark();
            done
        })
    }

    fn look(&self, model: &Path, cancel: &AtomicBool, over: &AtomicBool) {
        // One that is there already is of a process that was killed.
        let mut seen = identity(model);
        let (mut ready, mut stopping) = (false, false);
        loop {
            let last = over.load(Ordering::Relaxed);
            let now = identity(model);
            if now.is_some() && now != seen {
                if !std::mem::replace(&mut ready, true) {
                    self.ready();
                }
                self.alive();
                seen = now;
            }
            if cancel.load(Ordering::Relaxed) && !std::mem::replace(&mut stopping, true) {
                self.tell(&[NotifyState::Stopping]);
            }
            if last {
                return;
            }
            std::thread::park_timeout(LOOK);
        }
    }
}

/// What differs from one writing of a file to the next.
fn identity(file: &Path) -> Option<(u64, i64, i64)> {
    let data = fs::metadata(file).ok()?;
    Some((data.ino(), data.mtime(), data.mtime_nsec()))
}
