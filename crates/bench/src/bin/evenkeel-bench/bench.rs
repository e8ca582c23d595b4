//! The command line of `evenkeel bench`: arguments, progress, comparisons, files.
//!
//! Non-goals: measuring (`evenkeel_bench::client`).

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_bench::client::irtt::Key;
use evenkeel_bench::client::{self, Now, Options, Test, compare::Shaping};
use evenkeel_report::bench as report;
use evenkeel_report::bench::form::Bench;
use evenkeel_terminal::{Failure, StatusLine, print};

use crate::auto;
use crate::failure::failure;
use crate::token::Token;

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Far end: a host on which `evenkeel serve` runs, iperf3://HOST, irtt://HOST
    /// with --test idle, or any http(s):// URL to download; the
    /// root of a server of draft-ietf-ippm-responsiveness is known as such; auto: the first of --far-ends, once
    /// you agree
    #[arg(long, value_name = "URL|HOST")]
    to: String,
    /// Judge the pings of this irtt server, while --to carries the load: irtt://HOST
    #[arg(long, value_name = "URL")]
    pings: Option<String>,
    /// The key of an irtt server, its --hmac: text, or 0x and hexadecimal digits
    #[arg(
        long,
        value_name = "KEY",
        env = "EVENKEEL_IRTT_KEY",
        hide_env_values = true
    )]
    irtt_key: Option<Key>,
    /// The list for --to auto, one far end to a line
    #[arg(long, value_name = "FILE", default_value = "/etc/evenkeel-far-ends")]
    far_ends: PathBuf,
    /// Agree to what --to auto asks
    #[arg(long)]
    yes: bool,
    /// Which load
    #[arg(long, value_enum, default_value = "rrul")]
    test: Test,
    /// TCP connections each way: 4; 8 of `both`, up to 16 of `rpm`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    streams: Option<u16>,
    /// Length of the load
    #[arg(long, value_name = "N", default_value = "60", value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    /// All of it in 20 s: 4 s idle, 12 s of load, 3 s of tail
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Between two pings (5ms); without it, what takes no more than a twentieth of the line
    #[arg(long, value_parser = humantime::parse_duration)]
    interval: Option<Duration>,
    /// What results call this run
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    #[command(flatten)]
    token: Token,
    /// Certificate authority to trust beside the system's, PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A device that evenkeel shapes: measure without it and with it in turn
    #[arg(long, value_name = "DEVICE")]
    compare: Option<String>,
    /// How often each, of a comparison; at least four times
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(4..=30))]
    times: u16,
    /// Where to write the result: .json, .html, .csv, .flent.gz, .png, .svg; a directory gets all
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Where records of shaped devices are kept
    #[arg(long, value_name = "DIR", default_value = evenkeel_kernel::state::DEFAULT_DIR, hide = true)]
    state_dir: PathBuf,
}

/// `evenkeel bench`.
pub(crate) fn bench(args: &Args) -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (idle, load, tail) = if args.quick {
        (4, 12, 3)
    } else {
        (5, args.seconds, 5)
    };
    let test = args.test;
    let to = if args.to == "auto" {
        let ways = match test {
            Test::Idle => 0,
            Test::Download | Test::Upload => 1,
            _ => 2,
        };
        let seconds = match args.compare {
            Some(_) => load.saturating_mul(2 * args.times),
            None => load,
        };
        auto::choose(&args.far_ends, seconds, ways, args.yes)?
    } else {
        args.to.clone()
    };
    let options = Options {
        to,
        pings: args.pings.clone(),
        irtt_key: args.irtt_key.clone(),
        test,
        streams: args.streams.map(usize::from),
        seconds: load,
        idle: Duration::from_secs(idle),
        tail: Duration::from_secs(tail),
        interval: args.interval,
        token: args.token.token.clone(),
        ca: args.ca.clone(),
        label: args.label.clone(),
        command: without_secrets(&words),
    };
    let cancel = evenkeel_terminal::cancelled_by_signals()?;
    let mut line = StatusLine::new();
    let runs = match &args.compare {
        None => vec![one(&options, &cancel, &mut line, "")?],
        Some(device) => in_turn(args, &options, device, &cancel, &mut line)?,
    };
    line.clear();
    let named = report::named(runs);
    if args.json {
        print(&report::json(&named))?;
    } else {
        print(&report::text(&named))?;
    }
    if let Some(out) = &args.out {
        for path in report::write(&named, out).map_err(Failure::work)? {
            eprintln!("Written: {}", path.display());
        }
    }
    let void = named
        .iter()
        .find_map(|(_, b)| Some(b.void()).filter(|v| !v.is_empty()));
    void.map_or(Ok(()), |why| {
        Err(Failure::work(format_args!(
            "this says nothing about the line: {why}"
        )))
    })
}

