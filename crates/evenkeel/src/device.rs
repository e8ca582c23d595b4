//! The device that `run` follows: the one that is named, or that of the default route.
//!
//! Principles: a service starts before PPPoE has dialled, so both can be waited for; whoever typed a
//! wrong name wants to hear of it at once. Non-goals: a device that goes later
//! (`evenkeel_autorate`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_autorate::default_device;
use evenkeel_kernel::Session;
use evenkeel_terminal::Failure;

/// From one look to the next.
const AWAIT: Duration = Duration::from_millis(500);
/// A signal to stop is heard after at most this.
const NAP: Duration = Duration::from_millis(50);

/// That of `named` or of the default route, there or not.
pub(crate) fn find(named: Option<String>) -> Result<String, Failure> {
    named.or_else(default_device).ok_or_else(|| {
        Failure::usage("there is no default route: name the device that leads to the Internet")
    })
}

/// The same as soon as there is one and it is up; `None`: somebody wants to stop. `tell` is told
/// once what is waited for, if something is, and without words that it still is.
pub(crate) fn wait(
    named: Option<&str>,
    cancel: &AtomicBool,
    tell: &mut dyn FnMut(Option<&str>),
) -> Result<Option<String>, Failure> {
    let mut session = Session::open()?;
    let mut waits_for = None;
    while !cancel.load(Ordering::Relaxed) {
        let device = named.map(str::to_owned).or_else(default_device);
        let lacks = match device {
            None => "a default route".to_owned(),
            Some(device) => match session.link(&device)? {
                Some(link) if link.is_up() => return Ok(Some(device)),
                Some(_) => format!("{device} to be up"),
                None => device,
            },
        };
        if waits_for.as_ref() != Some(&lacks) {
            tell(Some(&format!("waiting for {lacks}")));
            waits_for = Some(lacks);
        }
        tell(None);
        let end = Instant::now() + AWAIT;
        while Instant::now() < end && !cancel.load(Ordering::Relaxed) {
            std::thread::sleep(NAP);
        }
    }
    Ok(None)
}
