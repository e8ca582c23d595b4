//! `evenkeel bench`: one run, from the first probe of the idle line to the last of the tail.
//!
//! Principles: three phases on one time axis; the probes run through all of them; who interrupts gets
//! what was measured until then; a far end is asked for nothing that it has not said it takes.
//! Non-goals: figures (`evenkeel_report::bench`), the command line.

pub mod blame;
pub mod checks;
pub mod compare;
pub mod device;
pub mod iperf;
pub mod load;
pub mod own;
pub mod prober;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_report::bench::form::{self, Bench, Phases, Probe, Probes, Stream, Way};
use evenkeel_sys::clock;

pub use crate::failed::Failed;
use crate::usage::Usage;
use crate::web::{self, WebLoad, WebProbes};
use checks::Facts;
use device::Device;
use iperf::Iperf;
use load::{Live, Load, LoadStream};
use own::Control;
use prober::{Kind, Prober};

/// Which load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Four streams each way in four classes, as RRUL.
    Rrul,
    /// The same, all best effort.
    RrulBe,
    /// Down only.
    Download,
    /// Up only.
    Upload,
    /// Both ways at once.
    Both,
    /// None.
    Idle,
    /// As draft-ietf-ippm-responsiveness asks for.
    Rpm,
}

impl Test {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Test::Rrul => "rrul",
            Test::RrulBe => "rrul-be",
            Test::Download => "download",
            Test::Upload => "upload",
            Test::Both => "both",
            Test::Idle => "idle",
            Test::Rpm => "rpm",
        }
    }

    /// Streams down and up, unless told otherwise.
    fn streams(self, asked: Option<usize>) -> (usize, usize) {
        let n = asked.unwrap_or(match self {
            Test::Both => 8,
            Test::Rpm => MOST_OF_THE_DRAFT,
            _ => 4,
        });
        match self {
            Test::Download => (n, 0),
            Test::Upload => (0, n),
            Test::Idle => (0, 0),
            _ => (n, n),
        }
    }
}

/// The draft's connections at most.
const MOST_OF_THE_DRAFT: usize = 16;
/// The draft's interval.
const DRAFT_INTERVAL: Duration = Duration::from_secs(1);
/// RRUL's classes: name and TOS.
const CLASSES: [(&str, u8); 4] = [("BE", 0), ("BK", 0x20), ("CS5", 0xa0), ("EF", 0xb8)];
/// What is tried first, and what slower lines get. ms.
const INTERVALS: [u64; 6] = [5, 10, 20, 50, 100, 200];
/// Probes may take so much of the slower direction.
const PROBES_SHARE: f64 = 0.05;
/// A probe on the wire, bits: 56 bytes, 28 of headers, 38 of an Ethernet frame.
const PROBE_BITS: f64 = 122.0 * 8.0;
/// Probes of other kinds are so much rarer than the judged ones.
const OTHERS: u32 = 4;
/// The line is sized so long, each way.
const SIZING: Duration = Duration::from_millis(400);
/// Between two looks at what goes on.
const LOOK: Duration = Duration::from_millis(250);

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// URL or host.
    pub to: String,
    /// Which load.
    pub test: Test,
    /// Streams each way.
    pub streams: Option<usize>,
    /// Length of the load, s.
    pub seconds: u16,
    /// Length of the phase before.
    pub idle: Duration,
    /// And of the one after.
    pub tail: Duration,
    /// Between two judged probes; found out if absent.
    pub interval: Option<Duration>,
    /// For `evenkeel serve`.
    pub token: String,
    /// An authority to trust beside the system's.
    pub ca: Option<PathBuf>,
    /// What results call it.
    pub label: String,
    /// What was typed.
    pub command: String,
}

/// What goes on now.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// `idle`, `load`, `tail`.
    pub phase: &'static str,
    /// s until the run's end.
    pub left: f64,
    /// Mbit/s down and up since the last look.
    pub down: f64,
    /// Up.
    pub up: f64,
    /// Median of the pings since the last look, ms.
    pub ping: Option<f64>,
}

/// Whom a run speaks with.
enum FarEnd {
    Own(Box<Control>),
    Iperf(SocketAddr),
    Web(Box<web::Site>),
}

