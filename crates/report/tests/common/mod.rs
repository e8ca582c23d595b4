//! Result files made up for the tests: the shapes of a real one, the same on every machine.

use evenkeel_core::result::{Instrument, LineFacts, ResultFile, Run, Series, VERSION, factors};
use evenkeel_core::stats::Summary;
use evenkeel_core::units::Rate;

/// Numbers that look random, in 0..1 (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What a probe waits `t` seconds after the load's start.
fn queue_ms(load: &str, shaped: bool, t: f64, noise: f64) -> f64 {
    match (load, shaped) {
        ("idle", _) => 0.3 * noise,
        (_, true) if t < 0.4 && load != "up1" => 18.0 * t / 0.4 * noise,
        (_, true) => 0.9 + 1.4 * noise.powi(6),
        ("down1", false) => {
            let phase = (t / 3.7).fract();
            let cubic = 28.0 + 60.0 * (phase - 0.6).powi(3);
            cubic.clamp(12.0, 38.0) * (t / 0.5).min(1.0) + 2.0 * noise
        }
        ("up1", false) => 93.0 * (t / 0.8).min(1.0) + 4.0 * noise,
        (_, false) => 50.0 + 30.0 * (t * 1.9).sin() + 10.0 * noise,
    }
}

/// A run with a probe every `1 / per_second` s for `seconds`; about one in `lose` probes is lost.
pub(crate) fn run(
    load: &str,
    condition: &str,
    repeat: u32,
    seconds: f64,
    per_second: f64,
    lose: Option<u64>,
) -> Run {
    let seed = 100 + u64::from(repeat);
    let mut dice = Dice(seed * 7 + load.len() as u64 * 31 + condition.len() as u64);
    let base = 9.2;
    let shaped = condition != "none";
    let mut udp = Vec::new();
    for i in 0..(seconds * per_second) as u64 {
        let t = i as f64 / per_second;
        let noise = dice.roll();
        let queue = queue_ms(load, shaped, t, noise);
        let lost = lose.is_some_and(|n| (dice.roll() * n as f64) as u64 == 0);
        udp.push((t, (!lost).then_some(base + queue)));
    }
    let answered: Vec<f64> = udp.iter().filter_map(|p| p.1).collect();
    let worst = answered.iter().copied().fold(base, f64::max);
    let ping: Vec<f64> = udp.iter().map(|p| p.1.unwrap_or(worst)).collect();
    let increase: Vec<f64> = ping.iter().map(|v| v - base).collect();
    let carried = |full: f64, dice: &mut Dice| -> Vec<(f64, f64)> {
        (1..=(seconds * 5.0) as u64)
            .map(|i| {
                let t = i as f64 / 5.0;
                let ramp = (t / 0.6).min(1.0);
                (t, full * ramp * (0.98 + 0.02 * dice.roll()))
            })
            .collect()
    };
    let share = if shaped { 0.97 } else { 1.0 };
    let down = if matches!(load, "idle" | "up1") {
        0.0
    } else {
        103_200.0 * share
    };
    let up = if matches!(load, "idle" | "down1") {
        0.0
    } else {
        37_900.0 * share
    };
    Run {
        condition: condition.into(),
        load: load.into(),
        repeat,
        seed,
        base_ms: base,
        ping_ms: Summary::of(&ping).unwrap_or_default(),
        increase_ms: Summary::of(&increase).unwrap_or_default(),
        down_kbit: down,
        up_kbit: up,
        lost: udp.iter().filter(|p| p.1.is_none()).count() as u64,
        instrument: Instrument {
            lag_p99_ms: 0.04,
            lag_max_ms: 0.4 + 0.1 * f64::from(repeat),
            cpu_busy: 0.61,
            cpu_steal: 0.002,
            void: String::new(),
        },
        series: Series {
            udp,
            icmp: Vec::new(),
            down_kbit: carried(down, &mut dice),
            up_kbit: carried(up, &mut dice),
        },
        ..Run::default()
    }
}

/// A file around `runs`.
pub(crate) fn file(runs: Vec<Run>) -> ResultFile {
    ResultFile {
        version: VERSION,
        experiment: "vdsl100".into(),
        about: "The VDSL-100 line of a published measurement, with and without shaping.".into(),
        engine: "native".into(),
        command: "evenkeel lab run experiments/vdsl100.toml --out results".into(),
        kernel: "6.18.0".into(),
        date: "2025-01-31".into(),
        conditions: Vec::new(),
        published: Vec::new(),
        line: LineFacts {
            down: Rate::from_kbit(109_341),
            up: Rate::from_kbit(40_143),
            framing: "ptm:30".parse().unwrap(),
            rtt_ms: 9.2,
            down_buffer_ms: 40.0,
            up_buffer_ms: 150.0,
            varies: false,
            best: None,
        },
        factors: factors(&runs),
        runs,
    }
}

/// Four loads, two conditions, three repeats, one void run, some lost probes.
pub(crate) fn full() -> ResultFile {
    let mut runs = Vec::new();
    for repeat in 0..3 {
        for load in ["idle", "down1", "up1", "rrul"] {
            for condition in ["none", "evenkeel"] {
                let lose = (load == "rrul" && condition == "none").then_some(60);
                runs.push(run(load, condition, repeat, 10.0, 50.0, lose));
            }
        }
    }
    runs[5].instrument.void = "99 % of the packets were up to 3.1 ms late (limit 0.5 ms)".into();
    file(runs)
}
