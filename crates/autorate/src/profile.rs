//! What was learned of a line, for the next start: `/var/lib/evenkeel/DEV@GATEWAY.json`.
//!
//! Principles: a line is known by its device and the gateway behind it; what is read is a first
//! guess and never more, so a file that is not ours is only warned about; replaced by rename,
//! seldom, since it may be on flash. Non-goals: what a person tells (`--rate`), and the live model
//! (`model`).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel_core::linklayer::passive::Passive;
use evenkeel_core::{Framing, PerDirection, Rate};
use evenkeel_kernel::Session;
use evenkeel_sys::DeviceName;
use serde::{Deserialize, Serialize};

use crate::passing;
use crate::price::Days;
use crate::routes::{self, gateway};

/// Where profiles live unless told otherwise.
pub const DEFAULT_DIR: &str = "/var/lib/evenkeel";
/// The version this code writes and reads.
const VERSION: u32 = 1;
/// From one writing to the next, at least.
const EACH: Duration = Duration::from_secs(10);
/// A price that went on is written so often.
const PRICED: Duration = Duration::from_secs(900);
/// The port of RFC 863.
const DISCARD: u16 = 9;
/// A next hop on a LAN has said its hardware address by then.
const ACQUAINTANCE: Duration = Duration::from_millis(300);
/// A capacity that differs by no more than this share is the same.
const SAME: f64 = 0.02;

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) version: u32,
    /// What the line carries towards us, if that is known.
    pub(crate) down: Option<Rate>,
    /// From us.
    pub(crate) up: Option<Rate>,
    /// Round trip of the idle line, ms.
    pub(crate) base_ms: Option<f64>,
    /// Longest queue while nothing was shaped, towards us and from us, ms.
    #[serde(default)]
    pub(crate) unshaped_queue_ms: [f64; 2],
    /// What shaping took and brought.
    #[serde(default)]
    pub(crate) days: Days,
    /// The framing that `evenkeel line` measured.
    #[serde(default)]
    pub(crate) framing: Option<Framing>,
    /// What passing packets told of the framing.
    #[serde(default)]
    pub(crate) passing: PerDirection<Passive>,
}

impl Profile {
    /// What is known now: the base round trip, and what was learned of each direction.
    pub(crate) fn new(
        base_ms: Option<f64>,
        learned: PerDirection<Option<Rate>>,
        unshaped_queue_ms: [f64; 2],
        days: &Days,
    ) -> Self {
        Profile {
            version: VERSION,
            down: learned.down,
            up: learned.up,
            base_ms,
            unshaped_queue_ms,
            days: days.clone(),
            framing: None,
            passing: PerDirection::default(),
        }
    }

    /// With what is known of the framing.
    pub(crate) fn framed(self, framing: Option<Framing>, passing: PerDirection<Passive>) -> Self {
        Profile {
            framing,
            passing,
            ..self
        }
    }

    /// The framing to begin with, if anything is known: measured, or told by what passed.
    pub(crate) fn known_framing(&self) -> Option<Framing> {
        self.framing.or_else(|| passing::framing(self.passing))
    }

    /// Whether `other` says the same capacities.
    fn is_like(&self, other: &Profile) -> bool {
        let like = |a: Option<Rate>, b: Option<Rate>| match (a, b) {
            (Some(a), Some(b)) => (a.bps() as f64 - b.bps() as f64).abs() <= SAME * b.bps() as f64,
            (a, b) => a == b,
        };
        like(self.down, other.down) && like(self.up, other.up)
    }
}

/// Keeps one line's profile.
pub(crate) struct Store {
    file: PathBuf,
    kept: Option<Profile>,
    written: Option<Duration>,
    opened: Duration,
}

impl Store {
    /// Of the line behind `device` as it is now. With what is known of it, or why that is not used.
    pub(crate) fn open(
        dir: &Path,
        device: &str,
        now: Duration,
    ) -> (Self, Result<Option<Profile>, String>) {
        let file = dir.join(name(device, &met(device)));
        let known = load(&file);
        let store = Store {
            file,
            kept: known.as_ref().ok().cloned().flatten(),
            written: None,
            opened: now,
        };
        (store, known)
    }

    /// Writes what is known if it is news; at the `end` however little that is and however soon.
    pub(crate) fn keep(&mut self, new: Profile, now: Duration, end: bool) -> Result<(), String> {
        let known = new.down.is_some() || new.up.is_some();
        let soon = self.written.is_some_and(|w| now.saturating_sub(w) < EACH);
        let same = self.kept.as_ref().is_some_and(|kept| new.is_like(kept));
        let priced = now.saturating_sub(self.written.unwrap_or(self.opened)) >= PRICED;
        if !known || self.kept.as_ref() == Some(&new) || !end && (soon || same && !priced) {
            return Ok(());
        }
        self.written = Some(now);
        let new = self.kept.insert(new);
        save(&self.file, new).map_err(|e| format!("write {}: {e}", self.file.display()))
    }
}