impl FarEnd {
    fn name(&self) -> &'static str {
        match self {
            FarEnd::Own(_) => "evenkeel serve",
            FarEnd::Iperf(_) => "iperf3",
            FarEnd::Web(site) if site.small.is_some() => "responsiveness server",
            FarEnd::Web(_) => "web server",
        }
    }
}

/// An address of `host` or `host:port`.
fn find(to: &str, port: u16) -> Result<SocketAddr, Failed> {
    let failed = |e: std::io::Error| Failed::Work(format!("look up {to}: {e}"));
    let bare = to.trim_start_matches('[').trim_end_matches(']');
    let numbered = to.parse::<SocketAddr>().is_ok()
        || (to.matches(':').count() == 1
            && to
                .rsplit(':')
                .next()
                .is_some_and(|p| p.parse::<u16>().is_ok()));
    let mut found = if numbered {
        to.to_socket_addrs().map_err(failed)?
    } else {
        (bare, port).to_socket_addrs().map_err(failed)?
    };
    found
        .next()
        .ok_or_else(|| Failed::Work(format!("look up {to}: no address")))
}

fn reach(o: &Options) -> Result<(FarEnd, SocketAddr), Failed> {
    if let Some(host) = o.to.strip_prefix("iperf3://") {
        let address = find(host.trim_end_matches('/'), iperf::PORT)?;
        return Ok((FarEnd::Iperf(address), address));
    }
    if o.to.contains("://") {
        let site = web::look(&o.to, o.ca.as_deref(), o.test == Test::Rpm)?;
        let address = site.large.address;
        return Ok((FarEnd::Web(Box::new(site)), address));
    }
    let address = find(&o.to, crate::proto::PORT)?;
    if o.test == Test::Rpm {
        // Its HTTP side, without TLS unless a URL says so.
        let site = web::look(&format!("http://{address}/"), o.ca.as_deref(), true)?;
        return Ok((FarEnd::Web(Box::new(site)), address));
    }
    let control = Control::open(address, &o.token)?;
    Ok((FarEnd::Own(Box::new(control)), address))
}

/// One run. `cancel` ends it early; `show` is told what goes on.
pub fn run(o: &Options, cancel: &AtomicBool, show: &mut dyn FnMut(&Now)) -> Result<Bench, Failed> {
    let (far, address) = reach(o)?;
    let (down, up) = o.test.streams(o.streams);
    let interval = match (&far, o.interval) {
        (_, Some(i)) => i,
        (FarEnd::Own(control), None) => {
            limits(control, o, down, up)?;
            size(control, down, up)?
        }
        // What may be asked of a stranger.
        (_, None) => Duration::from_millis(50),
    };
    let mut run = Run {
        o,
        address,
        down,
        up,
        zero: clock::monotonic(),
        wall: clock::realtime(),
        live: Arc::new(Live::default()),
        shown: (clock::monotonic(), 0, 0),
        cancel,
        show,
        ends: [o.idle, Duration::from_secs(o.seconds.into()), o.tail],
        usage: Usage::now(),
        device: Device::towards(address),
        counters: Vec::new(),
        backlog: Vec::new(),
        dropped: None,
    };
    run.measure(far, interval)
}

/// What a server takes, before it is asked for it.
fn limits(control: &Control, o: &Options, down: usize, up: usize) -> Result<(), Failed> {
    let too_much = |what: String| Err(Failed::Usage(format!("{}: {what}", o.to)));
    if down + up + 2 > control.streams.into() {
        return too_much(format!(
            "it takes {} streams: --streams N",
            control.streams.saturating_sub(2)
        ));
    }
    if o.seconds > control.seconds {
        return too_much(format!(
            "it takes {} s: --seconds {}",
            control.seconds, control.seconds
        ));
    }
    if control.bytes == 0 {
        return too_much(
            "this address has moved as many bytes as it may in an hour; try again later".into(),
        );
    }
    Ok(())
}

/// How often may be probed: a short look at what the line carries.
fn size(control: &Control, down: usize, up: usize) -> Result<Duration, Failed> {
    let mut slower = f64::INFINITY;
    for (way, streams, id) in [(Way::Down, down, 1), (Way::Up, up, 2)] {
        if streams == 0 {
            continue;
        }
        let stream = control.stream(control.streams.saturating_sub(id), way, "", 0, 2)?;
        let began = clock::monotonic();
        let load = Load::start(vec![stream], began, Arc::default())?;
        std::thread::sleep(SIZING);
        let mut outcomes = load.finish()?;
        let seconds = clock::monotonic().saturating_sub(began).as_secs_f64();
        for o in &mut outcomes {
            o.close();
            slower = slower.min(o.bytes.iter().sum::<u64>() as f64 * 8.0 / seconds);
        }
    }
    // What that put into queues has to go before the line is called idle.
    std::thread::sleep(2 * SIZING);
    Ok(interval(slower))
}

