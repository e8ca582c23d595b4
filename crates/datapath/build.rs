//! Compiles `bpf/evenkeel.bpf.c` with clang and strips what only debuggers read.

use std::path::PathBuf;
use std::process::{Command, exit};

const SOURCE: &str = "bpf/evenkeel.bpf.c";

fn main() {
    for path in ["bpf", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let object = out.join("evenkeel.bpf.o");
    let named = std::env::var("CLANG").ok();
    let candidates = ["clang", "clang-19", "clang-16", "clang-15", "clang-14"];
    let Some(clang) = named
        .as_deref()
        .into_iter()
        .chain(candidates)
        .find(|c| Command::new(c).arg("--version").output().is_ok())
    else {
        fail("clang is missing: apt-get install clang libbpf-dev (or name it in CLANG)");
    };
    let mut command = Command::new(clang);
    command
        .args(["-target", "bpf", "-mcpu=v2", "-O2", "-g"])
        .args(["-Wall", "-Wextra", "-Werror", "-ffile-prefix-map=bpf="])
        // Debian keeps asm/types.h here, which clang does not look for when it compiles for BPF.
        .arg(format!(
            "-I/usr/include/{}-linux-gnu",
            std::env::consts::ARCH
        ))
        .args(["-c", SOURCE, "-o"])
        .arg(&object);
    match command.output() {
        Ok(o) if o.status.success() => {}
        Ok(o) => {
            let said = String::from_utf8_lossy(&o.stderr);
            if said.contains("bpf_helpers.h") {
                fail("the headers of libbpf are missing: apt-get install libbpf-dev");
            }
            fail(&said);
        }
        Err(e) => fail(&format!("run {clang}: {e}")),
    }
}

fn fail(why: &str) -> ! {
    for line in why.lines() {
        println!("cargo::error={line}");
    }
    exit(1)
}
