//! How much of the CPU this process and this machine had: a measurement that a CPU limited says
//! nothing about a line.
//!
//! Non-goals: which thread it was.

use std::time::Duration;

use evenkeel_sys::clock;
use evenkeel_sys::sched::CpuTimes;
use nix::sys::resource::{UsageWho, getrusage};

/// A moment to count from.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    at: Duration,
    process: Duration,
    machine: Option<CpuTimes>,
}

/// CPU time of this process.
fn process() -> Duration {
    let time = |t: nix::sys::time::TimeVal| {
        Duration::new(t.tv_sec().max(0) as u64, t.tv_usec().max(0) as u32 * 1000)
    };
    getrusage(UsageWho::RUSAGE_SELF).map_or(Duration::ZERO, |u| {
        time(u.user_time()) + time(u.system_time())
    })
}

impl Usage {
    /// From now on.
    pub fn now() -> Self {
        Usage {
            at: clock::monotonic(),
            process: process(),
            machine: CpuTimes::read().ok(),
        }
    }

    /// Shares since then: of one CPU by this process (above 1 on several), of all CPUs by anybody,
    /// stolen time included; `None`: that cannot be read here.
    pub fn since(&self) -> (f64, Option<f64>) {
        let wall = clock::monotonic().saturating_sub(self.at).as_secs_f64();
        let used = process().saturating_sub(self.process).as_secs_f64();
        let machine = self.machine.and_then(|before| {
            let (busy, steal) = CpuTimes::read().ok()?.shares_since(&before);
            Some(busy + steal)
        });
        (used / wall.max(1e-3), machine)
    }
}
