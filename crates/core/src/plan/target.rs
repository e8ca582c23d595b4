//! What one direction is to be shaped to for now, by a process that follows its line.
//!
//! Principles: said in terms of the line (what it carries, how it behaves), not of disciplines;
//! what shapers and windows make of it is `shaping`'s. Non-goals: how it is found (`control`).

use serde::{Deserialize, Serialize};

use crate::Rate;

/// What one direction is to be shaped to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// What the line carries, at the link layer.
    pub capacity: Rate,
    /// How much of that may be used for now, thousandths: 1000 where no queue is being drained, and
    /// more by turns where pulses are sent.
    pub permille: u32,
    /// The most that it carried within the last seconds, thousandths of the capacity: what waits at the shaper may have come
    /// while so much left.
    pub peak_permille: u32,
    /// How much longer than the base round trips may be without it meaning much, us: for volatile
    /// lines, where a short queue is kept, and lines whose delay wanders.
    pub slack_us: u32,
    /// The line changes all the time: what a shaper drops there takes seconds to come back.
    pub volatile: bool,
    /// It is followed by pulses: nobody else waits for what waits at the shaper meanwhile.
    pub pulses: bool,
    /// What the line carries is not known: so much may be used until it is.
    pub opening: Option<Likely>,
}

/// What a line likely carries while it is opened; `None`: nothing was seen that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Likely(pub Option<Rate>);

impl Target {
    /// What may be used for now, at the link layer.
    #[must_use]
    pub fn let_out(&self) -> Rate {
        self.capacity.permille(self.permille.into())
    }

    /// The most that the line carried of late, at the link layer.
    #[must_use]
    pub fn peak(self) -> Rate {
        self.capacity.permille(self.peak_permille.into())
    }

    /// Less than all of the capacity may be used for now.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.permille < 1000
    }

    /// The same with all of the capacity in use, neither less nor more; `None`: that is not known.
    #[must_use]
    pub fn at_capacity(self) -> Option<Self> {
        self.opening.is_none().then_some(Target {
            permille: 1000,
            ..self
        })
    }
}
