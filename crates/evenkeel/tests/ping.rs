//! `ping` and `trace` against real kernels and against a target that misbehaves.
//!
//! Each test makes network namespaces of its own; without root each says so and passes. The
//! target that misbehaves is a thread behind a TUN device, which answers as it likes.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_lab::net;
use evenkeel_sys::netns::set_sysctl;
use evenkeel_sys::poll::{Interest, Poller, Waker};
use evenkeel_sys::tun::{Tun, TunKind};
use evenkeel_sys::{Netns, clock};
use evenkeel_wire::packet::{Echo, EchoKind, Ip, IpHeader, Udp, protocol};
use serde_json::Value;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

fn root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        let _ = writeln!(std::io::stderr(), "SKIP {test}: needs root");
    }
    root
}

/// Exit code, stdout, stderr of a command in `ns`.
fn run(ns: &Netns, args: &str) -> (i32, String, String) {
    ns.run(|| {
        let out = Command::new(EVENKEEL)
            .args(args.split_whitespace())
            .output()
            .unwrap();
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        let code = out.status.code().unwrap_or(-1);
        (code, text(out.stdout), text(out.stderr))
    })
    .unwrap()
}

/// The statistics of a run.
fn json(ns: &Netns, args: &str) -> Value {
    let (code, out, err) = run(ns, &format!("{args} --json"));
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args}: {code} {e}: {out}{err}"))
}

fn loopback() -> Netns {
    let ns = Netns::new("loopback").unwrap();
    ns.run(|| net::up("lo", None).unwrap()).unwrap();
    ns
}

/// client 10.1.0.2 - 10.1.0.1 router 10.2.0.1 - 10.2.0.2 server, and fd01::/fd02:: alike.
fn path() -> [Netns; 3] {
    let [client, router, server] = ["client", "router", "server"].map(|n| {
        let ns = Netns::new(n).unwrap();
        ns.run(|| {
            net::up("lo", None).unwrap();
            // No duplicate address detection: addresses are there at once.
            for key in ["all", "default"] {
                set_sysctl(&format!("net.ipv6.conf.{key}.accept_dad"), "0").unwrap();
            }
        })
        .unwrap();
        ns
    });
    router
        .run(|| {
            net::add_veth("near", "eth0", &client).unwrap();
            net::add_veth("far", "eth0", &server).unwrap();
            for (device, n) in [("near", 1), ("far", 2)] {
                net::add_address(device, Ipv4Addr::new(10, n, 0, 1).into(), 24).unwrap();
                net::up(device, None).unwrap();
                let v6: IpAddr = format!("fd0{n}::1").parse().unwrap();
                net::add_address(device, v6, 64).unwrap();
            }
            set_sysctl("net.ipv4.ip_forward", "1").unwrap();
            set_sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
            set_sysctl("net.ipv4.icmp_ratelimit", "0").unwrap();
            set_sysctl("net.ipv6.icmp.ratelimit", "0").unwrap();
        })
        .unwrap();
    for (ns, n) in [(&client, 1u8), (&server, 2)] {
        ns.run(|| {
            net::add_address("eth0", Ipv4Addr::new(10, n, 0, 2).into(), 24).unwrap();
            net::up("eth0", None).unwrap();
            let v6: IpAddr = format!("fd0{n}::2").parse().unwrap();
            net::add_address("eth0", v6, 64).unwrap();
            net::add_default_route(Ipv4Addr::new(10, n, 0, 1).into()).unwrap();
            net::add_default_route(format!("fd0{n}::1").parse().unwrap()).unwrap();
            set_sysctl("net.ipv4.icmp_ratelimit", "0").unwrap();
            set_sysctl("net.ipv6.icmp.ratelimit", "0").unwrap();
        })
        .unwrap();
    }
    [client, router, server]
}

