//! Rates and directions as types, with the spellings people use for them.
//!
//! Principles: a rate is never a bare integer; what `Display` prints, `FromStr` reads back to
//! the same value; a value that cannot be a line's rate is refused with its text.
//! Non-goals: durations (`std::time::Duration` does) and arbitrary units.

mod direction;
pub mod rounded;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use direction::{Direction, PerDirection};

/// A rate in bit/s. At the link layer (framing included) unless a name says goodput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

/// Why a text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a rate: {why} (write 100mbit, 40143kbit, or a bare number of kbit/s)")]
pub struct RateError {
    text: String,
    why: &'static str,
}

impl Rate {
    /// Below 8 kbit/s one full packet takes more than a second: nothing can be kept responsive.
    pub const MIN: Rate = Rate(8_000);
    /// 400 Gbit/s, far above what one shaper can do; more is a slip of the unit.
    pub const MAX: Rate = Rate(400_000_000_000);

    /// A rate of `v` bit/s.
    pub const fn from_bps(v: u64) -> Self {
        Rate(v)
    }

    /// A rate of `v` kbit/s (1000 bit/s).
    pub const fn from_kbit(v: u64) -> Self {
        Rate(v * 1000)
    }

    /// In bit/s.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// In kbit/s, rounded down.
    pub const fn kbit(self) -> u64 {
        self.0 / 1000
    }

    /// In byte/s, rounded down, the unit of the kernel's shapers.
    pub const fn bytes_per_sec(self) -> u64 {
        self.0 / 8
    }

    /// `permille` thousandths of this rate, rounded down.
    #[must_use]
    pub const fn permille(self, permille: u64) -> Self {
        Rate((self.0 as u128 * permille as u128 / 1000) as u64)
    }

    /// `n` ten-thousandths of this rate, rounded down.
    #[must_use]
    pub const fn per_ten_thousand(self, n: u64) -> Self {
        Rate((self.0 as u128 * n as u128 / 10_000) as u64)
    }

    /// The time that `bytes` take on the wire, rounded up to a nanosecond. Zero rate: `None`.
    pub fn time_for(self, bytes: u64) -> Option<Duration> {
        if self.0 == 0 {
            return None;
        }
        let ns = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Some(Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// The bytes that pass in `time`, rounded down.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bits = u128::from(self.0) * time.as_nanos() / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    /// The largest of gbit, mbit, kbit and bit that loses nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.0;
        let (n, unit) = match v {
            0 => (0, "bit"),
            v if v % 1_000_000_000 == 0 => (v / 1_000_000_000, "gbit"),
            v if v % 1_000_000 == 0 => (v / 1_000_000, "mbit"),
            v if v % 1000 == 0 => (v / 1000, "kbit"),
            v => (v, "bit"),
        };
        f.pad(&format!("{n}{unit}"))
    }
}

impl FromStr for Rate {
    type Err = RateError;