/// The shortest interval at which probes take no more than their share of a rate, bit/s.
fn interval(rate: f64) -> Duration {
    let kinds = 1.0 + 3.0 / f64::from(OTHERS);
    let fits = |ms: &u64| PROBE_BITS * kinds / (*ms as f64 / 1000.0) <= rate * PROBES_SHARE;
    let found = INTERVALS
        .iter()
        .find(|ms| fits(ms))
        .unwrap_or(&INTERVALS[INTERVALS.len() - 1]);
    Duration::from_millis(*found)
}

struct Run<'a> {
    o: &'a Options,
    address: SocketAddr,
    down: usize,
    up: usize,
    /// The run's beginning on the steady clock, and on the wall's.
    zero: Duration,
    wall: Duration,
    live: Arc<Live>,
    /// When was looked last, and what had been moved.
    shown: (Duration, u64, u64),
    cancel: &'a AtomicBool,
    show: &'a mut dyn FnMut(&Now),
    /// Lengths of the phases.
    ends: [Duration; 3],
    usage: Usage,
    device: Option<Device>,
    /// The device's counters: at the beginning, around the load, at the end.
    counters: Vec<(f64, device::Counters)>,
    /// What waits in our own queues where evenkeel shapes: s, bytes.
    backlog: Vec<(f64, f64)>,
    /// Packets that those had dropped at the first look, and at the last.
    dropped: Option<(u64, u64)>,
}

/// Everything that a load may be.
enum Loading {
    Nothing,
    Own(Load),
    Iperf(Load, Box<Iperf>),
    Web(WebLoad),
}

/// The probes of a run.
struct Probing {
    prober: Option<Prober>,
    web: Option<WebProbes>,
}

impl Probing {
    fn latest(&self) -> Option<f64> {
        let web = self.web.as_ref().and_then(|w| w.latest.take());
        web.or_else(|| self.prober.as_ref()?.latest.take())
    }
}

