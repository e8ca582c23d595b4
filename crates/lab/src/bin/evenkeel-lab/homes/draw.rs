//! Homes drawn from the ranges that homes have: a line, hosts behind it, and what people do there.
//!
//! Principles: the same seed is the same home for ever, so every kind of thing is drawn from a sequence
//! of its own and a new kind changes no old one; ranges are those of access networks, not of
//! `experiments/`; a home is an experiment's file, so that any of them can be run and looked at alone.
//! Non-goals: what comes of it (`judge`); what the lab's line cannot do yet: hosts beside the gateway,
//! policers, managed queues, hops that limit answers or whose clocks are wrong.

use std::fmt::Write as _;

use evenkeel_core::pipe::SplitMix64;
use serde::Serialize;

/// A load lasts so long, s.
pub(super) const LENGTH: f64 = 40.0;
/// The only load of a home.
pub(super) const LOAD: &str = "home";
/// What each home is run under: all others are judged beside the second. Pictures show the first three.
pub(super) const CONDITIONS: [&str; 4] = ["none", "evenkeel", "evenkeel-auto", "cake-95"];

/// A home.
#[derive(Debug, Clone)]
pub(super) struct Home {
    pub seed: u64,
    /// What it is, in a line.
    pub about: String,
    /// The experiment's file.
    pub text: String,
    /// Its rates change, so that what is told once is no oracle.
    pub changes: bool,
}

#[derive(Debug, Serialize)]
struct File {
    name: String,
    about: String,
    clients: usize,
    conditions: Vec<&'static str>,
    line: Line,
    servers: Vec<Server>,
    duration: Duration,
    probe: Probe,
    loads: Vec<Load>,
}

#[derive(Debug, Serialize)]
struct Line {
    device: &'static str,
    down: String,
    up: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    down_steps: Vec<(f64, String)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    up_steps: Vec<(f64, String)>,
    framing: String,
    rtt_ms: f64,
    jitter_ms: f64,
    loss: f64,
    filters_icmp: bool,
    silent: bool,
    double_nat: bool,
    down_buffer: String,
    up_buffer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    swing: Option<Swing>,
}

#[derive(Debug, Serialize)]
struct Swing {
    kind: &'static str,
    seed: u64,
    every_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    down: [String; 2],
    up: [String; 2],
    rtt_ms: [f64; 2],
}

#[derive(Debug, Serialize)]
struct Server {
    name: &'static str,
    rtt_ms: f64,
}

#[derive(Debug, Serialize)]
struct Duration {
    #[serde(rename = "full_s")]
    full: f64,
    #[serde(rename = "quick_s")]
    quick: f64,
    #[serde(rename = "idle_s")]
    idle: f64,
}

#[derive(Debug, Serialize)]
struct Probe {
    interval_ms: f64,
}

#[derive(Debug, Serialize)]
struct Load {
    name: &'static str,
    flows: Vec<Flow>,
}

#[derive(Debug, Default, Serialize)]
struct Flow {
    kind: &'static str,
    direction: &'static str,
    client: usize,
    server: &'static str,
    count: usize,
    start_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    off_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_kbyte: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_bytes: Option<u16>,
}

/// Luck of one kind.
struct Luck(SplitMix64);

impl Luck {
    fn new(seed: u64, kind: u64) -> Self {
        let mut mixed = SplitMix64::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(kind << 40));
        Luck(SplitMix64::new(mixed.next_u64()))
    }

    fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.unit()
    }

    /// As often in one doubling as in the next.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.0.unit())
    }

    fn happens(&mut self, share: f64) -> bool {
        self.0.unit() < share
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[((self.0.unit() * all.len() as f64) as usize).min(all.len() - 1)]
    }
}

/// Kinds of luck: each has a sequence of its own.
mod kind {
    pub(super) const ACCESS: u64 = 1;
    pub(super) const BUFFERS: u64 = 2;
    pub(super) const CHANGES: u64 = 3;
    pub(super) const PROVIDER: u64 = 4;
    pub(super) const SERVERS: u64 = 5;
    pub(super) const PEOPLE: u64 = 6;
}

/// What brings the line.
struct Access {
    name: &'static str,
    framing: &'static str,
    /// kbit/s.
    down: f64,
    up: f64,
    rtt_ms: f64,
    jitter_ms: f64,
    device: &'static str,
    /// Rates walk all the time.
    radio: bool,
}

