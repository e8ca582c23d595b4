//! Keeps what the programs are told of flows up to date while a line is followed: programs, names, devices and times
//! mean something else from one moment to the next.
//!
//! Principles: a thread of its own, so that nothing here delays a probe; only what differs is told; a device that came
//! back has other programs, which are told everything; what fails is tried again, and the rules that were told before
//! stay in force. Non-goals: what names stand for (`evenkeel-names`), what follows from it (`evenkeel-kernel`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::classify::Tier;
use evenkeel_core::rules::FlowRule;
use evenkeel_datapath::Maps;
use evenkeel_datapath::values::{NameKey, RuleSet};
use evenkeel_kernel::rule_set;
use evenkeel_names::Names;
use evenkeel_sys::clock;

use super::accountant::Accountant;

/// Answers of name servers are fetched so often: a connection to a new name is in its tier after that.
const TICK: Duration = Duration::from_millis(100);
/// Without names this is enough.
const IDLE: Duration = Duration::from_millis(500);
/// Processes, neighbours and leases are looked at so often.
const LOOK: Duration = Duration::from_secs(1);
/// What passes is counted so often.
const COUNT: Duration = Duration::from_secs(10);
/// Whether the programs are still the same is looked at so often.
const AGAIN: Duration = Duration::from_secs(5);

/// Flows that somebody put into a tier by hand.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByHand(Arc<Mutex<BTreeMap<NameKey, Tier>>>);

/// So many are kept, the rest is refused.
const MOST_BY_HAND: usize = 1024;

impl ByHand {
    /// Puts one there; false: there are too many.
    pub(crate) fn put(&self, key: NameKey, tier: Tier) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = all.len() < MOST_BY_HAND || all.contains_key(&key);
        if fits {
            all.insert(key, tier);
        }
        fits
    }

    fn all(&self) -> BTreeMap<NameKey, Tier> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The thread; dropped, it ends.
pub(crate) struct People {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl People {
    /// Begins for a device with these rules; `say` hears what `accountant` has to say.
    pub(crate) fn start(
        device: &str,
        rules: &[FlowRule],
        by_hand: ByHand,
        accountant: Accountant,
        say: impl Fn(&str) + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let keeper = Keeper {
            device: device.to_owned(),
            names: Names::new(rules),
            hidden: BTreeSet::new(),
            asks_dns: rules.iter().any(|r| r.name.is_some()),
            has_times: rules.iter().any(|r| r.when.is_some() || r.after.is_some()),
            rules: rules.to_vec(),
            by_hand,
            maps: None,
            told: None,
            looked: None,
            opened: None,
            accountant,
            counted: None,
            say: Box::new(say),
        };
        let stops = Arc::clone(&stop);
        let builder = std::thread::Builder::new().name("rules".into());
        // Without it names stand for nothing, which the rules say as well as anything could.
        let thread = builder.spawn(move || keeper.keep(&stops)).ok();
        People { stop, thread }
    }
}

impl Drop for People {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Keeper {
    device: String,
    rules: Vec<FlowRule>,
    names: Names,
    /// Programs of which it was said that their sockets may not be read.
    hidden: BTreeSet<String>,
    asks_dns: bool,
    has_times: bool,
    by_hand: ByHand,
    maps: Option<Maps>,
    /// What the programs were told last, and the generation that this has.
    told: Option<(RuleSet, u32)>,
    looked: Option<Duration>,
    opened: Option<Duration>,
    accountant: Accountant,
    counted: Option<Duration>,
    say: Box<dyn Fn(&str) + Send>,
}

/// That a rule misses sockets of a program.
fn hidden(name: &str, why: &str) -> String {
    format!(
        "Program {name} shares its control group with others, and not all of its sockets can be read ({why}): \
         start it with systemd-run --user --scope {name}, and its rules hold for all of them."
    )
}

/// Whether something is to be done again that was done at `last`.
fn is_due(now: Duration, last: Option<Duration>, each: Duration) -> bool {
    last.is_none_or(|at| now.saturating_sub(at) >= each)
}

impl Keeper {
    fn keep(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let is_needed = self.asks_dns
                || self.has_times
                || self.names.looks()
                || !self.by_hand.all().is_empty();
            let now = clock::monotonic();
            let counts = is_due(now, self.counted, COUNT);
            let is_open = is_needed || counts;
            let done = if is_open { self.open(now) } else { Ok(()) };
            if counts {
                self.counted = Some(now);
                for said in self.accountant.count(self.maps.as_ref(), now) {
                    (self.say)(&said);
                }
            }
            if is_needed && done.and_then(|()| self.tend(now)).is_err() {
                self.maps = None;
            }
            std::thread::park_timeout(if self.asks_dns { TICK } else { IDLE });
        }
        let _ = self
            .accountant
            .count(self.maps.as_ref(), clock::monotonic());
        let _ = self.accountant.save();
    }

    /// The maps of the programs that are at the device now.
    fn open(&mut self, now: Duration) -> Result<(), evenkeel_kernel::Error> {
        if self.maps.is_none() && is_due(now, self.opened, LOOK) || is_due(now, self.opened, AGAIN)
        {
            self.opened = Some(now);
            self.maps = None;
            self.maps = evenkeel_kernel::maps(&self.device)?;
        }
        Ok(())
    }

    fn tend(&mut self, now: Duration) -> Result<(), evenkeel_kernel::Error> {
        if self.names.looks() && is_due(now, self.looked, LOOK) {
            self.looked = Some(now);
            self.names.look();
            for (name, why) in self.names.hidden() {
                if self.hidden.insert(name.clone()) {
                    (self.say)(&hidden(name, why));
                }
            }
        }
        let Some(maps) = &mut self.maps else {
            return Ok(());
        };
        if self.asks_dns {
            for answer in maps.take_dns_answers()? {
                self.names.heard(&answer, now);
            }
        }
        let mut known = self.names.known(now);
        known.by_hand = self.by_hand.all();
        known.used_by_all = self.accountant.used(None);
        for rule in self.rules.iter().filter(|r| r.after.is_some()) {
            if let Some(host) = &rule.device {
                let used = self.accountant.used(Some(host));
                known.used.insert(host.clone(), used);
            }
        }
        let set = rule_set(&self.rules, &known)?;
        let generation = maps.generation()?;
        let before = self
            .told
            .as_ref()
            .filter(|t| t.1 == generation)
            .map(|t| &t.0);
        if before != Some(&set) {
            maps.set_rule_set(&set, before)?;
            self.told = Some((set, maps.generation()?));
        }
        Ok(())
    }
}
