//! The program as a person meets it: bad input, interruption, kill, and what is left behind.
//!
//! Each test works in a network namespace of its own. Needs root; without it each says so and
//! passes.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

mod common;

use common::{in_namespace, root, seen};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
const VDSL100: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../experiments/vdsl100.toml"
);

/// Exit code, stdout, stderr.
fn evenkeel(dir: &Path, args: &str) -> (i32, String, String) {
    let mut command = Command::new(EVENKEEL);
    command.args(args.split_whitespace());
    if ["shape", "clear", "status"]
        .iter()
        .any(|c| args.starts_with(c))
    {
        command.arg("--state-dir").arg(dir);
    }
    let out = command.output().unwrap();
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (
        out.status.code().unwrap_or(-1),
        text(out.stdout),
        text(out.stderr),
    )
}

#[test]
fn bad_input_is_one_line_and_changes_nothing() {
    if !root("bad_input_is_one_line_and_changes_nothing") {
        return;
    }
    in_namespace(|dir| {
        let before = seen();
        for (args, code, says) in [
            ("shape nope 10mbit 1mbit", 1, "nope: no such device"),
            ("shape lo 10mbit 1mbit", 2, "loopback"),
            ("shape wan 0 1mbit", 2, "zero"),
            ("shape wan -5 1mbit", 2, "negative"),
            ("shape wan 10mbit -1mbit", 2, "negative"),
            ("shape wan 10mbps 1mbit", 2, "bytes to tc"),
            ("shape wan 10parsec 1mbit", 2, "unit"),
            ("shape wan 999gbit 1mbit", 2, "above 400gbit"),
            ("shape wan 7kbit 1mbit", 2, "below 8kbit"),
            ("shape wan 10mbit", 2, "<UP>"),
            ("shape wan 10mbit 1mbit --framing adsl", 2, "pppoe-llcsnap"),
            ("shape wan 10mbit 1mbit --framing atm:x", 2, "overhead"),
            (
                "shape wan 10mbit 1mbit --backend magic",
                2,
                "auto, cake, htb",
            ),
            (
                "shape wan 10mbit 1mbit --mode fast",
                2,
                "ping nor bandwidth",
            ),
            ("shape wan 10mbit 1mbit --mss 20", 2, "216 to 65495"),
            ("shape wan 10mbit 1mbit --bogus", 2, "--bogus"),
            ("clear nope", 1, "nope: no such device"),
            ("status nope", 1, "nope: no such device"),
            ("frobnicate", 2, "frobnicate"),
            ("lab run /does/not/exist.toml", 1, "/does/not/exist.toml"),
            (&format!("lab run {VDSL100} --loads up9"), 2, "up9"),
            (&format!("lab run {VDSL100} --conditions magic"), 2, "magic"),
            (&format!("lab run {VDSL100} --repeat 0"), 2, "0"),
            ("report /does/not/exist.json", 1, "/does/not/exist.json"),
            ("report /dev/null --out /dev/null/x", 1, "not a result file"),
        ] {
            let (got, out, err) = evenkeel(dir, args);
            assert_eq!(got, code, "{args}: {err}");
            assert_eq!(err.lines().count(), 1, "{args}: {err}");
            assert!(
                err.starts_with("evenkeel: ") && err.contains(says),
                "{args}: {err}"
            );
            assert!(out.is_empty(), "{args}: {out}");
            assert_eq!(seen(), before, "{args}");
            assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "{args}");
        }
    });
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
    let (code, table, err) = evenkeel(tmp.path(), &args);
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
    let (code, text, err) = evenkeel(directory, &args);
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

#[test]
fn swapped_rates_are_a_warning() {
    if !root("swapped_rates_are_a_warning") {
        return;
    }
    in_namespace(|dir| {
        let (code, out, err) = evenkeel(dir, "shape wan 10mbit 100mbit --dry-run");
        assert_eq!(code, 0, "{err}");
        assert!(
            err.contains("warning") && err.contains("DEV DOWN UP"),
            "{err}"
        );
        assert!(
            out.contains("tc qdisc replace dev wan root handle ec0:"),
            "{out}"
        );
    });
}

