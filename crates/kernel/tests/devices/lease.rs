//! Rates that were cut come back by themselves: a process cuts them and is killed or stopped.
//!
//! The process is this program once more, in the test's namespace; it does what it reads from its
//! stdin. `tc` and `ip` say what is in force.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use evenkeel_core::plan::{Backend, Choice, Feature, Target};
use evenkeel_core::{PerDirection, Rate};
use evenkeel_kernel::{Live, Request, StateDir};
use evenkeel_sys::clock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::world::{Wan, World, everywhere, kernel, request, run, run_all};

/// Where the process keeps its record; without it, it is no such process.
const RECORDS: &str = "EVENKEEL_LEASE_RECORDS";
/// Which disciplines it uses.
const CHOICE: &str = "EVENKEEL_LEASE_CHOICE";
/// It tends its device this often.
const LOOK: Duration = Duration::from_millis(100);
/// Nothing takes longer, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Follows a line of 50 and 10 Mbit/s. Reads for how many milliseconds it is to hang, and how many
/// thousandths of the line are to be used then, and says `done`; ends in good order at the end of
/// what it reads.
#[test]
fn the_process() {
    let Some(dir) = std::env::var_os(RECORDS) else {
        return;
    };
    let choice = match std::env::var(CHOICE).as_deref() {
        Ok("cake") => Choice::Cake,
        Ok("htb") => Choice::Htb,
        _ => Choice::Bare,
    };
    let request = Request {
        choice,
        ..request("50mbit", "10mbit", "ptm:30")
    };
    let (mut live, _) = Live::start(&StateDir::new(dir), &request).unwrap();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let line = line.unwrap();
            let (hang, permille) = line.split_once(' ').unwrap();
            let hang = Duration::from_millis(hang.parse().unwrap());
            tell.send((hang, permille.parse::<u32>().unwrap())).unwrap();
        }
    });
    loop {
        match told.recv_timeout(LOOK) {
            Ok((hang, permille)) => {
                std::thread::sleep(hang);
                let target = |capacity| {
                    Some(Target {
                        capacity,
                        permille,
                        peak_permille: 1000,
                        slack_us: 0,
                        volatile: false,
                        pulses: false,
                        opening: None,
                    })
                };
                let targets = PerDirection {
                    up: target(Rate::from_kbit(10_000)),
                    down: target(Rate::from_kbit(50_000)),
                };
                live.set(targets, clock::monotonic()).unwrap();
                println!("done");
            }
            Err(RecvTimeoutError::Timeout) => live.tend(clock::monotonic()).unwrap(),
            Err(RecvTimeoutError::Disconnected) => return live.stop().unwrap(),
        }
    }
}

