//! `/run/evenkeel/DEV.json`: what was changed on a device, so that it can be taken back.
//!
//! Principles: written before the first change and again after the last, so that a process
//! killed in between leaves a record of what it may have done; replaced by rename, never
//! edited; a record of another boot or of a device that has gone is stale and counts as none;
//! one that cannot be read is an error and nothing is touched. One lock per device. Beside it lies
//! what a process that stays knows of the line (`DEV.model.json`), which goes with the record.
//! Non-goals: configuration, and learned lines (`/var/lib/evenkeel`).

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use evenkeel_core::plan::{Backend, LinkSizes, Mode, Segments};
use evenkeel_core::police::Policer;
use evenkeel_core::{Framing, Rate};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The version this code writes and reads.
const VERSION: u32 = 1;

/// How files with models end.
const MODEL: &str = "model.json";

/// Where records live unless told otherwise.
pub const DEFAULT_DIR: &str = "/run/evenkeel";

/// What evenkeel did to one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Of this form.
    pub version: u32,
    /// The device's name.
    pub device: String,
    /// Its index: a new device of the old name is another device.
    pub ifindex: u32,
    /// The boot in which this was done.
    pub boot_id: String,
    /// False from before the first change until after the last one.
    pub complete: bool,
    /// Which disciplines were set up.
    pub backend: Backend,
    /// Rate of the line towards us, as told.
    pub down: Rate,
    /// Rate of the line from us, as told.
    pub up: Rate,
    /// Framing of the line.
    pub framing: Framing,
    /// The framing was assumed, not told.
    pub framing_assumed: bool,
    /// Ping time or bandwidth first.
    pub mode: Mode,
    /// What receive windows aim at; absent if they are left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Rate>,
    /// Whether they hold queues behind the gateway short as well.
    #[serde(default)]
    pub lan: bool,
    /// How long packets of new TCP connections may be.
    #[serde(default)]
    pub segments: Segments,
    /// Name of our IFB.
    pub ifb: String,
    /// What our policer was told; absent if arrivals are shaped on the IFB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer: Option<Policer>,
    /// We added the `clsact` qdisc, so we remove it.
    pub made_clsact: bool,
    /// Somebody else's root qdisc, as tc prints it, that `--replace` removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    /// Why the kernel does not have our programs; absent if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_programs: Option<String>,
    /// How many ceilings' classes stand.
    #[serde(default, skip_serializing_if = "is_none")]
    pub limits: usize,
    /// A person's rules, in order; the default ones come after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// The device's segment sizes before we bounded them.
    pub sizes_before: LinkSizes,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form.
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// The directory with the records of the network namespace we are in.
#[derive(Debug, Clone)]
pub struct StateDir {
    dir: PathBuf,
    /// Empty in the first namespace, `@INODE` in others, so that devices of one name differ.
    suffix: String,
}

/// Holds a device for this process; released when dropped, also by the kernel after a kill.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked: whoever opened the file meanwhile finds it gone and opens a new one.
        let _ = fs::remove_file(&self.path);
    }
}

/// What names end with in the namespace that is `here`, by its number. Who has no rights does not learn which the
/// `first` one is: what lies there tells him. Root that does not learn it is in a container, and is on the safe side.
fn suffix(dir: &Path, here: Option<u64>, first: Option<u64>, is_root: bool) -> String {
    let Some(here) = here.filter(|h| first != Some(*h)) else {
        return String::new();
    };
    let suffix = format!("@{here}");
    let has_some = || {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names = entries.filter_map(|e| e.file_name().into_string().ok());
        let with = format!("{suffix}.");
        names.any(|n| n.contains(&with))
    };
    if first.is_some() || is_root || has_some() {
        suffix
    } else {
        String::new()
    }
}

