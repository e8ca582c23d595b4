//! Getting the CPU in time, knowing who else has it, and not outliving one's parent.
//!
//! Principle: real-time priority is for threads that sleep almost always (prober, echo, line
//! emulator); where it is refused the work goes on and the lag is recorded.
//! Non-goal: pinning to CPUs.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;

use crate::error::{Context, Error};

/// Gives the calling thread `SCHED_FIFO` at `priority` (1..=99) and timers without slack.
pub fn realtime_thread(priority: i32) -> Result<(), Error> {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: prctl(PR_SET_TIMERSLACK) takes an integer and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    // SAFETY: reads one `sched_param`, which lives until the call returns; 0 is the calling
    // thread. The system call itself, because musl's wrapper refuses.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO,
            &raw const param,
        )
    };
    Errno::result(answer)
        .map(|_| ())
        .context(|| format!("give a thread real-time priority {priority}"))
}

/// Lets the kernel kill `command` as soon as the thread that starts it ends.
pub fn die_with_thread(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe and
    // touches no memory.
    unsafe {
        command.pre_exec(|| {
            Errno::result(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            Ok(())
        })
    }
}

/// CPU time of the whole machine since boot, in ticks of `USER_HZ`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// All states.
    pub total: u64,
    /// Neither idle nor waiting for a disk, stolen time not counted.
    pub busy: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

impl CpuTimes {
    /// Now.
    pub fn read() -> Result<Self, Error> {
        let text = std::fs::read_to_string("/proc/stat").context(|| "read /proc/stat".into())?;
        Ok(Self::parse(&text))
    }

    /// The first line of /proc/stat (proc(5)); missing fields count as zero.
    pub fn parse(stat: &str) -> Self {
        let mut v = [0u64; 8];
        let line = stat.lines().next().unwrap_or_default();
        for (to, from) in v.iter_mut().zip(line.split_ascii_whitespace().skip(1)) {
            *to = from.parse().unwrap_or(0);
        }
        let [user, nice, system, idle, iowait, irq, softirq, steal] = v;
        let busy = user + nice + system + irq + softirq;
        CpuTimes {
            total: busy + idle + iowait + steal,
            busy,
            steal,
        }
    }

    /// Shares of busy and of stolen time since `earlier`, 0..1.
    pub fn shares_since(&self, earlier: &CpuTimes) -> (f64, f64) {
        let total = self.total.saturating_sub(earlier.total).max(1) as f64;
        (
            self.busy.saturating_sub(earlier.busy) as f64 / total,
            self.steal.saturating_sub(earlier.steal) as f64 / total,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat() {
        let a = CpuTimes::parse("cpu  100 0 50 800 30 5 5 10 0 0\ncpu0 1 2 3\n");
        assert_eq!((a.total, a.busy, a.steal), (1000, 160, 10));
        let b = CpuTimes::parse("cpu  150 0 50 850 30 5 5 10 0 0\n");
        assert_eq!(b.shares_since(&a), (0.5, 0.0));
        assert_eq!(CpuTimes::parse("").total, 0);
        assert!(CpuTimes::read().unwrap().total > 0);
    }
}
