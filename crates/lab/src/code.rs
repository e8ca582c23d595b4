//! The identity of the code that measured a cell, by what its condition runs.
//!
//! Principles: computed when this crate is built, from the sources themselves
//! (`identity`). Non-goals: the rest of what a cell depends on (`cell_cache`).

use crate::identity::Scope;

/// A checksum of the code that a cell of this condition depends on.
pub fn code_of(condition: &str) -> &'static str {
    match scope_of(condition) {
        Scope::Auto => env!("EVENKEEL_CODE_AUTO"),
        Scope::Told => env!("EVENKEEL_CODE_TOLD"),
        Scope::Peer => env!("EVENKEEL_CODE_PEER"),
    }
}

/// Which code a condition of this name runs.
pub(crate) fn scope_of(condition: &str) -> Scope {
    let is = |name: &str| {
        let rest = condition.strip_prefix(name);
        rest.is_some_and(|r| r.is_empty() || r.starts_with('-'))
    };
    if is("evenkeel-auto") {
        Scope::Auto
    } else if is("evenkeel") {
        Scope::Told
    } else {
        Scope::Peer
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::Scope;
    use crate::identity::Sources;

    const LOCK: &str = "[[package]]\nname = \"a\"\nversion = \"1\"\n\n[[package]]\nname = \"evenkeel-datapath\"\nversion = \"0\"\ndependencies = [\n \"a\",\n]\n";

    /// A workspace of these files.
    fn workspace(files: &BTreeMap<&str, &str>) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn sources<'a>() -> BTreeMap<&'a str, &'a str> {
        BTreeMap::from([
            ("Cargo.lock", LOCK),
            ("Cargo.toml", "[profile.release]\nlto = true\n"),
            ("scripts/uml/virtual.config", ""),
            ("scripts/uml/virtual.patch", ""),
            ("scripts/uml/xstate.c", ""),
            (
                "crates/lab/Cargo.toml",
                "[package]\n\n[dependencies]\nevenkeel-autorate.workspace = true\nevenkeel-report = { path = \"x\" }\n\n[dev-dependencies]\nevenkeel-fancy.workspace = true\n",
            ),
            ("crates/lab/src/lib.rs", "fn lab() {}\n"),
            (
                "crates/autorate/Cargo.toml",
                "[dependencies]\nevenkeel-datapath.workspace = true\n",
            ),
            ("crates/autorate/src/lib.rs", "fn follow() {}\n"),
            (
                "crates/datapath/Cargo.toml",
                "[package]\nname = \"evenkeel-datapath\"\n\n[dependencies]\na = \"1\"\n",
            ),
            ("crates/datapath/bpf/x.bpf.c", "int x;\n"),
            ("crates/report/Cargo.toml", ""),
            ("crates/report/src/lib.rs", "fn show() {}\n"),
        ])
    }

    fn sums(sources: &BTreeMap<&str, &str>) -> [String; 3] {
        let dir = workspace(sources);
        let sources = Sources::of_the_lab(dir.path()).unwrap();
        [Scope::Auto, Scope::Told, Scope::Peer].map(|s| sources.checksum(dir.path(), s).unwrap())
    }

    /// Which of the three sums a change changes.
    fn changes<'a>(file: &'a str, text: &'a str) -> [bool; 3] {
        let mut changed: BTreeMap<&'a str, &'a str> = sources();
        changed.insert(file, text);
        let pairs = sums(&sources()).into_iter().zip(sums(&changed));
        let differ: Vec<bool> = pairs.map(|(a, b)| a != b).collect();
        differ.try_into().unwrap()
    }

    #[test]
    fn every_new_file_of_what_the_lab_is_built_from_counts() {
        assert_eq!(changes("crates/lab/src/new.rs", "fn f() {}"), [true; 3]);
        assert_eq!(changes("crates/lab/build.rs", "fn main() {}"), [true; 3]);
        let lock = LOCK.replacen("\"1\"", "\"2\"", 1);
        assert_eq!(changes("Cargo.lock", &lock), [true; 3]);
        let profile = "[profile.release]\nlto = false\n";
        assert_eq!(changes("Cargo.toml", profile), [true; 3]);
        assert_eq!(changes("scripts/uml/virtual.config", "A=y"), [true; 3]);
        let program = changes("crates/datapath/bpf/new.h", "int y;");
        assert_eq!(program, [true, true, false]);
        let daemon = changes("crates/autorate/src/new.rs", "fn f() {}");
        assert_eq!(daemon, [true, false, false]);
    }

    #[test]
    fn what_changes_no_measurement_does_not() {
        for (file, text) in [
            ("crates/report/src/lib.rs", "fn other() {}"),
            ("crates/report/Cargo.toml", "[dependencies]\nb = \"1\"\n"),
            (
                "Cargo.toml",
                "[workspace.dependencies]\nb = \"1\"\n\n[profile.release]\nlto = true\n",
            ),
            ("crates/lab/tests/new.rs", "fn f() {}"),
            ("crates/lab/src/bin/evenkeel-lab/main.rs", "fn main() {}"),
            ("crates/lab/src/tests.rs", "fn f() {}"),
            (
                "crates/lab/src/lib.rs",
                "//! Words.\n\n    fn lab() {}\n\n#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n",
            ),
        ] {
            assert_eq!(changes(file, text), [false; 3], "{file}");
        }
        let more = format!("{LOCK}\n[[package]]\nname = \"b\"\nversion = \"1\"\n");
        assert_eq!(changes("Cargo.lock", &more), [false; 3]);
        let behind = "fn lab() {}\n#[cfg(test)]\nmod tests {\n}\nfn more() {}\n";
        assert_eq!(changes("crates/lab/src/lib.rs", behind), [true; 3]);
    }

    /// What this build has is what its sources say, with the daemon and the programs among them.
    #[test]
    fn the_daemon_and_the_programs_are_in_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = Sources::of_the_lab(&root).unwrap();
        for file in [
            "crates/autorate/src/daemon.rs",
            "crates/measure/src/lib.rs",
            "crates/datapath/bpf/evenkeel.bpf.c",
            "crates/datapath/build/main.rs",
            "crates/core/src/control/mod.rs",
            "crates/kernel/src/live.rs",
        ] {
            assert!(sources.files.iter().any(|f| f == file), "{file}");
        }
        for (scope, condition) in [
            (Scope::Auto, "evenkeel-auto"),
            (Scope::Told, "evenkeel-htb"),
            (Scope::Peer, "cake-95"),
        ] {
            let now = sources.checksum(&root, scope).unwrap();
            assert_eq!(now, super::code_of(condition), "{condition}");
        }
    }

    /// Conditions of others run none of the code that their cells' identity leaves out.
    #[test]
    fn peers_run_nothing_of_ours() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut places = vec![root.join("peers")];
        let mut looked_at = 0;
        while let Some(place) = places.pop() {
            for entry in fs::read_dir(&place).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    places.push(path);
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                looked_at += 1;
                for name in [
                    "evenkeel_autorate",
                    "evenkeel_datapath",
                    "core::control",
                    "fluid",
                ] {
                    assert!(!text.contains(name), "{}: {name}", path.display());
                }
            }
        }
        assert!(looked_at > 4);
    }
}
