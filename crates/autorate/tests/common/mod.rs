//! What these tests share: `run` in a namespace, and what it says.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evenkeel_autorate::{Ended, Event, Order, Settings, request, run};
use evenkeel_core::PerDirection;
use evenkeel_core::control::Bounds;
use evenkeel_core::plan::Mode;
use evenkeel_kernel::StateDir;
use evenkeel_sys::{Netns, clock};

/// All that is waited for has happened by then.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether we are root; says so if not.
pub(crate) fn root(test: &str) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        let _ = writeln!(std::io::stderr(), "SKIP {test}: needs root");
    }
    root
}

/// Runs a command that must succeed.
pub(crate) fn command(line: &str) {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    let out = command.args(words).output().unwrap();
    let why = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {why}");
}

type Followed = Result<Result<Ended, evenkeel_autorate::Error>, evenkeel_sys::Error>;

/// What is followed.
pub(crate) struct Running {
    pub(crate) told: Receiver<String>,
    thread: JoinHandle<Followed>,
}

impl Running {
    /// Follows `device` until `stop`; what is said comes with a channel.
    pub(crate) fn start(ns: &Netns, device: &str, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        let (tell, told) = channel();
        let settings = Settings {
            request: request(device, Mode::Ping),
            bounds: PerDirection::of(|_| Bounds::default()),
            targets: Vec::new(),
            budget: None,
            expected: PerDirection::default(),
            cooperate: None,
            use_profile: false,
            profile_dir: dir.join("lines"),
            state: StateDir::new(dir.join("run")),
        };
        let order = Order {
            stop: Arc::clone(stop),
            ..Order::default()
        };
        let work = move || {
            let mut tell = |event: &Event| {
                let line = event.to_string();
                println!("{:10.3} {line}", clock::monotonic().as_secs_f64());
                // Who has seen enough hears no more.
                let _ = tell.send(line);
            };
            run(settings, &order, &mut tell)
        };
        let thread = ns.spawn("run", work).unwrap();
        Running { told, thread }
    }

    /// It was told to stop: the device is as it was before.
    pub(crate) fn ends_well(self) {
        let ended = self.thread.join().unwrap().unwrap().unwrap();
        assert_eq!(ended, Ended::AsBefore);
    }

    /// Waits until it says something of which this is true.
    pub(crate) fn until(&self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.told.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"));
            if is_it(&line) {
                return line;
            }
        }
    }
}
