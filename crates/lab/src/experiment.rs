//! An experiment's file: a line, hosts, loads and conditions, in TOML.
//!
//! Principles: what is not known is refused, with its place; units stand in the names; the same
//! file serves every engine. Non-goals: what a condition is (`shaper`), making the line (`line`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_core::pipe::{Buffer, RateTrace};
use evenkeel_core::result::Published;
use evenkeel_core::{Framing, Rate};
use serde::Deserialize;

use crate::error::LabError;

mod access;
mod changing;
mod loads;
mod values;

pub use access::{BucketSpec, ClockSpec, HopSpec, RadioSpec};
pub use changing::{SwingKind, SwingSpec};
pub use loads::{FlowKind, FlowSpec, LoadSpec};
use values::{buffer, within};

/// A whole experiment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Short name (`vdsl100`), the same as the file's.
    pub name: String,
    /// One sentence on what is measured and why.
    pub about: String,
    /// The line between provider and gateway.
    pub line: LineSpec,
    /// Hosts behind the provider. The first one answers the probes.
    pub servers: Vec<Server>,
    /// How many hosts are behind the gateway.
    pub clients: usize,
    /// How many hosts are beside the gateway, behind a box in front of it.
    #[serde(default)]
    pub beside: usize,
    /// Clients that are behind a line of their own, as one of radio is.
    #[serde(default)]
    pub radio: Vec<RadioSpec>,
    /// How long things last.
    pub duration: DurationSpec,
    /// The prober.
    pub probe: ProbeSpec,
    /// What the line is loaded with, in the order of running.
    pub loads: Vec<LoadSpec>,
    /// What is compared, in the order of running.
    pub conditions: Vec<String>,
    /// What others measured on the line that this one follows.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// The line.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineSpec {
    /// Which devices the emulator uses; `tap` has an Ethernet header, `tun` has none.
    pub device: Device,
    /// Link-layer rate towards the customer.
    pub down: Rate,
    /// Link-layer rate from the customer.
    pub up: Rate,
    /// Rates over time towards the customer: `[seconds, rate]`. Replaces `down` while it runs;
    /// `down` is then what the line is sold as.
    #[serde(default)]
    pub down_steps: Vec<(f64, Rate)>,
    /// The same from the customer.
    #[serde(default)]
    pub up_steps: Vec<(f64, Rate)>,
    /// After this time the steps start again.
    pub steps_repeat_s: Option<f64>,
    /// Rates and round trip change by themselves. Takes the place of steps; `down` and `up` are
    /// then what the line is sold as.
    pub swing: Option<SwingSpec>,
    /// How packets are framed.
    pub framing: Framing,
    /// Round trip of the empty line itself, before serialisation.
    pub rtt_ms: f64,
    /// Up to this much more in each direction.
    #[serde(default)]
    pub jitter_ms: f64,
    /// Share of packets lost in each direction, 0..1.
    #[serde(default)]
    pub loss: f64,
    /// The provider lets no ICMP through.
    #[serde(default)]
    pub filters_icmp: bool,
    /// Nothing of the provider's answers anything either.
    #[serde(default)]
    pub silent: bool,
    /// Behind the line there is another router that masquerades.
    #[serde(default)]
    pub double_nat: bool,
    /// Between line and gateway there is another router that masquerades.
    #[serde(default)]
    pub box_in_front: bool,
    /// Less than `down` is sold, and this keeps us to it.
    pub down_bucket: Option<BucketSpec>,
    /// The same from the customer.
    pub up_bucket: Option<BucketSpec>,
    /// The buffer towards the customer is managed by `CoDel`.
    #[serde(default)]
    pub down_managed: bool,
    /// The same from the customer.
    #[serde(default)]
    pub up_managed: bool,
    /// How the near hop answers, if not as a kernel does.
    pub hop: Option<HopSpec>,
    /// In front of the line towards the customer.
    #[serde(deserialize_with = "buffer")]
    pub down_buffer: Buffer,
    /// In front of the line from the customer.
    #[serde(deserialize_with = "buffer")]
    pub up_buffer: Buffer,
}

/// Which devices the line is between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// IP packets.
    Tun,
    /// Ethernet frames.
    Tap,
}

/// A host behind the provider.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// For loads and messages.
    pub name: String,
    /// Round trip from a client over the empty line, before serialisation; not below the line's.
    pub rtt_ms: f64,
    /// Its TCP has time stamps (RFC 7323).
    #[serde(default = "yes")]
    pub time_stamps: bool,
    /// Its TCP has selective acknowledgements (RFC 2018).
    #[serde(default = "yes")]
    pub sack: bool,
}

fn yes() -> bool {
    true
}

/// How long things last.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurationSpec {
    /// A load, in seconds.
    pub full_s: f64,
    /// The same with `--quick`.
    pub quick_s: f64,
    /// The idle phase before each load, from which its base round trip is taken; 2 at least.
    pub idle_s: f64,
}