    /// `100mbit`, `1.5mbit`, `40143kbit`, `2gbit`, `800000bit`; a bare number is kbit/s.
    /// `mbps` and the like, which tc reads as bytes, are refused rather than guessed at.
    fn from_str(text: &str) -> Result<Self, RateError> {
        let err = |why| RateError {
            text: text.to_owned(),
            why,
        };
        let lower = text.trim().to_ascii_lowercase();
        let split = lower
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(lower.len());
        let (number, unit) = lower.split_at(split);
        if number.is_empty() {
            return Err(err(if lower.starts_with('-') {
                "it is negative"
            } else {
                "it does not start with a number"
            }));
        }
        let scale: u64 = match unit.trim_start() {
            "" | "kbit" | "kbit/s" => 1_000,
            "bit" | "bit/s" => 1,
            "mbit" | "mbit/s" => 1_000_000,
            "gbit" | "gbit/s" => 1_000_000_000,
            "bps" | "kbps" | "mbps" | "gbps" => {
                return Err(err("bps means bytes to tc and bits to others"));
            }
            _ => return Err(err("the unit is none of bit, kbit, mbit, gbit")),
        };
        let bps = decimal(number, scale).ok_or_else(|| err("the number cannot be read"))?;
        match bps {
            0 => Err(err("it is zero")),
            b if b < u128::from(Rate::MIN.0) => Err(err("it is below 8kbit")),
            b if b > u128::from(Rate::MAX.0) => Err(err("it is above 400gbit")),
            b => Ok(Rate(b as u64)),
        }
    }
}

/// `digits[.digits]` times `scale`, exactly; at most nine decimals count.
fn decimal(text: &str, scale: u64) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || whole.len() > 18 || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let mut value = whole.parse::<u128>().ok()? * u128::from(scale);
    if !fraction.is_empty() {
        let part = fraction.parse::<u128>().ok()? * u128::from(scale);
        value += part / 10u128.pow(u32::try_from(fraction.len()).ok()?);
    }
    Some(value)
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    /// A string as on the command line, or an integer of kbit/s.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl serde::de::Visitor<'_> for V {
            type Value = Rate;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rate like \"100mbit\" or a number of kbit/s")
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Rate, E> {
                v.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Rate, E> {
                self.visit_str(&v.to_string())
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Rate, E> {
                self.visit_str(&v.to_string())
            }
        }
        d.deserialize_any(V)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings() {
        for (text, bps) in [
            ("100mbit", 100_000_000),
            ("1.5mbit", 1_500_000),
            ("40143kbit", 40_143_000),
            ("40143", 40_143_000),
            ("109341.5", 109_341_500),
            ("2gbit/s", 2_000_000_000),
            (" 10 Mbit ", 10_000_000),
            ("8kbit", 8_000),
        ] {
            assert_eq!(text.parse::<Rate>().map(Rate::bps), Ok(bps), "{text}");
        }
    }

    #[test]
    fn refused_with_a_reason() {
        for (text, why) in [
            ("0", "zero"),
            ("-5", "negative"),
            ("7kbit", "below"),
            ("900gbit", "above"),
            ("99999999999999999999", "cannot be read"),
            ("10mbps", "bytes to tc"),
            ("10parsec", "unit"),
            ("mbit", "number"),
            ("", "number"),
            ("1.2.3", "cannot be read"),
            ("٣mbit", "number"),
        ] {
            let e = text.parse::<Rate>().unwrap_err().to_string();
            assert!(e.contains(why), "{text}: {e}");
        }
    }

    #[test]
    fn parts_and_units() {
        let rate = Rate::from_kbit(1_501);
        assert_eq!(
            (rate.bps(), rate.kbit(), rate.bytes_per_sec()),
            (1_501_000, 1_501, 187_625)
        );
        // Rounded down.
        assert_eq!(Rate::from_bps(1_999).kbit(), 1);
        assert_eq!(Rate::from_bps(1_999).permille(500).bps(), 999);
        assert_eq!(rate.per_ten_thousand(9_965), Rate::from_bps(1_495_746));
        assert_eq!(Rate::MAX.permille(2_000).bps(), 800_000_000_000);
        // Rounded up, and down.
        let third = Rate::from_bps(24_000);
        assert_eq!(third.time_for(1), Some(Duration::from_nanos(333_334)));
        assert_eq!(third.bytes_in(Duration::from_nanos(333_333)), 0);
        assert_eq!(third.bytes_in(Duration::from_millis(1)), 3);
        assert_eq!(Rate::from_bps(0).time_for(1), None);
    }

    #[test]
    fn shown_in_the_largest_unit_that_loses_nothing() {
        for (bps, text) in [
            (0, "0bit"),
            (12_345, "12345bit"),
            (12_000, "12kbit"),
            (1_500_000, "1500kbit"),
            (2_000_000, "2mbit"),
            (3_000_000_000, "3gbit"),
        ] {
            assert_eq!(Rate(bps).to_string(), text);
        }
        assert_eq!(format!("{:>8}|", Rate(12_000)), "  12kbit|");
    }

    #[test]
    fn files_have_texts_or_numbers() {
        for (json, bps) in [("\"1.5mbit\"", 1_500_000), ("40143", 40_143_000)] {
            let rate: Rate = serde_json::from_str(json).unwrap();
            assert_eq!(rate.bps(), bps);
        }
        assert!(serde_json::from_str::<Rate>("-1").is_err());
        assert_eq!(serde_json::to_string(&Rate(12_000)).unwrap(), "\"12kbit\"");
    }

    #[test]
    fn limits_and_decimals() {
        assert_eq!("400gbit".parse::<Rate>(), Ok(Rate::MAX));
        assert_eq!("0.000008gbit".parse::<Rate>(), Ok(Rate::MIN));
        assert_eq!(
            "8.000999bit".parse::<Rate>().map_err(|e| e.why),
            Err("it is below 8kbit")
        );
        assert_eq!("8000.9bit".parse::<Rate>().map(Rate::bps), Ok(8_000));
        assert!("1.1234567890mbit".parse::<Rate>().is_err());
        assert!("1.123456789mbit".parse::<Rate>().is_ok());
        assert!(".5mbit".parse::<Rate>().is_err());
        // 18 digits are read, more are not.
        assert_eq!("000000000000008000bit".parse(), Ok(Rate::MIN));
        assert!("0000000000000008000bit".parse::<Rate>().is_err());
    }

    proptest! {
        #[test]
        fn display_reads_back(bps in Rate::MIN.0..=Rate::MAX.0) {
            prop_assert_eq!(Rate(bps).to_string().parse(), Ok(Rate(bps)));
        }

        #[test]
        fn never_panics(text in ".{0,40}") {
            let _ = text.parse::<Rate>();
        }

        #[test]
        fn time_and_bytes_agree(bps in Rate::MIN.0..=Rate::MAX.0, bytes in 0u64..1 << 40) {
            let back = Rate(bps).bytes_in(Rate(bps).time_for(bytes).unwrap());
            prop_assert!(back >= bytes && back <= bytes + 1 + bps / 8_000_000_000, "{} {}", bytes, back);
        }
    }
}
