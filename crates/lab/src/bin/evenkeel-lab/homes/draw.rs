//! Homes drawn from the ranges that homes have: a line, hosts behind it, and what people do there.
//!
//! Principles: the same seed is the same home for ever, so every kind of thing is drawn from a sequence
//! of its own and a new kind changes no old one; ranges are those of access networks, not of
//! `experiments/`; a home is an experiment's file, so that any of them can be run and looked at alone.
//! Non-goals: what comes of it (`judge`).

use std::fmt::Write as _;

use evenkeel_core::Direction;
use evenkeel_terminal::Failure;

mod file;
mod more;
mod random;

use file::{
    Duration, File, Flow, Hop, LENGTH, Line, Load, Probe, Radio, Server, Swing, rate, tenth,
};
use more::Beside;
use random::Random;

/// The only load of a home.
pub(super) const LOAD: &str = "home";
/// What each home is run under: all others are judged beside the second. Pictures show the first three.
pub(super) const CONDITIONS: [&str; 5] = [
    "none",
    "evenkeel-oracle",
    "evenkeel-auto",
    "evenkeel-auto-again",
    "cake-95",
];

/// A home.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    pub seed: u64,
    /// What it is, in a line.
    pub about: String,
    /// The experiment's file.
    pub text: String,
    /// What is not plain about it.
    pub kinds: Vec<&'static str>,
}

/// The sequences of random numbers, by what is drawn from them.
mod stream {
    pub(super) const ACCESS: u64 = 1;
    pub(super) const BUFFERS: u64 = 2;
    pub(super) const CHANGES: u64 = 3;
    pub(super) const PROVIDER: u64 = 4;
    pub(super) const SERVERS: u64 = 5;
    pub(super) const PEOPLE: u64 = 6;
    pub(super) const BUCKETS: u64 = 7;
    pub(super) const MANAGED: u64 = 8;
    pub(super) const BESIDE: u64 = 9;
    pub(super) const HOP: u64 = 10;
    pub(super) const RADIO: u64 = 11;
    pub(super) const FAR_ENDS: u64 = 12;
}

/// A kind of access, and the ranges that its lines are in.
struct Technology {
    name: &'static str,
    /// Of all homes.
    share: f64,
    /// Framings in use, as `--framing` names them.
    framings: &'static [&'static str],
    /// Rate towards the home, kbit/s.
    down: (f64, f64),
    /// By how much the other direction is slower.
    ratio: (f64, f64),
    /// Round trip to the first hop beyond, ms.
    rtt_ms: (f64, f64),
    /// What the gateway sends through: `tap` carries Ethernet frames, `tun` packets.
    device: &'static str,
    /// Requests and grants of a shared medium take some ms more or less.
    shared: bool,
}

const ADSL: &[&str] = &["pppoa-vcmux", "pppoa-llc", "pppoe-vcmux", "pppoe-llcsnap"];
const VDSL: &[&str] = &["bridged-ptm", "pppoe-ptm", "ptm:26", "ptm:34"];
/// Ethernet, with a tag, and with PPPoE.
const FIBRE: &[&str] = &["none:38:mpu84", "none:42:mpu84", "none:46:mpu84"];
const SDSL: &[&str] = &["ipoa-llcsnap", "bridged-llcsnap"];
/// As DOCSIS counts.
const DOCSIS: &[&str] = &["none:18:mpu64"];

/// Rates from the slowest that is still sold to what the emulated line carries (300 Mbit/s).
#[rustfmt::skip]
const TECHNOLOGIES: [Technology; 7] = [
    Technology { name: "ADSL", share: 0.25, framings: ADSL, down: (500.0, 24_000.0), ratio: (4.0, 20.0), rtt_ms: (10.0, 40.0), device: "tun", shared: false },
    Technology { name: "VDSL", share: 0.20, framings: VDSL, down: (8_000.0, 250_000.0), ratio: (2.0, 8.0), rtt_ms: (5.0, 25.0), device: "tun", shared: false },
    Technology { name: "cable", share: 0.20, framings: DOCSIS, down: (10_000.0, 300_000.0), ratio: (5.0, 20.0), rtt_ms: (6.0, 25.0), device: "tap", shared: true },
    Technology { name: "fibre", share: 0.15, framings: FIBRE, down: (20_000.0, 300_000.0), ratio: (1.0, 10.0), rtt_ms: (5.0, 12.0), device: "tap", shared: false },
    Technology { name: RADIO, share: 0.10, framings: &["none:0"], down: (3_000.0, 150_000.0), ratio: (2.0, 10.0), rtt_ms: (25.0, 80.0), device: "tun", shared: true },
    Technology { name: "SDSL", share: 0.05, framings: SDSL, down: (500.0, 10_000.0), ratio: (1.0, 1.0), rtt_ms: (8.0, 40.0), device: "tun", shared: false },
    Technology { name: "satellite", share: 0.05, framings: DOCSIS, down: (5_000.0, 50_000.0), ratio: (4.0, 10.0), rtt_ms: (550.0, 620.0), device: "tun", shared: true },
];
/// The one whose rates walk all the time.
const RADIO: &str = "radio";
/// The slowest line that is drawn, kbit/s.
const SLOWEST: f64 = 200.0;

