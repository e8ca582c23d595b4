//! Two machines and a line between them, in network namespaces; a server on one of them.
#![allow(dead_code)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_bench::client::{self, Failed, Options, Test};
use evenkeel_bench::serve::{Config, Limits, Server};
use evenkeel_report::bench::form::Bench;
use evenkeel_sys::Netns;

/// Says that a test was not run, past the harness.
pub(crate) fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIP {test}: {why}");
}

/// Tests that measure have the machine for themselves, as far as this process goes.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command in the calling thread's namespace.
pub(crate) fn sh(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let out = Command::new(words[0])
        .args(&words[1..])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(out.status.success(), "{line}");
    String::from_utf8(out.stdout).unwrap()
}

/// Two machines: 10.23.0.1 on `near`, which measures, and 10.23.0.2 on `far`.
pub(crate) struct World {
    pub(crate) near: Netns,
    pub(crate) far: Netns,
    /// Keeps `far`'s name for `ip link`.
    holder: std::process::Child,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The world, with a line of `up` and `down` Mbit/s that buffers 100 ms; `None`, with a word, if this
/// is really not root.
pub(crate) fn world(test: &str, down: u32, up: u32) -> Option<World> {
    if !nix::unistd::geteuid().is_root() {
        skipped(test, "not root, so no namespaces");
        return None;
    }
    let (near, far) = (Netns::new("near").unwrap(), Netns::new("far").unwrap());
    let holder = far
        .run(|| Command::new("sleep").arg("1000").spawn().unwrap())
        .unwrap();
    let pid = holder.id();
    near.run(|| {
        sh("ip link set lo up");
        sh(&format!(
            "ip link add v0 type veth peer name v1 netns {pid}"
        ));
        sh("ip addr add 10.23.0.1/24 dev v0");
        sh("ip addr add fd23::1/64 dev v0 nodad");
        sh("ip link set v0 up");
        sh(&format!(
            "tc qdisc add dev v0 root tbf rate {up}mbit burst 8k limit {}",
            up * 12_500
        ));
        evenkeel_sys::netns::set_sysctl("net.ipv4.ping_group_range", "0 2147483647").unwrap();
    })
    .unwrap();
    far.run(|| {
        sh("ip link set lo up");
        sh("ip addr add 10.23.0.2/24 dev v1");
        sh("ip addr add fd23::2/64 dev v1 nodad");
        sh("ip link set v1 up");
        sh(&format!(
            "tc qdisc add dev v1 root tbf rate {down}mbit burst 12k limit {}",
            down * 12_500
        ));
    })
    .unwrap();
    Some(World { near, far, holder })
}

impl World {
    /// A server on `far`, port 7000, all addresses.
    pub(crate) fn serve(&self, token: &str, limits: Limits, tls: bool) -> Server {
        let fixture = |name: &str| {
            std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/fixtures")
                .join(name)
        };
        let config = Config {
            listen: vec!["[::]:7000".parse().unwrap()],
            token: token.into(),
            tls: tls.then(|| (fixture("cert.pem"), fixture("key.pem"))),
            limits,
        };
        self.far.run(|| Server::start(&config)).unwrap().unwrap()
    }
}

impl World {
    /// Measures from `near`.
    pub(crate) fn bench(&self, o: &Options) -> Result<Bench, Failed> {
        self.near
            .run(|| client::run(o, &never(), &mut |_| {}))
            .unwrap()
    }

    /// The program on `near`, measuring against the server on `far`.
    pub(crate) fn program(&self, args: &[&str], file: &Path) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-bench"));
        command.args(["bench", "--to", "10.23.0.2:7000"]);
        command.args(args).arg(file);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.near.run(|| command.spawn().unwrap()).unwrap()
    }
}

/// A counter of a device in the calling thread's namespace: `word` of its line in `/proc/net/dev`.
pub(crate) fn counter(device: &str, word: usize) -> u64 {
    let all = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let mut lines = all.lines().filter_map(|l| l.trim().split_once(':'));
    let (_, words) = lines.find(|l| l.0 == device).unwrap();
    words.split_whitespace().nth(word).unwrap().parse().unwrap()
}

/// Looks every 20 ms until it is so, half a minute at most.
pub(crate) fn eventually(mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        if so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    so()
}

/// A run of 4 s of load.
pub(crate) fn options(to: &str, test: Test) -> Options {
    Options {
        to: to.into(),
        pings: None,
        irtt_key: None,
        test,
        streams: None,
        seconds: 4,
        idle: Duration::from_millis(1200),
        tail: Duration::from_millis(1200),
        interval: None,
        token: String::new(),
        ca: None,
        label: String::new(),
        command: String::new(),
    }
}

/// Nobody interrupts.
pub(crate) fn never() -> AtomicBool {
    AtomicBool::new(false)
}

/// 20 and 10 Mbit/s.
pub(crate) fn request() -> evenkeel_kernel::Request {
    evenkeel_kernel::Request {
        device: "v0".into(),
        down: evenkeel_core::Rate::from_kbit(20_000),
        up: evenkeel_core::Rate::from_kbit(10_000),
        framing: None,
        choice: evenkeel_core::plan::Choice::Auto,
        ingress: evenkeel_core::plan::Ingress::Auto,
        mode: evenkeel_core::plan::Mode::Ping,
        windows: true,
        lan: true,
        mss: evenkeel_core::segments::Mss::Auto,
        replace: false,
        rules: Vec::new(),
    }
}
