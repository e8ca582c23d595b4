//! `shape`, `status`: what a person or a script does with a device.
//!
//! Principles: thin; the work is `evenkeel-kernel`'s. Tables for people, `--json` for programs.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_autorate::Model;
use evenkeel_core::plan::{Ingress, Mode, Plan};
use evenkeel_core::tc::{Filter, FilterKind, Op};
use evenkeel_core::units::rounded;
use evenkeel_core::{Line, Rate};
use evenkeel_kernel::lan::LanQueues;
use evenkeel_kernel::{
    DirectionStatus, Health, PassiveStatistics, Request, Shaped, Shortened, StateDir, Status,
};
use evenkeel_terminal::live::Watch;
use evenkeel_terminal::paint::{Ink, ink};
use evenkeel_terminal::table::{Table, figures, words};
use evenkeel_terminal::{Failure, cancelled_by_signals, print};

use crate::args::{Arrivals, Shape, Status as StatusArgs, Windows};
use crate::ask;
use crate::config::Config;

/// `evenkeel shape`.
pub(crate) fn shape(args: Shape) -> Result<(), Failure> {
    let dir = StateDir::new(args.state.state_dir);
    let mut rules = args.rules;
    rules.extend(Config::load(&args.config)?.rules);
    let ingress = match (args.ingress, args.police_mark) {
        (None, None) => Ingress::Auto,
        (Some(Arrivals::Ifb), None) => Ingress::Ifb,
        (Some(Arrivals::Police), mark) => Ingress::Police {
            mark: mark.unwrap_or(0),
        },
        (_, Some(_)) => {
            return Err(Failure::usage("--police-mark goes with --ingress police"));
        }
    };
    let request = Request {
        device: args.device,
        down: args.down,
        up: args.up,
        framing: args.framing,
        choice: args.backend,
        ingress,
        mode: args.mode,
        windows: args.windows == Windows::On,
        lan: args.lan == Windows::On,
        mss: args.mss,
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

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("our types have no maps with odd keys") + "\n"
}

fn dry_run(plan: &Plan) -> String {
    let mut text = format!(
        "# {}: {}, {} framing, shaped to {} up and {} down\n",
        plan.device.name, plan.backend, plan.line.framing, plan.egress, plan.ingress
    );
    if let Some(p) = &plan.policer {
        let _ = writeln!(
            text,
            "# no IFB: evenkeel's own program polices arrivals: above 98 % it marks, above 99 % it drops long packets, above 100 % others"
        );
        if p.mark > 0 {
            let _ = writeln!(
                text,
                "# what it cannot mark by ECN gets the fwmark {}",
                p.mark
            );
        }
    }
    for (name, longest) in [("up", plan.segments.up), ("down", plan.segments.down)] {
        if let Some(bytes) = longest.0 {
            let _ = writeln!(
                text,
                "# evenkeel's own program bounds packets of new TCP connections {name} to {bytes} bytes"
            );
        }
    }
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
        "{}: {}{}: shaped to {} down and {} up\n  line {} down and {} up, framing {}{}\n",
        s.device,
        s.backend,
        if shaped.in_place {
            ", changed in place"
        } else {
            ""
        },
        rounded::rate(shaped.ingress),
        rounded::rate(shaped.egress),
        rounded::rate(s.down),
        rounded::rate(s.up),
        s.framing,
        if s.framing_assumed {
            ", assumed: --framing tells it better"
        } else {
            ""
        },
    );
    if s.policer.is_some() {
        text += "Arrivals are policed, not shaped: no IFB.\n";
    }
    if s.mode == Mode::Bandwidth {
        text += "Mode bandwidth: no headroom, temporary rises of the ping are accepted.\n";
    }
    if let Some(aim) = s.windows {
        let _ = writeln!(
            text,
            "Receive windows hold downloads to {}.",
            rounded::rate(aim)
        );
    }
    for line in segments(shaped.segments_up, shaped.segments_down) {
        let _ = writeln!(text, "{line}");
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

/// How packets of new TCP connections are shortened, and what that costs.
fn segments(up: Option<Shortened>, down: Option<Shortened>) -> impl Iterator<Item = String> {
    let lines = [("up", up), ("down", down)];
    lines.into_iter().filter_map(|(name, shortened)| {
        let s = shortened?;
        let (what, percent) = if s.costs_percent < 0.0 {
            ("brings", -s.costs_percent)
        } else {
            ("costs", s.costs_percent)
        };
        Some(format!(
            "TCP {name}: packets of at most {} bytes, {} each; {what} {percent:.1} % of goodput",
            s.packet,
            rounded::milliseconds(s.takes_ms)
        ))
    })
}

/// `evenkeel status`.
pub(crate) fn status(args: &StatusArgs) -> Result<(), Failure> {
    let dir = StateDir::new(&args.state.state_dir);
    let look = || asked(&dir, args.device.as_deref());
    if !args.watch {
        let all = look()?;
        return print(&if args.json {
            json(&all)
        } else {
            table(&all, args.device.as_deref())
        });
    }
    let cancel = cancelled_by_signals()?;
    let mut watch = Watch::new(!args.json, &cancel);
    while !cancel.load(Ordering::Relaxed) {
        let all = look()?;
        let text = if args.json {
            serde_json::to_string(&all).map_err(Failure::work)? + "\n"
        } else {
            table(&all, args.device.as_deref())
        };
        watch.show(text)?;
        watch.wait(Duration::from_secs(1))?;
    }
    watch.end()
}

/// A device.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub(crate) enum Shown {
    /// With its model, if `run` is or was at it.
    Shaped {
        #[serde(flatten)]
        status: Box<Status>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<Model>,
    },
    /// There is none of that name, and `run` waits for it.
    Awaited { device: String, model: Model },
}

/// All devices, or one: what the daemon says of them, or what is seen where none runs.
fn asked(dir: &StateDir, device: Option<&str>) -> Result<Vec<Shown>, Failure> {
    let request = evenkeel_socket::Request::Status {
        device: device.map(str::to_owned),
    };
    ask::ask(dir, &request, || look(dir, device))
}

/// The same as it is seen.
pub(crate) fn look(dir: &StateDir, device: Option<&str>) -> Result<Vec<Shown>, Failure> {
    let mut all = Vec::new();
    for name in dir.models()? {
        if let Some(model) = Model::read(&dir.model_file(&name))?
            && model.is_waiting()
            && device.is_none_or(|d| d == name)
        {
            let device = name;
            all.push(Shown::Awaited { device, model });
        }
    }
    if device.is_some() && !all.is_empty() {
        return Ok(all);
    }
    for status in evenkeel_kernel::status(dir, device)? {
        let model = Model::read(&dir.model_file(&status.device))?;
        let status = Box::new(status);
        all.push(Shown::Shaped { status, model });
    }
    Ok(all)
}

fn table(all: &[Shown], device: Option<&str>) -> String {
    let mut text = String::new();
    for shown in all {
        let (s, model) = match shown {
            Shown::Shaped { status, model } => (status, model),
            Shown::Awaited { device, model } => {
                text += &model.show(device);
                continue;
            }
        };
        let _ = writeln!(
            text,
            "{}: {}, framing {}{}, mode {}",
            ink(Ink::Bold, &s.device),
            s.backend,
            s.framing,
            if s.framing_assumed { " (assumed)" } else { "" },
            s.mode
        );
        if let Health::Broken(why) = &s.health {
            let _ = writeln!(text, "  {}: {why}", ink(Ink::Red, "NOT WORKING"));
        }
        for what in &s.bypasses {
            let _ = writeln!(text, "  {}: {what}", ink(Ink::Red, "warning"));
        }
        if let Some(aim) = s.windows {
            let _ = writeln!(
                text,
                "  receive windows hold downloads to {}",
                rounded::rate(aim)
            );
        }
        for line in s.lan.iter().flat_map(lan) {
            let _ = writeln!(text, "  {line}");
        }
        for line in segments(s.segments_up, s.segments_down) {
            let _ = writeln!(text, "  {line}");
        }
        if let Some(why) = &s.without_programs {
            let _ = writeln!(
                text,
                "  without eBPF: plain filters sort packets, and `evenkeel flows` shows nothing\n    ({why})"
            );
        }
        for line in directions(s).lines() {
            let _ = writeln!(text, "  {line}");
        }
        if let Some(model) = model {
            text += &model.show(&s.device);
        }
        if let Some(seen) = &s.seen {
            round_trips(&mut text, seen);
        }
        if let Some(p) = &s.policed {
            let _ = writeln!(
                text,
                "  policed: {} marked (ECN), {} with the fwmark; dropped: {} long, {} other, {} empty ACKs",
                rounded::count(p.marked),
                rounded::count(p.flagged),
                rounded::count(p.dropped_large),
                rounded::count(p.dropped_small),
                rounded::count(p.dropped_acks)
            );
        }
    }
    if all.is_empty() {
        text = match device {
            Some(device) => format!("{device}: not shaped by evenkeel\n"),
            None => "no device is shaped by evenkeel\n".into(),
        };
    }
    text
}

/// Round trips that the programs saw on both sides.
fn round_trips(text: &mut String, seen: &PassiveStatistics) {
    for (name, side) in [("Internet", &seen.internet), ("LAN", &seen.lan)] {
        let ms = |v: Option<f64>| v.map_or("–".to_owned(), rounded::milliseconds);
        if side.count == 0 {
            continue;
        }
        let _ = writeln!(
            text,
            "  round trips, {name:<8}: half below {}, 90 % below {}, 99 % below {} ({} seen)",
            ms(side.median_ms),
            ms(side.p90_ms),
            ms(side.p99_ms),
            rounded::count(side.count)
        );
    }
}

/// Queues behind the gateway, in sentences.
fn lan(queues: &LanQueues) -> Vec<String> {
    let mut lines = Vec::new();
    let (n, many) = (queues.flows, if queues.flows == 1 { "" } else { "s" });
    if n > 0 {
        lines.push(format!(
            "{n} download{many} held to the {} that the LAN carries, with {} ms of queue there",
            rounded::rate(queues.rate),
            rounded::three_digits(queues.queue_ms)
        ));
    }
    let (n, many) = (queues.uploads, if queues.uploads == 1 { "" } else { "s" });
    if n > 0 {
        lines.push(format!(
            "{n} upload{many} waiting on the LAN, in the host: not ours to shorten"
        ));
    }
    lines
}

/// Both directions, and their tiers.
fn directions(s: &Status) -> Table {
    let heads = ["line", "shaped", "packets", "dropped", "marked", "waiting"];
    let mut table = Table::new(&[vec![words("")], heads.map(figures).to_vec()].concat());
    for (name, d) in [("down", &s.down), ("up", &s.up)] {
        direction(&mut table, name, d);
    }
    table
}

fn direction(table: &mut Table, name: &str, d: &DirectionStatus) {
    let known = |rate: &Rate| *rate != Line::OPEN;
    let line = Some(d.line).filter(known);
    let line = line.map_or("not known".to_owned(), rounded::rate);
    let shaped = d.shaped.filter(|_| known(&d.line));
    let shaped = shaped.map_or("not".to_owned(), rounded::rate);
    let [packets, dropped, marked] = [d.packets, d.dropped, d.marked].map(rounded::count);
    let waiting = rounded::bytes(d.backlog as f64);
    table.row([
        name.to_owned(),
        line,
        shaped,
        packets,
        dropped,
        marked,
        waiting,
    ]);
    for t in &d.tiers {
        let [packets, dropped] = [t.packets, t.dropped].map(rounded::count);
        let none = String::new;
        table.row([format!("  {}", t.tier), none(), none(), packets, dropped]);
    }
}
