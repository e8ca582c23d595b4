//! Reading a command line: help as clap gives it, an error as one line.
//!
//! Principle: one line also where clap has several (missing arguments, its guess at what was
//! meant). Non-goals: which commands there are.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::Failure;

/// What `args` say, or the exit code of a program that has said what is wrong with them (or has
/// printed the help that was asked for).
pub fn parse<T: Parser>(args: Vec<OsString>) -> Result<T, ExitCode> {
    #[cfg(feature = "manual")]
    if let Some(written) = crate::manual::asked(T::command(), &args) {
        return Err(written);
    }
    T::try_parse_from(args).map_err(|e| say::<T>(&e))
}

fn say<T: Parser>(e: &clap::Error) -> ExitCode {
    if matches!(
        e.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        let _ = e.print();
        return ExitCode::from(u8::from(e.use_stderr()) * 2);
    }
    let text = e.to_string();
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let mut line = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned();
    // Names of missing arguments, and clap's guess at what was meant, follow on lines of their own.
    for more in lines.take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more")) {
        line = format!("{line} {}", more.trim_start_matches("tip: "));
    }
    let program = T::command().get_name().to_owned();
    Failure::usage(format_args!("{line} ({program} --help lists the commands)")).report()
}