/// Options whose values are not for others.
const SECRETS: [&str; 2] = ["--token", "--irtt-key"];

/// The command as it can be shown to others.
fn without_secrets(words: &[String]) -> String {
    let mut shown = vec!["evenkeel".to_owned()];
    let mut is_secret = false;
    for w in words {
        let option = w.split_once('=').map_or(w.as_str(), |(option, _)| option);
        let names_secret = SECRETS.contains(&option);
        shown.push(if is_secret {
            "***".into()
        } else if names_secret && option != w {
            format!("{option}=***")
        } else if w.contains(' ') {
            format!("'{w}'")
        } else {
            w.clone()
        });
        is_secret = !is_secret && names_secret && option == w;
    }
    shown.join(" ")
}

fn one(
    options: &Options,
    cancel: &std::sync::atomic::AtomicBool,
    line: &mut StatusLine,
    which: &str,
) -> Result<Bench, Failure> {
    let name = if which.is_empty() {
        options.test.name()
    } else {
        which
    }
    .to_owned();
    let mut show = |now: &Now| {
        let ping = now
            .ping
            .map_or_else(|| "–".to_owned(), |p| format!("{p:.1}"));
        let doing = format!(
            "{:<4} {:>5.0} s left   down {:>7.1} Mbit/s   up {:>7.1} Mbit/s   ping {ping:>6} ms",
            now.phase, now.left, now.down, now.up
        );
        line.show(0, &name, &doing);
    };
    client::run(options, cancel, &mut show).map_err(failure)
}

/// Without and with, in turn.
fn in_turn(
    args: &Args,
    options: &Options,
    device: &str,
    cancel: &std::sync::atomic::AtomicBool,
    line: &mut StatusLine,
) -> Result<Vec<Bench>, Failure> {
    let mut shaping = Shaping::found(&args.state_dir, device).map_err(failure)?;
    let mut runs = Vec::new();
    for turn in 0..args.times * 2 {
        if cancel.load(Ordering::Relaxed) {
            break;
        }
        let shaped = turn % 2 == 1;
        shaping.set(shaped).map_err(failure)?;
        let label = if shaped { "with evenkeel" } else { "without" };
        let options = Options {
            label: label.into(),
            ..options.clone()
        };
        let which = format!("{label} {}/{}", turn / 2 + 1, args.times);
        let run = one(&options, cancel, line, &which)?;
        if !run.interrupted {
            runs.push(run);
        }
    }
    // On other ways out this is done when it is dropped.
    shaping.set(true).map_err(failure)?;
    if runs.is_empty() {
        return Err(Failure::work(
            "interrupted before the first run was done; the shaping is back",
        ));
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        for (typed, shown) in [
            (
                "bench --token abc --to x",
                "evenkeel bench --token *** --to x",
            ),
            ("bench --token=abc", "evenkeel bench --token=***"),
            (
                "bench --irtt-key --token x",
                "evenkeel bench --irtt-key *** x",
            ),
            ("bench --irtt-key=0x=1", "evenkeel bench --irtt-key=***"),
            ("bench --label=a", "evenkeel bench --label=a"),
        ] {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            assert_eq!(without_secrets(&words), shown);
        }
    }
}
