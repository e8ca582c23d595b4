//! How much a line has moved, and how long it was in use: by day, and of each day by tier, host and program.
//!
//! Principles: what the device counted is the truth, and the kernel goes on counting when this process is killed: the file
//! has the device's counters beside the sums, so that nothing of one boot is lost or counted twice, however seldom it is
//! written. Tiers, hosts and programs are parts of it, as far as they are known. A file that is none is put aside. Bounded: so
//! many days, and so many names in each. Non-goals: who asks, what is done when a budget is used up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_core::rules::{Budget, Quota, Used};
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
/// Time of use, seconds, by name.
pub type Times = BTreeMap<String, u64>;

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
    /// Time in which anybody on our side moved more than next to nothing, seconds.
    pub in_use: u64,
    /// The same of each.
    pub hosts_in_use: Times,
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
        room(parts, name).add(moved);
    }

    fn add_time(&mut self, host: Option<&str>, seconds: u64) {
        let sum = match host {
            Some(host) => room(&mut self.hosts_in_use, host),
            None => &mut self.in_use,
        };
        *sum = sum.saturating_add(seconds);
    }

    fn add(&mut self, more: &Day) {
        self.total.add(more.total);
        for kind in [Kind::Tier, Kind::Host, Kind::Program] {
            for (name, moved) in more.parts(kind) {
                self.add_part(kind, name, *moved);
            }
        }
        self.add_time(None, more.in_use);
        for (host, seconds) in &more.hosts_in_use {
            self.add_time(Some(host), *seconds);
        }
    }
}

/// That of a name, or where there are too many that of the rest.
fn room<'a, T: Default>(parts: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    let has_room = parts.len() < NAMES || parts.contains_key(name);
    let name = if has_room { name } else { OTHERS };
    parts.entry(name.to_owned()).or_default()
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

/// A budget, for whoever shows it, and for who must not say the same twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUse {
    /// As it is written: `host tv 2h/day`.
    pub budget: String,
    /// The month, as 2026-11, or the date.
    pub period: String,
    /// How much of it was used, per cent.
    pub percent: u64,
    /// At which share somebody was warned last, per cent.
    said: u8,
}

/// The month or day of a date that a quota is for.
fn period(quota: Quota, date: &str) -> &str {
    match quota {
        Quota::Volume(_) => date.get(..7).unwrap_or_default(),
        Quota::Time(_) => date,
    }
}

