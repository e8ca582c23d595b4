//! How long the packets of TCP connections are best on a line, and what that costs.
//!
//! A packet that is on the line holds up everything behind it, and acknowledgements that had to
//! wait for one let downloads go in bursts. Shorter ones carry more headers; but in cells a full
//! packet is rarely the one with the least: 1500 bytes and 40 of overhead begin a 33rd cell for 4
//! bytes.
//!
//! Principles: lengths are those of IP packets, so that IPv4 and IPv6 fill the line alike; in
//! cells only lengths that fill the last one; nothing is longer than it would be by itself.
//! Non-goals: other protocols, and writing sizes into SYNs (`mss.h` of crate `evenkeel-datapath`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::framing::Mode;
use crate::{Framing, Rate};

/// Headers of IPv4 and TCP, which a maximum segment size leaves out (RFC 9293, 3.7.1).
const HEADERS: u16 = 40;
/// Least length of a bounded packet: every host must take as much (RFC 9293, 3.7.1), and IPv6
/// has as much room for a segment.
const LEAST: u16 = 256;

/// Packets that take longer than this are worth shortening. In virtual time, four uploads and four
/// downloads: on 2304 kbit/s in cells 24 of them are 4.4 ms, and the increase falls from 21 ms to 13.
const LONG: Duration = Duration::from_micros(4500);
/// What may be given for it, per cent of the goodput with full packets. On 1171 kbit/s that is 17
/// cells, and 16 ms become 8; with 12, for 8 % of the upload, they become 6.
const WORTH: f64 = 3.0;
/// The same where arrivals are policed: who does that compares with gateways that fill the line, so
/// shorter packets must bring goodput.
const LONG_POLICED: Duration = Duration::from_millis(6);
const WORTH_POLICED: f64 = -1.0;

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mss {
    /// What is best on the line.
    #[default]
    Auto,
    /// As long as both ends like.
    Off,
    /// Segments of at most so many bytes over IPv4, over IPv6 20 less, in both directions.
    Bytes(u16),
}

impl FromStr for Mss {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "auto" => Ok(Mss::Auto),
            "off" => Ok(Mss::Off),
            _ => s
                .parse()
                .ok()
                .filter(|n| (LEAST - HEADERS..=u16::MAX - HEADERS).contains(n))
                .map(Mss::Bytes)
                .ok_or_else(|| {
                    format!(
                        "{s:?} is none of auto, off, and {} to {} bytes",
                        LEAST - HEADERS,
                        u16::MAX - HEADERS
                    )
                }),
        }
    }
}

/// Longest IP packets of new TCP connections in one direction, bytes; `None`: as long as both
/// ends like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Longest(pub Option<u16>);

impl Mss {
    /// For a direction of this rate and framing on which IP packets have up to `mtu` bytes;
    /// `policed`: what arrives cannot wait here.
    pub fn longest(self, rate: Rate, framing: Framing, mtu: u32, policed: bool) -> Longest {
        let longest = match self {
            Mss::Off => None,
            Mss::Bytes(n) => Some(n + HEADERS),
            Mss::Auto => best(rate, framing, mtu, policed),
        };
        Longest(longest.filter(|n| u32::from(*n) < mtu))
    }
}

/// The longest that does not take long, or else the shortest of those that are worth it.
fn best(rate: Rate, framing: Framing, mtu: u32, policed: bool) -> Option<u16> {
    let (long, worth) = if policed {
        (LONG_POLICED, WORTH_POLICED)
    } else {
        (LONG, WORTH)
    };
    let short = |length: u16| {
        let takes = rate.time_for(framing.wire_len(length.into()).into());
        takes.is_some_and(|t| t <= long)
    };
    let mtu = u16::try_from(mtu).ok()?;
    let atm = framing.mode == Mode::Atm;
    if short(mtu) && !atm {
        return None;
    }
    let mut worthy = (LEAST..=mtu)
        .filter(|n| !atm || (i32::from(*n) + i32::from(framing.overhead)) % 48 == 0)
        .filter(|n| Longest(Some(*n)).cost(framing, mtu.into()) <= worth);
    let shortest = worthy.next();
    worthy.rfind(|n| short(*n)).or(shortest)
}

impl Longest {
    /// What a full packet has then.
    pub fn packet(self, mtu: u32) -> u32 {
        self.0.map_or(mtu, |n| mtu.min(n.into()))
    }

