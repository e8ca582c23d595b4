//! `lab run` on other kernels, from the command line: the same experiment on User Mode Linux and
//! in virtual time, repeated, interrupted and killed.
//!
//! Principles: figures are judged in virtual time only, where they do not depend on who else has
//! the CPU; a kernel that is not there is named. Non-goals: the emulator (crate `evenkeel-lab`).

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use evenkeel_core::result::ResultFile;
use evenkeel_lab::Engine;
use evenkeel_lab::guest::{GuestError, find};

/// A line slow enough for a kernel that shares its CPU with a compiler.
const EXPERIMENT: &str = r#"
name = "small"
about = "A slow line for tests."
clients = 1
conditions = ["none", "evenkeel"]

[line]
device = "tun"
down = "8mbit"
up = "4mbit"
framing = "bridged-ptm"
rtt_ms = 10.0
down_buffer = "100ms"
up_buffer = "200ms"

[[servers]]
name = "near"
rtt_ms = 10.0

[duration]
full_s = 6.0
quick_s = 2.0
idle_s = 2.0

[probe]
interval_ms = 20.0

[[loads]]
name = "idle"
flows = []

[[loads]]
name = "up1"
flows = [{ direction = "up", client = 1, server = "near" }]
"#;

/// Who measures in real time holds it alone; whoever keeps the machine busy, with others.
static MACHINE: RwLock<()> = RwLock::new(());

fn busy() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Says so and is false if the kernel of `engine` is really not there.
fn there(engine: Engine, test: &str) -> bool {
    match find(engine) {
        Ok(_) => true,
        Err(e @ GuestError::Missing { .. }) => {
            let _ = writeln!(std::io::stderr(), "SKIP {test}: {e}");
            false
        }
        Err(e) => panic!("{e}"),
    }
}

fn lab_run(dir: &Path, arguments: &[&str]) -> Command {
    let file = dir.join("small.toml");
    fs::write(&file, EXPERIMENT).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-lab"));
    command
        .args(["lab", "run"])
        .arg(file)
        .args(["--quick", "--json"])
        .args(arguments);
    command
}

/// The same, whatever was measured before.
fn fresh_run(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = lab_run(dir, arguments);
    command.arg("--fresh");
    command
}

fn result(output: &Output) -> ResultFile {
    let errors = String::from_utf8_lossy(&output.stderr);
    // On a busy machine real time in User Mode Linux is void, and said to be.
    let void = output.status.code() == Some(1) && errors.contains("every run is void");
    assert!(output.status.success() || void, "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {errors}"))
}

#[test]
fn user_mode_linux_runs_a_cell() {
    let _busy = busy();
    if !there(Engine::Uml, "user_mode_linux_runs_a_cell") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--engine", "uml", "--loads", "idle", "--conditions", "none"];
    let result = result(&fresh_run(dir.path(), &arguments).output().unwrap());
    assert_eq!((result.engine.as_str(), result.runs.len()), ("uml", 1));
    let here = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_ne!(result.kernel, here.trim(), "it ran on another kernel");
    let run = &result.runs[0];
    let probes = run.ping_ms.n;
    assert!(run.base_ms >= 10.0 && probes > 0, "{}", run.base_ms);
    // A machine without time for it lets probes go.
    let void = !run.instrument.void.is_empty();
    assert!(probes > 50 || void, "{probes}");
}