/// Draws a home.
pub(super) fn draw(seed: u64) -> Home {
    let access = access(&mut Luck::new(seed, kind::ACCESS));
    let buffers = &mut Luck::new(seed, kind::BUFFERS);
    let down_buffer = buffer(buffers);
    let up_buffer = buffer(buffers);
    let changes = &mut Luck::new(seed, kind::CHANGES);
    let swing = access.radio.then(|| walk(changes, &access, seed));
    let steps = swing.is_none() && changes.happens(0.3);
    let mut stepped = |rate: f64| {
        if steps {
            steps_of(changes, rate)
        } else {
            Vec::new()
        }
    };
    let (down_steps, up_steps) = (stepped(access.down), stepped(access.up));
    let provider = &mut Luck::new(seed, kind::PROVIDER);
    let hop = provider.0.unit();
    let line = Line {
        device: access.device,
        down: rate(access.down),
        up: rate(access.up),
        down_steps,
        up_steps,
        framing: access.framing.to_owned(),
        rtt_ms: tenth(access.rtt_ms),
        jitter_ms: tenth(access.jitter_ms),
        loss: if provider.happens(0.7) {
            0.0
        } else {
            provider.log(0.0001, 0.005)
        },
        filters_icmp: hop < 0.1,
        silent: (0.1..0.2).contains(&hop),
        double_nat: provider.happens(0.25),
        down_buffer,
        up_buffer,
        swing,
    };
    let far = &mut Luck::new(seed, kind::SERVERS);
    let beyond = |far: &mut Luck| tenth(access.rtt_ms + far.log(1.0, 150.0));
    let servers = vec![
        Server {
            name: "near",
            rtt_ms: tenth(access.rtt_ms + far.within(0.5, 5.0)),
        },
        Server {
            name: "one",
            rtt_ms: beyond(far),
        },
        Server {
            name: "other",
            rtt_ms: beyond(far),
        },
    ];
    let flows = people(&mut Luck::new(seed, kind::PEOPLE), &access);
    let about = about(&access, &line, &flows);
    let changes = line.swing.is_some() || !line.down_steps.is_empty();
    let file = File {
        name: format!("home-{seed}"),
        about: about.clone(),
        clients: 2,
        conditions: CONDITIONS.to_vec(),
        line,
        servers,
        duration: Duration {
            full: LENGTH,
            quick: LENGTH,
            idle: 3.0,
        },
        probe: Probe { interval_ms: 20.0 },
        loads: vec![Load { name: LOAD, flows }],
    };
    Home {
        seed,
        about,
        text: toml::to_string(&file).unwrap_or_default(),
        changes,
    }
}

/// What is sold: the technology, its framing and its rates.
fn access(luck: &mut Luck) -> Access {
    let technology = luck.0.unit();
    let (name, framing, down, ratio, rtt_ms, device) = match technology {
        t if t < 0.25 => (
            "ADSL",
            luck.one_of(&["pppoa-vcmux", "pppoa-llc", "pppoe-vcmux", "pppoe-llcsnap"]),
            luck.log(500.0, 24_000.0),
            luck.log(4.0, 20.0),
            luck.within(10.0, 40.0),
            "tun",
        ),
        t if t < 0.45 => (
            "VDSL",
            luck.one_of(&["bridged-ptm", "pppoe-ptm", "ptm:26", "ptm:34"]),
            luck.log(8_000.0, 250_000.0),
            luck.log(2.0, 8.0),
            luck.within(5.0, 25.0),
            "tun",
        ),
        t if t < 0.65 => (
            "cable",
            "none:18:mpu64",
            luck.log(10_000.0, 300_000.0),
            luck.log(5.0, 20.0),
            luck.within(6.0, 25.0),
            "tap",
        ),
        t if t < 0.8 => (
            "fibre",
            luck.one_of(&["none:38:mpu84", "none:42:mpu84", "none:46:mpu84"]),
            luck.log(20_000.0, 300_000.0),
            luck.log(1.0, 10.0),
            luck.within(5.0, 12.0),
            "tap",
        ),
        t if t < 0.9 => (
            "radio",
            "none:0",
            luck.log(3_000.0, 150_000.0),
            luck.log(2.0, 10.0),
            luck.within(25.0, 80.0),
            "tun",
        ),
        t if t < 0.95 => (
            "SDSL",
            luck.one_of(&["ipoa-llcsnap", "bridged-llcsnap"]),
            luck.log(500.0, 10_000.0),
            1.0,
            luck.within(8.0, 40.0),
            "tun",
        ),
        _ => (
            "satellite",
            "none:18:mpu64",
            luck.log(5_000.0, 50_000.0),
            luck.log(4.0, 10.0),
            luck.within(550.0, 620.0),
            "tun",
        ),
    };
    // Requests and grants of a shared medium take some ms more or less.
    let jitter_ms = match name {
        "cable" | "radio" | "satellite" => luck.log(0.3, 3.0),
        _ if luck.happens(0.2) => luck.log(0.1, 1.0),
        _ => 0.0,
    };
    Access {
        name,
        framing,
        down,
        // Less is no line any more.
        up: (down / ratio).max(200.0),
        rtt_ms,
        jitter_ms,
        device,
        radio: name == "radio",
    }
}

