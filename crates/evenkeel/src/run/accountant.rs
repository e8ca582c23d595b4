//! Counts what a line moves while it is followed, and warns of its budget.
//!
//! Principles: the device's counters are the truth and stand in the file, so that a kill loses nothing (`Usage`); hosts and
//! programs come from the flows that are in the programs' table, which forgets only when it is full; what cannot be written is
//! said once. Non-goals: slowing down, which a rule does (`after 500GB/month`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_core::PerDirection;
use evenkeel_core::classify::Tier;
use evenkeel_core::rules::Volume;
use evenkeel_datapath::Maps;
use evenkeel_datapath::values::{Key, NameKey};
use evenkeel_history::usage::{Counter, Kind, Moved, Usage};
use evenkeel_kernel::{Error, Session, state};
use evenkeel_names::{Host, hosts, insides};
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
    budget: Option<Volume>,
    /// Flows that began before are of another time.
    began: Duration,
    tiers: Option<[Moved; 4]>,
    flows: HashMap<Key, Moved>,
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
    pub(crate) fn start(dir: &Path, device: &str, budget: Option<Volume>) -> Self {
        let file = Usage::file(dir, device);
        let mut usage = Usage::load(&file).unwrap_or_default();
        usage.budget = budget.map(|b| b.0);
        Accountant {
            device: device.to_owned(),
            file,
            usage,
            budget,
            began: clock::monotonic(),
            tiers: None,
            flows: HashMap::new(),
            labels: HashMap::new(),
            labelled: None,
            saved: None,
            failed: false,
        }
    }

    /// Bytes of this month: of the line, and of the device on our side that has these addresses.
    pub(crate) fn this_month(&self) -> (u64, impl Fn(&[IpAddr]) -> u64) {
        let month = self.usage.month_of(&date(0));
        let labels = self.labels.clone();
        let all = month.total.both();
        let of = move |addresses: &[IpAddr]| {
            let mut names: Vec<String> = addresses.iter().map(|a| label(&labels, *a)).collect();
            names.sort();
            names.dedup();
            let hosts = names.iter().filter_map(|n| month.hosts.get(n));
            hosts.map(|m| m.both()).sum()
        };
        (all, of)
    }

    /// Counts, and says what there is to say.
    pub(crate) fn count(&mut self, maps: Option<&Maps>, now: Duration) -> Option<String> {
        let today = date(0);
        let counted = self.count_device(&today);
        if let (Ok(()), Some(maps)) = (&counted, maps) {
            let _ = self
                .count_tiers(maps, &today)
                .and_then(|()| self.count_flows(maps, &today, now));
        }
        let warning = self
            .budget
            .and_then(|b| Some((b, self.usage.warns(&today, b.0)?)));
        let said = warning.map(|(budget, share)| match share {
            100 => format!("{}: the budget of {budget} is used up", self.device),
            share => format!(
                "{}: {share} % of the budget of {budget} is used",
                self.device
            ),
        });
        let is_due = self.saved.is_none_or(|at| now.saturating_sub(at) >= SAVE);
        if counted.is_ok() && (is_due || said.is_some()) {
            self.saved = Some(now);
            return self.save().or(said);
        }
        said
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
            self.labels = labels(hosts());
        }
        let flows = maps.flows()?;
        let has_own = flows.iter().any(|f| f.1.cgroup > 1);
        let groups = if has_own {
            group_names()
        } else {
            HashMap::new()
        };
        let inside: HashMap<NameKey, IpAddr> = insides();
        let mut kept = HashMap::with_capacity(flows.len());
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
            if let Some(path) = groups.get(&flow.cgroup) {
                let program = path.rsplit('/').next().unwrap_or(path);
                self.usage.add(today, Kind::Program, program, more);
            }
        }
        self.flows = kept;
        Ok(())
    }
}

/// What each address is called: by a name, or else by its hardware address.
fn labels(hosts: Vec<Host>) -> HashMap<IpAddr, String> {
    let mut labels = HashMap::new();
    for host in hosts {
        let name = host.names.into_iter().min_by_key(String::len);
        let Some(name) = name.or(Some(host.hardware).filter(|h| !h.is_empty())) else {
            continue;
        };
        labels.extend(host.addresses.into_iter().map(|a| (a, name.clone())));
    }
    labels
}

fn label(labels: &HashMap<IpAddr, String>, address: IpAddr) -> String {
    labels
        .get(&address)
        .cloned()
        .unwrap_or_else(|| address.to_string())
}
