//! So many bytes in a month: `500 GB/month`.
//!
//! Non-goals: who counts them (`evenkeel_history::usage`).

use std::fmt;
use std::str::FromStr;

/// Bytes in a month, both directions together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Volume(pub u64);

/// Units, the largest first.
const UNITS: [(&str, u64); 4] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
];

impl FromStr for Volume {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let amount = text.strip_suffix("/month")?.trim_end();
            let (unit, bytes) = UNITS.into_iter().find(|(unit, _)| amount.ends_with(unit))?;
            let number = amount.strip_suffix(unit)?.trim_end();
            let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
            let number: u64 = number.parse().ok().filter(|_| digits)?;
            number.checked_mul(bytes).filter(|n| *n > 0)
        };
        let wrong = || format!("{text:?} is not like 500GB/month (kB, MB, GB, TB)");
        parsed().map(Volume).ok_or_else(wrong)
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS
            .into_iter()
            .find(|(_, bytes)| self.0.is_multiple_of(*bytes));
        let (unit, bytes) = whole.unwrap_or(("kB", 1000));
        write!(f, "{}{unit}/month", self.0 / bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for text in ["500GB/month", "2TB/month", "1500MB/month", "7kB/month"] {
            assert_eq!(text.parse::<Volume>().unwrap().to_string(), text);
        }
        assert_eq!("500 GB/month".parse(), Ok(Volume(500_000_000_000)));
        for text in [
            "",
            "GB/month",
            "500GB",
            "500 GiB/month",
            "-5GB/month",
            "+5GB/month",
            "0GB/month",
            "99999999TB/month",
        ] {
            assert!(text.parse::<Volume>().is_err(), "{text}");
        }
    }
}
