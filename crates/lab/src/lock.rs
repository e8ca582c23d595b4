//! Which packages a set of crates is built from, by the manifests and `Cargo.lock`.
//!
//! Principles: only what those crates need counts, so that another version of what merely draws a page
//! or a terminal makes no measurement old. Shared by the build script. Non-goals: which crates those are
//! (`identity`), features of one package that another one asks for.

use std::collections::{BTreeMap, BTreeSet};

/// Packages that do nothing by themselves, which a feature of a package brings that others share:
/// `hashbrown` takes an allocator as a parameter because `ratatui` wants that.
const INTERFACES: [&str; 1] = ["allocator-api2"];
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

/// The packages of `Cargo.lock` that `roots` need, themselves among them: name, version and checksum of
/// each, a line. A root is `name`, or `name version` where the lock file has several of that name.
pub(crate) fn reached(lock: &str, roots: &BTreeSet<String>) -> String {
    let packages: Vec<&str> = lock.split("[[package]]\n").skip(1).collect();
    let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, package) in packages.iter().enumerate() {
        let name = value(package, "name");
        let version = value(package, "version");
        by_name
            .entry(format!("{name} {version}"))
            .or_default()
            .push(i);
        by_name.entry(name.to_owned()).or_default().push(i);
    }
    let mut found = BTreeSet::new();
    let mut next: Vec<String> = roots.iter().cloned().collect();
    while let Some(name) = next.pop() {
        for &i in by_name.get(&name).into_iter().flatten() {
            if found.insert(i) {
                next.extend(needs(packages[i]));
            }
        }
    }
    let is_code = |i: &usize| !INTERFACES.contains(&value(packages[*i], "name"));
    let line = |i: usize| {
        let of = |key| value(packages[i], key);
        format!("{} {} {}\n", of("name"), of("version"), of("checksum"))
    };
    found.into_iter().filter(is_code).map(line).collect()
}

/// Of the packages that a crate of this workspace needs, by its own entry in `Cargo.lock`, those that
/// its manifest's `dependencies` name: with their versions where the lock file has several.
pub(crate) fn roots(lock: &str, name: &str, dependencies: &BTreeSet<String>) -> BTreeSet<String> {
    let packages = lock.split("[[package]]\n").skip(1);
    let own = packages.filter(|p| value(p, "name") == name);
    let is_named = |d: &String| {
        let package = d.split(' ').next().unwrap_or_default();
        dependencies.contains(package)
    };
    own.flat_map(needs).filter(is_named).collect()
}

/// What stands behind a key of an entry, or of a manifest.
pub(crate) fn value<'a>(package: &'a str, key: &str) -> &'a str {
    let mut lines = package.lines();
    let line = lines.find_map(|l| l.strip_prefix(key)?.strip_prefix(" = \""));
    line.map_or("", |l| l.trim_end_matches('"'))
}

/// What a package needs: `name`, or `name version` where the lock file has several of that name.
fn needs(package: &str) -> impl Iterator<Item = String> {
    let entries = package.lines().filter_map(|l| l.strip_prefix(" \""));
    entries.map(|l| {
        let mut words = l.trim_end_matches(['"', ',']).split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next());
        version.map_or_else(|| name.to_owned(), |v| format!("{name} {v}"))
    })
}

/// The workspace's manifest without lints and without the versions of packages that `lock`, as
/// [`reached`] gives it, does not have.
pub(crate) fn manifest(workspace: &str, lock: &str) -> String {
    let needed: BTreeSet<&str> = lock.lines().filter_map(|l| l.split(' ').next()).collect();
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

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1\"\nchecksum = \"11\"\ndependencies = [\n \"b\",\n \"c 2\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"1\"\n\n[[package]]\nname = \"c\"\nversion = \"1\"\n\n[[package]]\nname = \"c\"\nversion = \"2\"\ndependencies = [\n \"a\",\n]\n";

    #[test]
    fn only_what_is_needed_is_reached_and_circles_end() {
        let names = |roots: &[&str]| -> Vec<String> {
            let roots = roots.iter().map(|&r| r.to_owned()).collect();
            reached(LOCK, &roots).lines().map(str::to_owned).collect()
        };
        assert_eq!(names(&["a"]), ["a 1 11", "b 1 ", "c 2 "]);
        assert_eq!(names(&["b"]), ["b 1 "]);
        assert!(names(&["unknown"]).is_empty());
    }

    #[test]
    fn roots_have_the_versions_that_a_crate_uses() {
        let of = |names: &[&str]| -> Vec<String> {
            let names = names.iter().map(|&n| n.to_owned()).collect();
            roots(LOCK, "a", &names).into_iter().collect()
        };
        assert_eq!(of(&["b", "c"]), ["b", "c 2"]);
        assert_eq!(of(&["c"]), ["c 2"]);
    }

    /// Another crate of this workspace may bring a second version of something: the lock file then
    /// names the first one's version wherever it is needed, and nothing else has changed.
    #[test]
    fn a_second_version_elsewhere_changes_nothing() {
        let more =
            LOCK.replace(" \"b\",", " \"b 1\",") + "\n[[package]]\nname = \"b\"\nversion = \"2\"\n";
        let roots = |lock: &str| roots(lock, "a", &BTreeSet::from(["b".to_owned()]));
        let before = reached(LOCK, &roots(LOCK));
        assert_eq!(reached(&more, &roots(&more)), before);
    }

    #[test]
    fn a_manifest_names_what_it_is_built_from() {
        let text = "[package]\nname = \"x\"\n\n[dependencies]\nevenkeel-core.workspace = true\n# a comment\nserde = { version = \"1\",\n  features = [] }\n\n[dependencies.resvg]\nversion = \"1\"\n\n[dev-dependencies]\nproptest = \"1\"\n\n[build-dependencies]\nbtf-rs = \"1\"\n";
        let found: Vec<String> = dependencies(text).into_iter().collect();
        assert_eq!(found, ["btf-rs", "evenkeel-core", "resvg", "serde"]);
    }

    #[test]
    fn of_the_workspace_profiles_and_needed_versions_count() {
        let of = |text: &str| manifest(text, "a 1 \n");
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
