//! Prober, echo and load over a loopback device of their own.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::Direction;
use evenkeel_measure::call::Call;
use evenkeel_measure::echo::Echo;
use evenkeel_measure::load::{Flow, Load};
use evenkeel_measure::probe::{ProbeConfig, Prober};
use evenkeel_measure::quic::Quic;
use evenkeel_measure::web::Web;
use evenkeel_sys::{Netns, clock, netns::set_sysctl};

/// A namespace whose loopback device is up; `None`, with a word, if this is really not root.
fn loopback(test: &str) -> Option<Netns> {
    if !nix::unistd::geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "SKIP {test}: not root, so no namespaces");
        return None;
    }
    let ns = Netns::new("loopback").unwrap();
    ns.run(|| {
        evenkeel_sys::ifreq::set_up("lo").unwrap();
        set_sysctl("net.ipv4.ping_group_range", "0 2147483647").unwrap();
    })
    .unwrap();
    Some(ns)
}

#[test]
fn probes_come_back_stamped() {
    let Some(ns) = loopback("probes_come_back_stamped") else {
        return;
    };
    let target: SocketAddr = "127.0.0.1:44811".parse().unwrap();
    let _echo = ns.run(|| Echo::start(target)).unwrap().unwrap();
    let config = ProbeConfig {
        target,
        interval: Duration::from_millis(5),
        icmp: true,
    };
    let prober = ns.run(|| Prober::start(config)).unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(600));
    let outcome = prober.finish().unwrap();
    for (kind, samples) in [("udp", &outcome.udp), ("icmp", &outcome.icmp)] {
        assert!(
            samples.probes.len() > 50,
            "{kind}: {}",
            samples.probes.len()
        );
        assert_eq!((samples.not_sent, samples.unstamped), (0, 0), "{kind}");
        assert_eq!((samples.duplicates, samples.reordered), (0, 0), "{kind}");
        let mut rtt: Vec<_> = samples.probes.iter().map(|p| p.rtt.unwrap()).collect();
        rtt.sort();
        // Two passes of the loopback device; the echo thread's own time is taken out.
        assert!(
            rtt[rtt.len() / 2] < Duration::from_micros(500),
            "{kind}: {rtt:?}"
        );
        assert!(
            samples.probes.windows(2).all(|w| w[0].sent < w[1].sent),
            "{kind}"
        );
    }
    assert!(!outcome.clock_stepped);
}

#[test]
fn a_silent_server_loses_every_probe() {
    let Some(ns) = loopback("a_silent_server_loses_every_probe") else {
        return;
    };
    // Nobody listens: each probe comes back as an ICMP error, which must not stop the next one.
    let config = ProbeConfig {
        target: "127.0.0.1:44811".parse().unwrap(),
        interval: Duration::from_millis(5),
        icmp: false,
    };
    let prober = ns.run(|| Prober::start(config)).unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let udp = prober.finish().unwrap().udp;
    assert!(udp.probes.len() > 20 && udp.probes.iter().all(|p| p.rtt.is_none()));
    assert_eq!(udp.not_sent, 0);
}

