//! `/etc/evenkeel.toml`: what a person wants on this machine, whatever is typed.
//!
//! Principles: it may be absent; a file that is wrong is refused whole, with the line; what is
//! typed comes first. Non-goals: rates and framing of lines (they are told, or learned).

use std::fs;
use std::io;
use std::path::Path;

use evenkeel_autorate::Host;
use evenkeel_core::rules::FlowRule;
use evenkeel_terminal::Failure;
use serde::Deserialize;
use toml::Spanned;

/// Where it is unless told otherwise.
pub(crate) const PATH: &str = "/etc/evenkeel.toml";

/// The file's form.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    /// `"voice udp port 3478-3481"` and so on, in order.
    #[serde(default)]
    rules: Vec<Spanned<String>>,
    /// `"192.0.2.1"`, `"gw.example"`: what `run` probes, the first that answers.
    #[serde(default)]
    targets: Vec<Spanned<String>>,
}

/// What it says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Config {
    pub(crate) rules: Vec<FlowRule>,
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
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let form: Form = toml::from_str(text).map_err(|e: toml::de::Error| {
            let at = e.span().map_or(0, |s| s.start);
            format!("line {}: {}", line(at), e.message())
        })?;
        let rules = form.rules.iter().map(|r| {
            let parsed = r.get_ref().parse::<FlowRule>();
            parsed
                .map_err(|e| format!("line {}: rule {:?}: {e}", line(r.span().start), r.get_ref()))
        });
        let targets = form.targets.iter().map(|t| {
            let parsed = t.get_ref().parse::<Host>();
            parsed.map_err(|e| format!("line {}: target {e}", line(t.span().start)))
        });
        Ok(Config {
            rules: rules.collect::<Result<_, _>>()?,
            targets: targets.collect::<Result<_, _>>()?,
        })
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
    fn what_is_wrong_has_its_line() {
        for (text, line, named) in [
            ("rules = [\n'voice',\n'voip'\n]", "line 3", "no tier"),
            ("\nrule = []", "line 2", "unknown field"),
            ("rules = 'voice'", "line 1", "expected"),
            ("rules = [", "line 1", ""),
            ("rules = [7]", "line 1", "expected"),
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
