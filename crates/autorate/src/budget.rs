//! A budget for probing: so many bytes in a month, kept across restarts.
//!
//! Principles: it is never exceeded: what is sent is counted before, and nothing is sent that does not fit; what is left is
//! spread over the rest of the month, with something saved for times in which the line is loaded; bytes are those of IP
//! packets, there and back. Non-goals: which probes matter more (what loads the line is probed as often as ever, until
//! what was saved is used up).

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use evenkeel_core::rules::Quota;
use evenkeel_core::units::rounded;
use serde::{Deserialize, Serialize};

use crate::price::date;

/// A probe and its answer: payload of 16 bytes, ICMP's header and IPv6's, twice.
const PROBE: u64 = 2 * (16 + 8 + 40);
/// So much of the budget can be saved for a load.
const SAVED: f64 = 0.02;
/// Probing is spared when nothing is saved any more, until there is this share of it again.
const ENOUGH: f64 = 0.5;
/// More often than this there is nothing to spare.
const OFTEN: Duration = Duration::from_millis(300);
/// A search for something to probe, and for others, takes so many probes at most, those of
/// `serialization_delay` with them.
pub(crate) const SEARCH: u64 = 430;
/// The file is written so often; a kill forgets what came after, for which the next start allows.
const EACH: Duration = Duration::from_secs(60);
/// What may have been sent since it was written: as often as a loaded line is probed, for [`EACH`].
const FORGOTTEN: u64 = 3000 * PROBE;

/// So many bytes in a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeBudget {
    /// Of IP packets, both ways together.
    pub bytes: u64,
}

impl FromStr for ProbeBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(Quota::Volume(bytes)) => Ok(ProbeBudget { bytes }),
            _ => Err(format!("{text:?} is not like 100MB/month (kB, MB, GB, TB)")),
        }
    }
}

impl fmt::Display for ProbeBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/month", rounded::bytes(self.bytes as f64))
    }
}

/// What was spent, for whoever shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// This month, bytes.
    pub bytes: u64,
    /// Of so many.
    pub of: u64,
}

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// As 2026-11, UTC.
    month: String,
    bytes: u64,
    /// Nothing was sent since it was written.
    ended: bool,
}

/// What is left of a budget.
#[derive(Debug)]
pub(crate) struct Purse {
    budget: ProbeBudget,
    file: PathBuf,
    kept: Kept,
    /// What a load may take now, bytes.
    saved: f64,
    scarce: bool,
    /// When it was looked at, and written, steady clock.
    looked: Duration,
    written: Option<Duration>,
}

/// The month of a time since 1970, and what is left of it.
fn month(wall: Duration) -> (String, Duration) {
    let day = date(wall);
    let this = day.get(..7).unwrap_or_default().to_owned();
    let number = |s: Option<&str>| s.and_then(|s| s.parse::<u32>().ok()).unwrap_or(1);
    let (year, month) = (number(day.get(..4)), number(day.get(5..7)));
    let (year, month) = if month == 12 {
        (year + 1, 1)
    } else {
        (year, month + 1)
    };
    let next = humantime::parse_rfc3339(&format!("{year:04}-{month:02}-01T00:00:00Z"));
    let left = next
        .ok()
        .and_then(|n| n.duration_since(SystemTime::UNIX_EPOCH + wall).ok());
    (
        this,
        left.unwrap_or(Duration::from_secs(1))
            .max(Duration::from_secs(1)),
    )
}

impl Purse {
    /// Of a device, with what is known of this month.
    pub(crate) fn open(
        dir: &Path,
        device: &str,
        budget: ProbeBudget,
        now: Duration,
        wall: Duration,
    ) -> Self {
        let file = dir.join(format!("{device}.probes.json"));
        let read = fs::read_to_string(&file).ok();
        let known = read.and_then(|text| serde_json::from_str::<Kept>(&text).ok());
        let (this, _) = month(wall);
        let bytes = match known {
            Some(k) if k.month == this && k.ended => k.bytes,
            Some(k) if k.month == this => k.bytes.saturating_add(FORGOTTEN.min(budget.bytes / 100)),
            _ => 0,
        };
        Purse {
            budget,
            file,
            kept: Kept {
                month: this,
                bytes,
                ended: false,
            },
            saved: budget.bytes as f64 * SAVED * ENOUGH,
            scarce: false,
            looked: now,
            written: None,
        }
    }

    /// Whether so many probes may be sent.
    pub(crate) fn allows(&self, probes: u64) -> bool {
        self.kept.bytes.saturating_add(probes * PROBE) <= self.budget.bytes
    }

    /// They are sent.
    pub(crate) fn spend(&mut self, probes: u64) {
        self.kept.bytes = self.kept.bytes.saturating_add(probes * PROBE);
        self.saved -= (probes * PROBE) as f64;
    }

