//! Result pages: which there are, what each was made from, and which are older than that.
//!
//! Principles: a page is stale as soon as the line, the load, the condition's code or a seed of one of
//! its cells is another one, and says which; what a page was made from stands beside it
//! (`page.json`), with every cell's figures, so that it can be checked without measuring. The
//! kernel's version is recorded, but does not make a page stale: it changes without us. Non-goals:
//! measuring and drawing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use evenkeel_core::result::Run;
use serde::{Deserialize, Serialize};

use crate::cells::{Cell, RunOptions, cells};
use crate::code::scope_of;
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::guest::checksum;
use crate::identity::{Scope, Sources};

/// Where the pages are, below the repository.
pub const DIRECTORY: &str = "docs/results";

/// A page, as `docs/results/pages.toml` has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Its directory below [`DIRECTORY`].
    pub name: String,
    /// What it shows; an experiment says so itself.
    #[serde(default)]
    pub title: String,
    /// How to read it.
    #[serde(default)]
    pub notes: String,
    /// The experiment, without path and suffix.
    #[serde(default)]
    pub experiment: Option<String>,
    /// The engine that it runs on.
    #[serde(default)]
    pub engine: String,
    /// How often each cell is run.
    #[serde(default = "once")]
    pub repeat: u32,
    /// Short loads.
    #[serde(default)]
    pub quick: bool,
    /// Loads; none: all.
    #[serde(default)]
    pub loads: Vec<String>,
    /// Conditions; none: all.
    #[serde(default)]
    pub conditions: Vec<String>,
    /// What prints it, for one that is no experiment's.
    #[serde(default)]
    pub command: Option<String>,
    /// The crates that such a page depends on.
    #[serde(default)]
    pub crates: Vec<String>,
    /// It wants an otherwise idle machine.
    #[serde(default)]
    pub quiet: bool,
}

fn once() -> u32 {
    1
}

/// What a page was made from: its `page.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The commit it was made at; a `+` behind it: with changes.
    pub commit: String,
    /// The day, UTC.
    pub date: String,
    /// Release of the kernel that was measured on.
    pub kernel: String,
    /// What a cell took to measure, s.
    #[serde(default)]
    pub seconds_per_cell: f64,
    /// When some of it was measured again by later code, and was the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<Confirmed>,
    /// Its cells; none for a page of a command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<CellRecord>,
    /// The code that a page of a command depends on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
}

/// Cells that were measured again with later code and came out the same within the spread of seeds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Confirmed {
    /// With that code.
    pub commit: String,
    /// The day, UTC.
    pub date: String,
    /// How many.
    pub cells: usize,
}

/// A cell of a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Its condition.
    pub condition: String,
    /// Its load.
    pub load: String,
    /// Its seed.
    pub seed: u64,
    /// A checksum of line, hosts, load and duration.
    pub inputs: String,
    /// A checksum of the code that its condition runs.
    pub code: String,
    /// What was measured; absent for a void run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
}

/// What was measured in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Average of the ping, ms.
    pub ping_ms: f64,
    /// Average increase, ms.
    pub increase_ms: f64,
    /// 99 % of the increases are below, ms.
    pub increase_p99_ms: f64,
    /// Goodput, kbit/s.
    pub down_kbit: f64,
    /// Goodput, kbit/s.
    pub up_kbit: f64,
    /// Probes lost.
    pub lost: u64,
}

impl Figures {
    /// Those of a run, unless it is void.
    pub fn of(run: &Run) -> Option<Self> {
        run.instrument.void.is_empty().then_some(Figures {
            ping_ms: run.ping_ms.avg,
            increase_ms: run.increase_ms.avg,
            increase_p99_ms: run.increase_ms.p99,
            down_kbit: run.down_kbit,
            up_kbit: run.up_kbit,
            lost: run.lost,
        })
    }
}

/// Figures that differ by less than this share are the same: in virtual time a system call takes 1 ns,
/// so that another build of the same code shifts a run a little, and flows amplify that.
const SAME: f64 = 0.01;
/// The same for times, ms.
const SAME_MS: f64 = 0.02;

impl Figures {
    /// Whether they differ from `was` by no more than figures of `seeds` differ from one another.
    pub fn agrees(&self, was: &Figures, seeds: &[Figures]) -> bool {
        let within = |of: fn(&Figures) -> f64, least: f64| {
            let most = seeds.iter().map(of).fold(of(was), f64::max);
            let fewest = seeds.iter().map(of).fold(of(was), f64::min);
            let spread = (most - fewest).max(SAME * of(was).abs() + least);
            (of(self) - of(was)).abs() <= spread
        };
        within(|f| f.ping_ms, SAME_MS)
            && within(|f| f.increase_ms, SAME_MS)
            && within(|f| f.increase_p99_ms, SAME_MS)
            && within(|f| f.down_kbit, 0.0)
            && within(|f| f.up_kbit, 0.0)
    }
}

