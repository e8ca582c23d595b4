//! How full the line is: the line as that which everything is charged against, and the sizes of
//! packets for which it is asked.
//!
//! Principle: a share depends on the size of packets, because framing does; so the sizes are the
//! same wherever a share is shown or judged. Non-goal: the arithmetic (`evenkeel_core::result::Charge`).

use evenkeel_core::result::{Charge, ResultFile};

/// IP packets whose share of the line is shown, bytes: a full one, and a small one.
pub(crate) const SIZES: [u32; 2] = [1500, 100];

/// The line itself: (towards the customer, from the customer).
pub(crate) fn line(file: &ResultFile) -> (Charge, Charge) {
    let of = |rate| Charge {
        rate,
        framing: file.line.framing,
    };
    (of(file.line.down), of(file.line.up))
}