/// That process, killed when dropped.
struct Follower {
    child: Child,
    says: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(w: &World) -> Self {
        let choice = match w.backend {
            Backend::Cake => "cake",
            Backend::HtbFqCodel => "htb",
            Backend::HtbBuckets => "bare",
        };
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["lease::the_process", "--exact", "--nocapture"])
            .env(RECORDS, w.dir.file("wan").parent().unwrap())
            .env(CHOICE, choice)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Follower {
            says: child.stdin.take(),
            child,
            said,
        }
    }

    /// Has so much of the line used, and gives what is in force then.
    fn set(&mut self, permille: u32) -> String {
        self.begin(Duration::ZERO, permille);
        self.done()
    }

    /// Has it hang, and so much of the line used then.
    fn begin(&self, hang: Duration, permille: u32) {
        let line = format!("{} {permille}", hang.as_millis());
        writeln!(self.says.as_ref().unwrap(), "{line}").unwrap();
    }

    fn done(&mut self) -> String {
        // With one thread the harness has begun a line before.
        let said = self.said.by_ref();
        let done = said.any(|line| line.unwrap().ends_with("done"));
        assert!(done, "it ended");
        in_force()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Its watchdogs, by number.
    fn watchdogs(&self) -> Vec<String> {
        let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let children = tasks.map(|task| of(task.unwrap()).unwrap());
        let all: Vec<_> = children.collect();
        all.iter()
            .flat_map(|c| c.split_whitespace())
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Disciplines, classes and sizes of all devices here, without counters.
fn in_force() -> String {
    let links = run("ip", "-d -o link");
    let mut commands = String::from("qdisc show\n");
    for device in links.lines() {
        let name = device
            .split([' ', '@'])
            .nth(1)
            .unwrap()
            .trim_end_matches(':');
        commands += &format!("class show dev {name}\n");
    }
    links + &run_all("tc", &commands)
}

/// Waits until `done`, and says how long it took.
fn until(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

/// On each backend, with the programs if there are any: `Live` knows what the kernel can do by
/// itself.
fn followed(test: &str, f: impl Fn(&World, Follower) + Send + Sync) {
    everywhere(test, |w| {
        let same_programs = w.caps.has(Feature::Bpf) == kernel().has(Feature::Bpf);
        if w.wan == Wan::Veth && same_programs {
            f(w, Follower::start(w));
        }
    });
}

#[test]
fn rates_come_back_after_a_kill() {
    followed("rates_come_back_after_a_kill", |w, mut follower| {
        let full = follower.set(1000);
        let deep = follower.set(300);
        assert_ne!(deep, full);
        follower.signal(Signal::SIGKILL);
        let took = until("the rates of the line", || in_force() == full);
        println!("{}: back {took:?} after a kill", w.backend);
        drop(follower);
        w.clear();
    });
}

#[test]
fn rates_come_back_while_it_is_stopped_and_are_cut_again() {
    let name = "rates_come_back_while_it_is_stopped_and_are_cut_again";
    followed(name, |w, mut follower| {
        let full = follower.set(1000);
        let deep = follower.set(300);
        follower.signal(Signal::SIGSTOP);
        let took = until("the rates of the line", || in_force() == full);
        println!("{}: back {took:?} after a stop", w.backend);
        follower.signal(Signal::SIGCONT);
        until("the cut", || in_force() == deep);
        drop(follower);
        w.clear();
    });
}

/// What was in force before is no longer, so all that is wanted then is asked for: also what was
/// asked for before.
#[test]
fn rates_come_back_while_it_hangs() {
    followed("rates_come_back_while_it_hangs", |w, mut follower| {
        let full = follower.set(1000);
        let deep = follower.set(300);
        for (permille, expected) in [(300, &deep), (1000, &full)] {
            follower.begin(Duration::from_secs(5), permille);
            until("the rates of the line", || in_force() == full);
            assert_eq!(&follower.done(), expected, "{permille}");
            follower.set(300);
        }
        drop(follower);
        w.clear();
    });
}

#[test]
fn a_good_end_leaves_no_process() {
    followed("a_good_end_leaves_no_process", |_, mut follower| {
        let before = in_force();
        let deep = follower.set(300);
        assert_ne!(deep, before);
        let watchdogs = follower.watchdogs();
        assert_eq!(watchdogs.len(), 1, "{watchdogs:?}");
        follower.says = None;
        assert!(follower.child.wait().unwrap().success());
        let left = |id: &String| std::fs::exists(format!("/proc/{id}")).unwrap();
        assert!(!watchdogs.iter().any(left), "{watchdogs:?}");
    });
}

/// A line that is used in full has nothing to come back: then its watchdog does nothing.
#[test]
fn what_is_not_cut_stays() {
    followed("what_is_not_cut_stays", |w, mut follower| {
        follower.set(300);
        let full = follower.set(1000);
        let watchdogs = follower.watchdogs();
        follower.signal(Signal::SIGKILL);
        let left = |id: &String| std::fs::exists(format!("/proc/{id}")).unwrap();
        until("the watchdog's end", || !watchdogs.iter().any(left));
        assert_eq!(in_force(), full);
        drop(follower);
        w.clear();
    });
}
