//! What others on the same line think that it carries, where they count what all send together.
//!
//! Principles: what was known before others were met is what they left of the line, so with them it carries what passes
//! together; where nothing is known it is a first guess; else it is followed by small steps, while no queue stands, and
//! never below what passes: who lies costs little, and a queue says what is true to all at once. Non-goals: who the
//! others are (`sharing`).

use super::capacity::UNSURE;
use super::{Context, DirectionState, Phase};

/// Less of a difference is none.
const LEAST_CHANGE: f64 = 0.02;
/// What is known moves by so much at a time, up and down.
const UP: f64 = 0.08;
const DOWN: f64 = 0.3;
/// Upwards only when no queue has stood for so long, s.
const QUIET: f64 = 0.3;
/// Whoever is met makes of what is known at most so many times that: what he carries is only said.
const MET: f64 = 2.0;
/// What passed within this, s, is carried.
const PASSED: f64 = 1.0;

impl DirectionState {
    /// They think that it carries `median`, bytes/s. Whether that changes anything.
    pub(in crate::control) fn agree(&mut self, median: f64, context: &Context) -> bool {
        let Some((capacity, _)) = self.capacity else {
            self.believe(median, context.now);
            return true;
        };
        if self.phase != Phase::Steady || !self.run.is_empty() {
            return false;
        }
        let passes = self.meter.rate(PASSED).unwrap_or(0.0);
        let quiet = context.now - self.quiet > QUIET;
        let most = if quiet { 1.0 + UP } else { 1.0 };
        let least = (passes / capacity).clamp(1.0 - DOWN, 1.0);
        let moved = capacity * (median / capacity).clamp(least, most);
        if (moved / capacity - 1.0).abs() < LEAST_CHANGE {
            return false;
        }
        self.capacity = Some((self.bounded(moved), context.now));
        self.error = self.error.max(UNSURE);
        true
    }

    /// Others were met who were no part of what is known: with them `together` passes, bytes/s, and no queue stands.
    /// Whether that changes anything.
    pub(in crate::control) fn met(&mut self, together: f64, context: &Context) -> bool {
        let Some((capacity, _)) = self.capacity else {
            return false;
        };
        let is_calm =
            matches!(self.phase, Phase::Steady | Phase::ProbeUp(_)) && self.run.is_empty();
        let carries = together.min(MET * capacity);
        if !is_calm || carries < (1.0 + LEAST_CHANGE) * capacity {
            return false;
        }
        // It is only said: not what we know of the line alone, and as uncertain as it is new.
        self.capacity = Some((self.bounded(carries), context.now));
        self.prior = None;
        self.phase = Phase::Steady;
        self.error = self.error.max(UNSURE).max(carries / capacity - 1.0);
        true
    }
}
