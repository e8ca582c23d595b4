//! How much a line has moved: by day, and of each day by tier, host and program.
//!
//! Principles: what the device counted is the truth, and the kernel goes on counting when this process is killed: the file
//! has the device's counters beside the sums, so that nothing of one boot is lost or counted twice, however seldom it is
//! written. Tiers, hosts and programs are parts of it, as far as they are known. A file that is none is put aside. Bounded: so
//! many days, and so many names in each. Non-goals: who asks, what a budget does.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The version that this code writes and reads.
const VERSION: u32 = 1;
/// Days that are kept: this month and the last one.
const DAYS: usize = 62;
/// Names of a kind in a day; the rest is one of them.
const NAMES: usize = 256;
/// That rest.
pub const OTHERS: &str = "others";

/// Bytes of both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Towards us.
    pub down: u64,
    /// From us.
    pub up: u64,
}

impl Moved {
    /// Both together.
    pub fn both(self) -> u64 {
        self.down.saturating_add(self.up)
    }

    /// With more.
    pub fn add(&mut self, more: Moved) {
        self.down = self.down.saturating_add(more.down);
        self.up = self.up.saturating_add(more.up);
    }

    /// What has come since `before`; all of it where a counter began anew.
    #[must_use]
    pub fn since(self, before: Moved) -> Moved {
        if self.down < before.down || self.up < before.up {
            return self;
        }
        Moved {
            down: self.down - before.down,
            up: self.up - before.up,
        }
    }
}

/// A part of what moved, by name.
pub type Parts = BTreeMap<String, Moved>;

/// What moved in a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Day {
    /// As the device counts.
    pub total: Moved,
    /// As IP packets; so are the others.
    pub tiers: Parts,
    /// Devices on our side.
    pub hosts: Parts,
    /// Programs of this host.
    pub programs: Parts,
}

/// Of what a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A tier.
    Tier,
    /// A device on our side.
    Host,
    /// A program of this host.
    Program,
}

impl Day {
    /// Parts of a kind.
    pub fn parts(&self, kind: Kind) -> &Parts {
        match kind {
            Kind::Tier => &self.tiers,
            Kind::Host => &self.hosts,
            Kind::Program => &self.programs,
        }
    }

    fn add_part(&mut self, kind: Kind, name: &str, moved: Moved) {
        let parts = match kind {
            Kind::Tier => &mut self.tiers,
            Kind::Host => &mut self.hosts,
            Kind::Program => &mut self.programs,
        };
        let has_room = parts.len() < NAMES || parts.contains_key(name);
        let name = if has_room { name } else { OTHERS };
        parts.entry(name.to_owned()).or_default().add(moved);
    }

    fn add(&mut self, more: &Day) {
        self.total.add(more.total);
        for kind in [Kind::Tier, Kind::Host, Kind::Program] {
            for (name, moved) in more.parts(kind) {
                self.add_part(kind, name, *moved);
            }
        }
    }
}

/// Whose counters they are: another boot's or another device's begin anew.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Identity of the boot.
    pub boot: String,
    /// Number of the device.
    pub ifindex: u32,
    /// What it has counted.
    pub moved: Moved,
}

/// What a line has moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    version: u32,
    counter: Option<Counter>,
    /// By date, as 2026-11-25, in local time.
    pub days: BTreeMap<String, Day>,
    /// The month in which, and the share of a budget (per cent) at which somebody was warned last.
    pub warned: Option<(String, u8)>,
    /// Bytes that a month may have, for whoever shows it.
    pub budget: Option<u64>,
}

impl Usage {
    /// Where that of a device is, below `dir`.
    pub fn file(dir: &Path, device: &str) -> PathBuf {
        dir.join(format!("{device}.usage.json"))
    }

