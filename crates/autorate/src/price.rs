//! What shaping takes and what it brings, by day.
//!
//! Principles: only while a direction is used to the full, since nobody misses what he does not
//! use; what is won is said against the longest queue that was seen while nothing was shaped, so it
//! is rather too little. Non-goals: local time (days are UTC's), more history than a week.

use std::time::{Duration, SystemTime};

use evenkeel_core::units::rounded;
use serde::{Deserialize, Serialize};

/// Days that are kept.
const DAYS: usize = 7;

/// The price of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Price {
    /// Headroom that was given up, bytes.
    pub(crate) headroom_bytes: f64,
    /// Time of full use, s.
    pub(crate) full_s: f64,
    /// Longest queue while unshaped less the one that there was, ms, the mean over that time.
    pub(crate) latency_won_ms: f64,
}

impl Price {
    pub(crate) fn add(&mut self, more: &Price) {
        let full_s = self.full_s + more.full_s;
        if full_s > 0.0 {
            let won = self.latency_won_ms * self.full_s + more.latency_won_ms * more.full_s;
            self.latency_won_ms = won / full_s;
        }
        self.full_s = full_s;
        self.headroom_bytes += more.headroom_bytes;
    }
}

/// The price of a day.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Day {
    /// As in 2025-12-31, UTC.
    date: String,
    down: Price,
    up: Price,
}

/// The last days on which there was one, the latest last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Days(Vec<Day>);

/// The date at so much after 1970.
pub(crate) fn date(since_1970: Duration) -> String {
    let time = SystemTime::UNIX_EPOCH + since_1970;
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.get(..10).unwrap_or_default().to_owned()
}

impl Days {
    /// Adds to the day that `date` is.
    pub(crate) fn add(&mut self, date: &str, down: &Price, up: &Price) {
        if down.full_s + up.full_s == 0.0 {
            return;
        }
        let known = self.0.iter().position(|d| d.date == date);
        let at = known.unwrap_or_else(|| {
            self.0.push(Day {
                date: date.to_owned(),
                ..Day::default()
            });
            if self.0.len() > DAYS {
                self.0.remove(0);
            }
            self.0.len() - 1
        });
        if let Some(day) = self.0.get_mut(at) {
            day.down.add(down);
            day.up.add(up);
        }
    }

    /// For people, on a day that `date` is.
    pub(crate) fn show(&self, date: &str) -> String {
        let mut all = Day::default();
        for day in &self.0 {
            all.down.add(&day.down);
            all.up.add(&day.up);
        }
        let today = self.0.iter().find(|d| d.date == date);
        let mut text = match today {
            Some(today) => today.show("today so far"),
            None => "    today so far: the line was not used to the full\n".to_owned(),
        };
        if self.0.iter().any(|d| d.date != date) {
            text += &all.show(&format!("the last {} days of use", self.0.len()));
        }
        text
    }
}

impl Day {
    fn show(&self, when: &str) -> String {
        let way = |name: &str, price: &Price| {
            (price.full_s > 0.0).then(|| {
                format!(
                    "{name} gave up {} for {} less of queue in {} of full use",
                    rounded::bytes(price.headroom_bytes),
                    rounded::milliseconds(price.latency_won_ms),
                    rounded::age(price.full_s)
                )
            })
        };
        let both = [way("download", &self.down), way("upload", &self.up)];
        let both: Vec<String> = both.into_iter().flatten().collect();
        // A line for each direction: both do not fit a terminal's.
        let indent = format!("\n    {:width$}  ", "", width = when.len());
        format!("    {when}: {}\n", both.join(&indent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(bytes: f64, full_s: f64, won: f64) -> Price {
        Price {
            headroom_bytes: bytes,
            full_s,
            latency_won_ms: won,
        }
    }

    #[test]
    fn a_week_is_kept_and_means_are_by_time() {
        let mut days = Days::default();
        let none = Price::default();
        days.add("2025-12-22", &none, &none);
        assert_eq!(days, Days::default());
        assert!(days.show("2025-12-22").contains("not used to the full"));
        for day in 23..31 {
            let date = format!("2025-12-{day}");
            days.add(&date, &price(1e6, 10.0, 90.0), &none);
            days.add(&date, &price(1e6, 30.0, 50.0), &price(5e5, 1.0, 7.0));
        }
        assert_eq!(days.0.len(), DAYS);
        assert_eq!(days.0[0].date, "2025-12-24");
        assert_eq!(days.0[6].down, price(2e6, 40.0, 60.0));
        assert_eq!(
            days.show("2025-12-30"),
            "    today so far: download gave up 2.00 MB for 60.0 ms less of queue in 40 s of full \
             use\n                  upload gave up 500 kB for 7.00 ms less of queue in 1 s of full \
             use\n    the last 7 days of use: download gave up 14.0 MB for 60.0 ms less of queue in \
             5 min of full use\n                            upload gave up 3.50 MB for 7.00 ms less of \
             queue in 7 s of full use\n"
        );
        let json = serde_json::to_string(&days).unwrap();
        assert_eq!(serde_json::from_str::<Days>(&json).unwrap(), days);
        assert_eq!(date(Duration::from_secs(1_767_225_599)), "2025-12-31");
    }
}
