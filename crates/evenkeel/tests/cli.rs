//! The program as a person meets it: bad input, missing rights, what is left behind; and how it
//! finds evenkeel-lab.
//!
//! Each test works in a network namespace of its own. Needs root; without it each says so and
//! passes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

mod common;

use common::{in_namespace, put_program, refused, root, seen, words};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
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
    words(command.output().unwrap())
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
        ] {
            let got = evenkeel(dir, args);
            refused(&got, code, says);
            assert!(got.2.starts_with("evenkeel: "), "{args}: {}", got.2);
            assert_eq!(seen(), before, "{args}");
            assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "{args}");
        }
    });
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
        put_program(EVENKEEL.as_ref(), &copy);
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
        assert!(
            run(&format!("{plain} --windows off"))
                .contains("shaped to 48.0 Mbit/s down and 9.95 Mbit/s up")
        );
        let held = run(plain);
        assert!(
            held.contains("Receive windows hold downloads to 49.7 Mbit/s.")
                && held.contains("in place"),
            "{held}"
        );
        let text = run("status");
        assert!(
            text.contains("best effort") && text.contains("9.95 Mbit/s"),
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
            slow.contains("TCP up: packets of at most 776 bytes, 7.21 ms each; costs 2.9 %")
                && slow.contains(
                    "TCP down: packets of at most 1496 bytes, 0.848 ms each; brings 2.8 %"
                ),
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

/// Puts an `evenkeel-lab` into `dir` that prints its name and what it was told.
fn put_lab(dir: &Path, name: &str) {
    let script = dir.join("script");
    fs::write(&script, format!("#!/bin/sh\necho {name} \"$@\"\nexit 7\n")).unwrap();
    put_program(&script, &dir.join("evenkeel-lab"));
}

/// `lab`, `demo` and `report` are those of the evenkeel-lab beside the program, or else of the
/// one in PATH, with its exit code; without one, one line says what to install.
#[test]
fn lab_demo_and_report_are_another_program() {
    let tmp = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|d| tmp.path().join(d));
    for dir in [&here, &there] {
        fs::create_dir(dir).unwrap();
    }
    let program = here.join("evenkeel");
    put_program(EVENKEEL.as_ref(), &program);
    let run = |args: &str| {
        let path = format!("relative:/nowhere:{}:/usr/bin:/bin", there.display());
        let mut command = Command::new(&program);
        command.args(args.split(' ')).env("PATH", path);
        let out = command.output().unwrap();
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap().trim_end().to_owned();
        (out.status.code(), text(out.stdout), text(out.stderr))
    };
    let (code, out, err) = run("lab list");
    assert_eq!(
        (code, out.as_str(), err.lines().count()),
        (Some(4), "", 1),
        "{err}"
    );
    assert!(
        err.starts_with("evenkeel: evenkeel-lab is not installed"),
        "{err}"
    );
    put_lab(&there, "in-path");
    let args = "lab run x.toml --quick --help -- -x";
    assert_eq!(
        run(args),
        (Some(7), format!("in-path {args}"), String::new())
    );
    put_lab(&here, "beside");
    for args in ["demo", "demo --out DIR", "report -h", "lab --version"] {
        assert_eq!(
            run(args),
            (Some(7), format!("beside {args}"), String::new())
        );
    }
    // A file that cannot be run is none.
    fs::set_permissions(here.join("evenkeel-lab"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(run("demo").1, "in-path demo");
}
