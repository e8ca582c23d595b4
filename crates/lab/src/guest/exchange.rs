//! What a guest and the process that booted it hand each other: files in one directory.
//!
//! Principles: each file has one writer; steps are lines that are only ever added, so that a
//! reader sees progress without a word to the guest, whose time it would disturb; what is cut
//! off or garbled counts as not there. Non-goals: more than one cell.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::error::GuestError;
use crate::cells::{Answer, Cell};
use crate::engine::Engine;
use crate::progress::{Phase, Step};

pub(super) const EXPERIMENT: &str = "experiment.toml";
const JOB: &str = "job.json";
const ANSWER: &str = "answer.json";
const STEPS: &str = "steps";
pub(super) const STATUS: &str = "status";
pub(super) const ERRORS: &str = "errors";

/// What a guest has to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    /// What the kernel is called in results.
    pub(super) engine: Engine,
    /// Name of the condition.
    pub(super) condition: String,
    /// Name of the load.
    pub(super) load: String,
    /// Which repeat, from 0.
    pub(super) repeat: u32,
    /// Seed of everything random.
    pub(super) seed: u64,
    /// How long the load lasts.
    pub(super) duration: Duration,
}

impl Job {
    /// For `cell` on `engine`.
    pub(super) fn new(engine: Engine, cell: &Cell) -> Self {
        Job {
            engine,
            condition: cell.condition.clone(),
            load: cell.load.clone(),
            repeat: cell.repeat,
            seed: cell.seed,
            duration: cell.duration,
        }
    }

    /// The cell to run.
    pub(super) fn cell(&self) -> Cell {
        Cell {
            condition: self.condition.clone(),
            load: self.load.clone(),
            repeat: self.repeat,
            seed: self.seed,
            duration: self.duration,
        }
    }
}

/// The guest's side.
#[derive(Debug)]
pub(super) struct Inside {
    dir: PathBuf,
    steps: File,
}

impl Inside {
    /// In the directory that the guest was given.
    pub(super) fn open(dir: &Path) -> Result<Self, GuestError> {
        let steps = dir.join(STEPS);
        Ok(Inside {
            dir: dir.to_owned(),
            steps: File::create(&steps)
                .map_err(|e| GuestError::host(format!("create {}", steps.display()), e))?,
        })
    }

    /// What to do.
    pub(super) fn job(&self) -> Result<Job, GuestError> {
        read(&self.dir.join(JOB))
    }

    /// The experiment's file.
    pub(super) fn experiment(&self) -> PathBuf {
        self.dir.join(EXPERIMENT)
    }

    /// Tells where the work is.
    pub(super) fn step(&mut self, phase: Phase, left: Duration) {
        let name = match phase {
            Phase::Idle => "idle",
            Phase::Load => "load",
            Phase::Finish => "finish",
        };
        // It is for the eyes only.
        let _ = writeln!(self.steps, "{name} {}", left.as_millis());
    }

    /// Hands the result out.
    pub(super) fn answer(self, answer: &Answer) -> Result<(), GuestError> {
        write(&self.dir.join(ANSWER), answer)
    }
}

/// The side of the process that boots the guest.
#[derive(Debug)]
pub(super) struct Outside(PathBuf);

impl Outside {
    pub(super) fn new(dir: &Path, job: &Job) -> Result<Self, GuestError> {
        write(&dir.join(JOB), job)?;
        Ok(Outside(dir.to_owned()))
    }

    /// How far the steps are told, in bytes, and the last of them.
    pub(super) fn steps(&self) -> (u64, Option<Step>) {
        let told = fs::read_to_string(self.0.join(STEPS)).unwrap_or_default();
        (told.len() as u64, last_step(&told))
    }

    /// The exit code of the program in the guest; `None` if it did not end.
    pub(super) fn status(&self) -> Option<u8> {
        fs::read_to_string(self.0.join(STATUS))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// What it wrote to its error output.
    pub(super) fn errors(&self) -> String {
        let bytes = fs::read(self.0.join(ERRORS)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    pub(super) fn answer(&self) -> Result<Answer, GuestError> {
        read(&self.0.join(ANSWER))
    }
}

/// The last whole line.
fn last_step(told: &str) -> Option<Step> {
    let whole = &told[..told.rfind('\n')?];
    let (name, left) = whole.lines().last()?.split_once(' ')?;
    Some(Step {
        phase: match name {
            "idle" => Phase::Idle,
            "load" => Phase::Load,
            "finish" => Phase::Finish,
            _ => return None,
        },
        left: Duration::from_millis(left.parse().ok()?),
    })
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, GuestError> {
    let what = || format!("read {}", path.display());
    let text = fs::read_to_string(path).map_err(|e| GuestError::host(what(), e))?;
    serde_json::from_str(&text).map_err(|e| GuestError::host(what(), e))
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), GuestError> {
    let what = || format!("write {}", path.display());
    let text = serde_json::to_string(value).map_err(|e| GuestError::host(what(), e))?;
    fs::write(path, text).map_err(|e| GuestError::host(what(), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job {
            engine: Engine::Virtual,
            condition: "none".into(),
            load: "up1".into(),
            repeat: 2,
            seed: 3,
            duration: Duration::from_millis(12_500),
        }
    }

    #[test]
    fn a_job_arrives_and_steps_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let outside = Outside::new(dir.path(), &job()).unwrap();
        assert_eq!(outside.steps(), (0, None));
        assert_eq!(outside.status(), None);
        let mut inside = Inside::open(dir.path()).unwrap();
        assert_eq!(inside.job().unwrap(), job());
        assert_eq!(Job::new(Engine::Virtual, &job().cell()), job());
        inside.step(Phase::Idle, Duration::from_millis(2900));
        inside.step(Phase::Load, Duration::from_secs(12));
        let (_, step) = outside.steps();
        let left = Duration::from_secs(12);
        let phase = Phase::Load;
        assert_eq!(step, Some(Step { phase, left }));
        assert!(outside.answer().is_err());
    }

    #[test]
    fn garbled_steps_are_no_steps() {
        for told in ["", "load", "load 3", "\n", "x 3\n", "load x\n", "load\n"] {
            assert_eq!(last_step(told), None, "{told:?}");
        }
        let step = last_step("idle 7\nload 5\nlo").unwrap();
        assert_eq!(step.phase, Phase::Load);
    }
}
