//! What all estimators together say of a line.
//!
//! Principles: what trains found comes before what a sweep found, since they see every overhead; where
//! both speak and contradict each other, nothing is known; one direction's framing is thought to be the
//! other's where that one is not known, and this is said. Non-goals: measuring.

use serde::Serialize;

use super::idle::Stairs;
use super::{SURE, Verdict};
use crate::framing::{Framing, Mode};
use crate::units::{Direction, PerDirection, Rate};

/// The line, as far as it is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Survey {
    /// What the sweep of sizes says.
    pub stairs: Stairs,
    /// Each direction.
    pub direction: PerDirection<Verdict>,
}

/// Puts together what a sweep and trains in each direction say; `None`: there were no trains.
pub fn survey(stairs: Stairs, trains: PerDirection<Option<Verdict>>) -> Survey {
    let mut direction = trains.map(|v| {
        let v = v.unwrap_or_else(|| Verdict::nothing("no trains were sent that way"));
        with_stairs(v, stairs)
    });
    for d in Direction::BOTH {
        let other = direction[d.other()].clone();
        let this = &mut direction[d];
        if this.framing.is_none() && this.best.is_none() && other.framing.is_some() {
            this.best = other.framing;
            this.mode_confidence = other.mode_confidence;
        }
    }
    Survey { stairs, direction }
}

/// The same with what stairs say.
fn with_stairs(mut v: Verdict, stairs: Stairs) -> Verdict {
    match (stairs, v.framing) {
        (Stairs::Cells { overhead, .. }, None) if v.rate.is_none() => {
            v.framing = Some(Framing::new(Mode::Atm, overhead, 0));
            v.best = v.framing;
            v.why = None;
            (v.confidence, v.mode_confidence) = (SURE, SURE);
        }
        (Stairs::Cells { overhead, .. }, Some(f))
            if f.mode == Mode::Atm && f.overhead != overhead =>
        {
            // Cells in the other direction alone make stairs, too; another overhead contradicts.
            v.framing = None;
            v.why = Some(format!("echoes say {overhead} bytes in cells, trains {f}"));
        }
        (Stairs::Straight { .. }, Some(f)) if f.mode == Mode::Atm => {
            v.framing = None;
            v.mode_confidence = 0.0;
            v.why = Some(format!("echoes of many sizes see no cells, trains say {f}"));
        }
        (Stairs::Straight { per_byte }, None) if v.rate.is_none() => {
            // Not cells is all that is known; the rate is at least that of both ways together.
            v.best = Some(Framing::new(Mode::Ptm, 22, 0));
            v.mode_confidence = SURE;
            v.why = Some("echoes see no cells, and an overhead that is the same for all sizes cannot be seen that way".into());
            let both = 8.0 / per_byte.max(1e-12);
            v.within = f64::INFINITY;
            v.rate = v
                .rate
                .or((both < 1e11).then(|| Rate::from_bps(both as u64)));
        }
        (Stairs::Fast, None) if v.rate.is_none() => {
            v.best = Some(Framing::new(Mode::Ptm, 22, 0));
            v.mode_confidence = SURE;
            v.why = Some(
                "it is too fast for ADSL, and an overhead that is the same for all sizes cannot be seen by echoes"
                    .into(),
            );
        }
        _ => {}
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(v: Option<&Verdict>) -> PerDirection<Option<Verdict>> {
        PerDirection {
            up: v.cloned(),
            down: v.cloned(),
        }
    }

    fn found(text: &str) -> Verdict {
        let framing = text.parse().unwrap();
        Verdict {
            framing: Some(framing),
            best: Some(framing),
            why: None,
            confidence: 1.0,
            mode_confidence: 1.0,
            rate: Some(Rate::from_kbit(8000)),
            ..Verdict::nothing("")
        }
    }

    #[test]
    fn echoes_alone() {
        let per_byte = 1e-5;
        let cells = Stairs::Cells {
            overhead: 32,
            per_byte,
        };
        let s = survey(cells, both(None));
        assert_eq!(s.direction.up.framing, Some("atm:32".parse().unwrap()));
        for stairs in [Stairs::Straight { per_byte }, Stairs::Fast] {
            let s = survey(stairs, both(None));
            let (v, assumed) = (&s.direction.down, s.direction.down.assumed());
            assert_eq!(
                (v.framing, assumed),
                (None, "ptm:38:mpu84".parse().unwrap())
            );
        }
        let s = survey(Stairs::Unknown, both(None));
        assert_eq!(s.direction.up.assumed(), "atm:48".parse().unwrap());
    }

    #[test]
    fn what_contradicts_itself_is_not_known() {
        let per_byte = 1e-5;
        let cells = Stairs::Cells {
            overhead: 32,
            per_byte,
        };
        for (stairs, trains, known) in [
            (cells, "atm:32", true),
            (cells, "atm:40", false),
            // The other direction may have the cells.
            (cells, "ptm:30", true),
            (Stairs::Straight { per_byte }, "ptm:30", true),
            (Stairs::Straight { per_byte }, "atm:32", false),
            (Stairs::Fast, "atm:32", true),
            (Stairs::Unknown, "none:18:mpu64", true),
        ] {
            let s = survey(stairs, both(Some(&found(trains))));
            let v = &s.direction.up;
            assert_eq!(v.framing.is_some(), known, "{stairs:?} {trains}");
            assert_eq!(v.why.is_some(), !known, "{stairs:?} {trains}");
        }
    }
}
