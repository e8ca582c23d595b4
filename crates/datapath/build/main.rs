//! Compiles `bpf/evenkeel.bpf.c` with clang, and makes Rust of the types that it shares with its loader.
//!
//! Principles: the C headers are the only description of what stands in maps; a struct that cannot be
//! read as it is laid out is an error here. Non-goals: what the values mean (`src/values`).

use std::path::{Path, PathBuf};
use std::process::exit;

mod clang;
mod layout;
mod strip;

use clang::Clang;

/// The programs.
const PROGRAMS: &str = "bpf/evenkeel.bpf.c";
/// What they share with their loader.
const SHARED: &str = "bpf/layout.c";

fn main() {
    for path in ["bpf", "build"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    if let Err(why) = build(&out) {
        for line in why.lines() {
            println!("cargo::error={line}");
        }
        exit(1);
    }
}

fn build(out: &Path) -> Result<(), String> {
    let clang = Clang::find()?;
    let compile = |source: &str, name: &str| {
        let object = out.join(name);
        let to = object.to_string_lossy();
        clang.run(Path::new("."), &["-fno-addrsig", "-c", source, "-o", &to])?;
        Ok::<_, String>(object)
    };
    strip::debug_sections(&compile(PROGRAMS, "evenkeel.bpf.o")?)?;
    let rust = layout::generate(&compile(SHARED, "layout.o")?)?;
    let to = out.join("layout.rs");
    std::fs::write(&to, rust).map_err(|e| format!("write {}: {e}", to.display()))
}
