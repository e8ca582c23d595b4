//! `results`: the committed pages, made, checked and confirmed.
//!
//! Principles: every published figure comes from here, none by hand; how long it takes is said
//! beforehand; cells measured before with the same code, kernel and seed are not measured again, so
//! that it can be stopped and resumed; pages that are as new as what they depend on are left alone.
//! Non-goals: which pages there are and what makes one stale (`evenkeel_lab::pages`).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;
use evenkeel_core::result::ResultFile;
use evenkeel_lab::pages::{
    self, CellRecord, Code, Confirmed, DIRECTORY, Figures, Page, Record, State,
};
use evenkeel_lab::{Cell, cells};
use evenkeel_terminal::table::{Table, figures, words};
use evenkeel_terminal::{Failure, print};

use crate::today::today;

/// What a cell takes of which nothing is known yet, s.
const USUAL: f64 = 8.0;
/// What a page of a command takes, s.
const COMMAND: f64 = 180.0;

/// Arguments of `results`.
#[derive(Debug, Args)]
pub(crate) struct Results {
    /// Only these pages, whether stale or not
    names: Vec<String>,
    /// Name the pages that are older than what they depend on, and make none
    #[arg(long)]
    check: bool,
    /// With --check: only pages that the README quotes
    #[arg(long, requires = "check")]
    quoted: bool,
    /// Measure one seed of each stale condition again, and call a page as new as the code if every
    /// figure is the same within the spread of its seeds
    #[arg(long, conflicts_with = "check")]
    confirm: bool,
    /// Say what would be made and how long that takes, and make none
    #[arg(long, conflicts_with_all = ["check", "confirm"])]
    plan: bool,
    /// Print the checksums of the code that cells and pages depend on now, and make none
    #[arg(long, conflicts_with_all = ["check", "confirm", "plan"])]
    code: bool,
}

/// `evenkeel-lab results`, in the repository.
pub(crate) fn results(args: &Results) -> Result<(), Failure> {
    let root = Path::new(".");
    let all = pages::load(root).map_err(Failure::usage)?;
    if let Some(bad) = args
        .names
        .iter()
        .find(|n| all.iter().all(|p| p.name != **n))
    {
        let known: Vec<&str> = all.iter().map(|p| p.name.as_str()).collect();
        return Err(Failure::usage(format_args!(
            "there is no page {bad} ({})",
            known.join(" ")
        )));
    }
    let code = Code::of(root).map_err(|e| Failure::work(format_args!("read the sources: {e}")))?;
    if args.code {
        return print_code(&code, &all);
    }
    let chosen = |p: &&Page| args.names.is_empty() || args.names.contains(&p.name);
    let mut looked = Vec::new();
    for page in all.iter().filter(chosen) {
        let state = page.state(root, &code).map_err(Failure::work)?;
        looked.push((page, state));
    }
    if args.check {
        return check(&looked, &all, args.quoted);
    }
    // Named pages are made even if they are fresh: what was measured before is there at once.
    looked.retain(|l| l.1 != State::Fresh || !args.names.is_empty() && !args.confirm);
    if args.confirm {
        for (page, _) in &looked {
            confirm(page, &code)?;
        }
    } else {
        say_plan(&looked)?;
        if args.plan {
            return Ok(());
        }
        for (number, (page, _)) in (1..).zip(&looked) {
            eprintln!("== {} ({number} of {})", page.name, looked.len());
            make(page, &code)?;
            // What is there is quoted, also if this is stopped before the next page.
            publish(&all)?;
        }
    }
    publish(&all)
}

/// What cells of each kind of condition depend on, and the pages of commands.
fn print_code(code: &Code, all: &[Page]) -> Result<(), Failure> {
    let mut text = String::new();
    for condition in ["none", "evenkeel", "evenkeel-auto"] {
        let _ = writeln!(text, "{condition} {}", code.of_condition(condition));
    }
    for page in all.iter().filter(|p| p.command.is_some()) {
        let sum = code
            .of_crates(&page.crates)
            .map_err(|e| Failure::work(format_args!("read the sources: {e}")))?;
        let _ = writeln!(text, "{} {sum}", page.name);
    }
    print(&text)
}

