//! Luck for one kind of thing. Non-goals: which kinds there are.

use evenkeel_core::pipe::SplitMix64;

/// Random numbers for one kind of thing.
pub(super) struct Random(SplitMix64);

impl Random {
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = SplitMix64::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(stream << 40));
        Random(SplitMix64::new(mixed.next_u64()))
    }

    /// Evenly between 0 and 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.unit()
    }

    /// As often in one doubling as in the next. A range of one value takes no number.
    pub(super) fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        if low < high {
            low * (high / low).powf(self.0.unit())
        } else {
            low
        }
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.0.unit() < share
    }

    /// One alone takes no number.
    pub(super) fn choose<T: Copy>(&mut self, all: &[T]) -> T {
        match all {
            [only] => *only,
            _ => all[((self.0.unit() * all.len() as f64) as usize).min(all.len() - 1)],
        }
    }
}
