//! `report`: tables and pictures of what was measured before, without measuring.
//!
//! Principle: everything comes from the files: one result of the lab, or any number of ping logs or
//! of bench results (flent's and Crusader's files are read as such), to be compared. Non-goal: several of the lab's
//! results at once.

use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_core::ping::log::Log;
use evenkeel_report::bench::{self, form::Bench};
use evenkeel_terminal::{Failure, print};

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// What lab run has written (result.json), or what bench has (.json), flent's files (.flent.gz), Crusader's
    /// (.crr), or logs of ping, which are compared
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Directory for the report and its pictures; of ping logs also a file (.html, .png, .json), of bench
    /// results (.html, .png, .svg, .csv, .json, .flent.gz)
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the statistics of ping logs or bench results as JSON
    #[arg(long)]
    json: bool,
    /// What `ping` calls its log, which is printed by itself
    #[arg(long, value_name = "TITLE", hide = true, requires = "out")]
    ping_title: Option<String>,
}

/// `evenkeel report`.
pub(crate) fn report(args: &Report) -> Result<(), Failure> {
    let benches = benches(&args.files)?;
    if !benches.is_empty() {
        return report_benches(benches, args);
    }
    let mut logs = Vec::new();
    for file in &args.files {
        if let Some(log) = evenkeel_report::ping::read(file).map_err(Failure::work)? {
            let stem = file.file_stem().unwrap_or(file.as_os_str());
            let name = args.ping_title.clone();
            let name = name.unwrap_or_else(|| stem.to_string_lossy().into_owned());
            logs.push((name, log));
        } else if args.files.len() > 1 {
            return Err(Failure::usage(format_args!(
                "{} is no log of evenkeel ping: only those can be compared",
                file.display()
            )));
        }
    }
    if logs.is_empty() {
        let result = evenkeel_report::read(&args.files[0]).map_err(Failure::work)?;
        print(&evenkeel_report::table(&result))?;
        return match &args.out {
            Some(out) => crate::lab::write(&result, out),
            None => Ok(()),
        };
    }
    if args.ping_title.is_none() {
        print(&if args.json {
            evenkeel_report::ping::json(&logs)
        } else {
            evenkeel_report::ping::table(&logs)
        })?;
    }
    match &args.out {
        Some(out) => write_ping(&logs, out),
        None => Ok(()),
    }
}

/// The files, if they are bench results; nothing if the first is none.
fn benches(files: &[PathBuf]) -> Result<Vec<Bench>, Failure> {
    let mut found = Vec::new();
    for file in files {
        let runs = bench::read(file).map_err(Failure::work)?;
        if !runs.is_empty() {
            found.extend(runs);
        } else if found.is_empty() {
            return Ok(found);
        } else {
            return Err(Failure::usage(format_args!(
                "{} is no bench result: it cannot be compared with one",
                file.display()
            )));
        }
    }
    Ok(found)
}

/// Bench results: explained, or compared.
fn report_benches(benches: Vec<Bench>, args: &Report) -> Result<(), Failure> {
    let runs = bench::named(benches);
    print(&if args.json {
        bench::json(&runs)
    } else {
        bench::text(&runs)
    })?;
    if let Some(out) = &args.out {
        for path in bench::write(&runs, out).map_err(Failure::work)? {
            eprintln!("Written: {}", path.display());
        }
    }
    Ok(())
}

/// Page, pictures or figures of logs, by the suffix of `out`; all of them into a directory.
fn write_ping(logs: &[(String, Log)], out: &Path) -> Result<(), Failure> {
    let written = evenkeel_report::ping::write(logs, out).map_err(Failure::work)?;
    for path in written
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "html" || e == "png"))
    {
        eprintln!("Written: {}", path.display());
    }
    Ok(())
}
