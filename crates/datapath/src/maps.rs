//! The programs' maps: set what they look at, read what they know.

use std::time::Duration;

use aya::Ebpf;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, Queue};

use evenkeel_core::ping::arrivals::{Arrivals, Sender};
use evenkeel_core::police::Policer;
use evenkeel_core::units::PerDirection;

use crate::Error;
use crate::error::words;
use crate::layout;
use crate::values::{
    Config, Counts, DirectionConfig, Flow, Key, Line, MAX_RULES, Name, NameKey, Policed,
    RTT_SAMPLES, RttHistogram, RttSample, Rule, RuleSet, answer_key, policer_to_layout, sender_key,
    step_end,
};

const CONFIG_MAP: &str = "ek_config";
const LINE_MAP: &str = "ek_line";
const RULES_MAP: &str = "ek_rules";
const FLOWS_MAP: &str = "ek_flows";
const RTT_MAP: &str = "ek_rtt";
const RTT_SAMPLES_MAP: &str = "ek_rtt_samples";
const COUNTS_MAP: &str = "ek_counts";
const POLICER_MAP: &str = "ek_policer";
const SENDERS_MAP: &str = "ek_senders";
const NAMES_MAP: &str = "ek_names";
const DNS_MAP: &str = "ek_dns";
const ARRIVALS_MAP: &str = "ek_arrivals";
const POLICED_MAP: &str = "ek_policed";

/// The maps of programs that are loaded or attached.
#[allow(missing_debug_implementations)] // aya's maps have none.
pub struct Maps {
    config: Array<MapData, [u8; layout::Config::SIZE]>,
    line: Array<MapData, [u8; layout::Line::SIZE]>,
    rules: Array<MapData, [u8; layout::Rule::SIZE]>,
    flows: HashMap<MapData, [u8; layout::FlowKey::SIZE], [u8; layout::Flow::SIZE]>,
    names: HashMap<MapData, [u8; layout::NameKey::SIZE], [u8; layout::Name::SIZE]>,
    dns: Queue<MapData, [u8; layout::DnsAnswer::SIZE]>,
    rtt: PerCpuArray<MapData, u64>,
    rtt_samples: Queue<MapData, [u8; layout::RttSample::SIZE]>,
    counts: PerCpuArray<MapData, [u8; layout::Counts::SIZE]>,
    policer: Array<MapData, [u8; layout::Policer::SIZE]>,
    policed: PerCpuArray<MapData, [u8; layout::Policed::SIZE]>,
    senders: HashMap<MapData, [u8; layout::ProbeSender::SIZE], u64>,
    arrivals: HashMap<MapData, [u8; layout::ProbeKey::SIZE], u64>,
    /// Answers to senders that are watched wait at no queue of ours.
    at_once: bool,
}

fn failed(what: &'static str, map: &'static str) -> impl Fn(MapError) -> Error {
    move |e| Error::Map {
        what,
        map,
        why: words(&e),
    }
}