    /// From one probe to the next at least; nought: as often as is wanted. To be called twice a second.
    pub(crate) fn interval(&mut self, now: Duration, wall: Duration) -> Duration {
        let (this, left) = month(wall);
        if this != self.kept.month {
            (self.kept.month, self.kept.bytes) = (this, 0);
        }
        let rest = self.budget.bytes.saturating_sub(self.kept.bytes);
        let rate = rest as f64 / left.as_secs_f64();
        let most = self.budget.bytes as f64 * SAVED;
        let since = now.saturating_sub(self.looked).as_secs_f64();
        self.looked = now;
        self.saved = (self.saved + rate * since).clamp(-most, most);
        self.scarce = self.saved < if self.scarce { most * ENOUGH } else { 0.0 };
        if rest < PROBE {
            return left;
        }
        if !self.scarce {
            return Duration::ZERO;
        }
        // Half of what comes is saved.
        let seconds = (2.0 * PROBE as f64 / rate).min(left.as_secs_f64());
        let interval = Duration::from_secs_f64(seconds);
        if interval < OFTEN {
            Duration::ZERO
        } else {
            interval
        }
    }

    /// What was spent.
    pub(crate) fn spent(&self) -> Spent {
        Spent {
            bytes: self.kept.bytes,
            of: self.budget.bytes,
        }
    }

    /// Writes it down, if it is time or the `end`.
    pub(crate) fn keep(&mut self, now: Duration, end: bool) -> Result<(), String> {
        if !end && self.written.is_some_and(|w| now.saturating_sub(w) < EACH) {
            return Ok(());
        }
        self.written = Some(now);
        self.kept.ended = end;
        let text = serde_json::to_string(&self.kept).map_err(|e| e.to_string())?;
        let new = self.file.with_extension("json.new");
        let write = || {
            if let Some(dir) = self.file.parent() {
                fs::create_dir_all(dir)?;
            }
            fs::write(&new, text + "\n")?;
            fs::rename(&new, &self.file)
        };
        write().map_err(|e: std::io::Error| format!("write {}: {e}", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-15, noon.
    const WALL: Duration = Duration::from_secs(1_794_744_000);

    #[test]
    fn budgets_are_read() {
        let of = |t: &str| t.parse::<ProbeBudget>().map(|b| b.bytes);
        assert_eq!(of("100 MB/month"), Ok(100_000_000));
        assert_eq!(of("5kB/month"), Ok(5000));
        for wrong in [
            "",
            "100",
            "100 MB",
            "MB/month",
            "0 MB/month",
            "1 MiB/month",
            "2 h/day",
            "9999999999999 GB/month",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn months_end() {
        assert_eq!(
            month(WALL),
            ("2026-11".into(), Duration::from_secs(15 * 86_400 + 43_200))
        );
        let december = WALL + Duration::from_secs(30 * 86_400);
        assert_eq!(month(december).1, Duration::from_secs(16 * 86_400 + 43_200));
    }

    /// Half a month, with a load all the time: as much as may be, and never more; it is known after a restart.
    #[test]
    fn a_budget_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let budget = ProbeBudget { bytes: 10_000_000 };
        let open = |at: Duration| Purse::open(dir.path(), "wan", budget, at, WALL + at);
        let mut purse = open(Duration::ZERO);
        let (step, mut last) = (Duration::from_secs(60), Duration::ZERO);
        let mut at = Duration::ZERO;
        while at < Duration::from_secs(15 * 86_400) {
            at += step;
            let interval = purse.interval(at, WALL + at);
            let most = 3000.0;
            let due = (step.as_secs_f64() / interval.as_secs_f64().max(0.02)).min(most);
            if interval <= step || at.saturating_sub(last) >= interval {
                let n = (due as u64).max(1);
                if purse.allows(n) {
                    purse.spend(n);
                    last = at;
                }
            }
        }
        let spent = purse.spent();
        assert!(
            spent.bytes <= spent.of && spent.bytes > spent.of / 2,
            "{spent:?}"
        );
        purse.keep(at, true).unwrap();
        assert_eq!(open(at).spent(), spent);
        // One that was killed may have sent some more.
        purse.keep(at + EACH, false).unwrap();
        let again = open(at).spent();
        assert!(again.bytes > spent.bytes && again.bytes <= spent.bytes + spent.of / 100);
        // The next month begins with nothing spent, and what is not there or broken is no error.
        let next = Purse::open(
            dir.path(),
            "wan",
            budget,
            at,
            WALL + Duration::from_secs(20 * 86_400),
        );
        assert_eq!(next.spent().bytes, 0);
        fs::write(dir.path().join("wan.probes.json"), "[").unwrap();
        assert_eq!(open(at).spent().bytes, 0);
    }

    #[test]
    fn nothing_left_is_nothing_sent() {
        let dir = tempfile::tempdir().unwrap();
        let mut purse = Purse::open(
            dir.path(),
            "wan",
            ProbeBudget { bytes: 1000 },
            Duration::ZERO,
            WALL,
        );
        assert!(purse.allows(7) && !purse.allows(SEARCH));
        purse.spend(7);
        assert!(!purse.allows(1));
        assert_eq!(purse.interval(Duration::ZERO, WALL), month(WALL).1);
    }
}
