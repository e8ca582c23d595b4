//! TCP senders of one direction, in outline, as one rate.
//!
//! Principles: they double each round trip until something is lost, then yield 30 % at each loss
//! (RFC 9438, 4.6) and come back by CUBIC's curve, which is steep again long after the loss; what is
//! acknowledged clocks out what is sent. Non-goals: being exact about any TCP.

use super::scene::{MTU, STEP};

/// CUBIC's scaling factor, packets/s^3 (RFC 9438, 5.1).
const CUBIC_C: f64 = 0.4;
/// A window grows as fast as Reno's at least, packets a round trip (RFC 9438, 4.3: 3 (1 - beta) / (1 +
/// beta)), and by at most half of itself (RFC 9438, 4.4).
const LIKE_RENO: f64 = 0.53;
const STEEPEST: f64 = 0.5;

/// What a sender keeps of its rate at a loss, as a share.
const YIELD: f64 = 0.7;

/// The senders of a load.
#[derive(Debug, Clone, Default)]
pub(super) struct Sender {
    /// What they would send, bytes/s.
    pub rate: f64,
    /// Where that was when something was lost last; 0: never, and it doubles.
    top: f64,
    /// The latest loss was heard of then, s.
    lost: f64,
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
            self.lost = t;
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
                self.rate += self.grows(t, rtt) * STEP;
            }
        }
        self.rate = self.rate.min(2.0 * passed.max(least)).max(least);
        self.rate.min(limit)
    }

    /// By how much the rate grows, bytes/s^2: CUBIC's window is `C (t - K)^3 + Wmax` packets.
    fn grows(&self, t: f64, rtt: f64) -> f64 {
        let window = f64::from(MTU) * self.flows / rtt;
        let top = self.top / window;
        let k = (top * (1.0 - YIELD) / CUBIC_C).cbrt();
        let cubic = 3.0 * CUBIC_C * (t - self.lost - k).powi(2);
        let steepest = (STEEPEST * self.rate / window).max(LIKE_RENO);
        (cubic * rtt).clamp(LIKE_RENO, steepest) * window / rtt
    }

    /// Something is lost. For `queued` s a window's worth waits: to yield shortens that wait first.
    pub(super) fn lose(&mut self, t: f64, rtt: f64, queued: f64) {
        if self.told.is_none() {
            let base = (rtt - queued).max(1e-3);
            self.told = Some((t + rtt, (YIELD * rtt / base).min(0.98)));
        }
    }
}
