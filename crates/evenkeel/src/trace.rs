//! `trace`: the hops to a host and their round trips; and which of them is the near hop.
//!
//! Principles: one probe under way at a time, or one for each of the first hops, and no hop asked
//! more often than once a second, so that no router has work with it; all probes of a run are one
//! flow, so that load balancers do not split the path; a hop that leaves some unanswered is asked
//! directly, at its own address; loss is claimed of the target only. Non-goals: all paths at once.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use evenkeel_core::ping::route::{Hop, Route};
use evenkeel_core::ping::spread::Spread;
use evenkeel_core::ping::track::Event;
use evenkeel_core::ping::{Fate, Outcome};
use evenkeel_measure::ping::{Kind, PingError, Pinger};
use evenkeel_sys::PacketOptions;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::gateway::print;
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

/// From one round to the next: routers answer about once a second.
const ROUND: Duration = Duration::from_secs(1);
/// Bytes of the probes' payload.
const SIZE: u32 = 32;
/// A hop that never answered in so many rounds is left alone.
const PATIENCE: u64 = 3;
/// The near hop is not farther away than this.
const NEAR_HOPS: u8 = 8;

/// What asks the hops.
struct Tracer<'a> {
    route: Route,
    pinger: Pinger,
    direct: HashMap<IpAddr, Pinger>,
    timeout: Duration,
    max: u8,
    cancel: &'a AtomicBool,
}

/// Sends a probe and waits for its fate. `None`: the caller wants to stop.
fn ask(pinger: &mut Pinger, cancel: &AtomicBool) -> Result<Option<Outcome>, Failure> {
    let work = |e| Failure::from(PingError::from(e));
    let sent = pinger.send(SIZE).map_err(work)?;
    loop {
        while let Some(event) = pinger.poll() {
            if let Event::Outcome(o) = event {
                return match sent {
                    Err(errno) if o.fate == Fate::Unsent => Err(pinger.unsent(SIZE, errno).into()),
                    _ => Ok(Some(o)),
                };
            }
        }
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        pinger.wait(None).map_err(work)?;
    }
}

