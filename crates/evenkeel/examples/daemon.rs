//! What `evenkeel run` costs while it runs: CPU and memory on the VDSL-100 line, idle and under
//! load. Prints the page of docs/results/daemon; `scripts/results daemon` runs it.
//!
//! Principle: the program itself, told nothing, as a process on the lab's gateway, so that its
//! figures are its own and not the lab's. Non-goal: what it does to the line.
//!
//! `daemon EVENKEEL [SECONDS]`, as root.

use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_core::result::{ResultFile, Run};
use evenkeel_lab::{
    CellCache, Dropped, Experiment, Native, RunOptions, Shaper, ShaperError, Site, run,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};

const CONDITION: &str = "evenkeel-auto";
const LOADS: [&str; 4] = ["idle", "down1", "up1", "rrul"];
/// A load lasts so long unless told otherwise, s.
const SECONDS: f64 = 60.0;
/// It follows the line within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// `evenkeel run` as a process.
struct Program {
    path: String,
    dir: tempfile::TempDir,
    /// Its number; 0 while it does not run.
    number: Arc<AtomicU32>,
    child: Option<Child>,
}

impl Shaper for Program {
    fn name(&self) -> &str {
        CONDITION
    }

    fn apply(&mut self, site: &Site) -> Result<(), ShaperError> {
        let at = self.dir.path();
        let said = at.join("said");
        let child = Command::new(&self.path)
            .args(["run", &site.wan, "--forget", "--state-dir"])
            .arg(at.join("run"))
            .arg("--profile-dir")
            .arg(at.join("lines"))
            .arg("--config")
            .arg(at.join("none.toml"))
            .stdout(std::fs::File::create(&said)?)
            .spawn()?;
        self.number.store(child.id(), Ordering::Relaxed);
        let child = self.child.insert(child);
        // The kernel takes a second to verify the programs, which is not what a day costs.
        let begun = Instant::now();
        while !std::fs::read_to_string(&said)?.contains("probing") {
            if child.try_wait()?.is_some() || begun.elapsed() > PATIENCE {
                return Err("evenkeel run does not follow the line".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn dropped(&mut self) -> Result<Dropped, ShaperError> {
        Ok(Dropped::default())
    }

    fn clear(&mut self) -> Result<(), ShaperError> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        self.number.store(0, Ordering::Relaxed);
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM)?;
        let status = child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("evenkeel run: {status}").into())
        }
    }
}

/// What a process has used.
#[derive(Clone, Copy)]
struct Used {
    at: Instant,
    /// CPU time in user space and in the kernel, ticks.
    ticks: (u64, u64),
    /// Memory now, and its own part of it, kB.
    memory: (u64, u64),
}

impl Used {
    /// By now; `None` if there is no such process.
    fn now(number: u32) -> Option<Self> {
        let read = |name| std::fs::read_to_string(format!("/proc/{number}/{name}")).ok();
        // proc_pid_stat(5): the name in parentheses, then fields from the third on.
        let stat = read("stat")?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |n: usize| fields.get(n - 3)?.parse().ok();
        let status = read("status")?;
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        };
        Some(Used {
            at: Instant::now(),
            ticks: (ticks(14)?, ticks(15)?),
            memory: (kilobytes("VmRSS:")?, kilobytes("RssAnon:")?),
        })
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("usage: daemon EVENKEEL [SECONDS] (the program, and how long a load lasts)");
        return ExitCode::from(2);
    };
    match page(path, args.next()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("daemon: {e}");
            ExitCode::FAILURE
        }
    }
}

/// What the program had used when it was first and last seen under a load.
struct Seen {
    load: String,
    attempt: u32,
    begin: Used,
    end: Used,
}

