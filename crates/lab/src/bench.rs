//! `evenkeel bench` beside what is true: the program, against `evenkeel serve`, over an emulated line
//! that writes down what it carried.
//!
//! Principles: the programs that people use, as they are; the truth is the line's arithmetic, packet
//! by packet (`ledger`); where the queue is, is made, not found out. Exact in virtual time; natively
//! the machine's own slowness is in the differences. Non-goals: what shaping does (`run`).

mod ledger;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::{PerDirection, Summary};
use evenkeel_report::bench::form::{Bench, Verdict, Way};
use evenkeel_report::bench::{figures, read};
use evenkeel_sys::{Netns, clock, sched};
use serde::Serialize;

use crate::addresses::server_address;
use crate::emulator::{Emulator, EmulatorReport};
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::topology::{Topology, lan_device};
use ledger::Ledger;

/// Port of `evenkeel serve`.
const PORT: u16 = 44_811;
/// Rate of a queue that is made elsewhere than at the line, kbit/s: less than either direction of a
/// VDSL line. It holds 100 ms.
const ELSEWHERE_KBIT: u32 = 20_000;
/// Packets that the probers leave out at their start.
const LEFT_OUT: u32 = 2;

/// Where the queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    /// In the discipline of the machine that measures.
    Own,
    /// Between the gateway and that machine.
    Lan,
    /// At the line.
    Line,
    /// Between the provider and the far end.
    Beyond,
}

impl Queue {
    /// As `bench` says it.
    pub fn blamed(self) -> &'static str {
        match self {
            Queue::Own => "this machine's own queue",
            Queue::Lan => "the LAN",
            Queue::Line => "the access line",
            Queue::Beyond => "beyond the access line",
        }
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// What it is called.
    pub name: &'static str,
    /// The text of the experiment whose line it is.
    pub experiment: &'static str,
    /// `--test`.
    pub test: &'static str,
    /// `--seconds`.
    pub seconds: u16,
    /// Where the queue is.
    pub queue: Queue,
}

const VDSL100: &str = include_str!("../../../experiments/vdsl100.toml");
const ADSL2: &str = include_str!("../../../experiments/adsl2.toml");
const CABLE: &str = include_str!("../../../experiments/cable.toml");
const LTE: &str = include_str!("../../../experiments/lte.toml");

/// A line that is the bottleneck, under RRUL.
const fn line(name: &'static str, experiment: &'static str, seconds: u16) -> Setup {
    Setup {
        name,
        experiment,
        test: "rrul",
        seconds,
        queue: Queue::Line,
    }
}

/// A queue elsewhere than at the line of [`VDSL100`].
const fn elsewhere(name: &'static str, test: &'static str, queue: Queue) -> Setup {
    Setup {
        name,
        experiment: VDSL100,
        test,
        seconds: 6,
        queue,
    }
}

/// Everything that is measured: four lines under RRUL, one under downloads alone, which are fast then,
/// and the queue in the three other places. Slow lines and those that change take longer.
pub const SETUPS: [Setup; 8] = [
    line("vdsl100", VDSL100, 8),
    line("adsl2", ADSL2, 20),
    line("cable", CABLE, 5),
    line("lte", LTE, 20),
    Setup {
        test: "download",
        ..line("fast", VDSL100, 8)
    },
    elsewhere("own", "upload", Queue::Own),
    elsewhere("lan", "download", Queue::Lan),
    elsewhere("beyond", "upload", Queue::Beyond),
];

/// What `bench` said, beside what was true.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// Of which [`Setup`].
    pub name: &'static str,
    /// Where the queue was.
    pub queue: Queue,
    /// Payload that the line carried during the load and its receivers could have, Mbit/s.
    pub carried_mbit: PerDirection<f64>,
    /// What `bench` calls goodput, Mbit/s; absent where there was no such load.
    pub goodput_mbit: PerDirection<Option<f64>>,
    /// Mean ping under load, ms.
    pub ping_ms: f64,
    /// By how much each ping was off what the line did to that packet and its answer, ms.
    pub off_ms: Option<Summary>,
    /// Pings that only one of the two saw come back.
    pub disputed: usize,
    /// What `bench` says of who is to blame.
    pub blame: String,
    /// Why `bench` calls its own run void; empty if it does not.
    pub void: String,
    /// How far off its schedule the line was at most, ms.
    pub lag_ms: f64,
}

impl Compared {
    /// Goodput over what was carried, by direction.
    pub fn share(&self) -> [Option<f64>; 2] {
        let of = |g: Option<f64>, c: f64| g.map(|g| g / c);
        [
            of(self.goodput_mbit.down, self.carried_mbit.down),
            of(self.goodput_mbit.up, self.carried_mbit.up),
        ]
    }

    /// Whether the right one is blamed.
    pub fn blames_right(&self) -> bool {
        let made_by = format!("is made by {} (", self.queue.blamed());
        self.blame.contains(&made_by)
    }
}

/// Measures by `program`, which is `evenkeel-bench`.
pub fn compare(program: &Path, setup: &Setup) -> Result<Compared, LabError> {
    let experiment = Experiment::parse(setup.experiment, Path::new(setup.name))?;
    let (hosts, ends) = Topology::build(&experiment)?;
    let ledger = Arc::new(Mutex::new(Ledger::new(PORT)));
    let writes = Arc::clone(&ledger);
    let watcher = Box::new(move |packet: crate::emulator::Carried<'_>| {
        writes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(packet);
    });
    let emulator = Emulator::watched(ends.line, experiment.line_config(1), Some(watcher))?;
    place(setup.queue, &hosts)?;
    emulator.mark();
    let server = serve(program, &hosts.servers[0])?;
    let result = measure(program, setup, &hosts.clients[0]);
    drop(server);
    let report = emulator.finish()?;
    let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(judged(setup, &result?, &ledger, &report))
}

