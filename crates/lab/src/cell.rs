//! One cell of an experiment: one condition under one load, once, on hosts of its own.
//!
//! Order: hosts and line; the condition; probes on the idle line; the load with probes; probes
//! still under way; counters. Principles: a cell shares nothing with another; whatever spoils
//! the instrument makes the run void, with the reason in it. Non-goals: retries and order of
//! cells (`run`).

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::Direction;
use evenkeel_core::Summary;
use evenkeel_core::exit::{Exit, Exits};
use evenkeel_core::result::{Instrument, Run, Series};
use evenkeel_measure::PROBE_PORT;
use evenkeel_measure::echo::Echo;
use evenkeel_measure::probe::{ProbeConfig, ProbeOutcome, Prober};
use evenkeel_sys::clock;
use evenkeel_sys::sched::CpuTimes;

use crate::addresses::server_address;
use crate::cells::Cell;
use crate::emulator::{Emulator, EmulatorReport};
use crate::error::LabError;
use crate::experiment::{Experiment, LoadSpec};
use crate::metrics;
use crate::millis::millis;
use crate::peers::Lacks;
use crate::progress::Phase;
use crate::shaper::{Dropped, Shaper, ShaperError, Site};
use crate::topology::{Topology, WAN, lan_device};

mod traffic;

/// Beyond this the emulator's lag would show in the figures.
const MAX_LAG_P99: Duration = Duration::from_micros(500);
/// Judged figures go up to the 99th percentile: at most half of what lies beyond may have met a
/// stall of the machine, and none a long one.
const MAX_LAG_P995: Duration = Duration::from_millis(1);
/// A stall this long changes what TCP does.
const MAX_LAG: Duration = Duration::from_millis(50);
/// The hypervisor took this much: what was measured is the neighbours.
const MAX_STEAL: f64 = 0.10;
/// First port of the load's listeners, and of those of a load that does not count.
const LOAD_PORT: u16 = 50_001;
const WARM_UP_PORT: u16 = 40_001;
/// From the first packets to the idle phase.
const WARM_UP: Duration = Duration::from_millis(300);

/// Waits until a time on the steady clock; an error ends the cell.
pub(crate) type Wait<'a> = &'a mut dyn FnMut(Phase, Duration) -> Result<(), LabError>;

