//! Which size each probe has: one for all, or a sweep.
//!
//! Principles: a sweep goes round, so that a disturbance meets every size alike; what no
//! datagram can hold is refused with its text. Non-goals: random sizes.

use std::str::FromStr;

/// Payload bytes of the probes, in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    from: u32,
    to: u32,
    step: u32,
}

/// Why a text is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a size: {why} (write 200, or FIRST:LAST:STEP for a sweep)")]
pub struct SizeError {
    text: String,
    why: String,
}

/// The most that an IPv4 datagram carries behind headers of 20 and 8 bytes.
pub const MAX_PAYLOAD: u32 = 65_507;
/// More sizes than this are no sweep but a slip.
const MAX_SIZES: u32 = 10_000;

impl Sizes {
    /// All alike.
    pub const fn fixed(size: u32) -> Self {
        Sizes {
            from: size,
            to: size,
            step: 1,
        }
    }

    /// How many there are.
    pub const fn count(self) -> u32 {
        (self.to - self.from) / self.step + 1
    }

    /// More than one.
    pub const fn is_sweep(self) -> bool {
        self.to > self.from
    }

    /// Of probe `seq`.
    pub fn of(self, seq: u64) -> u32 {
        self.from + (seq % u64::from(self.count())) as u32 * self.step
    }

    /// The largest.
    pub fn largest(self) -> u32 {
        self.from + (self.count() - 1) * self.step
    }

    /// Sizes of IP packets turned into those of their payloads, `headers` bytes less.
    pub fn without(self, headers: u32) -> Result<Self, SizeError> {
        let less = |v: u32| {
            v.checked_sub(headers).ok_or_else(|| SizeError {
                text: v.to_string(),
                why: format!("the headers alone take {headers} bytes"),
            })
        };
        Ok(Sizes {
            from: less(self.from)?,
            to: less(self.to)?,
            step: self.step,
        })
    }
}

impl FromStr for Sizes {
    type Err = SizeError;

    /// `200`, or `100:1400:50`.
    fn from_str(text: &str) -> Result<Self, SizeError> {
        let err = |why: &str| SizeError {
            text: text.to_owned(),
            why: why.to_owned(),
        };
        let number = |s: &str| match s.parse::<u32>() {
            Ok(v) if v <= MAX_PAYLOAD + 28 => Ok(v),
            Ok(_) => Err(err("no datagram holds more than 65507 bytes")),
            Err(_) => Err(err("it is not a number of bytes")),
        };
        let parts: Vec<&str> = text.split(':').collect();
        let sizes = match parts[..] {
            [one] => Sizes::fixed(number(one)?),
            [from, to, step] => Sizes {
                from: number(from)?,
                to: number(to)?,
                step: number(step)?,
            },
            _ => return Err(err("it has neither one part nor three")),
        };
        if sizes.step == 0 {
            return Err(err("the step is zero"));
        }
        if sizes.from > sizes.to {
            return Err(err("the first is larger than the last"));
        }
        if sizes.count() > MAX_SIZES {
            return Err(err("that is more than 10000 sizes: use a larger step"));
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_or_a_sweep() {
        let one: Sizes = "0".parse().unwrap();
        assert_eq!((one.of(0), one.of(9), one.is_sweep()), (0, 0, false));
        let sweep: Sizes = "100:1000:400".parse().unwrap();
        let all: Vec<u32> = (0..5).map(|i| sweep.of(i)).collect();
        assert_eq!(all, [100, 500, 900, 100, 500]);
        assert_eq!((sweep.count(), sweep.largest()), (3, 900));
        let ip = sweep.without(28).unwrap();
        assert_eq!((ip.of(0), ip.of(1)), (72, 472));
    }

    #[test]
    fn a_sweep_has_its_ends_and_goes_round() {
        for (text, count, is_sweep, largest) in [
            ("200", 1, false, 200),
            ("200:200:7", 1, false, 200),
            ("100:101:1", 2, true, 101),
            ("100:101:2", 1, true, 100),
            ("0:1000:100", 11, true, 1000),
            ("900:1000:300", 1, true, 900),
            ("65535", 1, false, 65_535),
            ("0:9999:1", 10_000, true, 9999),
        ] {
            let sizes: Sizes = text.parse().unwrap();
            let got = (sizes.count(), sizes.is_sweep(), sizes.largest());
            assert_eq!(got, (count, is_sweep, largest), "{text}");
            assert_eq!(sizes.of(u64::from(count) - 1), largest, "{text}");
            assert_eq!(sizes.of(u64::from(count)), sizes.of(0), "{text}");
        }
    }

    #[test]
    fn headers_are_taken_from_both_ends() {
        let sweep: Sizes = "28:1500:10".parse().unwrap();
        let payload: Sizes = "0:1472:10".parse().unwrap();
        assert_eq!(sweep.without(28), Ok(payload));
        assert!(sweep.without(29).is_err());
        assert_eq!(sweep.without(0), Ok(sweep));
    }

    #[test]
    fn refused_with_a_reason() {
        for (text, why) in [
            ("", "not a number"),
            ("-1", "not a number"),
            ("65536", "65507"),
            ("1:2", "neither one"),
            ("1:2:0", "zero"),
            ("9:2:1", "larger"),
            ("1:2:3:4", "neither one"),
            ("65536:65536:1", "65507"),
            ("1:65536:10", "65507"),
            ("0:60000:1", "10000"),
            ("0:10000:1", "10000"),
        ] {
            let e = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(e.contains(why), "{text}: {e}");
        }
        let e = Sizes::fixed(20).without(28).unwrap_err().to_string();
        assert!(e.contains("28 bytes"), "{e}");
    }

    proptest! {
        #[test]
        fn always_within(from in 0u32..2000, more in 0u32..2000, step in 1u32..500, seq: u64) {
            let sizes: Sizes = format!("{from}:{}:{step}", from + more).parse().unwrap();
            let size = sizes.of(seq);
            prop_assert!(size >= from && size <= from + more);
            prop_assert!(sizes.largest() <= from + more);
        }

        #[test]
        fn never_panics(text in ".{0,30}") {
            let _ = text.parse::<Sizes>();
        }
    }
}
