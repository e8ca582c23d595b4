//! `bench` beside what others measure of the same line: round trips of irtt, which is what flent's RRUL
//! pings with, at the same time; goodput of iperf3, one after the other.
//!
//! flent's own RRUL cannot be run where this is tested: it wants netperf, which is not in Debian's main
//! section, and its runner for iperf refuses Debian's.

mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{World, alone, eventually, options, skipped, world};
use evenkeel_bench::client::Test;
use evenkeel_bench::serve::{Limits, Server};
use evenkeel_report::bench::figures::{figures, round_trips, within};
use evenkeel_report::bench::form::Bench;
use serde_json::Value;

/// How far apart two means of round trips may be that were measured at the same time.
const APART: f64 = 0.03;
/// And two goodputs, measured one after the other on a machine that may have other work.
const GOODPUT_APART: f64 = 0.10;

fn is_there(test: &str, program: &str) -> bool {
    let there = Command::new(program).arg("--help").output().is_ok();
    if !there {
        skipped(test, &format!("there is no {program}"));
    }
    there
}

/// A process that ends with this.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(words: &str) -> Ends {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ends(command.spawn().unwrap())
}

/// The port that irtt's server listens on.
const IRTT: u16 = 2112;

/// Something in the calling thread's namespace waits for packets on a UDP port. A client of irtt that is
/// refused ends at once.
fn listens(port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["udp", "udp6"].iter().any(|table| {
        let all = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        let all = all.unwrap_or_default();
        all.lines()
            .filter_map(|l| l.split_whitespace().nth(1))
            .any(|address| address.ends_with(&local))
    })
}

/// A line of 20 and 8 Mbit/s with `evenkeel serve` and Debian's irtt server, by this command, behind it.
fn irtt_world(test: &str, irtt: &str) -> Option<(World, Server, Ends)> {
    if !is_there(test, "irtt") {
        return None;
    }
    let w = world(test, 20, 8)?;
    let server = w.serve("", Limits::default(), false);
    let irtt = w.far.run(|| start(irtt)).unwrap();
    assert!(eventually(|| w.far.run(|| listens(IRTT)).unwrap()));
    Some((w, server, irtt))
}

/// Round trips of irtt's packets that were sent under load, ms; a lost one took as long as the worst.
fn under_load(file: &std::path::Path, b: &Bench) -> Vec<f64> {
    let json: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let all = json["round_trips"].as_array().unwrap();
    let sent = |r: &Value| {
        let ns = r["timestamps"]["client"]["send"]["wall"].as_i64().unwrap();
        ns as f64 / 1e9 - b.began
    };
    let inside = |r: &&Value| (b.phases.load..b.phases.tail).contains(&sent(r));
    let rtt: Vec<Option<f64>> = all
        .iter()
        .filter(inside)
        .map(|r| r["delay"]["rtt"].as_i64().map(|ns| ns as f64 / 1e6))
        .collect();
    let worst = rtt.iter().flatten().copied().fold(0.0, f64::max);
    rtt.into_iter().map(|r| r.unwrap_or(worst)).collect()
}

#[test]
fn pings_are_those_of_irtt() {
    let test = "pings_are_those_of_irtt";
    let _alone = alone();
    let Some((w, _server, _irtt)) = irtt_world(test, "irtt server") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("irtt.json");
    let mut o = options("10.23.0.2:7000", Test::RrulBe);
    o.seconds = 12;
    let client = || {
        let words = format!(
            "irtt client -i 10ms -d 20s -Q -o {} 10.23.0.2",
            file.display()
        );
        start(&words)
    };
    let mut irtt = w.near.run(client).unwrap();
    let b = w.bench(&o).unwrap();
    let mut ended = None;
    assert!(eventually(|| {
        ended = irtt.0.try_wait().unwrap();
        ended.is_some()
    }));
    assert!(ended.unwrap().success(), "irtt: {ended:?}");
    let theirs = under_load(&file, &b);
    let ours = within(b.judged(), b.phases.load, b.phases.tail);
    assert!(theirs.len() > 1000 && ours.len() > 1000, "{}", theirs.len());
    let theirs = theirs.iter().sum::<f64>() / theirs.len() as f64;
    let ours = figures(&b).loaded_ms.unwrap().avg;
    println!("bench {ours:.2} ms, irtt {theirs:.2} ms");
    assert!((ours / theirs - 1.0).abs() < APART, "{ours} {theirs}");
}

