//! evenkeel-lab as a person meets it: bad input, interruption, and what is left behind.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const EVENKEEL_LAB: &str = env!("CARGO_BIN_EXE_evenkeel-lab");
const VDSL100: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../experiments/vdsl100.toml"
);

/// Whether we are root; says so if not.
fn root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        let _ = writeln!(std::io::stderr(), "SKIP {test}: needs root");
    }
    root
}

/// Exit code, stdout, stderr.
fn lab(args: &str) -> (i32, String, String) {
    let out = Command::new(EVENKEEL_LAB)
        .args(args.split_whitespace())
        .output()
        .unwrap();
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (
        out.status.code().unwrap_or(-1),
        text(out.stdout),
        text(out.stderr),
    )
}

#[test]
fn bad_input_is_one_line() {
    for (args, code, says) in [
        ("frobnicate", 2, "frobnicate"),
        ("lab run /does/not/exist.toml", 1, "/does/not/exist.toml"),
        (&format!("lab run {VDSL100} --loads up9"), 2, "up9"),
        (&format!("lab run {VDSL100} --conditions magic"), 2, "magic"),
        (&format!("lab run {VDSL100} --repeat 0"), 2, "0"),
        ("report /does/not/exist.json", 1, "/does/not/exist.json"),
        ("report /dev/null --out /dev/null/x", 1, "not a result file"),
    ] {
        let (got, out, err) = lab(args);
        assert_eq!(got, code, "{args}: {err}");
        assert_eq!(err.lines().count(), 1, "{args}: {err}");
        assert!(
            err.starts_with("evenkeel: ") && err.contains(says),
            "{args}: {err}"
        );
        assert!(out.is_empty(), "{args}: {out}");
    }
}

/// A report is made again from its own `result.json`; it needs no rights.
#[test]
fn a_report_again() {
    let tmp = tempfile::tempdir().unwrap();
    let file = tmp.path().join("result.json");
    let text = r#"{"version": 1, "experiment": "vdsl100", "engine": "native", "line": {
        "down": "100mbit", "up": "40mbit", "framing": "ptm:22", "rtt_ms": 9.2,
        "down_buffer_ms": 30.0, "up_buffer_ms": 160.0}, "runs": [], "factors": []}"#;
    std::fs::write(&file, text).unwrap();
    let out = tmp.path().join("again");
    let args = format!("report {} --out {}", file.display(), out.display());
    let (code, table, err) = lab(&args);
    assert_eq!(code, 0, "{err}");
    assert!(table.contains("No run counts."), "{table}");
    for name in ["result.json", "report.md", "report.html"] {
        assert!(out.join(name).exists(), "{name}");
    }
}

#[test]
fn the_list_says_what_each_condition_was_told() {
    let directory = Path::new(VDSL100).parent().unwrap();
    let args = format!("lab list {}", directory.display());
    let (code, text, err) = lab(&args);
    assert_eq!((code, err.as_str()), (0, ""));
    for says in [
        "adsl2.toml: ADSL2+",
        "line        21181/1171 kbit/s, framing atm:40, 55 ms",
        "loads       rrul, down1, up1",
        "conditions  none               told nothing",
        "sqm-95-atm44       20181/1112 kbit/s, atm:44",
        "ms, it changes",
    ] {
        assert!(text.contains(says), "{says}\n{text}");
    }
    assert!(!text.contains("there is none of that name"), "{text}");
}

/// Processes whose parent is this test's own, by command line.
fn labs_alive() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read_to_string(entry.path().join("cmdline")) else {
            continue;
        };
        if line.contains("evenkeel-lab\0lab\0run") && line.contains("interrupt-me") {
            found.insert(line.replace('\0', " "));
        }
    }
    found
}

/// Ctrl-C at any point of a lab ends it within seconds, with 130, and nothing is left.
#[test]
fn a_lab_can_be_interrupted_at_any_point() {
    if !root("a_lab_can_be_interrupted_at_any_point") {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    let out = tmp.path().join("interrupt-me");
    for after in [5, 60, 150, 300, 700, 1500, 4000, 6000] {
        // A shell may have started the tests in the background, which ignores it.
        let mut lab = Command::new("env")
            .args([
                "--default-signal=INT",
                EVENKEEL_LAB,
                "lab",
                "run",
                VDSL100,
                "--quick",
                // What this machine measured before would be there at once.
                "--fresh",
                "--loads",
                "rrul",
                "--conditions",
                "evenkeel",
                "--out",
            ])
            .arg(&out)
            .env("TMPDIR", tmp.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(after));
        let pid = nix::unistd::Pid::from_raw(lab.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::SIGINT).unwrap();
        let asked = Instant::now();
        let status = loop {
            if let Some(status) = lab.try_wait().unwrap() {
                break status;
            }
            assert!(
                asked.elapsed() < Duration::from_secs(20),
                "still there 20 s after Ctrl-C at {after} ms"
            );
            std::thread::sleep(Duration::from_millis(20));
        };
        // Before the program has put its hand on the signal, the shell's own answer is as good.
        assert!(
            status.code() == Some(130) || status.signal() == Some(2),
            "after {after} ms: {status:?}"
        );
        assert_eq!(labs_alive(), BTreeSet::new(), "after {after} ms");
        let left: Vec<_> = std::fs::read_dir(tmp.path())
            .unwrap()
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert!(
            left.iter().all(|n| n == "interrupt-me") || status.signal().is_some(),
            "after {after} ms: {left:?}"
        );
    }
}
