//! Where the probes of a run are kept: the log, and what the report is made from.
//!
//! Principles: files are opened before the first probe; a disk that fills up is told once and
//! the measuring goes on; the report at the end is what `evenkeel report` makes of the log, by
//! evenkeel-lab.
//! Non-goals: the form of the log (`evenkeel_core::ping::log`).

use std::fs::{self, File};
use std::io::{BufWriter, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use evenkeel_core::ping::Outcome;
use evenkeel_core::ping::log::{header, line};
use evenkeel_terminal::Failure;

use crate::lab;

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
            // Who draws it is known now as well.
            lab::find(lab::NAME)?;
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

    /// Has the report made, if one was asked for. A log that is not whole is a failure.
    pub(crate) fn finish(mut self, title: &str) -> Result<(), Failure> {
        self.flush();
        if let Some(out) = &self.out
            && let Some(sink) = self.sinks.first_mut()
        {
            let again = |e| Failure::work(format_args!("read {}: {e}", sink.name));
            let mut log = sink.file.get_ref().try_clone().map_err(again)?;
            log.rewind().map_err(again)?;
            lab::report_ping(log, title, out)?;
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
fn is_directory(out: &Path) -> bool {
    !matches!(
        out.extension().and_then(|e| e.to_str()),
        Some("html" | "png" | "json")
    )
}
