//! Which addresses and sockets the names of rules stand for now.
//!
//! A newcomer's way in: [`Names`] is made for a list of rules, hears what name servers answered ([`Names::heard`]),
//! looks at this machine from time to time ([`Names::look`]), and says what is known ([`Names::known`]). Principles: only
//! what a rule names is looked for; what cannot be read is as good as not there; everything that is kept is bounded.
//! Non-goals: asking name servers, telling the programs (crate `evenkeel-kernel`).

mod conntrack;
mod devices;
mod dns;
mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use evenkeel_core::rules::FlowRule;
use evenkeel_kernel::Known;

pub use conntrack::insides;
pub use devices::{Host, hosts, labels};

/// What is known of the names of some rules.
#[derive(Debug, Default)]
pub struct Names {
    book: dns::Book,
    programs: BTreeSet<String>,
    devices: BTreeSet<String>,
    known: Known,
    hidden: BTreeMap<String, String>,
}

impl Names {
    /// For these rules.
    pub fn new(rules: &[FlowRule]) -> Self {
        let all = |of: fn(&FlowRule) -> Option<&String>| {
            let mut names = BTreeSet::new();
            names.extend(rules.iter().filter_map(of).cloned());
            names
        };
        let names = all(|r| r.name.as_ref());
        Names {
            book: dns::Book::new(names),
            programs: all(|r| r.program.as_ref()),
            devices: all(|r| r.device.as_ref()),
            known: Known::default(),
            hidden: BTreeMap::new(),
        }
    }

    /// A name server answered, at this time of the steady clock. Whether that is news.
    pub fn heard(&mut self, payload: &[u8], now: Duration) -> bool {
        self.book.heard(payload, now)
    }

    /// Whether a look can find anything.
    pub fn looks(&self) -> bool {
        !self.programs.is_empty() || !self.devices.is_empty()
    }

    /// Looks at this machine: its processes, its neighbours, its leases.
    pub fn look(&mut self) {
        if !self.programs.is_empty() {
            let found = programs::find(&self.programs, Path::new("/proc"));
            self.known.programs = found.keys;
            self.hidden = found.hidden;
        }
        if !self.devices.is_empty() {
            self.known.devices = devices::find(&self.devices);
        }
    }

    /// Programs some of whose sockets may not be read, though no control group stands for them, and the kernel's words
    /// for it. Empty for root.
    pub fn hidden(&self) -> &BTreeMap<String, String> {
        &self.hidden
    }

    /// What is known at this time of the steady clock, and of the wall's.
    pub fn known(&mut self, now: Duration) -> Known {
        self.known.minute = Known::now().minute;
        self.known.names = self.book.keys(now);
        self.known.clone()
    }
}