/// From 5 ms to 2 s of the line, or so many packets, as modems have it.
fn buffer(luck: &mut Luck) -> String {
    if luck.happens(0.3) {
        format!("{:.0}packets", luck.log(8.0, 1000.0))
    } else {
        format!("{:.0}ms", luck.log(5.0, 2000.0))
    }
}

/// Rates walk within a factor of ten below what is sold, the delay by up to 40 ms.
fn walk(luck: &mut Luck, access: &Access, seed: u64) -> Swing {
    let range = |rate: f64, luck: &mut Luck| {
        let low = rate / luck.log(2.0, 10.0);
        [self::rate(low.max(150.0)), self::rate(rate.max(200.0))]
    };
    Swing {
        kind: "walk",
        seed,
        every_ms: luck.log(100.0, 2000.0).round(),
        factor: Some(luck.within(1.1, 2.0)),
        down: range(access.down, luck),
        up: range(access.up, luck),
        rtt_ms: [0.0, luck.log(1.0, 40.0).round()],
    }
}

/// One to three steps to between a tenth and all of what is sold, and back at the end of some.
fn steps_of(luck: &mut Luck, sold: f64) -> Vec<(f64, String)> {
    let mut steps = vec![(0.0, rate(sold))];
    let mut at = 0.0;
    for _ in 0..luck.one_of(&[1, 2, 3]) {
        at += luck.within(8.0, 18.0);
        if at > LENGTH {
            break;
        }
        let to = if luck.happens(0.3) {
            sold
        } else {
            sold * luck.log(0.1, 1.0)
        };
        steps.push((tenth(at), rate(to.max(150.0))));
    }
    steps
}

/// When something begins, s: at once, or within the first half.
fn start(luck: &mut Luck) -> f64 {
    if luck.happens(0.5) {
        0.0
    } else {
        tenth(luck.within(0.0, LENGTH / 2.0))
    }
}

/// At least one bulk transfer.
fn transfers(luck: &mut Luck) -> Vec<Flow> {
    let (down, up) = luck.one_of(&[
        (1, 0),
        (0, 1),
        (1, 1),
        (4, 0),
        (0, 4),
        (4, 4),
        (2, 1),
        (8, 2),
    ]);
    let mut flows = Vec::new();
    for (direction, count) in [("down", down), ("up", up)] {
        if count > 0 {
            flows.push(Flow {
                kind: "bulk",
                direction,
                client: 1,
                server: luck.one_of(&["near", "one", "other"]),
                count,
                start_s: start(luck),
                congestion: Some(luck.one_of(&["cubic", "cubic", "cubic", "bbr", "reno"])),
                ..Flow::default()
            });
        }
    }
    flows
}

