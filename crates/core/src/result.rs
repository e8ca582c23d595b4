//! The form of `result.json`: what a lab or a bench run measured.
//!
//! Principles: names carry their unit; figures of latency come from an unmarked UDP probe to a
//! port that no rule names, ICMP stands beside it; a lost probe counts as the worst value; the
//! raw series are kept, so that every figure can be recomputed. Stable: fields are added, never
//! renamed, and `version` changes only if an old reader would misread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::framing::Framing;
use crate::stats::Summary;
use crate::units::Rate;

/// The version this code writes.
pub const VERSION: u32 = 1;

/// A whole result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    /// [`VERSION`].
    pub version: u32,
    /// The experiment's name (`vdsl100`).
    pub experiment: String,
    /// One sentence on what is measured and why, from the experiment's file.
    #[serde(default)]
    pub about: String,
    /// `native`, `uml` or `virtual`.
    pub engine: String,
    /// The command that makes this file again.
    #[serde(default)]
    pub command: String,
    /// Release of the kernel that carried the packets.
    #[serde(default)]
    pub kernel: String,
    /// The day on which it was measured (`2026-01-31`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// The line that was emulated.
    pub line: LineFacts,
    /// What each condition is, in the order of running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionFacts>,
    /// What others published about this line, from the experiment's file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// Every run, in the order in which they were made.
    pub runs: Vec<Run>,
    /// Medians over the repeats: how many times smaller the increase is than under `none`.
    pub factors: Vec<Factor>,
}

/// What the emulated line was set to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineFacts {
    /// Link-layer rate towards the customer.
    pub down: Rate,
    /// Link-layer rate from the customer.
    pub up: Rate,
    /// How packets are framed on the line.
    pub framing: Framing,
    /// Round trip of the empty line to the nearest server, ms, before serialisation.
    pub rtt_ms: f64,
    /// Buffer in front of the line towards the customer, ms at full rate.
    pub down_buffer_ms: f64,
    /// Buffer in front of the line from the customer, ms at full rate.
    pub up_buffer_ms: f64,
    /// The rates change by themselves; `down` and `up` are then what the line is sold as.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub varies: bool,
    /// Of a line that varies, the highest rates that it reaches: towards the customer, from him.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<[Rate; 2]>,
}

/// What a condition is, and what it was told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConditionFacts {
    /// `none`, `evenkeel`, ...
    pub name: String,
    /// What it is, in a phrase.
    #[serde(default)]
    pub about: String,
    /// What a person had to find out and type, in words; empty: nothing.
    #[serde(default)]
    pub told: String,
    /// How it limits what is sent to the customer. Absent if it does not, or finds it out itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Charge>,
    /// How it limits what the customer sends, the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Charge>,
}

/// How one direction is limited: a rate, and what a packet counts against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// What is sent at most.
    pub rate: Rate,
    /// How long a packet counts, relative to the IP packet. Not the line's if it was not told so.
    pub framing: Framing,
}

impl Charge {
    /// The share of a line (its rate and true framing) that IP packets of `ip_len` bytes take if
    /// they come at this limit. Above 1 they queue in front of the line, where nobody orders them.
    pub fn fill(&self, line: Charge, ip_len: u32) -> f64 {
        let taken = |c: &Charge| f64::from(c.framing.wire_len(ip_len).max(1));
        let rate = |c: &Charge| c.rate.bps().max(1) as f64;
        rate(self) / rate(&line) * (taken(&line) / taken(self))
    }
}

/// A figure that others published, to stand beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The load of ours that is most like theirs.
    pub load: String,
    /// The condition of ours that it is compared with.
    pub condition: String,
    /// Whose shaper it was (`cFosSpeed`); empty: none was there.
    #[serde(default)]
    pub shaper: String,
    /// Which figure.
    pub figure: Figure,
    /// What they found, in the figure's unit.
    pub value: f64,
    /// The other end, if they gave a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// A word before the value: `about`, `under`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub qualifier: String,
    /// Where it stands, in a phrase.
    pub source: String,
}

