//! A child process that may do nothing that its parent may.
//!
//! Principles: rights are gone before the child's program begins; it ends when its parent does. Non-goals: which files
//! it may read (it confines itself).

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::unistd::{User, geteuid, setgid, setgroups, setuid};

/// Who a child of root's is, the first that there is.
const NAMES: [&str; 2] = ["evenkeel", "nobody"];

/// Prepares `command` so that its process has no rights: no capabilities, none to gain, and another user than root.
/// Returns the user that it will be.
///
/// Errors: we are root, and there is no other user.
pub fn without_rights(command: &mut Command) -> io::Result<u32> {
    let mut user = geteuid();
    if user.is_root() {
        let found = NAMES
            .iter()
            .find_map(|name| User::from_name(name).ok().flatten());
        let Some(found) = found else {
            return Err(io::Error::other(
                "there is neither a user evenkeel nor one nobody",
            ));
        };
        // This also drops all other groups.
        command.uid(found.uid.as_raw()).gid(found.gid.as_raw());
        user = found.uid;
    }
    // SAFETY: between fork and exec only prctl(2) is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let all = [
                (
                    libc::PR_CAP_AMBIENT,
                    libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong,
                ),
                (libc::PR_SET_NO_NEW_PRIVS, 1),
                (libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong),
            ];
            for (option, value) in all {
                if libc::prctl(option, value, 0, 0, 0) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    Ok(user.as_raw())
}

/// Makes this process another user's, if it is root's, for good.
///
/// Errors: there is no other user, or the kernel refuses.
pub fn become_nobody() -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let user = somebody()?;
    setgroups(&[])?;
    setgid(user.gid)?;
    setuid(user.uid)?;
    Ok(())
}

/// Who a process of root's becomes.
fn somebody() -> io::Result<User> {
    let found = NAMES
        .iter()
        .find_map(|name| User::from_name(name).ok().flatten());
    found.ok_or_else(|| io::Error::other("there is neither a user evenkeel nor one nobody"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_no_rights() {
        let mut command = Command::new("cat");
        let user = without_rights(command.arg("/proc/self/status")).unwrap();
        let out = command.output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.contains("CapEff:\t0000000000000000"), "{text}");
        assert!(
            text.contains("CapAmb:\t0000000000000000") && text.contains("NoNewPrivs:\t1"),
            "{text}"
        );
        assert!(
            text.contains(&format!("Uid:\t{user}\t")) && user != 0,
            "{text}"
        );
    }
}
