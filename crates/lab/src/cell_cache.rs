//! Cells that were measured before, so that long work can be resumed and nothing is done twice.
//!
//! A cell is known by everything that its result depends on: the line, hosts, probe and load of
//! the experiment (not its name, its comments or its other loads), condition, seed and duration,
//! engine, kernel, and the code that measures. Each lies in a file of its own below the cache
//! directory, with all that written out in it.
//!
//! Principles: what does not match to the letter, or cannot be read, is not there; a file is
//! whole or absent; void runs are not kept; what nobody asked for during thirty days goes. In
//! virtual time a kept cell is what a new run would bring; elsewhere it is one measurement, and
//! the caller says how to make another. Non-goals: sharing between machines.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::cells::{Answer, Cell};
use crate::code::code_of;
use crate::engine::Engine;
use crate::experiment::Experiment;
use crate::guest::error::GuestError;
use crate::guest::{cache_dir, checksum, find};

/// For how long a cell is kept after it was last asked for.
const KEEP: Duration = Duration::from_secs(30 * 24 * 3600);

/// The cells of one experiment on one engine that are known.
#[derive(Debug)]
pub struct CellCache {
    /// Absent: nothing is cache.
    dir: Option<PathBuf>,
    /// Whether what is there is used.
    reuse: bool,
    experiment: Experiment,
    /// Engine and kernel.
    maker: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    key: String,
    answer: Answer,
}

impl CellCache {
    /// Those of `experiment` on `engine`, measured by the code of now.
    /// With `reuse` off they are only written. Errors: the engine's kernel is missing.
    pub fn open(experiment: &Experiment, engine: Engine, reuse: bool) -> Result<Self, GuestError> {
        let kernel = match engine {
            Engine::Native => PathBuf::from("/proc/version"),
            guest => find(guest)?,
        };
        let bytes = fs::read(&kernel)
            .map_err(|e| GuestError::host(format!("read {}", kernel.display()), e))?;
        let dir = cache_dir().join("cells");
        Ok(CellCache {
            // A cache that cannot be written costs time, not results.
            dir: fs::create_dir_all(&dir).is_ok().then_some(dir),
            reuse,
            experiment: experiment.clone(),
            maker: format!("{engine} kernel {}", checksum(&bytes)),
        })
    }

    /// Keeps nothing and knows nothing.
    pub fn nothing(experiment: &Experiment) -> Self {
        CellCache {
            dir: None,
            reuse: false,
            experiment: experiment.clone(),
            maker: String::new(),
        }
    }

    /// What was measured in `cell`, with the release of the kernel it ran on.
    pub fn find(&self, cell: &Cell) -> Option<Answer> {
        let (path, key) = self.place(cell).filter(|_| self.reuse)?;
        let entry: Entry = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        if entry.key != key {
            return None;
        }
        let _ = File::options()
            .append(true)
            .open(&path)
            .and_then(|f| f.set_modified(SystemTime::now()));
        let mut answer = entry.answer;
        answer.run.repeat = cell.repeat;
        Some(answer)
    }

    /// Writes `answer` down as what `cell` brings, unless it is void.
    pub fn keep(&self, cell: &Cell, answer: &Answer) {
        let Some((path, key)) = self.place(cell) else {
            return;
        };
        if !answer.run.instrument.void.is_empty() {
            return;
        }
        let entry = Entry {
            key,
            answer: answer.clone(),
        };
        // Failing it is measured again, which is what happens without a cache.
        let _ = write_whole(&path, &entry);
    }

