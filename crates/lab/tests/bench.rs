//! `evenkeel bench` against `evenkeel serve`, the programs themselves, on lines of known truth: goodput
//! within 1 % of what the line carried, pings within 0.1 ms of what it did to them, blame where the
//! queue is. Judged in virtual time.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use evenkeel_lab::bench::{Queue, SETUPS, compare};

/// Packets that are due at once leave some ns apart; no more than a fifth of what a ping may be off.
const MOST_LAG_MS: f64 = 0.02;

/// The program beside this test's directory. Cargo builds no program of another package for a test, so
/// one that is not there, or older than its sources, is built first.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().with_file_name("evenkeel-bench");
    if common::is_guest() || !older(&program) {
        return program;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "evenkeel-bench"]);
    if test.components().any(|c| c.as_os_str() == "release") {
        cargo.arg("--release");
    }
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(built.unwrap().success(), "cargo build -p evenkeel-bench");
    program
}

/// Whether it is not there, or a source has changed since.
fn older(program: &Path) -> bool {
    let Ok(made) = program.metadata().and_then(|m| m.modified()) else {
        return true;
    };
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let used = ["bench", "core", "measure", "report", "sys"];
    used.iter()
        .any(|c| changed(&crates.join(c).join("src"), made))
}

fn changed(dir: &Path, since: SystemTime) -> bool {
    std::fs::read_dir(dir).unwrap().flatten().any(|e| {
        let m = e.metadata().unwrap();
        if m.is_dir() {
            changed(&e.path(), since)
        } else {
            m.modified().unwrap() > since
        }
    })
}

/// Measures one of [`SETUPS`], in virtual time; judged there.
fn judge(test: &str, name: &str) {
    let program = program();
    if !common::in_virtual_time(test) {
        return;
    }
    let setup = SETUPS.iter().find(|s| s.name == name).unwrap();
    let c = compare(&program, setup).unwrap_or_else(|e| panic!("{e}"));
    println!("{c:#?}");
    assert_eq!(c.void, "");
    assert!(c.lag_ms < MOST_LAG_MS, "the line lagged by {} ms", c.lag_ms);
    // Behind the line a queue loses some of what that carried.
    let all_of_it = matches!(c.queue, Queue::Line | Queue::Own);
    for share in c.share().into_iter().flatten().filter(|_| all_of_it) {
        assert!(
            (0.99..=1.01).contains(&share),
            "{share} of what was carried"
        );
    }
    assert!(c.blames_right(), "{}", c.blame);
    let off = c.off_ms.unwrap();
    // Elsewhere than at the line the truth is not in its ledger.
    if c.queue == Queue::Line {
        assert!(off.n > 250 && off.p95 <= 0.1, "{off:?}");
        assert_eq!(c.disputed, 0);
    }
}

#[test]
fn vdsl100() {
    judge("vdsl100", "vdsl100");
}

#[test]
fn adsl2() {
    judge("adsl2", "adsl2");
}

#[test]
fn cable() {
    judge("cable", "cable");
}

#[test]
fn lte() {
    judge("lte", "lte");
}

#[test]
fn fast() {
    judge("fast", "fast");
}

#[test]
fn own() {
    judge("own", "own");
}

#[test]
fn lan() {
    judge("lan", "lan");
}

#[test]
fn beyond() {
    judge("beyond", "beyond");
}