    /// Reads it; nothing where there is none. One that cannot be read is put aside.
    pub fn load(path: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Usage::default()),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(e) => return Err(e),
        };
        if let Some(usage) = Self::parse(&text) {
            return Ok(usage);
        }
        fs::rename(path, path.with_extension("json.damaged"))?;
        Ok(Usage::default())
    }

    /// Of a file's text.
    pub fn parse(text: &str) -> Option<Self> {
        let usage: Usage = serde_json::from_str(text).ok()?;
        (usage.version == VERSION).then_some(usage)
    }

    /// Writes it, whole or not at all.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let own = Usage {
            version: VERSION,
            ..self.clone()
        };
        let text = serde_json::to_string(&own).map_err(io::Error::other)?;
        let new = path.with_extension("json.new");
        let mut options = fs::OpenOptions::new();
        // Who uses a line is not everybody's business.
        let mut file = options
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o640)
            .open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(new, path)
    }

    /// Takes what the device has counted, on this date.
    pub fn count(&mut self, date: &str, counter: Counter) {
        let before = self.counter.as_ref();
        let same = before.filter(|b| b.boot == counter.boot && b.ifindex == counter.ifindex);
        let more = match (same, before) {
            (Some(before), _) => counter.moved.since(before.moved),
            // Since it began to count, as far as this boot is concerned.
            (None, Some(_)) => counter.moved,
            // Of the time before anybody counted nothing is said.
            (None, None) => Moved::default(),
        };
        self.day(date).total.add(more);
        self.counter = Some(counter);
    }

    /// Adds to a part of this date.
    pub fn add(&mut self, date: &str, kind: Kind, name: &str, moved: Moved) {
        if moved != Moved::default() {
            self.day(date).add_part(kind, name, moved);
        }
    }

    fn day(&mut self, date: &str) -> &mut Day {
        if !self.days.contains_key(date) && self.days.len() >= DAYS {
            self.days.pop_first();
        }
        self.days.entry(date.to_owned()).or_default()
    }

    /// Everything from a date on.
    pub fn from(&self, date: &str) -> Day {
        let mut sum = Day::default();
        for (_, day) in self.days.range(date.to_owned()..) {
            sum.add(day);
        }
        sum
    }

    /// Everything of the month of a date.
    pub fn month_of(&self, date: &str) -> Day {
        self.from(&format!("{}-01", date.get(..7).unwrap_or_default()))
    }

    /// Which share of `budget` to warn of, per cent: 80 or 100, once each month.
    pub fn warns(&mut self, date: &str, budget: u64) -> Option<u8> {
        let used = self.month_of(date).total.both();
        let at = match u128::from(used) * 100 {
            n if n >= u128::from(budget) * 100 => 100,
            n if n >= u128::from(budget) * 80 => 80,
            _ => return None,
        };
        let month = date.get(..7).unwrap_or_default().to_owned();
        let done = self
            .warned
            .as_ref()
            .is_some_and(|(m, share)| *m == month && *share >= at);
        if done {
            return None;
        }
        self.warned = Some((month, at));
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(boot: &str, down: u64) -> Counter {
        Counter {
            boot: boot.into(),
            ifindex: 7,
            moved: Moved { down, up: 1 },
        }
    }

    #[test]
    fn nothing_is_lost_and_nothing_counted_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = Usage::file(dir.path(), "wan");
        let mut usage = Usage::load(&path).unwrap();
        usage.count("2026-11-24", at("a", 5_000));
        assert_eq!(usage.days["2026-11-24"].total.down, 0);
        usage.count("2026-11-24", at("a", 6_000));
        usage.save(&path).unwrap();
        // Killed: what came after is counted from what the kernel says.
        usage.count("2026-11-24", at("a", 7_000));
        let mut again = Usage::load(&path).unwrap();
        again.count("2026-11-25", at("a", 9_000));
        assert_eq!(again.from("2026-11-24").total.down, 4_000);
        // Another boot, then a device that came again.
        again.count("2026-11-25", at("b", 100));
        again.count("2026-11-25", at("b", 50));
        assert_eq!(again.from("2026-11-24").total.down, 4_150);
        assert_eq!(again.month_of("2026-11-30").total.down, 4_150);
        assert_eq!(again.month_of("2026-12-01").total.down, 0);
        fs::write(&path, "{").unwrap();
        assert_eq!(Usage::load(&path).unwrap(), Usage::default());
        assert!(path.with_extension("json.damaged").exists());
    }

    #[test]
    fn a_budget_warns_once() {
        let mut usage = Usage::default();
        usage.count("2026-11-24", at("a", 0));
        let mut warns = |date: &str, down| {
            usage.count(date, at("a", down));
            usage.warns(date, 1000)
        };
        assert_eq!(warns("2026-11-24", 799), None);
        assert_eq!(warns("2026-11-24", 800), Some(80));
        assert_eq!(warns("2026-11-24", 900), None);
        assert_eq!(warns("2026-11-25", 1100), Some(100));
        assert_eq!(warns("2026-11-25", 1200), None);
        assert_eq!(warns("2026-12-01", 2000), Some(80));
    }

    #[test]
    fn days_and_names_are_bounded() {
        let mut usage = Usage::default();
        for n in 0..300 {
            let moved = Moved { down: 1, up: 0 };
            usage.add("2026-11-24", Kind::Host, &format!("10.0.0.{n}"), moved);
        }
        let hosts = &usage.days["2026-11-24"].hosts;
        assert_eq!(
            (hosts.len(), hosts[OTHERS].down),
            (NAMES + 1, 300 - NAMES as u64)
        );
        for n in 0..100 {
            usage.count(&format!("2026-{n:03}"), at("a", n));
        }
        assert_eq!(usage.days.len(), DAYS);
    }

    proptest! {
        #[test]
        fn any_text(text: String) {
            let _ = Usage::parse(&text);
        }

        #[test]
        fn the_sum_is_what_was_counted(steps: Vec<u32>) {
            let mut usage = Usage::default();
            let mut counted = 0u64;
            usage.count("d", at("a", 0));
            for step in &steps {
                counted += u64::from(*step);
                usage.count("d", at("a", counted));
            }
            prop_assert_eq!(usage.from("d").total.down, counted);
        }
    }
}
