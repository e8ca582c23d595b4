//! A line's week: what it carries and how late packets are, by hour.
//!
//! Principles: medians, since one bad evening is no habit; a capacity counts only in minutes in which the line was
//! used nearly to the full, since otherwise it is what was known from before; an hour of the day is said to be slower
//! only if three days or more agree on it. Non-goals: holidays.

use serde::{Deserialize, Serialize};

use crate::Minute;
use crate::minute::kbit;

/// Used nearly to the full from this share of the capacity on, per cent.
const FULL: u64 = 80;
/// Days on which an hour was seen, at least.
const DAYS: usize = 3;
/// Slower by this share of the best hour's is worth a word.
const SLOWER: f64 = 0.85;

/// An hour of a week.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Hour {
    /// Median of what the line carried, kbit/s; 0: it was never used to the full.
    pub down_kbit: u32,
    /// The same, from us.
    pub up_kbit: u32,
    /// Median of the latency felt, ms; 0: not known.
    pub felt_ms: f64,
    /// On so many days it was seen.
    pub days: u16,
}

/// A week by its hours, Monday's first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Week {
    /// 168 of them.
    pub hours: Vec<Hour>,
    /// By hour of the day, of all days: 24 of them.
    pub day: Vec<Hour>,
    /// What is to be said of it.
    pub sentence: String,
}

/// Hours since 1970 in local time, of a minute.
fn local_hour(minute: &Minute, offset: i64) -> u64 {
    minute.begins().saturating_add_signed(offset) / 3600
}

fn median(mut of: Vec<u32>) -> u32 {
    of.sort_unstable();
    of.get(of.len() / 2).copied().unwrap_or(0)
}

fn hour<'a>(minutes: &(impl Iterator<Item = &'a Minute> + Clone), offset: i64) -> Hour {
    let full =
        |passed: u32, capacity: u32| u64::from(passed) * 100 >= FULL * u64::from(capacity.max(1));
    let of = |pick: fn(&Minute) -> &crate::Way| {
        let ways = minutes.clone().map(pick);
        median(
            ways.filter(|w| w.capacity_kbit > 0 && full(w.most_kbit, w.capacity_kbit))
                .map(|w| w.capacity_kbit)
                .collect(),
        )
    };
    let felt = median(
        minutes
            .clone()
            .filter(|m| m.base_cms > 0)
            .map(|m| m.felt_cms.into())
            .collect(),
    );
    let mut days: Vec<u64> = minutes
        .clone()
        .map(|m| local_hour(m, offset) / 24)
        .collect();
    days.dedup();
    Hour {
        down_kbit: of(|m| &m.down),
        up_kbit: of(|m| &m.up),
        felt_ms: f64::from(felt) / 100.0,
        days: days.len() as u16,
    }
}

impl Week {
    /// Of minutes in their order; `None`: there are none.
    pub fn of(minutes: &[Minute], offset: i64) -> Option<Self> {
        if minutes.is_empty() {
            return None;
        }
        // 1970 began on a Thursday.
        let of_week = |m: &Minute| ((local_hour(m, offset) + 72) % 168) as usize;
        let mut by_hour: Vec<Vec<Minute>> = vec![Vec::new(); 168];
        for m in minutes {
            if let Some(place) = by_hour.get_mut(of_week(m)) {
                place.push(*m);
            }
        }
        let hours = by_hour.iter().map(|of| hour(&of.iter(), offset)).collect();
        let day: Vec<Hour> = (0..24)
            .map(|h| hour(&by_hour.iter().skip(h).step_by(24).flatten(), offset))
            .collect();
        let mut week = Week {
            hours,
            sentence: String::new(),
            day,
        };
        week.sentence = week.words();
        Some(week)
    }

    /// What is usual at this time (seconds since 1970), if that hour is known: that of the week once three weeks are, and
    /// until then that of any day.
    pub fn usual(&self, at: u64, offset: i64) -> Option<Hour> {
        let hour = (at.saturating_add_signed(offset) / 3600 + 72) % 168;
        let known = |h: &&Hour| h.down_kbit > 0 || h.up_kbit > 0;
        let of_week = self.hours.get(hour as usize).filter(known);
        let of_week = of_week.filter(|h| usize::from(h.days) >= DAYS);
        of_week
            .or_else(|| self.day.get(hour as usize % 24).filter(known))
            .copied()
    }

    fn words(&self) -> String {
        let mut said = Vec::new();
        for (name, of) in [
            ("download", (|h| h.down_kbit) as fn(&Hour) -> u32),
            ("upload", |h| h.up_kbit),
        ] {
            let known = self.day.iter().enumerate();
            let known = known.filter(|(_, h)| usize::from(h.days) >= DAYS && of(h) > 0);
            let least = known.clone().min_by_key(|(_, h)| of(h));
            let most = known.max_by_key(|(_, h)| of(h));
            if let (Some((low, a)), Some((high, b))) = (least, most)
                && f64::from(of(a)) < SLOWER * f64::from(of(b))
            {
                said.push(format!(
                    "{name} is slowest from {low:02}:00 to {:02}:00, {} beside {} at {high:02}:00",
                    (low + 1) % 24,
                    kbit(of(a)),
                    kbit(of(b))
                ));
            }
        }
        said.join("; ")
    }
}
