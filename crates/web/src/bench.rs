//! Measuring the line from the page: `evenkeel bench --quick`, as a child.
//!
//! Principles: one at a time, whoever asks; the child has no rights either, ends when this program does, and what it
//! prints is bounded; stopped, it says what it has measured so far. Non-goals: measuring (`evenkeel-bench`), whether
//! somebody may ask for it (`pages`).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_sys::child;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::daemon::Refused;

/// What measures.
const NAME: &str = "evenkeel-bench";
/// So long a measurement takes, s: `--quick`.
const TAKES: u32 = 20;
/// It is ended by force after so long.
const PATIENCE: Duration = Duration::from_secs(90);
/// And so long after it was asked to stop.
const STOPS: Duration = Duration::from_secs(10);
/// Bytes of what it says, at most.
const LONGEST: u64 = 64 << 10;
/// Letters of a far end, at most.
const LONGEST_NAME: usize = 300;

/// Which load, as `evenkeel bench --test` has it.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Test {
    #[default]
    Rrul,
    Download,
    Upload,
}

impl Test {
    fn word(self) -> &'static str {
        match self {
            Test::Rrul => "rrul",
            Test::Download => "download",
            Test::Upload => "upload",
        }
    }
}

/// What the page shows.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Shown {
    /// There is a program that measures.
    available: bool,
    /// So long a measurement takes, s.
    takes_s: u32,
    /// For so long one has been under way, s.
    running_s: Option<f64>,
    /// Against which far end the latest one was.
    to: String,
    /// What the latest one came to.
    result: Option<String>,
    /// Why the latest one came to nothing.
    trouble: Option<String>,
}

/// One at a time.
pub(crate) struct Bench {
    program: Option<PathBuf>,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    shown: Shown,
    running: Option<Running>,
}

struct Running {
    since: Instant,
    /// Gone once it was used.
    stop: Option<oneshot::Sender<()>>,
}

/// The program that measures: the one that was told, or the one beside this program.
pub(crate) fn find(told: Option<&Path>) -> Option<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.join(NAME));
    told.map(Path::to_owned)
        .or_else(beside)
        .filter(|p| p.is_file())
}

fn refused(status: u16, why: &str) -> Refused {
    Refused {
        status,
        why: why.to_owned(),
    }
}

impl Bench {
    pub(crate) fn new(program: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Bench {
            program,
            now: Mutex::default(),
        })
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn shown(&self) -> Shown {
        let now = self.now();
        let running = now.running.as_ref();
        Shown {
            available: self.program.is_some(),
            takes_s: TAKES,
            running_s: running.map(|r| r.since.elapsed().as_secs_f64()),
            ..now.shown.clone()
        }
    }

    /// Begins; `to` is a far end as `evenkeel bench --to` has it, or empty: the first of the list that this machine has.
    pub(crate) fn start(self: &Arc<Self>, to: &str, test: Test) -> Result<(), Refused> {
        let Some(program) = &self.program else {
            let why = "evenkeel-bench is not here: the package evenkeel has it";
            return Err(refused(501, why));
        };
        if to.len() > LONGEST_NAME || to.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(refused(400, "this is no far end: a host or a URL is"));
        }
        let to = if to.is_empty() { "auto" } else { to };
        let mut now = self.now();
        if now.running.is_some() {
            return Err(refused(409, "a measurement is under way"));
        }
        let child = spawn(program, to, test).map_err(|e| Refused {
            status: 500,
            why: format!("start {}: {e}", program.display()),
        })?;
        let (stop, stopped) = oneshot::channel();
        now.running = Some(Running {
            since: Instant::now(),
            stop: Some(stop),
        });
        now.shown = Shown {
            to: to.to_owned(),
            ..Shown::default()
        };
        let bench = Arc::clone(self);
        tokio::spawn(async move {
            let ended = ends(child, stopped).await;
            let mut now = bench.now();
            now.running = None;
            match ended {
                Ok(result) => now.shown.result = Some(result),
                Err(trouble) => now.shown.trouble = Some(trouble),
            }
        });
        Ok(())
    }

    /// Ends what is under way: it says what it has measured so far.
    pub(crate) fn stop(&self) -> Result<(), Refused> {
        let mut now = self.now();
        let running = now.running.as_mut();
        let Some(running) = running else {
            return Err(refused(409, "no measurement is under way"));
        };
        if let Some(stop) = running.stop.take() {
            let _ = stop.send(());
        }
        Ok(())
    }
}

fn spawn(program: &Path, to: &str, test: Test) -> std::io::Result<Child> {
    let mut command = std::process::Command::new(program);
    // One word, so that no far end is taken for an option.
    command
        .args(["bench", "--quick", "--yes", "--test", test.word()])
        .arg(format!("--to={to}"));
    // /dev/null is none of the files that we may open.
    command
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    child::without_rights(&mut command)?;
    let mut child = Command::from(command).kill_on_drop(true).spawn()?;
    drop(child.stdin.take());
    Ok(child)
}

/// What it says when it has ended, or why it came to nothing.
async fn ends(mut child: Child, stopped: oneshot::Receiver<()>) -> Result<String, String> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let said = async { tokio::join!(all(out), all(err)) };
    tokio::pin!(said);
    let told = tokio::select! {
        told = timeout(PATIENCE, &mut said) => told,
        Ok(()) = stopped => {
            if let Some(id) = child.id() {
                let _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(id as i32),
                    nix::sys::signal::Signal::SIGINT,
                );
            }
            timeout(STOPS, &mut said).await
        }
    };
    let Ok((out, err)) = told else {
        let _ = child.kill().await;
        return Err("the measurement did not end, and was ended".to_owned());
    };
    let status = child.wait().await.map_err(|e| e.to_string())?;
    match (status.success(), out.is_empty()) {
        (true, _) => Ok(out),
        // It was measured, and says nothing about the line: both are shown.
        (false, false) => Ok(format!("{out}\n{}", err.trim_end())),
        (false, true) => Err(err.lines().last().unwrap_or("it says nothing").to_owned()),
    }
}

async fn all(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        let _ = (&mut from).take(LONGEST).read_to_end(&mut bytes).await;
        // What is beyond that is read, so that it can end, and kept nowhere.
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