impl Run<'_> {
    fn seconds(&self) -> f64 {
        clock::monotonic().saturating_sub(self.zero).as_secs_f64()
    }

    fn count(&mut self) {
        let at = self.seconds();
        self.counters.extend(
            self.device
                .as_ref()
                .and_then(Device::counters)
                .map(|c| (at, c)),
        );
    }

    /// Looks at our own queues, if there are any.
    fn look_at_own_queue(&mut self) {
        // Where there were none at the first look there will be none.
        if self.dropped.is_none() && self.seconds() > 1.0 {
            return;
        }
        if let Some((backlog, dropped)) = self.device.as_ref().and_then(Device::own_queue) {
            self.backlog.push((self.seconds(), backlog as f64));
            let before = self.dropped.map_or(dropped, |d| d.0);
            self.dropped = Some((before, dropped));
        }
    }

    fn measure(&mut self, mut far: FarEnd, interval: Duration) -> Result<Bench, Failed> {
        let far_end = far.name();
        let blame = blame::Watch::start(self.address, self.wall);
        let probing = self.probes(&far, interval)?;
        self.count();
        self.wait("idle", 0, &probing, None)?;
        let prepared = self.prepare(&mut far)?;
        self.count();
        let mut phases = Phases {
            load: self.seconds(),
            ..Phases::default()
        };
        let loading = self.begin(prepared, &probing)?;
        let failure = self.wait("load", 1, &probing, Some(&loading));
        phases.tail = self.seconds();
        let (streams, theirs) = self.end(loading, &mut far)?;
        failure?;
        self.count();
        self.wait("tail", 2, &probing, None)?;
        phases.end = self.seconds();
        self.count();
        let (cpu, machine) = self.usage.since();
        let Probing { prober, web } = probing;
        let mut outcome = prober.map(Prober::finish).transpose()?.unwrap_or_default();
        let (mut probes, rpm) = web.map(WebProbes::finish).unwrap_or_default();
        // Requests and handshakes first: those a user waits for. Ours have UDP.
        probes.append(&mut outcome.probes);
        let report = match &mut far {
            // If it has gone, what was acknowledged stands in, and a check says so.
            FarEnd::Own(control) => control.report().ok(),
            FarEnd::Iperf(_) | FarEnd::Web(_) => None,
        };
        let half_rtt = half_rtt(&probes);
        let streams = match (streams, theirs) {
            (Streams::Raw(outcomes), None) => own::merge(outcomes, report.as_ref(), half_rtt),
            (Streams::Raw(outcomes), Some(theirs)) => iperf::merge(outcomes, Some(&theirs)),
            (Streams::Done(streams), _) => streams,
        };
        fall_back(&mut probes, &streams);
        let rpm = (!rpm.http_foreign.is_empty()).then(|| finished(rpm, &streams, phases));
        let mut bench = self.bench(far_end, phases, streams, probes);
        bench.rpm = rpm;
        let facts = Facts {
            cpu,
            machine,
            report: report.as_ref().map(|r| (r.cpu, r.machine)),
            must_report: matches!(far, FarEnd::Own(_)) && self.up > 0,
            clock_step: outcome.clock_step,
            device: self.device.clone(),
            counters: self.counters.clone(),
        };
        bench.checks = checks::checks(&bench, &facts);
        bench.checks.extend(blame.finish(&bench));
        Ok(bench)
    }

    fn probes(&self, far: &FarEnd, interval: Duration) -> Result<Probing, Failed> {
        let kind = |icmp, tos, mark, interval| Kind {
            icmp,
            tos,
            mark,
            interval,
        };
        let others = interval * OTHERS;
        let icmp = kind(true, 0, "BE", others);
        let (session, kinds) = match far {
            FarEnd::Own(control) => (
                control.session as u32,
                vec![
                    kind(false, 0, "BE", interval),
                    kind(false, 0xb8, "EF", others),
                    kind(false, 0x20, "BK", others),
                    icmp,
                ],
            ),
            FarEnd::Iperf(_) | FarEnd::Web(_) => (
                self.wall.as_nanos() as u32,
                vec![kind(true, 0, "BE", interval)],
            ),
        };
        let prober = match Prober::start(self.address, session, &kinds, self.wall) {
            Ok(p) => Some(p),
            // Without echo requests connections are probed by themselves.
            Err(e) if e.is_permission() && !matches!(far, FarEnd::Own(_)) => None,
            Err(e) => return Err(e.into()),
        };
        let web = match far {
            FarEnd::Web(site) => Some(WebProbes::start((**site).clone(), self.zero)?),
            FarEnd::Own(_) | FarEnd::Iperf(_) => None,
        };
        Ok(Probing { prober, web })
    }

    /// Waits for the end of phase `i`.
    fn wait(
        &mut self,
        phase: &'static str,
        i: usize,
        probing: &Probing,
        loading: Option<&Loading>,
    ) -> Result<(), Failed> {
        let until = clock::monotonic() + self.ends[i];
        let rest: Duration = self.ends[i + 1..].iter().sum();
        while clock::monotonic() < until && !self.cancel.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(until.saturating_sub(clock::monotonic())));
            self.look_at_own_queue();
            let now = clock::monotonic();
            let (down, up) = (
                self.live.down.load(Ordering::Relaxed),
                self.live.up.load(Ordering::Relaxed),
            );
            let width = now.saturating_sub(self.shown.0).as_secs_f64().max(1e-3);
            let rate =
                |now: u64, before: u64| now.saturating_sub(before) as f64 * 8.0 / 1e6 / width;
            let shown = Now {
                phase,
                left: (until.saturating_sub(now) + rest).as_secs_f64(),
                down: rate(down, self.shown.1),
                up: rate(up, self.shown.2),
                ping: probing.latest(),
            };
            self.shown = (now, down, up);
            (self.show)(&shown);
            if let Some(Loading::Web(w)) = loading
                && let Some(e) = w.failure()
            {
                return Err(e);
            }
        }
        Ok(())
    }

    /// Connects all streams, so that they begin together.
    fn prepare(&self, far: &mut FarEnd) -> Result<Prepared, Failed> {
        if self.down + self.up == 0 || self.cancel.load(Ordering::Relaxed) {
            return Ok(Prepared::Nothing);
        }
        match far {
            FarEnd::Own(control) => {
                let mut streams = Vec::new();
                for (way, n) in [(Way::Down, self.down), (Way::Up, self.up)] {
                    for i in 0..n {
                        let class = if self.o.test == Test::Rrul {
                            i % CLASSES.len()
                        } else {
                            0
                        };
                        let (mark, tos) = CLASSES[class];
                        let id = streams.len() as u16;
                        // A second longer than needed: we end it.
                        streams.push(control.stream(
                            id,
                            way,
                            mark,
                            tos,
                            self.o.seconds.saturating_add(1),
                        )?);
                    }
                }
                Ok(Prepared::Own(streams))
            }
            FarEnd::Iperf(address) => {
                let (iperf, streams) = Iperf::open(*address, self.down, self.up, self.o.seconds)?;
                Ok(Prepared::Iperf(Box::new(iperf), streams))
            }
            FarEnd::Web(site) => {
                if self.up > 0 && site.upload.is_none() {
                    return Err(Failed::Usage(format!(
                        "{} takes no uploads: --test download, or another far end",
                        self.o.to
                    )));
                }
                Ok(Prepared::Web(site.clone()))
            }
        }
    }

    fn begin(&mut self, prepared: Prepared, probing: &Probing) -> Result<Loading, Failed> {
        let live = Arc::clone(&self.live);
        Ok(match prepared {
            Prepared::Nothing => Loading::Nothing,
            Prepared::Own(streams) => Loading::Own(Load::start(streams, self.zero, live)?),
            Prepared::Iperf(mut iperf, streams) => {
                let load = Load::start(streams, self.zero, live)?;
                iperf.begin()?;
                Loading::Iperf(load, iperf)
            }
            Prepared::Web(site) => {
                let every = if self.o.test == Test::Rpm {
                    DRAFT_INTERVAL
                } else {
                    Duration::ZERO
                };
                let growth = web::Growth {
                    streams: (self.down, self.up),
                    every,
                };
                let load = WebLoad::start(*site, growth, self.zero, live)?;
                if let Some(w) = &probing.web {
                    w.carried_by(&load);
                }
                Loading::Web(load)
            }
        })
    }

    fn end(
        &self,
        loading: Loading,
        far: &mut FarEnd,
    ) -> Result<(Streams, Option<iperf::Theirs>), Failed> {
        Ok(match loading {
            Loading::Nothing => (Streams::Done(Vec::new()), None),
            Loading::Own(load) => {
                let mut outcomes = load.finish()?;
                // Nothing of them stays on the line.
                outcomes.iter_mut().for_each(load::StreamOutcome::close);
                (Streams::Raw(outcomes), None)
            }
            Loading::Iperf(load, mut iperf) => {
                let outcomes = load.finish()?;
                let theirs = iperf.end()?;
                *far = FarEnd::Iperf(self.address);
                (Streams::Raw(outcomes), Some(theirs))
            }
            Loading::Web(load) => (Streams::Done(load.finish()), None),
        })
    }

    fn bench(
        &self,
        far_end: &str,
        phases: Phases,
        streams: Vec<Stream>,
        probes: Vec<Probes>,
    ) -> Bench {
        Bench {
            bench_version: form::VERSION,
            label: self.o.label.clone(),
            test: self.o.test.name().into(),
            to: self.o.to.clone(),
            far_end: far_end.into(),
            address: self.address.to_string(),
            host: nix::sys::utsname::uname().ok().map_or(String::new(), |u| {
                u.nodename().to_string_lossy().into_owned()
            }),
            began: self.wall.as_secs_f64(),
            command: self.o.command.clone(),
            kernel: nix::sys::utsname::uname().ok().map_or(String::new(), |u| {
                u.release().to_string_lossy().into_owned()
            }),
            program: concat!("evenkeel-bench ", env!("CARGO_PKG_VERSION")).into(),
            shaper: self.device.as_ref().map(Device::shaper).unwrap_or_default(),
            backlog: self.backlog.clone(),
            dropped_by_us: self
                .dropped
                .map_or(0, |(before, now)| now.saturating_sub(before)),
            phases,
            streams,
            probes,
            interrupted: self.cancel.load(Ordering::Relaxed),
            ..Bench::default()
        }
    }
}

