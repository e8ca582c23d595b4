//! What passing packets tell of the framing while a queue stands.
//!
//! Principles: a look each half second; it counts where the line's own queue stood at both its ends, well
//! beyond the noise; from us packets are counted as they enter that queue, towards us as they leave it. What
//! was known before a start is not forgotten. Non-goals: the estimate (`evenkeel_core::linklayer::passive`).

use std::time::Duration;

use evenkeel_core::control::View;
use evenkeel_core::framing::Framing;
use evenkeel_core::linklayer::passive::{Passing, Passive};
use evenkeel_core::wire_count::Passed;
use evenkeel_core::{Direction, PerDirection};
use serde::{Deserialize, Serialize};

/// A queue stands from so many times the noise on.
const OVER_NOISE: f64 = 3.0;
/// And from so much on, ms.
const STANDS: f64 = 4.0;

/// Both directions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    known: PerDirection<Passive>,
    last: PerDirection<Option<Look>>,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    at: Duration,
    passed: Passed,
    queue_ms: f64,
}

/// What a packet costs, for `status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Bytes beyond its own.
    pub(crate) bytes: f64,
    /// Right within, 95 times of 100.
    pub(crate) within: f64,
}

impl Seen {
    /// `known`: from an earlier run.
    pub(crate) fn new(known: PerDirection<Passive>) -> Self {
        Seen {
            known,
            last: PerDirection::default(),
        }
    }

    /// Takes a look.
    pub(crate) fn look(&mut self, view: &View, passed: PerDirection<Passed>, now: Duration) {
        for d in Direction::BOTH {
            let way = match d {
                Direction::Up => &view.up,
                Direction::Down => &view.down,
            };
            let stands = way.queue_ms > f64::max(STANDS, OVER_NOISE * view.rise_ms);
            let look = stands.then_some(Look {
                at: now,
                passed: passed[d],
                queue_ms: way.queue_ms,
            });
            if let (Some(before), Some(look)) = (self.last[d], look) {
                self.known[d].add(between(d, before, look));
            }
            self.last[d] = look;
        }
    }

    /// To be kept.
    pub(crate) fn known(&self) -> PerDirection<Passive> {
        self.known
    }

    /// What a packet costs, where that is known.
    pub(crate) fn cost(&self) -> PerDirection<Option<Cost>> {
        self.known.map(|p| {
            let e = p.per_packet()?;
            Some(Cost {
                bytes: e.value,
                within: e.within,
            })
        })
    }
}

fn between(d: Direction, before: Look, look: Look) -> Passing {
    let grew = match d {
        Direction::Up => (look.queue_ms - before.queue_ms) / 1e3,
        Direction::Down => 0.0,
    };
    Passing {
        bytes: (look.passed.bytes - before.passed.bytes).max(0.0) as u64,
        packets: (look.passed.packets - before.passed.packets).max(0.0) as u64,
        lasted: look.at.saturating_sub(before.at).as_secs_f64(),
        grew,
    }
}

/// The framing to begin with: the one that charges small and full packets more, where directions differ.
pub(crate) fn framing(known: PerDirection<Passive>) -> Option<Framing> {
    let both = known.map(|p| p.framing());
    let charges = |f: &Framing| f.wire_len(64) + f.wire_len(1500);
    both.into_iter().flatten().max_by_key(charges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::Rate;
    use evenkeel_core::control::DirectionView;

    fn view(up_ms: f64) -> View {
        let way = |queue_ms| DirectionView {
            capacity: None,
            age_s: 0.0,
            throughput: Rate::from_kbit(0),
            queue_ms,
            unshaped_queue_ms: 0.0,
        };
        View {
            up: way(up_ms),
            down: way(0.0),
            rise_ms: 1.0,
            base_ms: None,
        }
    }

    /// 60 Mbit/s, 30 bytes for each packet, a queue of 20 ms, packets of 300 and 1200 bytes in turns.
    #[test]
    fn a_queue_that_stands_tells_the_cost() {
        let mut seen = Seen::default();
        let mut passed = PerDirection::<Passed>::default();
        for i in 0..200u32 {
            seen.look(&view(20.0), passed, Duration::from_millis(500) * i);
            let size = if i % 2 == 0 { 300.0 } else { 1200.0 };
            let packets = (0.5 * 60e6 / 8.0 / (size + 30.0f64)).round();
            passed.up.packets += packets;
            passed.up.bytes += packets * size;
        }
        let cost = seen.cost().up.unwrap();
        assert!((cost.bytes - 30.0).abs() < 1.0, "{cost:?}");
        assert_eq!(seen.cost().down, None);
        let framing = framing(seen.known()).unwrap();
        assert!((30..=32).contains(&framing.overhead), "{framing}");
    }

    #[test]
    fn without_a_queue_nothing_counts() {
        let mut seen = Seen::default();
        for i in 0..100u32 {
            let passed = Passed {
                bytes: 1e5 * f64::from(i),
                packets: 100.0 * f64::from(i),
            };
            let both = PerDirection {
                up: passed,
                down: passed,
            };
            // It comes and goes.
            seen.look(
                &view(if i % 2 == 0 { 20.0 } else { 0.5 }),
                both,
                Duration::from_millis(500) * i,
            );
        }
        assert!(seen.known().up.intervals() < 0.5);
        assert_eq!(framing(seen.known()), None);
    }
}
