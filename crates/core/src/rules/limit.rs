//! How much some flows may have together, and what they always get: `max 20%`, `min 2mbit/1mbit`.
//!
//! Principles: at the link layer, as all rates; a share is of what the direction is shaped to now; one value is for both
//! directions, two are towards us and from us. Non-goals: how it is kept (`plan::htb`).

use std::fmt;
use std::str::FromStr;

use crate::{PerDirection, Rate};

/// A rate, or a share of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// So much.
    Rate(Rate),
    /// So many thousandths.
    Permille(u16),
}

impl Amount {
    /// What it is of `rate`, and no more than that.
    pub fn of(self, rate: Rate) -> Rate {
        match self {
            Amount::Rate(own) => own.min(rate),
            Amount::Permille(share) => rate.permille(share.min(1000).into()),
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(share) = text.strip_suffix('%') else {
            return match text.parse::<Rate>() {
                Ok(rate) if rate.bps() >= 1000 => Ok(Amount::Rate(rate)),
                _ => Err(format!("{text:?} is neither a rate nor a share like 20%")),
            };
        };
        // Tenths of a per cent are enough.
        let (whole, tenths) = share.split_once('.').unwrap_or((share, "0"));
        let digits = |t: &str| {
            t.parse::<u16>()
                .ok()
                .filter(|_| t.bytes().all(|b| b.is_ascii_digit()))
        };
        match (digits(whole), digits(tenths)) {
            (Some(whole @ 0..=100), Some(tenths @ 0..=9))
                if (1..=1000).contains(&(10 * whole + tenths)) =>
            {
                Ok(Amount::Permille(10 * whole + tenths))
            }
            _ => Err(format!("{text:?} is not between 0.1% and 100%")),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Rate(rate) => write!(f, "{rate}"),
            Amount::Permille(n) if n % 10 == 0 => write!(f, "{}%", n / 10),
            Amount::Permille(n) => write!(f, "{}.{}%", n / 10, n % 10),
        }
    }
}

/// A ceiling, a guarantee, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// Never more.
    pub max: Option<PerDirection<Amount>>,
    /// Always so much, if it is wanted.
    pub min: Option<PerDirection<Amount>>,
}

/// One value for both directions, or two: towards us and from us.
pub(super) fn pair(text: &str) -> Result<PerDirection<Amount>, String> {
    let (down, up) = text.split_once('/').unwrap_or((text, text));
    Ok(PerDirection {
        down: down.parse()?,
        up: up.parse()?,
    })
}

/// In the form that is read, with a space before.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, amount) in [("max", self.max), ("min", self.min)] {
            match amount {
                Some(both) if both.down == both.up => write!(f, " {word} {}", both.down)?,
                Some(both) => write!(f, " {word} {}/{}", both.down, both.up)?,
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for text in ["20%", "0.1%", "12.5%", "100%", "15mbit"] {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), text);
        }
        for text in [
            "", "%", "0%", "0.0%", "100.1%", "1.25%", "-5%", "+5%", "x", "0mbit",
        ] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
        let line = Rate::from_kbit(10_000);
        assert_eq!(Amount::Permille(125).of(line), Rate::from_kbit(1250));
        assert_eq!(Amount::Rate(Rate::from_kbit(20_000)).of(line), line);
    }
}
