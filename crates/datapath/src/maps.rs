//! The programs' maps: set what they look at, read what they know.

use std::time::Duration;

use aya::Ebpf;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, Queue};

use evenkeel_core::ping::arrivals::{Arrivals, Sender};
use evenkeel_core::police::Policer;

use crate::Error;
use crate::layout::{CONFIG, COUNTS, Config, Counts, FLOW, Flow, KEY, Key, MAX_RULES, RTT_STEPS};
use crate::layout::{LINE, Line, RULE, Rule, Side, TRIP, TRIPS, Trip};
use crate::policer::{POLICED, POLICER, Policed, to_bytes};

const CONFIG_MAP: &str = "ek_config";
const LINE_MAP: &str = "ek_line";
const RULES_MAP: &str = "ek_rules";
const FLOWS_MAP: &str = "ek_flows";
const RTT_MAP: &str = "ek_rtt";
const TRIPS_MAP: &str = "ek_rtt_samples";
const COUNTS_MAP: &str = "ek_counts";
const POLICER_MAP: &str = "ek_policer";
const SENDERS_MAP: &str = "ek_senders";
const ARRIVALS_MAP: &str = "ek_arrivals";
const POLICED_MAP: &str = "ek_policed";

/// The maps of programs that are loaded or attached.
#[allow(missing_debug_implementations)] // aya's maps have none.
pub struct Maps {
    config: Array<MapData, [u8; CONFIG]>,
    line: Array<MapData, [u8; LINE]>,
    rules: Array<MapData, [u8; RULE]>,
    flows: HashMap<MapData, [u8; KEY], [u8; FLOW]>,
    rtt: PerCpuArray<MapData, u64>,
    trips: Queue<MapData, [u8; TRIP]>,
    counts: PerCpuArray<MapData, [u8; COUNTS]>,
    policer: Array<MapData, [u8; POLICER]>,
    policed: PerCpuArray<MapData, [u8; POLICED]>,
    senders: HashMap<MapData, [u8; 4], u64>,
    arrivals: HashMap<MapData, [u8; 8], u64>,
}

/// How often round trips took how long: the upper end of each step, and the count.
pub type RttHistogram = Vec<(Duration, u64)>;

fn failed(what: &'static str, map: &'static str) -> impl Fn(MapError) -> Error {
    move |e| Error::Map {
        what,
        map,
        why: crate::programs::words(&e),
    }
}

