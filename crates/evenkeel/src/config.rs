//! `/etc/evenkeel.toml`: what a person wants on this machine, whatever is typed.
//!
//! Principles: it may be absent; a file that is wrong is refused whole, with the line; what is
//! typed comes first. Non-goals: rates of lines (they are told, or learned).

use std::fmt::Display;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use evenkeel_autorate::{Host, ProbeBudget};
use evenkeel_core::plan::Mode;
use evenkeel_core::rules::{Budget, FlowRule, When, check};
use evenkeel_core::{Framing, PerDirection, Rate};
use evenkeel_terminal::Failure;
use serde::Deserialize;
use toml::Spanned;

/// Where it is unless told otherwise.
pub(crate) const PATH: &str = "/etc/evenkeel.toml";

/// The file's form. `packaging/evenkeel.toml` says what each setting is.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(default)]
    rules: Vec<Spanned<String>>,
    /// All from here on are for `run` alone.
    device: Option<OneOrMore>,
    mode: Option<Spanned<String>>,
    #[serde(default)]
    mode_at: Vec<Spanned<String>>,
    framing: Option<Spanned<String>>,
    /// Towards us, from us; so is `max`.
    min: Option<[Spanned<String>; 2]>,
    max: Option<[Spanned<String>; 2]>,
    #[serde(default)]
    targets: Vec<Spanned<String>>,
    probe_budget: Option<Spanned<String>>,
    budget: Option<Spanned<String>>,
    lan: Option<bool>,
    cooperate: Option<bool>,
    #[serde(default)]
    secret: String,
    #[serde(default)]
    keep: bool,
    http: Option<Spanned<String>>,
    #[serde(default)]
    http_names: Vec<String>,
    http_read: Option<Spanned<String>>,
    mqtt: Option<Spanned<String>>,
    /// Settings of one device each, instead of those above.
    #[serde(default)]
    line: Vec<LineForm>,
}

/// A name, or some.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// One line of several.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineForm {
    device: Spanned<String>,
    mode: Option<Spanned<String>>,
    #[serde(default)]
    mode_at: Vec<Spanned<String>>,
    framing: Option<Spanned<String>>,
    min: Option<[Spanned<String>; 2]>,
    max: Option<[Spanned<String>; 2]>,
    #[serde(default)]
    targets: Vec<Spanned<String>>,
    probe_budget: Option<Spanned<String>>,
    budget: Option<Spanned<String>>,
    lan: Option<bool>,
}

/// A mode that holds at times: `bandwidth 01:00-06:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModeAt {
    pub(crate) mode: Mode,
    pub(crate) when: When,
}

impl FromStr for ModeAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mode, when) = text
            .trim()
            .split_once(' ')
            .ok_or("is not like \"bandwidth 01:00-06:00\"")?;
        Ok(ModeAt {
            mode: mode.parse()?,
            when: When::parse(when)?,
        })
    }
}

/// Budgets in one text: `500 GB/month, host tv 2 h/day`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Budgets(pub(crate) Vec<Budget>);

impl FromStr for Budgets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = text.split(',').map(str::parse);
        Ok(Budgets(all.collect::<Result<_, _>>()?))
    }
}

/// What is said of a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LineConfig {
    pub(crate) mode: Option<Mode>,
    /// The first that holds comes before `mode`.
    pub(crate) mode_at: Vec<ModeAt>,
    pub(crate) framing: Option<Framing>,
    /// Never shape to less, and to more.
    pub(crate) min: Option<PerDirection<Rate>>,
    pub(crate) max: Option<PerDirection<Rate>>,
    /// What `run` probes, the first that answers.
    pub(crate) targets: Vec<Host>,
    /// How much its probes may take in a month.
    pub(crate) probe_budget: Option<ProbeBudget>,
    /// How much the line and devices on our side may use before it is said.
    pub(crate) budgets: Budgets,
    /// Whether queues behind the gateway are held short.
    pub(crate) lan: Option<bool>,
}

impl LineConfig {
    /// The mode in this minute of the week.
    pub(crate) fn mode_in(&self, minute: u16) -> Option<Mode> {
        let timed = self.mode_at.iter().find(|m| m.when.holds(minute));
        timed.map(|m| m.mode).or(self.mode)
    }
}

/// Who may read pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Who can connect.
    #[default]
    Anyone,
    /// Who has the token.
    Token,
}

impl FromStr for Reads {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "anyone" => Ok(Reads::Anyone),
            "token" => Ok(Reads::Token),
            _ => Err("is neither \"anyone\" nor \"token\""),
        }
    }
}

