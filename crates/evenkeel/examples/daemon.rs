//! What `evenkeel run` costs while it runs: CPU and memory on the VDSL-100 line, idle and under
//! load, and with the dashboard open. Prints the page of docs/results/daemon; `scripts/results daemon` runs it.
//!
//! Principle: the program itself, told nothing, as a process on the lab's gateway, so that its
//! figures are its own and not the lab's. Non-goal: what it does to the line.
//!
//! `daemon EVENKEEL [SECONDS [LOAD]]`, as root. With LOAD only that one, and what is used after each tenth of it: what a
//! long load takes.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use evenkeel_core::result::{ResultFile, Run};
use evenkeel_lab::{
    CellCache, Dropped, Experiment, LabError, Native, RunOptions, Shaper, ShaperError, Site, run,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};

const CONDITION: &str = "evenkeel-auto";
const LOADS: [&str; 4] = ["idle", "down1", "up1", "rrul"];
/// A load lasts so long unless told otherwise, s.
const SECONDS: f64 = 60.0;
/// It lasts at least so long, s: a tick of /proc/PID/stat is 10 ms of CPU, and less would be seen too coarsely.
const LEAST: f64 = 10.0;
/// And at most this, a day, s.
const MOST: f64 = 86_400.0;
/// It follows the line within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the dashboard is served, in the gateway's namespace.
const PAGES: &str = "127.0.0.1:8017";