/// What people do: transfers, and beside them what a household does.
fn people(luck: &mut Luck, access: &Access) -> Vec<Flow> {
    let mut flows = transfers(luck);
    if luck.happens(0.4) {
        flows.push(Flow {
            kind: "web",
            direction: "down",
            client: 2,
            server: luck.one_of(&["one", "other"]),
            count: 1,
            per_second: Some(tenth(luck.log(0.5, 4.0))),
            // No page is more than a few seconds of the line.
            size_kbyte: Some([2.0, (access.down / 8.0 * 3.0).clamp(20.0, 2000.0).round()]),
            ..Flow::default()
        });
    }
    if luck.happens(0.3) {
        flows.push(Flow {
            kind: "bulk",
            direction: "down",
            client: 2,
            server: luck.one_of(&["near", "one"]),
            count: 1,
            start_s: start(luck),
            on_s: Some(2.0),
            off_s: Some(luck.within(2.0, 8.0).round()),
            ..Flow::default()
        });
    }
    if luck.happens(0.2) {
        flows.push(Flow {
            kind: "quic",
            direction: "down",
            client: 2,
            server: luck.one_of(&["near", "one"]),
            count: 1,
            start_s: start(luck),
            ..Flow::default()
        });
    }
    // A call takes some 80 kbit/s each way, a game less.
    let (interval_ms, packet_bytes) = if luck.happens(0.7) {
        (20.0, 200)
    } else {
        (33.0, 100)
    };
    if access.up > 400.0 {
        flows.extend(["up", "down"].map(|direction| Flow {
            kind: "call",
            direction,
            client: 2,
            server: "near",
            count: 1,
            interval_ms: Some(interval_ms),
            packet_bytes: Some(packet_bytes),
            ..Flow::default()
        }));
    }
    flows
}

/// The home in a line.
fn about(access: &Access, line: &Line, flows: &[Flow]) -> String {
    let mbit = |kbit: f64| match kbit / 1000.0 {
        m if m < 10.0 => format!("{m:.2}"),
        m => format!("{m:.0}"),
    };
    let mut text = format!(
        "{} {}/{} Mbit/s {}, {:.0} ms, buffers {}/{}",
        access.name,
        mbit(access.down),
        mbit(access.up),
        line.framing,
        line.rtt_ms,
        line.down_buffer,
        line.up_buffer
    );
    let facts = [
        (line.swing.is_some(), "walks"),
        (!line.down_steps.is_empty(), "steps"),
        (line.filters_icmp, "no ICMP"),
        (line.silent, "silent hop"),
        (line.double_nat, "double NAT"),
        (line.loss > 0.0, "loses"),
        (line.jitter_ms > 0.0, "jitter"),
    ];
    for (_, word) in facts.iter().filter(|f| f.0) {
        let _ = write!(text, ", {word}");
    }
    text += ":";
    for flow in flows {
        let way = if flow.direction == "up" { "up" } else { "down" };
        let _ = match (flow.kind, flow.on_s) {
            ("bulk", None) => write!(
                text,
                " {}x{} {way}",
                flow.count,
                flow.congestion.unwrap_or("cubic")
            ),
            ("bulk", Some(_)) => write!(text, " video"),
            ("call", _) if flow.direction == "up" => Ok(()),
            (kind, _) => write!(text, " {kind}"),
        };
    }
    text
}

fn rate(kbit: f64) -> String {
    format!("{:.0}kbit", kbit.max(1.0))
}

fn tenth(v: f64) -> f64 {
    (v * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use evenkeel_lab::Experiment;

    use super::*;

    #[test]
    fn every_home_is_an_experiment_and_the_same_for_the_same_seed() {
        let mut kinds = BTreeSet::new();
        for seed in 0..500 {
            let home = draw(seed);
            assert_eq!(home.text, draw(seed).text);
            let file = Experiment::parse(&home.text, Path::new("home.toml"))
                .unwrap_or_else(|e| panic!("{seed}: {e}\n{}", home.text));
            assert!(file.load_spec(LOAD).is_some_and(|l| !l.flows.is_empty()));
            assert_eq!(file.conditions, CONDITIONS);
            let line = file.line_facts();
            assert!((150..=300_000).contains(&line.down.kbit()), "{seed}");
            assert!(line.up <= line.down && line.up.kbit() >= 150, "{seed}");
            kinds.insert(home.about.split(' ').next().unwrap_or_default().to_owned());
        }
        assert_eq!(kinds.len(), 7, "{kinds:?}");
    }

    #[test]
    fn homes_differ() {
        let texts: BTreeSet<String> = (0..100).map(|s| draw(s).text).collect();
        assert_eq!(texts.len(), 100);
    }
}