/// A figure of a run that can be compared with a published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Figure {
    /// Least ping, ms.
    #[serde(rename = "ping min")]
    PingMin,
    /// Average ping, ms.
    #[serde(rename = "ping avg")]
    PingAvg,
    /// Median ping, ms.
    #[serde(rename = "ping median")]
    PingMedian,
    /// Worst ping, ms.
    #[serde(rename = "ping max")]
    PingMax,
    /// Standard deviation of the ping, ms.
    #[serde(rename = "ping stddev")]
    PingStddev,
    /// How many times smaller the average ping is than under `none`.
    #[serde(rename = "ping factor")]
    PingFactor,
    /// Average increase, ms.
    #[serde(rename = "increase avg")]
    IncreaseAvg,
    /// Median increase, ms.
    #[serde(rename = "increase median")]
    IncreaseMedian,
    /// 90th percentile of the increase, ms.
    #[serde(rename = "increase p90")]
    IncreaseP90,
    /// How many times smaller the average increase is than under `none`.
    #[serde(rename = "increase factor")]
    IncreaseFactor,
    /// Goodput to the customer, Mbit/s.
    #[serde(rename = "goodput down")]
    GoodputDown,
    /// Goodput from the customer, Mbit/s.
    #[serde(rename = "goodput up")]
    GoodputUp,
    /// Goodput to the customer that is missing against `none`, %.
    #[serde(rename = "given up down")]
    GivenUpDown,
    /// Goodput from the customer that is missing against `none`, %.
    #[serde(rename = "given up up")]
    GivenUpUp,
    /// Until the ping is where it stays, s.
    #[serde(rename = "settle")]
    Settle,
}

/// One condition under one load, once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// `none`, `evenkeel`, ...
    pub condition: String,
    /// `idle`, `down1`, `up1`, `rrul`, ...
    pub load: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Seed of everything random in this run.
    pub seed: u64,
    /// Round trip of the UDP probe on the idle line in the same condition, average, ms.
    pub base_ms: f64,
    /// Round trip of the UDP probe under load, ms. Lost probes count as the worst value.
    pub ping_ms: Summary,
    /// `ping_ms` less `base_ms`, per probe.
    pub increase_ms: Summary,
    /// The same for ICMP echo, which shapers prefer. Absent if it was not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp_ms: Option<Summary>,
    /// Goodput to the customer, kbit/s: TCP, and QUIC-like UDP where the load has it.
    pub down_kbit: f64,
    /// Goodput from the customer, the same.
    pub up_kbit: f64,
    /// Goodput of hosts beside the gateway, kbit/s (to them, from them), which the condition does not shape and which is
    /// not in `down_kbit` and `up_kbit`. Absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_kbit: Option<[f64; 2]>,
    /// Probes of the judged kind that were lost.
    pub lost: u64,
    /// Packets that the condition dropped: its queueing disciplines and policers.
    pub dropped_by_us: u64,
    /// Empty acknowledgements among those that its policer dropped. Absent if it has none or does
    /// not tell them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acks_dropped_by_us: Option<u64>,
    /// TCP segments sent again by the load's senders.
    pub retransmits: u64,
    /// From the start of the load until the increase stays within 5 ms of its final median for
    /// a second, s. Absent for idle runs and if it never settles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_s: Option<f64>,
    /// Goodput of each flow, kbit/s: `down/client1/server1/0` and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flows_kbit: BTreeMap<String, f64>,
    /// Calls (paced UDP) of the load, named like flows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, Call>,
    /// Short connections of the load, named like flows; their payload counts as goodput too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pages: BTreeMap<String, Pages>,
    /// How trustworthy this run is: set by the emulator, void runs are not published.
    pub instrument: Instrument,
    /// What was measured, over time.
    pub series: Series,
}

/// What a call met: one way, from its sender to its receiver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Packets sent.
    pub sent: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Delay of those that came, ms. Absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<Summary>,
    /// Mean difference between the delays of neighbours that both came, ms.
    pub jitter_ms: f64,
}

/// How long short connections took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pages {
    /// Connections begun.
    pub begun: u64,
    /// Those done before the load's end.
    pub finished: u64,
    /// Payload of those, bytes.
    pub bytes: u64,
    /// From `connect` to the last byte of those, ms. Absent if none was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<Summary>,
}