/// What brings the line.
struct Access {
    technology: &'static Technology,
    framing: &'static str,
    /// kbit/s.
    down: f64,
    up: f64,
    rtt_ms: f64,
    jitter_ms: f64,
}

/// Draws a home.
pub(crate) fn draw(seed: u64) -> Result<Home, Failure> {
    let random = |stream| Random::new(seed, stream);
    let access = access(&mut random(stream::ACCESS));
    let mut line = line(seed, &access);
    let mut flows = people(&mut random(stream::PEOPLE), &access);
    line.police(&mut random(stream::BUCKETS), [access.down, access.up]);
    line.manage(&mut random(stream::MANAGED));
    let beside = Beside::draw(&mut random(stream::BESIDE));
    line.box_in_front = beside.in_front;
    line.hop = Hop::draw(&mut random(stream::HOP));
    let radio = Radio::draw(&mut random(stream::RADIO), access.down);
    let mut servers = servers(&mut random(stream::SERVERS), &access);
    more::far_ends(&mut random(stream::FAR_ENDS), &mut servers);
    let kinds = kinds(&line, &servers, !beside.flows.is_empty(), radio.is_some());
    flows.extend(radio.as_ref().and_then(Radio::flow));
    let about = about(&access, &line, &kinds, &flows, &beside.flows);
    let hosts = usize::from(!beside.flows.is_empty());
    flows.extend(beside.flows);
    let file = File {
        name: format!("home-{seed}"),
        about: about.clone(),
        clients: 2,
        beside: hosts,
        conditions: CONDITIONS.to_vec(),
        line,
        servers,
        radio: radio.into_iter().collect(),
        duration: Duration {
            full: LENGTH,
            quick: LENGTH,
            idle: 3.0,
        },
        probe: Probe { interval_ms: 20.0 },
        loads: vec![Load { name: LOAD, flows }],
    };
    Ok(Home {
        seed,
        about,
        text: toml::to_string(&file).map_err(Failure::work)?,
        kinds,
    })
}

/// The line as the experiment's file has it.
fn line(seed: u64, access: &Access) -> Line {
    let buffers = &mut Random::new(seed, stream::BUFFERS);
    let down_buffer = buffer(buffers);
    let up_buffer = buffer(buffers);
    let changes = &mut Random::new(seed, stream::CHANGES);
    let swing = (access.technology.name == RADIO).then(|| walk(changes, access, seed));
    let steps = swing.is_none() && changes.chance(0.3);
    let mut stepped = |rate: f64| {
        if steps {
            steps_of(changes, rate)
        } else {
            Vec::new()
        }
    };
    let (down_steps, up_steps) = (stepped(access.down), stepped(access.up));
    let provider = &mut Random::new(seed, stream::PROVIDER);
    let hop = provider.unit();
    Line {
        device: access.technology.device,
        down: rate(access.down),
        up: rate(access.up),
        down_steps,
        up_steps,
        framing: access.framing.to_owned(),
        rtt_ms: tenth(access.rtt_ms),
        jitter_ms: tenth(access.jitter_ms),
        loss: if provider.chance(0.7) {
            0.0
        } else {
            provider.log_uniform(0.0001, 0.005)
        },
        filters_icmp: hop < 0.1,
        silent: (0.1..0.2).contains(&hop),
        double_nat: provider.chance(0.25),
        box_in_front: false,
        down_managed: false,
        up_managed: false,
        down_buffer,
        up_buffer,
        down_bucket: None,
        up_bucket: None,
        hop: None,
        swing,
    }
}

