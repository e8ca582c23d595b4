//! A host that shapes its own line: its own sockets download, and its own probe waits for them as
//! little as another's behind a gateway would. Judged in virtual time.

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::Direction;
use evenkeel_core::Summary;
use evenkeel_kernel::{Request, StateDir, clear, maps, shape};
use evenkeel_lab::addresses::server_address;
use evenkeel_lab::emulator::Emulator;
use evenkeel_lab::topology::{Topology, WAN};
use evenkeel_measure::echo::Echo;
use evenkeel_measure::load::{Flow, FlowOutcome, Load};
use evenkeel_measure::probe::{ProbeConfig, Prober};
use evenkeel_sys::clock;

const LOADED: Duration = Duration::from_secs(5);
const DOWNLOADS: usize = 4;

#[test]
fn the_hosts_own_downloads_do_not_queue() {
    if !common::in_virtual_time("the_hosts_own_downloads_do_not_queue") {
        return;
    }
    let experiment = common::vdsl100();
    let (hosts, ends) = Topology::build(&experiment).unwrap();
    let emulator = Emulator::start(ends.line, experiment.line_config(1)).unwrap();
    let records = tempfile::tempdir().unwrap();
    let dir = StateDir::new(records.path());
    let line = experiment.line.clone();
    // Nothing is forwarded: the gateway itself is the PC.
    let (pc, server) = (&hosts.gateway, &hosts.servers[0]);
    let request = Request {
        framing: Some(line.framing),
        windows: true,
        ..common::request(WAN, line.down, line.up)
    };
    let shaped = dir.clone();
    pc.run(move || shape(&shaped, &request).unwrap()).unwrap();

    let at = |port| SocketAddr::new(server_address(0), port);
    let _echo = server.run(move || Echo::start(at(44_811))).unwrap();
    let config = ProbeConfig {
        target: at(44_811),
        interval: Duration::from_millis(20),
        icmp: false,
    };
    let prober = pc.run(move || Prober::start(config)).unwrap().unwrap();
    let flows = (0..DOWNLOADS).map(|i| {
        let flow = Flow {
            name: format!("down{i}"),
            direction: Direction::Down,
            server: at(45_000 + i as u16),
            start: Duration::ZERO,
            congestion: "cubic".into(),
            send_buffer: None,
            lasts: None,
        };
        (flow, pc, server)
    });
    let load = Load::prepare(flows.collect()).unwrap();
    let start = clock::monotonic() + Duration::from_secs(1);
    let running = load.start(start, LOADED).unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let bounded = pc
        .run(|| {
            let flows = maps(WAN).unwrap().unwrap().flows().unwrap();
            let held = flows.iter().filter(|f| f.1.grant.window.is_some());
            held.count()
        })
        .unwrap();
    let outcomes = running.finish().unwrap();
    let probes = prober.finish().unwrap().udp.probes;
    pc.run(move || clear(&dir, WAN).unwrap()).unwrap();
    emulator.finish().unwrap();

    assert_eq!(bounded, DOWNLOADS, "windows are the host's own");
    let wall = clock::realtime().saturating_sub(clock::monotonic());
    let (idle, loaded): (Vec<_>, Vec<_>) = probes.into_iter().partition(|p| p.sent < wall + start);
    let ms = |p: &evenkeel_measure::probe::Sample| p.rtt.unwrap().as_secs_f64() * 1e3;
    let base = idle.iter().map(ms).fold(f64::INFINITY, f64::min);
    let ended = wall + start + LOADED;
    let loaded = loaded.into_iter().filter(|p| p.sent < ended);
    let increase: Vec<_> = loaded.map(|p| ms(&p) - base).collect();
    let increase = Summary::of(&increase).unwrap();
    let bytes: u64 = outcomes.iter().map(FlowOutcome::bytes).sum();
    let mbit = bytes as f64 * 8.0 / LOADED.as_secs_f64() / 1e6;
    println!("{mbit:.1} Mbit/s, {increase:?}");
    assert!(mbit > 98.0, "{mbit} Mbit/s of 102.3");
    assert!(
        increase.avg < 1.0 && increase.p95 < 2.0,
        "{increase:?} beyond {base} ms"
    );
}
