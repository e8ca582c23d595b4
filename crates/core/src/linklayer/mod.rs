//! What kind of line is this? Framing and capacity, by measuring.
//!
//! A packet takes `wire_len(L) / C` on a line. What is seen of that is a delay, and the three
//! estimators differ in what they make it large enough with:
//!
//! - [`idle`]: one packet at a time, of many sizes. Cells make stairs of the round trip. An overhead
//!   that is the same for all sizes is part of the base delay, so nothing but stairs can be seen.
//! - [`saturation`]: trains of equal packets that leave faster than the line carries them. As long as
//!   the line is busy the last one arrives `n * wire_len(L) / C` after the first was sent, whatever the
//!   times between them. Tiny and huge packets together tell mode, overhead and mpu from the rate.
//!   It ends with a null test: only with the right framing does the queue grow at the same slope for
//!   tiny, huge and mixed packets that are sent just above the capacity.
//! - [`passive`]: what passes anyway while a queue stands, by mean packet size.
//!
//! Principles: pure and sequential: what to send next is returned, what was seen is told, and it ends
//! as soon as the evidence is enough; each candidate framing is fitted by itself, with its own rate,
//! and the one that explains the delays wins only by a margin; the scale of the noise is measured, not
//! assumed; "not enough evidence" comes with what is assumed instead and what that costs.
//! Non-goals: sockets (crate `evenkeel-bench`), capacities that change (`control`).

pub mod idle;
pub mod knee;
pub mod passive;
pub mod saturation;
pub mod survey;
pub mod world;

mod candidates;
mod fit;

use serde::Serialize;

use crate::framing::{Framing, Mode};
use crate::units::Rate;

/// What an estimator makes of what it saw of one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The framing, if the evidence is enough.
    pub framing: Option<Framing>,
    /// The share of belief in `framing`, or in the best candidate if that is not enough; 0..=1.
    pub confidence: f64,
    /// The share of belief that the mode of the best candidate is the line's.
    pub mode_confidence: f64,
    /// The best candidate, right or not.
    pub best: Option<Framing>,
    /// Where the evidence is not enough: why, in a clause.
    pub why: Option<String>,
    /// Where something was seen but not enough: a framing and a rate that charge no packet less than any
    /// framing that is still likely does.
    pub careful: Option<(Framing, Rate)>,
    /// What full packets lose to that, as a share of the rate.
    pub cost: f64,
    /// Link-layer rate, with the best candidate's framing.
    pub rate: Option<Rate>,
    /// That rate is right within this share, 95 times of 100.
    pub within: f64,
}

impl Verdict {
    /// Nothing was seen.
    pub fn nothing(why: &str) -> Self {
        Verdict {
            framing: None,
            confidence: 0.0,
            mode_confidence: 0.0,
            best: None,
            why: Some(why.into()),
            careful: None,
            cost: 0.0,
            rate: None,
            within: 0.0,
        }
    }

    /// The framing to shape with: what was found, or one that is on the safe side of what is still
    /// possible.
    pub fn assumed(&self) -> Framing {
        if let Some(found) = self.framing {
            return found;
        }
        if let Some((careful, _)) = self.careful {
            return careful;
        }
        let cells_possible = self.rate.is_none_or(adsl_possible);
        match self.best.map(|b| b.mode) {
            _ if self.mode_confidence < SURE && cells_possible => Framing::new(Mode::Atm, 48, 0),
            Some(Mode::Atm) => Framing::new(Mode::Atm, 48, 0),
            _ => Framing::new(Mode::Ptm, 38, 84),
        }
    }

    /// The rate that goes with [`Self::assumed`].
    pub fn assumed_rate(&self) -> Option<Rate> {
        let careful = self.careful.filter(|_| self.framing.is_none());
        careful.map(|c| c.1).or(self.rate)
    }

    /// The share of the rate that full packets lose to what is assumed rather than known: nothing where
    /// the framing was found.
    pub fn price(&self, mtu: u32) -> f64 {
        if self.framing.is_some() {
            return 0.0;
        }
        if self.careful.is_some() {
            return self.cost;
        }
        let Some(best) = self.best else { return 0.0 };
        let (best, assumed) = (best.wire_len(mtu), self.assumed().wire_len(mtu));
        (1.0 - f64::from(best) / f64::from(assumed.max(1))).max(0.0)
    }

    /// What tc-cake(8) calls it.
    pub fn keywords(&self) -> String {
        keywords(self.assumed())
    }
}

/// Belief from which on something counts as known.
pub const SURE: f64 = 0.998;

/// Whether a line that fast towards us can be ADSL at all: ADSL2+ carries 24 Mbit/s (ITU-T G.992.5).
pub fn adsl_possible(rate: Rate) -> bool {
    rate <= Rate::from_kbit(24_500)
}

/// The framing in tc-cake(8)'s words: a keyword, with `ether-vlan` where that makes one, or numbers.
pub fn keywords(f: Framing) -> String {
    if let Some(keyword) = f.keyword() {
        return keyword.into();
    }
    for tags in 1..=2i16 {
        let bare = Framing {
            overhead: f.overhead - 4 * tags,
            ..f
        };
        // The keyword `conservative` is no medium that a tag could be added to.
        if let Some(keyword) = bare.keyword().filter(|k| *k != "conservative") {
            return format!("{keyword}{}", " ether-vlan".repeat(tags as usize));
        }
    }
    let mode = match f.mode {
        Mode::None => "noatm",
        Mode::Atm => "atm",
        Mode::Ptm => "ptm",
    };
    let mpu = if f.mpu > 0 {
        format!(" mpu {}", f.mpu)
    } else {
        String::new()
    };
    format!("overhead {}{mpu} {mode}", f.overhead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_tc_cake() {
        for (text, words) in [
            ("ptm:30", "pppoe-ptm"),
            ("ptm:34", "pppoe-ptm ether-vlan"),
            ("none:18:mpu64", "docsis"),
            ("none:42:mpu84", "ethernet ether-vlan"),
            ("none:46:mpu84", "ethernet ether-vlan ether-vlan"),
            ("atm:44", "pppoe-llcsnap ether-vlan"),
            ("atm:41", "overhead 41 atm"),
            ("none:5", "overhead 5 noatm"),
            ("ptm:20:mpu64", "overhead 20 mpu 64 ptm"),
        ] {
            let framing: Framing = text.parse().unwrap();
            let said = keywords(framing);
            assert_eq!(said, words, "{text}");
        }
    }

    /// What is assumed never charges less than what is still thought to be possible, for full packets.
    #[test]
    fn what_is_assumed_is_on_the_safe_side_and_has_a_price() {
        let mut v = Verdict::nothing("no answers");
        assert_eq!(v.assumed(), Framing::new(Mode::Atm, 48, 0));
        v.rate = Some(Rate::from_kbit(100_000));
        v.best = Some(Framing::new(Mode::Ptm, 30, 0));
        assert_eq!(v.assumed(), Framing::new(Mode::Ptm, 38, 84));
        let cost = v.price(1500);
        assert!((cost - (1.0 - 1554.0 / 1563.0)).abs() < 1e-9, "{cost}");
        v.framing = v.best;
        assert_eq!((v.assumed(), v.price(1500)), (v.best.unwrap(), 0.0));
    }
}
