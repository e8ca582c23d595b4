//! Counts what a line moves while it is followed, and how long it is in use, and warns of budgets.
//!
//! Principles: the device's counters are the truth and stand in the file, so that a kill loses nothing (`Usage`); hosts and
//! programs come from the flows that are in the programs' table, which forgets only when it is full; what cannot be written is
//! said once. Non-goals: slowing down, which a rule does (`after 500GB/month`, `after 2h/day`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_core::PerDirection;
use evenkeel_core::classify::Tier;
use evenkeel_core::rules::{Budget, Used};
use evenkeel_datapath::Maps;
use evenkeel_datapath::values::{Flow, Key, NameKey};
use evenkeel_history::UseTimer;
use evenkeel_history::usage::{Counter, Kind, Moved, Usage};
use evenkeel_kernel::{Error, Session, state};
use evenkeel_names::{Host, hosts, insides, labels};
use evenkeel_sys::clock;

use crate::flows::{group_names, tuple};
use crate::usage::date;

/// The file is written so often; the kernel remembers what came after.
const SAVE: Duration = Duration::from_secs(60);
/// What people call their devices is looked up so often.
const HOSTS: Duration = Duration::from_secs(60);
/// What is this machine's own.
const OWN: &str = "this machine";

/// One line's.
pub(crate) struct Accountant {
    device: String,
    file: PathBuf,
    usage: Usage,
    budgets: Vec<Budget>,
    in_use: UseTimer,
    /// Flows that began before are of another time.
    began: Duration,
    tiers: Option<[Moved; 4]>,
    flows: HashMap<Key, Moved>,
    hosts: Vec<Host>,
    labels: HashMap<IpAddr, String>,
    labelled: Option<Duration>,
    saved: Option<Duration>,
    failed: bool,
}

fn moved<T>(of: &PerDirection<T>, bytes: impl Fn(&T) -> u64) -> Moved {
    Moved {
        down: bytes(&of.down),
        up: bytes(&of.up),
    }
}

impl Accountant {
    /// Goes on from the file.
    pub(crate) fn start(dir: &Path, device: &str, budgets: &[Budget]) -> Self {
        let file = Usage::file(dir, device);
        let now = clock::monotonic();
        Accountant {
            device: device.to_owned(),
            usage: Usage::load(&file).unwrap_or_default(),
            file,
            budgets: budgets.to_vec(),
            in_use: UseTimer::new(now),
            began: now,
            tiers: None,
            flows: HashMap::new(),
            hosts: Vec::new(),
            labels: HashMap::new(),
            labelled: None,
            saved: None,
            failed: false,
        }
    }

    /// What was used this month and today: by the line, or by the device on our side that has this name.
    pub(crate) fn used(&self, host: Option<&str>) -> Used {
        let Some(name) = host else {
            return self.usage.used(&date(0), None);
        };
        // It is in the file under whatever it was known by at the time.
        let mut names = BTreeSet::new();
        names.insert(name.to_owned());
        for host in self.hosts.iter().filter(|h| h.is_called(name)) {
            names.extend(host.names.iter().cloned());
            names.insert(host.hardware.clone());
            names.extend(host.addresses.iter().map(IpAddr::to_string));
        }
        self.usage.used(&date(0), Some(&names))
    }

    /// Counts, and says what there is to say.
    pub(crate) fn count(&mut self, maps: Option<&Maps>, now: Duration) -> Vec<String> {
        let today = date(0);
        let counted = self.count_device(&today);
        if let (Ok(()), Some(maps)) = (&counted, maps) {
            let _ = self
                .count_tiers(maps, &today)
                .and_then(|()| self.count_flows(maps, &today, now));
        }
        let mut said = self.warnings(&today);
        let is_due = self.saved.is_none_or(|at| now.saturating_sub(at) >= SAVE);
        if counted.is_ok() && (is_due || !said.is_empty()) {
            self.saved = Some(now);
            said.extend(self.save());
        }
        said
    }

    /// What there is to say of budgets.
    fn warnings(&mut self, today: &str) -> Vec<String> {
        let used = |b: &Budget| (b.clone(), self.used(b.host.as_deref()));
        let budgets: Vec<(Budget, Used)> = self.budgets.iter().map(used).collect();
        let warned = self.usage.warns(today, &budgets).into_iter();
        let said = warned.map(|(budget, share)| match share {
            100 => format!("{}: {} is used up", self.device, budget.words()),
            _ => format!("{}: {share} % of {} is used", self.device, budget.words()),
        });
        said.collect()
    }