/// Names what is stale; that is a failure.
fn check(looked: &[(&Page, State)], all: &[Page], quoted: bool) -> Result<(), Failure> {
    let readme = fs::read_to_string("README.md")
        .map_err(|e| Failure::work(format_args!("read README.md: {e}")))?;
    let quotes = pages::quoted(&readme, all);
    let mut text = String::new();
    let mut stale = 0;
    for (page, state) in looked {
        let is_quoted = quotes.contains(&page.name);
        if quoted && !is_quoted {
            continue;
        }
        let why = match state {
            State::Fresh => continue,
            State::Missing => "nobody knows what it was made from".to_owned(),
            State::Stale { why, .. } => why.join("; "),
        };
        stale += 1;
        let quoted = if is_quoted { " (README)" } else { "" };
        let _ = writeln!(text, "{DIRECTORY}/{}{quoted}: {why}", page.name);
    }
    print(&text)?;
    if stale == 0 {
        return Ok(());
    }
    Err(Failure::work(format_args!(
        "{stale} pages are older than what they depend on: scripts/results --confirm, where nothing \
         that is measured should have changed, or scripts/results"
    )))
}

/// What is to be made, and how long that takes.
fn say_plan(looked: &[(&Page, State)]) -> Result<(), Failure> {
    let mut table = Table::new(&[words("page"), figures("cells"), figures("min"), words("")]);
    let mut all = 0.0;
    for (page, state) in looked {
        let record = page.record(Path::new("."));
        let known = record.map_or(0.0, |r| r.seconds_per_cell);
        let (count, seconds) = match (state, page.command.is_some()) {
            (_, true) => (1, if known > 0.0 { known } else { COMMAND }),
            (State::Stale { cells, .. }, _) => (*cells, *cells as f64 * at_least(known)),
            _ => {
                let count = expected(page)?.1.len();
                (count, count as f64 * at_least(known))
            }
        };
        all += seconds;
        let minutes = (seconds / 60.0).ceil();
        let quiet = if page.quiet {
            "on an otherwise idle machine"
        } else {
            ""
        };
        let (cells, minutes) = (count.to_string(), minutes.to_string());
        table.row([page.name.as_str(), &cells, &minutes, quiet]);
    }
    let minutes = (all / 60.0).ceil();
    print(&format!(
        "{table}{} pages, some {minutes:.0} minutes\n",
        looked.len()
    ))
}

fn at_least(known: f64) -> f64 {
    if known > 0.0 { known } else { USUAL }
}

/// A page's experiment, its cells, and its file.
fn expected(page: &Page) -> Result<(evenkeel_lab::Experiment, Vec<Cell>, PathBuf), Failure> {
    let name = page.experiment.as_deref().unwrap_or_default();
    let experiment = match page.load_experiment(Path::new(".")) {
        Some(experiment) => experiment?,
        None => return Err(Failure::work(format_args!("{}: no experiment", page.name))),
    };
    let cells = cells(&experiment, &page.options())?;
    Ok((
        experiment,
        cells,
        PathBuf::from(format!("experiments/{name}.toml")),
    ))
}

/// Makes a page.
fn make(page: &Page, code: &Code) -> Result<(), Failure> {
    let directory = Path::new(DIRECTORY).join(&page.name);
    let io = |what: &str, e: std::io::Error| Failure::work(format_args!("{what}: {e}"));
    fs::create_dir_all(&directory).map_err(|e| io("create the page's directory", e))?;
    let before = page.record(Path::new(".")).unwrap_or_default();
    let started = Instant::now();
    let mut record = Record {
        commit: commit(),
        date: today(),
        ..Record::default()
    };
    let text = if page.command.is_some() {
        record.kernel = fs::read_to_string("/proc/sys/kernel/osrelease")
            .map(|s| s.trim().to_owned())
            .unwrap_or_default();
        record.code = code
            .of_crates(&page.crates)
            .map_err(|e| io("read the sources", e))?;
        let text = command_page(page)?;
        record.seconds_per_cell = started.elapsed().as_secs_f64();
        text
    } else {
        let (experiment, cells, file) = expected(page)?;
        let out = PathBuf::from("out/results").join(&page.name);
        let _ = fs::remove_dir_all(&out);
        let result = run(page, &file, &page.options(), &out)?;
        let took = started.elapsed().as_secs_f64() / cells.len().max(1) as f64;
        // Less than a second: measured before.
        record.seconds_per_cell = if took > 1.0 {
            took
        } else {
            before.seconds_per_cell
        };
        record.kernel.clone_from(&result.kernel);
        record.cells = pages::records(&experiment, &cells, &result.runs, code);
        copy_pictures(&out, &directory).map_err(|e| io("copy the pictures", e))?;
        fs::read_to_string(out.join("report.md")).map_err(|e| io("read the report", e))?
    };
    write(page, &text, &record)
}

