//! `ping` in virtual time, over a path whose delay is exact: 3 ms there and 6 ms back, by netem.
//!
//! In virtual time nothing takes time but what is told to, so a round trip that is not 9 ms is
//! the prober's fault. Skipped, by name, where the kernel for virtual time was not built.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use evenkeel_core::ping::Fate;
use evenkeel_core::ping::log::Log;
use evenkeel_lab::Engine;
use evenkeel_lab::guest::{GuestError, find};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// The guest's first process.
const INIT: &str = r"#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LANG=C
trap 'echo o >/proc/sysrq-trigger; sleep 60' EXIT
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/exchange
mount -t hostfs -o /tmp exchange /run/exchange 2>/dev/null ||
  mount -t hostfs -o hostfs=/tmp exchange /run/exchange
mountpoint -q /dev || mount -t devtmpfs dev /dev
cd /run/exchange
exec >output 2>&1
ip link set lo up
ip netns add far
ip link add near type veth peer name eth0 netns far
ip addr add 10.0.0.1/24 dev near
ip link set near up
ip -n far addr add 10.0.0.2/24 dev eth0
ip -n far link set eth0 up
ip netns exec far sysctl -qw net.ipv4.icmp_ratelimit=0
tc qdisc add dev near root netem delay 3ms
tc -n far qdisc add dev eth0 root netem delay 6ms
./evenkeel ping 10.0.0.2 -n200 -s20 -q -F echo.txt
./evenkeel ping 10.0.0.2 -n200 -s20 -q -M -F timestamp.txt
./evenkeel ping 10.0.0.2 -n200 -s20 -q -u -l0 -F udp.txt
./evenkeel ping 10.0.0.2 -n200 -s20 -q --tcp=9 -F tcp.txt
echo done
";

#[test]
fn virtual_round_trips_are_exact() {
    const TEST: &str = "virtual_round_trips_are_exact";
    if !nix::unistd::geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "SKIP {TEST}: needs root");
        return;
    }
    let kernel = match find(Engine::Virtual) {
        Ok(kernel) => kernel,
        Err(e @ GuestError::Missing { .. }) => {
            let _ = writeln!(std::io::stderr(), "SKIP {TEST}: {e}");
            return;
        }
        Err(e) => panic!("{e}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let said = run_in_guest(dir.path(), &kernel);
    assert!(said.contains("done"), "{said}");
    for (name, fate) in [
        ("echo", Fate::Reply),
        ("timestamp", Fate::Reply),
        ("udp", Fate::PortUnreachable),
        ("tcp", Fate::Refused),
    ] {
        let text = fs::read_to_string(dir.path().join(format!("{name}.txt"))).unwrap();
        let log: Log = text.parse().unwrap();
        assert_eq!(log.outcomes.len(), 200, "{name}: {said}");
        is_exact(name, fate, &log);
    }
}

/// Runs [`INIT`] in a guest whose `/tmp` is `dir`; what it printed.
fn run_in_guest(dir: &Path, kernel: &Path) -> String {
    let at = |name: &str| dir.join(name);
    fs::write(at("init"), INIT).unwrap();
    fs::copy(kernel, at("linux")).unwrap();
    fs::copy(EVENKEEL, at("evenkeel")).unwrap();
    for name in ["init", "linux", "evenkeel"] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    // So that it runs on CPUs with AMX, as guests of the lab do.
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/uml/xstate.c");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-shared", "-fPIC", source, "-o"]);
    assert!(cc.arg(at("xstate.so")).status().unwrap().success());
    let script = "ulimit -c 0; mount --bind \"$0\" /tmp && \
                  exec setarch -R -- env LD_PRELOAD=/tmp/xstate.so /tmp/linux \"$@\"";
    let place = dir.to_str().unwrap();
    let mut guest = Command::new("unshare")
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            script,
            place,
        ])
        .args([
            "mem=256M",
            "umid=guest",
            "uml_dir=/tmp/uml/",
            "rootfstype=hostfs",
        ])
        .args([
            "rootflags=/",
            "ro",
            "init=/tmp/init",
            "con=null",
            "con0=null,fd:1",
        ])
        .args(["ssl=null", "quiet", "time-travel=inf-cpu", "seed=1"])
        .arg("time-travel-start=1767225600000000000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    while guest.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(180) {
            guest.kill().unwrap();
            guest.wait().unwrap();
            let said = fs::read_to_string(at("output")).unwrap_or_default();
            panic!("the guest did not end: {said}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::read_to_string(at("output")).unwrap_or_default()
}

/// Every round trip of `log` is the 9 ms that the disciplines make.
fn is_exact(name: &str, fate: Fate, log: &Log) {
    let ms = Duration::from_millis;
    for o in &log.outcomes {
        assert_eq!(o.fate, fate, "{name}: {o:?}");
    }
    let mut times: Vec<Duration> = log
        .outcomes
        .iter()
        .map(|o| o.delays.unwrap().felt)
        .collect();
    times.sort();
    let off = |i: usize| times[i].abs_diff(ms(9));
    println!("{name}: {:?} to {:?}", times[0], times[199]);
    // A system call takes 1 ns of that clock, and one that fails 1 us. A refusal bears no
    // stamp of the kernel's, so some of the program's calls are in its time.
    let most = if fate == Fate::Refused { 2_000 } else { 10 };
    assert!(
        off(0).max(off(199)) <= Duration::from_nanos(most),
        "{name}: {times:?}"
    );
    // The path lies behind our own queue, which is the 3 ms.
    if fate == Fate::Reply {
        let d = log.outcomes[5].delays.unwrap();
        let within = |d: Duration, of| d.abs_diff(of) < Duration::from_nanos(10);
        assert!(within(d.queue.unwrap(), ms(3)), "{d:?}");
        assert!(within(d.path.unwrap(), ms(6)), "{d:?}");
    }
}
