//! Where the probes of a run are kept: the log, and what the report is made from.
//!
//! Principles: files are opened before the first probe; a disk that fills up is told once and
//! the measuring goes on; the report at the end is what `evenkeel report` makes of the log.
//! Non-goals: the form of the log (`evenkeel_core::ping::log`).

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use evenkeel_core::ping::Outcome;
use evenkeel_core::ping::log::{Log, header, line};

use crate::failure::Failure;

/// A file that probes are written to.
#[derive(Debug)]
struct Sink {
    name: String,
    file: BufWriter<File>,
    failed: bool,
}

/// The files of a run.
#[derive(Debug, Default)]
pub(crate) struct Keep {
    sinks: Vec<Sink>,
    out: Option<PathBuf>,
}

impl Keep {
    /// Opens what is asked for and writes what stands above the probes.
    pub(crate) fn open(
        log: Option<&Path>,
        out: Option<&Path>,
        about: &[(&str, String)],
    ) -> Result<Keep, Failure> {
        let mut keep = Keep {
            sinks: Vec::new(),
            out: out.map(Path::to_owned),
        };
        let mut add = |name: String, file: std::io::Result<File>| {
            let file = file.map_err(|e| {
                Failure::work(format_args!(
                    "write {name}: {e}; name a file that can be written"
                ))
            })?;
            keep.sinks.push(Sink {
                name,
                file: BufWriter::new(file),
                failed: false,
            });
            Ok::<_, Failure>(())
        };
        if let Some(out) = out {
            if is_directory(out) {
                fs::create_dir_all(out)
                    .map_err(|e| Failure::work(format_args!("create {}: {e}", out.display())))?;
                let path = out.join("values.txt");
                let file = File::options()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(&path);
                add(path.display().to_string(), file)?;
            } else {
                // It is known now whether it can be written, and not after an hour.
                File::create(out)
                    .map_err(|e| Failure::work(format_args!("write {}: {e}", out.display())))?;
                add("a temporary file".into(), tempfile::tempfile())?;
            }
        }
        if let Some(log) = log {
            add(log.display().to_string(), File::create(log))?;
        }
        let head = header(about);
        keep.write(&head);
        keep.flush();
        Ok(keep)
    }

    /// One more probe.
    pub(crate) fn add(&mut self, o: &Outcome) {
        if !self.sinks.is_empty() {
            self.write(&line(o));
        }
    }

    fn write(&mut self, text: &str) {
        for sink in self.sinks.iter_mut().filter(|s| !s.failed) {
            let result = sink.file.write_all(text.as_bytes());
            sink.check(result);
        }
    }

    /// Hands what was written to the system.
    pub(crate) fn flush(&mut self) {
        for sink in self.sinks.iter_mut().filter(|s| !s.failed) {
            let result = sink.file.flush();
            sink.check(result);
        }
    }

    /// Makes the report, if one was asked for. A log that is not whole is a failure.
    pub(crate) fn finish(mut self, title: &str) -> Result<(), Failure> {
        self.flush();
        if let Some(out) = &self.out
            && let Some(sink) = self.sinks.first_mut()
        {
            let mut text = String::new();
            let file = sink.file.get_mut();
            file.rewind()
                .and_then(|()| file.read_to_string(&mut text))
                .map_err(|e| Failure::work(format_args!("read {}: {e}", sink.name)))?;
            let log: Log = text
                .parse()
                .map_err(|e| Failure::work(format_args!("{}: {e}", sink.name)))?;
            write_report(&[(title.to_owned(), log)], out)?;
        }
        match self.sinks.iter().find(|s| s.failed) {
            None => Ok(()),
            Some(sink) => Err(Failure::work(format_args!(
                "{} is not whole: make room and measure again",
                sink.name
            ))),
        }
    }
}

impl Sink {
    fn check(&mut self, result: std::io::Result<()>) {
        if let Err(e) = result {
            self.failed = true;
            eprintln!(
                "evenkeel: write {}: {e}; nothing more is logged, measuring goes on",
                self.name
            );
        }
    }
}

/// Whether an `--out` means a directory: what has none of the known suffixes.
pub(crate) fn is_directory(out: &Path) -> bool {
    !matches!(
        out.extension().and_then(|e| e.to_str()),
        Some("html" | "png" | "json")
    )
}

/// Page, pictures or figures of logs, by the suffix of `out`; all of them into a directory.
pub(crate) fn write_report(logs: &[(String, Log)], out: &Path) -> Result<(), Failure> {
    let written = evenkeel_report::ping::write(logs, out).map_err(Failure::work)?;
    for path in written
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "html" || e == "png"))
    {
        eprintln!("Written: {}", path.display());
    }
    Ok(())
}