impl Maps {
    /// Those of programs that this process loaded.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, Error> {
        Self::from(|name| ebpf.take_map(name).ok_or_else(|| "it is not there".into()))
    }

    /// Those of an attached program, by its id in the kernel.
    pub fn of_program(id: u32) -> Result<Self, Error> {
        let maps = crate::programs::map_ids(id)?;
        let mut named: Vec<(String, MapData)> = Vec::new();
        for id in maps {
            let open = || -> Result<_, MapError> {
                let info = aya::maps::MapInfo::from_id(id)?;
                Ok((
                    info.name_as_str().unwrap_or_default().to_owned(),
                    MapData::from_id(id)?,
                ))
            };
            named.push(open().map_err(failed("open", "of the program"))?);
        }
        Self::from(|name| {
            let at = named
                .iter()
                .position(|m| m.0 == name)
                .ok_or("it is not there")?;
            Map::from_map_data(named.swap_remove(at).1).map_err(|e| e.to_string())
        })
    }

    fn from(mut find: impl FnMut(&'static str) -> Result<Map, String>) -> Result<Self, Error> {
        let mut open = |map: &'static str| {
            find(map).map_err(|why| Error::Map {
                what: "open",
                map,
                why,
            })
        };
        Ok(Maps {
            config: open(CONFIG_MAP)?
                .try_into()
                .map_err(failed("open", CONFIG_MAP))?,
            line: open(LINE_MAP)?
                .try_into()
                .map_err(failed("open", LINE_MAP))?,
            rules: open(RULES_MAP)?
                .try_into()
                .map_err(failed("open", RULES_MAP))?,
            flows: open(FLOWS_MAP)?
                .try_into()
                .map_err(failed("open", FLOWS_MAP))?,
            rtt: open(RTT_MAP)?.try_into().map_err(failed("open", RTT_MAP))?,
            trips: open(TRIPS_MAP)?
                .try_into()
                .map_err(failed("open", TRIPS_MAP))?,
            counts: open(COUNTS_MAP)?
                .try_into()
                .map_err(failed("open", COUNTS_MAP))?,
            policer: open(POLICER_MAP)?
                .try_into()
                .map_err(failed("open", POLICER_MAP))?,
            policed: open(POLICED_MAP)?
                .try_into()
                .map_err(failed("open", POLICED_MAP))?,
            senders: open(SENDERS_MAP)?
                .try_into()
                .map_err(failed("open", SENDERS_MAP))?,
            arrivals: open(ARRIVALS_MAP)?
                .try_into()
                .map_err(failed("open", ARRIVALS_MAP))?,
        })
    }

    /// What the programs are told now.
    pub fn config(&self) -> Result<Config, Error> {
        let bytes = self.config.get(&0, 0).map_err(failed("read", CONFIG_MAP))?;
        Ok(Config::from_bytes(&bytes).unwrap_or_default())
    }

    /// Where tiers are handed to: of what leaves, and of what arrives.
    pub fn set_sides(&mut self, side: [Side; 2]) -> Result<(), Error> {
        let config = Config {
            side,
            ..self.config()?
        };
        self.set_config(config)
    }

    /// The line whose arrivals are held to its rate by receive windows; `None`: windows are left
    /// alone.
    pub fn set_line(&mut self, line: Option<Line>) -> Result<(), Error> {
        let bytes = line.map_or([0; LINE], Line::to_bytes);
        self.line.set(0, bytes, 0).map_err(failed("set", LINE_MAP))
    }

    /// Until when windows are bounded, on the steady clock; zero: they are left alone.
    pub fn lease(&self) -> Result<Duration, Error> {
        let bytes = self.line.get(&0, 0).map_err(failed("read", LINE_MAP))?;
        Ok(Line::lease_from_bytes(&bytes).unwrap_or_default())
    }

    /// Replaces the rules without a gap: the new ones are written beside the old, then both
    /// programs turn to them at once. At most [`MAX_RULES`].
    pub fn set_rules(&mut self, rules: &[Rule]) -> Result<(), Error> {
        let before = self.config()?;
        let first_rule = if before.first_rule == 0 { MAX_RULES } else { 0 };
        if rules.len() > MAX_RULES as usize {
            return Err(Error::Map {
                what: "set",
                map: RULES_MAP,
                why: format!(
                    "{} rules, of which there is room for {MAX_RULES}",
                    rules.len()
                ),
            });
        }
        for (i, rule) in (first_rule..).zip(rules) {
            self.rules
                .set(i, rule.to_bytes(), 0)
                .map_err(failed("set", RULES_MAP))?;
        }
        self.set_config(Config {
            generation: before.generation.wrapping_add(1),
            first_rule,
            rules: rules.len() as u32,
            ..before
        })
    }

    fn set_config(&mut self, config: Config) -> Result<(), Error> {
        self.config
            .set(0, config.to_bytes(), 0)
            .map_err(failed("set", CONFIG_MAP))
    }

    /// Every flow that is known, in no order. Flows that come and go meanwhile may be missed.
    pub fn flows(&self) -> Result<Vec<(Key, Flow)>, Error> {
        let mut all = Vec::new();
        for key in self.flows.keys() {
            let key = key.map_err(failed("read", FLOWS_MAP))?;
            // Forgotten between the two.
            let Ok(flow) = self.flows.get(&key, 0) else {
                continue;
            };
            all.extend(Key::from_bytes(&key).zip(Flow::from_bytes(&flow)));
        }
        Ok(all)
    }

    /// One flow.
    pub fn flow(&self, key: Key) -> Option<Flow> {
        Flow::from_bytes(&self.flows.get(&key.to_bytes(), 0).ok()?)
    }

    /// Round trips so far: of the Internet's side, and of the LAN's.
    pub fn round_trips(&self) -> Result<[RttHistogram; 2], Error> {
        let mut both = [Vec::new(), Vec::new()];
        for (side, histogram) in both.iter_mut().enumerate() {
            for step in 0..RTT_STEPS {
                let at = (side * RTT_STEPS + step) as u32;
                let counts = self.rtt.get(&at, 0).map_err(failed("read", RTT_MAP))?;
                histogram.push((step_end(step as u32), counts.iter().sum()));
            }
        }
        Ok(both)
    }

    /// Takes the latest round trips that are worth a probe's, oldest first; [`TRIPS`] at most
    /// are kept.
    pub fn take_trips(&mut self) -> Result<Vec<Trip>, Error> {
        let mut all = Vec::new();
        // As many may come meanwhile.
        for _ in 0..2 * TRIPS {
            match self.trips.pop(0) {
                Ok(bytes) => all.extend(Trip::from_bytes(&bytes)),
                Err(MapError::ElementNotFound) => break,
                Err(e) => return Err(failed("read", TRIPS_MAP)(e)),
            }
        }
        Ok(all)
    }

    /// Polices arrivals from now on, or does not any more.
    pub fn set_policer(&mut self, policer: Option<&Policer>) -> Result<(), Error> {
        self.policer
            .set(0, to_bytes(policer), 0)
            .map_err(failed("set", POLICER_MAP))
    }

    /// Whether arrivals are policed as `policer` says.
    pub fn is_policed(&self, policer: &Policer) -> Result<bool, Error> {
        let bytes = self.policer.get(&0, 0);
        Ok(bytes.map_err(failed("read", POLICER_MAP))? == to_bytes(Some(policer)))
    }

    /// What the policer did.
    pub fn policed(&self) -> Result<Policed, Error> {
        let per_cpu = self.policed.get(&0, 0);
        let mut policed = Policed::default();
        for bytes in per_cpu.map_err(failed("read", POLICED_MAP))?.iter() {
            policed.add(bytes);
        }
        Ok(policed)
    }

    /// What was counted.
    pub fn counts(&self) -> Result<Counts, Error> {
        let per_cpu = self.counts.get(&0, 0).map_err(failed("read", COUNTS_MAP))?;
        let mut counts = Counts::default();
        for bytes in per_cpu.iter() {
            counts.add(bytes);
        }
        Ok(counts)
    }
}

