//! `lab bench`: what `evenkeel bench` says of lines, beside what those carried.
//!
//! Non-goals: measuring (`evenkeel_lab::bench`), choosing a kernel (`scripts/uml/run`).

use std::path::PathBuf;

use clap::Args;
use evenkeel_lab::bench::{Compared, Queue, SETUPS, compare};
use evenkeel_terminal::table::{Table, figures, words};
use evenkeel_terminal::{Failure, StatusLine, print};

/// Arguments of `lab bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Only these: vdsl100, adsl2, cable, lte, fast, and own, lan, beyond, where the queue is elsewhere
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The program; without it the one beside this one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `evenkeel lab bench`.
pub(crate) fn bench(args: &Bench) -> Result<(), Failure> {
    if let Some(name) = args
        .names
        .iter()
        .find(|n| SETUPS.iter().all(|s| s.name != *n))
    {
        let known: Vec<&str> = SETUPS.iter().map(|s| s.name).collect();
        return Err(Failure::usage(format_args!(
            "there is no line {name:?} (there are: {})",
            known.join(", ")
        )));
    }
    let program = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()
            .map_err(|e| Failure::work(format_args!("find this program: {e}")))?
            .with_file_name("evenkeel-bench"),
    };
    let wanted = |name: &str| args.names.is_empty() || args.names.iter().any(|n| n == name);
    let mut line = StatusLine::new();
    let mut all = Vec::new();
    for setup in SETUPS.iter().filter(|s| wanted(s.name)) {
        line.show(0, setup.name, "is measured");
        all.push(compare(&program, setup)?);
    }
    line.clear();
    if args.json {
        let json = serde_json::to_string_pretty(&all);
        let json = json.map_err(|e| Failure::work(format_args!("write JSON: {e}")))?;
        return print(&(json + "\n"));
    }
    print(&table(&all))
}

fn table(all: &[Compared]) -> String {
    let mut table = Table::new(&[
        words("line"),
        figures("down, Mbit/s"),
        figures("of carried"),
        figures("up, Mbit/s"),
        figures("of carried"),
        figures("ping, ms"),
        figures("off p95, ms"),
        figures("off max, ms"),
        words("blamed"),
    ]);
    for c in all {
        let [down, up] = c.share();
        let mbit = |v: Option<f64>| v.map_or_else(|| "–".into(), |v| format!("{v:.2}"));
        let share =
            |v: Option<f64>| v.map_or_else(|| "–".into(), |v| format!("{:.2} %", v * 100.0));
        let off = |v: Option<f64>| v.map_or_else(|| "–".into(), |v| format!("{v:.3}"));
        // What the line did to a ping is all of it only where nothing else did.
        let seen = c.off_ms.filter(|_| c.queue == Queue::Line);
        table.row(vec![
            c.name.to_owned(),
            mbit(c.goodput_mbit.down),
            share(down),
            mbit(c.goodput_mbit.up),
            share(up),
            format!("{:.1}", c.ping_ms),
            off(seen.map(|s| s.p95)),
            off(seen.map(|s| s.max)),
            if c.blames_right() {
                format!("{}: right", c.queue.blamed())
            } else {
                format!("wrong: {}", c.blame)
            },
        ]);
    }
    table.to_string()
}