#[test]
fn bad_input_is_one_line_and_sends_nothing() {
    if !root("bad_input_is_one_line_and_sends_nothing") {
        return;
    }
    let ns = loopback();
    for (args, code, says) in [
        ("no.such.host.invalid", 1, "unknown host"),
        ("192.0.2.1", 1, "no route"),
        ("127.0.0.1 -6", 1, "no IPv6 address"),
        ("127.0.0.1 -f -l65507 -L65535", 2, "cannot be used"),
        ("127.0.0.1 --ttl 0", 2, "1..=255"),
        ("127.0.0.1 -i256", 2, "1 to 255"),
        ("127.0.0.1 -u0", 2, "1..=65535"),
        ("127.0.0.1 --tcp=0", 2, "1..=65535"),
        ("127.0.0.1 -s0", 2, "--flood"),
        ("127.0.0.1 --interval 0", 2, "--flood"),
        ("127.0.0.1 --interval 0.5ms", 2, "1ms"),
        ("127.0.0.1 --interval 200", 2, "200ms"),
        ("127.0.0.1 -s1 -w60000", 2, "in flight"),
        ("127.0.0.1 -L27", 2, "headers"),
        ("127.0.0.1 -l65508", 1, "Message too long"),
        ("127.0.0.1 -i 0.2", 2, "--interval"),
        ("127.0.0.1 -c 5 -W 1", 2, "--count 5"),
        ("127.0.0.1 -W 1", 2, "--timeout"),
        ("127.0.0.1 -qx", 2, "replies, errors"),
        ("127.0.0.1 -F /nowhere/values.txt", 1, "/nowhere/values.txt"),
        ("127.0.0.1 --out /proc/x.html", 1, "/proc/x.html"),
        ("::1 -M", 2, "IPv4"),
        ("", 2, "<HOST>"),
    ] {
        let (got, out, err) = run(&ns, &format!("ping {args}"));
        assert_eq!(got, code, "{args}: {out}{err}");
        assert!(err.contains(says), "{args}: {err}");
        assert_eq!(err.lines().count(), 1, "{args}: {err}");
        assert_eq!(out, "", "{args}");
    }
}

#[test]
fn every_kind_over_both_families() {
    if !root("every_kind_over_both_families") {
        return;
    }
    let [client, router, server] = path();
    let listener = server
        .run(|| std::net::TcpListener::bind("[::]:8080").unwrap())
        .unwrap();
    for (target, near) in [("10.2.0.2", "10.1.0.1"), ("fd02::2", "fd01::1")] {
        for (kind, fate) in [
            ("", "reply"),
            ("-u", "port-unreachable"),
            ("-u -l0", "port-unreachable"),
            ("--tcp=8080", "reply"),
            ("--tcp=81", "refused"),
        ] {
            let s = json(&client, &format!("ping {target} {kind} -n5 -s5"));
            assert_eq!(s["times_ms"][fate]["n"], 5, "{target} {kind}: {s}");
            let avg = s["times_ms"][fate]["avg"].as_f64().unwrap();
            assert!(avg > 0.0 && avg < 100.0, "{target} {kind}: {s}");
            // The hop's errors, timed and told apart.
            let (_, out, err) = run(&client, &format!("ping {target} {kind} -n3 -s5 -i1"));
            let says = format!("TTL expired says {near}: seq 2");
            assert!(out.contains(&says), "{target} {kind}: {out}{err}");
            assert!(out.contains("0 replies (0.0 %), 3 errors"), "{out}");
        }
        let s = json(&client, &format!("trace {target} --rounds=2"));
        assert_eq!(s["reached"], true, "{s}");
        assert_eq!(s["hops"][0]["addresses"][0], near, "{s}");
        assert_eq!(s["hops"][1]["answered"], 2, "{s}");
        for kind in ["-u", "--tcp=8080"] {
            let (code, out, err) = run(&client, &format!("trace {target} {kind} --rounds=1"));
            assert_eq!(code, 0, "{out}{err}");
            assert!(
                out.contains(near) && out.contains("reached in 2 hops"),
                "{out}"
            );
        }
    }
    let s = json(&client, "ping 10.2.0.2 -M -n3 -s5");
    assert_eq!(
        (&s["replies"], &s["unstamped"]),
        (&3.into(), &0.into()),
        "{s}"
    );
    // A packet that the second link does not take is told by the router, and timed.
    router.run(|| set_mtu("far", 1000)).unwrap();
    let s = json(&client, "ping 10.2.0.2 -f -l1200 -n2 -s5");
    assert_eq!(s["times_ms"]["too-big"]["n"], 2, "{s}");
    let (code, _, err) = run(&client, "ping 10.2.0.2 -f -l1473");
    assert!(code == 1 && err.contains("MTU"), "{code} {err}");
    drop(listener);
}