/// What it says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Config {
    /// Which flows are urgent, in order.
    pub(crate) rules: Vec<FlowRule>,
    /// The devices that lead to the Internet.
    pub(crate) devices: Vec<String>,
    /// What holds for each that has nothing of its own.
    pub(crate) line: LineConfig,
    /// What holds for one.
    pub(crate) lines: Vec<(String, LineConfig)>,
    /// Whether others on the LAN who look after the same line are met, and what they know beside it.
    pub(crate) cooperate: Option<bool>,
    pub(crate) secret: String,
    /// What is in force stays when `run` ends.
    pub(crate) keep: bool,
    /// Where pages are served.
    pub(crate) http: Option<SocketAddr>,
    /// What this machine is called by those who look at them.
    pub(crate) http_names: Vec<String>,
    /// Without it: on loopback anyone, elsewhere who has the token.
    pub(crate) http_read: Option<Reads>,
    /// Whom Home Assistant listens to.
    pub(crate) mqtt: Option<String>,
}

impl Config {
    /// Reads a file; one that is not there says nothing.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text)
                .map_err(|e| Failure::usage(format_args!("{}: {e}", path.display()))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(Failure::work(format_args!("read {}: {e}", path.display()))),
        }
    }

    /// What holds for a device.
    pub(crate) fn of(&self, device: &str) -> &LineConfig {
        let own = self.lines.iter().find(|(d, _)| d == device);
        own.map_or(&self.line, |(_, line)| line)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let form: Form = toml::from_str(text).map_err(|e: toml::de::Error| {
            let at = e.span().map_or(0, |s| s.start);
            format!("{}: {}", place(text, at), e.message())
        })?;
        let all = Text(text);
        let usual = LineConfig {
            mode: all.one("mode", form.mode.as_ref())?,
            framing: all.one("framing", form.framing.as_ref())?,
            min: all.rates("min", form.min.as_ref())?,
            max: all.rates("max", form.max.as_ref())?,
            targets: all.list("target", &form.targets)?,
            probe_budget: all.one("probe_budget", form.probe_budget.as_ref())?,
            mode_at: all.list("mode_at", &form.mode_at)?,
            budgets: all.one("budget", form.budget.as_ref())?.unwrap_or_default(),
            lan: form.lan,
        };
        let mut devices = match form.device {
            None => Vec::new(),
            Some(OneOrMore::One(device)) => vec![device],
            Some(OneOrMore::More(devices)) => devices,
        };
        let mut lines: Vec<(String, LineConfig)> = Vec::new();
        for own in &form.line {
            let device = own.device.get_ref().clone();
            if lines.iter().any(|(d, _)| *d == device) {
                let at = place(text, own.device.span().start);
                return Err(format!("{at}: {device} has a [[line]] already"));
            }
            lines.push((device.clone(), all.line(own, &usual)?));
            devices.push(device);
        }
        let mut once: Vec<String> = Vec::new();
        for device in devices {
            if !once.contains(&device) {
                once.push(device);
            }
        }
        if let Some(url) = &form.mqtt
            && !url.get_ref().starts_with("mqtt://")
        {
            let at = place(text, url.span().start);
            return Err(format!("{at}: mqtt does not begin with mqtt://"));
        }
        Ok(Config {
            rules: all.rules(&form.rules)?,
            devices: once,
            line: usual,
            lines,
            cooperate: form.cooperate,
            secret: form.secret,
            keep: form.keep,
            http: all.one("http", form.http.as_ref())?,
            http_names: form.http_names,
            http_read: all.one("http_read", form.http_read.as_ref())?,
            mqtt: form.mqtt.map(Spanned::into_inner),
        })
    }
}

/// A place in the file: its line and the character in it, both from 1.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {line}, column {column}")
}

/// Where the word stands that `why` begins with, in a value that begins at `at`.
fn word(text: &str, at: usize, value: &str, why: &str) -> usize {
    let quoted = why.strip_prefix('"').and_then(|w| w.split('"').next());
    let in_value = quoted.and_then(|w| value.find(w));
    // Behind the quote, and where nothing is escaped.
    let inner = text.get(at..).and_then(|t| t.find(value));
    match (in_value, inner) {
        (Some(n), Some(inner)) => at + inner + n,
        _ => at,
    }
}

/// The file, for the lines of what is wrong in it.
struct Text<'a>(&'a str);

