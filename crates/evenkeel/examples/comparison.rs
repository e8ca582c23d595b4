//! How far off single round trips of `evenkeel ping` are beside ping (iputils), fping and irtt, on
//! the same path in the same run; and what 1000 probes a second cost. Prints the page of
//! docs/results/ping; `scripts/results ping` runs it.
//!
//! `comparison EVENKEEL`, as root, with ping, fping and irtt there.

#[path = "../tests/accuracy/truth.rs"]
mod truth;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use evenkeel_lab::addresses::server_address;
use evenkeel_lab::capture::{Captured, round_trips};
use nix::sys::resource::{UsageWho, getrusage};

use truth::{Busy, at, errors, line, logged, output, spawn};

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

fn by_irtt(text: &str, sights: &[Captured]) -> HashMap<Vec<u8>, f64> {
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    // Its packets bear a token of the connection, which only the capture knows.
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

fn main() -> ExitCode {
    let Some(program) = std::env::args().nth(1) else {
        eprintln!("usage: comparison EVENKEEL (the program to compare)");
        return ExitCode::from(2);
    };
    let dir = tempfile::tempdir().unwrap();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut text = String::from(
        "# ping: error of a single round trip, and CPU\n\n\
         How far off single round trips are, natively, of four tools on the same path in the same \
         run, without and with both cores kept busy by other threads; and what 1000 probes a \
         second cost.\n\n",
    );
    text += "| cores | tool | probes | median, us | p90 | p99 | max |\n|---|---|---:|---:|---:|---:|---:|\n";
    for busy in [false, true] {
        text += &accuracy(&program, dir.path(), busy);
    }
    text += "\n| 10000 probes at 1 ms | CPU, s | share of one core |\n|---|---:|---:|\n";
    text += &costs(&program, dir.path());
    let _ = write!(
        text,
        "\nThe path is the VDSL-100 line of the lab (round trip 9.2 ms, by an emulator). What is \
         true is said by a capture on the gateway, next to the client: kernel stamps of each \
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
    print!("{text}");
    ExitCode::SUCCESS
}

/// Which version a tool is.
fn version(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let first = text.lines().next().unwrap_or_default();
    first
        .replace("irtt version: ", "irtt ")
        .replace("fping: Version", "fping")
}

/// The lines of how far off each tool is, all at the same time on one path.
fn accuracy(evenkeel: &str, dir: &Path, busy: bool) -> String {
    let (log, irtt) = (dir.join("values.txt"), dir.join("irtt.json"));
    let server = server_address(0);
    let line = line();
    let load = busy.then(Busy::both_cores);
    let client = &line.hosts.clients[0];
    let mut serving = spawn(&line.hosts.servers[0], "irtt", "server -b 0.0.0.0");
    std::thread::sleep(Duration::from_millis(500));
    let (file, json) = (log.display(), irtt.display());
    let all = [
        (
            evenkeel,
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
    let sights = line.capture.finish().unwrap();
    let irtt_said = std::fs::read_to_string(&irtt).unwrap();
    let measured = [
        ("evenkeel ping", 100, logged(&log)),
        ("ping", 101, by_icmp_sequence(&said[1], "icmp_seq=", ' ', 0)),
        ("fping", 102, by_icmp_sequence(&said[2], "[", ']', 0)),
        ("irtt", 103, by_irtt(&irtt_said, &sights)),
    ];
    let mut text = String::new();
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
    text
}

/// The lines of what 1000 probes a second cost.
fn costs(evenkeel: &str, dir: &Path) -> String {
    let server = server_address(0);
    let host = line();
    let client = &host.hosts.clients[0];
    let file = dir.join("values.txt");
    let mut text = String::new();
    for (tool, program, args) in [
        (
            "evenkeel ping, quiet",
            evenkeel,
            format!("ping {server} -n10000 -s1 -q -l56"),
        ),
        (
            "evenkeel ping, quiet, with a log",
            evenkeel,
            format!("ping {server} -n10000 -s1 -q -l56 -F {}", file.display()),
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
    text
}
