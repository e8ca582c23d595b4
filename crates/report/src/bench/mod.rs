//! Results of `evenkeel bench`: their form, their figures, and what is made of them.
//!
//! Principles: everything comes from the raw series of the files; one run is explained, several are
//! compared, the first with each other; files of others (flent, Crusader) are read into the same form.
//! Non-goals: measuring (crate `evenkeel-bench`).

pub mod crusader;
mod draw;
pub mod figures;
pub mod flent;
pub mod form;
mod page;
mod text;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use form::Bench;
use serde::Serialize;

use crate::chart::WIDE;
use crate::theme::{LIGHT, standalone};
use crate::{Error, put, raster};

pub use page::page;
pub use text::text;

/// Runs with the names that legends give them: their labels, or what they were.
pub fn named(runs: Vec<Bench>) -> Vec<(String, Bench)> {
    let name = |b: &Bench| match (b.label.as_str(), b.to.as_str()) {
        ("", "") => b.test.clone(),
        ("", to) => format!("{} to {to}", b.test),
        (label, _) => label.to_owned(),
    };
    runs.into_iter()
        .map(|b| (crate::words::plain(&name(&b)), b))
        .collect()
}

/// The one field that every version has.
#[derive(serde::Deserialize)]
struct Known {
    bench_version: u32,
}

