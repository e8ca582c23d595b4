//! Takes from this process what it does not need.
//!
//! Principles: another user than root; no file can be written or made, and only those can be read that names of hosts
//! are looked up with and what programs need (Landlock, where the kernel has it); no more descriptors than clients need. Non-goals: system
//! calls (the service's unit filters them).

use std::path::Path;

use evenkeel_sys::child;
use evenkeel_terminal::Failure;
use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
};

/// What names of hosts and time zones are looked up with.
const READ: [&str; 6] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/run/systemd/resolve",
    "/run/resolvconf",
];

/// What a measurement looks at, to say whether it was disturbed: how busy this machine is, and what devices carry.
const MEASURES: [&str; 3] = ["/proc/stat", "/sys/class/net", "/sys/devices"];

/// Before anything is read from anybody. `runs` may be run, where there is such a program.
pub(crate) fn confine(socket: &Path, runs: Option<&Path>) -> Result<(), Failure> {
    child::become_nobody()
        .map_err(|e| Failure::work(format_args!("give up root's rights: {e}")))?;
    files(runs).map_err(|e| Failure::work(format_args!("give up files: {e}")))?;
    // Said now rather than with each page: a wrong path is a slip.
    if !socket.exists() {
        eprintln!(
            "evenkeel-web: warning: {}: there is no such socket yet",
            socket.display()
        );
    }
    Ok(())
}

fn files(runs: Option<&Path>) -> Result<(), RulesetError> {
    let read = AccessFs::from_read(ABI::V4);
    let run = AccessFs::Execute | AccessFs::ReadFile;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V4))?
        .create()?;
    let mut places: Vec<_> = READ.map(|place| (Path::new(place), read)).into();
    if let Some(program) = runs {
        places.push((program, run));
        places.extend(MEASURES.map(|place| (Path::new(place), read)));
    }
    for (place, access) in places {
        if let Ok(place) = PathFd::new(place) {
            rules = rules.add_rule(PathBeneath::new(place, access))?;
        }
    }
    rules.restrict_self()?;
    Ok(())
}