/// The state of the measuring instrument during a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Instrument {
    /// How late packets left the emulator against their schedule, p99, ms.
    pub lag_p99_ms: f64,
    /// The same, worst.
    pub lag_max_ms: f64,
    /// Share of the machine's CPU time that was busy, 0..1.
    pub cpu_busy: f64,
    /// Share of CPU time stolen by the hypervisor, 0..1.
    pub cpu_steal: f64,
    /// Why the run is void; empty if it counts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub void: String,
}

/// Samples over time. `t` is in s from the start of the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// UDP probe: when sent (s), round trip (ms); a lost probe has `null`.
    pub udp: Vec<(f64, Option<f64>)>,
    /// ICMP probe, the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icmp: Vec<(f64, Option<f64>)>,
    /// Goodput to the customer: end of the interval (s), kbit/s in it.
    pub down_kbit: Vec<(f64, f64)>,
    /// Goodput from the customer, the same.
    pub up_kbit: Vec<(f64, f64)>,
}

/// A comparison with the unshaped line, medians over the repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// The condition compared with `none`.
    pub condition: String,
    /// Under which load.
    pub load: String,
    /// Average increase under `none`, ms.
    pub increase_none_ms: f64,
    /// Average increase under `condition`, ms.
    pub increase_ms: f64,
    /// The first divided by the second.
    pub factor: f64,
    /// Download goodput kept, 0..1 of that under `none`; absent if the load has no download.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_kept: Option<f64>,
    /// Upload goodput kept, the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_kept: Option<f64>,
}

/// Increases below this count as this in a [`Factor`], ms: it is what the instrument resolves
/// (natively the emulator is right to 0.2 ms at the median), and it keeps a factor finite
/// and positive where shaping leaves nothing, or less than nothing, to be measured.
pub const INCREASE_FLOOR_MS: f64 = 0.2;

/// Whether `load` downloads and uploads: by name (`downN`, `upN`), else by what was carried.
fn directions(load: &str, down_kbit: f64, up_kbit: f64) -> (bool, bool) {
    let numbered = |prefix| {
        load.strip_prefix(prefix)
            .is_some_and(|n| n.bytes().all(|c| c.is_ascii_digit()))
    };
    match (numbered("down"), numbered("up")) {
        (false, false) => (down_kbit > 0.0, up_kbit > 0.0),
        by_name => by_name,
    }
}

