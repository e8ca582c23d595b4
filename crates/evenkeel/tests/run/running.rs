//! `run` in the background, and the commands that tests give it.

use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::common::words;

pub(crate) const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// A command whose records go to `dir`.
pub(crate) fn command(dir: &Path, args: &str) -> Command {
    let mut command = Command::new(EVENKEEL);
    command.args(args.split_whitespace());
    command.arg("--state-dir").arg(dir.join("run"));
    if args.starts_with("run") {
        command.arg("--config").arg(dir.join("none.toml"));
        command.arg("--profile-dir").arg(dir.join("lines"));
    }
    command
}

pub(crate) fn evenkeel(dir: &Path, args: &str) -> (i32, String, String) {
    words(command(dir, args).output().unwrap())
}

/// Waits until `done`; panics with `what` after a minute.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `run` in the background, ended when dropped.
pub(crate) struct Running(pub(crate) Option<Child>);

impl Running {
    /// Returns as soon as it follows the line.
    pub(crate) fn start(dir: &Path, args: &str) -> Self {
        let said = dir.join("said");
        let mut command = command(dir, args);
        command.stdout(std::fs::File::create(&said).unwrap());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        until(args, || {
            assert!(child.try_wait().unwrap().is_none(), "{args} ended");
            std::fs::read_to_string(&said).is_ok_and(|s| s.contains("prob"))
        });
        Running(Some(child))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.0.as_ref().unwrap().id();
        kill(Pid::from_raw(id.cast_signed()), signal).unwrap();
    }

    /// Exit code and stderr of its end.
    pub(crate) fn end(mut self) -> (i32, String, String) {
        words(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What is left in the directory of records.
pub(crate) fn left(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("run")).into_iter().flatten();
    entries
        .flatten()
        .map(|e| e.file_name().into_string().unwrap())
        .collect()
}

/// What it said so far.
pub(crate) fn said(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("said")).unwrap()
}
