//! A path whose round trips are known, and how far off a prober is on it.
//!
//! The path is the lab's VDSL-100 line: some 9 ms, by the emulator. What is true is said by a
//! capture on the gateway: the kernel's own stamps of each packet next to the prober. Shared by
//! the tests beside it and the program that compares tools (examples/comparison.rs).

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::ping::log::Log;
use evenkeel_lab::Experiment;
use evenkeel_lab::capture::Capture;
use evenkeel_lab::emulator::Emulator;
use evenkeel_lab::topology::Topology;
use evenkeel_sys::Netns;

/// irtt's own.
pub(crate) const PORT: u16 = 2112;
/// Connection token and number in an irtt packet.
pub(crate) const IRTT_KEY: std::ops::Range<usize> = 4..16;

/// The line with its hosts and the capture.
pub(crate) struct Line {
    pub(crate) hosts: Topology,
    _emulator: Emulator,
    pub(crate) capture: Capture,
}

pub(crate) fn line() -> Line {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/vdsl100.toml");
    let experiment = Experiment::load(&file).unwrap();
    let (hosts, ends) = Topology::build(&experiment).unwrap();
    let emulator = Emulator::start(ends.line, experiment.line_config(1)).unwrap();
    let capture = Capture::start(&hosts.gateway, PORT, IRTT_KEY).unwrap();
    Line {
        hosts,
        _emulator: emulator,
        capture,
    }
}

/// Two threads that never sleep.
pub(crate) struct Busy(Arc<AtomicBool>);

impl Busy {
    pub(crate) fn both_cores() -> Busy {
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

pub(crate) fn spawn(host: &Netns, program: &str, args: &str) -> Child {
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

pub(crate) fn output(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// Errors in us, ascending.
pub(crate) fn errors(truth: &[(Vec<u8>, Duration)], measured: &HashMap<Vec<u8>, f64>) -> Vec<f64> {
    let mut all: Vec<f64> = truth
        .iter()
        .filter_map(|(key, rtt)| Some(measured.get(key)? * 1000.0 - rtt.as_secs_f64() * 1e6))
        .collect();
    all.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    all
}

pub(crate) fn at(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() as f64 * q) as usize).min(sorted.len() - 1)].abs()
}

/// Round trips in a log of ours, ms by ICMP sequence number.
pub(crate) fn logged(log: &Path) -> HashMap<Vec<u8>, f64> {
    let log: Log = std::fs::read_to_string(log).unwrap().parse().unwrap();
    let timed = log.outcomes.iter().filter_map(|o| {
        let ms = o.delays?.felt.as_secs_f64() * 1000.0;
        Some(((o.seq as u16).to_be_bytes().to_vec(), ms))
    });
    timed.collect()
}
