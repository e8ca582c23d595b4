//! What stands between a home and the Internet besides a rate and a buffer, as an experiment's file
//! says it: token buckets, the near hop's ways, a radio link behind the gateway.
//!
//! Principle: a key is there only where it differs from the plain line. Non-goals: the arithmetic
//! (`evenkeel_core::pipe`), the hop's answers (`crate::hop`).

use std::time::Duration;

use evenkeel_core::pipe::{Bucket, BucketKind, Buffer, PipeConfig, RateTrace};
use evenkeel_core::{Framing, Rate};
use serde::Deserialize;

use super::changing::SwingSpec;
use super::values::{buffer, within};
use crate::hop::{HopClock, HopConfig, Stalls};
use crate::millis::millis;

/// A token bucket of the provider's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketSpec {
    /// `policer`: drops, `shaper`: lets wait.
    kind: Kind,
    /// What is sold.
    pub rate: Rate,
    /// What passes at the line's rate after a pause, kB on the wire.
    pub burst_kbyte: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Policer,
    Shaper,
}

impl BucketSpec {
    pub(crate) fn make(self) -> Bucket {
        Bucket {
            kind: match self.kind {
                Kind::Policer => BucketKind::Policer,
                Kind::Shaper => BucketKind::Shaper,
            },
            rate: self.rate,
            burst: self.burst_kbyte.saturating_mul(1000),
        }
    }
}

/// How the near hop answers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HopSpec {
    /// At most so many answers in a second.
    pub answers_per_second: Option<f64>,
    /// So often it stalls, s on average.
    pub stall_every_s: Option<f64>,
    /// For how long at least and at most, ms.
    pub stall_ms: Option<[f64; 2]>,
    /// Up to so much later while the line is busy, ms.
    #[serde(default)]
    pub slow_ms: f64,
    /// Its clock is not right.
    pub clock: Option<ClockSpec>,
    /// It answers pings, and no requests for time stamps.
    #[serde(default)]
    pub no_stamps: bool,
    /// It answers nothing and tells of no packet that has expired.
    #[serde(default)]
    pub mute: bool,
}

/// What is wrong with a clock.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum ClockSpec {
    /// It is set once.
    Steps {
        /// When, s after the line's start.
        at_s: f64,
        /// By how much, ms.
        by_ms: i32,
    },
    /// It stands still.
    Stands {},
    /// It is fast or slow.
    Drifts {
        /// Millionths.
        ppm: f64,
    },
}

impl HopSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(n) = self.answers_per_second {
            within("line.hop answers_per_second", n, 0.1, 1e6)?;
        }
        within("line.hop slow_ms", self.slow_ms, 0.0, 10_000.0)?;
        match (self.stall_every_s, self.stall_ms) {
            (Some(every), Some([least, most])) => {
                within("line.hop stall_every_s", every, 0.1, 3600.0)?;
                within("line.hop stall_ms (least)", least, 0.0, 60_000.0)?;
                within("line.hop stall_ms (most)", most, least, 60_000.0)?;
            }
            (None, None) => {}
            _ => return Err("line.hop: stall_every_s and stall_ms need each other".into()),
        }
        match self.clock {
            Some(ClockSpec::Steps { at_s, .. }) => within("line.hop clock at_s", at_s, 0.0, 3600.0),
            Some(ClockSpec::Drifts { ppm }) => {
                within("line.hop clock ppm", ppm, -100_000.0, 100_000.0)
            }
            Some(ClockSpec::Stands {}) | None => Ok(()),
        }
    }

    pub(crate) fn make(&self, seed: u64) -> HopConfig {
        let stalls = self.stall_every_s.zip(self.stall_ms);
        HopConfig {
            answers_per_second: self.answers_per_second,
            stalls: stalls.map(|(every, lasts)| Stalls {
                every: millis(every * 1000.0),
                lasts: lasts.map(millis),
            }),
            slow: millis(self.slow_ms),
            clock: self.clock.map(|c| match c {
                ClockSpec::Steps { at_s, by_ms } => HopClock::Steps {
                    at: millis(at_s * 1000.0),
                    by_ms,
                },
                ClockSpec::Stands {} => HopClock::Stands,
                ClockSpec::Drifts { ppm } => HopClock::Drifts { ppm },
            }),
            no_stamps: self.no_stamps,
            mute: self.mute,
            seed,
        }
    }
}

/// A link between gateway and a client that is slower than a cable: one station of a Wi-Fi.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RadioSpec {
    /// Whose, from 1.
    pub client: usize,
    /// What it carries, each way.
    pub rate: Rate,
    /// What waits in front of it, each way.
    #[serde(deserialize_with = "buffer")]
    pub buffer: Buffer,
    /// Frames are collected and sent together: so often there is a turn, ms.
    pub turns_ms: f64,
    /// Up to so much more delay, each way: tries on the air.
    #[serde(default)]
    pub jitter_ms: f64,
    /// What it carries changes by itself, instead of `rate`.
    pub swing: Option<SwingSpec>,
}

