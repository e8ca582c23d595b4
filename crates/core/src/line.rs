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
