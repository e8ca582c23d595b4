//! `ping`: round trips to a host, by ICMP, UDP or TCP, stamped by the kernel.
//!
//! Principles: what is meant is said before the first probe, so that no flag means silently
//! something else; everything that is told once a probe is told from its one outcome; lines go
//! to stdout, what went wrong with files to stderr. Non-goals: sockets (`evenkeel_measure::ping`)
//! and the meaning of short flags (`habits`).

mod graph;
pub(crate) mod habits;
pub(crate) mod keep;
mod show;
mod target;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use evenkeel_core::ping::Fate;
use evenkeel_core::ping::sizes::Sizes;
use evenkeel_core::ping::tally::{Recent, Tally};
use evenkeel_core::ping::track::{Event, MEMORY};
use evenkeel_kernel::StateDir;
use evenkeel_measure::hops::{self, NearHop};
use evenkeel_measure::ping::{Kind, Request, Session};
use evenkeel_terminal::live::Below;
use evenkeel_terminal::{Failure, cancelled_by_signals, print};

use crate::args::StateArg;

use graph::Graph;
use keep::Keep;
pub(crate) use target::{Names, Target, time};

/// Arguments of `ping`.
#[derive(Debug, Args)]
pub(crate) struct Ping {
    #[command(flatten)]
    target: Target,
    /// How many probes [-nN]; 4, or ten rounds of a sweep
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Until Ctrl-C [-t]
    #[arg(long, conflicts_with = "count")]
    forever: bool,
    /// From one probe to the next: 200ms, 1s; at least 1ms [-sMS]
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = interval)]
    interval: Duration,
    /// The next probe as soon as one is answered, at the latest after 10 ms
    #[arg(long)]
    flood: bool,
    /// When a probe is given up: 1s [-wMS]
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    timeout: Duration,
    /// At most so many probes in flight [-cN]; without it as many as the timeout allows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MEMORY as i64))]
    in_flight: Option<u32>,
    /// Bytes of payload, or a sweep FIRST:LAST:STEP [-lSIZE]
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "32",
        conflicts_with = "ip_size"
    )]
    size: Sizes,
    /// The same as sizes of IP packets [-LSIZE]
    #[arg(long, value_name = "SIZE")]
    ip_size: Option<Sizes>,
    /// TTL, 1 to 255: the router that many hops away answers [-iTTL]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    ttl: Option<u8>,
    /// Ping the first hop beyond the access line on the way to the host
    #[arg(long, conflicts_with_all = ["ttl", "kind"])]
    near: bool,
    /// Keep a line for each probe in FILE, also when quiet [-F FILE]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The time before each line [-T]
    #[arg(long)]
    time: bool,
    /// Leave out lines: replies, errors, timeouts (r, e, t), without letters all [-q, -qLETTERS]
    #[arg(long, value_name = "LETTERS", num_args = 0..=1, require_equals = true, default_missing_value = "ret",
          value_parser = letters)]
    quiet: Option<String>,
    /// A summary of the last seconds, again and again: 10s [-y, -yS]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10s",
          value_parser = time)]
    summary: Option<Duration>,
    /// A live graph in the terminal [-g]
    #[arg(long)]
    graph: bool,
    /// At the end a page, a picture or figures (.html, .png, .json), or all into a directory
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print nothing but the statistics, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArg,
}

fn interval(text: &str) -> Result<Duration, String> {
    if text
        .trim_start_matches('0')
        .trim_end_matches(char::is_alphabetic)
        .is_empty()
    {
        return Err("no pause at all is a flood: say --flood".into());
    }
    time(text)
}

fn letters(text: &str) -> Result<String, String> {
    if text.is_empty() || !text.chars().all(|c| "ret".contains(c)) {
        return Err("letters are r, e and t: replies, errors, timeouts".into());
    }
    Ok(text.to_owned())
}