/// One near the line and two anywhere.
fn servers(random: &mut Random, access: &Access) -> Vec<Server> {
    let near = random.uniform(0.5, 5.0);
    let mut anywhere = || random.log_uniform(1.0, 150.0);
    let server = |name, beyond: f64| Server {
        name,
        rtt_ms: tenth(access.rtt_ms + beyond),
        time_stamps: true,
        sack: true,
    };
    vec![
        server("near", near),
        server("one", anywhere()),
        server("other", anywhere()),
    ]
}

/// What is sold: the technology, its framing and its rates.
fn access(random: &mut Random) -> Access {
    let mut left = random.unit();
    let technology = TECHNOLOGIES.iter().find(|t| {
        left -= t.share;
        left < 0.0
    });
    let technology = technology.unwrap_or(&TECHNOLOGIES[TECHNOLOGIES.len() - 1]);
    let framing = random.choose(technology.framings);
    let down = random.log_uniform(technology.down.0, technology.down.1);
    let ratio = random.log_uniform(technology.ratio.0, technology.ratio.1);
    let rtt_ms = random.uniform(technology.rtt_ms.0, technology.rtt_ms.1);
    let jitter_ms = if technology.shared {
        random.log_uniform(0.3, 3.0)
    } else if random.chance(0.2) {
        random.log_uniform(0.1, 1.0)
    } else {
        0.0
    };
    Access {
        technology,
        framing,
        down,
        up: (down / ratio).max(SLOWEST),
        rtt_ms,
        jitter_ms,
    }
}

/// From 5 ms to 2 s of the line, or so many packets, as modems have it.
fn buffer(random: &mut Random) -> String {
    if random.chance(0.3) {
        format!("{:.0}packets", random.log_uniform(8.0, 1000.0))
    } else {
        format!("{:.0}ms", random.log_uniform(5.0, 2000.0))
    }
}

/// Rates walk within a factor of ten below what is sold, the delay by up to 40 ms.
fn walk(random: &mut Random, access: &Access, seed: u64) -> Swing {
    let range = |rate: f64, random: &mut Random| {
        let low = rate / random.log_uniform(2.0, 10.0);
        [self::rate(low.max(150.0)), self::rate(rate.max(200.0))]
    };
    Swing {
        kind: "walk",
        seed,
        every_ms: random.log_uniform(100.0, 2000.0).round(),
        factor: Some(random.uniform(1.1, 2.0)),
        down: range(access.down, random),
        up: range(access.up, random),
        rtt_ms: [0.0, random.log_uniform(1.0, 40.0).round()],
    }
}

/// One to three steps to between a tenth and all of what is sold, and back at the end of some.
fn steps_of(random: &mut Random, sold: f64) -> Vec<(f64, String)> {
    let mut steps = vec![(0.0, rate(sold))];
    let mut at = 0.0;
    for _ in 0..random.choose(&[1, 2, 3]) {
        at += random.uniform(8.0, 18.0);
        if at > LENGTH {
            break;
        }
        let to = if random.chance(0.3) {
            sold
        } else {
            sold * random.log_uniform(0.1, 1.0)
        };
        steps.push((tenth(at), rate(to.max(150.0))));
    }
    steps
}

/// When something begins, s: at once, or within the first half.
fn start(random: &mut Random) -> f64 {
    if random.chance(0.5) {
        0.0
    } else {
        tenth(random.uniform(0.0, LENGTH / 2.0))
    }
}

