//! `--to auto`: a far end from a list of the user's own, once he has agreed.
//!
//! Principles: no list comes with the program; what a run moves is said before; without a terminal to ask
//! at, only `--yes` agrees. Non-goals: finding servers.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use evenkeel_terminal::Failure;

/// The entries of a list: one to a line, `#` begins a remark.
fn entries(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .map(|l| l.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|l| !l.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

/// What a run may move, for `seconds` of load in `ways` directions.
fn moves(seconds: u16, ways: u32) -> String {
    // 100 Mbit/s for a second are 12.5 MB.
    let megabytes = 12.5 * f64::from(seconds) * f64::from(ways);
    format!("as much as your line carries in {seconds} s: at 100 Mbit/s {megabytes:.0} MB")
}

/// The first entry of `list`, if the user agrees.
pub(crate) fn choose(list: &Path, seconds: u16, ways: u32, yes: bool) -> Result<String, Failure> {
    let text = std::fs::read_to_string(list).map_err(|e| {
        Failure::usage(format_args!(
            "read {}: {e}; write far ends into it, one to a line, or give --to HOST",
            list.display()
        ))
    })?;
    let found = entries(&text).into_iter().next();
    let found =
        found.ok_or_else(|| Failure::usage(format_args!("{} has no far end", list.display())))?;
    eprintln!(
        "{found} will be loaded by {}. Nothing is sent to it but that.",
        moves(seconds, ways)
    );
    if yes {
        return Ok(found);
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "there is no terminal to ask at: agree with --yes",
        ));
    }
    eprint!("Go on? [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let _ = std::io::stdin().read_line(&mut answer);
    if answer.trim().eq_ignore_ascii_case("y") {
        Ok(found)
    } else {
        Err(Failure::work("nothing was measured"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_remarks() {
        let text = "# mine\n\n  vps.example  # rented\niperf3://other\n";
        assert_eq!(entries(text), ["vps.example", "iperf3://other"]);
        assert!(entries("#\n \n").is_empty());
        assert!(moves(60, 2).ends_with("1500 MB"));
    }
}