/// The prober.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeSpec {
    /// From one probe to the next.
    pub interval_ms: f64,
}

/// What is wrong, in one line, with line and column.
fn at_place(e: &toml::de::Error, text: &str) -> String {
    let why = e.message().replace('\n', " ");
    let Some(before) = e.span().and_then(|s| text.get(..s.start)) else {
        return why;
    };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    format!("line {line}, column {column}: {why}")
}

impl Experiment {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, LabError> {
        let text = std::fs::read_to_string(path).map_err(|e| LabError::File {
            path: path.to_owned(),
            why: e.to_string(),
        })?;
        Self::parse(&text, path)
    }

    /// Checks a text; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, LabError> {
        let bad = |why: String| LabError::Experiment {
            path: PathBuf::from(path),
            why,
        };
        let this: Experiment = toml::from_str(text).map_err(|e| bad(at_place(&e, text)))?;
        this.check().map_err(bad)?;
        Ok(this)
    }

    fn check(&self) -> Result<(), String> {
        within("line.rtt_ms", self.line.rtt_ms, 0.0, 10_000.0)?;
        within("line.jitter_ms", self.line.jitter_ms, 0.0, 10_000.0)?;
        within("line.loss", self.line.loss, 0.0, 1.0)?;
        within("duration.full_s", self.duration.full_s, 1.0, 3600.0)?;
        within("duration.quick_s", self.duration.quick_s, 1.0, 3600.0)?;
        within("duration.idle_s", self.duration.idle_s, 2.0, 60.0)?;
        within("probe.interval_ms", self.probe.interval_ms, 1.0, 1000.0)?;
        within("clients", self.clients as f64, 1.0, 32.0)?;
        self.check_access()?;
        within("servers (how many)", self.servers.len() as f64, 1.0, 32.0)?;
        for (key, rate, steps) in self.directions() {
            self.trace(rate, steps)
                .map_err(|e| format!("line.{key}_steps: {e}"))?;
        }
        if let Some(swing) = &self.line.swing {
            swing.check().map_err(|e| format!("line.swing: {e}"))?;
            if !(self.line.down_steps.is_empty() && self.line.up_steps.is_empty()) {
                return Err("line.swing: there are steps as well; one of them is enough".into());
            }
        }
        for s in &self.servers {
            let key = format!("servers {:?} rtt_ms", s.name);
            within(&key, s.rtt_ms, self.line.rtt_ms, 10_000.0)?;
        }
        for load in &self.loads {
            self.check_flows(load)?;
        }
        self.check_names()?;
        for (i, p) in (1..).zip(&self.published) {
            self.check_published(p)
                .map_err(|e| format!("published entry {i}: {e}"))?;
        }
        Ok(())
    }

    /// What stands between home and Internet besides a rate and a buffer.
    fn check_access(&self) -> Result<(), String> {
        within("beside", self.beside as f64, 0.0, 32.0)?;
        if self.beside > 0 && !self.line.box_in_front {
            return Err("beside: hosts beside the gateway need line.box_in_front".into());
        }
        if let Some(hop) = &self.line.hop {
            hop.check()?;
        }
        for (i, radio) in self.radio.iter().enumerate() {
            within(
                "radio client",
                radio.client as f64,
                1.0,
                self.clients as f64,
            )?;
            radio.check()?;
            if self.radio[..i].iter().any(|r| r.client == radio.client) {
                return Err(format!("radio: client {} is there twice", radio.client));
            }
        }
        Ok(())
    }

    fn check_flows(&self, load: &LoadSpec) -> Result<(), String> {
        for (i, flow) in (1..).zip(&load.flows) {
            let place = |key: &str| format!("loads {:?} flow {i}: {key}", load.name);
            if self.server(&flow.server).is_none() {
                let known: Vec<_> = self.servers.iter().map(|s| s.name.as_str()).collect();
                return Err(format!(
                    "{} {:?} is none of the servers ({})",
                    place("server"),
                    flow.server,
                    known.join(", ")
                ));
            }
            let most = if flow.beside {
                self.beside
            } else {
                self.clients
            };
            within(&place("client"), flow.client as f64, 1.0, most as f64)?;
            within(&place("count"), flow.count as f64, 1.0, 256.0)?;
            let longest = self.duration.full_s.max(self.duration.quick_s);
            flow.check()
                .and_then(|()| flow.check_pages(longest))
                .map_err(|e| place(&e))?;
        }
        Ok(())
    }

    /// Lists are not empty, and nothing is in one twice.
    fn check_names(&self) -> Result<(), String> {
        for (kind, names) in [
            (
                "servers",
                self.servers.iter().map(|s| &s.name).collect::<Vec<_>>(),
            ),
            ("loads", self.loads.iter().map(|l| &l.name).collect()),
            ("conditions", self.conditions.iter().collect()),
        ] {
            if names.is_empty() {
                return Err(format!("{kind}: there are none"));
            }
            if let Some((_, n)) = names
                .iter()
                .enumerate()
                .find(|(i, n)| names[..*i].contains(n))
            {
                return Err(format!("{kind}: {n:?} is there twice"));
            }
        }
        Ok(())
    }

    fn check_published(&self, p: &Published) -> Result<(), String> {
        let known = |kind: &str, name: &String, all: Vec<&String>| {
            if all.contains(&name) {
                return Ok(());
            }
            let all: Vec<&str> = all.into_iter().map(String::as_str).collect();
            let all = all.join(", ");
            Err(format!("{kind} {name:?} is none of the {kind}s ({all})"))
        };
        let loads = self.loads.iter().map(|l| &l.name).collect();
        known("load", &p.load, loads)?;
        known("condition", &p.condition, self.conditions.iter().collect())?;
        for (key, v) in [("value", Some(p.value)), ("to", p.to)] {
            if let Some(v) = v.filter(|v| !(0.0..=1e6).contains(v)) {
                return Err(format!("{key} is {v}, it must be 0 to 1000000"));
            }
        }
        let texts = [&p.shaper, &p.qualifier, &p.source];
        match texts.iter().find(|t| t.chars().count() > 120) {
            Some(long) => Err(format!("{long:?} is longer than 120 characters")),
            None => Ok(()),
        }
    }

    /// Name, rate and steps of each direction, towards the customer first.
    #[allow(clippy::type_complexity)]
    pub(crate) fn directions(&self) -> [(&'static str, Rate, &[(f64, Rate)]); 2] {
        [
            ("down", self.line.down, &self.line.down_steps),
            ("up", self.line.up, &self.line.up_steps),
        ]
    }

    pub(crate) fn trace(&self, rate: Rate, steps: &[(f64, Rate)]) -> Result<RateTrace, String> {
        if steps.is_empty() {
            return Ok(RateTrace::constant(rate));
        }
        let time = |s: f64| {
            Duration::try_from_secs_f64(s).map_err(|_| format!("{s} is not a time in seconds"))
        };
        let steps = steps.iter().map(|(s, r)| Ok((time(*s)?, *r)));
        let steps = steps.collect::<Result<_, String>>()?;
        let period = self.line.steps_repeat_s.map(time).transpose()?;
        RateTrace::steps(steps, period).map_err(|e| e.to_string())
    }

    /// Place in `servers` of the one with that name.
    pub fn server(&self, name: &str) -> Option<usize> {
        self.servers.iter().position(|s| s.name == name)
    }

    /// The load with that name.
    pub fn load_spec(&self, name: &str) -> Option<&LoadSpec> {
        self.loads.iter().find(|l| l.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VDSL: &str = include_str!("../../../experiments/vdsl100.toml");

    fn parse(text: &str) -> Result<Experiment, String> {
        Experiment::parse(text, Path::new("x.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn every_file_parses_and_is_called_after_its_experiment() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let mut n = 0;
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "toml") {
                let e = Experiment::load(&path).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(
                    Some(e.name.as_str()),
                    path.file_stem().and_then(|s| s.to_str())
                );
                n += 1;
            }
        }
        assert!(n > 0);
    }

    #[test]
    fn vdsl100_is_the_line_of_the_paper() {
        let e = parse(VDSL).unwrap();
        let [down, up] = e.pipes(1);
        assert_eq!(down.rate.peak(), Rate::from_kbit(109_341));
        assert_eq!(up.rate.peak(), Rate::from_kbit(40_143));
        assert!((e.line_facts().rtt_ms - 9.2).abs() < 0.05);
        assert!(e.line_facts().up_buffer_ms >= 150.0);
        // Its tables: five figures of three pings twice, and what is made of them.
        assert_eq!(e.published.len(), 6 * 5 + 2 + 6);
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        for (from, to, says) in [
            ("framing = ", "framming = ", "framming"),
            ("\"bridged-ptm\"", "\"bridged-pmt\"", "bridged-pmt"),
            ("109341kbit", "109341kbps", "bytes to tc"),
            ("\"30ms\"", "\"30min\"", "30min"),
            ("\"30ms\"", "\"0packets\"", "0packets"),
            ("clients = 2", "clients = 0", "clients is 0"),
            ("client = 1", "client = 7", "flow 1: client is 7"),
            (
                "server = \"near\"",
                "server = \"nera\"",
                "\"nera\" is none of the servers (near",
            ),
            ("device = \"tun\"", "device = \"tin\"", "tin"),
            ("idle_s = 3", "idle_s = 0", "duration.idle_s is 0"),
            (
                "name = \"up1\"",
                "name = \"down1\"",
                "\"down1\" is there twice",
            ),
        ] {
            assert!(VDSL.contains(from), "{from}");
            let e = parse(&VDSL.replacen(from, to, 1)).unwrap_err();
            assert!(e.starts_with("x.toml: ") && e.contains(says), "{from}: {e}");
        }
        let e = parse(&VDSL.replacen("framing = ", "framming = ", 1)).unwrap_err();
        let line = 1 + VDSL.lines().position(|l| l.starts_with("framing")).unwrap();
        let place = format!("x.toml: line {line}, column 1: unknown field");
        assert!(e.starts_with(&place) && !e.contains('\n'), "{e}");
    }

    #[test]
    fn published_figures_belong_to_the_file() {
        let cable = include_str!("../../../experiments/cable.toml");
        let entry = |load: &str, condition: &str, rest: &str| {
            let rest = format!("{rest}\nsource = \"a paper\"\n");
            let head = format!("load = \"{load}\"\ncondition = \"{condition}\"\n");
            parse(&format!("{cable}\n[[published]]\n{head}{rest}"))
        };
        let good = "figure = \"ping avg\"\nvalue = 26.162";
        let e = entry("down1", "none", good).unwrap();
        assert_eq!(e.published.len(), 1);
        let place = "x.toml: published entry 1: ";
        for (load, condition, rest, says) in [
            (
                "up9",
                "none",
                good,
                "load \"up9\" is none of the loads (down1, down4",
            ),
            (
                "up1",
                "cFosSpeed",
                good,
                "condition \"cFosSpeed\" is none of the conditions (none, cake-95",
            ),
            (
                "up1",
                "none",
                "figure = \"ping avg\"\nvalue = -1",
                "value is -1",
            ),
            (
                "up1",
                "none",
                "figure = \"ping avg\"\nvalue = 1\nto = inf",
                "to is inf",
            ),
        ] {
            let e = entry(load, condition, rest).unwrap_err();
            assert!(e.starts_with(place) && e.contains(says), "{e}");
        }
        let e = entry("up1", "none", "figure = \"ping p42\"\nvalue = 1").unwrap_err();
        let line = cable.lines().count() + 5;
        assert!(
            e.contains(&format!("line {line}, column ")) && e.contains("ping p42"),
            "{e}"
        );
        assert!(entry("up1", "none", &format!("{good}\nby = \"x\"")).is_err());
    }

    #[test]
    fn a_swing_makes_a_line_of_its_own_for_each_seed() {
        let swing = "[line.swing]\nkind = \"walk\"\nseed = 7\nevery_ms = 250.0\nfactor = 2.0\n\
                     down = [\"3mbit\", \"60mbit\"]\nup = [\"1mbit\", \"20mbit\"]\n\
                     rtt_ms = [0.0, 40.0]\n\n[duration]\n";
        let text = VDSL.replacen("[duration]\n", swing, 1);
        let e = parse(&text).unwrap();
        let [down, up] = e.pipes(1);
        assert_eq!([down.clone(), up.clone()], e.pipes(1));
        assert_ne!(down.rate, e.pipes(2)[0].rate);
        let mbit = |n: u64| Rate::from_kbit(n * 1000);
        assert!(down.rate.peak() <= mbit(60) && down.rate.peak() > mbit(30));
        assert!(up.rate.peak() <= mbit(20) && up.rate.peak() > mbit(10));
        assert_eq!(down.wander, up.wander);
        assert!(down.wander.iter().all(|s| s.1 <= Duration::from_millis(20)));
        for (from, to, says) in [
            ("factor = 2.0", "", "line.swing: a walk needs a factor"),
            ("\"walk\"", "\"redraw\"", "line.swing: factor is for walks"),
            (
                "[0.0, 40.0]",
                "[40.0, 0.0]",
                "line.swing: rtt_ms (most) is 0",
            ),
        ] {
            let e = parse(&text.replacen(from, to, 1)).unwrap_err();
            assert!(e.contains(says), "{e}");
        }
    }

    #[test]
    fn steps_make_a_trace() {
        let steps = "down_steps = [[0.0, \"60mbit\"], [2.5, \"3mbit\"]]\nsteps_repeat_s = 5.0\n";
        let e = parse(&VDSL.replacen("framing = ", &format!("{steps}framing = "), 1)).unwrap();
        let rate = &e.pipes(1)[0].rate;
        assert_eq!(rate.at(Duration::from_secs(3)).0, Rate::from_kbit(3_000));
        assert_eq!(rate.at(Duration::from_secs(6)).0, Rate::from_kbit(60_000));
        let bad = steps.replace("2.5", "-1");
        let e = parse(&VDSL.replacen("framing = ", &format!("{bad}framing = "), 1)).unwrap_err();
        assert!(e.contains("line.down_steps"), "{e}");
    }
}
