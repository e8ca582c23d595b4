//! Our shapers and receive windows, set to what `run` sets them to in the kernel.
//!
//! Principles: every rate, share and time comes from `plan`, none stands here; CoDel is a target
//! that may stand and an interval in which more is borne. Non-goals: fairness, super-packets.

use super::scene::MTU;
use crate::framing::Framing;
use crate::plan::{Given, INTERVAL, Policy, Shaping, Target};
use crate::tc::Cake;
use crate::{Direction, Line, PerDirection};

/// Both directions' shapers, and the windows of downloads.
#[derive(Debug, Clone)]
pub(super) struct Shaper {
    policy: Policy,
    framing: Framing,
    /// What the controller asked for last.
    pub targets: PerDirection<Option<Target>>,
    shaping: Shaping,
}

impl Shaper {
    /// `run` as people start it, on a line of which nothing is known; `windows`: they are bounded.
    pub(super) fn new(framing: Framing, windows: bool) -> Self {
        let policy = Policy {
            windows,
            ..Policy::default()
        };
        let targets = PerDirection::default();
        let shaping = shaping(&policy, framing, targets);
        Shaper {
            policy,
            framing,
            targets,
            shaping,
        }
    }

    /// What the controller asks for now.
    pub(super) fn set(&mut self, targets: PerDirection<Option<Target>>) {
        self.targets = targets;
        self.shaping = shaping(&self.policy, self.framing, targets);
    }

    /// What a direction may use of the line for now, bytes/s.
    pub(super) fn granted(&self, direction: Direction) -> f64 {
        self.targets[direction].map_or(f64::MAX, |t| t.let_out().bps() as f64 / 8.0)
    }

    /// The shaper's rate, bytes/s.
    pub(super) fn rate(&self, direction: Direction) -> f64 {
        let rate = match direction {
            Direction::Up => self.shaping.up,
            Direction::Down => self.shaping.down,
        };
        match self.targets[direction] {
            Some(_) => rate.bps() as f64 / 8.0,
            None => f64::MAX,
        }
    }

    /// What windows let come within a round trip of `felt` s, bytes/s, if they are bounded. Round
    /// trips may take a little longer than `rtt` before a window shrinks.
    pub(super) fn window(&self, direction: Direction, rtt: f64, felt: f64) -> Option<f64> {
        if direction == Direction::Up {
            return None;
        }
        let aim = self.shaping.windows.filter(|_| self.targets.down.is_some());
        let slack = rtt + self.shaping.slack.as_secs_f64();
        aim.map(|aim| aim.bps() as f64 / 8.0 * (slack / felt).max(1.0))
    }

    /// CAKE's interval, s.
    pub(super) fn interval(&self, direction: Direction) -> f64 {
        let interval = self.shaping.intervals[direction].unwrap_or(INTERVAL);
        interval.as_secs_f64()
    }

    /// What may stand in the shaper before it signals, s.
    pub(super) fn target(&self, direction: Direction) -> f64 {
        let cake = Cake {
            rtt: Some(self.shaping.intervals[direction].unwrap_or(INTERVAL)),
            ..Cake::default()
        };
        cake.target_sent().unwrap_or_default().as_secs_f64()
    }

    /// Whether what it sends follows pulses.
    pub(super) fn has_pulses(&self, direction: Direction) -> bool {
        self.targets[direction].is_some_and(|t| t.pulses)
    }
}

fn shaping(policy: &Policy, framing: Framing, targets: PerDirection<Option<Target>>) -> Shaping {
    let known = targets.map(|t| t.and_then(Target::at_capacity));
    let capacity = known.map(|t| t.map_or(Line::OPEN, |t| t.capacity));
    let given = Given {
        line: Line {
            down: capacity.down,
            up: capacity.up,
            framing,
        },
        mtu: MTU,
        programs: policy.windows,
        policed: false,
        likely: None,
    };
    Shaping::told(policy, &given).followed(targets)
}
