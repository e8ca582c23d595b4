//! How far off a single round trip is, beside other tools on the same path in the same run.
//!
//! The path is the lab's VDSL-100 line: some 9 ms, by the emulator. What is true is said by a
//! witness on the gateway: the kernel's own stamps of each packet next to the prober. Two threads
//! keep both cores busy meanwhile. `scripts/results ping` makes the published page from
//! `comparison`, which wants ping (iputils), fping and irtt.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::ping::log::Log;
use evenkeel_lab::Experiment;
use evenkeel_lab::emulator::{Emulator, LineConfig};
use evenkeel_lab::experiment::server_address;
use evenkeel_lab::topology::Topology;
use evenkeel_lab::witness::{Sight, Witness, round_trips};
use evenkeel_sys::Netns;
use nix::sys::resource::{UsageWho, getrusage};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
/// irtt's own.
const PORT: u16 = 2112;
/// Connection token and number in an irtt packet.
const IRTT_KEY: std::ops::Range<usize> = 4..16;

/// The line with its hosts and the witness.
struct Line {
    hosts: Topology,
    _emulator: Emulator,
    witness: Witness,
}

fn line() -> Line {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/vdsl100.toml");
    let experiment = Experiment::load(&file).unwrap();
    let (hosts, ends) = Topology::build(&experiment).unwrap();
    let [down, up] = experiment.pipes(1);
    let beyond = Vec::new();
    let emulator = Emulator::start(ends, LineConfig { down, up, beyond }).unwrap();
    let witness = Witness::start(&hosts.gateway, PORT, IRTT_KEY).unwrap();
    Line {
        hosts,
        _emulator: emulator,
        witness,
    }
}

/// Two threads that never sleep.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn both_cores() -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..2 {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut n = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    n = std::hint::black_box(n.wrapping_mul(3).wrapping_add(1));
                }
            });
        }
        Busy(stop)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn spawn(host: &Netns, program: &str, args: &str) -> Child {
    host.run(|| {
        Command::new(program)
            .args(args.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("{program}: {e}"))
    })
    .unwrap()
}

fn output(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// Errors in us, ascending.
fn errors(truth: &[(Vec<u8>, Duration)], measured: &HashMap<Vec<u8>, f64>) -> Vec<f64> {
    let mut all: Vec<f64> = truth
        .iter()
        .filter_map(|(key, rtt)| Some(measured.get(key)? * 1000.0 - rtt.as_secs_f64() * 1e6))
        .collect();
    all.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    all
}

fn at(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() as f64 * q) as usize).min(sorted.len() - 1)].abs()
}

/// Round trips in a log of ours, ms by ICMP sequence number.
fn logged(log: &Path) -> HashMap<Vec<u8>, f64> {
    let log: Log = std::fs::read_to_string(log).unwrap().parse().unwrap();
    let timed = log.outcomes.iter().filter_map(|o| {
        let ms = o.delays?.felt.as_secs_f64() * 1000.0;
        Some(((o.seq as u16).to_be_bytes().to_vec(), ms))
    });
    timed.collect()
}

#[test]
fn a_single_round_trip_is_right_within_20_us() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIP a_single_round_trip_is_right_within_20_us: needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("values.txt");
    let mut said = String::new();
    // What others do on this machine can keep the kernel itself from its work for a while; a try
    // in which it did is made again.
    let good = (0..6).any(|_| {
        let line = line();
        let busy = Busy::both_cores();
        let (server, file) = (server_address(0), log.display());
        let args = format!("ping {server} -l100 -n1000 -s5 -q -F {file}");
        output(spawn(&line.hosts.clients[0], EVENKEEL, &args));
        drop(busy);
        let sights = line.witness.finish().unwrap();
        let off = errors(&round_trips(&sights, 100), &logged(&log));
        assert!(off.len() >= 990, "{} of 1000", off.len());
        said = format!(
            "off by {:.1} us in the median, {:.1} us at p99",
            at(&off, 0.5),
            at(&off, 0.99)
        );
        println!("{said}");
        at(&off, 0.99) <= 20.0
    });
    assert!(good, "{said}");
}

#[test]
fn the_near_hop_is_the_providers() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIP the_near_hop_is_the_providers: needs root");
        return;
    }
    let line = line();
    let client = &line.hosts.clients[0];
    let server = server_address(0);
    let said = output(spawn(
        client,
        EVENKEEL,
        &format!("ping {server} --near -n3 -s20 --json"),
    ));
    let s: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&s["about"]["address"], &s["replies"]),
        (&"100.64.0.1".into(), &3.into()),
        "{s}"
    );
    let said = output(spawn(
        client,
        EVENKEEL,
        &format!("trace {server} --rounds=1 --json"),
    ));
    let s: serde_json::Value = serde_json::from_str(&said).unwrap();
    let hops: Vec<_> = s["hops"]
        .as_array()
        .unwrap()
        .iter()
        .map(|h| &h["addresses"][0])
        .collect();
    let server = server.to_string();
    assert_eq!(hops, ["192.168.1.1", "100.64.0.1", server.as_str()], "{s}");
    assert_eq!(
        (&s["reached"], &s["near"]["ttl"]),
        (&true.into(), &2.into()),
        "{s}"
    );
}

/// What each tool says, ms by key.
fn by_icmp_sequence(text: &str, mark: &str, end: char, first: u16) -> HashMap<Vec<u8>, f64> {
    let lines = text.lines().filter_map(|l| {
        let rest = l.split_once(mark)?.1;
        let (number, rest) = rest.split_once(end)?;
        let number: u16 = number.trim().parse().ok()?;
        let ms = rest.split(" ms").next()?.rsplit([' ', '=']).next()?;
        let key = number.wrapping_add(first).to_be_bytes().to_vec();
        Some((key, ms.parse().ok()?))
    });
    lines.collect()
}