impl Maps {
    /// Those of programs that this process loaded.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, Error> {
        Self::from(|name| ebpf.take_map(name).ok_or_else(|| "it is not there".into()))
    }

    /// Those of an attached program, by its id in the kernel.
    pub fn of_program(id: u32) -> Result<Self, Error> {
        let maps = map_ids(id)?;
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
            names: open(NAMES_MAP)?
                .try_into()
                .map_err(failed("open", NAMES_MAP))?,
            dns: open(DNS_MAP)?.try_into().map_err(failed("open", DNS_MAP))?,
            rtt: open(RTT_MAP)?.try_into().map_err(failed("open", RTT_MAP))?,
            rtt_samples: open(RTT_SAMPLES_MAP)?
                .try_into()
                .map_err(failed("open", RTT_SAMPLES_MAP))?,
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
            at_once: false,
        })
    }

    /// Answers to the senders that are watched from now on do not wait at our IFB: for who sets the shaper by what they
    /// say.
    #[must_use]
    pub fn with_answers_at_once(self) -> Self {
        Maps {
            at_once: true,
            ..self
        }
    }

    /// What the programs are told now.
    fn config(&self) -> Result<Config, Error> {
        let bytes = self.config.get(&0, 0).map_err(failed("read", CONFIG_MAP))?;
        Ok(Config::from_layout(&layout::Config::from_bytes(&bytes)))
    }

    /// How tiers are told to the queueing disciplines, and how long packets may be.
    pub fn set_directions(
        &mut self,
        direction: PerDirection<DirectionConfig>,
    ) -> Result<(), Error> {
        let config = Config {
            direction,
            ..self.config()?
        };
        self.set_config(config)
    }

    /// Until then, on the steady clock, what is no call waits behind everything else; zero: it does not.
    pub fn set_quiet(&mut self, until: Duration) -> Result<(), Error> {
        let quiet_until = until.as_nanos() as u64;
        self.set_config(Config {
            quiet_until,
            ..self.config()?
        })
    }

    /// What [`Maps::set_quiet`] was told last.
    pub fn quiet_until(&self) -> Result<Duration, Error> {
        Ok(Duration::from_nanos(self.config()?.quiet_until))
    }

    /// Changes whenever somebody tells the programs rules.
    pub fn generation(&self) -> Result<u32, Error> {
        Ok(self.config()?.generation)
    }

    /// The line whose arrivals are held to its rate by receive windows; `None`: windows are left
    /// alone.
    pub fn set_line(&mut self, line: Option<Line>) -> Result<(), Error> {
        let bytes = line.map_or([0; layout::Line::SIZE], |line| line.to_layout().to_bytes());
        self.line.set(0, bytes, 0).map_err(failed("set", LINE_MAP))
    }

    /// Until when windows are bounded, on the steady clock; zero: they are left alone.
    pub fn lease(&self) -> Result<Duration, Error> {
        let bytes = self.line.get(&0, 0).map_err(failed("read", LINE_MAP))?;
        Ok(Duration::from_nanos(layout::Line::from_bytes(&bytes).lease))
    }

    /// Replaces the rules without a gap, by these alone, in this order. At most [`MAX_RULES`].
    pub fn set_rules(&mut self, rules: &[Rule]) -> Result<(), Error> {
        self.set_rule_set(&RuleSet::of(rules), None)
    }

    /// Replaces everything that is told of flows without a gap: the new rules are written beside the old, then both
    /// programs turn to them at once. Where what was told `before` is known, only what differs is written.
    pub fn set_rule_set(&mut self, set: &RuleSet, before: Option<&RuleSet>) -> Result<(), Error> {
        let config = self.config()?;
        let rules = &set.rules;
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
        let mut first_rule = config.first_rule;
        if before.is_none_or(|b| b.rules != *rules) {
            first_rule = if config.first_rule == 0 { MAX_RULES } else { 0 };
            for (i, rule) in (first_rule..).zip(rules) {
                self.rules
                    .set(i, rule.to_layout().to_bytes(), 0)
                    .map_err(failed("set", RULES_MAP))?;
            }
        }
        let known = |key: &NameKey| before.and_then(|b| b.names.get(key));
        for (key, name) in &set.names {
            if known(key) != Some(name) {
                let (key, name) = (key.to_layout().to_bytes(), name.to_layout().to_bytes());
                self.names
                    .insert(key, name, 0)
                    .map_err(failed("set", NAMES_MAP))?;
            }
        }
        let number = |n: Option<u8>| n.unwrap_or_default();
        self.set_config(Config {
            generation: config.generation.wrapping_add(1),
            first_rule,
            rules: rules.len() as u32,
            names: set.kinds(),
            acts: set.acts(),
            asks_dns: set.asks_dns,
            tier_limit: set.tier_limit.map(number),
            tier_dscp: set.tier_dscp.map(|d| d.map_or(0, |d| d + 1)),
            ..config
        })?;
        // A scan of a table that is empty takes as long as one that is full.
        if config.names == 0 {
            return Ok(());
        }
        self.forget_names(set, before)
    }

    /// Says something of one name, beside what was told, until the rules are told again.
    pub fn say(&mut self, key: NameKey, name: Name) -> Result<(), Error> {
        let (bytes, value) = (key.to_layout().to_bytes(), name.to_layout().to_bytes());
        self.names
            .insert(bytes, value, 0)
            .map_err(failed("set", NAMES_MAP))?;
        let config = self.config()?;
        self.set_config(Config {
            generation: config.generation.wrapping_add(1),
            names: config.names | key.bit(),
            ..config
        })
    }

    /// Removes names that `set` does not have.
    fn forget_names(&mut self, set: &RuleSet, before: Option<&RuleSet>) -> Result<(), Error> {
        let mut stale: Vec<[u8; layout::NameKey::SIZE]> = Vec::new();
        if let Some(before) = before {
            let gone = before.names.keys().filter(|k| !set.names.contains_key(k));
            stale.extend(gone.map(|k| k.to_layout().to_bytes()));
        } else {
            for key in self.names.keys() {
                let key = key.map_err(failed("read", NAMES_MAP))?;
                let named = NameKey::from_layout(&layout::NameKey::from_bytes(&key));
                if named.is_none_or(|k| !set.names.contains_key(&k)) {
                    stale.push(key);
                }
            }
        }
        for key in stale {
            match self.names.remove(&key) {
                Ok(()) | Err(MapError::KeyNotFound | MapError::ElementNotFound) => {}
                Err(MapError::SyscallError(e)) if e.io_error.raw_os_error() == Some(2) => {}
                Err(e) => return Err(failed("clear", NAMES_MAP)(e)),
            }
        }
        Ok(())
    }

    /// Takes the latest answers of name servers, oldest first: UDP payloads.
    pub fn take_dns_answers(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        let mut all = Vec::new();
        for _ in 0..layout::DNS_ANSWERS {
            match self.dns.pop(0) {
                Ok(bytes) => {
                    let answer = layout::DnsAnswer::from_bytes(&bytes);
                    let length = (answer.length as usize).min(answer.bytes.len());
                    all.push(answer.bytes[..length].to_vec());
                }
                Err(MapError::ElementNotFound) => break,
                Err(e) => return Err(failed("read", DNS_MAP)(e)),
            }
        }
        Ok(all)
    }

    fn set_config(&mut self, config: Config) -> Result<(), Error> {
        self.config
            .set(0, config.to_layout().to_bytes(), 0)
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
            let flow = Flow::from_layout(&layout::Flow::from_bytes(&flow));
            all.extend(flow.map(|f| (Key::from_layout(&layout::FlowKey::from_bytes(&key)), f)));
        }
        Ok(all)
    }

    /// One flow.
    pub fn flow(&self, key: Key) -> Option<Flow> {
        let bytes = self.flows.get(&key.to_layout().to_bytes(), 0).ok()?;
        Flow::from_layout(&layout::Flow::from_bytes(&bytes))
    }

    /// Round trips so far: beyond us in each direction, so of uploads the Internet's and of downloads the
    /// LAN's.
    pub fn round_trips(&self) -> Result<PerDirection<RttHistogram>, Error> {
        let side = |direction: u32| {
            (0..layout::RTT_STEPS)
                .map(|step| {
                    let at = direction * layout::RTT_STEPS + step;
                    let counts = self.rtt.get(&at, 0).map_err(failed("read", RTT_MAP))?;
                    Ok((step_end(step), counts.iter().sum()))
                })
                .collect::<Result<RttHistogram, Error>>()
        };
        Ok(PerDirection {
            up: side(layout::UP)?,
            down: side(layout::DOWN)?,
        })
    }

    /// Takes the latest round trips that are worth a probe's, oldest first. So many are kept:
    /// [`RTT_SAMPLES`].
    pub fn take_rtt_samples(&mut self) -> Result<Vec<RttSample>, Error> {
        let mut all = Vec::new();
        // As many may come meanwhile.
        for _ in 0..2 * RTT_SAMPLES {
            match self.rtt_samples.pop(0) {
                Ok(bytes) => {
                    let sample = layout::RttSample::from_bytes(&bytes);
                    all.push(RttSample::from_layout(&sample));
                }
                Err(MapError::ElementNotFound) => break,
                Err(e) => return Err(failed("read", RTT_SAMPLES_MAP)(e)),
            }
        }
        Ok(all)
    }

    /// Polices arrivals from now on, or does not any more.
    pub fn set_policer(&mut self, policer: Option<&Policer>) -> Result<(), Error> {
        self.policer
            .set(0, policer_bytes(policer), 0)
            .map_err(failed("set", POLICER_MAP))
    }

    /// Whether arrivals are policed as `policer` says.
    pub fn is_policed(&self, policer: &Policer) -> Result<bool, Error> {
        let bytes = self.policer.get(&0, 0);
        Ok(bytes.map_err(failed("read", POLICER_MAP))? == policer_bytes(Some(policer)))
    }

    /// What the policer did.
    pub fn policed(&self) -> Result<Policed, Error> {
        let per_cpu = self.policed.get(&0, 0);
        let mut policed = Policed::default();
        for bytes in per_cpu.map_err(failed("read", POLICED_MAP))?.iter() {
            policed.add(&layout::Policed::from_bytes(bytes));
        }
        Ok(policed)
    }

    /// What was counted.
    pub fn counts(&self) -> Result<Counts, Error> {
        let per_cpu = self.counts.get(&0, 0).map_err(failed("read", COUNTS_MAP))?;
        let mut counts = Counts::default();
        for bytes in per_cpu.iter() {
            counts.add(&layout::Counts::from_bytes(bytes));
        }
        Ok(counts)
    }
}

