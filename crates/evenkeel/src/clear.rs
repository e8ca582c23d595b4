//! `clear`: takes back what was changed, on one device or on all that have a record.
//!
//! Principles: thin; the work is `evenkeel-kernel`'s. What one device refuses keeps no other from
//! being cleared. Non-goals: devices of other network namespaces.

use evenkeel_kernel::{Cleared, Error, StateDir, clear as take_back};
use evenkeel_socket::Request;
use evenkeel_terminal::{Failure, print};

use crate::args::Clear;
use crate::ask;

/// `evenkeel clear`.
pub(crate) fn clear(args: &Clear) -> Result<(), Failure> {
    let dir = StateDir::new(&args.state.state_dir);
    if args.abandoned {
        ask::tidy(&dir);
    } else if let_go(&dir, args.device.as_deref())? {
        return Ok(());
    }
    match &args.device {
        Some(device) => print(&words(device, take_back(&dir, device)?)),
        None => clear_recorded(&dir, args.abandoned),
    }
}

/// What the daemon follows it lets go of; whether that is all that was asked for.
fn let_go(dir: &StateDir, device: Option<&str>) -> Result<bool, Failure> {
    let request = Request::Clear {
        device: device.map(str::to_owned),
        token: None,
    };
    let cleared: Vec<String> = ask::ask(dir, &request, || Ok(Vec::new()))?;
    for device in &cleared {
        print(&words(device, Cleared::AsBefore))?;
    }
    Ok(device.is_some() && !cleared.is_empty())
}

/// All devices with a record, or those that nobody looks after any more.
fn clear_recorded(dir: &StateDir, abandoned: bool) -> Result<(), Failure> {
    let mut devices = dir.devices()?;
    devices.extend(dir.models()?);
    devices.sort();
    devices.dedup();
    let mut failed = Ok(());
    for device in devices {
        let cleared = if abandoned {
            clear_abandoned(dir, &device)
        } else {
            forget_gone(dir, &device, take_back(dir, &device)).map(Some)
        };
        match cleared {
            Ok(None) => {}
            Ok(Some(cleared)) => print(&words(&device, cleared))?,
            // The others first.
            Err(e) => failed = failed.and(Err(Failure::from(e))),
        }
    }
    failed
}

/// A device that a `run` left behind which was killed; `None`: it is somebody's.
fn clear_abandoned(dir: &StateDir, device: &str) -> Result<Option<Cleared>, Error> {
    match dir.lock(device) {
        Err(Error::Busy { .. }) => return Ok(None),
        lock => drop(lock?),
    }
    // A record without a model, once it is complete, is that of `shape`, which somebody wanted.
    let unfinished = dir.load(device)?.is_some_and(|s| !s.complete);
    if !unfinished && !dir.model_file(device).exists() {
        return Ok(None);
    }
    forget_gone(dir, device, take_back(dir, device)).map(Some)
}

/// A device that has gone took everything along but its files.
fn forget_gone(
    dir: &StateDir,
    device: &str,
    cleared: Result<Cleared, Error>,
) -> Result<Cleared, Error> {
    match cleared {
        Err(Error::NoDevice(_)) => {
            dir.remove(device)?;
            Ok(Cleared::Nothing)
        }
        other => other,
    }
}

fn words(device: &str, cleared: Cleared) -> String {
    match cleared {
        Cleared::Nothing => format!("{device}: nothing of evenkeel's is there\n"),
        Cleared::AsBefore => format!("{device}: as it was before\n"),
        Cleared::DefaultInsteadOf(what) => {
            format!(
                "{device}: the kernel's default is back; {what}, which --replace removed, is not\n"
            )
        }
        Cleared::WithoutRecord => format!(
            "{device}: evenkeel's disciplines are removed; there was no record of earlier settings, so none were put back\n"
        ),
    }
}
