//! Loads, calls, pages and QUIC over a bottleneck: what they count is what a kernel's token bucket
//! lets through, and what it drops they notice.
//!
//! Principles: bounds are those of arithmetic (rate, buffer, time), wide enough for a busy machine.
//! Non-goals: how well a congestion control does.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use evenkeel_core::Direction;
use evenkeel_measure::call::Call;
use evenkeel_measure::load::{Flow, FlowOutcome, Load};
use evenkeel_measure::quic::Quic;
use evenkeel_measure::web::Web;
use evenkeel_sys::{Netns, clock};

/// What the bucket lets through, bit/s: on a loopback device both ways share it.
const RATE: f64 = 20e6;
const LASTS: Duration = Duration::from_secs(3);

/// A namespace whose loopback device carries [`RATE`], with 30 kB of buffer (12 ms).
fn bottleneck(test: &str) -> Option<Netns> {
    if !nix::unistd::geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "SKIP {test}: not root, so no namespaces");
        return None;
    }
    let ns = Netns::new("bottleneck").unwrap();
    ns.run(|| {
        for words in [
            "ip link set lo mtu 1500 up",
            "tc qdisc add dev lo root tbf rate 20mbit burst 3000 limit 30000",
        ] {
            let mut words = words.split(' ');
            let mut command = Command::new(words.next().unwrap());
            assert!(command.args(words).status().unwrap().success());
        }
    })
    .unwrap();
    Some(ns)
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Share of the bucket's rate that payload took from `start` on.
fn used(flow: &FlowOutcome, start: Duration) -> f64 {
    flow.bytes() as f64 * 8.0 / RATE / LASTS.saturating_sub(start).as_secs_f64()
}

#[test]
fn bulk_flows_fill_it_and_send_again_what_it_drops() {
    let Some(ns) = bottleneck("bulk_flows_fill_it_and_send_again_what_it_drops") else {
        return;
    };
    let start = Duration::from_millis(100);
    let flow = |direction, port| Flow {
        name: "bulk".into(),
        direction,
        server: at(port),
        start,
        congestion: "cubic".into(),
        send_buffer: None,
        lasts: None,
    };
    for direction in Direction::BOTH {
        let flows = vec![
            (flow(direction, 50_001), &ns, &ns),
            (flow(direction, 50_002), &ns, &ns),
        ];
        let running = Load::prepare(flows)
            .unwrap()
            .start(clock::monotonic(), LASTS)
            .unwrap();
        let outcomes = running.finish().unwrap();
        let all: f64 = outcomes.iter().map(|f| used(f, start)).sum();
        assert!((0.6..1.01).contains(&all), "{direction}: {all}");
        let again: u64 = outcomes.iter().map(|f| f.retransmits).sum();
        assert!(again > 0, "{direction}: {outcomes:?}");
    }
}

#[test]
fn quic_obeys_losses() {
    let Some(ns) = bottleneck("quic_obeys_losses") else {
        return;
    };
    for (direction, port) in [(Direction::Up, 50_011), (Direction::Down, 50_012)] {
        let start = Duration::from_millis(100);
        let quic = Quic {
            name: "quic".into(),
            direction,
            server: at(port),
            start,
        };
        let quic = quic.begin(&ns, &ns, clock::monotonic(), LASTS).unwrap();
        let quic = quic.finish().unwrap();
        let share = used(&quic, start);
        assert!((0.4..1.01).contains(&share), "{direction}: {share}");
        // It found the bucket's end, and did not go on sending many times what passes.
        let packets = quic.bytes() / 1200;
        assert!(quic.retransmits > 0, "{direction}");
        assert!(
            quic.retransmits < packets / 4,
            "{direction}: {} of {packets}",
            quic.retransmits
        );
    }
}

#[test]
fn a_call_beside_a_download_waits_and_loses_and_a_page_may_not_be_done() {
    let test = "a_call_beside_a_download_waits_and_loses_and_a_page_may_not_be_done";
    let Some(ns) = bottleneck(test) else {
        return;
    };
    let (begin, ms) = (clock::monotonic(), Duration::from_millis);
    let call = Call {
        name: "call".into(),
        direction: Direction::Down,
        server: at(50_021),
        start: Duration::ZERO,
        interval: ms(10),
        packet: 200,
    };
    let call = call.begin(&ns, &ns, begin, LASTS).unwrap();
    let quic = Quic {
        name: "quic".into(),
        direction: Direction::Down,
        server: at(50_022),
        start: ms(1000),
    };
    let quic = quic.begin(&ns, &ns, begin, LASTS).unwrap();
    // 10 kB take some ms; 100 MB would take 40 s.
    let web = Web {
        name: "web".into(),
        server: at(50_023),
        congestion: "cubic".into(),
        pages: vec![(ms(100), 10_000), (ms(1500), 100_000_000)],
    };
    let web = web.begin(&ns, &ns, begin, LASTS).unwrap();
    let (call, quic, web) = (
        call.finish().unwrap(),
        quic.finish().unwrap(),
        web.finish().unwrap(),
    );

    assert_eq!(quic.error, "");
    let done: Vec<bool> = web.pages.iter().map(|p| p.2.is_some()).collect();
    assert_eq!(done, [true, false], "{:?}", web.pages);
    assert!(web.flow.bytes() < 100_010_000);

    assert_eq!(call.packets.len(), 300);
    let median = |from: u64, to: u64| {
        let sent = |p: &&(Duration, Option<Duration>)| (ms(from)..ms(to)).contains(&p.0);
        let delays = call.packets.iter().filter(sent).filter_map(|p| p.1);
        let mut delays: Vec<Duration> = delays.collect();
        delays.sort();
        delays[delays.len() / 2]
    };
    // 30 kB at 20 Mbit/s are 12 ms, and what fills them leaves at least a part of it standing.
    let (alone, beside) = (median(200, 1000), median(1000, 3000));
    assert!(beside > ms(2) && beside > alone, "{alone:?} {beside:?}");
}
