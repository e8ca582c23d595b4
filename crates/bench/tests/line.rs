//! `line` over an emulated line with exact framing, on this kernel.
//!
//! Principles: this machine may be busy with something else, and then a line may stay unknown, which is said
//! and tried again; what is said to be known must be right each time. Non-goals: exact figures (they are those
//! of virtual time, `line_virtual.rs`, and of `evenkeel-lab lab framing`).

mod common;
mod emulated;

use common::{alone, never, sh};
use emulated::{Kind, world};
use evenkeel_bench::line::form::Answering;
use evenkeel_bench::line::{self, Options};
use evenkeel_core::Direction;
use evenkeel_core::framing::Framing;

/// Both directions are known and right, at the latest the third time; whatever is known is right.
fn is_found(name: &str, framing: &str, down: u64, up: u64, server: &str) {
    let _alone = alone();
    let Some(w) = world(name, framing, down, up, &Kind::default()) else {
        return;
    };
    let _server = w.serve();
    let truth: Framing = framing.parse().unwrap();
    for turn in 0.. {
        let form = w.measure(Some(server));
        assert_eq!(form.answering, Some(Answering::Serves));
        let mut known = true;
        for (d, kbit) in [(Direction::Up, up), (Direction::Down, down)] {
            let way = form.direction(d).unwrap();
            let found = way.verdict.framing;
            known &= found.is_some();
            assert!(found.is_none_or(|f| f == truth), "{d}: {way:?}");
            if let Some(rate) = way.verdict.rate.filter(|_| found.is_some()) {
                let off = rate.bps() as f64 / (1000.0 * kbit as f64) - 1.0;
                assert!(off.abs() < 0.01, "{d}: {rate}");
                assert_eq!(way.mtu, Some(1500), "{d}");
            }
        }
        if known {
            return;
        }
        assert!(turn < 2, "not known after three times");
    }
}

#[test]
fn vdsl() {
    is_found("vdsl", "ptm:34", 30_000, 8_000, "10.23.0.2");
}

#[test]
fn adsl() {
    is_found("adsl", "atm:40", 12_000, 1_000, "10.23.0.2");
}

#[test]
fn cable() {
    is_found("cable", "none:18:mpu64", 40_000, 6_000, "10.23.0.2");
}

/// Headers are 20 bytes longer, and all is as with IPv4.
#[test]
fn vdsl_by_ipv6() {
    is_found("vdsl_by_ipv6", "ptm:30", 20_000, 5_000, "fd23::2");
}

/// Nobody serves: what goes from us is known by a host that answers echoes.
#[test]
fn any_host_will_do() {
    let _alone = alone();
    let Some(w) = world("any_host_will_do", "atm:32", 8_000, 800, &Kind::default()) else {
        return;
    };
    let form = w.measure(Some("10.23.0.2"));
    assert_eq!(form.answering, Some(Answering::Echoes));
    let up = form.direction(Direction::Up).unwrap();
    let truth: Framing = "atm:32".parse().unwrap();
    assert!(up.verdict.framing.is_none_or(|f| f == truth), "{up:?}");
    assert!(up.trains > 0);
}

/// What was found is what `run` begins with, and what is not known is not applied.
#[test]
fn what_was_found_is_applied() {
    use std::process::Command;
    let _alone = alone();
    let Some(w) = world(
        "what_was_found_is_applied",
        "ptm:30",
        20_000,
        5_000,
        &Kind::default(),
    ) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let profiles = dir.path().to_str().unwrap().to_owned();
    let apply = |more: &[&str]| {
        let words = [
            "line",
            "wan",
            "--no-router",
            "--apply",
            "--profile-dir",
            &profiles,
        ];
        let program = env!("CARGO_BIN_EXE_evenkeel-bench");
        let mut command = Command::new(program);
        command.args(words).args(more);
        w.near.run(|| command.output().unwrap()).unwrap()
    };
    // Without trains nothing is known of a line that has no cells.
    let out = apply(&[]);
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let _server = w.serve();
    for turn in 0.. {
        let out = apply(&["--server", "10.23.0.2", "--json"]);
        let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(found["line_version"], 1);
        if !out.status.success() {
            assert!(turn < 2, "{out:?}");
            continue;
        }
        let file = std::fs::read_dir(dir.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let profile: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(profile["framing"], "ptm:30", "{text}");
        return;
    }
}

/// A device that is shaped says nothing of the line behind it.
#[test]
fn a_shaped_device_is_refused() {
    let _alone = alone();
    let Some(w) = world(
        "a_shaped_device_is_refused",
        "ptm:30",
        20_000,
        5_000,
        &Kind::default(),
    ) else {
        return;
    };
    let options = Options {
        server: None,
        token: String::new(),
        device: Some("wan".into()),
        budget: 2.0,
        without_router: true,
    };
    let why = w
        .near
        .run(|| {
            sh("tc qdisc add dev wan root tbf rate 4mbit burst 8k limit 50000");
            line::run(&options, &never(), &mut |_| {}).unwrap_err()
        })
        .unwrap();
    assert!(why.to_string().contains("shaped by tbf"), "{why}");
}
