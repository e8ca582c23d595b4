//! One line of the daemon's: a thread that follows a device.
//!
//! Principles: lines know nothing of each other; one is told to stop, and started again with other settings where those
//! are new, with what it has in force left there in between. Non-goals: which lines there are (`daemon`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use evenkeel_autorate::{Ended, Order};
use evenkeel_terminal::{Failure, print};

use super::accountant::Accountant;
use super::expectation::Expectation;
use super::people::{ByHand, People};
use super::settings::{Override, Run, settings};
use super::watcher::{LineWatcher, Pulse, Voice};
use crate::config::Config;
use crate::device;

/// How a line's thread ended.
pub(crate) type Outcome = Result<(), Failure>;

/// A line that is followed, or whose device is waited for.
pub(crate) struct Line {
    /// The device that was named; `None`: that of the default route.
    pub(crate) named: Option<String>,
    /// What is told until the next reload.
    pub(crate) told: Override,
    /// When it last showed that it lives.
    pub(crate) pulse: Pulse,
    /// Flows that are raised or lowered until it is told something else.
    pub(crate) by_hand: ByHand,
    device: Arc<Mutex<Option<String>>>,
    order: Order,
    thread: JoinHandle<Outcome>,
}

/// What all lines have.
pub(crate) struct Common {
    pub(crate) args: Run,
    pub(crate) config: Config,
    pub(crate) voice: Arc<Voice>,
    /// There is more than one.
    pub(crate) several: bool,
}

impl Line {
    /// Starts it; `goes_on`: from what is known of the line, whatever was typed.
    pub(crate) fn start(
        common: Arc<Common>,
        named: Option<String>,
        told: Override,
        goes_on: bool,
    ) -> Result<Self, Failure> {
        let order = Order::default();
        let by_hand = ByHand::default();
        let (pulse, device) = (Pulse::default(), Arc::<Mutex<Option<String>>>::default());
        let job = Job {
            common,
            named: named.clone(),
            told: told.clone(),
            goes_on,
            order: order.clone(),
            pulse: pulse.clone(),
            by_hand: by_hand.clone(),
            device: Arc::clone(&device),
        };
        let builder =
            std::thread::Builder::new().name(named.clone().unwrap_or_else(|| "line".into()));
        let thread = builder.spawn(move || job.follow()).map_err(Failure::work)?;
        Ok(Line {
            named,
            told,
            pulse,
            by_hand,
            device,
            order,
            thread,
        })
    }

    /// Its device, once that is known.
    pub(crate) fn device(&self) -> Option<String> {
        let device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        device.clone().or_else(|| self.named.clone())
    }

    /// Whether its thread has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Tells it to stop; what is in force stays if `keep`.
    pub(crate) fn tell_to_stop(&self, keep: bool) {
        self.order.keep.store(keep, Ordering::Relaxed);
        self.order.stop.store(true, Ordering::Relaxed);
    }

    /// How it ended, once it has.
    pub(crate) fn join(self) -> Outcome {
        let died = || Err(Failure::work("the thread of a line has died"));
        self.thread.join().unwrap_or_else(|_| died())
    }

    /// Stops it, and waits until it has.
    pub(crate) fn stop(self, keep: bool) -> Outcome {
        self.tell_to_stop(keep);
        self.join()
    }
}

/// What its thread has.
struct Job {
    common: Arc<Common>,
    named: Option<String>,
    told: Override,
    goes_on: bool,
    order: Order,
    pulse: Pulse,
    by_hand: ByHand,
    device: Arc<Mutex<Option<String>>>,
}

impl Job {
    fn follow(self) -> Outcome {
        let Some(device) = self.find()? else {
            return Ok(());
        };
        *self.device.lock().unwrap_or_else(PoisonError::into_inner) = Some(device.clone());
        let Common {
            args,
            config,
            voice,
            several,
        } = &*self.common;
        let mut settings = settings(args, config, &device, &self.told)?;
        settings.use_profile |= self.goes_on;
        let expected = Expectation::of(&args.profile_dir, &device);
        settings.expected = expected.rates;
        let head = if *several {
            format!("{device}: ")
        } else {
            String::new()
        };
        if let Some(said) = expected.said().filter(|_| settings.use_profile) {
            voice.say(&format!("{head}{said}"));
        }
        let (voice, pulse) = (Arc::clone(voice), self.pulse.clone());
        let budgets = config.of(&device).budgets.0.clone();
        let people = {
            let (device, dir) = (device.clone(), args.profile_dir.clone());
            let (rules, by_hand) = (settings.request.rules.clone(), self.by_hand.clone());
            let says = Arc::clone(&self.common.voice);
            move || {
                let accountant = Accountant::start(&dir, &device, &budgets);
                People::start(&device, &rules, by_hand, accountant, move |said| {
                    says.say(said);
                })
            }
        };
        let mut watcher =
            LineWatcher::new(voice, pulse, args.verbose, head, &args.profile_dir, &device)
                .with_people(people);
        let ended = evenkeel_autorate::run(settings, &self.order, &mut watcher);
        let (how, said) = match &ended {
            Ok(Ended::AsBefore) => ("evenkeel run ended", "as it was before"),
            Ok(Ended::Kept) => (
                "evenkeel run ended; the line stays shaped",
                "it stays shaped",
            ),
            Ok(Ended::Gone) => (
                "evenkeel run ended without the device",
                "it has gone; nothing is left",
            ),
            Err(_) => ("evenkeel run failed", ""),
        };
        watcher.close(how);
        ended?;
        print(&format!("{device}: {said}\n"))
    }

    /// Its device, as soon as there is one.
    fn find(&self) -> Result<Option<String>, Failure> {
        let common = &self.common;
        if !common.args.wait {
            return device::find(self.named.clone()).map(Some);
        }
        let mut tell = |text: Option<&str>| {
            self.pulse.beat();
            if let Some(text) = text {
                common.voice.say(text);
                // A boot does not wait for a line.
                common.voice.service.ready();
            }
        };
        let found = device::wait(self.named.as_deref(), &self.order.stop, &mut tell)?;
        if found.is_none() {
            print("stopped before there was a device: nothing was changed\n")?;
        }
        Ok(found)
    }
}