/// `evenkeel ping`.
pub(crate) fn ping(args: &Ping) -> Result<(), Failure> {
    let (request, near) = request(args)?;
    let title = title(args, &request, &near);
    let about = [
        ("target", args.target.host().to_owned()),
        ("address", request.target.ip().to_string()),
        ("probe", args.target.kind_words()),
        ("title", title.clone()),
        ("interval_us", args.interval.as_micros().to_string()),
        ("timeout_us", args.timeout.as_micros().to_string()),
    ];
    let keep = Keep::open(args.log.as_deref(), args.out.as_deref(), &about)?;
    let cancel = cancelled_by_signals()?;
    // Evenkeel's programs on this machine's lines see answers before our own ingress queue does.
    let programs = evenkeel_kernel::all_maps(&StateDir::new(&args.state.state_dir));
    let session = Session::start(request, Some(Box::new(programs)))?;
    let began = Instant::now();
    let mut screen = Screen::new(args, keep, &cancel);
    if !args.json {
        screen.text = format!("Ping {title}\n");
    }
    follow(&session, &mut screen, began, &cancel)?;
    session.finish()?;
    let took = began.elapsed();
    let Screen { tally, keep, .. } = screen.end()?;
    if args.json {
        print(&(show::json(&tally, &about, took).to_string() + "\n"))?;
    } else {
        let (headers, sweep) = (headers(&request), request.sizes.is_sweep());
        print(&show::statistics(&tally, &title, took, headers, sweep))?;
    }
    keep.finish(&title)?;
    if tally.answered() == 0 {
        let host = args.target.host();
        return Err(Failure::work(format_args!("{host}: no probe was answered")));
    }
    Ok(())
}

/// What the arguments ask for, and, with `--near`, which hop is meant, in words.
fn request(args: &Ping) -> Result<(Request, String), Failure> {
    let target = args.target.resolve()?;
    let (kind, _) = args.target.kind();
    let in_flight = args.in_flight.map_or(MEMORY, |n| n as usize);
    let mut request = Request {
        target,
        kind,
        interval: args.interval,
        flood: args.flood,
        count: None,
        timeout: args.timeout,
        in_flight,
        sizes: args.size,
        options: args.target.options(args.ttl),
    };
    if let Some(sizes) = args.ip_size {
        let payload = sizes.without(headers(&request));
        request.sizes = payload.map_err(Failure::usage)?;
    }
    // These have no payload of ours.
    match kind {
        Kind::Timestamp => request.sizes = Sizes::fixed(12),
        Kind::Tcp => request.sizes = Sizes::fixed(0),
        Kind::Echo | Kind::Udp => {}
    }
    if !args.flood && args.in_flight.is_none() && args.timeout / MEMORY as u32 >= args.interval {
        return Err(Failure::usage(format_args!(
            "--interval {:?} and --timeout {:?} would have more than {MEMORY} probes in flight: a \
             shorter timeout, or --in-flight",
            args.interval, args.timeout
        )));
    }
    request.count = match (args.forever, args.count) {
        (true, _) => None,
        (_, Some(n)) => Some(n),
        (_, None) if request.sizes.is_sweep() => Some(u64::from(request.sizes.count()) * 10),
        _ => Some(4),
    };
    let mut near = String::new();
    if args.near {
        let NearHop { ttl, address, .. } = near_hop(target)?;
        near = format!(", the hop {ttl} away on the way to {}", args.target.host());
        request.target = SocketAddr::new(address, 0);
    }
    Ok((request, near))
}

/// Bytes of an IP packet before the payload.
fn headers(request: &Request) -> u32 {
    let ip = if request.target.is_ipv6() { 40 } else { 20 };
    ip + if request.kind == Kind::Tcp { 20 } else { 8 }
}

