//! Control groups of version 2, as the kernel numbers them.
//!
//! Non-goals: what runs in them.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// A control group's id and how far it is below the root.
pub(crate) fn control_group(path: &str) -> Result<(u64, u8), String> {
    let names: Vec<&str> = path.split('/').filter(|n| !n.is_empty()).collect();
    let root = control_groups().ok_or("no control groups of version 2 are mounted")?;
    let place = root.join(names.join("/"));
    let found = std::fs::metadata(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    let level = u8::try_from(names.len()).map_err(|_| "it is too deep".to_owned())?;
    Ok((found.ino(), level))
}

/// Where control groups of version 2 are mounted.
pub fn control_groups() -> Option<PathBuf> {
    // proc_pid_mountinfo(5): mount point in the fifth field, the type after a lone hyphen.
    let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (mount, rest) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?;
        rest.starts_with("cgroup2 ").then(|| PathBuf::from(point))
    })
}