/// The programs keep the latest 4096 arrivals, and the 1024 senders that were busy last.
impl Arrivals for Maps {
    fn watch(&mut self, sender: Sender) {
        // If there is no room, its answers' arrivals are not known, which is all that follows.
        let key = sender_key(sender).to_bytes();
        let _ = self.senders.insert(key, u64::from(self.at_once), 0);
    }

    fn arrived(&self, sender: Sender, number: Option<u32>) -> Option<Duration> {
        let key = answer_key(sender, number).to_bytes();
        self.arrivals.get(&key, 0).ok().map(Duration::from_nanos)
    }
}

/// As in the map; `None` switches it off.
fn policer_bytes(policer: Option<&Policer>) -> [u8; layout::Policer::SIZE] {
    policer.map_or([0; layout::Policer::SIZE], |p| {
        policer_to_layout(p).to_bytes()
    })
}

/// The ids of the maps that an attached program uses.
fn map_ids(program: u32) -> Result<Vec<u32>, Error> {
    let refused = |e: aya::programs::ProgramError| Error::Load(words(&e));
    let info = aya::programs::loaded_programs()
        .find(|p| p.as_ref().is_ok_and(|p| p.id() == program))
        .ok_or_else(|| Error::Load(format!("there is no program {program}")))?
        .map_err(refused)?;
    Ok(info.map_ids().map_err(refused)?.unwrap_or_default())
}