/// At least one bulk transfer.
fn transfers(random: &mut Random) -> Vec<Flow> {
    let (down, up) = random.choose(&[
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
    for (direction, count) in [(Direction::Down, down), (Direction::Up, up)] {
        if count > 0 {
            let server = random.choose(&["near", "one", "other"]);
            flows.push(Flow {
                count,
                start_s: start(random),
                congestion: Some(random.choose(&["cubic", "cubic", "cubic", "bbr", "reno"])),
                ..Flow::new("bulk", direction, 1, server)
            });
        }
    }
    flows
}

/// What people do: transfers, and beside them what a household does.
fn people(random: &mut Random, access: &Access) -> Vec<Flow> {
    let mut flows = transfers(random);
    if random.chance(0.4) {
        let server = random.choose(&["one", "other"]);
        flows.push(Flow {
            per_second: Some(tenth(random.log_uniform(0.5, 4.0))),
            // No page is more than a few seconds of the line.
            size_kbyte: Some([2.0, (access.down / 8.0 * 3.0).clamp(20.0, 2000.0).round()]),
            ..Flow::new("web", Direction::Down, 2, server)
        });
    }
    if random.chance(0.3) {
        let server = random.choose(&["near", "one"]);
        flows.push(Flow {
            start_s: start(random),
            on_s: Some(2.0),
            off_s: Some(random.uniform(2.0, 8.0).round()),
            ..Flow::new("bulk", Direction::Down, 2, server)
        });
    }
    if random.chance(0.2) {
        let server = random.choose(&["near", "one"]);
        flows.push(Flow {
            start_s: start(random),
            ..Flow::new("quic", Direction::Down, 2, server)
        });
    }
    // A call takes some 80 kbit/s each way, a game less.
    let (interval_ms, packet_bytes) = if random.chance(0.7) {
        (20.0, 200)
    } else {
        (33.0, 100)
    };
    if access.up > 400.0 {
        flows.extend(Direction::BOTH.map(|direction| Flow {
            interval_ms: Some(interval_ms),
            packet_bytes: Some(packet_bytes),
            ..Flow::new("call", direction, 2, "near")
        }));
    }
    flows
}

/// What is not plain about a home.
fn kinds(line: &Line, servers: &[Server], beside: bool, radio: bool) -> Vec<&'static str> {
    let bucket = |kind| {
        let mut all = [&line.down_bucket, &line.up_bucket].into_iter().flatten();
        all.any(|b| b.kind == kind)
    };
    let facts = [
        (line.swing.is_some(), "walks"),
        (!line.down_steps.is_empty(), "steps"),
        (bucket(more::POLICER), "policer"),
        (bucket(more::SHAPER), "boost"),
        (line.down_managed || line.up_managed, "managed"),
        (line.filters_icmp, "no ICMP"),
        (line.silent, "silent hop"),
        (line.double_nat, "double NAT"),
        (line.box_in_front, "box in front"),
        (beside, "neighbour"),
        (radio, "Wi-Fi"),
        (line.loss > 0.0, "loses"),
        (line.jitter_ms > 0.0, "jitter"),
        (servers.iter().any(|s| !s.time_stamps), "no TCP stamps"),
        (servers.iter().any(|s| !s.sack), "no SACK"),
    ];
    let of_hop = line.hop.iter().flat_map(Hop::kinds);
    let facts = facts.into_iter().filter(|f| f.0).map(|f| f.1);
    facts.chain(of_hop).collect()
}

/// The home in a line.
fn about(
    access: &Access,
    line: &Line,
    kinds: &[&'static str],
    flows: &[Flow],
    beside: &[Flow],
) -> String {
    let mbit = |kbit: f64| match kbit / 1000.0 {
        m if m < 10.0 => format!("{m:.2}"),
        m => format!("{m:.0}"),
    };
    let mut text = format!(
        "{} {}/{} Mbit/s {}, {:.0} ms, buffers {}/{}",
        access.technology.name,
        mbit(access.down),
        mbit(access.up),
        line.framing,
        line.rtt_ms,
        line.down_buffer,
        line.up_buffer
    );
    for kind in kinds {
        let _ = write!(text, ", {kind}");
    }
    text += ":";
    for flow in flows.iter().chain(beside) {
        let direction = match flow.direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        let bulk = |text: &mut String| {
            let congestion = flow.congestion.unwrap_or("cubic");
            let whose = if flow.beside { " beside" } else { "" };
            write!(text, " {}x{congestion} {direction}{whose}", flow.count)
        };
        let _ = match (flow.kind, flow.on_s, flow.beside) {
            ("bulk", None, _) | (_, _, true) => bulk(&mut text),
            ("bulk", Some(_), _) => write!(text, " video"),
            ("call", _, _) if flow.direction == Direction::Up => Ok(()),
            (kind, _, _) => write!(text, " {kind}"),
        };
    }
    text
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
            let home = draw(seed).unwrap();
            assert_eq!(home.text, draw(seed).unwrap().text);
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
    fn every_kind_is_drawn_and_no_home_has_all() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..1000 {
            let kinds = draw(seed).unwrap().kinds;
            assert!(kinds.len() < 13, "{seed}: {kinds:?}");
            for kind in kinds {
                *counts.entry(kind).or_insert(0) += 1;
            }
        }
        assert_eq!(counts.len(), 23, "{counts:?}");
        assert!(counts.values().all(|n| (5..600).contains(n)), "{counts:?}");
    }

    #[test]
    fn homes_differ() {
        let texts: BTreeSet<String> = (0..100).map(|s| draw(s).unwrap().text).collect();
        assert_eq!(texts.len(), 100);
    }
}
