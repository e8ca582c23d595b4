//! A line that changes by itself, as an experiment's file says it.
//!
//! Principle: ranges and seed stand in the file, so that the line is known before anything is
//! tuned to it; repeats get lines of their own from the run's seed. Non-goals: the arithmetic
//! (`evenkeel_core::swing`).

use std::time::Duration;

use evenkeel_core::Rate;
use evenkeel_core::swing::{Kind, Swing, Swung};
use serde::Deserialize;

use crate::millis::millis;

/// How a line changes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwingSpec {
    /// `walk` or `redraw`.
    pub kind: SwingKind,
    /// With the run's seed it makes the line.
    pub seed: u64,
    /// From one change to the next.
    pub every_ms: f64,
    /// Walk: a rate is multiplied or divided by at most this.
    pub factor: Option<f64>,
    /// Lowest and highest rate towards the customer.
    pub down: [Rate; 2],
    /// Lowest and highest rate from the customer.
    pub up: [Rate; 2],
    /// Least and most that the round trip grows by.
    pub rtt_ms: [f64; 2],
}

/// What a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SwingKind {
    /// A step up or down from where it is.
    Walk,
    /// A new draw from the range.
    Redraw,
}

impl SwingSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        let within = |key: &str, v: f64, low: f64, high: f64| {
            let fits = (low..=high).contains(&v);
            let why = || format!("{key} is {v}, it must be {low} to {high}");
            fits.then_some(()).ok_or_else(why)
        };
        within("every_ms", self.every_ms, 10.0, 600_000.0)?;
        match (self.kind, self.factor) {
            (SwingKind::Walk, Some(f)) => within("factor", f, 1.001, 100.0)?,
            (SwingKind::Walk, None) => return Err("a walk needs a factor".into()),
            (SwingKind::Redraw, Some(_)) => return Err("factor is for walks".into()),
            (SwingKind::Redraw, None) => {}
        }
        for (key, [low, high]) in [("down", self.down), ("up", self.up)] {
            if low.kbit() == 0 || low > high {
                return Err(format!("{key} is no range: {low} to {high}"));
            }
        }
        within("rtt_ms (least)", self.rtt_ms[0], 0.0, 10_000.0)?;
        within("rtt_ms (most)", self.rtt_ms[1], self.rtt_ms[0], 10_000.0)
    }

    /// The line of a run with `seed`.
    pub(crate) fn make(&self, seed: u64, length: Duration) -> Swung {
        let kind = match self.kind {
            SwingKind::Walk => Kind::Walk(self.factor.unwrap_or(2.0)),
            SwingKind::Redraw => Kind::Redraw,
        };
        let swing = Swing {
            every: millis(self.every_ms),
            kind,
            down: self.down.into(),
            up: self.up.into(),
            rtt: self.rtt_ms.map(millis).into(),
        };
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(seed);
        swing.make(seed, length)
    }
}