/// Whether a page is as new as what it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is.
    Fresh,
    /// There is none, or nobody knows what it was made from.
    Missing,
    /// It is not, and so many of its cells (of a page of a command: one) are older, for these reasons.
    Stale {
        /// How many.
        cells: usize,
        /// Each once, in words.
        why: Vec<String>,
    },
}

/// The code of now, by the sources below `root`.
#[derive(Debug, Clone)]
pub struct Code {
    root: std::path::PathBuf,
    sums: [String; 3],
}

impl Code {
    /// Errors: the sources cannot be read.
    pub fn of(root: &Path) -> io::Result<Self> {
        let sources = Sources::of_the_lab(root)?;
        let sum = |scope| sources.checksum(root, scope);
        Ok(Code {
            root: root.to_owned(),
            sums: [sum(Scope::Auto)?, sum(Scope::Told)?, sum(Scope::Peer)?],
        })
    }

    /// What a cell of `condition` depends on.
    pub fn of_condition(&self, condition: &str) -> &str {
        &self.sums[scope_of(condition) as usize]
    }

    /// What a page of a command depends on.
    ///
    /// Errors: a crate that it names cannot be read.
    pub fn of_crates(&self, crates: &[String]) -> io::Result<String> {
        Sources::of_crates(&self.root, crates)?.checksum(&self.root, Scope::Auto)
    }
}

/// All pages, in their order.
///
/// Errors: the list, its place and what is wrong with it.
pub fn load(root: &Path) -> Result<Vec<Page>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        page: Vec<Page>,
    }
    let path = root.join(DIRECTORY).join("pages.toml");
    let text = fs::read_to_string(&path).map_err(|e| format!("read {}: {e}", path.display()))?;
    let list: List = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    for page in &list.page {
        if page.experiment.is_some() == page.command.is_some() {
            let name = &page.name;
            return Err(format!(
                "{}: {name}: give it an experiment or a command",
                path.display()
            ));
        }
    }
    Ok(list.page)
}

impl Page {
    /// What of its experiment it runs.
    pub fn options(&self) -> RunOptions {
        RunOptions {
            quick: self.quick,
            loads: self.loads.clone(),
            conditions: self.conditions.clone(),
            repeat: self.repeat,
            ..RunOptions::default()
        }
    }

    /// Its experiment below `root`, if it has one.
    pub fn load_experiment(&self, root: &Path) -> Option<Result<Experiment, LabError>> {
        let name = self.experiment.as_ref()?;
        let path = root.join("experiments").join(format!("{name}.toml"));
        Some(Experiment::load(&path))
    }