#[test]
fn flows_run_both_ways_and_a_missing_route_is_told() {
    let Some(ns) = loopback("flows_run_both_ways_and_a_missing_route_is_told") else {
        return;
    };
    let flow = |name: &str, direction, port: u16, send_buffer| Flow {
        name: name.to_owned(),
        direction,
        server: SocketAddr::from(([127, 0, 0, 1], port)),
        start: Duration::from_millis(200),
        congestion: "cubic".into(),
        send_buffer,
        lasts: None,
    };
    let flows = vec![
        (flow("up", Direction::Up, 50_001, None), &ns, &ns),
        (flow("down", Direction::Down, 50_002, None), &ns, &ns),
        (flow("slow", Direction::Up, 50_003, Some(100_000)), &ns, &ns),
    ];
    let running = Load::prepare(flows)
        .unwrap()
        .start(clock::monotonic(), Duration::from_secs(1))
        .unwrap();
    let outcomes = running.finish().unwrap();
    for f in &outcomes {
        assert_eq!(f.error, "", "{}", f.name);
        assert_eq!(f.bins.len(), 10, "{}", f.name);
        assert!(f.bytes() > 1_000_000, "{}: {}", f.name, f.bytes());
        assert_eq!(f.bins[0], 0, "{}: before its start", f.name);
    }
    // A buffer of 100 kB filled up every 2 ms passes at most 50 MB/s.
    assert!(outcomes[2].bytes() < 50_000_000, "{}", outcomes[2].bytes());

    let mut brief = flow("brief", Direction::Down, 50_005, None);
    brief.lasts = Some(Duration::from_millis(300));
    let running = Load::prepare(vec![(brief, &ns, &ns)])
        .unwrap()
        .start(clock::monotonic(), Duration::from_secs(1))
        .unwrap();
    let outcomes = running.finish().unwrap();
    assert_eq!(outcomes[0].error, "");
    assert!(outcomes[0].bins[3] > 0 && outcomes[0].bins[7] == 0);

    let mut lost = flow("lost", Direction::Up, 50_004, None);
    let other = Netns::new("without a route").unwrap();
    lost.start = Duration::ZERO;
    let running = Load::prepare(vec![(lost, &other, &ns)])
        .unwrap()
        .start(clock::monotonic(), Duration::from_secs(1))
        .unwrap();
    let e = running.finish().unwrap_err().to_string();
    assert!(e.contains("connect to TCP 127.0.0.1:50004"), "{e}");
    let refused = ns
        .run(|| evenkeel_sys::tcp::Tcp::new(target(), "no-such-cc"))
        .unwrap();
    assert!(refused.unwrap_err().to_string().contains("no-such-cc"));
}

#[test]
fn pages_calls_and_quic_run_beside_each_other() {
    let Some(ns) = loopback("pages_calls_and_quic_run_beside_each_other") else {
        return;
    };
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let (start, ms) = (clock::monotonic(), Duration::from_millis);
    let second = ms(1000);
    let web = Web {
        name: "web".into(),
        server: at(50_001),
        congestion: "cubic".into(),
        pages: vec![(ms(100), 5_000), (ms(150), 3_000_000), (ms(2_000), 1)],
    };
    let web = web.begin(&ns, &ns, start, second).unwrap();
    let mut calls = Vec::new();
    let mut quics = Vec::new();
    for (direction, port) in [(Direction::Up, 50_002), (Direction::Down, 50_004)] {
        let call = Call {
            name: "call".into(),
            direction,
            server: at(port),
            start: ms(100),
            interval: ms(20),
            packet: 200,
        };
        calls.push(call.begin(&ns, &ns, start, second).unwrap());
        let quic = Quic {
            name: "quic".into(),
            direction,
            server: at(port + 1),
            start: ms(200),
        };
        quics.push(quic.begin(&ns, &ns, start, second).unwrap());
    }
    let web = web.finish().unwrap();
    assert_eq!(web.pages.len(), 2, "the third comes after the end");
    assert!(web.pages.iter().all(|p| p.2.is_some()), "{:?}", web.pages);
    assert_eq!(web.flow.bytes(), 3_005_000);
    for call in calls {
        let call = call.finish().unwrap();
        assert_eq!(call.packets.len(), 45, "from 100 to 1000 ms");
        let delays: Vec<_> = call.packets.iter().filter_map(|p| p.1).collect();
        assert!(
            delays.len() >= 44 && delays.iter().all(|d| *d < ms(50)),
            "{delays:?}"
        );
    }
    for quic in quics {
        let quic = quic.finish().unwrap();
        assert_eq!((quic.error.as_str(), quic.bins.len()), ("", 10));
        assert!(quic.bytes() > 1_000_000, "{}", quic.bytes());
        assert_eq!(quic.bins[0], 0, "before its start");
    }
}

fn target() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}
