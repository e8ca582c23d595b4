//! Compiles what guests' kernels need preloaded on CPUs that are newer than they are
//! (scripts/uml/xstate.c), for [`include_bytes!`].

use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "../../scripts/uml/xstate.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let status = Command::new("cc")
        .args([
            "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o",
        ])
        .arg(out.join("xstate.so"))
        .arg(SOURCE)
        .status()
        .expect("cc, which Rust links with, is there (Debian: build-essential)");
    assert!(status.success(), "cc {SOURCE}: {status}");
}