/// Measures with the program at `path`, each load for `seconds`, and prints the page.
fn page(path: String, seconds: Option<String>) -> Result<(), Box<dyn std::error::Error>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/vdsl100.toml");
    let mut experiment = Experiment::load(&file)?;
    experiment.duration.full_s = seconds.map_or(Ok(SECONDS), |s| s.parse())?;
    let (result, seen) = measure(path, &experiment)?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!(
        "# daemon: CPU and memory of `evenkeel run`\n\n\
         What the program takes while it keeps a VDSL-100 line, told nothing, natively: of one \
         core, and of memory.\n\n\
         | load | down, Mbit/s | up, Mbit/s | CPU, % of a core | in user space | in the kernel | \
         memory (RSS), MB | its own part, MB |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    for run in &result.runs {
        let last = seen.iter().rfind(|s| s.load == run.load);
        println!("{}", row(run, last.ok_or("the program was not seen")?)?);
    }
    println!(
        "\nOver {:.0} s of each load, from its start on, so with the finding out, but without \
         the loading of the programs before; /proc/PID/stat and status. A run in which the line's emulator lagged is marked void: that matters to \
         the rates, hardly to the cost. Packets are the kernel's work and not in these figures; \
         what the eBPF programs take stands in [programs](../programs/README.md). RSS holds the \
         pages of the program's file and of the C library, which the kernel can drop; its own \
         part is what it cannot.\n\n\
         Made by `scripts/results daemon` on Linux {}, {} cores.",
        experiment.duration.full_s,
        kernel.trim(),
        std::thread::available_parallelism()?
    );
    Ok(())
}

/// Runs all loads, and looks at the program while they last.
fn measure(
    path: String,
    experiment: &Experiment,
) -> Result<(ResultFile, Vec<Seen>), Box<dyn std::error::Error>> {
    let options = RunOptions {
        loads: LOADS.map(str::to_owned).to_vec(),
        conditions: vec![CONDITION.into()],
        ..RunOptions::default()
    };
    let number = Arc::new(AtomicU32::new(0));
    let program = Program {
        path,
        // In memory, as /run is.
        dir: tempfile::tempdir_in("/dev/shm")?,
        number: Arc::clone(&number),
        child: None,
    };
    let seen: Mutex<Vec<Seen>> = Mutex::default();
    let mut progress = |p: &evenkeel_lab::Progress<'_>| {
        let (true, Some(now)) = (p.is_loaded(), Used::now(number.load(Ordering::Relaxed))) else {
            return;
        };
        let mut seen = seen.lock().expect("nobody panics while holding it");
        match seen.last_mut() {
            Some(last) if last.load == p.cell.load && last.attempt == p.attempt => last.end = now,
            _ => seen.push(Seen {
                load: p.cell.load.clone(),
                attempt: p.attempt,
                begin: now,
                end: now,
            }),
        }
    };
    let mut shapers: Vec<Box<dyn Shaper>> = vec![Box::new(program)];
    let result = run(
        experiment,
        &options,
        &Native::new(experiment, &mut shapers),
        &CellCache::nothing(experiment),
        &mut progress,
        &AtomicBool::new(false),
    )?;
    Ok((result, seen.into_inner()?))
}

/// The table's line for a run.
fn row(run: &Run, seen: &Seen) -> Result<String, nix::errno::Errno> {
    let hertz = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100) as f64;
    let Seen { begin, end, .. } = seen;
    let took = end.at.duration_since(begin.at).as_secs_f64();
    let share = |ticks: u64| ticks as f64 / hertz * 100.0 / took;
    let user = end.ticks.0 - begin.ticks.0;
    let system = end.ticks.1 - begin.ticks.1;
    let void = &run.instrument.void;
    let note = if void.is_empty() { "" } else { " (void)" };
    Ok(format!(
        "| {}{note} | {:.1} | {:.1} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} |",
        run.load,
        run.down_kbit / 1e3,
        run.up_kbit / 1e3,
        share(user + system),
        share(user),
        share(system),
        end.memory.0 as f64 / 1e3,
        end.memory.1 as f64 / 1e3
    ))
}
