//! What `evenkeel line` measured, for the next start of `run`.
//!
//! Principles: it becomes part of the same profile that `run` keeps, of the line behind the device as it is now;
//! what it does not know stays. Non-goals: measuring.

use std::path::{Path, PathBuf};

use evenkeel_core::{Framing, PerDirection, Rate};

use crate::price::Days;
use crate::profile::{Profile, load, met, name, save};

/// What was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measured {
    /// Link-layer rate towards us.
    pub down: Option<Rate>,
    /// From us.
    pub up: Option<Rate>,
    /// How the line frames packets.
    pub framing: Option<Framing>,
    /// Round trip of the idle line, ms.
    pub base_ms: Option<f64>,
}

/// Makes it the profile of the line behind `device`, in `dir`; the file's path.
///
/// Errors: a sentence that names the file.
pub fn apply(dir: &Path, device: &str, measured: &Measured) -> Result<PathBuf, String> {
    let file = dir.join(name(device, &met(device)));
    // One that cannot be read is replaced: it would be ignored.
    let before = load(&file).ok().flatten();
    let profile = with(before, measured);
    save(&file, &profile).map_err(|e| format!("write {}: {e}", file.display()))?;
    Ok(file)
}

/// What was known before with what was measured.
fn with(before: Option<Profile>, m: &Measured) -> Profile {
    let before = before
        .unwrap_or_else(|| Profile::new(None, PerDirection::default(), [0.0; 2], &Days::default()));
    Profile {
        down: m.down.or(before.down),
        up: m.up.or(before.up),
        base_ms: m.base_ms.or(before.base_ms),
        framing: m.framing.or(before.framing),
        ..before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_stays() {
        let dir = tempfile::tempdir().unwrap();
        let first = Measured {
            down: Some(Rate::from_kbit(20_000)),
            framing: Some("atm:40".parse().unwrap()),
            ..Measured::default()
        };
        let file = apply(dir.path(), "no-such", &first).unwrap();
        let second = Measured {
            up: Some(Rate::from_kbit(1000)),
            ..Measured::default()
        };
        assert_eq!(apply(dir.path(), "no-such", &second).unwrap(), file);
        let kept = load(&file).unwrap().unwrap();
        assert_eq!((kept.down, kept.up), (first.down, second.up));
        assert_eq!(kept.known_framing(), first.framing);
    }
}
