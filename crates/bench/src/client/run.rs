//! One run, from the first probe of the idle line to the last of the tail.
//!
//! Principles: three phases on one time axis; the probes run through all of them; who interrupts gets
//! what was measured until then. Non-goals: figures (`evenkeel_report::bench`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_report::bench::form::{self, Bench, Phases, Probes, Stream};
use evenkeel_sys::clock;

use super::afterwards::{fall_back, finished, half_rtt};
use super::checks::{self, Facts};
use super::device::{self, Device};
use super::far_end::{FarEnd, limits, pings, reach};
use super::load::Live;
use super::loading::{Loading, Moved, Prepared, Wanted};
use super::options::{Now, Options};
use super::pace::size;
use super::prober::Prober;
use super::probing::Probing;
use super::{blame, own};
use crate::failed::Failed;
use crate::usage::Usage;
use crate::web::WebProbes;

/// Between two looks at what goes on.
const LOOK: Duration = Duration::from_millis(250);

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

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            o: self.o,
            down: self.down,
            up: self.up,
        }
    }

    fn measure(&mut self, far: FarEnd, interval: Duration) -> Result<Bench, Failed> {
        let irtt = pings(self.o, interval)?;
        let blame = blame::Watch::start(self.address, self.wall);
        let probing = Probing::start(
            &far,
            self.address,
            (self.o.test, interval, irtt),
            (self.zero, self.wall),
        )?;
        self.count();
        self.wait("idle", 0, &probing, None)?;
        let prepared = if self.cancel.load(Ordering::Relaxed) {
            Prepared::Nothing
        } else {
            Prepared::connect(self.wanted(), &far)?
        };
        self.count();
        let mut phases = Phases {
            load: self.seconds(),
            ..Phases::default()
        };
        let live = Arc::clone(&self.live);
        let loading = prepared.begin(self.wanted(), self.zero, live, &probing)?;
        let failure = self.wait("load", 1, &probing, Some(&loading));
        phases.tail = self.seconds();
        let moved = loading.end()?;
        failure?;
        self.count();
        self.wait("tail", 2, &probing, None)?;
        phases.end = self.seconds();
        self.count();
        self.conclude(far, phases, moved, probing, blame)
    }

    /// What can be said once nothing is measured any more.
    fn conclude(
        &self,
        mut far: FarEnd,
        phases: Phases,
        moved: Moved,
        probing: Probing,
        blame: blame::Watch,
    ) -> Result<Bench, Failed> {
        let (cpu, machine) = self.usage.since();
        let Probing { prober, web } = probing;
        let mut outcome = prober.map(Prober::finish).transpose()?.unwrap_or_default();
        let (mut probes, rpm) = web.map(WebProbes::finish).unwrap_or_default();
        // Requests and handshakes first: those a user waits for. Ours have UDP, and irtt's were asked for.
        if outcome.probes.first().is_some_and(|p| p.kind == "irtt") {
            probes.splice(0..0, outcome.probes.drain(..));
        }
        probes.append(&mut outcome.probes);
        let report = match &mut far {
            // If it has gone, what was acknowledged stands in, and a check says so.
            FarEnd::Own(control) => control.report().ok(),
            FarEnd::Iperf(_) | FarEnd::Web(_) | FarEnd::Irtt => None,
        };
        let mut pages = Vec::new();
        let streams = match moved {
            Moved::Own(outcomes, home) => {
                let mut all = own::merge(outcomes, report.as_ref(), half_rtt(&probes));
                all.extend(home.0);
                pages = home.1;
                all
            }
            Moved::Told(streams) => streams,
        };
        fall_back(&mut probes, &streams);
        let rpm = (!rpm.http_foreign.is_empty()).then(|| finished(rpm, &streams, phases));
        let mut bench = self.bench(far.name(), phases, streams, probes);
        (bench.rpm, bench.pages) = (rpm, pages);
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
            if let Some(e) = loading.and_then(Loading::failure) {
                return Err(e);
            }
        }
        Ok(())
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
