//! Directories and processes that do not outlive this process, not even after `kill -9`.
//!
//! Principles: a directory has a watchdog, a process of its own that removes it as soon as
//! nobody holds the other end of its input; processes live in a process namespace that dies with
//! its first process, which dies with the thread that started it. Non-goals: cgroups.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use evenkeel_sys::sched;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, Uid};

use super::error::GuestError;
use super::which::which;

/// A directory that is gone when this is dropped, or when this process dies.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    watchdog: Child,
}

impl Scratch {
    /// A new directory below `parent`.
    pub(super) fn new(parent: &Path) -> Result<Self, GuestError> {
        let failed =
            |e: io::Error| GuestError::host(format!("make a directory in {}", parent.display()), e);
        std::fs::create_dir_all(parent).map_err(failed)?;
        let path = tempfile::Builder::new()
            .prefix("evenkeel-")
            .tempdir_in(parent)
            .map_err(failed)?
            .keep();
        let watchdog = Command::new("setsid")
            // Twice, because processes that are just being killed may still write into it.
            .args([
                "sh",
                "-c",
                "cat >/dev/null; rm -rf -- \"$0\" 2>/dev/null || { sleep 1; rm -rf -- \"$0\"; }",
            ])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .spawn();
        match watchdog {
            Ok(watchdog) => Ok(Scratch { path, watchdog }),
            Err(e) => {
                let _ = std::fs::remove_dir_all(&path);
                Err(needs("setsid", "util-linux", &e))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// A process and everything that it starts, in a namespace of their own.
#[derive(Debug)]
pub(super) struct Contained(pub(super) Child);

impl Contained {
    /// Starts `script` (for sh, with `arguments` as `$1`...) in new process and mount
    /// namespaces. `set` may set input, output and environment.
    pub(super) fn start(
        script: &str,
        arguments: &[&str],
        set: impl FnOnce(&mut Command),
    ) -> Result<Self, GuestError> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child=KILL"]);
        if !Uid::effective().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        // The shell stays: the first process of a namespace is deaf to signals it sends to
        // itself, as a guest that panics does.
        let script = format!("{script}\nexit");
        command.args(["--", "sh", "-c", &script, "contained"]);
        command.args(arguments).process_group(0);
        set(&mut command);
        sched::die_with_thread(&mut command)
            .spawn()
            .map(Contained)
            .map_err(|e| needs("unshare", "util-linux", &e))
    }

    /// Ends all of it.
    pub(super) fn kill(&mut self) {
        if let Ok(id) = i32::try_from(self.0.id()) {
            // ESRCH: it has ended by itself.
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
        let _ = self.0.wait();
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}

/// What to say when `program` cannot be started.
pub(super) fn needs(program: &str, package: &str, e: &io::Error) -> GuestError {
    if e.kind() == io::ErrorKind::NotFound && which(program).is_none() {
        return missing(program, package);
    }
    GuestError::host(format!("start {program}"), e)
}

/// `program` is in `package`.
pub(super) fn missing(program: &str, package: &str) -> GuestError {
    GuestError::Missing {
        what: program.to_owned(),
        remedy: format!("apt-get install {package}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_its_handle() {
        let s = Scratch::new(&std::env::temp_dir()).unwrap();
        let path = s.path().to_owned();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(s);
        assert!(!path.exists());
    }
}
