//! What has been said already: a reason is worth a line once, not at each look.
//!
//! Principles: a change for a reason that was said, to about the rates that were said, is no news; as soon as a
//! capacity is another one every reason is news again. Non-goals: what is a passing step
//! ([`Event::is_passing`]).

use std::mem::{Discriminant, discriminant};

use evenkeel_core::control::Reason;
use evenkeel_core::plan::Target;
use evenkeel_core::{Direction, PerDirection, Rate};

use crate::event::Event;

/// Capacities that differ by no more than this share are about the same.
const ALIKE: f64 = 0.05;

/// What was said of late.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// What each direction carries, as it was said last.
    capacity: PerDirection<Option<Rate>>,
    /// Why, since then.
    reasons: Vec<(Discriminant<Reason>, Option<Direction>)>,
}

impl Said {
    /// Whether `event` is news; it counts as said then.
    pub(crate) fn is_news(&mut self, event: &Event) -> bool {
        if event.is_passing() {
            return false;
        }
        let Event::Shaped { targets, why } = event else {
            return true;
        };
        let reason = (discriminant(why), direction(why));
        let alike = Direction::BOTH
            .into_iter()
            .all(|d| are_alike(self.capacity[d], targets[d].and_then(capacity)));
        if !alike {
            self.capacity = targets.map(|t| t.and_then(capacity));
            self.reasons.clear();
        } else if self.reasons.contains(&reason) {
            return false;
        }
        self.reasons.push(reason);
        true
    }
}

/// What the line carries; a direction that is being opened has none yet.
fn capacity(target: Target) -> Option<Rate> {
    target.at_capacity().map(|t| t.capacity)
}

fn are_alike(a: Option<Rate>, b: Option<Rate>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let (a, b) = (a.bps() as f64, b.bps() as f64);
            (a - b).abs() <= ALIKE * a.max(b)
        }
        _ => false,
    }
}

fn direction(why: &Reason) -> Option<Direction> {
    match why {
        Reason::Guess => None,
        Reason::Queue { dir, .. }
        | Reason::Opening { dir }
        | Reason::Shared { dir, .. }
        | Reason::Draining { dir, .. }
        | Reason::Drained { dir }
        | Reason::ProbingUp { dir }
        | Reason::Following { dir }
        | Reason::Proven { dir }
        | Reason::Losses { dir, .. }
        | Reason::LosesByItself { dir }
        | Reason::Agreed { dir }
        | Reason::Elsewhere { dir, .. }
        | Reason::NotOurs { dir, .. } => Some(*dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(up: u64, why: Reason) -> Event {
        let target = Target {
            capacity: Rate::from_kbit(up),
            permille: 1000,
            peak_permille: 1000,
            slack_us: 0,
            volatile: false,
            pulses: false,
            opening: None,
        };
        Event::Shaped {
            targets: PerDirection {
                up: Some(target),
                down: None,
            },
            why,
        }
    }

    #[test]
    fn a_reason_is_said_once_for_a_capacity() {
        let dir = Direction::Up;
        let queue = Reason::Queue { dir, queue_ms: 3.0 };
        let gone = Reason::Drained { dir };
        let mut said = Said::default();
        let mut news = |up, why| said.is_news(&shaped(up, why));
        assert!(news(40_000, queue) && news(40_500, gone));
        assert!(!news(40_000, Reason::Queue { dir, queue_ms: 9.0 }));
        assert!(!news(41_000, gone));
        // Elsewhere, or at another rate, it is news.
        assert!(news(
            40_000,
            Reason::Drained {
                dir: Direction::Down
            }
        ));
        assert!(news(20_000, queue) && news(20_000, gone) && !news(20_000, queue));
        // A step that others tell of as well is none.
        assert!(!news(5_000, Reason::ProbingUp { dir }));
        assert!(said.is_news(&Event::Gone) && said.is_news(&Event::Gone));
    }
}
