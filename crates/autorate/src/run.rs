//! Following a device as long as somebody wants, through the times when there is none.
//!
//! Principles: what was learned of the line is a first guess; a device that goes is waited for,
//! since PPPoE's does so each night; at the end everything is as it was before. Non-goals: the
//! loop while the device is there (`daemon`), printing.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_core::control::Bounds;
use evenkeel_core::{Line, PerDirection};
use evenkeel_kernel::{Request, Session, StateDir};
use evenkeel_sys::clock;

use crate::daemon::Daemon;
use crate::error::Error;
use crate::event::{Event, Observer, Snapshot};
use crate::model::Keeper;
use crate::profile::{Profile, Store};
use crate::reflector::Host;

/// A device that has gone is looked for this often.
const AWAIT: Duration = Duration::from_millis(500);
/// A signal to stop is heard after at most this.
const NAP: Duration = Duration::from_millis(50);

/// What is followed, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How the device is shaped; its rates do not count.
    pub request: Request,
    /// Between which rates, and a first guess of them: towards us, and from us.
    pub bounds: PerDirection<Bounds>,
    /// What is probed, the first that answers; none: what is found.
    pub targets: Vec<Host>,
    /// Whether what was learned of the line before is the first guess.
    pub use_profile: bool,
    /// Where what was learned of lines is kept.
    pub profile_dir: PathBuf,
    /// Where records of what was changed are kept.
    pub state: StateDir,
}

/// How it ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The device is as it was before.
    AsBefore,
    /// There is no such device any more; nothing is left.
    Gone,
}

/// Follows the line until `cancel`; `tell` gets what people may want to know.
pub fn run(
    settings: Settings,
    cancel: &AtomicBool,
    tell: &mut dyn FnMut(&Event),
) -> Result<Ended, Error> {
    let Settings {
        request,
        mut bounds,
        targets,
        ..
    } = settings;
    let dir = settings.state;
    let begun = clock::monotonic();
    let (store, known) = Store::open(&settings.profile_dir, &request.device, begun);
    let known = known.unwrap_or_else(|why| {
        tell(&Event::Warning(why));
        None
    });
    if let Some(profile) = known.as_ref().filter(|_| settings.use_profile) {
        guess(&mut bounds, profile);
    }
    let mut books = Books {
        device: &request.device,
        dir: &dir,
        keeper: Keeper::new(request.mode, known.as_ref(), begun),
        store,
        failed: false,
        tell,
    };
    loop {
        let request = Request {
            down: bounds.down.guess.unwrap_or(Line::OPEN),
            up: bounds.up.guess.unwrap_or(Line::OPEN),
            ..request.clone()
        };
        let mut daemon = Daemon::start(&dir, &request, bounds, targets.clone(), &mut books)?;
        let followed = daemon.follow(cancel, &mut books);
        let last = daemon.snapshot();
        let gone = followed.is_err() && daemon.has_gone();
        let stopped = daemon.stop();
        books.close(&last);
        if !gone {
            followed.and(stopped)?;
            return Ok(Ended::AsBefore);
        }
        books.event(Event::Gone);
        if !books.is_back(cancel)? {
            dir.remove(&request.device)?;
            return Ok(Ended::Gone);
        }
        books.event(Event::Back);
        for (b, way) in bounds.iter_mut().zip([last.view.up, last.view.down]) {
            b.guess = way.capacity.or(b.guess);
        }
    }
}

/// What was learned before is the first guess, within the bounds.
fn guess(bounds: &mut PerDirection<Bounds>, profile: &Profile) {
    for (b, learned) in bounds.iter_mut().zip([profile.up, profile.down]) {
        b.guess = learned.map(|r| b.most.map_or(r, |most| r.min(most)));
        b.guess = b.guess.map(|r| b.least.map_or(r, |least| r.max(least)));
    }
}

/// Keeps what is known of the line: for `status`, and for the next start.
struct Books<'a> {
    device: &'a str,
    dir: &'a StateDir,
    keeper: Keeper,
    store: Store,
    /// Something could not be written, which was told.
    failed: bool,
    tell: &'a mut dyn FnMut(&Event),
}

impl Observer for Books<'_> {
    fn event(&mut self, event: Event) {
        self.keeper.tell(&event, clock::monotonic());
        (self.tell)(&event);
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        let now = clock::monotonic();
        if let Some(news) = self.keeper.cross_traffic(snapshot, now) {
            let event = Event::CrossTraffic(news);
            self.keeper.tell(&event, now);
            (self.tell)(&event);
        }
        let shown = self.keeper.look(snapshot, now, self.dir, self.device);
        let profile = self.keeper.profile(snapshot);
        let kept = self.store.keep(profile, now, false);
        if let Err(why) = shown.map_err(|e| e.to_string()).and(kept)
            && !std::mem::replace(&mut self.failed, true)
        {
            (self.tell)(&Event::Warning(why));
        }
    }
}

impl Books<'_> {
    /// The device is followed no more.
    fn close(&mut self, last: &Snapshot) {
        let profile = self.keeper.profile(last);
        if let Err(why) = self.store.keep(profile, clock::monotonic(), true) {
            (self.tell)(&Event::Warning(why));
        }
    }

    /// Waits until there is a device of that name again; `false`: somebody wants to stop.
    fn is_back(&mut self, cancel: &AtomicBool) -> Result<bool, Error> {
        /// As in linux/if.h.
        const IFF_UP: u32 = 1;
        let mut session = Session::open()?;
        while !cancel.load(Ordering::Relaxed) {
            if let Some(link) = session.link(self.device)?
                && link.flags & IFF_UP != 0
            {
                return Ok(true);
            }
            self.keeper
                .write(clock::monotonic(), self.dir, self.device)?;
            let end = Instant::now() + AWAIT;
            while Instant::now() < end && !cancel.load(Ordering::Relaxed) {
                std::thread::sleep(NAP);
            }
        }
        Ok(false)
    }
}
