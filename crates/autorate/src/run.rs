//! Following a device as long as somebody wants, through the times when there is none.
//!
//! Principles: what was learned of the line is a first guess; a device that goes is waited for,
//! since PPPoE's does so each night; at the end everything is as it was before. Non-goals: the
//! loop while the device is there (`daemon`), printing.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_core::control::Bounds;
use evenkeel_core::{Line, PerDirection, Rate};
use evenkeel_kernel::{Request, Session, StateDir};
use evenkeel_sys::clock;

use crate::budget::{ProbeBudget, Purse};
use crate::cooperation::Cooperate;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::event::{Event, Observer, Snapshot};
use crate::model::Keeper;
use crate::profile::Store;
use crate::reflector::Host;
use crate::request::USUAL;
use crate::said::Said;

/// A device that has gone is looked for this often.
const AWAIT: Duration = Duration::from_millis(500);
/// A signal to stop is heard after at most this.
const NAP: Duration = Duration::from_millis(50);

/// What is followed, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How the device is shaped; its rates do not count. Without a framing that of the profile is used, or else
    /// [`USUAL`].
    pub request: Request,
    /// Between which rates, and a first guess of them: towards us, and from us.
    pub bounds: PerDirection<Bounds>,
    /// What is probed, the first that answers; none: what is found.
    pub targets: Vec<Host>,
    /// How much probing may take in a month; as much as it wants without it.
    pub budget: Option<ProbeBudget>,
    /// Whether others on the LAN who look after the same line are met; not at all without it.
    pub cooperate: Option<Cooperate>,
    /// Whether what was learned of the line before is the first guess.
    pub use_profile: bool,
    /// What the line is expected to carry at this time of the week; where that is known it is a better first guess
    /// than what was learned last.
    pub expected: PerDirection<Option<Rate>>,
    /// Where what was learned of lines is kept.
    pub profile_dir: PathBuf,
    /// Where records of what was changed are kept.
    pub state: StateDir,
}

/// When to stop, and how; another thread says so.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// To stop.
    pub stop: Arc<AtomicBool>,
    /// What is in force stays then, for a next start or without one.
    pub keep: Arc<AtomicBool>,
}

/// Who is told of it.
pub trait Watcher {
    /// Something happened; `news`: a person has not been told the same of late.
    fn event(&mut self, event: &Event, news: bool);
    /// It is time for a look, twice a second.
    fn snapshot(&mut self, snapshot: &Snapshot);
    /// The device is waited for, still.
    fn waits(&mut self) {}
}

/// Who wants to hear what happens and nothing else.
impl<F: FnMut(&Event)> Watcher for F {
    fn event(&mut self, event: &Event, _: bool) {
        self(event);
    }
    fn snapshot(&mut self, _: &Snapshot) {}
}

/// How it ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The device is as it was before.
    AsBefore,
    /// The device stays shaped at what its line carries.
    Kept,
    /// There is no such device any more; nothing is left.
    Gone,
}

