//! What several of these tests need: guests to run in, an experiment, a request to shape.
//!
//! Principles: a test whose figures are exact starts itself again in virtual time, where they are
//! not the machine's, and is judged there, once; a kernel that is not there is named.
//! Non-goals: the guests that run cells (`evenkeel_lab::guest`).
#![allow(dead_code, reason = "every file of tests uses a part")]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use evenkeel_core::Rate;
use evenkeel_core::plan::{Choice, Ingress, Mode};
use evenkeel_core::segments::Mss;
use evenkeel_kernel::Request;
use evenkeel_lab::Engine;
use evenkeel_lab::Experiment;
use evenkeel_lab::guest::{GuestError, find};

pub(crate) fn is_guest() -> bool {
    std::env::var_os("EVENKEEL_UML").is_some()
}

/// Says that `test` was skipped, past the harness, which hides the output of what passes.
fn skipped(test: &str, why: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "SKIP {test}: {why}");
}

/// Says so and is false if this is really not root.
pub(crate) fn root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skipped(test, "not root, so no namespaces, no TUN and no guest");
    }
    root
}

/// Whether this is virtual time, and the caller goes on. If it is not, the test of that name (one
/// of the calling file) has been run there when this returns.
pub(crate) fn in_virtual_time(test: &str) -> bool {
    if is_guest() {
        return true;
    }
    if !root(test) {
        return false;
    }
    match find(Engine::Virtual) {
        Ok(kernel) => in_guest(test, &["--virtual", kernel.to_str().unwrap()]),
        Err(e @ GuestError::Missing { .. }) => skipped(test, e),
        Err(e) => panic!("{e}"),
    }
    false
}

/// Runs the test of that name, one of the calling file, in User Mode Linux.
pub(crate) fn in_guest(test: &str, options: &[&str]) {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let out = Command::new(format!("{top}/scripts/uml/run"))
        .args(["--timeout", "600"])
        .args(options)
        // All of it, also from below /tmp, which is the guest's own.
        .args(["--ro", top, "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .output()
        .expect("run scripts/uml/run");
    let text = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}\n{errors}");
    assert!(
        text.contains("1 passed"),
        "no test ran in the guest:\n{text}"
    );
    println!("{text}\n{errors}");
}

pub(crate) fn vdsl100() -> Experiment {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/vdsl100.toml");
    Experiment::load(&file).unwrap()
}

/// Shaping of a device at these rates, for delay, and nothing besides.
pub(crate) fn request(device: &str, down: Rate, up: Rate) -> Request {
    Request {
        device: device.into(),
        down,
        up,
        framing: None,
        choice: Choice::Auto,
        ingress: Ingress::Auto,
        mode: Mode::Ping,
        windows: false,
        lan: false,
        mss: Mss::Off,
        replace: false,
        rules: Vec::new(),
    }
}