/// Compares each condition with `none` under the same load: medians over the repeats, void runs
/// left out, in the order of first appearance. Idle runs have no factor, nor has a condition
/// without a counted run under `none`. The increases are given as measured; only for the
/// division are they raised to [`INCREASE_FLOOR_MS`].
pub fn factors(runs: &[Run]) -> Vec<Factor> {
    let of = |condition: &str, load: &str, figure: fn(&Run) -> f64| {
        let values: Vec<f64> = runs
            .iter()
            .filter(|r| r.instrument.void.is_empty() && r.condition == condition && r.load == load)
            .map(figure)
            .collect();
        crate::stats::median(&values)
    };
    let mut found: Vec<Factor> = Vec::new();
    for run in runs {
        let (condition, load) = (run.condition.as_str(), run.load.as_str());
        let known = |f: &Factor| f.condition == condition && f.load == load;
        if condition == "none" || load == "idle" || found.iter().any(known) {
            continue;
        }
        let pair = |figure: fn(&Run) -> f64| {
            Some((of("none", load, figure)?, of(condition, load, figure)?))
        };
        let (Some((without, with)), Some(down), Some(up)) = (
            pair(|r| r.increase_ms.avg),
            pair(|r| r.down_kbit),
            pair(|r| r.up_kbit),
        ) else {
            continue;
        };
        let (has_down, has_up) = directions(load, down.0, up.0);
        let kept =
            |has, (without, with): (f64, f64)| (has && without > 0.0).then(|| with / without);
        found.push(Factor {
            condition: condition.to_owned(),
            load: load.to_owned(),
            increase_none_ms: without,
            increase_ms: with,
            factor: without.max(INCREASE_FLOOR_MS) / with.max(INCREASE_FLOOR_MS),
            down_kept: kept(has_down, down),
            up_kept: kept(has_up, up),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(condition: &str, load: &str, increase: f64, down: f64, up: f64) -> Run {
        let summary = |v: f64| Summary::of(&[v]).unwrap();
        Run {
            condition: condition.into(),
            load: load.into(),
            base_ms: 9.2,
            ping_ms: summary(9.2 + increase),
            increase_ms: summary(increase),
            down_kbit: down,
            up_kbit: up,
            ..Run::default()
        }
    }

    #[test]
    fn medians_and_kept_shares() {
        let mut void = run("evenkeel", "up1", 500.0, 0.0, 1.0);
        void.instrument.void = "the emulator lagged".into();
        let runs = [
            run("none", "up1", 94.0, 0.0, 37_000.0),
            run("none", "up1", 96.0, 0.0, 38_000.0),
            run("none", "up1", 95.0, 0.0, 38_000.0),
            run("evenkeel", "up1", 1.0, 0.0, 37_240.0),
            void,
            run("none", "rrul", 40.0, 80_000.0, 35_000.0),
            run("evenkeel", "rrul", 2.0, 96_000.0, 28_000.0),
            run("none", "idle", 0.0, 0.0, 0.0),
            run("evenkeel", "idle", 0.0, 0.0, 0.0),
            run("evenkeel", "down1", 1.0, 98_000.0, 0.0),
        ];
        let found = factors(&runs);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].load.as_str(), found[0].factor), ("up1", 95.0));
        assert_eq!((found[0].down_kept, found[0].up_kept), (None, Some(0.98)));
        assert_eq!(
            (found[1].down_kept, found[1].up_kept),
            (Some(1.2), Some(0.8))
        );
    }

    /// The CeroWRT series: 95 % of the rates, which are those of cells, counted as Ethernet frames
    /// is more than the line takes; 99 % in cells is not.
    #[test]
    fn what_a_limit_fills() {
        let charge = |kbit, framing: &str| Charge {
            rate: Rate::from_kbit(kbit),
            framing: framing.parse().unwrap(),
        };
        let line = charge(1171, "atm:40");
        for (limit, len, percent) in [
            (charge(1112, "none:14"), 1500, 109.7),
            (charge(1112, "none:14"), 100, 132.4),
            (charge(1160, "atm:44"), 1500, 99.1),
            (charge(1171, "atm:40"), 100, 100.0),
        ] {
            let got = limit.fill(line, len) * 100.0;
            assert!((got - percent).abs() < 0.05, "{limit:?} {len}: {got}");
        }
        let nothing = charge(0, "none:-64");
        assert!(nothing.fill(nothing, 0).is_finite());
    }

    #[test]
    fn a_factor_is_finite_and_positive() {
        for (without, with, factor) in [
            (95.0, 0.0, 475.0),
            (95.0, -0.3, 475.0),
            (-1.0, 2.0, 0.1),
            (-1.0, -1.0, 1.0),
        ] {
            let runs = [
                run("none", "up1", without, 0.0, 1.0),
                run("evenkeel", "up1", with, 0.0, 1.0),
            ];
            let got = factors(&runs)[0].factor;
            assert!((got - factor).abs() < 1e-9, "{without} {with}: {got}");
        }
    }

    /// What a load moves is in its name, if it is one of ours; acknowledgements are no upload.
    #[test]
    fn loads_move_what_their_names_say() {
        for (load, carried, moves) in [
            ("down4", (90_000.0, 1800.0), (true, false)),
            ("up1", (900.0, 30_000.0), (false, true)),
            ("downs", (90_000.0, 1800.0), (true, true)),
            ("video", (5000.0, 0.0), (true, false)),
            ("voice", (0.0, 64.0), (false, true)),
            ("idle", (0.0, 0.0), (false, false)),
        ] {
            assert_eq!(directions(load, carried.0, carried.1), moves, "{load}");
        }
    }

    /// What nothing was kept of, because there was nothing, is left out.
    #[test]
    fn nothing_is_kept_of_nothing() {
        let runs = [
            run("none", "up1", 90.0, 0.0, 0.0),
            run("evenkeel", "up1", 1.0, 0.0, 30_000.0),
            run("none", "down1", 90.0, 50_000.0, 1800.0),
            run("evenkeel", "down1", 1.0, 0.0, 0.0),
        ];
        let kept: Vec<_> = factors(&runs)
            .iter()
            .map(|f| (f.down_kept, f.up_kept))
            .collect();
        assert_eq!(kept, [(None, None), (Some(0.0), None)]);
    }
}
