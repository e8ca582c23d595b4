//! The framings that a line may have.
//!
//! Principles: every whole number of bytes, not only those with a name; what no wire has is left out
//! (an ATM overhead below AAL5's trailer of 8 bytes, or above 55, which is the same stairs one cell
//! higher); of framings that are the same for every packet only one is asked. Non-goals: beliefs.

use crate::framing::{Framing, Mode};

/// The smallest IP packet that trains have: an empty UDP datagram of IPv4.
pub(crate) const SMALLEST: u32 = 28;
/// A least frame: Ethernet's 64, with a tag 68, with preamble and gap 84 and 88 (IEEE 802.3, 802.1Q).
const MPUS: [u16; 4] = [64, 68, 84, 88];
/// Below so many bytes of the IP packet a frame is filled up: Ethernet's least payload of 46, less up to
/// two tags that count among it, and less PPPoE's 8.
const KNEES: [i32; 5] = [46, 42, 38, 34, 30];
/// Preamble, gap, header and check sequence of Ethernet: who counts them has least frames as well.
const ETHERNET: i16 = 38;
/// The most that encapsulations before the mode add: PPPoE, two tags, preamble, gap and some more.
const MOST: i16 = 64;

/// All of them.
pub(crate) fn all() -> Vec<Framing> {
    let mut all = Vec::new();
    for overhead in 0..=MOST {
        for mode in [Mode::None, Mode::Ptm] {
            all.push(Framing::new(mode, overhead, 0));
            for mpu in MPUS {
                let knee = i32::from(mpu) - i32::from(overhead);
                if KNEES.contains(&knee) {
                    all.push(Framing::new(mode, overhead, mpu));
                }
            }
        }
    }
    for overhead in 8..=55 {
        all.push(Framing::new(Mode::Atm, overhead, 0));
    }
    all
}

/// The logarithm of the belief in a candidate before anything was seen: modes alike, and within a mode each
/// but what no medium is known to have.
pub(crate) fn prior(f: Framing) -> f64 {
    let many: f64 = match f.mode {
        Mode::Atm => 48.0,
        Mode::None | Mode::Ptm => 100.0,
    };
    let odd = match (f.mode, f.mpu) {
        (Mode::None, 0) if f.overhead >= ETHERNET => 0.05,
        (Mode::None, 0 | 64 | 84) | (Mode::Ptm, 0) | (Mode::Atm, _) => 1.0,
        _ => 0.1,
    };
    f64::ln(odd / many)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::PRESETS;

    #[test]
    fn every_keyword_is_among_them_and_none_twice() {
        let all = all();
        for (name, framing) in PRESETS {
            assert!(all.contains(&framing), "{name}");
        }
        let told_apart: std::collections::HashSet<Vec<u32>> = all
            .iter()
            .map(|f| (SMALLEST..1500).map(|l| f.wire_len(l)).collect())
            .collect();
        assert_eq!(told_apart.len(), all.len());
    }
}
