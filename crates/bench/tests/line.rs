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
        assert_eq!(run_begins_with(&w, dir.path()), "ptm:30".parse().unwrap());
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

/// The framing that `run` shapes with, when it is told none.
fn run_begins_with(w: &emulated::World, profiles: &std::path::Path) -> Framing {
    use evenkeel_autorate::{Event, Order, Settings, request};
    use evenkeel_kernel::{Request, StateDir};
    use std::sync::atomic::Ordering;
    let records = tempfile::tempdir().unwrap();
    let settings = Settings {
        request: Request {
            framing: None,
            ..request("wan", evenkeel_core::plan::Mode::Ping)
        },
        bounds: evenkeel_core::PerDirection::default(),
        targets: vec!["10.23.0.2".parse().unwrap()],
        budget: None,
        expected: evenkeel_core::PerDirection::default(),
        cooperate: None,
        use_profile: true,
        profile_dir: profiles.to_owned(),
        state: StateDir::new(records.path()),
    };
    let order = Order::default();
    let theirs = order.clone();
    let running = w
        .near
        .spawn("run", move || {
            evenkeel_autorate::run(settings, &theirs, &mut |_: &Event| {})
        })
        .unwrap();
    let states = StateDir::new(records.path());
    let begun = std::time::Instant::now();
    let framing = loop {
        if let Some(state) = w.near.run(|| states.load("wan")).unwrap().unwrap() {
            break state.framing;
        }
        assert!(begun.elapsed().as_secs() < 30, "run does not begin");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    order.stop.store(true, Ordering::Relaxed);
    running.join().unwrap().unwrap().unwrap();
    framing
}

/// A router that says where its description is, and one that does not; what it says stands in the form.
#[test]
fn a_router_is_asked() {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, UdpSocket};
    use std::time::Duration;
    let _alone = alone();
    let Some(w) = world(
        "a_router_is_asked",
        "ptm:30",
        50_000,
        10_000,
        &Kind::default(),
    ) else {
        return;
    };
    w.near
        .run(|| sh("ip route add default via 10.23.0.2"))
        .unwrap();
    let listen = || TcpListener::bind("10.23.0.2:49123").unwrap();
    let http = w.far.run(listen).unwrap();
    let ssdp = w
        .far
        .run(|| UdpSocket::bind("10.23.0.2:1900").unwrap())
        .unwrap();
    ssdp.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let searched = std::thread::spawn(move || {
        let mut b = [0; 1024];
        let (n, from) = ssdp.recv_from(&mut b).unwrap();
        let answer = "HTTP/1.1 200 OK\r\nLOCATION: http://10.23.0.2:49123/d.xml\r\nST: x\r\n\r\n";
        ssdp.send_to(answer.as_bytes(), from).unwrap();
        String::from_utf8_lossy(&b[..n]).into_owned()
    });
    let asked = std::thread::spawn(move || {
        let kind = "urn:schemas-upnp-org:service:WANCommonInterfaceConfig:1";
        let description = format!(
            "<root><device><modelName>Box</modelName><serviceList><service><serviceType>{kind}</serviceType><controlURL>/c</controlURL></service></serviceList></device></root>"
        );
        let properties = "<e><NewWANAccessType>DSL</NewWANAccessType><NewLayer1UpstreamMaxBitRate>10000000</NewLayer1UpstreamMaxBitRate><NewLayer1DownstreamMaxBitRate>50000000</NewLayer1DownstreamMaxBitRate></e>";
        let mut heard = Vec::new();
        for body in [description.as_str(), properties] {
            let (mut socket, _) = http.accept().unwrap();
            socket
                .set_read_timeout(Some(Duration::from_millis(300)))
                .unwrap();
            let mut text = Vec::new();
            let _ = socket.read_to_end(&mut text);
            heard.push(String::from_utf8_lossy(&text).into_owned());
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            socket.write_all((head + body).as_bytes()).unwrap();
        }
        heard
    });
    let router = w.near.run(|| line::igd::ask("wan")).unwrap().unwrap();
    assert_eq!(
        (router.name.as_str(), router.access.as_str()),
        ("Box", "DSL")
    );
    assert_eq!(router.up, Some(evenkeel_core::Rate::from_kbit(10_000)));
    assert!(
        searched
            .join()
            .unwrap()
            .starts_with("M-SEARCH * HTTP/1.1\r\n")
    );
    let heard = asked.join().unwrap();
    assert!(heard[0].starts_with("GET /d.xml "), "{heard:?}");
    assert!(
        heard[1].starts_with("POST /c ") && heard[1].contains("GetCommonLinkProperties"),
        "{heard:?}"
    );
}