/// Runs a page's experiment by this program, with its progress to be seen.
fn run(
    page: &Page,
    file: &Path,
    options: &evenkeel_lab::RunOptions,
    out: &Path,
) -> Result<ResultFile, Failure> {
    let program = std::env::current_exe().map_err(Failure::work)?;
    let mut command = Command::new(program);
    command.args(["lab", "run"]).arg(file).arg("--out").arg(out);
    command.args([
        "--engine",
        &page.engine,
        "--repeat",
        &options.repeat.to_string(),
    ]);
    command.args(["--seed", &options.seed.to_string()]);
    if options.quick {
        command.arg("--quick");
    }
    for (name, list) in [
        ("--loads", &options.loads),
        ("--conditions", &options.conditions),
    ] {
        if !list.is_empty() {
            command.args([name, &list.join(",")]);
        }
    }
    let status = command.stdout(Stdio::null()).status();
    let status = status.map_err(|e| Failure::work(format_args!("{}: {e}", page.name)))?;
    if !status.success() {
        return Err(Failure::work(format_args!(
            "{}: lab run: {status}",
            page.name
        )));
    }
    evenkeel_report::read(&out.join("result.json")).map_err(Failure::work)
}

/// What a page's command prints, behind a head.
fn command_page(page: &Page) -> Result<String, Failure> {
    let command = page.command.as_deref().unwrap_or_default();
    let beside = std::env::current_exe()
        .ok()
        .and_then(|p| p.parent().map(Path::to_path_buf))
        .unwrap_or_default();
    let path = format!(
        "{}:{}",
        beside.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("sh")
        .args(["-c", command])
        .env("PATH", path)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| Failure::work(format_args!("{}: {command}: {e}", page.name)))?;
    if !output.status.success() {
        let status = output.status;
        return Err(Failure::work(format_args!(
            "{}: {command}: {status}",
            page.name
        )));
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if printed.starts_with('#') {
        return Ok(printed);
    }
    let notes = &page.notes;
    Ok(format!(
        "### {}\n\n{}\n\nCommand: `{command}`.{}{notes}\n\n{}\n",
        page.name,
        page.title,
        if notes.is_empty() { "" } else { " " },
        if printed.starts_with('|') {
            printed
        } else {
            format!("```\n{printed}```")
        }
    ))
}

fn copy_pictures(from: &Path, to: &Path) -> std::io::Result<()> {
    let is_picture = |p: &Path| p.extension().is_some_and(|x| x == "png");
    for entry in fs::read_dir(to)?.flatten() {
        if is_picture(&entry.path()) {
            fs::remove_file(entry.path())?;
        }
    }
    for entry in fs::read_dir(from)?.flatten() {
        if is_picture(&entry.path()) {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Where a page says what it was made from.
const MADE: &str = "\nMade at commit ";

/// Writes a page and its record.
fn write(page: &Page, text: &str, record: &Record) -> Result<(), Failure> {
    let directory = Path::new(DIRECTORY).join(&page.name);
    let body = text.split(MADE).next().unwrap_or_default().trim_end();
    let confirmed = record.confirmed.as_ref().map_or(String::new(), |c| {
        format!(
            " At {} ({}) {} of its cells were measured again and came out the same within the spread of its seeds.",
            c.commit, c.date, c.cells
        )
    });
    let text = format!(
        "{body}\n{MADE}{} ({}).{confirmed} What it was made from, and every cell's figures: \
         [page.json](page.json).\n",
        record.commit, record.date
    );
    let json = serde_json::to_string_pretty(record).map_err(Failure::work)? + "\n";
    for (name, text) in [("README.md", &text), ("page.json", &json)] {
        let path = directory.join(name);
        // Whole or as it was.
        let new = directory.join(format!("{name}.new"));
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|e| Failure::work(format_args!("write {}: {e}", path.display())))?;
    }
    Ok(())
}

/// Measures one seed of what is stale again; if nothing differs the page is as new as the code.
fn confirm(page: &Page, code: &Code) -> Result<(), Failure> {
    let name = &page.name;
    let Some(mut record) = page.record(Path::new(".")).filter(|r| !r.cells.is_empty()) else {
        return print(&format!("{name}: it cannot be confirmed, only made\n"));
    };
    let (experiment, expected, file) = expected(page)?;
    let old = |c: &Cell| {
        let found = record.cells.iter().find(|r| {
            (&r.condition, &r.load, r.seed) == (&c.condition, &c.load, c.seed)
                && Some(&r.inputs) == pages::inputs(&experiment, c).as_ref()
        });
        found.cloned()
    };
    if page.engine != "virtual" || expected.iter().any(|c| old(c).is_none()) {
        return print(&format!("{name}: it cannot be confirmed, only made\n"));
    }
    let mut conditions: Vec<String> = Vec::new();
    for cell in &expected {
        let is_old = old(cell).is_some_and(|r| r.code != code.of_condition(&cell.condition));
        if is_old && !conditions.contains(&cell.condition) {
            conditions.push(cell.condition.clone());
        }
    }
    let mut options = page.options();
    options.repeat = 1;
    options.conditions.clone_from(&conditions);
    eprintln!("== {name}: {}", conditions.join(", "));
    let result = run(
        page,
        &file,
        &options,
        &PathBuf::from("out/confirm").join(name),
    )?;
    let again = cells(&experiment, &options)?;
    for (cell, run) in again.iter().zip(&result.runs) {
        let same = |r: &&CellRecord| (&r.condition, &r.load) == (&cell.condition, &cell.load);
        let seeds: Vec<Figures> = record
            .cells
            .iter()
            .filter(same)
            .filter_map(|r| r.figures)
            .collect();
        let was = old(cell).and_then(|r| r.figures);
        if !was
            .zip(Figures::of(run))
            .is_some_and(|(was, is)| is.agrees(&was, &seeds))
        {
            let Cell {
                load, condition, ..
            } = cell;
            return print(&format!(
                "{name}: {load}, {condition} is another one now: make it again\n"
            ));
        }
    }
    for cell in &mut record.cells {
        if conditions.contains(&cell.condition) {
            code.of_condition(&cell.condition)
                .clone_into(&mut cell.code);
        }
    }
    record.confirmed = Some(Confirmed {
        commit: commit(),
        date: today(),
        cells: again.len(),
    });
    let readme = Path::new(DIRECTORY).join(name).join("README.md");
    let text = fs::read_to_string(&readme)
        .map_err(|e| Failure::work(format_args!("read {}: {e}", readme.display())))?;
    write(page, &text, &record)?;
    print(&format!(
        "{name}: {} cells are the same within the spread of seeds\n",
        again.len()
    ))
}

/// The commit that is checked out; a `+` behind it if what is measured was changed since.
fn commit() -> String {
    let git = |args: &[&str]| {
        let out = Command::new("git")
            .args(args)
            .stderr(Stdio::null())
            .output();
        out.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
            .unwrap_or_default()
    };
    let head = git(&["rev-parse", "--short", "HEAD"]);
    let changed = git(&[
        "status",
        "--porcelain",
        "--",
        "crates",
        "scripts/uml",
        "experiments",
    ]);
    if changed.is_empty() { head } else { head + "+" }
}

/// The list of pages, and the tables that README and book take from them.
fn publish(all: &[Page]) -> Result<(), Failure> {
    let mut list = String::from(
        "# Results\n\nMade by `make results`; each page says from which commit, with which command, kernel \
         and seeds, and when. `scripts/results --check` names those that are older than what they depend \
         on.\n\n",
    );
    for page in all {
        let readme = Path::new(DIRECTORY).join(&page.name).join("README.md");
        if let Ok(text) = fs::read_to_string(readme) {
            // Title, blank, what is measured.
            let what = text.lines().nth(2).unwrap_or_default();
            let _ = writeln!(list, "- [{0}]({0}/README.md): {what}", page.name);
        }
    }
    let index = Path::new(DIRECTORY).join("README.md");
    fs::write(&index, list)
        .map_err(|e| Failure::work(format_args!("write {}: {e}", index.display())))?;
    for path in quoting() {
        let failed = |what: &str, e| Failure::work(format_args!("{what} {}: {e}", path.display()));
        let text = fs::read_to_string(&path).map_err(|e| failed("read", e))?;
        let filled = fill(&text, &|name| {
            fs::read_to_string(Path::new(DIRECTORY).join(name).join("README.md")).ok()
        });
        if filled != text {
            fs::write(&path, filled).map_err(|e| failed("write", e))?;
        }
    }
    Ok(())
}

/// Pages of the documentation that may quote tables: the README and those of the book.
fn quoting() -> Vec<PathBuf> {
    let docs = fs::read_dir("docs").into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = docs.map(|e| e.path()).collect();
    all.retain(|p| p.extension().is_some_and(|x| x == "md"));
    all.push("README.md".into());
    all.sort();
    all
}

/// Puts the first table of a page between `<!-- table:NAME [CONDITION,...] -->` and `<!-- end -->`;
/// with conditions only those rows.
fn fill(text: &str, page: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut skips = false;
    for line in text.lines() {
        if line == "<!-- end -->" {
            skips = false;
        }
        if skips {
            continue;
        }
        out.push_str(line);
        out.push('\n');
        let Some(marker) = line
            .strip_prefix("<!-- table:")
            .and_then(|l| l.strip_suffix(" -->"))
        else {
            continue;
        };
        let (name, conditions) = marker.split_once(' ').unwrap_or((marker, ""));
        let Some(page) = page(name) else { continue };
        let conditions: Vec<&str> = conditions.split(',').filter(|c| !c.is_empty()).collect();
        out.push('\n');
        let table = page.lines().skip_while(|l| !l.starts_with('|'));
        for (i, row) in table.take_while(|l| l.starts_with('|')).enumerate() {
            let first = row.split('|').nth(1).unwrap_or_default().trim();
            let first = first.trim_matches('*');
            let is_head = i < 2 || row.split('|').nth(2).is_some_and(|c| c.trim().is_empty());
            if is_head || conditions.is_empty() || conditions.contains(&first) {
                out.push_str(row);
                out.push('\n');
            }
        }
        out.push('\n');
        skips = true;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::fill;

    const PAGE: &str = "### x\n\n| Condition | ms |\n|---|---:|\n| *Download* | |\n| none | 9 |\n| **evenkeel** | **1** |\n\nWords.\n";

    #[test]
    fn a_table_comes_between_its_markers() {
        let page = |name: &str| (name == "x").then(|| PAGE.to_owned());
        let text = "a\n<!-- table:x -->\nold\n<!-- end -->\nb\n";
        let all = "a\n<!-- table:x -->\n\n| Condition | ms |\n|---|---:|\n| *Download* | |\n| none | 9 |\n| **evenkeel** | **1** |\n\n<!-- end -->\nb\n";
        assert_eq!(fill(text, &page), all);
        assert_eq!(fill(all, &page), all);
        let some = fill(&text.replace("x -->", "x evenkeel -->"), &page);
        assert!(
            some.contains("**evenkeel**") && !some.contains("| none"),
            "{some}"
        );
        assert!(some.contains("| *Download* | |"));
        let unknown = "<!-- table:y -->\nold\n<!-- end -->\n";
        assert_eq!(fill(unknown, &page), unknown);
    }
}