/// The programs keep the latest 4096 arrivals, and the 1024 senders that were busy last.
impl Arrivals for Maps {
    fn watch(&mut self, sender: Sender) {
        // If there is no room, its answers' arrivals are not known, which is all that follows.
        let _ = self.senders.insert(sender_key(sender), 0, 0);
    }

    fn arrived(&self, sender: Sender, number: Option<u32>) -> Option<Duration> {
        let mut key = [0; 8];
        key[..4].copy_from_slice(&sender_key(sender));
        key[4..].copy_from_slice(&number.unwrap_or(UNNUMBERED).to_be_bytes());
        self.arrivals.get(&key, 0).ok().map(Duration::from_nanos)
    }
}

/// `UNNUMBERED`.
const UNNUMBERED: u32 = u32::MAX;

/// `struct probe_sender`.
fn sender_key(sender: Sender) -> [u8; 4] {
    /// `IPPROTO_ICMP` and `IPPROTO_UDP`.
    const ICMP: u8 = 1;
    const UDP: u8 = 17;
    let (proto, port) = match sender {
        Sender::Icmp(identifier) => (ICMP, identifier),
        Sender::Udp(port) => (UDP, port),
    };
    let [high, low] = port.to_be_bytes();
    [proto, 0, high, low]
}

/// Where a step of the histogram ends: `rtt_step` in evenkeel.bpf.c, turned round. The last one
/// has no end.
fn step_end(step: u32) -> Duration {
    match step {
        0 => Duration::from_micros(64),
        n if n as usize == RTT_STEPS - 1 => Duration::MAX,
        n => {
            let (log, quarter) = ((n - 1) / 4, (n - 1) % 4);
            Duration::from_micros((u64::from(quarter) + 5) << (log + 4))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_where_the_next_begins() {
        let ends: Vec<_> = (0..9).map(step_end).collect();
        let us = [64, 80, 96, 112, 128, 160, 192, 224, 256];
        assert_eq!(ends, us.map(Duration::from_micros));
        assert_eq!(step_end(RTT_STEPS as u32 - 1), Duration::MAX);
    }
}