impl Text<'_> {
    /// What one line has of its own, and for the rest what is usual.
    fn line(&self, own: &LineForm, usual: &LineConfig) -> Result<LineConfig, String> {
        let targets = self.list("target", &own.targets)?;
        let mode_at: Vec<ModeAt> = self.list("mode_at", &own.mode_at)?;
        Ok(LineConfig {
            mode_at: if mode_at.is_empty() && own.mode.is_none() {
                usual.mode_at.clone()
            } else {
                mode_at
            },
            budgets: self
                .one("budget", own.budget.as_ref())?
                .unwrap_or_else(|| usual.budgets.clone()),
            mode: self.one("mode", own.mode.as_ref())?.or(usual.mode),
            framing: self.one("framing", own.framing.as_ref())?.or(usual.framing),
            min: self.rates("min", own.min.as_ref())?.or(usual.min),
            max: self.rates("max", own.max.as_ref())?.or(usual.max),
            probe_budget: self
                .one("probe_budget", own.probe_budget.as_ref())?
                .or(usual.probe_budget),
            lan: own.lan.or(usual.lan),
            targets: if targets.is_empty() {
                usual.targets.clone()
            } else {
                targets
            },
        })
    }

    /// What is wrong with a rule does not repeat it.
    fn rules(&self, rules: &[Spanned<String>]) -> Result<Vec<FlowRule>, String> {
        let parsed = rules
            .iter()
            .map(|r| self.value(&format!("rule {:?}:", r.get_ref()), r));
        let parsed: Vec<FlowRule> = parsed.collect::<Result<_, _>>()?;
        check(&parsed).map_err(|(n, why)| {
            let at = place(self.0, rules[n].span().start);
            format!("{at}: rule {:?}: {why}", rules[n].get_ref())
        })?;
        Ok(parsed)
    }

    fn value<T: FromStr<Err: Display>>(
        &self,
        what: &str,
        value: &Spanned<String>,
    ) -> Result<T, String> {
        let text = value.get_ref();
        let parsed = text.parse();
        parsed.map_err(|e: T::Err| {
            let why = e.to_string();
            let at = word(self.0, value.span().start, text, &why);
            format!("{}: {what} {why}", place(self.0, at))
        })
    }

    fn list<T: FromStr<Err: Display>>(
        &self,
        what: &str,
        values: &[Spanned<String>],
    ) -> Result<Vec<T>, String> {
        values.iter().map(|v| self.value(what, v)).collect()
    }

    fn one<T: FromStr<Err: Display>>(
        &self,
        what: &str,
        value: Option<&Spanned<String>>,
    ) -> Result<Option<T>, String> {
        value.map(|v| self.value(what, v)).transpose()
    }

    /// Two rates, as they are typed.
    fn rates(
        &self,
        what: &str,
        values: Option<&[Spanned<String>; 2]>,
    ) -> Result<Option<PerDirection<Rate>>, String> {
        let Some([down, up]) = values else {
            return Ok(None);
        };
        Ok(Some(PerDirection {
            down: self.value(what, down)?,
            up: self.value(what, up)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_in_order() {
        let config = Config::parse("rules = [\n  'voice udp port 5060',\n  'bulk',\n]\n").unwrap();
        let words: Vec<_> = config.rules.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["voice udp port 5060", "bulk"]);
        assert_eq!(Config::parse("").unwrap(), Config::default());
        let targets = Config::parse("targets = ['192.0.2.1', 'gw.example']").unwrap();
        assert_eq!(targets.line.targets.len(), 2);
    }

    #[test]
    fn what_run_is_told() {
        let text = "device = 'ppp0'\nmode = 'bandwidth'\nframing = 'pppoe-ptm'\n\
                    min = ['8mbit', '1mbit']\nmax = ['100mbit', '40mbit']\n";
        let told = Config::parse(text).unwrap();
        assert_eq!(told.devices, ["ppp0"]);
        assert_eq!(told.line.mode, Some(Mode::Bandwidth));
        assert_eq!(told.line.framing, Some("pppoe-ptm".parse().unwrap()));
        let mbit = |down, up| {
            let [down, up] = [down, up].map(|m: u64| Rate::from_kbit(m * 1000));
            Some(PerDirection { down, up })
        };
        assert_eq!((told.line.min, told.line.max), (mbit(8, 1), mbit(100, 40)));
    }

    /// `packaging/evenkeel.toml` has every setting, commented out; uncommented it is right.
    #[test]
    fn the_shipped_file_has_every_setting() {
        let shipped = include_str!("../../../packaging/evenkeel.toml");
        assert_eq!(Config::parse(shipped).unwrap(), Config::default());
        // Prose has a space behind its `#`, settings have none.
        let is_setting = |l: &&str| l.starts_with('#') && !l.starts_with("# ") && *l != "#";
        let settings: Vec<&str> = shipped.lines().filter(is_setting).collect();
        let text = settings.iter().map(|l| l[1..].to_owned() + "\n");
        let told = Config::parse(&text.collect::<String>()).unwrap();
        assert!(!told.rules.is_empty() && !told.line.targets.is_empty());
        let mut keys: Vec<String> = settings
            .iter()
            .filter_map(|l| Some(l[1..].split_once(" = ")?.0.to_owned()))
            .collect();
        // The parser names those that there are.
        let unknown = Config::parse("nonsense = 1").unwrap_err();
        let (_, known) = unknown.split_once("expected one of ").unwrap();
        let mut known: Vec<&str> = known.split(", ").map(|k| k.trim_matches('`')).collect();
        // Its example is prose, since its settings are those above once more.
        assert!(shipped.contains("# [[line]]"));
        keys.push("line".to_owned());
        keys.sort();
        known.sort_unstable();
        assert_eq!(keys, known);
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        for (text, line, named) in [
            ("rules = [\n'voice',\n'voip'\n]", "line 3", "no tier"),
            ("\nrule = []", "line 2", "unknown field"),
            ("rules = 'voice'", "line 1", "expected"),
            ("rules = [", "line 1", ""),
            ("rules = [7]", "line 1", "expected"),
            ("\nmode = 'fast'", "line 2", "mode \"fast\" is neither"),
            ("framing = 'adsl'", "line 1", "framing "),
            ("min = ['1mbit']", "line 1", "length"),
            ("max = [\n'1mbit',\n'0']", "line 3", "max "),
            ("http = 'here'", "line 1", "http "),
            ("\nhttp_read = 'me'", "line 2", "neither"),
            ("cooperate = 'yes'", "line 1", "boolean"),
            ("budget = '5GB'", "line 1, column 11", "budget \"5GB\""),
            (
                "\nbudget = '5 GB/month, host tv 2h'",
                "line 2, column 31",
                "\"2h\"",
            ),
            ("budget = 'host tv'", "line 1", "like \"host tv 2h/day\""),
            ("mqtt = 'http://x'", "line 1", "mqtt://"),
            ("[[line]]\nmode = 'ping'", "line 1", "device"),
            ("[[line]]\ndevice = 'a'\nmode = 'fast'", "line 3", "fast"),
            (
                "[[line]]\ndevice = 'a'\n[[line]]\ndevice = 'a'",
                "line 4",
                "already",
            ),
            (
                "targets = [\n'a',\n'b c',\n]",
                "line 3",
                "target \"b c\" is neither",
            ),
        ] {
            let e = Config::parse(text).unwrap_err();
            assert!(e.starts_with(line) && e.contains(named), "{text}: {e}");
        }
    }

    #[test]
    fn several_lines() {
        let text = "device = ['eth0', 'wwan0']\nmode = 'bandwidth'\n[[line]]\ndevice = 'wwan0'\n\
                    mode = 'ping'\n[[line]]\ndevice = 'ppp0'\nmax = ['9mbit', '1mbit']\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.devices, ["eth0", "wwan0", "ppp0"]);
        assert_eq!(config.of("eth0").mode, Some(Mode::Bandwidth));
        assert_eq!(config.of("wwan0").mode, Some(Mode::Ping));
        assert!(config.of("ppp0").max.is_some() && config.of("ppp0").mode == Some(Mode::Bandwidth));
        assert_eq!(
            Config::parse("http = '127.0.0.1:8017'")
                .unwrap()
                .http
                .unwrap()
                .port(),
            8017
        );
    }

    #[test]
    fn budgets_of_the_line_and_of_hosts() {
        let text = "budget = '500 GB/month'\n[[line]]\ndevice = 'a'\n[[line]]\ndevice = 'b'\n\
                    budget = '3 h/day, host tv 100 GB/month'";
        let config = Config::parse(text).unwrap();
        let of = |device: &str| -> Vec<String> {
            let all = config.of(device).budgets.0.iter();
            all.map(ToString::to_string).collect()
        };
        assert_eq!(of("a"), ["500GB/month"]);
        assert_eq!(of("b"), ["3h/day", "host tv 100GB/month"]);
    }

    #[test]
    fn no_file_says_nothing() {
        let dir = std::env::temp_dir().join("evenkeel-no-such-directory");
        assert_eq!(
            Config::load(&dir.join("x.toml")).unwrap(),
            Config::default()
        );
    }
}