/// A load that is connected.
enum Prepared {
    Nothing,
    Own(Vec<LoadStream>),
    Iperf(Box<Iperf>, Vec<LoadStream>),
    Web(Box<web::Site>),
}

enum Streams {
    Raw(Vec<load::StreamOutcome>),
    Done(Vec<Stream>),
}

/// Half the least round trip, s: what a stream's head takes to arrive on the idle line.
fn half_rtt(probes: &[Probes]) -> f64 {
    let all = probes.iter().flat_map(|p| &p.probes).filter_map(|p| p.rtt);
    all.reduce(f64::min).unwrap_or(0.0) / 2000.0
}

/// Where no probe came back at all, the round trips of the load's own senders stand in.
fn fall_back(probes: &mut Vec<Probes>, streams: &[Stream]) {
    probes.retain(|p| p.probes.iter().any(|p| p.rtt.is_some()));
    if !probes.is_empty() {
        return;
    }
    let all = streams.iter().flat_map(|s| &s.rtt_ms);
    let mut seen: Vec<Probe> = all.map(|(t, ms)| Probe::new(*t, Some(*ms))).collect();
    seen.sort_by(|a, b| a.t.total_cmp(&b.t));
    if !seen.is_empty() {
        probes.push(Probes {
            kind: "TCP_INFO".into(),
            mark: "BE".into(),
            probes: seen,
        });
    }
}