/// `evenkeel run` as a process.
struct Program {
    path: String,
    dir: tempfile::TempDir,
    /// Somebody looks at the dashboard all the time.
    has_page: bool,
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
        // The server of pages is another user.
        std::fs::set_permissions(at, Permissions::from_mode(0o755))?;
        let http = format!("http = \"{PAGES}\"\n");
        std::fs::write(
            at.join("evenkeel.toml"),
            if self.has_page { &http } else { "" },
        )?;
        let said = at.join("said");
        let child = Command::new(&self.path)
            .args(["run", &site.wan, "--forget", "--state-dir"])
            .arg(at.join("run"))
            .arg("--profile-dir")
            .arg(at.join("lines"))
            .arg("--config")
            .arg(at.join("evenkeel.toml"))
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
        if self.has_page {
            look_at_page()?;
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

/// Opens the dashboard as a browser does, and reads what it is told until nothing more comes.
fn look_at_page() -> Result<(), ShaperError> {
    let begun = Instant::now();
    let mut page = loop {
        match TcpStream::connect(PAGES) {
            Ok(page) => break page,
            Err(e) if begun.elapsed() > PATIENCE => return Err(e.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    write!(page, "GET /api/events HTTP/1.1\r\nHost: {PAGES}\r\n\r\n")?;
    let mut lines = BufReader::new(page).lines();
    let first = lines.next().ok_or("the dashboard says nothing")??;
    if !first.contains("200") {
        return Err(format!("the dashboard says {first}").into());
    }
    std::thread::spawn(move || lines.map_while(Result::ok).count());
    Ok(())
}

/// The process that serves the dashboard for `number`.
fn server_of(number: u32) -> Option<u32> {
    let all = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children")).ok()?;
    all.split_ascii_whitespace().next()?.parse().ok()
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
        eprintln!(
            "usage: daemon EVENKEEL [SECONDS [LOAD]] (the program, how long a load lasts, and only this load)"
        );
        return ExitCode::from(2);
    };
    let done = duration(args.next()).and_then(|seconds| match args.next() {
        Some(load) => one(&path, seconds, &load),
        None => page(&path, seconds),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("daemon: {e}");
            ExitCode::FAILURE
        }
    }
}

/// How long a load lasts, s, by what was said on the command line.
fn duration(said: Option<String>) -> Result<f64, Box<dyn std::error::Error>> {
    let Some(said) = said else {
        return Ok(SECONDS);
    };
    match said.parse() {
        Ok(seconds) if (LEAST..=MOST).contains(&seconds) => Ok(seconds),
        _ => Err(
            format!("SECONDS is {said:?}, and should be a number from {LEAST} to {MOST}").into(),
        ),
    }
}

/// What the program had used when it was first and last seen under a load.
struct Seen {
    load: String,
    attempt: u32,
    begin: Used,
    end: Used,
    /// The server of pages, when it was seen first and last.
    server: Option<(Used, Used)>,
    /// So many tenths of the load are over.
    tenths: u32,
}

/// The VDSL-100 line, each load for `seconds`.
fn line(seconds: f64) -> Result<Experiment, LabError> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/vdsl100.toml");
    let mut experiment = Experiment::load(&file)?;
    experiment.duration.full_s = seconds;
    Ok(experiment)
}

/// Measures one load with the program at `path`, and prints what is used after each tenth of it.
fn one(path: &str, seconds: f64, load: &str) -> Result<(), Box<dyn std::error::Error>> {
    let head = Once::new();
    let say = |begin: &Used, now: &Used| {
        head.call_once(|| {
            println!("{load}, VDSL-100, told nothing\n");
            println!("| after, s | CPU, % of a core | memory (RSS), MB | its own part, MB |");
            println!("|---:|---:|---:|---:|");
        });
        let cpu: f64 = share(begin, now).map_or(f64::NAN, |s| s.iter().sum());
        println!(
            "| {:.0} | {cpu:.2} | {:.1} | {:.1} |",
            now.at.duration_since(begin.at).as_secs_f64(),
            now.memory.0 as f64 / 1e3,
            now.memory.1 as f64 / 1e3
        );
    };
    let (result, _) = measure(path, &line(seconds)?, &[load], false, &say)?;
    for run in result.runs.iter().filter(|r| !r.instrument.void.is_empty()) {
        println!("\nRates are void, cost is not: {}", run.instrument.void);
    }
    Ok(())
}

/// Measures with the program at `path`, each load for `seconds`, and prints the page.
fn page(path: &str, seconds: f64) -> Result<(), Box<dyn std::error::Error>> {
    let experiment = line(seconds)?;
    let (result, seen) = measure(path, &experiment, &LOADS, false, &|_, _| ())?;
    let (with_page, seen_with_page) = measure(path, &experiment, &["rrul"], true, &|_, _| ())?;
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
        println!(
            "{}",
            row(run, &run.load, last.ok_or("the program was not seen")?)?
        );
    }
    let seen = seen_with_page.last().ok_or("the program was not seen")?;
    println!("{}", row(&with_page.runs[0], "rrul, a page open", seen)?);
    let server = seen.server.ok_or("the server of pages was not seen")?;
    println!(
        "\n`evenkeel-web`, which serves that page, takes {:.2} % of a core and {:.1} MB beside it.\n\n\
         Over {:.0} s of each load, from its start on, so with the finding out, but without \
         the loading of the programs before; /proc/PID/stat and status. A run in which the line's emulator lagged is marked void: that matters to \
         the rates, hardly to the cost. Packets are the kernel's work and not in these figures; \
         what the eBPF programs take stands in [programs](../programs/README.md). RSS holds the \
         pages of the program's file and of the C library, which the kernel can drop; its own \
         part is what it cannot. What an hour takes: `cargo run --release -p evenkeel --example daemon -- target/release/evenkeel 3600 rrul`.\n\n\
         Made by `scripts/results daemon` on Linux {}, {} cores.",
        share(&server.0, &server.1)?.iter().sum::<f64>(),
        server.1.memory.0 as f64 / 1e3,
        experiment.duration.full_s,
        kernel.trim(),
        std::thread::available_parallelism()?
    );
    Ok(())
}

/// Runs these loads, and looks at the program while they last; `say` is told of the first look and of the latest after each
/// tenth of a load.
fn measure(
    path: &str,
    experiment: &Experiment,
    loads: &[&str],
    has_page: bool,
    say: &(dyn Fn(&Used, &Used) + Sync),
) -> Result<(ResultFile, Vec<Seen>), Box<dyn std::error::Error>> {
    let options = RunOptions {
        loads: loads.iter().map(|&l| l.to_owned()).collect(),
        conditions: vec![CONDITION.into()],
        ..RunOptions::default()
    };
    let number = Arc::new(AtomicU32::new(0));
    let program = Program {
        path: path.to_owned(),
        has_page,
        // In memory, as /run is.
        dir: tempfile::tempdir_in("/dev/shm")?,
        number: Arc::clone(&number),
        child: None,
    };
    let seen: Mutex<Vec<Seen>> = Mutex::default();
    // The last one is looked at just before the end.
    let tenth = (experiment.duration.full_s - 1.0) / 10.0;
    let mut progress = |p: &evenkeel_lab::Progress<'_>| {
        let number = number.load(Ordering::Relaxed);
        let (true, Some(now)) = (p.is_loaded(), Used::now(number)) else {
            return;
        };
        let server = server_of(number).and_then(Used::now);
        let mut seen = seen.lock().expect("nobody panics while holding it");
        match seen.last_mut() {
            Some(last) if last.load == p.cell.load && last.attempt == p.attempt => {
                last.end = now;
                let passed = now.at.duration_since(last.begin.at).as_secs_f64();
                if passed >= f64::from(last.tenths + 1) * tenth {
                    last.tenths += 1;
                    say(&last.begin, &now);
                }
                if let (Some(of), Some(now)) = (&mut last.server, server) {
                    of.1 = now;
                }
            }
            _ => seen.push(Seen {
                load: p.cell.load.clone(),
                attempt: p.attempt,
                begin: now,
                end: now,
                server: server.map(|s| (s, s)),
                tenths: 0,
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

/// Per cent of a core in user space and in the kernel from one look to another.
fn share(begin: &Used, end: &Used) -> Result<[f64; 2], nix::errno::Errno> {
    let hertz = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100) as f64;
    let took = end.at.duration_since(begin.at).as_secs_f64();
    let ticks = [end.ticks.0 - begin.ticks.0, end.ticks.1 - begin.ticks.1];
    Ok(ticks.map(|n| n as f64 / hertz * 100.0 / took))
}

/// The table's line for a run.
fn row(run: &Run, name: &str, seen: &Seen) -> Result<String, nix::errno::Errno> {
    let Seen { begin, end, .. } = seen;
    let [user, system] = share(begin, end)?;
    let void = &run.instrument.void;
    let note = if void.is_empty() { "" } else { " (void)" };
    Ok(format!(
        "| {name}{note} | {:.1} | {:.1} | {:.2} | {user:.2} | {system:.2} | {:.1} | {:.1} |",
        run.down_kbit / 1e3,
        run.up_kbit / 1e3,
        user + system,
        end.memory.0 as f64 / 1e3,
        end.memory.1 as f64 / 1e3
    ))
}
