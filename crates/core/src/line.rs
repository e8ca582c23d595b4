//! A line as it was told or is thought to be: its rates and how it frames packets.
//!
//! Principles: rates are those of the link layer; a direction of which nothing is known has
//! [`Line::OPEN`]. Non-goals: estimating (`control`) and shaping (`plan`).

use crate::{Framing, Rate};

/// The line as it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Link-layer rate towards us.
    pub down: Rate,
    /// Link-layer rate from us.
    pub up: Rate,
    /// How packets are framed on it.
    pub framing: Framing,
}

impl Line {
    /// A direction of which nothing is known yet: more than any line that one machine shapes.
    pub const OPEN: Rate = Rate::from_kbit(10_000_000);

    /// Empty ACKs of a full download are more than the other direction can bear.
    pub(crate) fn very_asymmetric(&self) -> bool {
        self.down != Self::OPEN && self.down.bps() > 10 * self.up.bps()
    }

    /// A framing for someone who named none, on the safe side for lines of these rates: below
    /// ADSL2+'s limits (ITU-T G.992.5: 24 and 3.5 Mbit/s) cells, otherwise PTM with PPPoE and
    /// a VLAN, which for full packets covers Ethernet's 38 bytes as well.
    pub fn assume_framing(down: Rate, up: Rate) -> Framing {
        use crate::framing::Mode::{Atm, Ptm};
        if down <= Rate::from_kbit(24_500) && up <= Rate::from_kbit(3_500) {
            Framing::new(Atm, 44, 0)
        } else {
            Framing::new(Ptm, 34, 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ADSL2+ carries 24 Mbit/s down and 3.5 up (ITU-T G.992.5): what is faster in either direction is
    /// none.
    #[test]
    fn cells_are_assumed_where_adsl_is_possible() {
        use crate::framing::Mode;
        for (down, up, mode) in [
            (24_500, 3500, Mode::Atm),
            (24_501, 3500, Mode::Ptm),
            (24_500, 3501, Mode::Ptm),
            (1000, 10_000, Mode::Ptm),
            (100_000, 1000, Mode::Ptm),
        ] {
            let (down, up) = (Rate::from_kbit(down), Rate::from_kbit(up));
            assert_eq!(Line::assume_framing(down, up).mode, mode, "{down} {up}");
        }
    }

    #[test]
    fn more_than_ten_to_one_is_very_asymmetric() {
        let line = |down, up| Line {
            down,
            up: Rate::from_kbit(up),
            framing: Framing::default(),
        };
        let mbit = |n: u64| Rate::from_kbit(1000 * n);
        assert!(!line(mbit(100), 10_000).very_asymmetric());
        assert!(line(mbit(100), 9999).very_asymmetric());
        // Nothing is known of it yet.
        assert!(!line(Line::OPEN, 1000).very_asymmetric());
    }
}
