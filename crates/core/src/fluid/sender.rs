//! TCP senders of one direction, in outline, as one rate.
//!
//! Principles: they double each round trip until something is lost, then yield 30 % at each loss
//! (RFC 9438, 4.6: CUBIC's beta is 0.7) and come back within a second or some round trips; what is
//! acknowledged clocks out what is sent. Non-goals: being exact about any TCP.

use super::scene::{MTU, STEP};

/// What a sender keeps of its rate at a loss, as a share.
const YIELD: f64 = 0.7;

/// The senders of a load.
#[derive(Debug, Clone, Default)]
pub(super) struct Sender {
    /// What they would send, bytes/s.
    pub rate: f64,
    /// Where that was when something was lost last; 0: never, and it doubles.
    top: f64,
    /// A loss is heard of at this time, s, and the share of the rate that then remains.
    told: Option<(f64, f64)>,
    /// How many there are.
    pub flows: f64,
}

impl Sender {
    /// `flows` that begin with windows of ten packets (RFC 6928) of `packet` bytes.
    pub(super) fn begin(flows: u32, packet: f64, rtt: f64) -> Self {
        Sender {
            rate: f64::from(flows) * 10.0 * packet / rtt,
            flows: f64::from(flows),
            ..Sender::default()
        }
    }

    /// What is sent in this step, bytes/s: at most `limit`. `passed` is what is acknowledged, and
    /// with it clocked out.
    pub(super) fn step(&mut self, t: f64, rtt: f64, limit: f64, passed: f64) -> f64 {
        if let Some((at, remains)) = self.told
            && t >= at
        {
            self.told = None;
            self.top = self.rate.min(passed);
            self.rate = self.top * remains;
        }
        let least = self.flows * f64::from(MTU) / rtt;
        // A window of data does not grow while the receiver's is the smaller one, and is still
        // there when that opens.
        if self.rate < limit {
            if self.top == 0.0 {
                self.rate += self.rate * STEP / rtt * std::f64::consts::LN_2;
            } else {
                let back = (1.0f64).max(10.0 * rtt);
                self.rate += 0.3 * self.top * STEP / back;
            }
        }
        self.rate = self.rate.min(2.0 * passed.max(least)).max(least);
        self.rate.min(limit)
    }

    /// Something is lost. For `queued` s a window's worth waits: to yield shortens that wait first.
    pub(super) fn lose(&mut self, t: f64, rtt: f64, queued: f64) {
        if self.told.is_none() {
            let base = (rtt - queued).max(1e-3);
            self.told = Some((t + rtt, (YIELD * rtt / base).min(0.98)));
        }
    }
}
