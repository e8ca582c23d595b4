//! The emulator beside the kernel's own: netem with the same rate, framing, delay and queue.
//!
//! Both carry the same bursts and single packets, and both are held against arithmetic: within
//! 2 % of each other and of what was set. Judged in virtual time, whose kernel has netem.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use evenkeel_core::pipe::{Buffer, PipeConfig, RateTrace};
use evenkeel_core::{Framing, Rate, stats};
use evenkeel_lab::emulator::{Emulator, Ends, LineConfig};
use evenkeel_lab::net;
use evenkeel_sys::stamp::StampedSocket;
use evenkeel_sys::tun::{Tun, TunKind};
use evenkeel_sys::{Netns, clock};

/// A line, for both.
struct Line {
    kbit: u64,
    framing: &'static str,
    /// netem's words for that framing, on frames with an Ethernet header.
    netem: &'static str,
    delay: Duration,
    packets: u64,
}

const LINES: [Line; 2] = [
    Line {
        kbit: 8_000,
        framing: "none:0",
        netem: "-14",
        delay: Duration::from_millis(40),
        packets: 200,
    },
    Line {
        kbit: 384,
        framing: "atm:40",
        netem: "26 48 5",
        delay: Duration::from_millis(40),
        packets: 20,
    },
];

/// Two hosts with a line between them.
struct World {
    near: Netns,
    far: Netns,
    _emulator: Option<Emulator>,
}

const FAR: &str = "10.9.0.2";
const PORT: u16 = 7777;

/// What a line did.
#[derive(Debug)]
struct Seen {
    /// Packets of a burst of one and a half queues that came, median of the bursts.
    came: f64,
    /// From the first to the last of them by packet, ms, median of the bursts.
    gap_ms: f64,
    /// Of single small packets, ms, least.
    delay_ms: f64,
}

fn host(name: &str) -> Netns {
    let ns = Netns::new(name).unwrap();
    ns.run(|| net::up("lo", None)).unwrap().unwrap();
    ns
}

impl World {
    fn emulated(line: &Line) -> World {
        let (near, far) = (host("near"), host("far"));
        let end = |ns: &Netns, ip: &str| {
            ns.run(|| {
                let tun = Tun::open("line", TunKind::Tun).unwrap();
                net::add_address("line", ip.parse().unwrap(), 30).unwrap();
                net::up("line", Some(10_000)).unwrap();
                tun
            })
            .unwrap()
        };
        let ends = Ends {
            provider: end(&far, FAR),
            gateway: end(&near, "10.9.0.1"),
            kind: TunKind::Tun,
        };
        let pipe = PipeConfig {
            rate: RateTrace::constant(Rate::from_kbit(line.kbit)),
            framing: line.framing.parse().unwrap(),
            buffer: Buffer::Packets(line.packets),
            delay: line.delay,
            bucket: None,
            managed: None,
            turns: Duration::ZERO,
            wander: Vec::new(),
            jitter: Duration::ZERO,
            loss: 0.0,
            seed: 1,
        };
        let config = LineConfig {
            down: pipe.clone(),
            up: pipe,
            beyond: Vec::new(),
            filters_icmp: false,
            silent: None,
            hop: None,
        };
        World {
            near,
            far,
            _emulator: Some(Emulator::start(ends, config).unwrap()),
        }
    }

