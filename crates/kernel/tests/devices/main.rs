//! Devices shaped on a real kernel and taken back, each test in a network namespace of its own.
//!
//! The same tests run on this machine's kernel and, started by the last of them, in User Mode
//! Linux, where there are CAKE and fq_codel. `ip` and `tc` serve as a second opinion, never as a
//! tool of the product. Needs root; without it each test says so and passes.

mod accounting;
mod fairness;
mod goodput;
mod lifecycle;
mod oracle;
mod policing;
mod throughput;
mod tiers;
mod world;

use std::process::Command;

/// Everything above once more, on a kernel that has CAKE.
#[test]
fn in_user_mode_linux() {
    if std::env::var_os("EVENKEEL_UML").is_some() || !world::root("in_user_mode_linux") {
        return;
    }
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let out = Command::new(format!("{top}/scripts/uml/run"))
        .args(["--timeout", "1500", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--test-threads=1"])
        .output()
        .expect("run scripts/uml/run");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(
        text.contains("test lifecycle::"),
        "no test ran in the guest:\n{text}"
    );
}