#[test]
fn without_rights_it_says_so() {
    if !root("without_rights_it_says_so") {
        return;
    }
    in_namespace(|dir| {
        // A copy that everybody may read: the build's own folder may be closed to others.
        let copy = dir.join("evenkeel");
        std::fs::copy(EVENKEEL, &copy).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir, mode).unwrap();
        let out = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&copy)
            .args(["shape", "wan", "10mbit", "1mbit"])
            .output()
            .unwrap();
        let err = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(3), "{err}");
        assert!(
            err.lines().count() == 1 && err.contains("needs root"),
            "{err}"
        );
    });
}

#[test]
fn shape_status_clear() {
    if !root("shape_status_clear") {
        return;
    }
    in_namespace(|dir| {
        let run = |args: &str| {
            let (code, out, err) = evenkeel(dir, args);
            assert_eq!((code, err.as_str()), (0, ""), "{args}");
            out
        };
        let before = seen();
        assert!(run("status").contains("no device"));
        let plain = "shape wan 50mbit 10mbit --framing pppoe-ptm";
        assert!(run(&format!("{plain} --windows off")).contains("48mbit down, 9950kbit up"));
        let held = run(plain);
        assert!(
            held.contains("Receive windows hold downloads to 49680kbit.")
                && held.contains("in place"),
            "{held}"
        );
        let text = run("status");
        assert!(
            text.contains("best effort") && text.contains("9950kbit"),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&run("status wan --json")).unwrap();
        assert_eq!(json[0]["health"], "working");
        assert_eq!(json[0]["up"]["shaped"], "9950kbit");
        assert_eq!(json[0]["seen"]["down"]["tiers"][3]["tier"], "bulk");
        assert_eq!(json[0]["seen"]["internet"]["count"], 0);
        assert!(run("shape wan 60mbit 12mbit --framing pppoe-ptm").contains("changed in place"));
        let slow = run("shape wan 16mbit 1mbit --framing pppoe-llcsnap");
        assert!(
            slow.contains("TCP up: packets of at most 776 bytes, 7.2 ms each; costs 2.9 %")
                && slow
                    .contains("TCP down: packets of at most 1496 bytes, 0.8 ms each; brings 2.8 %"),
            "{slow}"
        );
        assert!(run("status").contains("TCP up: packets of at most 776 bytes"));
        let json: serde_json::Value = serde_json::from_str(&run("status wan --json")).unwrap();
        assert_eq!(json[0]["segments_down"]["packet"], 1496);
        let off = "shape wan 16mbit 1mbit --framing pppoe-llcsnap --mss off";
        assert!(!run(off).contains("TCP up"));
        let policed = "shape wan 60mbit 12mbit --framing pppoe-ptm --ingress police";
        assert!(run(&format!("{policed} --dry-run")).contains("polices arrivals: above 98 %"));
        assert!(run(policed).contains("Arrivals are policed"));
        assert!(run("status").contains("policed: 0 marked"));
        let json: serde_json::Value = serde_json::from_str(&run("status wan --json")).unwrap();
        assert_eq!(json[0]["health"], "working");
        assert_eq!(json[0]["down"]["shaped"], "60mbit");
        assert_eq!(json[0]["policed"]["dropped_acks"], 0);
        assert!(run("clear wan").contains("as it was before"));
        assert_eq!(seen(), before);
        assert!(run("clear wan").contains("nothing"));
    });
}

/// Processes whose parent is this test's own, by command line.
fn labs_alive() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read_to_string(entry.path().join("cmdline")) else {
            continue;
        };
        if line.contains("evenkeel\0lab\0run") && line.contains("interrupt-me") {
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
                EVENKEEL,
                "lab",
                "run",
                VDSL100,
                "--quick",
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