/// Shows what becomes known until the session ends; a signal, or nobody who reads, stops it.
fn follow(
    session: &Session,
    screen: &mut Screen<'_>,
    began: Instant,
    cancel: &AtomicBool,
) -> Result<(), Failure> {
    let (mut stopped, mut begun) = (false, false);
    loop {
        if cancel.load(Ordering::Relaxed) && !stopped {
            session.stop();
            stopped = true;
        }
        match session.events.recv_timeout(Duration::from_millis(50)) {
            Ok(events) => {
                begun = true;
                for event in &events {
                    screen.event(event, began.elapsed());
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        // A first probe that cannot be sent is an error, and nothing else.
        if begun && screen.pause(began.elapsed())? && !stopped {
            // Nobody reads any more.
            session.stop();
            stopped = true;
        }
    }
}

/// The first hop beyond the access line, which must answer.
fn near_hop(target: SocketAddr) -> Result<NearHop, Failure> {
    let target_ip = target.ip();
    match hops::near(target)? {
        Some(hop) if hop.answers => Ok(hop),
        Some(NearHop { ttl, address, .. }) => Err(Failure::work(format_args!(
            "{address}, the hop {ttl} away, does not answer when it is asked directly: use -i{ttl}"
        ))),
        None => Err(Failure::work(format_args!(
            "no hop beyond the access line answered on the way to {target_ip}: name one with -iTTL"
        ))),
    }
}

/// What is about to be done, in one line.
fn title(args: &Ping, r: &Request, near: &str) -> String {
    let address = r.target.ip();
    let host = args.target.host();
    let mut title = if !near.is_empty() || host == address.to_string() {
        address.to_string()
    } else {
        format!("{host} ({address})")
    };
    title += near;
    title += &format!(", {}", args.target.kind_words());
    if let Some(ttl) = args.ttl {
        title += &format!(", TTL {ttl}");
    }
    if args.target.tos() != 0 {
        title += &format!(", TOS {}", args.target.tos());
    }
    let (first, last) = (r.sizes.of(0), r.sizes.largest());
    title += &if r.sizes.is_sweep() {
        format!(", {first} to {last} bytes in {} sizes", r.sizes.count())
    } else {
        format!(", {first} bytes")
    };
    if r.options.dont_fragment {
        title += ", never fragmented";
    }
    title += &match (r.flood, r.count) {
        (true, _) => ", a flood".to_owned(),
        (false, Some(n)) => format!(", {n} probes every {:?}", r.interval),
        (false, None) => format!(", every {:?}", r.interval),
    };
    if let Some(n) = args.in_flight {
        title += &format!(", at most {n} in flight");
    }
    title
}

/// Where lines, graph, log and counts go.
struct Screen<'a> {
    args: &'a Ping,
    names: Names,
    tally: Tally,
    recent: Option<(Recent, Duration)>,
    graph: Option<(Graph, Below)>,
    keep: Keep,
    /// Lines that are not yet out.
    text: String,
    /// When they go out next.
    next: Duration,
}

/// Between two writes to a terminal with a graph, and to files.
const BEAT: Duration = Duration::from_millis(100);

impl<'a> Screen<'a> {
    fn new(args: &'a Ping, keep: Keep, cancel: &Arc<AtomicBool>) -> Self {
        let wanted = args.graph && !args.json;
        let below = wanted.then(|| Below::open(graph::ROWS as u16, cancel));
        let below = below.flatten();
        if wanted && below.is_none() && args.out.is_none() {
            eprintln!(
                "evenkeel: no live graph: the output is no terminal for one (--out DIR draws one at the end)"
            );
        }
        Screen {
            args,
            names: Names::new(args.target.names),
            tally: Tally::new(),
            recent: args.summary.map(|s| (Recent::new(s), s)),
            graph: below.map(|below| (Graph::new(), below)),
            keep,
            text: String::new(),
            next: Duration::ZERO,
        }
    }

    fn event(&mut self, event: &Event, now: Duration) {
        self.tally.add(event);
        if let Some((recent, every)) = &mut self.recent
            && let Some(over) = recent.add(event, now)
        {
            self.text += &(show::recent(&over, *every) + "\n");
        }
        if let Event::Outcome(o) = event {
            self.keep.add(o);
            if let Some((graph, _)) = &mut self.graph {
                graph.add(o);
            }
        }
        let letter = match event {
            Event::Outcome(o) if o.fate == Fate::Reply => 'r',
            Event::Far(..) => 'r',
            Event::Outcome(o) if o.fate == Fate::Timeout => 't',
            _ => 'e',
        };
        let quiet = self.args.quiet.as_deref().unwrap_or_default();
        if self.args.json || quiet.contains(letter) {
            return;
        }
        if self.args.time {
            let now = humantime::format_rfc3339_micros(SystemTime::now());
            self.text += &format!("{now} ");
        }
        let name = |a: IpAddr| self.names.show(a);
        self.text += &(show::line(event, self.args.timeout, &name) + "\n");
    }

    /// Writes what is due. `true`: nobody reads any more.
    fn pause(&mut self, now: Duration) -> Result<bool, Failure> {
        if let Some((recent, every)) = &mut self.recent
            && let Some(over) = recent.advance(now)
        {
            self.text += &(show::recent(&over, *every) + "\n");
        }
        if self.args.json {
            self.text.clear();
        }
        let beat = now >= self.next;
        if beat {
            self.next = now + BEAT;
            self.keep.flush();
        }
        if self.graph.is_some() && !beat {
            return Ok(false);
        }
        let text = std::mem::take(&mut self.text);
        if let Some((graph, below)) = &mut self.graph {
            below.show(&text, |columns| graph.lines(columns))?;
            return Ok(false);
        }
        if text.is_empty() {
            return Ok(false);
        }
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(false),
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(true),
            Err(e) => Err(Failure::work(format_args!("write to stdout: {e}"))),
        }
    }

    /// What is left goes out; the last graph stays.
    fn end(mut self) -> Result<Self, Failure> {
        self.next = Duration::ZERO;
        self.pause(Duration::ZERO)?;
        self.graph = None;
        Ok(self)
    }
}