/// Pings of an irtt server, beside our own of the same run; and of the idle line alone.
#[test]
fn irtt_servers_are_pinged() {
    let test = "irtt_servers_are_pinged";
    let _alone = alone();
    let Some((w, _server, _irtt)) = irtt_world(test, "irtt server") else {
        return;
    };
    let mut o = options("10.23.0.2:7000", Test::RrulBe);
    (o.seconds, o.pings) = (8, Some("irtt://10.23.0.2".into()));
    let b = w.bench(&o).unwrap();
    let names: Vec<_> = b.probes.iter().map(|p| p.kind.as_str()).take(2).collect();
    assert_eq!(names, ["irtt", "UDP"]);
    let loaded = |kind: usize| {
        let all = within(Some(&b.probes[kind]), b.phases.load, b.phases.tail);
        assert!(all.len() > 100, "{}", all.len());
        assert!(all.iter().filter(|p| p.up.is_some()).count() > 50);
        let all = round_trips(&all);
        all.iter().sum::<f64>() / all.len() as f64
    };
    let (theirs, ours) = (loaded(0), loaded(1));
    println!("pings of irtt {theirs:.2} ms, of ours {ours:.2} ms");
    assert!((ours / theirs - 1.0).abs() < APART, "{ours} {theirs}");
    let mut o = options("irtt://10.23.0.2:2112/", Test::Idle);
    o.seconds = 1;
    let b = w.bench(&o).unwrap();
    assert_eq!((b.far_end.as_str(), b.streams.len()), ("irtt", 0));
    assert!(figures(&b).idle_ms.unwrap().avg < 20.0);
    o.test = Test::Download;
    let loads = w.bench(&o).unwrap_err();
    assert!(loads.to_string().contains("--pings"), "{loads}");
}

/// An irtt server that answers those only who know its key.
#[test]
fn irtt_servers_with_a_key_are_pinged() {
    let test = "irtt_servers_with_a_key_are_pinged";
    let _alone = alone();
    let Some((w, _server, _irtt)) = irtt_world(test, "irtt server --hmac=0x6b6579") else {
        return;
    };
    let mut o = options("irtt://10.23.0.2", Test::Idle);
    (o.seconds, o.irtt_key) = (1, "key".parse().ok());
    let b = w.bench(&o).unwrap();
    let answered = b.probes[0]
        .probes
        .iter()
        .filter(|p| p.rtt.is_some())
        .count();
    assert!(answered > 10, "{answered}");
    o.irtt_key = "another".parse().ok();
    let refused = w.bench(&o).unwrap_err();
    assert!(refused.to_string().contains("with this key"), "{refused}");
}

#[test]
fn goodput_is_that_of_iperf3() {
    let test = "goodput_is_that_of_iperf3";
    let _alone = alone();
    if !is_there(test, "iperf3") {
        return;
    }
    let Some(w) = world(test, 20, 8) else { return };
    let _server = w.serve("", Limits::default(), false);
    let _iperf = w.far.run(|| start("iperf3 -s -p 5201")).unwrap();
    let iperf = |reverse: &str| {
        let words = format!("-c 10.23.0.2 -P 4 -t 8 -J {reverse}");
        let out = Command::new("iperf3")
            .args(words.split_whitespace())
            .output();
        let json: Value = serde_json::from_slice(&out.unwrap().stdout).unwrap();
        json["end"]["sum_received"]["bits_per_second"].as_f64()
    };
    for (load, reverse) in [(Test::Download, "-R"), (Test::Upload, "")] {
        let mut theirs = None;
        // A server that is not there yet is refused.
        assert!(eventually(|| {
            theirs = w.near.run(|| iperf(reverse)).unwrap();
            theirs.is_some()
        }));
        let theirs = theirs.unwrap() / 1e6;
        let mut o = options("10.23.0.2:7000", load);
        // Pings take 5 % of the upload otherwise, which iperf3 has for itself.
        (o.seconds, o.interval) = (8, Some(Duration::from_millis(200)));
        let f = figures(&w.bench(&o).unwrap());
        let ours = f.down_mbit.or(f.up_mbit).unwrap();
        println!("{load:?}: bench {ours:.3} Mbit/s, iperf3 {theirs:.3}");
        assert!(
            (ours / theirs - 1.0).abs() < GOODPUT_APART,
            "{ours} {theirs}"
        );
    }
}