fn by_irtt(text: &str, sights: &[Sight]) -> HashMap<Vec<u8>, f64> {
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    // Its packets bear a token of the connection, which only the witness knows.
    let Some(token) = sights
        .iter()
        .find(|s| s.bytes == 103)
        .map(|s| s.key[..8].to_vec())
    else {
        return HashMap::new();
    };
    let trips = all["round_trips"].as_array().unwrap().iter();
    let timed = trips.filter_map(|t| {
        let ns = t["delay"]["rtt"].as_f64()?;
        let mut key = token.clone();
        key.extend((t["seqno"].as_u64()? as u32).to_le_bytes());
        Some((key, ns / 1e6))
    });
    timed.collect()
}

/// CPU time of ended children, s.
fn cpu() -> f64 {
    let u = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let s = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    s(u.user_time()) + s(u.system_time())
}

#[test]
#[ignore = "makes the page docs/results/ping; wants ping, fping and irtt"]
fn comparison() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("values.txt");
    let irtt = dir.path().join("irtt.json");
    let server = server_address(0);
    let mut text = String::from(
        "# ping: error of a single round trip, and CPU\n\n\
         How far off single round trips are, natively, of four tools on the same path in the same \
         run, without and with both cores kept busy by other threads; and what 1000 probes a \
         second cost.\n\n",
    );
    let version = |program: &str, args: &[&str]| {
        let out = Command::new(program).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let first = text.lines().next().unwrap_or_default();
        first
            .replace("irtt version: ", "irtt ")
            .replace("fping: Version", "fping")
    };
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    text += "| cores | tool | probes | median, us | p90 | p99 | max |\n|---|---|---:|---:|---:|---:|---:|\n";
    for busy in [false, true] {
        let line = line();
        let load = busy.then(Busy::both_cores);
        let client = &line.hosts.clients[0];
        let mut serving = spawn(&line.hosts.servers[0], "irtt", "server -b 0.0.0.0");
        std::thread::sleep(Duration::from_millis(500));
        let (file, json) = (log.display(), irtt.display());
        let all = [
            (
                EVENKEEL,
                format!("ping {server} -l100 -n2000 -s10 -q -F {file}"),
            ),
            ("ping", format!("-n -s 101 -c 2000 -i 0.01 {server}")),
            ("fping", format!("-b 102 -c 2000 -p 10 {server}")),
            (
                "irtt",
                format!("client -i 10ms -d 20s -l 103 -q -o {json} {server}"),
            ),
        ]
        .map(|(program, args)| spawn(client, program, &args));
        let said = all.map(output);
        serving.kill().unwrap();
        serving.wait().unwrap();
        drop(load);
        let sights = line.witness.finish().unwrap();
        let irtt_said = std::fs::read_to_string(&irtt).unwrap();
        let measured = [
            ("evenkeel ping", 100, logged(&log)),
            ("ping", 101, by_icmp_sequence(&said[1], "icmp_seq=", ' ', 0)),
            ("fping", 102, by_icmp_sequence(&said[2], "[", ']', 0)),
            ("irtt", 103, by_irtt(&irtt_said, &sights)),
        ];
        for (tool, bytes, measured) in measured {
            let off = errors(&round_trips(&sights, bytes), &measured);
            assert!(off.len() > 1900, "{tool}: {} of 2000", off.len());
            let cores = if busy { "busy" } else { "idle" };
            let _ = writeln!(
                text,
                "| {cores} | {tool} | {} | {:.1} | {:.1} | {:.1} | {:.1} |",
                off.len(),
                at(&off, 0.5),
                at(&off, 0.9),
                at(&off, 0.99),
                at(&off, 1.0)
            );
        }
    }
    text += "\n| 10000 probes at 1 ms | CPU, s | share of one core |\n|---|---:|---:|\n";
    let host = line();
    let client = &host.hosts.clients[0];
    let file = log.display();
    for (tool, program, args) in [
        (
            "evenkeel ping, quiet",
            EVENKEEL,
            format!("ping {server} -n10000 -s1 -q -l56"),
        ),
        (
            "evenkeel ping, quiet, with a log",
            EVENKEEL,
            format!("ping {server} -n10000 -s1 -q -l56 -F {file}"),
        ),
        (
            "fping, quiet",
            "fping",
            format!("-q -c 10000 -p 1 -i 1 {server}"),
        ),
    ] {
        let before = cpu();
        let began = std::time::Instant::now();
        output(spawn(client, program, &args));
        let (used, took) = (cpu() - before, began.elapsed().as_secs_f64());
        let _ = writeln!(
            text,
            "| {tool} | {used:.2} | {:.1} % |",
            used * 100.0 / took
        );
    }
    let _ = write!(
        text,
        "\nThe path is the VDSL-100 line of the lab (round trip 9.2 ms, by an emulator). What is \
         true is said by a witness on the gateway, next to the client: kernel stamps of each \
         packet on a socket of its own. The error contains two passes of a veth pair. ICMP echo \
         of 100 to 102 bytes, irtt's UDP of 103, every 10 ms, all four at the same time. \
         evenkeel's time is SCHED to RX. Idle means no load \
         of the test's own.\n\n\
         Made by `scripts/results ping` with {}, {} and {} on Linux {}.\n",
        version("ping", &["-V"]),
        version("fping", &["-v"]),
        version("irtt", &["version"]),
        kernel.trim(),
    );
    println!("{text}");
    if let Ok(out) = std::env::var("EVENKEEL_PAGE") {
        std::fs::write(out, text).unwrap();
    }
}
