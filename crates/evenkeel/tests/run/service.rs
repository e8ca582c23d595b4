//! What a service manager hears.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use nix::fcntl::{OFlag, open};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::common;
use crate::common::{in_empty_namespace, in_namespace, ip, root};
use crate::running::{Running, command, left, until};

/// A service manager's socket, and what was said there.
pub(crate) struct Manager {
    socket: UnixDatagram,
    heard: Vec<String>,
}

impl Manager {
    pub(crate) fn new(dir: &Path) -> Self {
        let socket = UnixDatagram::bind(dir.join("notify")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let heard = Vec::new();
        Manager { socket, heard }
    }

    pub(crate) fn heard(&mut self, what: &str) -> bool {
        let mut bytes = [0; 4096];
        while let Ok(n) = self.socket.recv(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..n]);
            self.heard.extend(text.lines().map(str::to_owned));
        }
        self.heard.iter().any(|h| h.starts_with(what))
    }
}

/// `run --wait` as a service, in the background.
pub(crate) fn serve(dir: &Path, args: &str) -> Running {
    let mut command = command(dir, args);
    command.env("NOTIFY_SOCKET", dir.join("notify"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    Running(Some(command.spawn().unwrap()))
}

#[test]
fn a_service_waits_and_tells() {
    if !root("a_service_waits_and_tells") {
        return;
    }
    in_empty_namespace(|dir| {
        let mut manager = Manager::new(dir);
        let run = serve(dir, "run --wait --rate 20mbit 5mbit");
        until("that it waits", || {
            manager.heard("STATUS=waiting for a default route")
        });
        // Nothing holds a boot up, and it lives.
        assert!(manager.heard("READY=1"));
        until("a sign of life", || manager.heard("WATCHDOG=1"));
        common::add_wan();
        ip("route add default via 192.0.2.2");
        until("a first guess", || manager.heard("STATUS=down 20.0 Mbit/s"));
        manager.heard.clear();
        until("a sign of life while it follows", || {
            manager.heard("WATCHDOG=1")
        });
        run.signal(Signal::SIGTERM);
        let end = run.end();
        assert_eq!(end.0, 0, "{end:?}");
        assert!(manager.heard("STOPPING=1"), "{:?}", manager.heard);
        assert_eq!(left(dir), [""; 0]);
    });
}

/// The loop is made to hang where it replaces its model: by a pipe that nobody reads.
#[test]
fn one_that_hangs_says_nothing() {
    if !root("one_that_hangs_says_nothing") {
        return;
    }
    in_namespace(|dir| {
        let mut manager = Manager::new(dir);
        let run = serve(dir, "run wan --rate 20mbit 5mbit");
        until("a sign of life", || manager.heard("WATCHDOG=1"));
        let records = evenkeel_kernel::StateDir::new(dir.join("run"));
        let next = records.model_file("wan").with_extension("json.new");
        until("a pipe in its way", || mkfifo(&next, Mode::S_IRWXU).is_ok());
        let quiet = Duration::from_secs(3);
        let mut since = Instant::now();
        until("silence", || {
            manager.heard.clear();
            if manager.heard("WATCHDOG=1") {
                since = Instant::now();
            }
            since.elapsed() > quiet
        });
        assert!(next.exists());
        let reader = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
        let _reader = open(&next, reader, Mode::empty()).unwrap();
        until("a sign of life again", || manager.heard("WATCHDOG=1"));
        run.signal(Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
        assert_eq!(left(dir), [""; 0]);
    });
}
