//! `trace`: the command line and the table of the hops to a host.
//!
//! Principles: on a terminal the table is a page, drawn anew after each round; loss is claimed of the
//! target only. Non-goals: asking the hops (`evenkeel_measure::hops`).

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use evenkeel_core::ping::Fate;
use evenkeel_core::ping::route::{Hop, Route};
use evenkeel_core::ping::spread::Spread;
use evenkeel_measure::hops::{ROUND, Tracer, rest};
use evenkeel_terminal::live::Watch;
use evenkeel_terminal::table::{Table, figures, words};
use evenkeel_terminal::{Failure, cancelled_by_signals};
use serde_json::{Value, json};

use crate::ping::{Names, Target, time};

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(flatten)]
    target: Target,
    /// How often each hop is asked [-rN]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_value_t = 3, default_missing_value = "3",
          value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Go on until Ctrl-C [-p]
    #[arg(long)]
    watch: bool,
    /// Hops at most
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u8).range(1..=64))]
    max_hops: u8,
    /// When a probe is given up [-wMS]
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `evenkeel trace`.
pub(crate) fn trace(args: &Trace) -> Result<(), Failure> {
    let target = args.target.resolve()?;
    let (kind, _) = args.target.kind();
    let cancel = cancelled_by_signals()?;
    let mut tracer = Tracer::open(
        target,
        kind,
        args.target.options(Some(1)),
        args.timeout,
        args.max_hops,
        &cancel,
    )?;
    let names = Names::new(args.target.names);
    let host = args.target.host();
    let title = format!("{host} ({}), {}", target.ip(), args.target.kind_words());
    // Stamping is switched on in the background when the first socket asks for it.
    rest(Instant::now() + Duration::from_millis(20), &cancel);
    let mut watch = Watch::new(!args.json, &cancel);
    let shown = |route: &Route| table(&title, route, &names);
    let mut rounds = 0;
    loop {
        let next = Instant::now() + ROUND;
        let going = tracer.round()?;
        rounds += 1;
        if !going || !args.watch && rounds >= args.rounds {
            break;
        }
        if watch.is_page() {
            watch.show(shown(&tracer.route))?;
        } else if args.watch && !args.json {
            watch.show(shown(&tracer.route) + "\n")?;
        }
        watch.wait(next.saturating_duration_since(Instant::now()))?;
        if cancel.load(Ordering::Relaxed) {
            break;
        }
    }
    watch.show(if args.json {
        as_json(host, target.ip(), &tracer.route).to_string() + "\n"
    } else {
        shown(&tracer.route)
    })?;
    watch.end()?;
    if tracer.route.shown().is_empty() {
        return Err(Failure::work(format_args!("{host}: no hop answered")));
    }
    Ok(())
}

/// How many of `sent` were answered, and when.
fn times(answered: u64, sent: u64, s: &Spread) -> Vec<String> {
    let mut cells = vec![format!("{answered}/{sent}")];
    match s.summary() {
        None => cells.extend((0..4).map(|_| "-".to_owned())),
        Some(s) => cells.extend([s.min, s.avg, s.max, s.stddev].map(|v| format!("{v:.3}"))),
    }
    cells
}

fn table(title: &str, route: &Route, names: &Names) -> String {
    let shown = route.shown();
    let name = |h: &Hop| match &h.addresses[..] {
        [] => "no answer".to_owned(),
        [one] => names.show(*one),
        [first, more @ ..] => format!("{} and {} more", names.show(*first), more.len()),
    };
    let mut hops = Table::new(&[
        figures("hop"),
        words("address"),
        figures("answered"),
        figures("min ms"),
        figures("avg"),
        figures("max"),
        figures("stddev"),
        words(""),
    ]);
    for (ttl, hop) in (1..).zip(shown) {
        let end = hop.last.filter(|f| *f != Fate::Reply);
        let mut cells = vec![ttl.to_string(), name(hop)];
        cells.extend(times(hop.answered, hop.sent, &hop.times));
        cells.extend(end.map(|fate| fate.to_string()));
        hops.row(cells);
        if hop.direct_sent > 0 {
            let mut cells = vec![String::new(), "  asked directly".to_owned()];
            cells.extend(times(hop.direct_answered, hop.direct_sent, &hop.direct));
            hops.row(cells);
        }
    }
    let mut text = format!("Trace to {title}\n{hops}");
    text += &match route.lost() {
        Some((0, sent)) => format!("reached in {} hops, none of {sent} lost\n", shown.len()),
        Some((lost, sent)) => format!(
            "reached in {} hops, {lost} of {sent} lost there ({:.1} %)\n",
            shown.len(),
            lost as f64 * 100.0 / sent as f64
        ),
        None => "not reached: behind the last hop shown nothing answered\n".to_owned(),
    };
    text
}

fn as_json(host: &str, address: IpAddr, route: &Route) -> Value {
    let hops: Vec<Value> = (1..)
        .zip(route.shown())
        .map(|(ttl, h): (u8, _)| {
            json!({
                "ttl": ttl, "addresses": h.addresses, "sent": h.sent, "answered": h.answered,
                "times_ms": h.times.summary(),
                "direct_sent": h.direct_sent, "direct_answered": h.direct_answered,
                "direct_ms": h.direct.summary(),
                "end": h.last.map(|f| f.to_string()),
            })
        })
        .collect();
    let lost = route.lost();
    json!({
        "target": host, "address": address, "reached": route.is_reached(), "hops": hops,
        "lost": lost.map(|l| l.0), "near": route.near().map(|n| json!({"ttl": n.0, "address": n.1})),
    })
}