    fn netem(line: &Line) -> World {
        let (near, far) = (host("near"), host("far"));
        near.run(|| {
            net::add_veth("line", "line", &far).unwrap();
            net::add_address("line", "10.9.0.1".parse().unwrap(), 30).unwrap();
            net::up("line", None).unwrap();
        })
        .unwrap();
        far.run(|| {
            net::add_address("line", FAR.parse().unwrap(), 30).unwrap();
            net::up("line", None).unwrap();
        })
        .unwrap();
        let words = format!(
            "qdisc add dev line root netem limit {} delay {}us rate {}kbit {}",
            line.packets,
            line.delay.as_micros(),
            line.kbit,
            line.netem
        );
        let tc = near.run(|| Command::new("tc").args(words.split(' ')).output());
        let out = tc.unwrap().unwrap();
        let why = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "tc {words}: {why}");
        World {
            near,
            far,
            _emulator: None,
        }
    }

    fn measure(&self, line: &Line) -> Seen {
        let to = SocketAddr::new(FAR.parse().unwrap(), PORT);
        let receiver = self.far.run(|| StampedSocket::udp(to)).unwrap().unwrap();
        let sender = self
            .near
            .run(|| UdpSocket::bind("10.9.0.1:0"))
            .unwrap()
            .unwrap();
        sender.connect(to).unwrap();
        let came = |within: Duration| {
            let until = clock::monotonic() + within;
            let mut buffer = [0; 2048];
            let mut at = Vec::new();
            while clock::monotonic() < until {
                while let Some(r) = receiver.receive(&mut buffer).unwrap() {
                    at.push(r.at.unwrap_or_else(clock::realtime));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            at
        };
        // Neighbours get to know each other, and stamping is switched on.
        for _ in 0..3 {
            sender.send(&[0; 72]).unwrap();
            came(Duration::from_millis(150));
        }
        let mut delay_ms = f64::INFINITY;
        for _ in 0..12 {
            let sent = clock::realtime();
            sender.send(&[0; 72]).unwrap();
            if let Some(at) = came(Duration::from_millis(80)).first() {
                delay_ms = delay_ms.min(at.saturating_sub(sent).as_secs_f64() * 1000.0);
            }
        }
        let (mut counts, mut gaps) = (Vec::new(), Vec::new());
        let whole = Duration::from_secs_f64(line.arithmetic(1500) * line.packets as f64 / 1000.0);
        for _ in 0..3 {
            for _ in 0..line.packets * 3 / 2 {
                // netem hands its drop back to the sender, which is no news.
                let _ = sender.send(&[0; 1472]);
            }
            let at = came(whole + Duration::from_millis(200));
            let (Some(first), Some(last)) = (at.first(), at.last()) else {
                continue;
            };
            counts.push(at.len() as f64);
            let span = last.saturating_sub(*first).as_secs_f64() * 1000.0;
            gaps.push(span / (at.len() as f64 - 1.0));
        }
        Seen {
            came: stats::median(&counts).unwrap(),
            gap_ms: stats::median(&gaps).unwrap(),
            delay_ms,
        }
    }
}

impl Line {
    /// How long an IP packet takes on it, ms.
    fn arithmetic(&self, len: u32) -> f64 {
        let framing: Framing = self.framing.parse().unwrap();
        f64::from(framing.wire_len(len)) * 8.0 / self.kbit as f64
    }
}

fn within(what: &str, got: f64, wanted: f64, at_least: f64) {
    let off = (got - wanted).abs();
    let allowed = (wanted * 0.02).max(at_least);
    assert!(off <= allowed, "{what}: {got:.3}, not {wanted:.3}");
}

#[test]
fn agrees_with_netem() {
    if !common::in_virtual_time("agrees_with_netem") {
        return;
    }
    for line in &LINES {
        let ours = World::emulated(line).measure(line);
        let netem = World::netem(line).measure(line);
        eprintln!(
            "{} {} kbit/s: {ours:?}, netem {netem:?}",
            line.framing, line.kbit
        );
        let single = line.delay.as_secs_f64() * 1000.0 + line.arithmetic(100);
        for (name, seen) in [("emulator", &ours), ("netem", &netem)] {
            let of = |figure: &str| format!("{name}, {}, {figure}", line.framing);
            // One may have left while the burst was sent.
            within(&of("came"), seen.came, line.packets as f64, 1.0);
            within(&of("gap"), seen.gap_ms, line.arithmetic(1500), 0.0);
            within(&of("delay"), seen.delay_ms, single, 0.0);
        }
        within("emulator and netem, gap", ours.gap_ms, netem.gap_ms, 0.0);
    }
}