fn set_mtu(device: &str, mtu: u32) {
    let args = format!("link set {device} mtu {mtu}");
    let done = Command::new("ip").args(args.split(' ')).status().unwrap();
    assert!(done.success());
}

/// An ingress queue of ours that stands: the path is told without it, whatever answers.
#[test]
fn our_own_ingress_queue_is_told_from_the_path() {
    if !root("our_own_ingress_queue_is_told_from_the_path") {
        return;
    }
    let [client, _router, server] = path();
    let dir = tempfile::tempdir().unwrap();
    let state = format!("--state-dir {}", dir.path().display());
    // With windows, small answers would not wait there.
    let shape = format!("shape eth0 50mbit 50mbit --ingress ifb --windows off --json {state}");
    let (code, out, err) = run(&client, &shape);
    assert_eq!(code, 0, "{out}{err}");
    let shaped: Value = serde_json::from_str(&out).unwrap();
    let ifb = shaped["ifb"].as_str().unwrap();
    // An answer of 42 bytes takes 4.8 ms on it, and one comes every 2 ms: ever more wait.
    let slow = format!("qdisc replace dev {ifb} root tbf rate 70kbit burst 1600 limit 100000");
    client
        .run(|| {
            set_sysctl("net.ipv4.ping_group_range", "0 2147483647").unwrap();
            let done = Command::new("tc").args(slow.split(' ')).status().unwrap();
            assert!(done.success());
        })
        .unwrap();
    let echo = server
        .run(|| evenkeel_measure::echo::Echo::start("[::]:9000".parse().unwrap()))
        .unwrap()
        .unwrap();
    let log = dir.path().join("values.txt");
    for (args, fate) in [
        ("10.2.0.2 -l60", "reply"),
        ("10.2.0.2 -l0", "reply"),
        ("10.2.0.2 -M", "reply"),
        ("10.2.0.2 -l60 -i1", "expired"),
        ("10.2.0.2 -u -l60", "port-unreachable"),
        ("10.2.0.2 -u -l0 -i1", "expired"),
        ("10.2.0.2 --udp=9000 -l60", "reply"),
        ("fd02::2 -l60", "reply"),
        ("fd02::2 -u -l0 -i1", "expired"),
        ("fd02::2 --udp=9000 -l60", "reply"),
    ] {
        let file = log.display();
        let s = json(
            &client,
            &format!("ping {args} -n120 -s2 -w5000 -F {file} {state}"),
        );
        println!("{args}: {}", s["own_ingress_ms"]);
        assert_eq!(s["times_ms"][fate]["n"], 120, "{args}: {s}");
        assert_eq!(s["own_ingress_ms"]["n"], 120, "{args}: {s}");
        let ms = |part: &str, what: &str| s[part][what].as_f64().unwrap();
        assert!(ms("own_ingress_ms", "max") > 50.0, "{args}: {s}");
        // Others may have the CPU for a while, but not the whole time.
        assert!(ms("path_ms", "median") < 2.0, "{args}: {s}");
        let text = std::fs::read_to_string(&log).unwrap();
        let read: evenkeel_core::ping::log::Log = text.parse().unwrap();
        let last = read.outcomes.last().unwrap().delays.unwrap();
        let parts = last.queue.unwrap() + last.path.unwrap() + last.ingress.unwrap();
        assert_eq!(parts, last.felt, "{args}: {last:?}");
    }
    let (_, out, err) = run(&client, &format!("ping 10.2.0.2 -n50 -s2 {state}"));
    assert!(out.contains(", own ingress queue "), "{out}{err}");
    assert!(out.contains("\n  own ingress queue "), "{out}{err}");
    // Where nobody stands before the queue, nothing is said of it.
    let (code, _, err) = run(&client, &format!("clear eth0 {state}"));
    assert_eq!(code, 0, "{err}");
    let s = json(&client, &format!("ping 10.2.0.2 -n3 -s5 {state}"));
    assert_eq!(
        (&s["own_ingress_ms"], &s["replies"]),
        (&Value::Null, &3.into()),
        "{s}"
    );
    drop(echo);
}

