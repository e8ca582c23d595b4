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

use crate::lock;

/// The crate whose dependencies count.
const CRATE: &str = "lab";
/// How the names of its packages begin.
const OF_THIS_WORKSPACE: &str = "evenkeel-";
/// Files outside the crates: how guests' kernels are made.
const BESIDE: [&str; 3] = [
    "scripts/uml/virtual.config",
    "scripts/uml/virtual.patch",
    "scripts/uml/xstate.c",
];
/// Crates that only show what was measured.
const SHOWS: [&str; 2] = ["report", "terminal"];
/// Files of the lab that only start what is measured, or say what it depends on: its command line, the
/// pages, and this rule itself.
const STARTS: [&str; 5] = [
    "crates/lab/src/bin/",
    "crates/lab/src/pages.rs",
    "crates/lab/src/code.rs",
    "crates/lab/src/identity.rs",
    "crates/lab/src/lock.rs",
];
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

/// The sources that something measured depends on.
pub(crate) struct Sources {
    /// Below the workspace's root, in a fixed order.
    pub(crate) files: Vec<String>,
    /// What of `Cargo.lock` the crates are built from, and of the workspace's manifest.
    versions: String,
}

impl Sources {
    /// What a cell depends on, for some scope, below the workspace's `root`.
    ///
    /// Errors: a crate or a file that a manifest or this file names cannot be read.
    pub(crate) fn of_the_lab(root: &Path) -> io::Result<Self> {
        Sources::of(root, &crates(root)?, &BESIDE)
    }

    /// What these crates are built from, whatever they depend on apart.
    ///
    /// Errors: as above.
    pub(crate) fn of_crates(root: &Path, names: &[String]) -> io::Result<Self> {
        Sources::of(root, &names.iter().cloned().collect(), &[])
    }

    fn of(root: &Path, crates: &BTreeSet<String>, beside: &[&str]) -> io::Result<Self> {
        let mut files: BTreeSet<String> = beside.iter().map(|&f| f.to_owned()).collect();
        let locked = fs::read_to_string(root.join("Cargo.lock"))?;
        let mut needed = BTreeSet::new();
        for name in crates {
            collect(root, &Path::new("crates").join(name), &mut files)?;
            let manifest = manifest_of(root, name)?;
            let package = lock::value(&manifest, "name");
            let dependencies = lock::dependencies(&manifest);
            needed.extend(lock::roots(&locked, package, &dependencies));
        }
        // Those of this workspace count by their sources.
        needed.retain(|d| !d.starts_with(OF_THIS_WORKSPACE));
        files.retain(|f| !STARTS.iter().any(|s| f.starts_with(s)));
        let reached = lock::reached(&locked, &needed);
        let workspace = fs::read_to_string(root.join("Cargo.toml"))?;
        Ok(Sources {
            files: files.into_iter().collect(),
            versions: lock::manifest(&workspace, &reached) + &reached,
        })
    }

    /// The checksum of what counts for `scope`.
    ///
    /// Errors: a file cannot be read.
    pub(crate) fn checksum(&self, root: &Path, scope: Scope) -> io::Result<String> {
        // FNV-1a, 64 bits.
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |bytes: &[u8]| {
            for b in bytes {
                sum = (sum ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        add(self.versions.as_bytes());
        for file in self.files.iter().filter(|f| scope.counts(f)) {
            add(file.as_bytes());
            add(&essence(file, &fs::read(root.join(file))?));
        }
        Ok(format!("{sum:016x}"))
    }
}

fn manifest_of(root: &Path, name: &str) -> io::Result<String> {
    fs::read_to_string(root.join("crates").join(name).join("Cargo.toml"))
}

/// The lab and the crates of this workspace that it depends on, save those that only show.
fn crates(root: &Path) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut next = vec![CRATE.to_owned()];
    while let Some(name) = next.pop() {
        if SHOWS.contains(&name.as_str()) || !found.insert(name.clone()) {
            continue;
        }
        let needed = lock::dependencies(&manifest_of(root, &name)?);
        let ours = |d: &String| Some(d.strip_prefix(OF_THIS_WORKSPACE)?.to_owned());
        next.extend(needed.iter().filter_map(ours));
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