/// The draft's rule: the last four intervals count; stable if the moving averages (over four) of the
/// goodput of the last four intervals vary by less than 5 %.
fn finished(mut rpm: form::RpmSamples, streams: &[Stream], phases: Phases) -> form::RpmSamples {
    const COUNTED: f64 = 4.0;
    rpm.from = (phases.tail - COUNTED).max(phases.load);
    let before_end = |of: &mut Vec<(f64, f64)>| of.retain(|s| s.0 < phases.tail);
    for of in [
        &mut rpm.tcp_foreign,
        &mut rpm.tls_foreign,
        &mut rpm.http_foreign,
        &mut rpm.http_self,
    ] {
        before_end(of);
    }
    rpm.connections = streams.len();
    let goodput = |from: f64, to: f64| -> f64 {
        let bin = |t: f64| (t / form::BIN_S).max(0.0) as usize;
        let sum = |s: &Stream| -> u64 { s.bytes.iter().take(bin(to)).skip(bin(from)).sum() };
        streams.iter().map(sum).sum::<u64>() as f64 / (to - from)
    };
    let averages: Vec<f64> = (0..4)
        .map(|i| phases.tail - f64::from(i))
        .filter(|end| end - COUNTED >= phases.load)
        .map(|end| goodput(end - COUNTED, end))
        .collect();
    rpm.stable = averages.len() == 4
        && evenkeel_core::Summary::of(&averages).is_some_and(|s| s.stddev < 0.05 * s.avg);
    rpm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_take_their_share() {
        for (mbit, ms) in [
            (100.0, 5),
            (7.0, 5),
            (6.0, 10),
            (1.0, 50),
            (0.1, 200),
            (0.0, 200),
        ] {
            assert_eq!(interval(mbit * 1e6), Duration::from_millis(ms), "{mbit}");
        }
    }

    #[test]
    fn hosts_and_ports() {
        assert_eq!(
            find("127.0.0.1", 7).unwrap(),
            "127.0.0.1:7".parse().unwrap()
        );
        assert_eq!(
            find("127.0.0.1:8", 7).unwrap(),
            "127.0.0.1:8".parse().unwrap()
        );
        assert_eq!(find("::1", 7).unwrap(), "[::1]:7".parse().unwrap());
        assert_eq!(find("[::1]:8", 7).unwrap(), "[::1]:8".parse().unwrap());
        assert_eq!(find("[::1]", 7).unwrap(), "[::1]:7".parse().unwrap());
    }

    #[test]
    fn without_probes_the_load_tells() {
        let stream = Stream {
            way: Way::Up,
            mark: "BE".into(),
            bytes: Vec::new(),
            by_sender: true,
            retransmits: None,
            rtt_ms: vec![(2.0, 30.0), (1.0, 20.0)],
        };
        let mut probes = vec![Probes {
            kind: "ICMP".into(),
            mark: "BE".into(),
            probes: vec![Probe::new(0.0, None)],
        }];
        fall_back(&mut probes, &[stream]);
        assert_eq!((probes.len(), probes[0].kind.as_str()), (1, "TCP_INFO"));
        assert_eq!(probes[0].probes[0].rtt, Some(20.0));
    }
}
