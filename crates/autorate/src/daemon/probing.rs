//! What is probed while a device is followed: looked for, believed or not, and helped by connections that pass.
//!
//! Principles: looking for something takes seconds and its own thread; while nothing answers often, connections and
//! their far ends are heard instead; a budget bounds all of it. Non-goals: which reflector is believed (`choice`), whether
//! far ends are (`far_ends`), what answers mean (`evenkeel_core::control`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::Scope;
use std::time::Duration;

use evenkeel_core::control::RttSample;
use evenkeel_kernel::ConnectionSamples;
use evenkeel_sys::clock;

use super::{ALONE, Daemon, NAP, Sought};
use crate::asked::Reflector;
use crate::budget::SEARCH;
use crate::candidates::{Candidate, candidates};
use crate::choice;
use crate::error::Error;
use crate::event::{Event, Observer};
use crate::far_ends;
use crate::reflector::{Found, find};
use crate::serialization_delay::serialization_rate;
use crate::stamps;

impl Daemon {
    /// Whether it is time to try what else could be probed.
    pub(super) fn wants_others(&self, now: Duration) -> bool {
        let view = self.controller.view(now);
        let later = now.saturating_sub(self.sought) > ALONE && choice::is_idle(&view);
        later || self.no_signal || self.choice.is_suspected()
    }

