//! Figures, HTML and tables from result files.
//!
//! Principles: everything is made from one [`ResultFile`] (or from ping logs) and from nothing else (no clock, no
//! system fonts, no network), so the same file always gives the same report; figures are drawn
//! by a small module of our own, because the page and the PNGs share one drawing in three looks;
//! what was left out is named wherever a figure stands. Non-goals: measuring, and deciding what
//! counts (the lab marks void runs).

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_core::result::{ResultFile, VERSION};

mod axis;
pub mod bench;
mod chart;
mod figures;
mod html;
mod line_share;
pub mod ping;
mod raster;
mod rows;
mod tables;
mod text;
mod theme;
mod verdict;
mod words;

pub use html::html;
pub use text::{markdown, table};

/// What can go wrong; each text names the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// `read`, `write` or `create`.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// A file is not a result file.
    #[error("read {}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its line and column.
        why: String,
    },
    /// A figure could not be drawn.
    #[error("draw {}: {why}", path.display())]
    Draw {
        /// The file that was to be written.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// The one field that every version has.
#[derive(serde::Deserialize)]
struct Probe {
    version: u32,
}

/// Reads a `result.json`.
pub fn read(path: &Path) -> Result<ResultFile, Error> {
    let bytes = fs::read(path).map_err(|source| Error::Io {
        what: "read",
        path: path.to_owned(),
        source,
    })?;
    let refuse = |why| Error::Format {
        path: path.to_owned(),
        why,
    };
    // The version first: a newer form may fail to parse for reasons that say nothing.
    if let Ok(Probe { version }) = serde_json::from_slice(&bytes)
        && version > VERSION
    {
        return Err(refuse(format!(
            "it has version {version}, this evenkeel knows up to {VERSION}: update evenkeel"
        )));
    }
    serde_json::from_slice(&bytes).map_err(|e| refuse(format!("not a result file: {e}")))
}

/// Writes `result.json`, `report.md`, `report.html` and the figures as PNGs into `dir`, which is
/// made if need be. Returns what it wrote, in that order. Other files in `dir` are left alone.
pub fn write_all(file: &ResultFile, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    fs::create_dir_all(dir).map_err(|source| Error::Io {
        what: "create",
        path: dir.to_owned(),
        source,
    })?;
    let mut written = Vec::new();
    let path = dir.join("result.json");
    let mut json = serde_json::to_vec(file).map_err(|e| Error::Format {
        path: path.clone(),
        why: e.to_string(),
    })?;
    json.push(b'\n');
    put(path, &json, &mut written)?;
    let text = markdown(file);
    put(dir.join("report.md"), text.as_bytes(), &mut written)?;
    put(dir.join("report.html"), html(file).as_bytes(), &mut written)?;
    for story in figures::stories(file) {
        for kind in story.kinds() {
            let Some(drawing) = story.draw(kind, chart::WIDE) else {
                continue;
            };
            let path = dir.join(format!("{}-{}.png", kind.stem(), file_name(story.load)));
            let svg = theme::standalone(&drawing, &theme::LIGHT);
            let png = raster::png(&svg).map_err(|why| Error::Draw {
                path: path.clone(),
                why,
            })?;
            put(path, &png, &mut written)?;
        }
    }
    Ok(written)
}

fn put(path: PathBuf, bytes: &[u8], written: &mut Vec<PathBuf>) -> Result<(), Error> {
    match fs::write(&path, bytes) {
        Ok(()) => {
            written.push(path);
            Ok(())
        }
        Err(source) => Err(Error::Io {
            what: "write",
            path,
            source,
        }),
    }
}

/// A load's name as part of a file name: nothing that a path or a shell would obey.
fn file_name(load: &str) -> String {
    load.chars()
        .take(60)
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') => c,
            _ => '_',
        })
        .collect()
}
