//! Compiles what guests' kernels need preloaded on CPUs that are newer than they are
//! (scripts/uml/xstate.c), for [`include_bytes!`]; and makes a checksum of the code that a
//! measurement depends on, as `EVENKEEL_CODE`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "../../scripts/uml/xstate.c";

fn main() {
    code();
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

const ROOT: &str = "../..";
/// Files and directories that count.
const CODE: [&str; 10] = [
    "Cargo.lock",
    "crates/core/src",
    "crates/wire/src",
    "crates/sys/src",
    "crates/datapath/bpf",
    "crates/datapath/src",
    "crates/kernel/src",
    "crates/measure/src",
    "crates/lab/src",
    "crates/autorate/src",
];

fn code() {
    let mut files = Vec::new();
    for place in CODE {
        let place = Path::new(ROOT).join(place);
        println!("cargo::rerun-if-changed={}", place.display());
        collect(&place, &mut files);
    }
    files.sort();
    // FNV-1a, 64 bits.
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for b in bytes {
            sum = (sum ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files {
        add(file.to_string_lossy().as_bytes());
        add(&fs::read(&file).unwrap_or_default());
    }
    for name in ["RUSTC", "PROFILE", "TARGET"] {
        add(std::env::var(name).unwrap_or_default().as_bytes());
    }
    println!("cargo::rustc-env=EVENKEEL_CODE={sum:016x}");
}

fn collect(place: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(place) else {
        files.push(place.to_owned());
        return;
    };
    for entry in entries.flatten() {
        collect(&entry.path(), files);
    }
}
