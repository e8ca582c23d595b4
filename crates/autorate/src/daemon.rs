//! The loop of `run`: what the line shows goes to the controller, what it decides to the kernel.
//!
//! Principles: one thread that sleeps in one place; counters are read when a probe goes and when
//! an answer comes, since those are the times that the model is about; probes are stamped by the
//! kernel, so that our own queue is not taken for the line's; where nothing answers, round trips of
//! connections that pass are as good. Non-goals: deciding anything (`evenkeel_core::control`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::Scope;
use std::time::Duration;

use evenkeel_core::control::{
    Action, Answered, Bounds, Controller, Counted, Notice, OneWay, RttSample, Settings,
};
use evenkeel_core::ping::Outcome;
use evenkeel_core::ping::track::Event as Probe;
use evenkeel_core::{Framing, PerDirection};
use evenkeel_kernel::{Live, Request, StateDir};
use evenkeel_sys::{clock, memory};

use crate::error::Error;
use crate::event::{Event, Observer, Snapshot};
use crate::reflector::{Found, Host, Origin, Reflector, SIZE, find, is_answer};

/// So often the reflector is looked for again while nothing answers.
const SEEK: Duration = Duration::from_secs(10);
/// Milliseconds of a day.
const DAY: f64 = 86_400_000.0;
/// A signal to stop is heard after at most this.
const NAP: Duration = Duration::from_millis(200);

/// From one look at the model to the next; windows' leases are renewed as often.
const LOOK: Duration = Duration::from_millis(500);

/// A device that follows its line.
pub struct Daemon {
    device: String,
    live: Live,
    controller: Controller,
    /// What is to be probed; none: what is found.
    targets: Vec<Host>,
    reflector: Option<Reflector>,
    pace: Duration,
    framing: Framing,
    /// When the reflector was looked for.
    sought: Duration,
    /// The latest search found nothing that answers.
    silent: bool,
    no_signal: bool,
}

impl Daemon {
    /// Sets up shaping on the device of `request`; its rates are guesses, and
    /// [`evenkeel_core::Line::OPEN`] is none. `targets`
    /// are probed rather than what is found; none: what is found.
    pub fn start(
        dir: &StateDir,
        request: &Request,
        bounds: PerDirection<Bounds>,
        targets: Vec<Host>,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let (live, warnings) = Live::start(dir, request)?;
        // Loading programs takes 20 MB for what the kernel tells of its types.
        memory::trim();
        for w in warnings {
            observer.event(Event::Warning(w));
        }
        let framing = live.framing();
        let settings = Settings::new(bounds, framing, live.frame().1);
        Ok(Daemon {
            device: request.device.clone(),
            live,
            controller: Controller::new(settings, clock::monotonic()),
            targets,
            reflector: None,
            pace: NAP,
            framing,
            sought: Duration::ZERO,
            silent: false,
            no_signal: false,
        })
    }

    /// Now.
    pub fn snapshot(&self) -> Snapshot {
        let PerDirection { up, down } = self.live.shaped();
        Snapshot {
            view: self.controller.view(clock::monotonic()),
            down,
            up,
        }
    }