#[test]
fn a_router_that_limits_its_errors_is_asked_directly() {
    if !root("a_router_that_limits_its_errors_is_asked_directly") {
        return;
    }
    let [client, router, _server] = path();
    // An error every 20 s, and a credit of a minute (inet_getpeer): three come, no more.
    let limit = |ms: &str| {
        router
            .run(|| set_sysctl("net.ipv4.icmp_ratelimit", ms).unwrap())
            .unwrap();
    };
    limit("20000");
    let s = json(&client, "trace 10.2.0.2 --rounds=5 -w100");
    let hop = &s["hops"][0];
    assert_eq!(
        (&hop["sent"], &hop["answered"]),
        (&5.into(), &3.into()),
        "{s}"
    );
    assert_eq!(
        (&hop["direct_sent"], &hop["direct_answered"]),
        (&2.into(), &2.into()),
        "{s}"
    );
    assert_eq!(
        (&s["reached"], &s["lost"]),
        (&true.into(), &0.into()),
        "{s}"
    );
    // One that never answers is silent, and nothing is lost.
    limit("100000000");
    let (code, out, err) = run(&client, "trace 10.2.0.2 --rounds=2 -w100");
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.contains("no answer") && out.contains("none of 2 lost"),
        "{out}"
    );
}

#[test]
fn what_needs_rights_says_so() {
    if !root("what_needs_rights_says_so") {
        return;
    }
    let ns = loopback();
    // Where anybody may run it.
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("evenkeel");
    // By another process: what a child of another test holds open for writing cannot be executed.
    let mut install = Command::new("install");
    let install = install.args(["-m", "755", EVENKEEL]).arg(&program);
    assert!(install.status().unwrap().success());
    let anybody = |args: &str| {
        ns.run(|| {
            let out = Command::new(&program)
                .args(args.split(' '))
                .current_dir("/")
                .uid(65_534)
                .gid(65_534)
                .output()
                .unwrap();
            let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
            (
                out.status.code().unwrap(),
                text(out.stdout),
                text(out.stderr),
            )
        })
        .unwrap()
    };
    ns.run(|| set_sysctl("net.ipv4.ping_group_range", "1 0").unwrap())
        .unwrap();
    let (code, _, err) = anybody("ping 127.0.0.1 -n1");
    assert!(
        code == 3 && err.contains("net.ipv4.ping_group_range"),
        "{code} {err}"
    );
    let (code, _, err) = anybody("ping 127.0.0.1 -M -n1");
    assert!(code == 3 && err.contains("CAP_NET_RAW"), "{code} {err}");
    for args in ["ping 127.0.0.1 -u -n1", "ping ::1 --tcp=9 -n1"] {
        let (code, out, err) = anybody(args);
        assert_eq!(code, 0, "{args}: {out}{err}");
    }
    ns.run(|| set_sysctl("net.ipv4.ping_group_range", "0 2147483647").unwrap())
        .unwrap();
    for args in [
        "ping 127.0.0.1 -n1",
        "ping ::1 -n1",
        "trace 127.0.0.1 --rounds=1",
    ] {
        let (code, out, err) = anybody(args);
        assert_eq!(code, 0, "{args}: {out}{err}");
    }
}

