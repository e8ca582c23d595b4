//! The line that an experiment's file describes, built: for the emulator, for results and for
//! conditions.
//!
//! Principle: whatever is random comes from a seed. Non-goals: reading the file (`experiment`),
//! carrying packets (`emulator`).

use std::time::Duration;

use evenkeel_core::Rate;
use evenkeel_core::pipe::{BucketKind, Buffer, CoDel, PipeConfig, RateTrace};
use evenkeel_core::result::{ConditionFacts, LineFacts};

use crate::addresses::{PROVIDER_IP, server_address};
use crate::emulator::LineConfig;
use crate::experiment::{BucketSpec, Device, Experiment};
use crate::millis::millis;
use crate::shaper::{NONE, Shaper};

impl Experiment {
    /// The line as the emulator takes it, with randomness from `seed`.
    pub fn line_config(&self, seed: u64) -> LineConfig {
        let [down, up] = self.pipes(seed);
        let beyond = self.servers.iter().enumerate().map(|(i, s)| {
            let more = s.rtt_ms - self.line.rtt_ms;
            (server_address(i), millis(more))
        });
        LineConfig {
            down,
            up,
            beyond: beyond.collect(),
            filters_icmp: self.line.filters_icmp,
            silent: self.line.silent.then_some(PROVIDER_IP.into()),
            hop: (self.line.hop.as_ref()).map(|hop| (PROVIDER_IP, hop.make(seed))),
        }
    }

    /// The lines to clients that are behind one of radio, by the client's number from 0.
    pub(crate) fn radio_config(&self, client: usize, seed: u64) -> Option<LineConfig> {
        let radio = self.radio.iter().find(|r| r.client == client + 1)?;
        let seed = seed.wrapping_mul(31).wrapping_add(client as u64);
        let [down, up] = radio.make(seed, self.length());
        Some(LineConfig {
            down,
            up,
            beyond: Vec::new(),
            filters_icmp: false,
            silent: None,
            hop: None,
        })
    }

    /// How long a line has to change: the idle phase, the load, and what is under way then.
    fn length(&self) -> Duration {
        let length = self.duration.idle_s + self.duration.full_s.max(self.duration.quick_s) + 30.0;
        Duration::try_from_secs_f64(length).unwrap_or_default()
    }

    /// The two directions of the line, towards the customer first, with randomness from `seed`.
    pub(crate) fn pipes(&self, seed: u64) -> [PipeConfig; 2] {
        let line = &self.line;
        let buffers = [line.down_buffer, line.up_buffer];
        let mut seeds = [seed, seed ^ 0x5555_5555_5555_5555].into_iter();
        let mut buffers = buffers.into_iter();
        let mut buckets = [line.down_bucket, line.up_bucket].into_iter();
        let mut managed = [line.down_managed, line.up_managed].into_iter();
        let swung = line.swing.as_ref().map(|s| s.make(seed, self.length()));
        let mut wander: Vec<(Duration, Duration)> = Vec::new();
        let mut swung_rates = Vec::new();
        if let Some(s) = swung {
            wander = s.rtt.into_iter().map(|(t, more)| (t, more / 2)).collect();
            swung_rates = vec![s.up, s.down];
        }
        self.directions().map(|(_, rate, steps)| PipeConfig {
            // Checked when the file was read.
            rate: match swung_rates.pop() {
                Some(steps) => RateTrace::steps(steps, None).map_err(|e| e.to_string()),
                None => self.trace(rate, steps),
            }
            .unwrap_or_else(|_| RateTrace::constant(rate)),
            wander: wander.clone(),
            framing: line.framing,
            buffer: buffers.next().unwrap_or(Buffer::Time(Duration::ZERO)),
            bucket: buckets.next().flatten().map(BucketSpec::make),
            managed: (managed.next() == Some(true)).then(CoDel::default),
            turns: Duration::ZERO,
            delay: millis(line.rtt_ms / 2.0),
            jitter: millis(line.jitter_ms),
            loss: line.loss,
            seed: seeds.next().unwrap_or(seed),
        })
    }

    /// The line as results and shapers are told of it.
    pub fn line_facts(&self) -> LineFacts {
        let packet = u64::from(self.line.framing.wire_len(1500));
        let ms = |buffer, rate: Rate| match buffer {
            Buffer::Packets(n) => (n * packet) as f64 * 8000.0 / rate.bps() as f64,
            Buffer::Time(t) => t.as_secs_f64() * 1000.0,
            Buffer::Bytes(b) => b as f64 * 8000.0 / rate.bps() as f64,
        };
        let [down, up] = self.sold();
        LineFacts {
            down,
            up,
            framing: self.line.framing,
            rtt_ms: self.servers.first().map_or(self.line.rtt_ms, |s| s.rtt_ms),
            down_buffer_ms: ms(self.line.down_buffer, down),
            up_buffer_ms: ms(self.line.up_buffer, up),
            varies: self.line.swing.is_some()
                || !(self.line.down_steps.is_empty() && self.line.up_steps.is_empty())
                || self.bursts(),
            best: self.best(),
        }
    }

    /// What is sold: the rates, unless a token bucket leaves less of them.
    fn sold(&self) -> [Rate; 2] {
        let line = &self.line;
        [(line.down, line.down_bucket), (line.up, line.up_bucket)]
            .map(|(rate, bucket)| bucket.map_or(rate, |b| b.rate.min(rate)))
    }

    /// Whether more than is sold passes for a while.
    fn bursts(&self) -> bool {
        let mut buckets = [self.line.down_bucket, self.line.up_bucket]
            .into_iter()
            .flatten();
        buckets.any(|b| b.make().kind == BucketKind::Shaper)
    }

    /// The highest rates of a line that varies.
    fn best(&self) -> Option<[Rate; 2]> {
        if self.bursts() {
            return Some([self.line.down, self.line.up]);
        }
        if let Some(swing) = &self.line.swing {
            return Some([swing.down[1], swing.up[1]]);
        }
        let line = &self.line;
        let most = |steps: &[(f64, Rate)]| steps.iter().map(|s| s.1).max();
        let [down, up] = [most(&line.down_steps), most(&line.up_steps)];
        (down.is_some() || up.is_some()).then(|| [down.unwrap_or(line.down), up.unwrap_or(line.up)])
    }

    /// What the condition of that name is on this line; `None` if there is none.
    pub fn condition_facts(
        &self,
        name: &str,
        shapers: &[Box<dyn Shaper>],
    ) -> Option<ConditionFacts> {
        if name == NONE {
            return Some(ConditionFacts {
                name: NONE.into(),
                about: "the line without a shaper".into(),
                ..ConditionFacts::default()
            });
        }
        let link_header = match self.line.device {
            Device::Tun if !self.line.box_in_front => 0,
            _ => 14,
        };
        let shaper = shapers.iter().find(|s| s.name() == name)?;
        Some(shaper.facts(&self.line_facts(), link_header))
    }

    /// What every condition is on this line: `none`, and those of `shapers`.
    pub(crate) fn all_conditions(&self, shapers: &[Box<dyn Shaper>]) -> Vec<ConditionFacts> {
        let names = std::iter::once(NONE).chain(shapers.iter().map(|s| s.name()));
        names
            .filter_map(|name| self.condition_facts(name, shapers))
            .collect()
    }
}