impl RadioSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        within("radio turns_ms", self.turns_ms, 0.0, 1000.0)?;
        within("radio jitter_ms", self.jitter_ms, 0.0, 1000.0)?;
        let swing = self.swing.as_ref().map(SwingSpec::check);
        swing.map_or(Ok(()), |s| s.map_err(|e| format!("radio swing {e}")))
    }

    /// Both directions of it, towards the client first, for so long.
    pub(crate) fn make(&self, seed: u64, length: Duration) -> [PipeConfig; 2] {
        let swung = self.swing.as_ref().map(|s| s.make(seed, length));
        let (down, up, wander) = swung.map_or_else(Default::default, |s| (s.down, s.up, s.rtt));
        let wander: Vec<_> = wander.into_iter().map(|(t, more)| (t, more / 2)).collect();
        [(down, seed), (up, !seed)].map(|(steps, seed)| PipeConfig {
            // Empty without a swing; else checked when the file was read.
            rate: RateTrace::steps(steps, None).unwrap_or_else(|_| RateTrace::constant(self.rate)),
            framing: Framing::default(),
            buffer: self.buffer,
            bucket: None,
            managed: None,
            turns: millis(self.turns_ms),
            delay: Duration::ZERO,
            wander: wander.clone(),
            jitter: millis(self.jitter_ms),
            loss: 0.0,
            seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Experiment;

    const VDSL: &str = include_str!("../../../../experiments/vdsl100.toml");

    fn parse(line: &str, top: &str) -> Result<Experiment, String> {
        let text = VDSL
            .replacen("framing = ", &format!("{line}\nframing = "), 1)
            .replacen("clients = 2\n", &format!("clients = 2\n{top}\n"), 1);
        Experiment::parse(&text, Path::new("x.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn everything_that_a_home_may_have() {
        let e = parse(
            "box_in_front = true\ndown_managed = true\n\
             up_bucket = { kind = \"policer\", rate = \"8mbit\", burst_kbyte = 30 }\n\
             down_bucket = { kind = \"shaper\", rate = \"50mbit\", burst_kbyte = 90000 }\n\
             hop = { answers_per_second = 12.0, stall_every_s = 5.0, stall_ms = [20.0, 300.0], \
             slow_ms = 30.0, clock = { steps = { at_s = 9.0, by_ms = 500 } }, no_stamps = true }",
            "beside = 1\nradio = [{ client = 2, rate = \"40mbit\", buffer = \"200ms\", turns_ms = 5.0 }]",
        )
        .unwrap();
        let [down, up] = e.pipes(1);
        assert!(down.managed.is_some() && up.managed.is_none());
        assert_eq!(up.bucket.map(|b| b.kind), Some(BucketKind::Policer));
        let facts = e.line_facts();
        assert_eq!(facts.down, Rate::from_kbit(50_000), "what is sold");
        assert_eq!(facts.up, Rate::from_kbit(8_000));
        let hop = e.line_config(3).hop.unwrap().1;
        assert_eq!(hop.answers_per_second, Some(12.0));
        assert_eq!(hop.seed, 3);
    }

    #[test]
    fn radio_swings_each_way_by_itself() {
        let radio = |swing| {
            let text = format!(
                "radio = [{{ client = 1, rate = \"9mbit\", buffer = \"9ms\", turns_ms = 1.0{swing} }}]"
            );
            parse("", &text).unwrap().radio.remove(0)
        };
        let swing = ", swing = { kind = \"walk\", seed = 1, every_ms = 500.0, factor = 1.5, \
                     down = [\"5mbit\", \"60mbit\"], up = [\"1mbit\", \"2mbit\"], rtt_ms = [0.0, 0.0] }";
        let length = Duration::from_secs(10);
        let [down, up] = radio(swing).make(3, length);
        let within = |pipe: &PipeConfig, low, high| {
            (0..20).all(|i| {
                let rate = pipe.rate.at(Duration::from_millis(i * 500)).0;
                (Rate::from_kbit(low)..=Rate::from_kbit(high)).contains(&rate)
            })
        };
        assert!(within(&down, 5_000, 60_000) && within(&up, 1_000, 2_000));
        assert_eq!(
            radio(swing).make(3, length)[0].rate,
            down.rate,
            "the seed makes it"
        );
        let constant = radio("").make(3, length);
        assert!(
            constant
                .iter()
                .all(|p| p.rate == RateTrace::constant(Rate::from_kbit(9_000)))
        );
    }

    #[test]
    fn mistakes_are_refused() {
        for (line, top, says) in [
            ("", "beside = 1", "need line.box_in_front"),
            ("hop = { stall_every_s = 1.0 }", "", "need each other"),
            (
                "",
                "radio = [{ client = 3, rate = \"4mbit\", buffer = \"9ms\", turns_ms = 1.0 }]",
                "radio client is 3",
            ),
            (
                "",
                "radio = [{ client = 1, rate = \"4mbit\", buffer = \"9ms\", turns_ms = 1.0, swing = \
                 { kind = \"walk\", seed = 1, every_ms = 500.0, down = [\"1mbit\", \"4mbit\"], \
                 up = [\"1mbit\", \"4mbit\"], rtt_ms = [0.0, 0.0] } }]",
                "radio swing a walk needs a factor",
            ),
        ] {
            let e = parse(line, top).unwrap_err();
            assert!(e.contains(says), "{line}{top}: {e}");
        }
    }
}
