//! A Wi-Fi behind the gateway that is slower than the line: what its queue adds, what it costs to
//! hold it short, and who else notices. Judged in virtual time.

mod common;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use evenkeel_core::result::Run;
use evenkeel_lab::experiment::Experiment;
use evenkeel_lab::{RunOptions, cells, conditions, run_cell};

fn experiment(name: &str) -> Experiment {
    let file = format!("../../experiments/{name}.toml");
    Experiment::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// A run of `load` under `condition`.
fn run(e: &Experiment, load: &str, condition: &str) -> Run {
    let options = RunOptions {
        quick: true,
        loads: vec![load.to_owned()],
        conditions: vec![condition.to_owned()],
        ..RunOptions::default()
    };
    let records = tempfile::tempdir().unwrap();
    let mut shapers = conditions::all(records.path());
    let cell = &cells(e, &options).unwrap()[0];
    let never = AtomicBool::new(false);
    let run = run_cell(e, cell, &mut shapers, &mut |_, _| {}, &never);
    let run = run.unwrap_or_else(|e| panic!("{load}, {condition}: {e}"));
    let (i, flows) = (&run.increase_ms, &run.flows_kbit);
    let flows: Vec<_> = flows
        .iter()
        .map(|f| format!("{} {:.0}", f.0, f.1))
        .collect();
    let calls: Vec<_> = run.calls.iter().map(|c| format!("{c:?}")).collect();
    eprintln!(
        "| {} {load} | {condition} | +{:.1} avg | {:.1} p99 | {:.0} kbit/s | {} | {} | {} |",
        e.name,
        i.avg,
        i.p99,
        run.down_kbit,
        flows.join(", "),
        calls.join(" "),
        run.instrument.void
    );
    run
}

#[test]
fn explore() {
    if !common::in_virtual_time("explore") {
        return;
    }
    let what = std::fs::read_to_string("/work/lan/target/explore.txt").unwrap_or_default();
    for line in what.lines() {
        let mut words = line.split(' ');
        let (e, load) = (words.next().unwrap(), words.next().unwrap());
        let e = experiment(e);
        for condition in words {
            let stop = std::sync::Arc::new(AtomicBool::new(false));
            let ended = stop.clone();
            let thread = std::thread::spawn(move || {
                let mut said: Vec<String> = Vec::new();
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::sleep(std::time::Duration::from_millis(40));
                    for id in 1..60 {
                        let Ok(maps) = evenkeel_datapath::Maps::of_program(id) else {
                            continue;
                        };
                        for (key, f) in maps.flows().unwrap_or_default() {
                            if key.proto == 6 && f.direction.down.heavy {
                                said.push(format!("{:?} lan {:?} q {:?} r {} w {:?} grant {:?} s {} r {} rtt {:?} far {:?}", evenkeel_sys::clock::monotonic(), f.lan.base, f.lan.queue, f.lan.rate, f.lan.window, f.grant.window, f.grant.share, f.grant.reached, f.direction.down.rtt, f.direction.up.rtt));
                            }
                        }
                        break;
                    }
                }
                said
            });
            let run = run(&e, load, condition);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let said = thread.join().unwrap();
            for line in said {
                println!("DBG {line}");
            }
            let secs: Vec<String> = run
                .series
                .udp
                .chunks(25)
                .map(|c| {
                    let v: Vec<f64> = c
                        .iter()
                        .filter_map(|s| s.1)
                        .map(|v| v - run.base_ms)
                        .collect();
                    format!("{:.0}", v.iter().sum::<f64>() / v.len().max(1) as f64)
                })
                .collect();
            eprintln!("  each 0.5 s: {}", secs.join(" "));
            let down: Vec<String> = run
                .series
                .down_kbit
                .iter()
                .map(|v| format!("{:.0}", v.1 / 1000.0))
                .collect();
            eprintln!("  Mbit/s: {}", down.join(" "));
        }
    }
}
