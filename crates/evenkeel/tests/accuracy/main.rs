//! How far off a single round trip is, while two threads keep both cores busy; and which hop of
//! the same path is the near one.

mod truth;

use std::io::Write as _;

use evenkeel_lab::addresses::server_address;
use evenkeel_lab::capture::round_trips;

use truth::{Busy, at, errors, line, logged, output, spawn};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

#[test]
fn a_single_round_trip_is_right_within_20_us() {
    if !nix::unistd::geteuid().is_root() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIP a_single_round_trip_is_right_within_20_us: needs root"
        );
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
        let sights = line.capture.finish().unwrap();
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
        let _ = writeln!(
            std::io::stderr(),
            "SKIP the_near_hop_is_the_providers: needs root"
        );
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
