//! The identity of the code that a measured cell depends on: a checksum of sources.
//!
//! Principles: whatever the lab is built from counts, by the manifests' own dependencies, so that
//! a new file or crate cannot be forgotten; what does not count is named here with its reason; what
//! cannot change a measurement (tests, comments, blank lines, indentation) does not change it. Shared
//! by the build script and a test. Non-goals: the kernel a cell ran on (`guest`), the line and load
//! (the cell's own key).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The crate whose dependencies count.
const CRATE: &str = "lab";
/// Files outside the crates: versions and profile of what is built, and how guests' kernels are made.
const BESIDE: [&str; 5] = [
    "Cargo.lock",
    "Cargo.toml",
    "scripts/uml/virtual.config",
    "scripts/uml/virtual.patch",
    "scripts/uml/xstate.c",
];
/// Crates that only show what was measured.
const SHOWS: [&str; 2] = ["report", "terminal"];
/// The lab's command line only starts what is measured.
const STARTS: &str = "crates/lab/src/bin/";
/// Code of `evenkeel-auto` that no condition which is told its line runs.
const FOLLOWS: [&str; 4] = [
    "crates/autorate/",
    "crates/core/src/control/",
    "crates/core/src/fluid.rs",
    "crates/core/src/fluid/",
];
/// Code of evenkeel's own that no peer runs.
const OURS: [&str; 1] = ["crates/datapath/"];

/// Which code a condition runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// `evenkeel-auto`: all of it.
    Auto,
    /// evenkeel told its line: all but what follows one.
    Told,
    /// Nothing, or another shaper: neither that nor our programs.
    Peer,
}

impl Scope {
    fn counts(self, file: &str) -> bool {
        let any = |list: &[&str]| list.iter().any(|l| file.starts_with(l));
        match self {
            Scope::Auto => true,
            Scope::Told => !any(&FOLLOWS),
            Scope::Peer => !any(&FOLLOWS) && !any(&OURS),
        }
    }
}

/// The files below the workspace's `root` that count for some scope, in a fixed order.
///
/// Errors: a crate or a file that a manifest or this file names cannot be read.
pub(crate) fn files(root: &Path) -> io::Result<Vec<String>> {
    let mut files: BTreeSet<String> = BESIDE.iter().map(|&f| f.to_owned()).collect();
    for name in crates(root)? {
        collect(root, &Path::new("crates").join(name), &mut files)?;
    }
    files.retain(|f| !f.starts_with(STARTS));
    Ok(files.into_iter().collect())
}

/// The checksum of `files` as far as they count for `scope`.
///
/// Errors: one cannot be read.
pub(crate) fn checksum(root: &Path, files: &[String], scope: Scope) -> io::Result<String> {
    // FNV-1a, 64 bits.
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for b in bytes {
            sum = (sum ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files.iter().filter(|f| scope.counts(f)) {
        add(file.as_bytes());
        add(&essence(file, &fs::read(root.join(file))?));
    }
    Ok(format!("{sum:016x}"))
}

/// The checksum of whole crates below the workspace's `root`, and of what they are built with.
///
/// Errors: a crate cannot be read.
pub(crate) fn checksum_of_crates(root: &Path, crates: &[String]) -> io::Result<String> {
    let mut files: BTreeSet<String> = BESIDE[..2].iter().map(|&f| f.to_owned()).collect();
    for name in crates {
        collect(root, &Path::new("crates").join(name), &mut files)?;
    }
    let files: Vec<String> = files.into_iter().collect();
    checksum(root, &files, Scope::Auto)
}

/// The lab and the crates of this workspace that it depends on, save those that only show.
fn crates(root: &Path) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut next = vec![CRATE.to_owned()];
    while let Some(name) = next.pop() {
        let manifest = root.join("crates").join(&name).join("Cargo.toml");
        let text = format!("\n{}", fs::read_to_string(manifest)?);
        if SHOWS.contains(&name.as_str()) || !found.insert(name) {
            continue;
        }
        let dependencies = text
            .split("\n[")
            .filter(|s| s.starts_with("dependencies]") || s.starts_with("build-dependencies]"));
        next.extend(dependencies.flat_map(str::lines).filter_map(|line| {
            let rest = line.strip_prefix("evenkeel-")?;
            let end = rest.find(['.', ' ', '='])?;
            Some(rest[..end].to_owned())
        }));
    }
    Ok(found)
}

fn collect(root: &Path, place: &Path, files: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(place))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path: PathBuf = place.join(name.as_ref());
        if entry.file_type()?.is_dir() {
            let tests = [
                "tests",
                "examples",
                "benches",
                "target",
                "proptest-regressions",
            ];
            if !tests.contains(&name.as_ref()) {
                collect(root, &path, files)?;
            }
        } else if name != "tests.rs" && !name.ends_with("_tests.rs") {
            files.insert(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// What of a source can change what it does: no whole-line comments, blank lines, indentation, nor,
/// in Rust, modules of tests.
fn essence(file: &str, bytes: &[u8]) -> Vec<u8> {
    let is = |end: &str| file.ends_with(end);
    if !(is(".rs") || is(".c") || is(".h")) {
        return bytes.to_vec();
    }
    let text = String::from_utf8_lossy(bytes);
    let mut kept = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if is(".rs") && line == "#[cfg(test)]" {
            // As rustfmt lays it out: to the brace at the beginning of a line.
            if lines.next().is_some_and(|l| !l.ends_with(';')) {
                lines.by_ref().find(|&l| l == "}");
            }
            continue;
        }
        let line = line.trim();
        if !line.is_empty() && !line.starts_with("//") {
            kept.extend_from_slice(line.as_bytes());
            kept.push(b'\n');
        }
    }
    kept
}
