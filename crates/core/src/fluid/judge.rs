//! What came of a line, in one direction.
//!
//! Principles: judged by the truth, which the controller never sees. Non-goals: what is good
//! enough (`evenkeel lab lines`).

use super::scene::STEP;

/// Longer than this is a queue where packets take no longer, s.
const QUEUE: f64 = 0.05;
/// The same in packets.
const QUEUE_PACKETS: f64 = 3.0;
/// A capacity that is off by at most this share is right.
const RIGHT: f64 = 0.05;
/// The line must have been full for so long in a load for its capacity to be known, s, and for so
/// many round trips.
const FULL: f64 = 3.0;
const FULL_ROUND_TRIPS: f64 = 10.0;

/// What came of it, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Judged {
    /// Ends of loads in which the line was full for long enough to be known: a queue stood at it
    /// or at us, or receive windows kept one from standing, for 3 s and ten round trips in all.
    pub looks: u32,
    /// Of these, how often the capacity was within 5 % of the truth.
    pub right: u32,
    /// The worst of them, as a share of the truth.
    pub worst: f64,
    /// Longest time below half the truth while loaded, s.
    pub starved: f64,
    /// Longest time over a queue of 50 ms or three packets, s.
    pub queued: f64,
    /// Bytes that passed while loaded, and what the line could have carried.
    pub passed: f64,
    /// The latter.
    pub possible: f64,
    /// Mean queue while loaded, s.
    pub queue: f64,
    /// Changes of the rate while nothing was loaded.
    pub idle_changes: u32,
}

/// What happened in one step; bytes and bytes/s.
pub(super) struct Happened {
    /// Somebody sends.
    pub loaded: bool,
    /// What arrived, bytes/s.
    pub passed: f64,
    /// What the line carried for us, bytes/s.
    pub capacity: f64,
    /// What waits at the bottleneck, bytes.
    pub queue: f64,
    /// What may be used, bytes/s.
    pub granted: f64,
    /// A full packet, bytes.
    pub packet: f64,
}

/// Judges one direction, step by step.
#[derive(Debug, Clone)]
pub(super) struct Judge {
    judged: Judged,
    /// For so long it is below half the truth now, s.
    starved: f64,
    /// For so long there is a queue now, s.
    queued: f64,
}

impl Judge {
    pub(super) fn new() -> Self {
        Judge {
            judged: Judged {
                worst: 1.0,
                ..Judged::default()
            },
            starved: 0.0,
            queued: 0.0,
        }
    }

    /// One more step.
    pub(super) fn step(&mut self, h: &Happened) {
        let j = &mut self.judged;
        let lasts = |so_far: f64, is: bool| if is { so_far + STEP } else { 0.0 };
        if h.loaded {
            j.passed += h.passed * STEP;
            j.possible += h.capacity * STEP;
            j.queue += h.queue / h.capacity * STEP;
        }
        self.starved = lasts(self.starved, h.loaded && h.granted < 0.5 * h.capacity);
        j.starved = j.starved.max(self.starved);
        let long = (QUEUE * h.capacity).max(QUEUE_PACKETS * h.packet);
        self.queued = lasts(self.queued, h.queue > long);
        j.queued = j.queued.max(self.queued);
    }

    /// Whether a line that was full for `full` s of a load must be known.
    pub(super) fn is_knowable(full: f64, rtt: f64) -> bool {
        full > (FULL_ROUND_TRIPS * rtt).max(FULL)
    }

    /// At the end of a load the line is thought to carry this share of what it does.
    pub(super) fn look(&mut self, share: f64) {
        let j = &mut self.judged;
        j.looks += 1;
        if (share - 1.0).abs() <= RIGHT {
            j.right += 1;
        }
        if (share - 1.0).abs() > (j.worst - 1.0).abs() {
            j.worst = share;
        }
    }

    /// The rate changed while nothing was loaded.
    pub(super) fn changed_while_idle(&mut self) {
        self.judged.idle_changes += 1;
    }

    pub(super) fn judged(&self) -> Judged {
        self.judged
    }
}