/// Runs `cell`; `shaper` is its condition, absent for `none`.
pub(crate) fn run(
    experiment: &Experiment,
    cell: &Cell,
    mut shaper: Option<&mut (dyn Shaper + 'static)>,
    wait: Wait<'_>,
) -> Result<Run, LabError> {
    let load = experiment.load_spec(&cell.load).ok_or_else(|| {
        LabError::unknown("load", &cell.load, experiment.loads.iter().map(|l| &l.name))
    })?;
    let (hosts, ends) = Topology::build(experiment)?;
    let emulator = Emulator::start(ends.line, experiment.line_config(cell.seed))?;
    let mut radio = Vec::new();
    for (client, ends) in ends.radio {
        if let Some(config) = experiment.radio_config(client, cell.seed) {
            radio.push(Emulator::start(ends, config)?);
        }
    }
    let site = Site {
        wan: WAN.to_owned(),
        lan: (0..experiment.clients).map(lan_device).collect(),
        far: (0..experiment.servers.len()).map(server_address).collect(),
        line: experiment.line_facts(),
        rates: emulator.rates(),
    };
    if let Some(s) = shaper.as_deref_mut() {
        let prepared = s.prepare();
        if prepared.map_err(|e| refused(cell, "prepare", e.to_string()))? {
            apply(cell, s, &hosts, &site)?;
            let warmed = warm_up(experiment, cell, load, &hosts, wait);
            take_back(cell, s, &hosts)?;
            warmed?;
        }
        apply(cell, s, &hosts, &site)?;
    }
    let measured = measure(experiment, cell, load, &hosts, (&emulator, &radio), wait);
    // Before the shaper goes: while a root discipline is exchanged the kernel drops what comes
    // (`noop_enqueue`) and counts it as the device's.
    let ring_drops = hosts.ring_drops();
    let mut dropped = Dropped::default();
    if let Some(s) = shaper {
        // Also after a failed measurement: the shaper may have threads to stop.
        dropped = take_back(cell, s, &hosts)?;
    }
    let mut measured = measured?;
    let ring_drops = ring_drops?;
    let report = emulator.finish()?;
    measured.instrument(&report, ring_drops);
    for emulator in radio {
        measured.instrument(&emulator.finish()?, 0);
    }
    measured.into_run(cell, dropped)
}

/// What a condition complained about.
fn refused(cell: &Cell, what: &str, why: String) -> LabError {
    LabError::Condition {
        condition: cell.condition.clone(),
        what: what.to_owned(),
        why,
    }
}

/// Sets up the condition.
fn apply(
    cell: &Cell,
    shaper: &mut dyn Shaper,
    hosts: &Topology,
    site: &Site,
) -> Result<(), LabError> {
    let applied = hosts.gateway.run(|| shaper.apply(site))?;
    applied.map_err(|e| {
        if is_lacking(&e) {
            let condition = cell.condition.clone();
            let why = e.to_string();
            return LabError::Lacking { condition, why };
        }
        refused(cell, "apply", e.to_string())
    })
}

/// Takes the condition back; what it had dropped.
fn take_back(cell: &Cell, shaper: &mut dyn Shaper, hosts: &Topology) -> Result<Dropped, LabError> {
    let (count, cleared) = hosts.gateway.run(|| (shaper.dropped(), shaper.clear()))?;
    let dropped = count.map_err(|e| refused(cell, "count drops of", e.to_string()))?;
    cleared.map_err(|e| refused(cell, "clear", e.to_string()))?;
    Ok(dropped)
}

/// Runs the load once without looking at it. The line stands at its first steps meanwhile.
fn warm_up(
    experiment: &Experiment,
    cell: &Cell,
    load: &LoadSpec,
    hosts: &Topology,
    wait: Wait<'_>,
) -> Result<(), LabError> {
    let prepared = traffic::Prepared::new(experiment, load, cell, hosts, WARM_UP_PORT)?;
    let start = clock::monotonic() + Duration::from_secs_f64(experiment.duration.idle_s);
    let running = prepared.start(hosts, start, cell.duration)?;
    wait(Phase::Idle, start + cell.duration)?;
    running.finish()?;
    Ok(())
}

/// Whether it is the kernel that lacks something.
fn is_lacking(e: &ShaperError) -> bool {
    let told = e.downcast_ref::<evenkeel_kernel::Error>();
    let auto = e.downcast_ref::<evenkeel_autorate::Error>();
    let exit = told.map(Exits::exit).or_else(|| auto.map(Exits::exit));
    e.is::<Lacks>() || exit == Some(Exit::Lacking)
}

/// Raw results of a cell.
struct Measured {
    probes: ProbeOutcome,
    outcome: traffic::Outcome,
    /// Wall clock at the start of the load.
    start: Duration,
    idle: Duration,
    duration: Duration,
    instrument: Instrument,
}

fn measure(
    experiment: &Experiment,
    cell: &Cell,
    load: &LoadSpec,
    hosts: &Topology,
    (emulator, radio): (&Emulator, &[Emulator]),
    wait: Wait<'_>,
) -> Result<Measured, LabError> {
    let target = SocketAddr::new(server_address(0), PROBE_PORT);
    let _echo = hosts.servers[0].run(|| Echo::start(target))??;
    let prepared = traffic::Prepared::new(experiment, load, cell, hosts, LOAD_PORT)?;
    let config = ProbeConfig {
        target,
        interval: millis(experiment.probe.interval_ms),
        icmp: !experiment.line.filters_icmp,
    };
    let prober = hosts.clients[0].run(|| Prober::start(config))??;
    let idle = Duration::from_secs_f64(experiment.duration.idle_s);
    wait(Phase::Idle, clock::monotonic() + WARM_UP)?;
    emulator.mark();
    radio.iter().for_each(Emulator::mark);
    let cpu = CpuTimes::read()?;
    let start = clock::monotonic() + idle;
    let wall = clock::realtime().saturating_sub(clock::monotonic());
    let running = prepared.start(hosts, start, cell.duration)?;
    wait(Phase::Idle, start)?;
    wait(Phase::Load, start + cell.duration)?;
    let outcome = running.finish()?;
    wait(Phase::Finish, clock::monotonic())?;
    let probes = prober.finish()?;
    let (cpu_busy, cpu_steal) = CpuTimes::read()?.shares_since(&cpu);
    Ok(Measured {
        probes,
        outcome,
        start: wall + start,
        idle,
        duration: cell.duration,
        instrument: Instrument {
            cpu_busy,
            cpu_steal,
            ..Instrument::default()
        },
    })
}

impl Measured {
    /// Adds what the emulator says and decides whether the run counts.
    fn instrument(&mut self, report: &EmulatorReport, ring_drops: u64) {
        let i = &mut self.instrument;
        let ms = |d: Duration| d.as_secs_f64() * 1000.0;
        i.lag_p99_ms = i.lag_p99_ms.max(ms(report.lag_p99));
        i.lag_max_ms = i.lag_max_ms.max(ms(report.lag_max));
        let mut why = Vec::new();
        if !i.void.is_empty() {
            why.push(std::mem::take(&mut i.void));
        }
        if report.lag_p99 > MAX_LAG_P99
            || report.lag_p995 > MAX_LAG_P995
            || report.lag_max > MAX_LAG
        {
            why.push(format!(
                "the line lagged: p99 {:.2} ms, p99.5 {:.2} ms, worst {:.2} ms",
                ms(report.lag_p99),
                ms(report.lag_p995),
                ms(report.lag_max)
            ));
        }
        if ring_drops > 0 {
            why.push(format!(
                "{ring_drops} packets did not fit into the line's devices"
            ));
        }
        if report.refused > 0 {
            why.push(format!(
                "{} packets were refused behind the line",
                report.refused
            ));
        }
        if i.cpu_steal > MAX_STEAL {
            let percent = i.cpu_steal * 100.0;
            why.push(format!("the hypervisor took {percent:.0} % of the CPU"));
        }
        if self.probes.clock_stepped {
            why.push("the wall clock was stepped".to_owned());
        }
        if self.probes.udp.unstamped > self.probes.udp.probes.len() as u64 / 100 {
            let n = self.probes.udp.unstamped;
            why.push(format!("{n} probes have no kernel time stamp"));
        }
        i.void = why.join("; ");
    }

    fn into_run(self, cell: &Cell, dropped: Dropped) -> Result<Run, LabError> {
        let end = self.start + self.duration;
        let before = metrics::series(
            &self.probes.udp.probes,
            self.start.saturating_sub(self.idle),
            self.start,
        );
        let udp = metrics::series(&self.probes.udp.probes, self.start, end);
        let icmp = metrics::series(&self.probes.icmp.probes, self.start, end);
        let (base, _) = metrics::round_trips(&before);
        let (loaded, lost) = metrics::round_trips(&udp);
        let none = || LabError::NoProbes {
            condition: cell.condition.clone(),
            load: cell.load.clone(),
        };
        if before.iter().all(|s| s.1.is_none()) {
            return Err(none());
        }
        let base_ms = Summary::of(&base).ok_or_else(none)?.avg;
        let of = |way, beside| {
            let flows = self.outcome.flows.iter();
            let bins = flows.filter(move |f| f.0 == (way, beside));
            metrics::goodput_series(bins.map(|f| f.1.bins.as_slice()))
        };
        let (down_kbit, up_kbit) = (of(Direction::Down, false), of(Direction::Up, false));
        let ways = [Direction::Down, Direction::Up];
        let beside = ways.map(|way| metrics::mean_kbit(&of(way, true)));
        let seconds = self.duration.as_secs_f64();
        let per_flow = self.outcome.flows.iter().map(|(_, f)| {
            let kbit = f.bytes() as f64 * 8.0 / 1000.0 / seconds;
            (f.name.clone(), kbit)
        });
        Ok(Run {
            condition: cell.condition.clone(),
            load: cell.load.clone(),
            repeat: cell.repeat,
            seed: cell.seed,
            base_ms,
            ping_ms: Summary::of(&loaded).ok_or_else(none)?,
            increase_ms: metrics::increase(&loaded, base_ms).ok_or_else(none)?,
            icmp_ms: Summary::of(&metrics::round_trips(&icmp).0),
            down_kbit: metrics::mean_kbit(&down_kbit),
            up_kbit: metrics::mean_kbit(&up_kbit),
            lost,
            dropped_by_us: dropped.packets,
            acks_dropped_by_us: dropped.acks,
            beside_kbit: beside.iter().any(|kbit| *kbit > 0.0).then_some(beside),
            retransmits: self.outcome.flows.iter().map(|f| f.1.retransmits).sum(),
            settle_s: (!self.outcome.flows.is_empty())
                .then(|| metrics::settle_s(&udp))
                .flatten(),
            flows_kbit: per_flow.collect(),
            calls: self.outcome.calls,
            pages: self.outcome.pages,
            instrument: self.instrument,
            series: Series {
                udp,
                icmp,
                down_kbit,
                up_kbit,
            },
        })
    }
}
