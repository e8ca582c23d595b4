//! Traffic control as data: queueing disciplines, classes, filters, and the operations on them.
//!
//! Principles: every object prints as the arguments that tc(8) would take for it, so a plan can
//! be read, compared and pasted; a field is an `Option` exactly where the kernel has a default of
//! its own (`None`: not sent); sizes are bytes, rates are [`crate::Rate`].
//! Non-goals: bytes on a socket (`evenkeel-wire`), reading tc's text back, offloads to hardware,
//! and disciplines evenkeel never installs.

mod dev;
mod filter;
mod handle;
mod op;
mod qdisc;
mod stab;

pub use dev::Dev;
pub use filter::{
    Action, Bpf, Filter, FilterKey, FilterKind, HashKey, Mark, Matchall, Offset, Protocol, U32,
    U32Handle, U32Key, VarOffset, Verdict,
};
pub use handle::{Handle, HandleError};
pub use op::{ClassSpec, LinkSettings, Op, QdiscSpec};
pub use qdisc::{
    AckFilter, Cake, Diffserv, FlowMode, FqCodel, HtbClass, HtbLink, HtbRoot, Qdisc, Sfq, Tbf,
};
pub use stab::{LinkLayer, Stab};

use std::time::Duration;

/// A time as tc prints and reads it: the largest of s, ms, us that loses nothing (tc keeps
/// whole microseconds).
pub(crate) fn time(t: Duration) -> String {
    match t.as_micros() {
        0 => "0us".to_owned(),
        us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
        us if us % 1000 == 0 => format!("{}ms", us / 1000),
        us => format!("{us}us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_largest_unit_that_loses_nothing() {
        for (us, text) in [
            (0, "0us"),
            (1, "1us"),
            (1001, "1001us"),
            (5000, "5ms"),
            (1_500_000, "1500ms"),
            (2_000_000, "2s"),
        ] {
            assert_eq!(time(Duration::from_micros(us)), text);
        }
    }
}