    /// Looks for something to probe, which takes seconds, until it is `over`; and for others once they are wanted.
    pub(super) fn seek<'s>(
        &self,
        scope: &'s Scope<'s, '_>,
        [over, others]: [&'s AtomicBool; 2],
    ) -> Receiver<Result<Sought, Error>> {
        let (finds, found) = mpsc::channel();
        let (device, targets) = (self.device.clone(), self.targets.clone());
        let view = self.controller.view(clock::monotonic());
        let is_unknown = view.up.capacity.is_none();
        others.store(false, Ordering::Relaxed);
        scope.spawn(move || {
            let first = find(&device, &targets, over);
            let known = first.as_ref().ok().copied().flatten();
            // Who has stopped listening needs no more of it.
            if finds.send(first.map(Sought::First)).is_ok()
                && let Some(first) = known
            {
                let ended = || over.load(Ordering::Relaxed);
                // Where this cannot be asked an upload begins as on the slowest line.
                // A box in front would tell of the cable to it.
                if is_unknown
                    && !first.may_be_in_front
                    && let Ok(Some(rate)) = serialization_rate(&device, &first, &ended)
                {
                    let _ = finds.send(Ok(Sought::SerializationRate(rate)));
                }
                while !others.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
                    std::thread::sleep(NAP);
                }
                let _ = finds.send(candidates(&device, &targets, first, over).map(Sought::All));
            }
        });
        found
    }

    /// Whether a search fits into the budget; it counts as made.
    pub(super) fn may_seek(&mut self) -> bool {
        let Some(purse) = &mut self.purse else {
            return true;
        };
        let may = purse.allows(SEARCH);
        if may {
            purse.spend(SEARCH);
        }
        may
    }

    /// Probes as often as the budget allows, if there is one.
    pub(super) fn spare(&mut self, observer: &mut dyn Observer) {
        let Some(purse) = &mut self.purse else {
            return;
        };
        let now = clock::monotonic();
        let interval = purse.interval(now, clock::realtime());
        self.choice.spare(interval);
        if let Err(why) = purse.keep(now, false)
            && !std::mem::replace(&mut self.unwritten, true)
        {
            observer.event(Event::Warning(why));
        }
        // Only what changes how the line is followed is said.
        if interval.is_zero() == self.spared.is_zero() {
            self.spared = interval;
            return;
        }
        self.spared = interval;
        if let Some(interval) = self.choice.used().map(Reflector::interval) {
            if self.choice.used().is_some_and(Reflector::is_seldom) {
                self.listen(now);
            }
            self.pace_to(interval, now);
        }
        observer.event(Event::Budget { interval });
    }

    /// What was found, if anything.
    pub(super) fn found(
        &mut self,
        found: Option<Found>,
        now: Duration,
        observer: &mut dyn Observer,
    ) {
        let before = self.choice.used().map(|r| r.found);
        self.choice.begin(found, &self.device, now);
        self.sought = clock::monotonic();
        match self.choice.used() {
            Some(reflector) => {
                let (is, interval) = (reflector.found, reflector.interval());
                if before.is_some_and(|before| before != is) {
                    self.controller.reflector_changed(now, reflector.least());
                }
                if self.choice.used().is_some_and(Reflector::is_seldom) {
                    self.listen(now);
                }
                self.pace_to(interval, now);
                observer.event(Event::Reflector(is.into()));
            }
            // Said once, not after each search.
            None if !self.silent && !self.choice.believes_none() => {
                observer.event(Event::NoReflector {
                    watched: self.live.has_programs(),
                });
            }
            None => {}
        }
        self.silent = self.choice.used().is_none();
    }

    /// What else was found.
    pub(super) fn found_all(
        &mut self,
        all: &[Candidate],
        now: Duration,
        observer: &mut dyn Observer,
    ) {
        let before = self.choice.used().map(Reflector::interval);
        let seldom = self.choice.used().is_some_and(Reflector::is_seldom);
        self.choice.add(all, &self.device, now);
        if self.choice.used().map(Reflector::interval) != before {
            self.limited(seldom, now, observer);
        }
        observer.event(Event::Reserve(self.choice.reserve()));
    }

    /// What is probed answers less often, or more often, than was known.
    fn limited(&mut self, was_seldom: bool, now: Duration, observer: &mut dyn Observer) {
        let Some(reflector) = self.choice.used() else {
            return;
        };
        let (address, interval) = (reflector.found.address, reflector.interval());
        let least = reflector.least();
        match (was_seldom, reflector.is_seldom()) {
            (false, true) => self.listen(now),
            (true, false) => self.controller.reflector_changed(now, least),
            _ => {}
        }
        self.pace_to(interval, now);
        observer.event(Event::Limited { address, interval });
    }

    /// Probes no more often than this. What answers seldom says nothing of how often to look.
    fn pace_to(&mut self, interval: Duration, now: Duration) {
        let seldom = self.choice.used().is_none_or(Reflector::is_seldom);
        let pace = if seldom { Duration::ZERO } else { interval };
        self.controller.answers_each(now, pace);
    }

    /// From now on connections that pass say what the line does: what is known of them is where
    /// the controller begins.
    fn listen(&mut self, now: Duration) {
        self.controller.reflector_changed(now, None);
        for trip in self.choice.least_trips(now) {
            self.controller.passed(now, &[trip]);
        }
    }

    /// Sees whether what is probed can be believed.
    pub(super) fn judge(
        &mut self,
        now: Duration,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let view = self.controller.view(now);
        let sent = self.choice.keep_warm(&view, now)?;
        self.purse.iter_mut().for_each(|p| p.spend(sent));
        let tells_apart = self.choice.used().is_some_and(Reflector::tells_apart);
        if tells_apart && self.choice.wants_trips(&view, now) {
            let samples = self.samples(now)?;
            self.choice.note_trips(&samples.round_trips, &view);
        }
        let none = self.choice.believes_none();
        if none && self.choice.try_again(now) {
            self.turn(now, observer, |is| Event::Reflector(is.into()));
        } else if let Some(doubted) = self.choice.judge(&view, now) {
            let next = self.choice.used().map(|r| r.found.into());
            let event = Event::Doubted {
                address: doubted.of.address,
                why: doubted.why,
                next,
            };
            if next.is_some() {
                self.turn(now, observer, |_| event);
            } else {
                self.listen(now);
                self.pace_to(Duration::ZERO, now);
                observer.event(event);
            }
        }
        Ok(())
    }

    /// Another one is probed from now on.
    fn turn(
        &mut self,
        now: Duration,
        observer: &mut dyn Observer,
        event: impl FnOnce(Found) -> Event,
    ) {
        let Some(reflector) = self.choice.used() else {
            return;
        };
        let (is, interval) = (reflector.found, reflector.interval());
        self.controller.reflector_changed(now, reflector.least());
        if reflector.is_seldom() {
            self.listen(now);
        }
        self.pace_to(interval, now);
        observer.event(event(is));
    }

    /// Looks at connections that pass, where probes do not tell directions apart, or tell nothing or little; then their
    /// far ends are asked.
    pub(super) fn watch(
        &mut self,
        now: Duration,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let reflector = self.choice.used().filter(|_| !self.no_signal);
        let is_followed = reflector.is_some_and(|r| !r.is_seldom());
        let wants_witnesses = is_followed && self.choice.wants_witnesses();
        if is_followed && !wants_witnesses {
            self.far_ends.rest();
        }
        let tells_apart = is_followed && reflector.is_some_and(Reflector::tells_apart);
        if tells_apart && !wants_witnesses {
            return Ok(());
        }
        let samples = self.samples(now)?;
        if !tells_apart {
            self.controller.tcp_timestamps(now, &samples.stamps);
        }
        let mut trips = samples.round_trips;
        if !is_followed {
            self.controller.passed(now, &trips);
        }
        // Who names hosts wants no others to be asked.
        let may_ask = self.targets.is_empty();
        if may_ask && (!is_followed || wants_witnesses) {
            self.far_ends.note_trips(&trips, &self.device, now);
            let echoes = self.far_ends.heard(now)?;
            if is_followed {
                trips.extend(echoes);
            } else {
                self.controller.echoed(now, &echoes);
            }
            self.ask_far_ends(!is_followed, now, observer)?;
        }
        if is_followed && !trips.is_empty() {
            self.choice.note_trips(&trips, &self.controller.view(now));
        }
        Ok(())
    }

    /// What connections that passed showed.
    fn samples(&mut self, now: Duration) -> Result<ConnectionSamples, Error> {
        let light_waits = self.controller.acknowledgements_may_wait();
        Ok(self.live.connection_samples(now, light_waits)?)
    }

    /// Asks a far end of busy connections, if it is time; `follows`: the line is followed by what they answer.
    fn ask_far_ends(
        &mut self,
        follows: bool,
        now: Duration,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let may = self.purse.as_ref().is_none_or(|p| p.allows(1));
        if may && self.far_ends.ask(self.spared, now)? {
            if follows {
                self.controller.asked(now);
            }
            self.purse.iter_mut().for_each(|p| p.spend(1));
        }
        for news in self.far_ends.take_news() {
            observer.event(match news {
                far_ends::News::Asked(found) => Event::FarEnd(found.into()),
                far_ends::News::Doubted(found, why) => Event::Doubted {
                    address: found.address,
                    why,
                    next: self.choice.used().map(|r| r.found.into()),
                },
            });
        }
        Ok(())
    }

    /// Waits for answers until then.
    pub(super) fn hear(
        &mut self,
        until: Duration,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let Some(reflector) = self.choice.used_mut() else {
            let now = clock::monotonic();
            std::thread::sleep(until.saturating_sub(now));
            return Ok(());
        };
        let seldom = reflector.is_seldom();
        reflector.pinger.wait(Some(until))?;
        let wander = self.controller.view(clock::monotonic()).rise_ms / 1e3;
        let heard = reflector.heard(wander);
        let address = reflector.found.address;
        let least = reflector.least();
        if !heard.answers.is_empty() {
            self.count()?;
        }
        if let Some(news) = heard.stamps {
            // Directions are told apart in another way from now on.
            self.controller.reflector_changed(clock::monotonic(), least);
            let believed = news == stamps::News::Agree;
            observer.event(Event::Stamps { address, believed });
        }
        if heard.limit {
            self.limited(seldom, clock::monotonic(), observer);
        }
        for a in heard.answers {
            let now = clock::monotonic();
            if seldom {
                // Few of many, and farther away than some.
                let trip = RttSample {
                    remote: address,
                    left: a.sent,
                    waited: Duration::ZERO,
                    came: a.came,
                };
                self.controller.passed(now, &[trip]);
            } else {
                self.controller.answered(now, a);
            }
        }
        Ok(())
    }
}