/// The runs of a bench result, a flent file or one of Crusader, which may have several; none if `path` is
/// something else that can be read.
pub fn read(path: &Path) -> Result<Vec<Bench>, Error> {
    let bytes = fs::read(path).map_err(|source| Error::Io {
        what: "read",
        path: path.to_owned(),
        source,
    })?;
    let refuse = |why: String| Error::Format {
        path: path.to_owned(),
        why,
    };
    if flent::is_gzip(&bytes) {
        return flent::read(&bytes).map(|b| vec![b]).map_err(refuse);
    }
    if crusader::is(&bytes) {
        let mut runs = crusader::read(&bytes).map_err(refuse)?;
        // A file of Crusader has no name of its own.
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        for b in &mut runs {
            b.label = format!("{stem}, {}", b.test);
        }
        return Ok(runs);
    }
    match serde_json::from_slice::<Known>(&bytes) {
        Err(_) => Ok(Vec::new()),
        Ok(k) if k.bench_version > form::VERSION => Err(refuse(format!(
            "it has version {}, this evenkeel knows up to {}: update evenkeel",
            k.bench_version,
            form::VERSION
        ))),
        Ok(_) => serde_json::from_slice(&bytes)
            .map(|b| vec![b])
            .map_err(|e| refuse(format!("not a bench result: {e}"))),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    name: &'a str,
    label: &'a str,
    test: &'a str,
    to: &'a str,
    far_end: &'a str,
    shaper: &'a str,
    began: String,
    interrupted: bool,
    void: String,
    figures: figures::Figures,
    checks: &'a [form::Check],
}

/// When a run began; empty where its file does not say it (Crusader's).
fn began(b: &Bench) -> String {
    if b.began > 0.0 {
        flent::time(b.began)
    } else {
        String::new()
    }
}

/// The figures of runs as JSON: an array, with the differences of a comparison behind it.
pub fn json(runs: &[(String, Bench)]) -> String {
    let all: Vec<_> = runs
        .iter()
        .map(|(name, b)| Summary {
            name,
            label: &b.label,
            test: &b.test,
            to: &b.to,
            far_end: &b.far_end,
            shaper: &b.shaper,
            began: began(b),
            interrupted: b.interrupted,
            void: b.void(),
            figures: figures::figures(b),
            checks: &b.checks,
        })
        .collect();
    let compared: Vec<_> = text::differences(runs)
        .into_iter()
        .map(|(what, unit, d)| serde_json::json!({ "what": what, "unit": unit, "difference": d }))
        .collect();
    let document = serde_json::json!({ "runs": all, "differences": compared });
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// Every sample as a line: run, series, s from the load's begin, value.
pub fn csv(runs: &[(String, Bench)]) -> String {
    let mut out = String::from("run,series,unit,seconds,value\n");
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    for (name, b) in runs {
        let (name, zero) = (quoted(name), b.phases.load);
        for p in &b.probes {
            for probe in &p.probes {
                let rtt = probe.rtt.map_or(String::new(), |v| format!("{v:.4}"));
                let _ = writeln!(
                    out,
                    "{name},ping {} {},ms,{:.4},{rtt}",
                    p.kind,
                    p.mark,
                    probe.t - zero
                );
            }
        }
        for (way, word) in [(form::Way::Down, "download"), (form::Way::Up, "upload")] {
            for (i, s) in b.streams.iter().filter(|s| s.way == way).enumerate() {
                for (bin, bytes) in s.bytes.iter().enumerate() {
                    let mbit = *bytes as f64 * 8.0 / 1e6 / form::BIN_S;
                    let t = bin as f64 * form::BIN_S - zero;
                    let _ = writeln!(
                        out,
                        "{name},{word} {} {},Mbit/s,{t:.1},{mbit:.4}",
                        i + 1,
                        s.mark
                    );
                }
            }
        }
    }
    out
}

/// Writes runs to `out`, by its suffix; all that there is into a directory. Returns what was written.
pub fn write(runs: &[(String, Bench)], out: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut written = Vec::new();
    let name = out
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let suffix = |s: &str| name.ends_with(s);
    match () {
        () if suffix(".html") => put(out.to_owned(), page(runs).as_bytes(), &mut written)?,
        () if suffix(".csv") => put(out.to_owned(), csv(runs).as_bytes(), &mut written)?,
        () if suffix(".json") => each(runs, out, ".json", &mut written, result)?,
        () if suffix(".flent.gz") => each(runs, out, ".flent.gz", &mut written, gz)?,
        () if suffix(".png") || suffix(".svg") => {
            picture(runs, draw::Kind::Panels, out, &mut written)?;
        }
        () => {
            fs::create_dir_all(out).map_err(|source| Error::Io {
                what: "create",
                path: out.to_owned(),
                source,
            })?;
            put(out.join("bench.html"), page(runs).as_bytes(), &mut written)?;
            put(out.join("bench.csv"), csv(runs).as_bytes(), &mut written)?;
            each(runs, &out.join("bench.json"), ".json", &mut written, result)?;
            each(
                runs,
                &out.join("bench.flent.gz"),
                ".flent.gz",
                &mut written,
                gz,
            )?;
            for kind in draw::Kind::ALL {
                picture(
                    runs,
                    kind,
                    &out.join(format!("{}.png", kind.stem())),
                    &mut written,
                )?;
                picture(
                    runs,
                    kind,
                    &out.join(format!("{}.svg", kind.stem())),
                    &mut written,
                )?;
            }
        }
    }
    Ok(written)
}

/// A file's bytes.
type Make = fn(&Bench, &Path) -> Result<Vec<u8>, Error>;

fn result(b: &Bench, path: &Path) -> Result<Vec<u8>, Error> {
    let json = serde_json::to_vec(b).map_err(|e| Error::Format {
        path: path.to_owned(),
        why: e.to_string(),
    })?;
    Ok([&json[..], b"\n"].concat())
}

fn gz(b: &Bench, path: &Path) -> Result<Vec<u8>, Error> {
    flent::write(b).map_err(|source| Error::Io {
        what: "write",
        path: path.to_owned(),
        source,
    })
}

/// One file for a run; of several, each gets its number before the suffix.
fn each(
    runs: &[(String, Bench)],
    out: &Path,
    suffix: &str,
    written: &mut Vec<PathBuf>,
    make: Make,
) -> Result<(), Error> {
    for (i, (_, b)) in runs.iter().enumerate() {
        let path = if runs.len() == 1 {
            out.to_owned()
        } else {
            let name = out.to_string_lossy();
            PathBuf::from(format!(
                "{}-{}{suffix}",
                name.trim_end_matches(suffix),
                i + 1
            ))
        };
        let bytes = make(b, &path)?;
        put(path, &bytes, written)?;
    }
    Ok(())
}

fn picture(
    runs: &[(String, Bench)],
    kind: draw::Kind,
    path: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    let Some(drawing) = kind.draw(runs, WIDE) else {
        return Ok(());
    };
    let svg = standalone(&drawing, &LIGHT);
    if path.extension().is_some_and(|e| e == "svg") {
        return put(path.to_owned(), svg.as_bytes(), written);
    }
    let png = raster::png(&svg).map_err(|why| Error::Draw {
        path: path.to_owned(),
        why,
    })?;
    put(path.to_owned(), &png, written)
}
