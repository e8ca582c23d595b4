//! Booting a guest for one cell and watching it until it has answered.
//!
//! Principles: the guest's command line and all paths in it are the same for every run of a
//! cell, so that virtual time repeats (a random number starts from it); the exchange directory
//! is mounted on /tmp in the guest's own mount namespace, which ends with it; a guest has one
//! CPU of the host for itself, because its kernel and its processes take turns. Non-goals:
//! judging what came back.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_core::result::ConditionFacts;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::Pid;

use super::error::GuestError;
use super::exchange::{EXPERIMENT, Job, Outside};
use super::kernel::find;
use super::scratch::{Contained, Scratch};
use super::watch::Watch;
use crate::cells::{Answer, Cell};
use crate::conditions;
use crate::engine::Engine;
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::progress::Step;
use crate::runner::Runner;

const INIT: &str = include_str!("init.sh");
/// Preloaded into the guest's kernel, so that it runs on CPUs with AMX (scripts/uml/xstate.c).
const XSTATE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xstate.so"));
/// Memory of a guest. Only what it touches is taken.
const MEMORY_MB: u64 = 512;
/// The wall clock of virtual time at boot, ns: 2026-01-01.
const EPOCH: u64 = 1_767_225_600_000_000_000;
/// How often a guest is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of a console that are kept.
const LINES: usize = 40;
/// Lines that an error quotes.
const QUOTED: usize = 12;
/// Idle phase, boot and what else a cell takes beside its load.
const BESIDE: Duration = Duration::from_secs(20);

/// What every guest of a run has in common.
#[derive(Debug)]
pub struct Guests {
    engine: Engine,
    scratch: Scratch,
    /// Where guests have their memory.
    memory: PathBuf,
    cpus: Vec<usize>,
    number: AtomicUsize,
}

impl Guests {
    /// Finds the kernel and everything else that is needed; `experiment` is the text of a file.
    pub fn new(engine: Engine, experiment: &str) -> Result<Self, GuestError> {
        let kernel = find(engine)?;
        let memory = memory_place();
        let scratch = Scratch::new(&memory)?;
        let dir = scratch.path();
        let put = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, bytes)
                .map_err(|e| GuestError::host(format!("write {}", path.display()), e))?;
            Ok(path)
        };
        let init = put("init", INIT.as_bytes())?;
        put("xstate.so", XSTATE)?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))
            .map_err(|e| GuestError::host(format!("make {} executable", init.display()), e))?;
        put(EXPERIMENT, experiment.as_bytes())?;
        // Copies: what is on the disk may be built anew while a long experiment runs.
        copy(&kernel, &dir.join("linux"))?;
        copy(Path::new("/proc/self/exe"), &dir.join("evenkeel-lab"))?;
        Ok(Guests {
            engine,
            scratch,
            memory,
            cpus: cpus(),
            number: AtomicUsize::new(0),
        })
    }

    /// The directory of one guest's exchange, with links to what all of them need.
    fn directory(&self) -> Result<PathBuf, GuestError> {
        let n = self.number.fetch_add(1, Ordering::Relaxed);
        let dir = self.scratch.path().join(format!("guest{n}"));
        let failed = |e| GuestError::host(format!("make {}", dir.display()), e);
        fs::create_dir(&dir).map_err(failed)?;
        for name in ["init", "linux", "xstate.so", "evenkeel-lab", EXPERIMENT] {
            fs::hard_link(self.scratch.path().join(name), dir.join(name)).map_err(failed)?;
        }
        Ok(dir)
    }

    fn boot(
        &self,
        job: &Job,
        worker: usize,
        dir: &Path,
        outside: &Outside,
        progress: &mut dyn FnMut(Option<Step>),
        cancel: &AtomicBool,
    ) -> Result<Answer, GuestError> {
        // Two labs at once begin on different CPUs, more likely than not.
        let turn = worker + std::process::id() as usize;
        let cpu = self.cpus.get(turn % self.cpus.len().max(1));
        let (read, write) = std::io::pipe().map_err(|e| GuestError::host("make a pipe", e))?;
        let line = kernel_line(self.engine, job.seed);
        let place = dir.to_string_lossy();
        let mut arguments = vec![place.as_ref()];
        arguments.extend(line.iter().map(String::as_str));
        let pin = || {
            // The guest inherits it. Refused, it runs anywhere, only slower.
            let mut set = CpuSet::new();
            if let Some(cpu) = cpu
                && self.engine == Engine::Virtual
                && set.set(*cpu).is_ok()
            {
                let _ = sched_setaffinity(Pid::from_raw(0), &set);
            }
        };
        pin();
        let mut guest = Contained::start(SCRIPT, &arguments, |command| {
            let _ = write.try_clone().map(|w| command.stderr(w));
            command
                .stdin(Stdio::null())
                .stdout(write)
                .env_clear()
                .env("PATH", path())
                .env("HOME", "/")
                .env("TMPDIR", &self.memory)
                .current_dir("/");
        })?;
        let console = Console::listen(read);
        self.attend(&mut guest, job, &console, outside, progress, cancel)
    }

    /// Watches a guest until it has answered, or died of something.
    fn attend(
        &self,
        guest: &mut Contained,
        job: &Job,
        console: &Console,
        outside: &Outside,
        progress: &mut dyn FnMut(Option<Step>),
        cancel: &AtomicBool,
    ) -> Result<Answer, GuestError> {
        let started = Instant::now();
        let mut watch = Watch::new(Duration::ZERO, job.duration + BESIDE);
        let died = |why: &str, console: &Console| GuestError::Died {
            cell: format!("{}, {}", job.load, job.condition),
            engine: self.engine,
            why: why.to_owned(),
            last: last_words(&console.lines(), &outside.errors()),
        };
        loop {
            if cancel.load(Ordering::Relaxed) {
                guest.kill();
                return Err(GuestError::Cancelled);
            }
            let ended = guest
                .0
                .try_wait()
                .map_err(|e| GuestError::host("wait for the guest", e))?
                .is_some();
            let (told, step) = outside.steps();
            progress(step);
            if ended {
                break;
            }
            if let Some(why) = watch.look(started.elapsed(), told + console.bytes()) {
                guest.kill();
                return Err(died(&why, console));
            }
            thread::sleep(LOOK);
        }
        match outside.status() {
            Some(0) => outside.answer(),
            Some(code) => Err(GuestError::Inside {
                code,
                line: match outside.errors().lines().last() {
                    Some(l) => l.trim_start_matches("evenkeel: ").to_owned(),
                    None => format!("evenkeel in the guest ended with code {code}"),
                },
            }),
            None => Err(died("the guest ended before its work", console)),
        }
    }
}