    /// Writes the file; what went wrong, once.
    pub(crate) fn save(&mut self) -> Option<String> {
        let result = self.usage.save(&self.file);
        let news = result.is_err() && !self.failed;
        self.failed = result.is_err();
        let why = result.err().filter(|_| news)?;
        Some(format!(
            "warning: usage is not kept: write {}: {why}",
            self.file.display()
        ))
    }

    fn count_device(&mut self, today: &str) -> Result<(), Error> {
        let mut session = Session::open()?;
        let link = session
            .link(&self.device)?
            .ok_or_else(|| Error::NoDevice(self.device.clone()))?;
        let counters = session.counters(link.index)?;
        let counter = Counter {
            boot: state::boot_id(),
            ifindex: link.index,
            moved: Moved {
                down: counters.rx_bytes,
                up: counters.tx_bytes,
            },
        };
        self.usage.count(today, counter);
        Ok(())
    }

    fn count_tiers(&mut self, maps: &Maps, today: &str) -> Result<(), evenkeel_datapath::Error> {
        let counts = maps.counts()?.direction;
        let now = Tier::ALL.map(|tier| moved(&counts, |c| c.tier_bytes[tier as usize]));
        if let Some(before) = self.tiers.replace(now) {
            for (tier, (now, before)) in Tier::ALL.into_iter().zip(now.into_iter().zip(before)) {
                self.usage
                    .add(today, Kind::Tier, &tier.to_string(), now.since(before));
            }
        }
        Ok(())
    }

    fn count_flows(
        &mut self,
        maps: &Maps,
        today: &str,
        now: Duration,
    ) -> Result<(), evenkeel_datapath::Error> {
        if self
            .labelled
            .is_none_or(|at| now.saturating_sub(at) >= HOSTS)
        {
            self.labelled = Some(now);
            self.hosts = hosts();
            self.labels = labels(&self.hosts);
        }
        let flows = maps.flows()?;
        let has_own = flows.iter().any(|f| f.1.cgroup > 1);
        let groups = if has_own {
            group_names()
        } else {
            HashMap::new()
        };
        // What this machine sends itself is not translated; listing all connections takes the kernel some milliseconds.
        let forwards = |(key, flow): &(Key, Flow)| {
            let sum = moved(&flow.direction, |d| d.bytes);
            flow.cgroup == 0 && self.flows.get(key) != Some(&sum)
        };
        let inside: HashMap<NameKey, IpAddr> = if flows.iter().any(forwards) {
            insides()
        } else {
            HashMap::new()
        };
        let mut kept = HashMap::with_capacity(flows.len());
        let mut moved_by: BTreeMap<String, u64> = BTreeMap::new();
        for (key, flow) in flows {
            let sum = moved(&flow.direction, |d| d.bytes);
            let known = self.flows.get(&key).copied();
            let before = known.or_else(|| (flow.first >= self.began).then(Moved::default));
            kept.insert(key, sum);
            let Some(before) = before else { continue };
            let more = sum.since(before);
            let host = match inside.get(&tuple(&key)) {
                Some(address) => label(&self.labels, *address),
                None if flow.cgroup > 0 => OWN.to_owned(),
                None => label(&self.labels, key.local),
            };
            self.usage.add(today, Kind::Host, &host, more);
            *moved_by.entry(host).or_default() += more.both();
            if let Some(path) = groups.get(&flow.cgroup) {
                let program = path.rsplit('/').next().unwrap_or(path);
                self.usage.add(today, Kind::Program, program, more);
            }
        }
        self.flows = kept;
        let in_use = self.in_use.look(now, &moved_by);
        self.usage.add_time(today, None, in_use.line);
        for (host, time) in in_use.hosts {
            self.usage.add_time(today, Some(&host), time);
        }
        Ok(())
    }
}

fn label(labels: &HashMap<IpAddr, String>, address: IpAddr) -> String {
    labels
        .get(&address)
        .cloned()
        .unwrap_or_else(|| address.to_string())
}
