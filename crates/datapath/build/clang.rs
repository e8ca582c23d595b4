//! The C compiler for BPF, and the flags with which everything in `bpf/` is compiled.
//!
//! Principles: `CLANG` names one, else the first that answers; what it says is the error. Shared by the
//! build script and the tests that compile C. Non-goals: other targets.

use std::path::Path;
use std::process::Command;

/// A compiler that answers.
pub(crate) struct Clang(String);

impl Clang {
    /// The one that `CLANG` names, or the first that is installed.
    ///
    /// # Errors
    /// What to install.
    pub(crate) fn find() -> Result<Self, String> {
        let named = std::env::var("CLANG").ok();
        let candidates = ["clang", "clang-19", "clang-16", "clang-15", "clang-14"];
        named
            .as_deref()
            .into_iter()
            .chain(candidates)
            .find(|c| Command::new(c).arg("--version").output().is_ok())
            .map(|c| Clang(c.to_owned()))
            .ok_or_else(|| {
                "clang is missing: apt-get install clang libbpf-dev (or name it in CLANG)".into()
            })
    }

    /// Runs it in `dir` for BPF, with every warning an error.
    ///
    /// # Errors
    /// Its own words, or what to install.
    pub(crate) fn run(&self, dir: &Path, arguments: &[&str]) -> Result<(), String> {
        // Debian keeps asm/types.h here, which clang does not look for when it compiles for BPF.
        let system = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
        let ran = Command::new(&self.0)
            .current_dir(dir)
            .args(["-target", "bpf", "-mcpu=v2", "-O2", "-g"])
            .args(["-Wall", "-Wextra", "-Werror", "-ffile-prefix-map=bpf="])
            .arg(system)
            .args(arguments)
            .output()
            .map_err(|e| format!("run {}: {e}", self.0))?;
        if ran.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        if said.contains("'bpf/bpf_helpers.h' file not found") {
            return Err("the headers of libbpf are missing: apt-get install libbpf-dev".into());
        }
        Err(said)
    }
}