impl Tracer<'_> {
    /// Asks each hop once. `false`: the caller wants to stop.
    fn round(&mut self) -> Result<bool, Failure> {
        let mut ttl = 0;
        while ttl < self.max && self.route.wants(ttl + 1) {
            ttl += 1;
            let hop = self.route.hops.get(usize::from(ttl) - 1);
            if hop.is_some_and(|h| h.answered == 0 && h.sent >= PATIENCE) {
                continue;
            }
            let work = |e| Failure::from(PingError::from(e));
            self.pinger.set_hops(ttl).map_err(work)?;
            let Some(o) = ask(&mut self.pinger, self.cancel)? else {
                return Ok(false);
            };
            self.route.add(ttl, &o);
        }
        self.ask_directly()
    }

    /// Those that left a probe unanswered are asked at their own addresses.
    fn ask_directly(&mut self) -> Result<bool, Failure> {
        let reluctant: Vec<(u8, IpAddr)> = (1..)
            .zip(&self.route.hops)
            .filter(|(_, h)| h.is_reluctant() || h.direct_sent > 0)
            .filter_map(|(ttl, h)| Some((ttl, *h.addresses.first()?)))
            .collect();
        for (ttl, address) in reluctant {
            let pinger = match self.direct.entry(address) {
                std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
                std::collections::hash_map::Entry::Vacant(e) => {
                    let Ok(pinger) = echo(address, self.timeout) else {
                        continue;
                    };
                    e.insert(pinger)
                }
            };
            match ask(pinger, self.cancel)? {
                Some(o) => self.route.add_direct(ttl, &o),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// ICMP echo to a hop's own address.
fn echo(address: IpAddr, timeout: Duration) -> Result<Pinger, PingError> {
    let to = SocketAddr::new(address, 0);
    Pinger::open(
        to,
        Kind::Echo,
        PacketOptions::default(),
        timeout,
        SIZE,
        None,
    )
}

/// Waits until `end`, or until the caller wants to stop.
fn rest(end: Instant, cancel: &AtomicBool) {
    while Instant::now() < end && !cancel.load(Ordering::Relaxed) {
        std::thread::sleep(
            Duration::from_millis(20).min(end.saturating_duration_since(Instant::now())),
        );
    }
}

/// `evenkeel trace`.
pub(crate) fn trace(args: &Trace) -> Result<(), Failure> {
    let target = args.target.resolve()?;
    let (kind, _) = args.target.kind();
    let cancel = crate::lab::cancelled_by_signals()?;
    let mut tracer = Tracer {
        route: Route::new(target.ip(), args.max_hops),
        pinger: Pinger::open(
            target,
            kind,
            args.target.options(Some(1)),
            args.timeout,
            SIZE,
            None,
        )?,
        direct: HashMap::new(),
        timeout: args.timeout,
        max: args.max_hops,
        cancel: &cancel,
    };
    let names = Names::new(args.target.names);
    let host = args.target.host();
    let title = format!("{host} ({}), {}", target.ip(), args.target.kind_words());
    let live = std::io::stdout().is_terminal() && !args.json;
    // Stamping is switched on in the background when the first socket asks for it.
    rest(Instant::now() + Duration::from_millis(20), &cancel);
    let mut rounds = 0;
    loop {
        let next = Instant::now() + ROUND;
        let going = tracer.round()?;
        rounds += 1;
        let last = !going || !args.watch && rounds >= args.rounds;
        if !last && (live || args.watch && !args.json) {
            let text = table(&title, &tracer.route, &names);
            let clear = if live { "\x1b[H\x1b[2J" } else { "" };
            print(&format!("{clear}{text}\n"))?;
        }
        if last {
            let clear = if live { "\x1b[H\x1b[2J" } else { "" };
            let text = if args.json {
                as_json(host, target.ip(), &tracer.route).to_string() + "\n"
            } else {
                clear.to_owned() + &table(&title, &tracer.route, &names)
            };
            print(&text)?;
            break;
        }
        rest(next, &cancel);
        if cancel.load(Ordering::Relaxed) {
            let text = table(&title, &tracer.route, &names);
            if args.json {
                print(&(as_json(host, target.ip(), &tracer.route).to_string() + "\n"))?;
            } else if !live {
                print(&text)?;
            }
            break;
        }
    }
    if tracer.route.shown().is_empty() {
        return Err(Failure::work(format_args!("{host}: no hop answered")));
    }
    Ok(())
}

fn figures(s: &Spread) -> String {
    match s.summary() {
        None => format!("{:>9} {:>9} {:>9} {:>9}", "-", "-", "-", "-"),
        Some(s) => format!(
            "{:>9.3} {:>9.3} {:>9.3} {:>9.3}",
            s.min, s.avg, s.max, s.stddev
        ),
    }
}

fn table(title: &str, route: &Route, names: &Names) -> String {
    let mut text = format!("Trace to {title}\n");
    let shown = route.shown();
    let name = |h: &Hop| match &h.addresses[..] {
        [] => "no answer".to_owned(),
        [one] => names.show(*one),
        [first, more @ ..] => format!("{} and {} more", names.show(*first), more.len()),
    };
    let width = shown
        .iter()
        .map(|h| name(h).chars().count())
        .max()
        .unwrap_or(0)
        .max(15);
    let _ = writeln!(
        text,
        "hop {:<width$} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "address", "answered", "min ms", "avg", "max", "stddev"
    );
    for (ttl, hop) in (1..).zip(shown) {
        let answered = format!("{}/{}", hop.answered, hop.sent);
        let _ = write!(
            text,
            "{ttl:>3} {:<width$} {answered:>9} {}",
            name(hop),
            figures(&hop.times)
        );
        if let Some(fate) = hop.last.filter(|f| *f != Fate::Reply) {
            let _ = write!(text, "  {fate}");
        }
        text.push('\n');
        if hop.direct_sent > 0 {
            let answered = format!("{}/{}", hop.direct_answered, hop.direct_sent);
            let _ = writeln!(
                text,
                "    {:<width$} {answered:>9} {}",
                "  asked directly",
                figures(&hop.direct)
            );
        }
    }
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

/// The first hops on the way to `target`, each asked once, all at the same time.
pub(crate) fn first_hops(
    target: SocketAddr,
    most: u8,
    timeout: Duration,
    cancel: &AtomicBool,
) -> Result<Route, Failure> {
    let work = |e| Failure::from(PingError::from(e));
    let options = PacketOptions::default();
    let mut pinger = Pinger::open(target, Kind::Echo, options, timeout, SIZE, None)?;
    let mut asked = HashMap::new();
    for ttl in 1..=most {
        pinger.set_hops(ttl).map_err(work)?;
        let sent = pinger.send(SIZE).map_err(work)?;
        let seq = sent.map_err(|errno| pinger.unsent(SIZE, errno))?;
        asked.insert(seq, ttl);
    }
    let mut answers = BTreeMap::new();
    while answers.len() < asked.len() && !cancel.load(Ordering::Relaxed) {
        pinger.wait(None).map_err(work)?;
        while let Some(event) = pinger.poll() {
            if let Event::Outcome(o) = event
                && let Some(ttl) = asked.get(&o.seq)
            {
                answers.insert(*ttl, o);
            }
        }
    }
    let mut route = Route::new(target.ip(), most);
    for (ttl, outcome) in &answers {
        if route.wants(*ttl) {
            route.add(*ttl, outcome);
        }
    }
    Ok(route)
}

/// Distance and address of the first hop beyond the access line that answers to its own address.
pub(crate) fn near(target: SocketAddr) -> Result<(u8, IpAddr), Failure> {
    let timeout = Duration::from_secs(1);
    let never = AtomicBool::new(false);
    let pinger = Pinger::open(
        target,
        Kind::Echo,
        PacketOptions::default(),
        timeout,
        SIZE,
        None,
    )?;
    let mut tracer = Tracer {
        route: Route::new(target.ip(), NEAR_HOPS),
        pinger,
        direct: HashMap::new(),
        timeout,
        max: NEAR_HOPS,
        cancel: &never,
    };
    for _ in 0..2 {
        let next = Instant::now() + ROUND;
        tracer.round()?;
        if let Some((ttl, address)) = tracer.route.near() {
            let answers = ask(&mut echo(address, timeout)?, &never)?;
            return match answers.map(|o| o.fate) {
                Some(Fate::Reply) => Ok((ttl, address)),
                _ => Err(Failure::work(format_args!(
                    "{address}, the hop {ttl} away, does not answer when it is asked directly: use -i{ttl}"
                ))),
            };
        }
        rest(next, &never);
    }
    Err(Failure::work(format_args!(
        "no hop beyond the access line answered on the way to {}: name one with -iTTL",
        target.ip()
    )))
}