impl StateDir {
    /// Records under `dir` for the calling thread's network namespace.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let inode = |path: &str| fs::metadata(path).map(|m| m.ino()).ok();
        let dir = dir.into();
        let is_root = fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
        let suffix = suffix(
            &dir,
            inode("/proc/thread-self/ns/net"),
            inode("/proc/1/ns/net"),
            is_root,
        );
        StateDir { dir, suffix }
    }

    fn path(&self, device: &str, ending: &str) -> PathBuf {
        self.dir.join(format!("{device}{}.{ending}", self.suffix))
    }

    fn make_dir(&self) -> Result<(), Error> {
        fs::create_dir_all(&self.dir).map_err(|e| Error::file("create", &self.dir, &e))
    }

    /// Takes the device's lock, or says that another process has it.
    pub fn lock(&self, device: &str) -> Result<Lock, Error> {
        self.make_dir()?;
        let path = self.path(device, "lock");
        loop {
            let mut file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(|e| Error::file("open", &path, &e))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::Busy {
                        device: device.to_owned(),
                        holder: holder(&path),
                    });
                }
                Err(TryLockError::Error(e)) => return Err(Error::file("lock", &path, &e)),
            }
            // The one who had it may have removed the file since we opened it.
            let ours = file.metadata().map(|m| m.ino()).ok();
            if ours.is_some() && fs::metadata(&path).map(|m| m.ino()).ok() == ours {
                // Only for the message of those who find it taken.
                let _ = file.set_len(0);
                let _ = write!(file, "{}", std::process::id());
                return Ok(Lock { _file: file, path });
            }
        }
    }

    /// The device's record: `None` if there is none or it is of another boot.
    pub fn load(&self, device: &str) -> Result<Option<State>, Error> {
        let path = self.path(device, "json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::file("read", &path, &e)),
        };
        let corrupt = |why: String| Error::Corrupt {
            path: path.clone(),
            why,
            device: device.to_owned(),
        };
        let state: State = serde_json::from_str(&text).map_err(|e| corrupt(e.to_string()))?;
        if state.version != VERSION {
            return Err(corrupt(format!(
                "version {} is not {VERSION}",
                state.version
            )));
        }
        if state.device != device {
            return Err(corrupt(format!("it is about {}", state.device)));
        }
        Ok((state.boot_id == boot_id()).then_some(state))
    }

    /// Writes the record, whole or not at all.
    pub fn save(&self, state: &State) -> Result<(), Error> {
        self.make_dir()?;
        let mut text = serde_json::to_string_pretty(state).expect("a State has no odd maps");
        text.push('\n');
        self.replace(&state.device, "json", &text)
    }

    /// Writes what a process that stays knows of the device's line, whole or not at all.
    pub fn save_model(&self, device: &str, text: &str) -> Result<(), Error> {
        self.replace(device, MODEL, text)
    }

    fn replace(&self, device: &str, ending: &str, text: &str) -> Result<(), Error> {
        let path = self.path(device, ending);
        let tmp = self.path(device, &format!("{ending}.new"));
        let write = || -> io::Result<()> {
            let mut file = File::create(&tmp)?;
            file.write_all(text.as_bytes())?;
            // A record outlasts a crash; the model is only a view.
            if ending != MODEL {
                file.sync_all()?;
            }
            fs::rename(&tmp, &path)
        };
        write().map_err(|e| Error::file("write", &path, &e))
    }

    /// Forgets the device.
    pub fn remove(&self, device: &str) -> Result<(), Error> {
        self.remove_model(device)?;
        self.delete(device, "json")
    }

    /// Forgets what a process that stayed knew.
    pub(crate) fn remove_model(&self, device: &str) -> Result<(), Error> {
        self.delete(device, MODEL)
    }

    /// Also what somebody was killed in the middle of writing.
    fn delete(&self, device: &str, ending: &str) -> Result<(), Error> {
        for ending in [ending, &format!("{ending}.new")] {
            let path = self.path(device, ending);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::file("remove", &path, &e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Where a process that stays is asked and told things.
    pub fn socket_file(&self) -> PathBuf {
        self.dir.join(format!("control{}.sock", self.suffix))
    }

    /// Devices of this namespace with a record, sorted.
    pub fn devices(&self) -> Result<Vec<String>, Error> {
        let mut names = self.named("json")?;
        names.retain(|n| n.strip_suffix(".model").is_none());
        Ok(names)
    }

    /// Devices of this namespace with a model, sorted.
    pub fn models(&self) -> Result<Vec<String>, Error> {
        self.named(MODEL)
    }

    /// Devices with a file of that ending.
    fn named(&self, ending: &str) -> Result<Vec<String>, Error> {
        let ending = format!("{}.{ending}", self.suffix);
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::file("read", &self.dir, &e)),
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .filter_map(|n| Some(n.strip_suffix(&ending)?.to_owned()))
            .filter(|n| !n.contains('@'))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Where the device's record is.
    pub fn file(&self, device: &str) -> PathBuf {
        self.path(device, "json")
    }

    /// Where the model of the device's line is while a process stays.
    pub fn model_file(&self, device: &str) -> PathBuf {
        self.path(device, MODEL)
    }
}

/// Who has a lock, as its file and the kernel say.
fn holder(lock: &Path) -> String {
    let Some(pid) = fs::read_to_string(lock).ok().filter(|p| !p.is_empty()) else {
        return "another evenkeel".into();
    };
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let (program, arguments) = line.split_once('\0').unwrap_or((&line, ""));
    let name = program.rsplit('/').next().unwrap_or_default();
    let command = format!("{name} {}", arguments.replace('\0', " "));
    format!("process {pid} ({})", command.trim())
}

impl State {
    /// A new record with this boot's identity.
    #[must_use]
    pub fn stamp(mut self) -> Self {
        self.version = VERSION;
        self.boot_id = boot_id();
        self
    }
}

/// Identity of this boot; empty where the kernel does not say.
pub fn boot_id() -> String {
    fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id"))
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_rights_finds_the_records_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let of = |here, first| suffix(dir.path(), here, first, false);
        assert_eq!(of(Some(7), Some(7)), "");
        assert_eq!(of(Some(7), Some(1)), "@7");
        assert_eq!(of(None, None), "");
        assert_eq!(suffix(dir.path(), Some(7), None, true), "@7");
        // Nothing of this namespace's is there.
        fs::write(dir.path().join("control.sock"), "").unwrap();
        fs::write(dir.path().join("wan@77.json"), "").unwrap();
        assert_eq!(of(Some(7), None), "");
        fs::write(dir.path().join("control@7.sock"), "").unwrap();
        assert_eq!(of(Some(7), None), "@7");
    }
}
