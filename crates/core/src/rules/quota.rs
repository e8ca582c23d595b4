//! So many bytes in a month, `500GB/month`, or so much time in a day, `2h/day`; and whose that is.
//!
//! Non-goals: who counts them (`evenkeel_history::usage`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How much there is in a month of the calendar or in a day of it, by the clock on the wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quota {
    /// Bytes in a month, both directions together.
    Volume(u64),
    /// Time in a day in which something is done.
    Time(Duration),
}

/// What was used of quotas so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes of this month.
    pub bytes: u64,
    /// Time of this day.
    pub time: Duration,
}

impl Used {
    /// Both together.
    pub fn add(&mut self, more: Used) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.time = self.time.saturating_add(more.time);
    }
}

impl Quota {
    /// How much of it was used, per cent, rounded down: from 100 on it is used up.
    pub fn percent(self, used: Used) -> u64 {
        let (used, of) = match self {
            Quota::Volume(bytes) => (used.bytes, bytes),
            Quota::Time(time) => (used.time.as_secs(), time.as_secs()),
        };
        let percent = u128::from(used) * 100 / u128::from(of.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    }
}

/// Units of a month, bytes, and of a day, seconds; the largest first.
const VOLUMES: [(&str, u64); 4] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
];
const TIMES: [(&str, u64); 2] = [("h", 3600), ("min", 60)];
/// A day has no more, seconds.
const DAY: u64 = 86_400;

/// A whole number and a unit.
fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim_end();
    let (unit, each) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?.trim_end();
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| digits)?;
    number.checked_mul(*each).filter(|n| *n > 0)
}

impl FromStr for Quota {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let volume = |text| amount(text, &VOLUMES).map(Quota::Volume);
        let time = |text| {
            let seconds = amount(text, &TIMES).filter(|s| *s <= DAY)?;
            Some(Quota::Time(Duration::from_secs(seconds)))
        };
        let quota = match (text.strip_suffix("/month"), text.strip_suffix("/day")) {
            (Some(text), _) => volume(text),
            (_, Some(text)) => time(text),
            _ => None,
        };
        quota.ok_or_else(|| {
            format!(
                "{text:?} is neither like 500GB/month (kB, MB, GB, TB) nor like 2h/day (h, min)"
            )
        })
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, units, period) = match self {
            Quota::Volume(bytes) => (*bytes, &VOLUMES[..], "month"),
            Quota::Time(time) => (time.as_secs(), &TIMES[..], "day"),
        };
        let whole = units.iter().find(|(_, each)| number.is_multiple_of(*each));
        let (unit, each) = whole.or(units.last()).copied().unwrap_or(("", 1));
        write!(f, "{}{unit}/{period}", number / each)
    }
}

/// A quota of the line's, or of one device on our side: `500 GB/month`, `host tv 2 h/day`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The device, as rules name it; without it the whole line.
    pub host: Option<String>,
    /// How much.
    pub quota: Quota,
}

impl Budget {
    /// In a sentence: `the budget of 500GB/month`, `tv's budget of 2h/day`.
    pub fn words(&self) -> String {
        match &self.host {
            Some(host) => format!("{host}'s budget of {}", self.quota),
            None => format!("the budget of {}", self.quota),
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (host, quota) = match text.strip_prefix("host ").map(str::trim_start) {
            None => (None, text),
            Some(rest) => {
                let (host, quota) = rest
                    .split_once(' ')
                    .ok_or_else(|| format!("{text:?} is not like \"host tv 2h/day\""))?;
                (Some(host.to_lowercase()), quota.trim_start())
            }
        };
        Ok(Budget {
            host,
            quota: quota.parse()?,
        })
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = &self.host {
            write!(f, "host {host} ")?;
        }
        write!(f, "{}", self.quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for text in [
            "500GB/month",
            "2TB/month",
            "1500MB/month",
            "7kB/month",
            "2h/day",
            "90min/day",
        ] {
            assert_eq!(text.parse::<Quota>().unwrap().to_string(), text);
        }
        assert_eq!("500 GB/month".parse(), Ok(Quota::Volume(500_000_000_000)));
        assert_eq!(
            "120 min/day".parse(),
            Ok(Quota::Time(Duration::from_secs(7200)))
        );
        for text in [
            "",
            "GB/month",
            "500GB",
            "500 GiB/month",
            "-5GB/month",
            "+5GB/month",
            "0GB/month",
            "99999999TB/month",
            "2h",
            "2h/month",
            "5GB/day",
            "25h/day",
            "0min/day",
            "h/day",
        ] {
            assert!(text.parse::<Quota>().is_err(), "{text}");
        }
    }

    #[test]
    fn whose() {
        let budget = |text: &str| text.parse::<Budget>();
        assert_eq!(
            budget("host TV  2 h/day").unwrap().to_string(),
            "host tv 2h/day"
        );
        assert_eq!(budget("500 GB/month").unwrap().host, None);
        assert_eq!(
            budget("host tv 2h/day").unwrap().words(),
            "tv's budget of 2h/day"
        );
        for text in ["host tv", "host", "tv 2h/day", "host 2h/day"] {
            assert!(budget(text).is_err(), "{text}");
        }
    }

    #[test]
    fn used_up_from_100_on() {
        let used = |bytes, minutes: u64| Used {
            bytes,
            time: Duration::from_secs(60 * minutes),
        };
        let (volume, time) = (Quota::Volume(1000), Quota::Time(Duration::from_secs(7200)));
        assert_eq!(volume.percent(used(999, 500)), 99);
        assert_eq!(volume.percent(used(1000, 0)), 100);
        assert_eq!(time.percent(used(9999, 96)), 80);
        assert_eq!(time.percent(used(9999, 120)), 100);
        assert_eq!(Quota::Volume(1).percent(used(u64::MAX, 0)), u64::MAX);
    }
}
