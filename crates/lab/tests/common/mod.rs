//! Tests whose figures are exact run in virtual time, where they are not the machine's.
//!
//! Principles: such a test starts itself again in a guest and is judged there, once; a kernel
//! that is not there is named. Non-goals: the guests that run cells (`evenkeel_lab::guest`).

use std::process::Command;

use evenkeel_lab::guest::{Engine, GuestError, find};

/// Whether this is virtual time, and the caller goes on. If it is not, the test of that name (one
/// of the calling file) has been run there when this returns.
pub(crate) fn in_virtual_time(test: &str) -> bool {
    if std::env::var_os("EVENKEEL_UML").is_some() {
        return true;
    }
    if !nix::unistd::geteuid().is_root() {
        println!("SKIP {test}: not root, so no guest");
        return false;
    }
    let kernel = match find(Engine::Virtual) {
        Ok(kernel) => kernel,
        Err(e @ GuestError::Missing { .. }) => {
            println!("SKIP {test}: {e}");
            return false;
        }
        Err(e) => panic!("{e}"),
    };
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let out = Command::new(format!("{top}/scripts/uml/run"))
        .args(["--timeout", "600", "--virtual"])
        .arg(kernel)
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
    false
}
