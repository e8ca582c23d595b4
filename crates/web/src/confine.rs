//! Takes from this process what it does not need.
//!
//! Principles: another user than root; no file can be written or made, and only those can be read that names of hosts
//! are looked up with (Landlock, where the kernel has it); no more descriptors than clients need. Non-goals: system
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

/// Before anything is read from anybody.
pub(crate) fn confine(socket: &Path) -> Result<(), Failure> {
    child::become_nobody()
        .map_err(|e| Failure::work(format_args!("give up root's rights: {e}")))?;
    files().map_err(|e| Failure::work(format_args!("give up files: {e}")))?;
    // Said now rather than with each page: a wrong path is a slip.
    if !socket.exists() {
        eprintln!(
            "evenkeel-web: warning: {}: there is no such socket yet",
            socket.display()
        );
    }
    Ok(())
}

fn files() -> Result<(), RulesetError> {
    let read = AccessFs::from_read(ABI::V4);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V4))?
        .create()?;
    for place in READ {
        if let Ok(place) = PathFd::new(place) {
            rules = rules.add_rule(PathBeneath::new(place, read))?;
        }
    }
    rules.restrict_self()?;
    Ok(())
}
