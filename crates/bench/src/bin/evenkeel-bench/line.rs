//! The command line of `evenkeel line`.
//!
//! Non-goals: measuring (`evenkeel_bench::line`).

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use evenkeel_bench::line::form::Form;
use evenkeel_bench::line::walk::Walk;
use evenkeel_bench::line::{self, Options};
use evenkeel_core::{Direction, PerDirection};
use evenkeel_kernel::StateDir;
use evenkeel_terminal::{Failure, StatusLine, print};

use crate::failure::failure;
use crate::token::Token;

/// Arguments of `line`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The device that leads to the Internet; without it, that of the route
    device: Option<String>,
    /// A host beyond the line, which trains of packets are sent to; where `evenkeel serve` runs, they come
    /// back as well
    #[arg(long, value_name = "HOST")]
    server: Option<String>,
    #[command(flatten)]
    token: Token,
    /// Send nothing: what passing packets told `evenkeel run` so far
    #[arg(long, conflicts_with_all = ["server", "apply", "walk"])]
    passive: bool,
    /// Trains may take so many seconds of the line each way; a noisy one needs more
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = budget)]
    budget: f64,
    /// Ask nothing of the router
    #[arg(long)]
    no_router: bool,
    /// Make what was found the profile that `evenkeel run` begins with
    #[arg(long)]
    apply: bool,
    /// Then shape the device with overheads in steps of 4 bytes and rates in steps of 1 %, load it with `evenkeel
    /// serve` each time (five minutes at full load), and show where latency begins to rise
    #[arg(long, requires = "server")]
    walk: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where what was learned of lines is kept
    #[arg(long, value_name = "DIR", default_value = evenkeel_autorate::PROFILE_DIR, hide = true)]
    profile_dir: PathBuf,
    /// Where records of shaped devices are kept
    #[arg(long, value_name = "DIR", default_value = evenkeel_kernel::state::DEFAULT_DIR, hide = true)]
    state_dir: PathBuf,
}

fn budget(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if (0.5..=10.0).contains(&v) => Ok(v),
        _ => Err("it is no number of seconds from 0.5 to 10".into()),
    }
}

/// `evenkeel line`.
pub(crate) fn line(args: &Args) -> Result<(), Failure> {
    if args.passive {
        return passive(args);
    }
    let cancel = evenkeel_terminal::cancelled_by_signals()?;
    let options = Options {
        server: args.server.clone(),
        token: args.token.token.clone(),
        device: args.device.clone(),
        budget: args.budget,
        without_router: args.no_router,
    };
    if let Some(server) = &options.server {
        eprintln!(
            "Trains of packets of at most 0.3 s each to {server}, and back if it sends some: no more than the line carries in {} s, each way.",
            args.budget
        );
    }
    let mut status = StatusLine::new();
    let form = line::run(&options, &cancel, &mut |doing| {
        status.show(0, "line", doing);
    });
    status.clear();
    let form = form.map_err(failure)?;
    if args.json {
        print(&(serde_json::to_string_pretty(&form).map_err(Failure::work)? + "\n"))?;
    } else {
        print(&line::text::text(&form))?;
    }
    if args.apply {
        apply(&form, &args.profile_dir)?;
    }
    if args.walk {
        walk(args, &form, &cancel)?;
    }
    Ok(())
}

/// What is known without sending anything.
fn passive(args: &Args) -> Result<(), Failure> {
    let device = args
        .device
        .clone()
        .or_else(evenkeel_autorate::default_device);
    let device = device.ok_or_else(|| {
        Failure::usage("there is no default route: name the device that leads to the Internet")
    })?;
    let facts = line::device::facts(&device).map_err(failure)?;
    let file = StateDir::new(&args.state_dir).model_file(&device);
    let model = evenkeel_autorate::Model::read(&file).map_err(Failure::work)?;
    if args.json {
        let all = serde_json::json!({ "device": facts, "run": model });
        return print(&(serde_json::to_string_pretty(&all).map_err(Failure::work)? + "\n"));
    }
    let told = match model.map(|m| m.show_framing()) {
        None => format!("  `evenkeel run` is not at it: evenkeel run {device}\n"),
        Some(told) if told.is_empty() => {
            "  nothing is known yet: a queue must stand while packets of different sizes pass\n"
                .into()
        }
        Some(told) => told,
    };
    print(&(line::text::device(&facts) + &told))
}

/// Over overheads and rates, around what was found.
fn walk(args: &Args, form: &Form, cancel: &AtomicBool) -> Result<(), Failure> {
    let rate = |d| form.direction(d).and_then(|w| w.assumed_rate);
    let (Some(up), Some(down)) = (rate(Direction::Up), rate(Direction::Down)) else {
        return Err(Failure::work(
            "the line's rates were not measured both ways: --walk needs `evenkeel serve` at the other end",
        ));
    };
    let (overheads, percents) = line::walk::usual();
    let over = Walk {
        device: &form.device.name,
        server: args.server.as_deref().unwrap_or_default(),
        token: &args.token.token,
        rates: PerDirection { up, down },
        framing: form.framing().0,
        state_dir: &args.state_dir,
        overheads,
        percents,
    };
    let mut status = StatusLine::new();
    let paths = line::walk::walk(&over, cancel, &mut |doing| {
        status.show(0, "walk", doing);
    });
    status.clear();
    let paths = paths.map_err(failure)?;
    print(&if args.json {
        serde_json::to_string_pretty(&paths).map_err(Failure::work)? + "\n"
    } else {
        line::walk::text(&paths)
    })
}

/// Writes what is known. What is only assumed is not: `run` has assumptions of its own.
fn apply(form: &Form, dir: &Path) -> Result<(), Failure> {
    let measured = form.measured();
    if measured.framing.is_none() {
        return Err(Failure::work(
            "nothing is known well enough to be applied; --budget 6 gives trains more time, --server names a host to send them to",
        ));
    }
    let file =
        evenkeel_autorate::apply(dir, &form.device.name, &measured).map_err(Failure::work)?;
    eprintln!(
        "Written: {}; `evenkeel run {}` begins with it",
        file.display(),
        form.device.name
    );
    Ok(())
}