    /// Removes what was not asked for during thirty days, of any experiment.
    pub fn prune(&self) {
        let Some(entries) = self.dir.as_ref().and_then(|d| fs::read_dir(d).ok()) else {
            return;
        };
        for entry in entries.flatten() {
            let old = entry
                .metadata()
                .and_then(|m| m.modified())
                .is_ok_and(|t| t.elapsed().is_ok_and(|age| age > KEEP));
            if old {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// A cell's file, and everything that its result depends on.
    fn place(&self, cell: &Cell) -> Option<(PathBuf, String)> {
        let dir = self.dir.as_ref()?;
        let key = format!(
            "{} code {}; {}",
            self.maker,
            code_of(&cell.condition),
            cell.inputs(&self.experiment)?
        );
        let name = format!("{}.json", checksum(key.as_bytes()));
        Some((dir.join(name), key))
    }
}

fn write_whole(path: &Path, entry: &Entry) -> io::Result<()> {
    let new = path.with_extension(format!("new{}", std::process::id()));
    fs::write(&new, serde_json::to_vec(entry)?)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    use evenkeel_core::Summary;
    use evenkeel_core::result::Run;

    const VDSL100: &str = include_str!("../../../experiments/vdsl100.toml");

    fn experiment(text: &str) -> Experiment {
        Experiment::parse(text, Path::new("test.toml")).unwrap()
    }

    fn cache(dir: &Path, experiment: &Experiment) -> CellCache {
        CellCache {
            dir: Some(dir.to_owned()),
            reuse: true,
            experiment: experiment.clone(),
            maker: "test".into(),
        }
    }

    fn cell() -> Cell {
        Cell {
            condition: "none".into(),
            load: "up1".into(),
            repeat: 0,
            seed: 1,
            duration: Duration::from_secs(12),
        }
    }

    fn answer() -> Answer {
        let summary = Summary::of(&[1.0]).unwrap();
        Answer {
            kernel: "6.12".into(),
            run: Run {
                condition: "none".into(),
                load: "up1".into(),
                seed: 1,
                base_ms: 9.2,
                ping_ms: summary,
                increase_ms: summary,
                up_kbit: 37_000.0,
                ..Run::default()
            },
        }
    }

    #[test]
    fn a_cell_comes_back_for_whatever_repeat() {
        let dir = tempfile::tempdir().unwrap();
        let e = experiment(VDSL100);
        let cache = cache(dir.path(), &e);
        assert_eq!(cache.find(&cell()), None);
        cache.keep(&cell(), &answer());
        assert_eq!(cache.find(&cell()), Some(answer()));
        let later = Cell {
            repeat: 2,
            ..cell()
        };
        assert_eq!(cache.find(&later).unwrap().run.repeat, 2);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let fresh = CellCache {
            reuse: false,
            ..cache
        };
        assert_eq!(fresh.find(&cell()), None);
    }

    #[test]
    fn whatever_matters_makes_another_cell() {
        let dir = tempfile::tempdir().unwrap();
        let e = experiment(VDSL100);
        let before = cache(dir.path(), &e);
        before.keep(&cell(), &answer());
        for other in [
            Cell {
                condition: "evenkeel".into(),
                ..cell()
            },
            Cell {
                load: "down1".into(),
                ..cell()
            },
            Cell { seed: 2, ..cell() },
            Cell {
                duration: Duration::from_secs(60),
                ..cell()
            },
        ] {
            assert_eq!(before.find(&other), None, "{other:?}");
        }
        for (from, to) in [("160ms", "161ms"), ("495000", "495001"), ("9.2 ", "9.3 ")] {
            let changed = experiment(&VDSL100.replace(from, to));
            assert_eq!(cache(dir.path(), &changed).find(&cell()), None, "{to}");
        }
        let maker = "another".into();
        let other = CellCache { maker, ..before };
        assert_eq!(other.find(&cell()), None);
        // Words, and loads beside this one, do not matter.
        for (from, to) in [
            ("in the cFosSpeed white", "there"),
            ("count = 4", "count = 5"),
        ] {
            let changed = experiment(&VDSL100.replace(from, to));
            assert!(cache(dir.path(), &changed).find(&cell()).is_some(), "{to}");
        }
    }

    #[test]
    fn void_runs_and_broken_files_are_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let e = experiment(VDSL100);
        let cache = cache(dir.path(), &e);
        let mut void = answer();
        void.run.instrument.void = "lagged".into();
        cache.keep(&cell(), &void);
        assert_eq!(cache.find(&cell()), None);
        cache.keep(&cell(), &answer());
        let (path, key) = cache.place(&cell()).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(cache.find(&cell()), None);
        fs::write(&path, whole.replace("seed 1", "seed 2")).unwrap();
        assert_eq!(cache.find(&cell()), None, "{key}");
    }

    #[test]
    fn old_cells_go() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path(), &experiment(VDSL100));
        cache.keep(&cell(), &answer());
        cache.prune();
        assert!(cache.find(&cell()).is_some());
        let (path, _) = cache.place(&cell()).unwrap();
        let old = SystemTime::now() - 2 * KEEP;
        let file = File::options().append(true).open(path).unwrap();
        file.set_modified(old).unwrap();
        cache.prune();
        assert_eq!(cache.find(&cell()), None);
    }
}
