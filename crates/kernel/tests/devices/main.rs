//! Devices shaped on a real kernel and taken back, each test in a network namespace of its own.
//!
//! The same tests run on this machine's kernel and, started by the last of them, in User Mode
//! Linux, where there are CAKE and fq_codel. `ip` and `tc` serve as a second opinion, never as a
//! tool of the product. Needs root; without it each test says so and passes.

mod accounting;
mod goodput;
mod lease;
mod lifecycle;
mod marks;
mod oracle;
mod policing;
mod throughput;
mod tiers;
mod world;

use std::process::Command;

/// What that machine says nothing about: it has one processor and an interpreter for eBPF, so no
/// times; and it is older than tcx.
const NOT_THERE: [&str; 3] = [
    "the_programs_leave_the_goodput_as_it_is",
    "nine_hundred_megabits",
    "others_at_tcx_run_beside_ours",
];

/// Guests at once: as many as a small machine has processors, and a guest has one.
const GUESTS: usize = 2;

/// Everything above but [`NOT_THERE`] once more, on a kernel that has CAKE.
#[test]
fn in_user_mode_linux() {
    if std::env::var_os("EVENKEEL_UML").is_some() || !world::root("in_user_mode_linux") {
        return;
    }
    let all = names();
    let shares = (0..GUESTS).map(|guest| {
        let mine = all.iter().skip(guest).step_by(GUESTS);
        mine.cloned().collect::<Vec<_>>()
    });
    std::thread::scope(|scope| {
        let guests: Vec<_> = shares
            .map(|share| scope.spawn(move || in_a_guest(&share)))
            .collect();
        for guest in guests {
            guest
                .join()
                .unwrap_or_else(|p| std::panic::resume_unwind(p));
        }
    });
}

/// The tests of this program that run in a guest.
fn names() -> Vec<String> {
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--list", "--format", "terse"])
        .output()
        .expect("list the tests");
    let text = String::from_utf8_lossy(&out.stdout);
    let all = text.lines().filter_map(|line| line.strip_suffix(": test"));
    let there = all.filter(|name| !NOT_THERE.iter().any(|not| name.contains(not)));
    let names: Vec<_> = there.map(str::to_owned).collect();
    assert!(names.len() > 2 * GUESTS, "no tests are listed:\n{text}");
    names
}

/// Runs these tests in a guest.
fn in_a_guest(names: &[String]) {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let out = Command::new(format!("{top}/scripts/uml/run"))
        .args(["--timeout", "1500", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--test-threads=1", "--exact"])
        .args(names)
        .output()
        .expect("run scripts/uml/run");
    let text = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}\n{errors}");
    world::pass_on_skips(&text, &errors);
    let passed = format!("{} passed", names.len());
    assert!(
        text.contains(&passed),
        "not all {passed} in the guest:\n{text}"
    );
}