#[test]
fn a_full_disk_is_told_and_measuring_goes_on() {
    if !root("a_full_disk_is_told_and_measuring_goes_on") {
        return;
    }
    let ns = loopback();
    let (code, out, err) = run(&ns, "ping 127.0.0.1 -F /dev/full -n5 -s2");
    assert_eq!(code, 1);
    assert!(
        err.contains("/dev/full: No space left") && err.contains("measuring goes on"),
        "{err}"
    );
    assert!(out.contains("5 sent, 5 replies"), "{out}");
}

#[test]
fn logs_are_read_again_and_compared() {
    const TEST: &str = "logs_are_read_again_and_compared";
    if !root(TEST) {
        return;
    }
    if !std::path::Path::new(EVENKEEL)
        .with_file_name("evenkeel-lab")
        .exists()
    {
        let words = "needs evenkeel-lab (cargo build -p evenkeel-lab)";
        let _ = writeln!(std::io::stderr(), "SKIP {TEST}: {words}");
        return;
    }
    let ns = loopback();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    // The paper's command, ended by a signal.
    let (log, first) = (at("values.txt"), at("first"));
    ns.run(|| {
        let args = format!("ping 127.0.0.1 -t -y -g -s20 -u -l0 -i3 -F {log} --out {first}");
        let mut child = Command::new(EVENKEEL)
            .args(args.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let end = clock::monotonic() + Duration::from_secs(60);
        let lines = || std::fs::read_to_string(&log).map_or(0, |t| t.lines().count());
        while lines() < 25 && clock::monotonic() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        assert!(child.wait().unwrap().success());
    })
    .unwrap();
    for file in [
        "report.html",
        "ping-time.png",
        "ping-ecdf.png",
        "statistics.json",
        "values.txt",
    ] {
        assert!(std::path::Path::new(&first).join(file).is_file(), "{file}");
    }
    let second = at("second.txt");
    run(&ns, &format!("ping 127.0.0.1 -n10 -s5 -q -F {second}"));
    let page = at("both.html");
    let (code, out, err) = run(&ns, &format!("report {log} {second} --out {page}"));
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("| values |") && out.contains("| second | 10 | 10 | 0 | 0 |"),
        "{out}"
    );
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("Pings compared") && html.matches("<svg").count() >= 4);
    let (code, _, err) = run(&ns, &format!("report {log} {EVENKEEL}"));
    assert!(code == 2 && err.contains("no log"), "{code} {err}");
}

/// Answers an ICMP echo request (IP packet) in several ways.
fn misbehave(packet: &[u8]) -> Vec<Vec<u8>> {
    let Ok(ip) = Ip::parse(packet) else {
        return Vec::new();
    };
    let asked = ip.header();
    if ip.protocol() == protocol::UDP {
        let Ok(udp) = Udp::parse(ip.payload()) else {
            return Vec::new();
        };
        // Always an error that quotes no more than eight bytes of the datagram.
        assert!(udp.destination == 7);
        return vec![expired(&asked, packet, 28)];
    }
    let Ok(echo) = Echo::parse(ip.payload()) else {
        return Vec::new();
    };
    let reply = |source: IpAddr, cut: usize, sequence: u16| {
        let mut payload = echo.payload[..echo.payload.len() - cut].to_vec();
        // The probe's own header says its number as well.
        payload[8..12].copy_from_slice(&u32::from(sequence).to_be_bytes());
        let (kind, identifier) = (EchoKind::Reply, echo.identifier);
        let echo = Echo {
            kind,
            identifier,
            sequence,
            payload: &payload,
        };
        let header = IpHeader {
            source,
            destination: asked.source,
            protocol: protocol::ICMP,
            ttl: 60,
            tos: 0,
        };
        header.build(&echo.build(None)).unwrap()
    };
    let target = asked.destination;
    let other = IpAddr::from([10, 9, 0, 77]);
    let good = reply(target, 0, echo.sequence);
    match echo.sequence {
        0 => vec![good.clone(), good],
        1 => vec![reply(other, 0, 1), good],
        2 => vec![reply(target, 5, 2)],
        3 => vec![expired(&asked, packet, 28)],
        // A number that was never sent, one of long ago, and noise.
        4 => vec![reply(target, 0, 40_000), good[..22].to_vec(), good],
        5 => vec![
            expired(&asked, packet, 24),
            expired(&asked, packet, packet.len()),
        ],
        // The sixth was left unanswered until now.
        7 => vec![good, reply(target, 0, 6)],
        _ => Vec::new(),
    }
}

