//! Compiles what guests' kernels need preloaded on CPUs that are newer than they are
//! (scripts/uml/xstate.c), for [`include_bytes!`]; and gives the crate the identity of the code that
//! a cell depends on (`src/identity.rs`).

#[allow(dead_code)] // The crate itself asks for more.
#[path = "src/identity.rs"]
mod identity;
#[allow(dead_code)]
#[path = "src/lock.rs"]
mod lock;

use std::path::{Path, PathBuf};
use std::process::Command;

use identity::{Scope, Sources};

const ROOT: &str = "../..";
const XSTATE: &str = "../../scripts/uml/xstate.c";

fn main() {
    xstate();
    code();
}

fn xstate() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let status = Command::new("cc")
        .args([
            "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o",
        ])
        .arg(out.join("xstate.so"))
        .arg(XSTATE)
        .status()
        .expect("cc, which Rust links with, is there (Debian: build-essential)");
    assert!(status.success(), "cc {XSTATE}: {status}");
}

fn code() {
    let root = Path::new(ROOT);
    let sources = Sources::of_the_lab(root).expect("the workspace's sources can be read");
    // Directories as well, so that a new file is seen.
    println!("cargo::rerun-if-changed={ROOT}/crates");
    for file in sources
        .files
        .iter()
        .map(String::as_str)
        .chain(["Cargo.lock", "Cargo.toml"])
    {
        println!("cargo::rerun-if-changed={ROOT}/{file}");
    }
    for (name, scope) in [
        ("AUTO", Scope::Auto),
        ("TOLD", Scope::Told),
        ("PEER", Scope::Peer),
    ] {
        let sum = sources
            .checksum(root, scope)
            .expect("the workspace's sources can be read");
        println!("cargo::rustc-env=EVENKEEL_CODE_{name}={sum}");
    }
}