/// What is behind `device` now. After a boot nobody may have talked to the next hop yet: an empty
/// datagram makes the kernel ask for its hardware address.
pub(crate) fn met(device: &str) -> String {
    let hop = routes::next_hops(device).first().copied();
    let mut session = Session::open().ok();
    let mut link = || session.as_mut()?.link(device).ok()?;
    let Some(index) = link().map(|link| link.index) else {
        return gateway(hop, &[]);
    };
    let mut now = || {
        let all = session.as_mut().and_then(|s| s.neighbours(index).ok());
        gateway(hop, &all.unwrap_or_default())
    };
    let begun = Instant::now();
    let mut found = now();
    if let Some(hop) = hop
        && found == hop.to_string()
        && greet(device, index, hop).is_ok()
    {
        while found == hop.to_string() && begun.elapsed() < ACQUAINTANCE {
            std::thread::sleep(Duration::from_millis(10));
            found = now();
        }
    }
    found
}

/// Sends an empty datagram to the next hop of `device`, which has this number.
fn greet(device: &str, index: u32, hop: IpAddr) -> io::Result<()> {
    let (any, to): (IpAddr, SocketAddr) = match hop {
        IpAddr::V4(hop) => (Ipv4Addr::UNSPECIFIED.into(), (hop, DISCARD).into()),
        IpAddr::V6(hop) => (
            Ipv6Addr::UNSPECIFIED.into(),
            SocketAddrV6::new(hop, DISCARD, 0, index).into(),
        ),
    };
    let socket = UdpSocket::bind((any, 0))?;
    let name = DeviceName::new(device).map_err(io::Error::other)?;
    name.bind(&socket).map_err(io::Error::other)?;
    socket.send_to(&[], to).map(|_| ())
}

pub(crate) fn load(file: &Path) -> Result<Option<Profile>, String> {
    let ignored = |why: String| format!("{}: {why}; it is ignored", file.display());
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(ignored(e.to_string())),
    };
    let profile: Profile =
        serde_json::from_str(&text).map_err(|e| ignored(format!("no profile of a line: {e}")))?;
    if profile.version != VERSION {
        let why = format!("version {} is not {VERSION}", profile.version);
        return Err(ignored(why));
    }
    Ok(Some(profile))
}

pub(crate) fn save(file: &Path, profile: &Profile) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    let new = file.with_extension("json.new");
    let text = serde_json::to_string_pretty(profile).map_err(io::Error::other)? + "\n";
    fs::write(&new, text)?;
    fs::rename(&new, file)
}

/// The file's name; what may mean something to others in a name becomes a hyphen.
pub(crate) fn name(device: &str, gateway: &str) -> String {
    let plain = |text: &str| {
        text.replace(
            |c: char| !(c.is_ascii_alphanumeric() || ".:-".contains(c)),
            "-",
        )
    };
    format!("{}@{}.json", plain(device), plain(gateway))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_nothing_to_others() {
        assert_eq!(name("ppp_0/..", "none"), "ppp-0-..@none.json");
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("deeper/wan@none.json");
        assert_eq!(load(&file), Ok(None));
        let profile = Profile {
            version: VERSION,
            down: Some(Rate::from_bps(99_999_937)),
            up: None,
            base_ms: Some(9.2),
            unshaped_queue_ms: [0.0, 94.5],
            days: Days::default(),
            framing: Some("ptm:34".parse().unwrap()),
            passing: PerDirection::default(),
        };
        save(&file, &profile).unwrap();
        assert_eq!(load(&file), Ok(Some(profile)));
        // One of before there were days.
        fs::write(
            &file,
            r#"{"version":1,"down":null,"up":null,"base_ms":null}"#,
        )
        .unwrap();
        assert!(load(&file).unwrap().is_some());
        for foreign in [
            "",
            "[]",
            "{\"version\": 1}x",
            r#"{"version": 2, "down": null, "up": null, "base_ms": null}"#,
            r#"{"version": 1, "down": "0bit", "up": null, "base_ms": null}"#,
            r#"{"version": 1, "down": null, "up": null, "base_ms": null, "mine": 1}"#,
        ] {
            fs::write(&file, foreign).unwrap();
            let why = load(&file).unwrap_err();
            assert!(
                why.contains("wan@none.json") && why.ends_with("ignored"),
                "{why}"
            );
        }
    }

    #[test]
    fn it_is_written_seldom() {
        let like = |down| Profile {
            version: VERSION,
            down: Some(Rate::from_kbit(down)),
            up: None,
            base_ms: None,
            unshaped_queue_ms: [0.0; 2],
            days: Days::default(),
            framing: None,
            passing: PerDirection::default(),
        };
        assert!(like(1000).is_like(&like(1020)));
        assert!(!like(1000).is_like(&like(1030)));
        let none = Profile {
            down: None,
            ..like(1)
        };
        assert!(!like(1000).is_like(&none));
    }
}
