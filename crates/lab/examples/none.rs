//! Runs an experiment on the unshaped line and prints a table.
//!
//! `none EXPERIMENT.toml [LOAD,LOAD] [SECONDS]`; without SECONDS the quick duration.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use evenkeel_lab::{CellCache, Experiment, Native, RunOptions, run};

fn main() -> std::process::ExitCode {
    match table() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn table() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or("experiments/vdsl100.toml".into());
    let loads = args.next().unwrap_or_default();
    let mut experiment = Experiment::load(Path::new(&path))?;
    if let Some(seconds) = args.next() {
        experiment.duration.quick_s = seconds.parse()?;
    }
    let options = RunOptions {
        quick: true,
        loads: loads
            .split(',')
            .filter(|l| !l.is_empty())
            .map(str::to_owned)
            .collect(),
        conditions: vec!["none".into()],
        ..RunOptions::default()
    };
    let mut last = String::new();
    let mut progress = |p: &evenkeel_lab::Progress<'_>| {
        let line = format!(
            "[{}/{}] {} {} try {} {} {:?}",
            p.number, p.of, p.cell.condition, p.cell.load, p.attempt, p.void, p.stage
        );
        if line != last {
            eprint!("\r{line:60}");
            last = line;
        }
    };
    let cancel = AtomicBool::new(false);
    let result = run(
        &experiment,
        &options,
        &Native::new(&experiment, &mut []),
        &CellCache::nothing(&experiment),
        &mut progress,
        &cancel,
    )?;
    eprintln!();
    println!(
        "load     base   ping min/avg/median/p99/max/sd           icmp avg  down    up  lost retr settle  lag99 lagmax busy steal void"
    );
    for r in &result.runs {
        let p = &r.ping_ms;
        println!(
            "{:6} {:6.2} | {:6.2} {:6.2} {:6.2} {:6.2} {:6.2} {:5.2} | {:6.2} | {:8.0} {:8.0} | {} {} {:?} | {:.3} {:.3} {:.2} {:.2} {}",
            r.load,
            r.base_ms,
            p.min,
            p.avg,
            p.median,
            p.p99,
            p.max,
            p.stddev,
            r.icmp_ms.map_or(0.0, |s| s.avg),
            r.down_kbit,
            r.up_kbit,
            r.lost,
            r.retransmits,
            r.settle_s,
            r.instrument.lag_p99_ms,
            r.instrument.lag_max_ms,
            r.instrument.cpu_busy,
            r.instrument.cpu_steal,
            r.instrument.void
        );
    }
    Ok(())
}
