//! `CoDel` (RFC 8289) for a FIFO whose departures are known when packets come.
//!
//! Principles: the RFC's state and names, asked once for each packet in the order in which they
//! would leave the queue, at the time at which they would leave it; its loops over several packets
//! become a state that the next packet finds. Its second test, whether more than a packet's worth of
//! bytes is left behind, would need packets that are yet to come: the target is at least the time of a
//! full packet instead, which is what that test is for. Non-goals: ECN, several queues.

use std::time::Duration;

/// What is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDel {
    /// A queue that never gets shorter than this for an interval is a standing one.
    pub target: Duration,
    /// About the longest round trip that is usual.
    pub interval: Duration,
}

impl Default for CoDel {
    /// RFC 8289, 4.2 and 4.3.
    fn default() -> Self {
        CoDel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
        }
    }
}

/// Where the RFC's loops are when the next packet comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A packet was let through.
    Sent,
    /// The packet that began the dropping state was dropped.
    Entered,
    /// Another one was.
    Dropped,
}

/// The RFC's variables.
#[derive(Debug, Clone)]
pub(super) struct State {
    config: CoDel,
    first_above: Option<Duration>,
    drop_next: Duration,
    count: u32,
    last_count: u32,
    dropping: bool,
    before: Before,
}

impl State {
    /// For a line on which a full packet takes `packet`.
    pub(super) fn new(config: CoDel, packet: Duration) -> Self {
        State {
            config: CoDel {
                target: config.target.max(packet),
                ..config
            },
            first_above: None,
            drop_next: Duration::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
            before: Before::Sent,
        }
    }

    /// Whether the packet that leaves the queue at `now`, after so long in it, is dropped.
    pub(super) fn drops(&mut self, now: Duration, sojourn: Duration) -> bool {
        let ok = self.ok_to_drop(now, sojourn);
        match std::mem::replace(&mut self.before, Before::Sent) {
            // What comes behind the first dropped packet is sent, however long it waited.
            Before::Entered => return false,
            Before::Dropped if ok => self.drop_next = self.control_law(self.drop_next),
            Before::Dropped | Before::Sent => {}
        }
        if self.dropping {
            self.dropping = ok;
            if !ok || now < self.drop_next {
                return false;
            }
            self.count += 1;
            self.before = Before::Dropped;
            return true;
        }
        if ok {
            self.enter(now);
        }
        ok
    }

    /// The queue is a standing one: drops begin, with the frequency of a little while ago if they
    /// were needed then.
    fn enter(&mut self, now: Duration) {
        self.dropping = true;
        self.before = Before::Entered;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_sub(self.drop_next) < 16 * self.config.interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(now);
        self.last_count = self.count;
    }

    fn ok_to_drop(&mut self, now: Duration, sojourn: Duration) -> bool {
        if sojourn < self.config.target {
            self.first_above = None;
            return false;
        }
        let first = *self.first_above.get_or_insert(now + self.config.interval);
        now >= first
    }

    fn control_law(&self, t: Duration) -> Duration {
        t + self
            .config
            .interval
            .div_f64(f64::from(self.count.max(1)).sqrt())
    }
}
