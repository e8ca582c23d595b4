//! Whether a rate that is wanted differs enough from the one in force to be set, and when.
//!
//! | what is wanted | change | when it is set |
//! |---|---|---|
//! | less; more, while a direction is opened, or since a cut is over | at once | at once |
//! | the same, but a direction that is opened likely carries something else: packets are bounded by it | at once | at once |
//! | more | higher | `RAISE_EVERY` after the latest raise |
//! | another rate within a pulse | pulse | at once, upload only |
//! | about the same | none | not at all |
//!
//! Principles: setting a rate costs time, so small changes are none; a queue must not wait for that, and a cut that outlasts
//! its queue costs goodput for as long (decision 0103). Non-goals: what is wanted (`direction`).

use crate::plan::Target;

/// A change by less than this share is none.
const LEAST: f64 = 0.004;
/// Nor one by less than this within a pulse.
const LEAST_IN_PULSE: f64 = 0.05;
/// Nor one by less than this while a direction is opened by steps of two.
pub(super) const LEAST_IN_OPENING: f64 = 0.25;

/// How a target differs from the one in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    AtOnce,
    Higher,
    Pulse,
}

impl Change {
    /// From what is in force to what is wanted; no target: nothing is held.
    pub(super) fn of(old: Option<Target>, new: Option<Target>) -> Self {
        let value = |t: Option<Target>| t.map(|t| t.let_out().bps() as f64);
        let pulses = new.is_some_and(|t| t.pulses);
        let opening = new.is_some_and(|t| t.opening.is_some());
        let least = match (pulses, opening) {
            (true, _) => LEAST_IN_PULSE,
            (_, true) => LEAST_IN_OPENING,
            _ => LEAST,
        };
        let (falls, rises) = match (value(new), value(old)) {
            (Some(new), Some(old)) => (new < old * (1.0 - least), new > old * (1.0 + least)),
            (Some(_), None) => (true, false),
            // What was cut for is not known any more.
            (None, Some(_)) => (false, true),
            (None, None) => (false, false),
        };
        let is_cut = |t: Option<Target>| t.is_some_and(|t| t.is_cut());
        match (falls, rises) {
            (false, false) if opening && likely_differs(old, new) => Change::AtOnce,
            (false, false) => Change::None,
            // They are over before rates may be raised again.
            _ if pulses => Change::Pulse,
            _ if falls || opening || is_cut(old) && !is_cut(new) => Change::AtOnce,
            _ => Change::Higher,
        }
    }
}

/// Whether what a direction that is opened likely carries differs by more than a change that is none.
fn likely_differs(old: Option<Target>, new: Option<Target>) -> bool {
    let likely = |t: Option<Target>| t?.opening?.0.map(|rate| rate.bps() as f64);
    match (likely(old), likely(new)) {
        (Some(old), Some(new)) => (new / old - 1.0).abs() > LEAST_IN_OPENING,
        (old, new) => old.is_some() != new.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;
    use crate::plan::Likely;

    const LINE: Target = Target {
        capacity: Rate::from_kbit(1000),
        permille: 1000,
        peak_permille: 1000,
        slack_us: 0,
        volatile: false,
        pulses: false,
        opening: None,
    };

    fn of_kbit(kbit: u64) -> Target {
        Target {
            capacity: Rate::from_kbit(kbit),
            ..LINE
        }
    }

    fn opened(kbit: u64) -> Target {
        Target {
            opening: Some(Likely(None)),
            ..of_kbit(kbit)
        }
    }

    fn likely(kbit: u64) -> Target {
        Target {
            opening: Some(Likely(Some(Rate::from_kbit(kbit)))),
            ..opened(256)
        }
    }

    fn cut(permille: u32) -> Target {
        Target { permille, ..LINE }
    }

    fn pulse(permille: u32) -> Target {
        Target {
            pulses: true,
            ..cut(permille)
        }
    }

    #[test]
    fn changes_are_those_of_the_table() {
        let (some, none) = (Some, None::<Target>);
        for (old, new, is) in [
            (none, none, Change::None),
            (none, some(LINE), Change::AtOnce),
            (some(LINE), none, Change::Higher),
            (some(LINE), some(of_kbit(1003)), Change::None),
            (some(LINE), some(of_kbit(1005)), Change::Higher),
            (some(LINE), some(of_kbit(995)), Change::AtOnce),
            // A cut, less of one, and its end.
            (some(LINE), some(cut(300)), Change::AtOnce),
            (some(cut(300)), some(cut(600)), Change::Higher),
            (some(cut(300)), some(LINE), Change::AtOnce),
            (some(cut(300)), none, Change::AtOnce),
            (some(cut(300)), some(of_kbit(200)), Change::AtOnce),
            (some(opened(256)), some(opened(300)), Change::None),
            (some(opened(256)), some(opened(512)), Change::AtOnce),
            (some(opened(256)), some(likely(420)), Change::AtOnce),
            (some(likely(420)), some(likely(450)), Change::None),
            (some(likely(420)), some(likely(840)), Change::AtOnce),
            (some(pulse(1000)), some(pulse(1040)), Change::None),
            (some(pulse(1000)), some(pulse(1200)), Change::Pulse),
            (some(pulse(1200)), some(pulse(900)), Change::Pulse),
        ] {
            assert_eq!(Change::of(old, new), is, "{old:?} {new:?}");
        }
    }
}
