//! `lab`, `demo`, `report`: commands of evenkeel-lab; `bench`, `serve`: of evenkeel-bench; where those
//! are installed.
//!
//! Principles: it is looked for beside this program first, then in PATH, as git and cargo find
//! theirs; it takes this process's place, so signals and exit code are its own. Non-goals: what
//! those commands do.

use std::env;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use evenkeel_terminal::Failure;

/// The laboratory.
pub(crate) const NAME: &str = "evenkeel-lab";
/// What measures a real line.
const BENCH: &str = "evenkeel-bench";

/// What follows one of those commands.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Passed {
    /// What that program makes of it
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "..."
    )]
    args: Vec<OsString>,
}

/// Becomes `evenkeel-lab COMMAND ARGS`; returns only if that fails.
pub(crate) fn become_lab(command: &str, passed: Passed) -> Result<(), Failure> {
    become_program(NAME, command, passed)
}

/// Becomes `evenkeel-bench COMMAND ARGS`; returns only if that fails.
pub(crate) fn become_bench(command: &str, passed: Passed) -> Result<(), Failure> {
    become_program(BENCH, command, passed)
}

fn become_program(name: &str, command: &str, passed: Passed) -> Result<(), Failure> {
    let program = find(name)?;
    let e = Command::new(&program).arg(command).args(passed.args).exec();
    Err(Failure::work(format_args!(
        "run {}: {e}",
        program.display()
    )))
}

/// Makes the report of a ping log with evenkeel-lab; `log` is read from its beginning.
pub(crate) fn report_ping(log: std::fs::File, title: &str, out: &Path) -> Result<(), Failure> {
    let program = find(NAME)?;
    let status = Command::new(&program)
        .args(["report", "/dev/stdin", "--ping-title", title, "--out"])
        .arg(out)
        .stdin(Stdio::from(log))
        .status()
        .map_err(|e| Failure::work(format_args!("run {}: {e}", program.display())))?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        Some(code) => Err(Failure::said(code as u8)),
        None => Err(Failure::work(format_args!(
            "{}: {status}",
            program.display()
        ))),
    }
}

/// Where a program of ours is.
pub(crate) fn find(name: &str) -> Result<PathBuf, Failure> {
    let beside = env::current_exe().ok();
    let beside = beside.as_deref().and_then(Path::parent);
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = beside
        .map(Path::to_owned)
        .into_iter()
        .chain(env::split_paths(&path).filter(|p| p.is_absolute()));
    places
        .find_map(|place| Some(place.join(name)).filter(|p| is_executable(p)))
        .ok_or_else(|| {
            Failure::lacking(format_args!(
                "{name} is not installed: build it (cargo build --release -p {name}) and put it \
                 beside evenkeel or into PATH"
            ))
        })
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