#[test]
fn virtual_time_is_exact_and_repeats() {
    let _busy = busy();
    if !there(Engine::Virtual, "virtual_time_is_exact_and_repeats") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let once = || {
        result(
            &fresh_run(dir.path(), &["--engine", "virtual"])
                .output()
                .unwrap(),
        )
    };
    let (first, second) = (once(), once());
    let text = |r: &ResultFile| serde_json::to_string(&r.runs).unwrap();
    assert_eq!(text(&first), text(&second), "byte for byte");
    let again = lab_run(dir.path(), &["--engine", "virtual"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(told.starts_with("Measured before: 4 of 4"), "{told}");
    assert_eq!(text(&result(&again)), text(&first), "kept");
    let of = |load: &str, condition: &str| {
        let run = first
            .runs
            .iter()
            .find(|r| r.load == load && r.condition == condition);
        run.unwrap_or_else(|| panic!("{load}, {condition}"))
    };
    for run in &first.runs {
        assert_eq!(run.instrument.void, "", "{} {}", run.load, run.condition);
    }
    // A probe of 84 bytes is 108 on this line (22 more, and one for each started 64).
    let idle = of("idle", "none");
    let probe_ms = 108.0 * 8.0 / 4000.0 + 108.0 * 8.0 / 8000.0;
    assert!(
        (idle.base_ms - 10.0 - probe_ms).abs() < 0.001,
        "{}",
        idle.base_ms
    );
    assert!(
        idle.ping_ms.max - idle.ping_ms.min < 0.01,
        "{:?}",
        idle.ping_ms
    );
    // Tail drop: the queue is the buffer. With evenkeel there is hardly any.
    let (none, with) = (of("up1", "none"), of("up1", "evenkeel"));
    assert!(
        (150.0..201.0).contains(&none.increase_ms.max),
        "{:?}",
        none.increase_ms
    );
    assert!(
        with.increase_ms.avg < none.increase_ms.avg / 10.0,
        "{:?}",
        with.increase_ms
    );
}

/// Nothing that could be probed answers: connections that pass must do.
#[test]
fn a_provider_that_answers_nothing_is_followed() {
    let _busy = busy();
    if !there(
        Engine::Virtual,
        "a_provider_that_answers_nothing_is_followed",
    ) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("silent.toml");
    let line = "[line]\nfilters_icmp = true\nsilent = true";
    fs::write(&file, EXPERIMENT.replacen("[line]", line, 1)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel-lab"))
        .args(["lab", "run"])
        .arg(file)
        .args(["--engine", "virtual", "--json", "--fresh", "--loads", "up1"])
        .args(["--conditions", "none,evenkeel-auto"])
        .output();
    let [none, auto] = <[_; 2]>::try_from(result(&output.unwrap()).runs).unwrap();
    assert_eq!(auto.condition, "evenkeel-auto");
    assert!(none.increase_ms.median > 100.0, "{:?}", none.increase_ms);
    // A packet takes 3 ms.
    assert!(auto.increase_ms.median < 5.0, "{:?}", auto.increase_ms);
    assert!(
        auto.settle_s.is_some_and(|s| s < 2.0),
        "{:?}",
        auto.settle_s
    );
    assert!(auto.up_kbit > 0.9 * none.up_kbit, "{}", auto.up_kbit);
}

/// Directions and rough sizes, on a machine that may be busy: medians, and wide bounds.
#[test]
fn native_and_virtual_time_agree() {
    if !there(Engine::Virtual, "native_and_virtual_time_agree") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let on = |engine: &str| {
        let conditions = ["--conditions", "none,evenkeel-htb", "--loads", "up1"];
        let arguments = [&["--engine", engine], &conditions[..]].concat();
        let file = result(&fresh_run(dir.path(), &arguments).output().unwrap());
        <[_; 2]>::try_from(file.runs).unwrap()
    };
    let [none, with] = on("virtual");
    let alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    let [real_none, real_with] = on("native");
    drop(alone);
    for run in [&real_none, &real_with] {
        if !run.instrument.void.is_empty() {
            let void = &run.instrument.void;
            let _ = writeln!(
                std::io::stderr(),
                "SKIP native_and_virtual_time_agree: this machine is too busy: {void}"
            );
            return;
        }
    }
    let close = |a: f64, b: f64, share: f64| (a - b).abs() <= share * a.max(b);
    for (a, b) in [(&none, &real_none), (&with, &real_with)] {
        assert!(
            close(a.base_ms, b.base_ms, 0.2),
            "{} {}",
            a.base_ms,
            b.base_ms
        );
        assert!(
            close(a.up_kbit, b.up_kbit, 0.1),
            "{} {}",
            a.up_kbit,
            b.up_kbit
        );
        assert!(a.condition == b.condition && a.load == b.load);
    }
    let (queue, real_queue) = (none.increase_ms.median, real_none.increase_ms.median);
    assert!(close(queue, real_queue, 0.2), "{queue} {real_queue}");
    for (queue, left) in [(queue, &with), (real_queue, &real_with)] {
        assert!(
            left.increase_ms.median < queue / 10.0,
            "{:?}",
            left.increase_ms
        );
    }
}

#[test]
fn what_is_not_there_is_refused_before_anything_is_booted() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, code, says) in [
        (vec!["--engine", "uml", "--loads", "x"], 2, "no load \"x\""),
        (
            vec!["--engine", "uml", "--conditions", "x"],
            2,
            "no condition \"x\"",
        ),
        (vec!["--engine", "xen"], 2, "native, uml or virtual"),
    ] {
        let output = fresh_run(dir.path(), &arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(says), "{errors}");
    }
    let output = fresh_run(dir.path(), &["--engine", "virtual"])
        .env("XDG_CACHE_HOME", dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{errors}");
    assert!(errors.contains("evenkeel lab kernel build"), "{errors}");
}

#[test]
fn nothing_is_left_after_an_interrupt_or_a_kill() {
    let _busy = busy();
    if !there(Engine::Uml, "nothing_is_left_after_an_interrupt_or_a_kill") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (signal, code) in [("-INT", Some(130)), ("-TERM", Some(130)), ("-KILL", None)] {
        let mut child = fresh_run(dir.path(), &["--engine", "uml", "--loads", "idle"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (processes, scratch) = booted(&mut child);
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(child.wait().unwrap().code(), code, "{signal}");
        let gone = || !scratch.exists() && processes.iter().all(|(p, s)| start(*p) != Some(*s));
        let deadline = Instant::now() + Duration::from_secs(10);
        while !gone() {
            assert!(
                Instant::now() < deadline,
                "{signal}: {processes:?} {}",
                scratch.display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_guest_that_dies_is_reported() {
    let _busy = busy();
    if !there(Engine::Uml, "a_guest_that_dies_is_reported") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = fresh_run(dir.path(), &["--engine", "uml", "--loads", "idle"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (processes, scratch) = booted(&mut child);
    let guest = processes.iter().find(|p| is_guest(p.0)).unwrap();
    let pid = guest.0.to_string();
    assert!(
        Command::new("kill")
            .args(["-KILL", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("idle, none on uml: the guest ended before its work"),
        "{errors}"
    );
    assert!(!scratch.exists());
}

/// Waits for the guest; its processes with their start times, and its directory.
fn booted(child: &mut Child) -> (Vec<(u32, u64)>, PathBuf) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        assert!(Instant::now() < deadline, "no guest");
        let all = descendants(child.id());
        let scratch = all.iter().find_map(|p| {
            let line = fs::read_to_string(format!("/proc/{p}/cmdline")).ok()?;
            let word = line.split('\0').find(|w| w.contains("/evenkeel-"))?;
            let ends = word.find("/guest").unwrap_or(word.len());
            Some(PathBuf::from(&word[..ends]))
        });
        let guest = all.iter().any(|p| is_guest(*p));
        if let (Some(scratch), true) = (scratch, guest) {
            std::thread::sleep(Duration::from_millis(500));
            let all = descendants(child.id());
            let known = all.into_iter().filter_map(|p| Some((p, start(p)?)));
            return (known.collect(), scratch);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether this is the guest's kernel.
fn is_guest(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|l| l.starts_with("/tmp/linux"))
}

/// All processes below `root`.
fn descendants(root: u32) -> Vec<u32> {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        if let Some(parent) = stat(pid, 1) {
            parents.insert(pid, parent as u32);
        }
    }
    let mut found = vec![root];
    let mut i = 0;
    while i < found.len() {
        let of = found[i];
        found.extend(parents.iter().filter(|p| *p.1 == of).map(|p| *p.0));
        i += 1;
    }
    found.remove(0);
    found
}

/// When `pid` started; tells it from another of that number.
fn start(pid: u32) -> Option<u64> {
    stat(pid, 19)
}

/// Field `n` after the name in /proc/PID/stat (proc(5)).
fn stat(pid: u32, n: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after = &text[text.rfind(')')? + 2..];
    after.split(' ').nth(n)?.parse().ok()
}