/// Time exceeded from 10.9.0.1, quoting `bytes` of a packet.
fn expired(asked: &IpHeader, packet: &[u8], bytes: usize) -> Vec<u8> {
    let mut message = vec![11, 0, 0, 0, 0, 0, 0, 0];
    message.extend(&packet[..bytes]);
    let sum = evenkeel_wire::packet::checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = IpHeader {
        source: [10, 9, 0, 1].into(),
        destination: asked.source,
        protocol: protocol::ICMP,
        ttl: 60,
        tos: 0,
    };
    header.build(&message).unwrap()
}

#[test]
fn a_target_that_misbehaves() {
    if !root("a_target_that_misbehaves") {
        return;
    }
    let ns = Netns::new("misbehaving").unwrap();
    let stop = Arc::new(Waker::new().unwrap());
    let until = Arc::clone(&stop);
    let tun = ns
        .run(|| {
            set_sysctl("net.ipv4.ping_group_range", "0 2147483647").unwrap();
            let tun = Tun::open("tun0", TunKind::Tun).unwrap();
            net::add_address("tun0", Ipv4Addr::new(10, 9, 0, 2).into(), 24).unwrap();
            net::up("tun0", None).unwrap();
            tun
        })
        .unwrap();
    let target = std::thread::spawn(move || {
        let poller = Poller::new().unwrap();
        poller.add(&tun, 0, Interest::Read).unwrap();
        poller.add(until.as_ref(), 1, Interest::Read).unwrap();
        let (mut ready, mut buffer) = (Vec::new(), vec![0; 65_536]);
        loop {
            poller.wait(&mut ready).unwrap();
            if ready.iter().any(|r| r.token == 1) {
                return;
            }
            while let Some(n) = tun.read(&mut buffer).unwrap() {
                for answer in misbehave(&buffer[..n]) {
                    tun.write(&answer).unwrap();
                }
            }
        }
    });
    // Through a datagram ICMP socket, and through a raw one, on which the kernel itself drops
    // what comes from elsewhere.
    for (range, not_ours) in [("0 2147483647", 2), ("1 0", 1)] {
        ns.run(|| set_sysctl("net.ipv4.ping_group_range", range).unwrap())
            .unwrap();
        let s = json(&ns, "ping 10.9.0.9 -n10 -s20 -w1000");
        let count = |key: &str| s[key].as_u64().unwrap();
        // Good: 0, 1, 4, 7 and, after 7, 6; 3 and 5 expired; 2 truncated; 8 and 9 lost.
        assert_eq!(
            (count("sent"), count("replies"), count("lost")),
            (10, 5, 2),
            "{range}: {s}"
        );
        assert_eq!((count("errors"), count("damaged")), (2, 1), "{range}: {s}");
        assert_eq!(
            (count("duplicates"), count("reordered")),
            (1, 1),
            "{range}: {s}"
        );
        assert_eq!(count("foreign") + count("strays"), not_ours, "{range}: {s}");
        assert_eq!(s["times_ms"]["expired"]["n"], 2, "{range}: {s}");
    }
    // Eight bytes of UDP name no probe: the port it was sent from does, if it has room for
    // nothing else; with room, it is the only one under way.
    for size in ["-l0", "-l100"] {
        let s = json(&ns, &format!("ping 10.9.0.9 -u {size} -n5 -s20"));
        assert_eq!(s["times_ms"]["expired"]["n"], 5, "{size}: {s}");
    }
    stop.wake();
    target.join().unwrap();
}