/// What a line has moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    version: u32,
    counter: Option<Counter>,
    /// By date, as 2026-11-25, in local time.
    pub days: BTreeMap<String, Day>,
    /// As they were when it was written.
    pub budgets: Vec<BudgetUse>,
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

    /// Adds to the time of use of this date, of a host or of the whole line.
    pub fn add_time(&mut self, date: &str, host: Option<&str>, time: Duration) {
        self.day(date).add_time(host, time.as_secs());
    }

    /// What was used up to a date in its month and on itself: by hosts of these names, or by all.
    pub fn used(&self, date: &str, hosts: Option<&BTreeSet<String>>) -> Used {
        let month = format!("{}-01", date.get(..7).unwrap_or_default());
        let mut used = Used::default();
        for (day, counted) in self.days.range(month..) {
            let mut add = |moved: Moved, seconds: u64| {
                let is_today = day.as_str() == date;
                used.add(Used {
                    bytes: moved.both(),
                    time: Duration::from_secs(if is_today { seconds } else { 0 }),
                });
            };
            match hosts {
                None => add(counted.total, counted.in_use),
                Some(hosts) => {
                    for host in hosts {
                        let moved = counted.hosts.get(host).copied().unwrap_or_default();
                        add(
                            moved,
                            counted.hosts_in_use.get(host).copied().unwrap_or_default(),
                        );
                    }
                }
            }
        }
        used
    }

    /// Takes what of each budget was used at a date. Whom to warn of, and of which share, per cent: 80 or 100, once in a
    /// month or day.
    pub fn warns<'a>(
        &mut self,
        date: &str,
        budgets: &'a [(Budget, Used)],
    ) -> Vec<(&'a Budget, u8)> {
        let before = std::mem::take(&mut self.budgets);
        let mut warnings = Vec::new();
        for (budget, used) in budgets {
            let (text, period) = (budget.to_string(), period(budget.quota, date));
            let same = before
                .iter()
                .find(|b| b.budget == text && b.period == period);
            let said = same.map_or(0, |b| b.said);
            let percent = budget.quota.percent(*used);
            let at = match percent {
                100.. => 100,
                80.. => 80,
                _ => 0,
            };
            if at > said {
                warnings.push((budget, at));
            }
            self.budgets.push(BudgetUse {
                budget: text,
                period: period.to_owned(),
                percent,
                said: said.max(at),
            });
        }
        warnings
    }

    /// Budgets as they are on a date: what was used before is none of it.
    pub fn budgets_on(&self, date: &str) -> Vec<BudgetUse> {
        let mut all = self.budgets.clone();
        for spent in &mut all {
            if !date.starts_with(&spent.period) {
                spent.percent = 0;
            }
        }
        all
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
        let budget: Budget = "1kB/month".parse().unwrap();
        let mut warns = |date: &str, down| {
            usage.count(date, at("a", down));
            let budgets = [(budget.clone(), usage.used(date, None))];
            let warned = usage.warns(date, &budgets);
            warned.first().map(|w| w.1)
        };
        assert_eq!(warns("2026-11-24", 799), None);
        assert_eq!(warns("2026-11-24", 800), Some(80));
        assert_eq!(warns("2026-11-24", 900), None);
        assert_eq!(warns("2026-11-25", 1100), Some(100));
        assert_eq!(warns("2026-11-25", 1200), None);
        assert_eq!(warns("2026-12-01", 2000), Some(80));
        assert_eq!(usage.budgets_on("2026-12-31")[0].percent, 80);
        assert_eq!(usage.budgets_on("2027-01-01")[0].percent, 0);
    }

    #[test]
    fn a_budget_of_time_is_of_a_day_and_of_a_host() {
        let dir = tempfile::tempdir().unwrap();
        let path = Usage::file(dir.path(), "wan");
        let budgets: Vec<Budget> = ["host tv 2h/day", "3h/day", "host tv 1kB/month"]
            .map(|t| t.parse().unwrap())
            .into();
        // What the TV is called in the file, now and before it had a name.
        let names = BTreeSet::from(["tv".to_owned(), "192.168.1.5".to_owned()]);
        let warns = |usage: &mut Usage, date: &str| -> Vec<String> {
            let all = budgets.iter().map(|b| {
                let hosts = b.host.as_ref().map(|_| &names);
                (b.clone(), usage.used(date, hosts))
            });
            let all: Vec<_> = all.collect();
            let warned = usage.warns(date, &all);
            warned.iter().map(|(b, at)| format!("{b} {at}")).collect()
        };
        let mut usage = Usage::default();
        let watch = |usage: &mut Usage, date: &str, name: &str, minutes: u64| {
            let time = Duration::from_secs(60 * minutes);
            usage.add_time(date, Some(name), time);
            usage.add_time(date, None, time);
        };
        watch(&mut usage, "2026-11-24", "192.168.1.5", 60);
        watch(&mut usage, "2026-11-24", "tv", 35);
        assert_eq!(warns(&mut usage, "2026-11-24"), [""; 0]);
        watch(&mut usage, "2026-11-24", "tv", 1);
        assert_eq!(warns(&mut usage, "2026-11-24"), ["host tv 2h/day 80"]);
        usage.save(&path).unwrap();
        // Restarted: it goes on, and is not said again.
        let mut usage = Usage::load(&path).unwrap();
        assert_eq!(warns(&mut usage, "2026-11-24"), [""; 0]);
        watch(&mut usage, "2026-11-24", "desk", 60);
        assert_eq!(warns(&mut usage, "2026-11-24"), ["3h/day 80"]);
        watch(&mut usage, "2026-11-24", "tv", 24);
        usage.add("2026-11-24", Kind::Host, "tv", Moved { down: 900, up: 99 });
        assert_eq!(
            warns(&mut usage, "2026-11-24"),
            ["host tv 2h/day 100", "3h/day 100", "host tv 1kB/month 80"]
        );
        // Another day, the same month.
        watch(&mut usage, "2026-11-25", "tv", 96);
        usage.add("2026-11-25", Kind::Host, "tv", Moved { down: 1, up: 0 });
        assert_eq!(
            warns(&mut usage, "2026-11-25"),
            ["host tv 2h/day 80", "host tv 1kB/month 100"]
        );
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
