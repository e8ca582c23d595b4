//! Man pages and shell completions of the program that it is built into, for its packages.
//!
//! Principles: all of it comes from the definition of the command line, nothing is written by hand;
//! programs that people get do not have it (feature `manual`). Non-goals: where the files are
//! installed (`scripts/deb`).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::Failure;

/// The only arguments that are looked for: `PROGRAM --write-manual DIR`.
const OPTION: &str = "--write-manual";
/// Shells that Debian's packages bring completions for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes the pages if `args` ask for that, and says how that went.
pub(crate) fn asked(command: Command, args: &[OsString]) -> Option<ExitCode> {
    let [_, option, dir] = args else { return None };
    (option == OPTION).then(|| match write(command, Path::new(dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => Failure::work(format_args!("write {}: {e}", Path::new(dir).display())).report(),
    })
}

/// Man pages of `command` and all that is below it to `dir/man`, completions to `dir/completions`.
fn write(command: Command, dir: &Path) -> io::Result<()> {
    let [pages, completions] = ["man", "completions"].map(|name| dir.join(name));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    let name = command.get_name().to_owned();
    // This adds `help` to a command, which needs no pages.
    let mut helped = command.clone();
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut helped, &name, &completions)?;
    }
    clap_mangen::generate_to(command, &pages)
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn each_command_has_a_page_and_each_shell_its_words() {
        let command = || {
            let hidden = Arg::new("dir").long("dir").hide(true);
            let rate = Arg::new("rate").long("rate").help("The line's rate");
            let lines = Command::new("lines").about("Drawn lines").arg(rate);
            let lab = Command::new("lab").subcommand(lines.arg(hidden));
            let inside = Command::new("inside").hide(true);
            Command::new("keel").version("1").subcommands([lab, inside])
        };
        let dir = tempfile::tempdir().unwrap();
        let words = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
        let place = dir.path().to_str().unwrap();
        assert!(asked(command(), &words(&["keel", "lab"])).is_none());
        assert!(asked(command(), &words(&["keel", "lab", place])).is_none());
        assert!(asked(command(), &words(&["keel", OPTION, place])).is_some());
        let names = |of: &str| {
            let entries = fs::read_dir(dir.path().join(of)).unwrap();
            let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> = names.collect();
            names.sort();
            names
        };
        assert_eq!(names("man"), ["keel-lab-lines.1", "keel-lab.1", "keel.1"]);
        assert_eq!(names("completions"), ["_keel", "keel.bash", "keel.fish"]);
        let page = fs::read_to_string(dir.path().join("man/keel-lab-lines.1")).unwrap();
        assert!(
            page.contains("The line\\*(Aqs rate") || page.contains("The line\\'s rate"),
            "{page}"
        );
        assert!(!page.contains("dir"), "{page}");
    }
}