/// Follows the line until `order` says to stop; `watcher` gets what people may want to know.
pub fn run(settings: Settings, order: &Order, watcher: &mut dyn Watcher) -> Result<Ended, Error> {
    let Settings {
        mut request,
        mut bounds,
        targets,
        ..
    } = settings;
    let dir = settings.state;
    let begun = clock::monotonic();
    let (store, known) = Store::open(&settings.profile_dir, &request.device, begun);
    let known = known.unwrap_or_else(|why| {
        watcher.event(&Event::Warning(why), true);
        None
    });
    if let Some(profile) = known.as_ref().filter(|_| settings.use_profile) {
        guess(&mut bounds, profile.up, profile.down);
        request.framing = request.framing.or(profile.known_framing());
    }
    request.framing = request.framing.or(Some(USUAL));
    if settings.use_profile {
        guess(&mut bounds, settings.expected.up, settings.expected.down);
    }
    adopt(&mut bounds, &dir, &request.device);
    let mut books = Books {
        device: &request.device,
        dir: &dir,
        keeper: Keeper::new(request.mode, known.as_ref(), begun),
        store,
        failed: false,
        said: Said::default(),
        watcher,
    };
    let mut purse = settings.budget.map(|budget| {
        let wall = clock::realtime();
        Purse::open(&settings.profile_dir, books.device, budget, begun, wall)
    });
    let mut repairs = Repairs::default();
    loop {
        let request = Request {
            down: bounds.down.guess.unwrap_or(Line::OPEN),
            up: bounds.up.guess.unwrap_or(Line::OPEN),
            ..request.clone()
        };
        let mut daemon = Daemon::start(&dir, &request, bounds, targets.clone(), &mut books)?;
        daemon.purse = purse.take();
        if let Some(with) = &settings.cooperate {
            daemon.cooperate(with, &mut books);
        }
        let followed = daemon.follow(&order.stop, &mut books);
        purse = daemon.purse.take();
        books.spent(purse.as_mut());
        let last = daemon.snapshot();
        let gone = followed.is_err() && daemon.has_gone();
        let damage = (followed.is_err() && !gone)
            .then(|| daemon.damage())
            .flatten();
        let keep = followed.is_ok() && order.keep.load(Ordering::Relaxed);
        let stopped = if keep { daemon.leave() } else { daemon.stop() };
        books.close(&last);
        for (b, way) in bounds.iter_mut().zip([last.view.up, last.view.down]) {
            b.guess = way.capacity.or(b.guess);
        }
        if let Some(what) = damage
            && repairs.may_again(clock::monotonic())
        {
            books.event(Event::Damaged(what));
            continue;
        }
        if !gone {
            followed.and(stopped)?;
            return Ok(if keep { Ended::Kept } else { Ended::AsBefore });
        }
        books.event(Event::Gone);
        if !books.is_back(&order.stop)? {
            dir.remove(&request.device)?;
            return Ok(Ended::Gone);
        }
        books.event(Event::Back);
    }
}

/// How often what somebody took away was set up again.
#[derive(Default)]
struct Repairs(VecDeque<Duration>);

impl Repairs {
    /// So often in [`Repairs::SPAN`]: whoever removes it more often means it.
    const MOST: usize = 5;
    const SPAN: Duration = Duration::from_secs(60);

    fn may_again(&mut self, now: Duration) -> bool {
        self.0.retain(|at| now.saturating_sub(*at) < Self::SPAN);
        self.0.push_back(now);
        self.0.len() <= Self::MOST
    }
}

/// What was left in force by one before us is the first guess where there is no better one: nothing is let go of.
fn adopt(bounds: &mut PerDirection<Bounds>, dir: &StateDir, device: &str) {
    // One that cannot be read is found again, and said, when the device is shaped.
    let Ok(Some(state)) = dir.load(device) else {
        return;
    };
    let known = |rate| Some(rate).filter(|r| *r != Line::OPEN);
    let [up, down] = [state.up, state.down].map(known);
    guess(
        bounds,
        up.filter(|_| bounds.up.guess.is_none()),
        down.filter(|_| bounds.down.guess.is_none()),
    );
}

/// What was learned before is the first guess, within the bounds.
fn guess(bounds: &mut PerDirection<Bounds>, up: Option<Rate>, down: Option<Rate>) {
    for (b, learned) in bounds.iter_mut().zip([up, down]) {
        if learned.is_none() {
            continue;
        }
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
    said: Said,
    watcher: &'a mut dyn Watcher,
}

impl Observer for Books<'_> {
    fn event(&mut self, event: Event) {
        let news = self.said.is_news(&event);
        self.keeper.tell(&event, news, clock::monotonic());
        self.watcher.event(&event, news);
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        let now = clock::monotonic();
        if let Some(news) = self.keeper.cross_traffic(snapshot, now) {
            self.event(Event::CrossTraffic(news));
        }
        self.watcher.snapshot(snapshot);
        let shown = self.keeper.look(snapshot, now, self.dir, self.device);
        let profile = self.keeper.profile(snapshot);
        let kept = self.store.keep(profile, now, false);
        if let Err(why) = shown.map_err(|e| e.to_string()).and(kept)
            && !std::mem::replace(&mut self.failed, true)
        {
            self.watcher.event(&Event::Warning(why), true);
        }
    }
}

impl Books<'_> {
    /// What probing took is written down.
    fn spent(&mut self, purse: Option<&mut Purse>) {
        let kept = purse.map(|p| p.keep(clock::monotonic(), true));
        if let Some(Err(why)) = kept {
            self.watcher.event(&Event::Warning(why), true);
        }
    }

    /// The device is followed no more.
    fn close(&mut self, last: &Snapshot) {
        let profile = self.keeper.profile(last);
        if let Err(why) = self.store.keep(profile, clock::monotonic(), true) {
            self.watcher.event(&Event::Warning(why), true);
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
            self.watcher.waits();
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