    /// Goodput that shorter packets cost beside those of `mtu` bytes, per cent; below 0 if they
    /// bring some, because they fill cells.
    pub fn cost(self, framing: Framing, mtu: u32) -> f64 {
        100.0 * (1.0 - framing.efficiency(self.packet(mtu)) / framing.efficiency(mtu))
    }
}

impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(n) => write!(f, "{n} bytes"),
            None => f.write_str("any length"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn longest(mss: &str, kbit: u64, framing: &str, mtu: u32) -> Option<u16> {
        let mss: Mss = mss.parse().unwrap();
        let framing = framing.parse().unwrap();
        mss.longest(Rate::from_kbit(kbit), framing, mtu, false).0
    }

    #[test]
    fn slow_lines_have_short_packets() {
        // 17 cells are what 3 % buy; 24 take 4.4 ms; 32 are the best filled of a fast line.
        assert_eq!(longest("auto", 1171, "atm:40", 1500), Some(776));
        assert_eq!(longest("auto", 2304, "atm:40", 1500), Some(1112));
        assert_eq!(longest("auto", 21_181, "atm:40", 1500), Some(1496));
        assert_eq!(longest("auto", 21_181, "atm:44", 1492), None);
        assert_eq!(longest("auto", 2304, "none", 1500), Some(1296));
        assert_eq!(longest("auto", 40_143, "ptm:22", 1500), None);
        assert_eq!(longest("off", 128, "atm:40", 1500), None);
        assert_eq!(longest("1000", 109_341, "ptm:22", 1500), Some(1040));
        assert_eq!(longest("1460", 128, "atm:40", 1500), None);
    }

    #[test]
    fn policed_they_bring_goodput() {
        let longest = |kbit, framing: &str| {
            let framing = framing.parse().unwrap();
            Mss::Auto
                .longest(Rate::from_kbit(kbit), framing, 1500, true)
                .0
        };
        // 32 cells take 5.9 ms; 25 are the first that bring 1 %.
        assert_eq!(longest(2304, "atm:40"), Some(1496));
        assert_eq!(longest(1171, "atm:40"), Some(1160));
        assert_eq!(longest(21_181, "atm:40"), Some(1496));
        assert_eq!(longest(1171, "ptm:22"), None);
        assert_eq!(longest(1171, "none"), None);
    }

    #[test]
    fn what_it_costs() {
        let cost = |longest, framing: &str| {
            let cost = Longest(longest).cost(framing.parse().unwrap(), 1500);
            format!("{cost:.2}")
        };
        // (728 - 52) / (16 * 53) beside (1500 - 52) / (33 * 53).
        assert_eq!(cost(Some(728), "atm:40"), "3.71");
        assert_eq!(cost(Some(1496), "atm:40"), "-2.84");
        assert_eq!(cost(Some(1000), "none"), "1.80");
        assert_eq!(cost(None, "none"), "0.00");
    }

    #[test]
    fn words_and_the_least_and_most() {
        for (text, mss) in [
            ("auto", Mss::Auto),
            ("off", Mss::Off),
            ("216", Mss::Bytes(216)),
            ("65495", Mss::Bytes(65_495)),
        ] {
            assert_eq!(text.parse(), Ok(mss));
        }
        assert_eq!(Longest(Some(776)).to_string(), "776 bytes");
        assert_eq!(Longest(None).to_string(), "any length");
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["", "on", "-1", "215", "65496", "1460 bytes"] {
            let e = text.parse::<Mss>().unwrap_err();
            assert!(e.contains("216 to 65495"), "{e}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_longer_and_it_is_worth_it(
            kbit in 8u64..1_000_000,
            atm: bool,
            overhead in -14i16..60,
            mtu in 576u32..9000,
            policed: bool,
        ) {
            let mode = if atm { Mode::Atm } else { Mode::Ptm };
            let framing = Framing::new(mode, overhead, 0);
            let longest = Mss::Auto.longest(Rate::from_kbit(kbit), framing, mtu, policed);
            if let Some(n) = longest.0 {
                prop_assert!(u32::from(n) < mtu);
                prop_assert!(!atm || (i32::from(n) + i32::from(overhead)) % 48 == 0);
                let worth = if policed { WORTH_POLICED } else { WORTH };
                prop_assert!(longest.cost(framing, mtu) <= worth);
            }
        }
    }
}