    /// Follows the line until `stop`; `observer` gets a snapshot each half second.
    pub fn follow(&mut self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<(), Error> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let followed = self.follow_in(scope, &over, stop, observer);
            // Whatever is still looked for.
            over.store(true, Ordering::Relaxed);
            followed
        })
    }

    fn follow_in<'s>(
        &mut self,
        scope: &'s Scope<'s, '_>,
        over: &'s AtomicBool,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.act(observer)?;
        let mut search = Some(self.seek(scope, over));
        let mut next_probe = clock::monotonic();
        let mut next_look = next_probe;
        while !stop.load(Ordering::Relaxed) {
            let now = clock::monotonic();
            if now >= next_probe {
                self.count()?;
                if let Some(reflector) = &mut self.reflector
                    && reflector.is_due(now)
                {
                    if reflector.origin != Origin::Public {
                        self.controller.probed(now);
                    }
                    // What the kernel refuses to send is its answer's fate.
                    let _ = reflector.pinger.send(SIZE)?;
                }
                self.watch(now)?;
                next_probe = now + self.pace;
            }
            match search.as_ref().map(Receiver::try_recv) {
                Some(Ok(found)) => {
                    self.found(found?, observer);
                    search = None;
                }
                Some(Err(TryRecvError::Disconnected)) => search = None,
                Some(Err(TryRecvError::Empty)) | None => {}
            }
            if now >= next_look {
                self.tend(observer)?;
                next_look = now + LOOK;
                let lost = self.reflector.is_none() || self.no_signal;
                if lost && search.is_none() && now.saturating_sub(self.sought) > SEEK {
                    search = Some(self.seek(scope, over));
                }
            }
            let pace = self.pace;
            self.act(observer)?;
            if self.pace < pace {
                next_probe = next_probe.min(now + self.pace);
            }
            let until = next_probe.min(next_look).min(now + NAP);
            self.hear(until)?;
            self.act(observer)?;
        }
        Ok(())
    }

    /// Whether the device has gone.
    pub fn has_gone(&mut self) -> bool {
        self.live.has_gone()
    }

    /// Takes everything back.
    pub fn stop(self) -> Result<(), Error> {
        Ok(self.live.stop()?)
    }

    /// What has to be done at each look.
    fn tend(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        self.live.tend(clock::monotonic())?;
        observer.snapshot(&self.snapshot());
        Ok(())
    }

    /// Looks for something to probe, which takes seconds.
    fn seek<'s>(
        &self,
        scope: &'s Scope<'s, '_>,
        over: &'s AtomicBool,
    ) -> Receiver<Result<Option<Found>, Error>> {
        let (finds, found) = mpsc::channel();
        let (device, targets) = (self.device.clone(), self.targets.clone());
        scope.spawn(move || finds.send(find(&device, &targets, over)));
        found
    }

    /// What was found, if anything.
    fn found(&mut self, found: Option<Found>, observer: &mut dyn Observer) {
        self.reflector = found.and_then(|found| Reflector::open(&self.device, found));
        self.sought = clock::monotonic();
        match &self.reflector {
            Some(reflector) => observer.event(Event::Reflector {
                address: reflector.address,
                origin: reflector.origin,
                stamps: reflector.stamps,
            }),
            // Said once, not after each search.
            None if !self.silent => observer.event(Event::NoReflector {
                watched: self.live.has_programs(),
            }),
            None => {}
        }
        self.silent = self.reflector.is_none();
    }

    /// Looks at connections that pass, where probes tell nothing or little.
    fn watch(&mut self, now: Duration) -> Result<(), Error> {
        let reflector = self.reflector.as_ref().filter(|_| !self.no_signal);
        if reflector.is_none_or(|reflector| reflector.origin == Origin::Public) {
            let trips = self.live.rtt_samples(now)?;
            self.controller.passed(now, &trips);
        }
        Ok(())
    }

    /// Reads the counters.
    fn count(&mut self) -> Result<(), Error> {
        let c = self.live.counters()?;
        let now = clock::monotonic();
        let header = f64::from(self.live.frame().0);
        let wire = |bytes: u64, packets: u64| {
            let packets = packets as f64;
            self.framing
                .wire_bytes(bytes as f64 - header * packets, packets)
        };
        let counted = Counted {
            up: wire(c.tx_bytes, c.tx_packets),
            down: wire(c.rx_bytes, c.rx_packets),
        };
        self.controller.counted(now, counted);
        Ok(())
    }

    /// Waits for answers until then.
    fn hear(&mut self, until: Duration) -> Result<(), Error> {
        let Some(reflector) = &mut self.reflector else {
            let now = clock::monotonic();
            std::thread::sleep(until.saturating_sub(now));
            return Ok(());
        };
        reflector.pinger.wait(Some(until))?;
        let mut answers = Vec::new();
        while let Some(event) = reflector.pinger.poll() {
            match event {
                Probe::Far(seq, ms) => reflector.far = Some((seq, ms)),
                Probe::Outcome(o) if is_answer(&o) => {
                    let far = reflector.far.filter(|f| f.0 == o.seq).map(|f| f.1);
                    answers.extend(answer(&o, far));
                }
                _ => {}
            }
        }
        let (address, origin) = (reflector.address, reflector.origin);
        if !answers.is_empty() {
            self.count()?;
        }
        for a in answers {
            let now = clock::monotonic();
            if origin == Origin::Public {
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

    /// Does what the controller wants.
    fn act(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        while let Some(action) = self.controller.poll() {
            match action {
                Action::Shape { targets, why } => {
                    self.live.set(targets, clock::monotonic())?;
                    observer.event(Event::Shaped { targets, why });
                }
                Action::Pace(pace) => self.pace = pace,
                Action::Noticed(notice) => {
                    self.no_signal = match notice {
                        Notice::NoSignal => true,
                        Notice::SignalBack => false,
                        Notice::BaseRose { .. } => self.no_signal,
                    };
                    observer.event(Event::Noticed(notice));
                }
            }
        }
        Ok(())
    }
}

/// An answer as the controller takes it: on the steady clock, without our own queues.
fn answer(o: &Outcome, far: Option<u32>) -> Option<Answered> {
    let delays = o.delays?;
    let ahead = clock::realtime().saturating_sub(clock::monotonic());
    let sent = o.sent.saturating_sub(ahead) + delays.queue.unwrap_or_default();
    let path = delays.path.unwrap_or(delays.felt);
    let one_way = far.map(|ms| {
        // Both clocks count from some midnight: only differences matter.
        let left = ((o.sent + delays.queue.unwrap_or_default()).as_secs_f64() * 1e3) % DAY;
        let there = (f64::from(ms) - left + 1.5 * DAY) % DAY - 0.5 * DAY;
        OneWay {
            there: there / 1e3,
            back: path.as_secs_f64() - there / 1e3,
        }
    });
    Some(Answered {
        sent,
        came: sent + path,
        one_way,
    })
}
