//! `shape`, `clear`, `status`: what a person or a script does with a device.
//!
//! Principles: thin; the work is `evenkeel-kernel`'s. Tables for people, `--json` for programs.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use evenkeel_core::plan::{Mode, Plan};
use evenkeel_core::tc::{Filter, FilterKind, Op};
use evenkeel_kernel::{Cleared, Direction, Health, Request, Shaped, StateDir};

use crate::Windows;
use crate::config::Config;
use crate::failure::Failure;

/// `evenkeel shape`.
pub(crate) fn shape(args: super::Shape) -> Result<(), Failure> {
    let dir = StateDir::new(args.state.state_dir);
    let mut rules = args.rules;
    rules.extend(Config::load(&args.config)?.rules);
    let request = Request {
        device: args.device,
        down: args.down,
        up: args.up,
        framing: args.framing,
        choice: args.backend,
        mode: args.mode,
        windows: args.windows == Windows::On,
        replace: args.replace,
        rules,
    };
    if args.dry_run {
        let (plan, warnings) = evenkeel_kernel::preview(&dir, &request)?;
        warn(&warnings);
        return print(&dry_run(&plan));
    }
    let shaped = evenkeel_kernel::shape(&dir, &request)?;
    warn(&shaped.warnings);
    if args.json {
        return print(&json(&shaped.state));
    }
    print(&summary(&shaped))
}

fn warn(warnings: &[String]) {
    for w in warnings {
        eprintln!("evenkeel: warning: {w}");
    }
}

/// Prints, and does not mind if nobody reads any more.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::work(format_args!("write to stdout: {e}")))
        }
        _ => Ok(()),
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("our types have no maps with odd keys") + "\n"
}

fn dry_run(plan: &Plan) -> String {
    let mut text = format!(
        "# {}: {}, {} framing, shaped to {} up and {} down\n",
        plan.device.name, plan.backend, plan.line.framing, plan.egress, plan.ingress
    );
    for op in &plan.setup {
        match op {
            Op::FilterAdd {
                filter:
                    Filter {
                        kind: FilterKind::Bpf(_),
                        ..
                    },
                ..
            } => {
                let _ = writeln!(
                    text,
                    "# {op}  (evenkeel's own program, which tc cannot load)"
                );
            }
            _ => {
                let _ = writeln!(text, "{op}");
            }
        }
    }
    text
}

fn summary(shaped: &Shaped) -> String {
    let s = &shaped.state;
    let mut text = format!(
        "{}: {}{}: {} down, {} up (line {} / {}, framing {}{})\n",
        s.device,
        s.backend,
        if shaped.in_place {
            ", changed in place"
        } else {
            ""
        },
        shaped.ingress,
        shaped.egress,
        s.down,
        s.up,
        s.framing,
        if s.framing_assumed {
            ", assumed: --framing tells it better"
        } else {
            ""
        },
    );
    if s.mode == Mode::Bandwidth {
        text += "Mode bandwidth: no headroom, temporary rises of the ping are accepted.\n";
    }
    if let Some(aim) = s.windows {
        let _ = writeln!(text, "Receive windows hold downloads to {aim}.");
    }
    if let Some(what) = &s.replaced {
        let _ = writeln!(
            text,
            "Removed {what}; `evenkeel clear {}` will leave the kernel's default.",
            s.device
        );
    }
    text
}

/// `evenkeel clear`.
pub(crate) fn clear(args: &super::Clear) -> Result<(), Failure> {
    let device = &args.device;
    let dir = StateDir::new(&args.state.state_dir);
    let text = match evenkeel_kernel::clear(&dir, device)? {
        Cleared::Nothing => format!("{device}: nothing of evenkeel's is there\n"),
        Cleared::AsBefore => format!("{device}: as it was before\n"),
        Cleared::DefaultInsteadOf(what) => {
            format!(
                "{device}: the kernel's default is back; {what}, which --replace removed, is not\n"
            )
        }
        Cleared::WithoutRecord => format!(
            "{device}: evenkeel's disciplines are removed; there was no record of earlier settings, so none were put back\n"
        ),
    };
    print(&text)
}

/// `evenkeel status`.
pub(crate) fn status(args: &super::Status) -> Result<(), Failure> {
    let dir = StateDir::new(&args.state.state_dir);
    let all = evenkeel_kernel::status(&dir, args.device.as_deref())?;
    if args.json {
        return print(&json(&all));
    }
    let mut text = String::new();
    for s in &all {
        let _ = writeln!(
            text,
            "{}: {}, framing {}{}, mode {}",
            s.device,
            s.backend,
            s.framing,
            if s.framing_assumed { " (assumed)" } else { "" },
            s.mode
        );
        if let Health::Broken(why) = &s.health {
            let _ = writeln!(text, "  NOT WORKING: {why}");
        }
        if let Some(aim) = s.windows {
            let _ = writeln!(text, "  receive windows hold downloads to {aim}");
        }
        if let Some(why) = &s.without_programs {
            let _ = writeln!(
                text,
                "  without eBPF ({why}): plain filters sort packets, and `evenkeel flows` shows nothing"
            );
        }
        let _ = writeln!(
            text,
            "  {:<13}{:>12} {:>12} {:>11} {:>9} {:>8} {:>10}",
            "", "line", "shaped", "packets", "dropped", "marked", "waiting"
        );
        for (name, d) in [("down", &s.down), ("up", &s.up)] {
            direction(&mut text, name, d);
        }
    }
    if all.is_empty() {
        text = match &args.device {
            Some(device) => format!("{device}: not shaped by evenkeel\n"),
            None => "no device is shaped by evenkeel\n".into(),
        };
    }
    print(&text)
}

fn direction(text: &mut String, name: &str, d: &Direction) {
    let shaped = d.shaped.map_or("not".to_owned(), |r| r.to_string());
    let _ = writeln!(
        text,
        "  {name:<13}{:>12} {shaped:>12} {:>11} {:>9} {:>8} {:>8} B",
        d.line, d.packets, d.dropped, d.marked, d.backlog
    );
    for t in &d.tiers {
        let _ = writeln!(
            text,
            "    {:<11}{:>12} {:>12} {:>11} {:>9}",
            t.tier, "", "", t.packets, t.dropped
        );
    }
}
