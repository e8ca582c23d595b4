//! What a line is expected to carry now, by its history: an evening is slower on many of them.
//!
//! Principles: what was seen within the last hour is known better than by habit; a habit is what three days agree on;
//! it is a first guess like any other, and said. Non-goals: following the line (crate `evenkeel-autorate`).

use std::path::Path;

use evenkeel_core::units::rounded;
use evenkeel_core::{PerDirection, Rate};
use evenkeel_history::{Book, Minute, Way, Week};
use evenkeel_sys::clock;

/// Days on which this hour was seen, at least.
const DAYS: u16 = 3;
/// So long what was seen is better than habit, s.
const RECENT: u64 = 3600;

/// What is usual at this hour.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Expectation {
    pub(super) rates: PerDirection<Option<Rate>>,
    days: u16,
}

impl Expectation {
    /// Of `device`, by its history below `dir`.
    pub(super) fn of(dir: &Path, device: &str) -> Self {
        let now = clock::realtime().as_secs();
        // What cannot be read is said by `history`.
        let minutes = Book::open(dir, device, now).map_or(Vec::new(), |b| b.minutes);
        Self::from(&minutes, now, clock::local_offset(now))
    }

    fn from(minutes: &[Minute], now: u64, offset: i64) -> Self {
        let usual = Week::of(minutes, offset).and_then(|w| w.usual(now, offset));
        let Some(hour) = usual.filter(|h| h.days >= DAYS) else {
            return Self::default();
        };
        let recent = |of: fn(&Minute) -> &Way| {
            let late = minutes.iter().rev();
            let mut late = late.take_while(|m| m.begins() + RECENT > now);
            late.any(|m| of(m).capacity_kbit > 0)
        };
        let rate = |kbit: u32, known: bool| {
            Some(Rate::from_kbit(kbit.into())).filter(|_| kbit > 0 && !known)
        };
        Expectation {
            rates: PerDirection {
                down: rate(hour.down_kbit, recent(|m| &m.down)),
                up: rate(hour.up_kbit, recent(|m| &m.up)),
            },
            days: hour.days,
        }
    }

    /// In words; `None`: nothing is expected.
    pub(super) fn said(&self) -> Option<String> {
        let PerDirection { down, up } = self.rates;
        let way = |name, rate: Option<Rate>| rate.map(|r| format!("{name} {}", rounded::rate(r)));
        let both: Vec<String> = [way("down", down), way("up", up)]
            .into_iter()
            .flatten()
            .collect();
        (!both.is_empty()).then(|| {
            format!(
                "usual at this hour, on {} days: {}; that is expected now",
                self.days,
                both.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;
    /// A Thursday, 20:10.
    const NOW: u64 = 20_000 * DAY + 20 * 3600 + 600;

    fn minute(at: u64, mbit: u32) -> Minute {
        let way = Way {
            capacity_kbit: mbit * 1000,
            most_kbit: mbit * 1000,
            ..Way::default()
        };
        Minute {
            minute: (at / 60) as u32,
            seconds: 60,
            down: way,
            ..Minute::default()
        }
    }

    #[test]
    fn an_evening_is_what_evenings_were() {
        // Mornings 80, evenings 20, on each of four weeks.
        let days = (1..=28).rev();
        let mut all: Vec<Minute> = days
            .flat_map(|d| {
                [(10, 80), (20, 20)].map(|(h, mbit)| minute((20_000 - d) * DAY + h * 3600, mbit))
            })
            .collect();
        let e = Expectation::from(&all, NOW, 0);
        assert_eq!(
            (e.rates.down, e.rates.up),
            (Some(Rate::from_kbit(20_000)), None)
        );
        assert_eq!(
            e.said().unwrap(),
            "usual at this hour, on 4 days: down 20.0 Mbit/s; that is expected now"
        );
        // At another hour nothing is usual.
        assert_eq!(Expectation::from(&all, NOW + 3600, 0).said(), None);
        // Half an hour ago it was seen.
        all.push(minute(NOW - 1800, 55));
        assert_eq!(Expectation::from(&all, NOW, 0).said(), None);
        // Two days are no habit.
        let few: Vec<Minute> = [14, 7].map(|d| minute(NOW - d * DAY, 20)).to_vec();
        assert_eq!(Expectation::from(&few, NOW, 0).said(), None);
        assert_eq!(Expectation::from(&[], NOW, 0), Expectation::default());
    }
}