impl Runner for Guests {
    fn engine(&self) -> Engine {
        self.engine
    }

    /// In real time one, for they would measure one another.
    fn at_once(&self) -> usize {
        match self.engine {
            Engine::Virtual => self.cpus.len().max(1),
            Engine::Uml | Engine::Native => 1,
        }
    }

    fn conditions(&self, experiment: &Experiment) -> Vec<ConditionFacts> {
        experiment.all_conditions(&conditions::all(Path::new("/")))
    }

    /// In a guest of its own; `worker` chooses the CPU.
    fn run(
        &self,
        cell: &Cell,
        worker: usize,
        tell: &mut dyn FnMut(Option<Step>),
        cancel: &AtomicBool,
    ) -> Result<Answer, LabError> {
        let job = Job::new(self.engine, cell);
        let dir = self.directory()?;
        let outside = Outside::new(&dir, &job)?;
        let answer = self.boot(&job, worker, &dir, &outside, tell, cancel);
        let _ = fs::remove_dir_all(&dir);
        Ok(answer?)
    }
}

/// Mounts the exchange (`$1`) and becomes the guest.
const SCRIPT: &str = r#"ulimit -c 0
mount --bind "$1" /tmp || exit 1
shift
setarch -R -- env LD_PRELOAD=/tmp/xstate.so /tmp/linux "$@""#;

/// What the guest's kernel is told.
fn kernel_line(engine: Engine, seed: u64) -> Vec<String> {
    let memory = format!("mem={MEMORY_MB}M");
    let mut line: Vec<String> = [
        &memory,
        "umid=guest",
        "uml_dir=/tmp/uml/",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "init=/tmp/init",
        "con=null",
        "con0=null,fd:1",
        "ssl=null",
        "quiet",
        "selinux=0",
    ]
    .map(str::to_owned)
    .to_vec();
    if engine == Engine::Virtual {
        line.push("time-travel=inf-cpu".into());
        line.push(format!("time-travel-start={EPOCH}"));
        // 0 would be the host's randomness.
        line.push(format!("seed={}", seed.wrapping_add(1).max(1)));
    }
    line
}

