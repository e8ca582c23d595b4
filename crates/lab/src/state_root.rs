//! Where the gateways of a lab keep their records.
//!
//! Principle: it goes when nobody needs it. Non-goals: what stands in it (`evenkeel_kernel`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// A directory for the records of shaped gateways, gone when dropped. Namespaces of a lab are
/// gone before it, so what a kill leaves here means nothing.
#[derive(Debug)]
pub struct StateRoot(PathBuf);

impl StateRoot {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A new one, below the directory for temporary files.
    pub fn new() -> Result<Self, LabError> {
        let path = std::env::temp_dir().join(format!("evenkeel-lab-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|e| LabError::File {
            path: path.clone(),
            why: e.to_string(),
        })?;
        Ok(StateRoot(path))
    }
}

impl Drop for StateRoot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
