//! Which packages a set of crates is built from, by the manifests and `Cargo.lock`.
//!
//! Principles: only what those crates need counts, so that another version of what merely draws a page
//! or a terminal makes no measurement old. Shared by the build script. Non-goals: which crates those are
//! (`identity`), features of one package that another one asks for.

use std::collections::{BTreeMap, BTreeSet};

/// The sections of a manifest that name what a crate is built from.
const SECTIONS: [&str; 2] = ["dependencies", "build-dependencies"];

/// A section of a manifest: its name and its lines.
fn sections(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = manifest.split("\n[").enumerate();
    parts.filter_map(|(i, part)| match (i, part.strip_prefix('[')) {
        // Before the first section there are only comments.
        (0, None) => None,
        (0, Some(part)) => part.split_once(']'),
        _ => part.split_once(']'),
    })
}

/// The packages that a crate's manifest says it is built from, tests apart.
pub(crate) fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (name, lines) in sections(manifest) {
        if SECTIONS.contains(&name) {
            let named = |l: &str| Some(l.split_once(['.', ' ', '='])?.0.to_owned());
            let lines = lines.lines().filter(|l| !l.starts_with(['#', ' ']));
            found.extend(lines.filter_map(named));
        } else if let Some((section, package)) = name.split_once('.')
            && SECTIONS.contains(&section)
        {
            found.insert(package.to_owned());
        }
    }
    found
}

/// `Cargo.lock`, as far as these packages of it (by name) and what they need are concerned.
pub(crate) fn reached(lock: &str, roots: &BTreeSet<String>) -> String {
    let packages: Vec<&str> = lock.split("[[package]]\n").skip(1).collect();
    let line = |package: &str, key: &str| -> Option<String> {
        let mut lines = package.lines();
        let value = lines.find_map(|l| l.strip_prefix(key))?;
        Some(value.trim_matches([' ', '=', '"']).to_owned())
    };
    // A dependency is "name", or "name version" where the lock file has several of that name.
    let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, package) in packages.iter().enumerate() {
        let (name, version) = (line(package, "name"), line(package, "version"));
        let (name, version) = (name.unwrap_or_default(), version.unwrap_or_default());
        by_name
            .entry(format!("{name} {version}"))
            .or_default()
            .push(i);
        by_name.entry(name).or_default().push(i);
    }
    let mut found = BTreeSet::new();
    let mut next: Vec<String> = roots.iter().cloned().collect();
    while let Some(name) = next.pop() {
        for &i in by_name.get(&name).into_iter().flatten() {
            if found.insert(i) {
                let entries = packages[i].lines().filter_map(|l| l.strip_prefix(" \""));
                next.extend(entries.filter_map(|l| {
                    let words: Vec<&str> = l.trim_end_matches(['"', ',']).split(' ').collect();
                    words.get(..words.len().min(2)).map(|w| w.join(" "))
                }));
            }
        }
    }
    let texts: Vec<&str> = found.into_iter().map(|i| packages[i].trim_end()).collect();
    texts.join("\n")
}

/// The workspace's manifest without lints and without the versions of packages that `lock`, as
/// [`reached`] gives it, does not have.
pub(crate) fn manifest(workspace: &str, lock: &str) -> String {
    let needed: BTreeSet<&str> = lock
        .lines()
        .filter_map(|l| Some(l.strip_prefix("name = \"")?.trim_end_matches('"')))
        .collect();
    let mut kept = String::new();
    for (name, lines) in sections(workspace) {
        if name.starts_with("workspace.lints") {
            continue;
        }
        for line in lines
            .lines()
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            let package = line.split_once(" = ").map_or("", |(package, _)| package);
            if name != "workspace.dependencies" || needed.contains(package) {
                kept.push_str(&format!("{name}: {line}\n"));
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1\"\ndependencies = [\n \"b\",\n \"c 2\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"1\"\n\n[[package]]\nname = \"c\"\nversion = \"1\"\n\n[[package]]\nname = \"c\"\nversion = \"2\"\ndependencies = [\n \"a\",\n]\n";

    #[test]
    fn only_what_is_needed_is_reached_and_circles_end() {
        let names = |roots: &[&str]| -> Vec<String> {
            let roots = roots.iter().map(|&r| r.to_owned()).collect();
            let lock = reached(LOCK, &roots);
            let lines = lock
                .lines()
                .filter(|l| l.starts_with("name") || l.starts_with("version"));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(
            names(&["a"]).join(" "),
            "name = \"a\" version = \"1\" name = \"b\" version = \"1\" name = \"c\" version = \"2\""
        );
        assert_eq!(names(&["b"]).len(), 2);
        assert!(names(&["unknown"]).is_empty());
    }

    #[test]
    fn a_manifest_names_what_it_is_built_from() {
        let text = "[package]\nname = \"x\"\n\n[dependencies]\nevenkeel-core.workspace = true\n# a comment\nserde = { version = \"1\",\n  features = [] }\n\n[dependencies.resvg]\nversion = \"1\"\n\n[dev-dependencies]\nproptest = \"1\"\n\n[build-dependencies]\nbtf-rs = \"1\"\n";
        let found: Vec<String> = dependencies(text).into_iter().collect();
        assert_eq!(found, ["btf-rs", "evenkeel-core", "resvg", "serde"]);
    }

    #[test]
    fn of_the_workspace_profiles_and_needed_versions_count() {
        let of = |text: &str| manifest(text, "name = \"a\"\n");
        let text = "[workspace]\nmembers = []\n\n[workspace.dependencies]\na = \"1\"\nb = \"1\"\n\n[workspace.lints.rust]\nx = \"deny\"\n\n[profile.release]\nlto = true\n";
        let before = of(text);
        assert_eq!(
            of(&text.replace("b = \"1\"", "b = \"2\"\nc = \"1\"")),
            before
        );
        assert_eq!(of(&text.replace("deny", "warn")), before);
        assert_ne!(of(&text.replace("a = \"1\"", "a = \"2\"")), before);
        assert_ne!(of(&text.replace("lto = true", "lto = false")), before);
    }
}