/// Follows a guest's console until it closes.
struct Console(Arc<Mutex<(u64, VecDeque<String>)>>);

impl Console {
    fn listen(from: impl Read + Send + 'static) -> Self {
        let shared = Arc::new(Mutex::new((0, VecDeque::new())));
        let writer = Arc::clone(&shared);
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            // At most so much of a line, in case it never ends.
            while matches!((&mut from).take(4096).read_until(b'\n', &mut line), Ok(n) if n > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                let mut to = writer.lock().unwrap_or_else(PoisonError::into_inner);
                to.0 += line.len() as u64;
                to.1.push_back(text);
                if to.1.len() > LINES {
                    to.1.pop_front();
                }
                line.clear();
            }
        });
        Console(shared)
    }

    fn bytes(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn lines(&self) -> Vec<String> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.1.iter().cloned().collect()
    }
}

/// The last lines of the console, and of what the program in the guest said.
fn last_words(console: &[String], errors: &str) -> String {
    let lines: Vec<&str> = console
        .iter()
        .map(String::as_str)
        .chain(errors.lines())
        // Not the calls that led to a panic: what it says stands above them.
        .filter(|l| !l.trim().is_empty() && !l.trim_start().starts_with("[<"))
        .collect();
    if lines.is_empty() {
        return "(none)".into();
    }
    lines[lines.len().saturating_sub(QUOTED)..].join(" | ")
}

fn copy(from: &Path, to: &Path) -> Result<(), GuestError> {
    let failed = |e| GuestError::host(format!("copy {} to {}", from.display(), to.display()), e);
    fs::copy(from, to).map_err(failed)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).map_err(failed)
}

/// /dev/shm where it has room for some guests and lets them execute what lies in it, else the
/// directory for temporary files.
fn memory_place() -> PathBuf {
    let shm = PathBuf::from("/dev/shm");
    let good = statvfs(&shm).is_ok_and(|s| {
        let room = s.blocks_available() * s.fragment_size();
        room >= (4 * MEMORY_MB) << 20 && !s.flags().contains(FsFlags::ST_NOEXEC)
    });
    if good { shm } else { std::env::temp_dir() }
}

/// The CPUs that this process may use.
fn cpus() -> Vec<usize> {
    let Ok(set) = nix::sched::sched_getaffinity(Pid::from_raw(0)) else {
        return Vec::new();
    };
    (0..CpuSet::count())
        .filter(|c| set.is_set(*c).unwrap_or(false))
        .collect()
}

/// `PATH` with the administrator's directories.
fn path() -> std::ffi::OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(OsStr::new);
    let mut all = own;
    for d in more {
        all.push(":");
        all.push(d);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::exchange::{ERRORS, STATUS};
    use super::*;

    #[test]
    fn the_kernel_line_is_the_same_for_the_same_seed() {
        let line = kernel_line(Engine::Virtual, 7);
        assert_eq!(line, kernel_line(Engine::Virtual, 7));
        assert!(line.contains(&"time-travel=inf-cpu".to_owned()));
        assert!(line.contains(&"seed=8".to_owned()));
        assert!(kernel_line(Engine::Virtual, u64::MAX).contains(&"seed=1".to_owned()));
        let uml = kernel_line(Engine::Uml, 7);
        assert!(
            !uml.iter()
                .any(|w| w.starts_with("time-travel") || w.starts_with("seed"))
        );
    }

    #[test]
    fn last_words_are_the_last() {
        assert_eq!(last_words(&[], "\n"), "(none)");
        let console: Vec<String> = (0..20).map(|i| format!("line {i}")).collect();
        let said = last_words(&console, " [<60549203>] ? panic+0x0/0x33b\nerror: x");
        assert!(said.starts_with("line 9 | ") && said.ends_with("line 19 | error: x"));
    }

    #[test]
    fn a_console_keeps_its_end() {
        let all: Vec<String> = (0..100).map(|i| format!("line {i}")).collect();
        let text = all.join("\n") + "\n";
        let console = Console::listen(std::io::Cursor::new(text.clone()));
        for _ in 0..200 {
            if console.bytes() == text.len() as u64 {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let lines = console.lines();
        assert_eq!((lines.len(), lines[39].as_str()), (40, "line 99"));
    }

    #[test]
    fn names_in_init_are_those_of_the_exchange() {
        for name in [STATUS, ERRORS] {
            assert!(INIT.contains(&format!("/run/exchange/{name}")), "{name}");
        }
    }
}