    /// What it was made from; `None`: that is not known.
    pub fn record(&self, root: &Path) -> Option<Record> {
        let path = root.join(DIRECTORY).join(&self.name).join("page.json");
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Whether it is as new as what it depends on.
    ///
    /// Errors: the experiment or sources cannot be read.
    pub fn state(&self, root: &Path, code: &Code) -> Result<State, String> {
        let Some(record) = self.record(root) else {
            return Ok(State::Missing);
        };
        if let Some(experiment) = self.load_experiment(root) {
            let experiment = experiment.map_err(|e| e.to_string())?;
            let expected = cells(&experiment, &self.options()).map_err(|e| e.to_string())?;
            return Ok(compare(&experiment, &expected, &record, code));
        }
        let now = code.of_crates(&self.crates).map_err(|e| e.to_string())?;
        Ok(if now == record.code {
            State::Fresh
        } else {
            State::Stale {
                cells: 1,
                why: vec!["the code is another one".into()],
            }
        })
    }
}

/// Whether what was recorded is what would be measured now.
fn compare(experiment: &Experiment, expected: &[Cell], record: &Record, code: &Code) -> State {
    let known: BTreeMap<(&str, &str, u64), &CellRecord> = record
        .cells
        .iter()
        .map(|c| ((c.condition.as_str(), c.load.as_str(), c.seed), c))
        .collect();
    let mut why = Vec::new();
    let mut stale = 0;
    for cell in expected {
        let key = (cell.condition.as_str(), cell.load.as_str(), cell.seed);
        let reason = match known.get(&key) {
            None => format!("{}, {}: not measured", cell.condition, cell.load),
            Some(r) if Some(&r.inputs) != inputs(experiment, cell).as_ref() => {
                format!("{}: line or load are others", cell.load)
            }
            Some(r) if r.code != code.of_condition(&cell.condition) => {
                format!("{}: the code is another one", cell.condition)
            }
            Some(_) => continue,
        };
        stale += 1;
        if !why.contains(&reason) {
            why.push(reason);
        }
    }
    if stale == 0 {
        State::Fresh
    } else {
        State::Stale { cells: stale, why }
    }
}

/// A checksum of what a cell depends on beside kernel and code.
pub fn inputs(experiment: &Experiment, cell: &Cell) -> Option<String> {
    cell.inputs(experiment).map(|i| checksum(i.as_bytes()))
}

/// What is to be recorded of `runs`, measured with the code of now.
pub fn records(
    experiment: &Experiment,
    cells: &[Cell],
    runs: &[Run],
    code: &Code,
) -> Vec<CellRecord> {
    cells
        .iter()
        .zip(runs)
        .filter_map(|(cell, run)| {
            Some(CellRecord {
                condition: cell.condition.clone(),
                load: cell.load.clone(),
                seed: cell.seed,
                inputs: inputs(experiment, cell)?,
                code: code.of_condition(&cell.condition).to_owned(),
                figures: Figures::of(run),
            })
        })
        .collect()
}

/// Names of pages that `text` (the README) quotes: by a table, a picture or a link.
pub fn quoted(text: &str, pages: &[Page]) -> Vec<String> {
    let names = pages.iter().map(|p| p.name.clone());
    names
        .filter(|name| {
            let table = [
                format!("<!-- table:{name} "),
                format!("{DIRECTORY}/{name}/"),
            ];
            table.iter().any(|t| text.contains(t.as_str()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn page() -> Page {
        let pages = load(&root()).unwrap();
        pages.into_iter().find(|p| p.name == "vdsl100").unwrap()
    }

    fn record(code: &Code) -> (Experiment, Vec<Cell>, Record) {
        let experiment = page().load_experiment(&root()).unwrap().unwrap();
        let cells = cells(&experiment, &page().options()).unwrap();
        let runs: Vec<Run> = cells.iter().map(|_| Run::default()).collect();
        let record = Record {
            cells: records(&experiment, &cells, &runs, code),
            ..Record::default()
        };
        (experiment, cells, record)
    }

    #[test]
    fn every_page_can_be_made() {
        for page in load(&root()).unwrap() {
            if let Some(experiment) = page.load_experiment(&root()) {
                let cells = cells(&experiment.unwrap(), &page.options()).unwrap();
                assert!(!cells.is_empty(), "{}", page.name);
                let auto = cells.iter().any(|c| c.condition == "evenkeel-auto");
                assert!(auto, "{} has no evenkeel-auto", page.name);
            } else {
                assert!(!page.crates.is_empty(), "{}", page.name);
            }
        }
    }

    #[test]
    fn a_page_is_fresh_until_something_changes() {
        let code = Code::of(&root()).unwrap();
        let (experiment, cells, record) = record(&code);
        assert_eq!(compare(&experiment, &cells, &record, &code), State::Fresh);

        let mut later = code.clone();
        later.sums[Scope::Auto as usize] = "another".into();
        assert_eq!(
            compare(&experiment, &cells, &record, &later),
            State::Stale {
                cells: 12,
                why: vec!["evenkeel-auto: the code is another one".into()],
            }
        );

        let mut other = experiment.clone();
        other.duration.idle_s += 1.0;
        let State::Stale { cells: stale, .. } = compare(&other, &cells, &record, &code) else {
            panic!("another line or load is not seen");
        };
        assert_eq!(stale, cells.len());

        let mut less = record.clone();
        less.cells.pop();
        let State::Stale { cells: 1, why } = compare(&experiment, &cells, &less, &code) else {
            panic!("a cell that is missing is not seen");
        };
        assert_eq!(why, ["evenkeel-auto, rrul: not measured"]);
    }

    #[test]
    fn figures_agree_within_the_spread_of_seeds() {
        let figures = |increase_ms, down_kbit| Figures {
            ping_ms: 9.2 + increase_ms,
            increase_ms,
            increase_p99_ms: 2.0 * increase_ms,
            down_kbit,
            up_kbit: 0.0,
            lost: 0,
        };
        let was = figures(0.6, 100_000.0);
        assert!(was.agrees(&was, &[]));
        assert!(figures(0.61, 100_500.0).agrees(&was, &[was]));
        assert!(!figures(0.8, 100_000.0).agrees(&was, &[was]));
        assert!(!figures(0.6, 98_000.0).agrees(&was, &[was]));
        let seeds = [was, figures(0.9, 97_500.0)];
        assert!(figures(0.8, 98_000.0).agrees(&was, &seeds));
        assert!(!figures(0.2, 100_000.0).agrees(&was, &seeds));
    }

    #[test]
    fn the_code_of_now_is_that_of_this_build() {
        let code = Code::of(&root()).unwrap();
        for condition in ["evenkeel-auto", "evenkeel", "none"] {
            assert_eq!(code.of_condition(condition), crate::code_of(condition));
        }
    }

    #[test]
    fn tables_pictures_and_links_quote_a_page() {
        let pages = load(&root()).unwrap();
        let text = "<!-- table:lte -->\n![x](docs/results/vdsl100/ping-up1.png) lines";
        assert_eq!(quoted(text, &pages), ["vdsl100", "lte"]);
    }
}
