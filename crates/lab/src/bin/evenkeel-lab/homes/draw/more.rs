//! What a home may have besides a plain line: a provider that polices or gives bursts, a managed queue,
//! a box in front with somebody beside, a hop with ways of its own, radio behind the gateway, far ends
//! that lack options of TCP.
//!
//! Principle: each is drawn from its own sequence, most homes have none of a kind. Non-goals: how often
//! homes really have them, which nobody counted; each is frequent enough to be met in 200 homes.

use evenkeel_core::Direction;

use super::file::{Bucket, Clock, Flow, Hop, LENGTH, Line, Radio, Server, rate, tenth};
use super::random::Random;

/// What the emulated line carries at most, kbit/s.
const FASTEST: f64 = 300_000.0;

pub(super) const POLICER: &str = "policer";
pub(super) const SHAPER: &str = "shaper";

impl Line {
    /// In one home of six less than the line's rate is sold, in one direction or both. Where rates
    /// change already, what is sold is not what limits.
    pub(super) fn police(&mut self, random: &mut Random, [down, up]: [f64; 2]) {
        let luck = random.uniform(0.0, 1.0);
        let kind = match luck {
            _ if self.swing.is_some() || !self.down_steps.is_empty() => return,
            l if l < 0.1 => POLICER,
            l if l < 0.2 => SHAPER,
            _ => return,
        };
        let which = random.choose(&[(true, false), (false, true), (true, true)]);
        for (is, sold, line, bucket) in [
            (which.0, down, &mut self.down, &mut self.down_bucket),
            (which.1, up, &mut self.up, &mut self.up_bucket),
        ] {
            // A policed line is as fast as its medium is; a boost is by as much as advertisements say,
            // and the other direction still carries its acknowledgements.
            let more = if kind == POLICER { 8.0 } else { 3.0 };
            let fast = (sold * random.log_uniform(1.2, more)).min(FASTEST);
            let fast = fast.min((up * 20.0).max(sold));
            let burst = if kind == POLICER {
                // 10 to 500 ms of what is sold, as routers' manuals advise, and some packets.
                (sold / 8000.0 * random.log_uniform(10.0, 500.0)).max(10.0)
            } else {
                // 10 to 60 s of what is more than that.
                (fast - sold).max(0.0) / 8.0 * random.log_uniform(10.0, 60.0)
            };
            if is {
                *line = rate(fast);
                *bucket = Some(Bucket {
                    kind,
                    rate: rate(sold),
                    burst_kbyte: burst.max(2.0) as u64,
                });
            }
        }
    }

    /// In one home of seven a queue is managed.
    pub(super) fn manage(&mut self, random: &mut Random) {
        if random.chance(0.15) {
            let which = random.choose(&[(true, false), (false, true), (true, true)]);
            (self.down_managed, self.up_managed) = which;
        }
    }
}

/// A box of the provider's in front of the gateway, and what hosts behind it do beside us.
pub(super) struct Beside {
    pub(super) in_front: bool,
    pub(super) flows: Vec<Flow>,
}

impl Beside {
    /// In one home of three there is a box; beside half of those somebody loads the line for a while.
    pub(super) fn draw(random: &mut Random) -> Self {
        let in_front = random.chance(0.3);
        let mut flows = Vec::new();
        if in_front && random.chance(0.5) {
            let ways: &[Direction] = random.choose(&[
                &[Direction::Down],
                &[Direction::Down],
                &[Direction::Up],
                &Direction::BOTH,
            ]);
            for way in ways {
                let server = random.choose(&["near", "one", "other"]);
                flows.push(Flow {
                    beside: true,
                    count: random.choose(&[1, 2, 3, 4]),
                    start_s: tenth(random.uniform(0.0, LENGTH / 2.0)),
                    on_s: Some(tenth(random.uniform(8.0, LENGTH / 2.0))),
                    congestion: Some(random.choose(&["cubic", "cubic", "bbr", "reno"])),
                    ..Flow::new("bulk", *way, 1, server)
                });
            }
        }
        Beside { in_front, flows }
    }
}

impl Hop {
    /// In two homes of five the near hop has one way of its own, in some of those two.
    pub(super) fn draw(random: &mut Random) -> Option<Self> {
        if !random.chance(0.4) {
            return None;
        }
        let mut hop = Hop::default();
        let ways = if random.chance(0.25) { 2 } else { 1 };
        for _ in 0..ways {
            match random.choose(&[0, 1, 2, 3, 4, 5, 6, 7]) {
                0 => hop.answers_per_second = Some(random.log_uniform(1.0, 20.0).round()),
                1 => {
                    hop.stall_every_s = Some(tenth(random.log_uniform(2.0, 15.0)));
                    hop.stall_ms = Some([20.0, 300.0]);
                }
                2 => hop.slow_ms = random.log_uniform(5.0, 100.0).round(),
                3 => {
                    let size = random.log_uniform(20.0, 2000.0) as i32;
                    let by_ms = if random.chance(0.5) { size } else { -size };
                    let at_s = tenth(random.uniform(2.0, LENGTH));
                    hop.clock = Some(Clock::Steps { at_s, by_ms });
                }
                4 => hop.clock = Some(Clock::Stands {}),
                5 => {
                    let ppm = random.log_uniform(10.0, 500.0).round();
                    let ppm = if random.chance(0.5) { ppm } else { -ppm };
                    hop.clock = Some(Clock::Drifts { ppm });
                }
                6 => hop.no_stamps = true,
                _ => hop.mute = true,
            }
        }
        Some(hop)
    }

    /// Words for what it does.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &'static str> + use<> {
        let clock = match self.clock {
            Some(Clock::Steps { .. }) => "clock steps",
            Some(Clock::Stands {}) => "clock stands",
            Some(Clock::Drifts { .. }) => "clock drifts",
            None => "",
        };
        let facts = [
            (self.answers_per_second.is_some(), "limited hop"),
            (self.stall_every_s.is_some(), "stalling hop"),
            (self.slow_ms > 0.0, "slow hop"),
            (self.clock.is_some(), clock),
            (self.no_stamps, "no stamps"),
            (self.mute, "mute hop"),
        ];
        facts.into_iter().filter(|f| f.0).map(|f| f.1)
    }
}

impl Radio {
    /// In one home of five the second client is behind radio that is slower than the line, or not
    /// much faster.
    pub(super) fn draw(random: &mut Random, down: f64) -> Option<Self> {
        if !random.chance(0.2) {
            return None;
        }
        let carries = (down * random.log_uniform(0.4, 2.5)).clamp(2_000.0, FASTEST);
        Some(Radio {
            client: 2,
            rate: rate(carries),
            buffer: format!("{:.0}ms", random.log_uniform(20.0, 300.0)),
            turns_ms: tenth(random.log_uniform(1.0, 8.0)),
            jitter_ms: tenth(random.uniform(0.0, 4.0)),
            downloads: random.choose(&[0, 1, 2]),
        })
    }

    /// What is loaded over it besides.
    pub(super) fn flow(&self) -> Option<Flow> {
        (self.downloads > 0).then(|| Flow {
            count: self.downloads,
            start_s: LENGTH / 8.0,
            congestion: Some("cubic"),
            ..Flow::new("bulk", Direction::Down, self.client, "one")
        })
    }
}

/// Some far ends lack options of TCP.
pub(super) fn far_ends(random: &mut Random, servers: &mut [Server]) {
    for server in servers {
        server.time_stamps = !random.chance(0.12);
        server.sack = !random.chance(0.08);
    }
}