/// Makes the queue where it is to be.
fn place(queue: Queue, hosts: &Topology) -> Result<(), LabError> {
    let (host, device) = match queue {
        Queue::Line => return Ok(()),
        Queue::Own => (&hosts.clients[0], "eth0".to_owned()),
        Queue::Lan => (&hosts.gateway, lan_device(0)),
        Queue::Beyond => (&hosts.provider, "srv1".to_owned()),
    };
    let limit = ELSEWHERE_KBIT / 8 * 100;
    let words = format!(
        "qdisc replace dev {device} root tbf rate {ELSEWHERE_KBIT}kbit burst 4k limit {limit}"
    );
    let mut tc = Command::new("tc");
    tc.args(words.split(' '));
    let status = host.run(|| tc.status())?.map_err(|e| failed("tc", &e))?;
    if status.success() {
        Ok(())
    } else {
        Err(failed("tc", &format!("{words}: {status}")))
    }
}

fn failed(tool: &'static str, why: &dyn std::fmt::Display) -> LabError {
    LabError::Tool {
        tool,
        package: if tool == "tc" { "iproute2" } else { "evenkeel" },
        why: why.to_string(),
    }
}

/// A server; it ends when dropped.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(program: &Path, host: &Netns) -> Result<Serving, LabError> {
    let mut command = Command::new(program);
    command
        .args(["serve", "--listen", &server_address(0).to_string()])
        .args(["--port", &PORT.to_string()])
        .stdout(Stdio::piped());
    // Not bound to its thread: the namespace's ends at once.
    let child = host
        .run(|| command.spawn())?
        .map_err(|e| failed("evenkeel-bench", &e))?;
    let mut serving = Serving(child);
    let mut line = String::new();
    if let Some(out) = serving.0.stdout.take() {
        let _ = BufReader::new(out).read_line(&mut line);
    }
    if line.starts_with("Serving on") {
        Ok(serving)
    } else {
        Err(failed("evenkeel-bench", &"it does not serve"))
    }
}

fn measure(program: &Path, setup: &Setup, host: &Netns) -> Result<Bench, LabError> {
    let dir = tempfile::tempdir().map_err(|e| failed("evenkeel-bench", &e))?;
    let file = dir.path().join("run.json");
    let to = server_address(0).to_string();
    let mut command = Command::new(program);
    command
        .args(["bench", "--to", &to, "--test", setup.test])
        .args(["--seconds", &setup.seconds.to_string(), "--json", "--out"])
        .arg(&file)
        .stdin(Stdio::null());
    let out = host
        .run(|| sched::die_with_thread(&mut command).output())?
        .map_err(|e| failed("evenkeel-bench", &e))?;
    // A void run ends with 1 and has a file; what it says of itself is looked at.
    let run = read(&file).ok().and_then(|runs| runs.into_iter().next());
    run.ok_or_else(|| {
        failed(
            "evenkeel-bench",
            &String::from_utf8_lossy(&out.stderr).trim(),
        )
    })
}

fn judged(setup: &Setup, b: &Bench, ledger: &Ledger, report: &EmulatorReport) -> Compared {
    let ahead = clock::realtime().saturating_sub(clock::monotonic());
    let zero = Duration::try_from_secs_f64(b.began).unwrap_or_default();
    let at = |t: f64| zero.saturating_sub(ahead) + Duration::from_secs_f64(t.max(0.0));
    let (from, to) = (at(b.phases.load), at(b.phases.tail));
    let mbit = |up| {
        let bytes = ledger.payload(up, from, to) as f64;
        bytes * 8.0 / 1e6 / to.saturating_sub(from).as_secs_f64()
    };
    let found = figures::figures(b);
    let loaded = |way| b.streams.iter().any(|s| s.way == way);
    let (mut off, mut disputed) = (Vec::new(), 0);
    let judged = b.judged().map_or(&[][..], |p| &p.probes);
    for (seq, probe) in (LEFT_OUT..).zip(judged) {
        match (probe.rtt, ledger.round_trip(seq)) {
            (Some(said), Some(was)) => off.push((said - was.as_secs_f64() * 1e3).abs()),
            (None, None) => {}
            _ => disputed += 1,
        }
    }
    let blame = b.checks.iter().find(|c| c.name == "Blame");
    let void = b.checks.iter().filter(|c| c.verdict == Verdict::Void);
    let void: Vec<&str> = void.map(|c| c.says.as_str()).collect();
    Compared {
        name: setup.name,
        queue: setup.queue,
        carried_mbit: PerDirection {
            down: mbit(false),
            up: mbit(true),
        },
        goodput_mbit: PerDirection {
            down: found.down_mbit.filter(|_| loaded(Way::Down)),
            up: found.up_mbit.filter(|_| loaded(Way::Up)),
        },
        ping_ms: found.loaded_ms.map_or(f64::NAN, |p| p.avg),
        off_ms: Summary::of(&off),
        disputed,
        blame: blame.map_or_else(String::new, |c| c.says.clone()),
        void: void.join("; "),
        lag_ms: report.lag_max.as_secs_f64() * 1e3,
    }
}
