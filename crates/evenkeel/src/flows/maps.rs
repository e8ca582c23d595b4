//! The programs' table of a device.
//!
//! Principle: what is not there is said with what to do. Non-goals: what is in it.

use evenkeel_kernel::StateDir;
use evenkeel_terminal::Failure;

pub(super) fn no_programs(device: &str) -> Failure {
    Failure::lacking(format_args!(
        "{device}: evenkeel's programs are not there: `evenkeel shape` attaches them where the \
         kernel takes eBPF"
    ))
}

/// The maps of a device, or of the one that is shaped, and its name.
pub(super) fn open(
    dir: &StateDir,
    device: Option<&str>,
) -> Result<(String, evenkeel_datapath::Maps), Failure> {
    let device = match device {
        Some(device) => device.to_owned(),
        None => only(dir)?,
    };
    let maps = evenkeel_kernel::maps(&device)?.ok_or_else(|| no_programs(&device))?;
    Ok((device, maps))
}

/// The one device that is shaped.
fn only(dir: &StateDir) -> Result<String, Failure> {
    match &dir.devices()?[..] {
        [] => Err(Failure::usage("no device is shaped by evenkeel; name one")),
        [one] => Ok(one.clone()),
        more => {
            let names = more.join(", ");
            Err(Failure::usage(format_args!(
                "{names} are shaped; name one of them"
            )))
        }
    }
}
