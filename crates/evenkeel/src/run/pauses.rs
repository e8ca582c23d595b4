//! Lines that are let go of for a while: somebody measures what they do without us.
//!
//! Principles: a pause is a lease; it ends by itself, whatever becomes of who asked for it, and is prolonged by asking
//! again. Non-goals: stopping and starting lines (`daemon`).

use std::time::{Duration, Instant};

use super::settings::Override;

/// The longest lease. Who measures for longer asks again.
pub(super) const LONGEST: Duration = Duration::from_secs(120);

/// One line that is let go of.
#[derive(Debug)]
pub(super) struct Pause {
    /// Its device.
    pub(super) device: String,
    /// How it was named.
    pub(super) named: Option<String>,
    /// What was told of it.
    pub(super) told: Override,
    until: Instant,
}

impl Pause {
    /// From now on for so long, [`LONGEST`] at most.
    pub(super) fn new(
        device: String,
        named: Option<String>,
        told: Override,
        lease: Duration,
    ) -> Self {
        Pause {
            device,
            named,
            told,
            until: Instant::now() + lease.min(LONGEST),
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Pauses(pub(super) Vec<Pause>);

impl Pauses {
    /// Prolongs that of a device; `false`: there is none.
    pub(super) fn prolong(&mut self, device: &str, lease: Duration) -> bool {
        let found = self.0.iter_mut().find(|p| p.device == device);
        found.is_some_and(|p| {
            p.until = p.until.max(Instant::now() + lease.min(LONGEST));
            true
        })
    }

    /// Ends that of a device.
    pub(super) fn take(&mut self, device: &str) -> Option<Pause> {
        let at = self.0.iter().position(|p| p.device == device)?;
        Some(self.0.swap_remove(at))
    }

    /// Those whose lease has ended.
    pub(super) fn ended(&mut self) -> Vec<Pause> {
        let now = Instant::now();
        self.0.extract_if(.., |p| p.until <= now).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself() {
        let of = |device: &str, lease| Pause::new(device.into(), None, Override::default(), lease);
        let hour = Duration::from_secs(3600);
        let mut pauses = Pauses(vec![of("a", Duration::ZERO), of("b", hour), of("c", hour)]);
        assert!(pauses.0[1].until <= Instant::now() + LONGEST);
        assert!(pauses.prolong("b", Duration::ZERO) && !pauses.prolong("d", hour));
        let ended: Vec<String> = pauses.ended().into_iter().map(|p| p.device).collect();
        assert_eq!(ended, ["a"]);
        assert!(pauses.take("c").is_some() && pauses.take("c").is_none());
        assert_eq!(pauses.0.len(), 1);
    }
}
