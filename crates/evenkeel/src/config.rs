//! `/etc/evenkeel.toml`: what a person wants on this machine, whatever is typed.
//!
//! Principles: it may be absent; a file that is wrong is refused whole, with the line; what is
//! typed comes first. Non-goals: rates of lines (they are told, or learned).

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use evenkeel_autorate::Host;
use evenkeel_core::plan::Mode;
use evenkeel_core::rules::FlowRule;
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
    device: Option<String>,
    mode: Option<Spanned<String>>,
    framing: Option<Spanned<String>>,
    /// Towards us, from us; so is `max`.
    min: Option<[Spanned<String>; 2]>,
    max: Option<[Spanned<String>; 2]>,
    #[serde(default)]
    targets: Vec<Spanned<String>>,
}

/// What it says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Config {
    /// Which flows are urgent, in order.
    pub(crate) rules: Vec<FlowRule>,
    /// The device that leads to the Internet.
    pub(crate) device: Option<String>,
    pub(crate) mode: Option<Mode>,
    pub(crate) framing: Option<Framing>,
    /// Never shape to less, and to more.
    pub(crate) min: Option<PerDirection<Rate>>,
    pub(crate) max: Option<PerDirection<Rate>>,
    /// What `run` probes, the first that answers.
    pub(crate) targets: Vec<Host>,
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

    fn parse(text: &str) -> Result<Self, String> {
        let form: Form = toml::from_str(text).map_err(|e: toml::de::Error| {
            let at = e.span().map_or(0, |s| s.start);
            format!("line {}: {}", line(text, at), e.message())
        })?;
        let all = Text(text);
        Ok(Config {
            rules: all.rules(&form.rules)?,
            device: form.device,
            mode: all.one("mode", form.mode.as_ref())?,
            framing: all.one("framing", form.framing.as_ref())?,
            min: all.rates("min", form.min.as_ref())?,
            max: all.rates("max", form.max.as_ref())?,
            targets: all.list("target", &form.targets)?,
        })
    }
}

/// The line of a place in the file, from 1.
fn line(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// The file, for the lines of what is wrong in it.
struct Text<'a>(&'a str);

impl Text<'_> {
    /// What is wrong with a rule does not repeat it.
    fn rules(&self, rules: &[Spanned<String>]) -> Result<Vec<FlowRule>, String> {
        let parsed = rules
            .iter()
            .map(|r| self.value(&format!("rule {:?}:", r.get_ref()), r));
        parsed.collect()
    }

    fn value<T: FromStr<Err: Display>>(
        &self,
        what: &str,
        value: &Spanned<String>,
    ) -> Result<T, String> {
        let text = value.get_ref();
        let parsed = text.parse();
        parsed.map_err(|e| {
            let line = line(self.0, value.span().start);
            format!("line {line}: {what} {e}")
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
        assert_eq!(targets.targets.len(), 2);
    }

    #[test]
    fn what_run_is_told() {
        let text = "device = 'ppp0'\nmode = 'bandwidth'\nframing = 'pppoe-ptm'\n\
                    min = ['8mbit', '1mbit']\nmax = ['100mbit', '40mbit']\n";
        let told = Config::parse(text).unwrap();
        assert_eq!(told.device.as_deref(), Some("ppp0"));
        assert_eq!(told.mode, Some(Mode::Bandwidth));
        assert_eq!(told.framing, Some("pppoe-ptm".parse().unwrap()));
        let mbit = |down, up| {
            let [down, up] = [down, up].map(|m: u64| Rate::from_kbit(m * 1000));
            Some(PerDirection { down, up })
        };
        assert_eq!((told.min, told.max), (mbit(8, 1), mbit(100, 40)));
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
        assert!(!told.rules.is_empty() && !told.targets.is_empty());
        let mut keys: Vec<String> = settings
            .iter()
            .filter_map(|l| Some(l[1..].split_once(" = ")?.0.to_owned()))
            .collect();
        // The parser names those that there are.
        let unknown = Config::parse("nonsense = 1").unwrap_err();
        let (_, known) = unknown.split_once("expected one of ").unwrap();
        let mut known: Vec<&str> = known.split(", ").map(|k| k.trim_matches('`')).collect();
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
    fn no_file_says_nothing() {
        let dir = std::env::temp_dir().join("evenkeel-no-such-directory");
        assert_eq!(
            Config::load(&dir.join("x.toml")).unwrap(),
            Config::default()
        );
    }
}
