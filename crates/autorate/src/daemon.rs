//! The loop of `run`: what the line shows goes to the controller, what it decides to the kernel.
//!
//! Principles: one thread that sleeps in one place; counters are read when a probe goes and when
//! an answer comes, since those are the times that the model is about; probes are stamped by the
//! kernel, so that our own queue is not taken for the line's; where nothing answers that can be
//! believed, round trips of connections that pass are as good. Non-goals: deciding anything
//! (`evenkeel_core::control`), and what is believed (`choice`).

mod probing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::Scope;
use std::time::Duration;

use evenkeel_core::control::{
    Action, Bounds, Controller, Counted, Notice, Rule, SerializationRate, Settings,
};
use evenkeel_core::plan::Target;
use evenkeel_core::wire_count::{Passed, WireCount};
use evenkeel_core::{Direction, PerDirection, Rate};
use evenkeel_kernel::{Live, Request, StateDir};
use evenkeel_sys::{clock, memory};

use crate::budget::Purse;
use crate::candidates::Candidate;
use crate::choice::Choice;
use crate::cooperation::{self, Cooperate, Cooperation, Shared};
use crate::error::Error;
use crate::event::{Event, Observer, Snapshot};
use crate::far_ends::FarEnds;
use crate::gateway_beacons::GatewayBeacons;
use crate::reflector::{Found, Host};

/// So often the reflector is looked for again while nothing answers.
const SEEK: Duration = Duration::from_secs(10);
/// Others than what is probed are tried when that is suspected, or on a line that is idle after so long: trying them is
/// traffic, and how much the line wanders by itself is learned first.
const ALONE: Duration = Duration::from_secs(30);
/// A signal to stop is heard after at most this.
const NAP: Duration = Duration::from_millis(200);

/// From one look at the model to the next; windows' leases are renewed as often.
const LOOK: Duration = Duration::from_millis(500);

/// From one look whether everything that was set up is still there to the next.
const EXAMINE: Duration = Duration::from_secs(2);

/// What a search found.
enum Sought {
    /// What answers first, if anything does.
    First(Option<Found>),
    /// What the line carries from us, by large probes.
    SerializationRate(SerializationRate),
    /// That and others, and how often they answer.
    All(Vec<Candidate>),
}

/// A device that follows its line.
pub struct Daemon {
    device: String,
    live: Live,
    controller: Controller,
    /// What is to be probed; none: what is found.
    targets: Vec<Host>,
    choice: Choice,
    far_ends: FarEnds,
    pace: Duration,
    /// Bytes on the line, from the counters.
    wire: PerDirection<WireCount>,
    /// What has passed, as last counted.
    passed: PerDirection<Passed>,
    /// When the reflector was looked for.
    sought: Duration,
    /// The latest search found nothing that answers.
    silent: bool,
    no_signal: bool,
    /// When it was seen last that everything is still there.
    examined: Duration,
    /// What may be spent for probing, if that is bounded; and how often may be probed for it.
    pub(crate) purse: Option<Purse>,
    spared: Duration,
    /// It could not be written down, which was told.
    unwritten: bool,
    /// What the controller wants of the whole line, and what of it is in force here.
    targets_of_line: PerDirection<Option<Target>>,
    in_force: PerDirection<Option<Target>>,
    /// Others on the LAN, unless there is no way to hear them.
    cooperation: Option<Cooperation>,
    /// Those behind us, who are told that we shape for them.
    behind: Option<GatewayBeacons>,
    /// Bytes of ours on the line, as last counted.
    carried: PerDirection<f64>,
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
            choice: Choice::default(),
            far_ends: FarEnds::default(),
            pace: NAP,
            wire: PerDirection::of(|_| WireCount::new(framing)),
            passed: PerDirection::default(),
            sought: Duration::ZERO,
            silent: false,
            no_signal: false,
            examined: clock::monotonic(),
            purse: None,
            spared: Duration::ZERO,
            unwritten: false,
            targets_of_line: PerDirection::default(),
            in_force: PerDirection::default(),
            cooperation: None,
            behind: None,
            carried: PerDirection::default(),
        })
    }

    /// Does without one of the controller's rules, to see what it is good for. To be called before [`Daemon::follow`].
    pub fn leave_out(&mut self, rule: Rule) {
        self.controller.leave_out(rule, clock::monotonic());
    }

    /// From now on the line is shared with others on the LAN who look after it.
    pub fn cooperate(&mut self, with: &Cooperate, observer: &mut dyn Observer) {
        self.behind = Some(GatewayBeacons::start(
            &self.device,
            with,
            cooperation::draw(),
        ));
        let framing = self.live.framing();
        match Cooperation::join(&self.device, self.live.index(), framing, with) {
            Ok(joined) => self.cooperation = Some(joined),
            Err(why) => observer.event(Event::Cooperation(cooperation::News::Without(why))),
        }
    }

    /// What the line is shaped to by all of us together.
    fn shaped(&self) -> PerDirection<Option<Rate>> {
        let shaped = self.live.shaped();
        PerDirection::of(|d| {
            let (rate, line, ours) = (shaped[d]?, self.targets_of_line[d], self.in_force[d]);
            let (Some(line), Some(ours)) = (line, ours) else {
                return Some(rate);
            };
            let part = line.capacity.bps() as f64 / ours.capacity.bps().max(1) as f64;
            Some(Rate::from_bps((rate.bps() as f64 * part) as u64))
        })
    }

    /// Now.
    pub fn snapshot(&self) -> Snapshot {
        let PerDirection { up, down } = self.shaped();
        Snapshot {
            view: self.controller.view(clock::monotonic()),
            down,
            up,
            own_queue: PerDirection::default(),
            passed: self.passed,
            probing: self.purse.as_ref().map(Purse::spent),
            shared: self
                .cooperation
                .as_ref()
                .map_or_else(Shared::default, Cooperation::shared),
        }
    }

    /// Follows the line until `stop`; `observer` gets a snapshot each half second.
    pub fn follow(&mut self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<(), Error> {
        let (over, others) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let followed = self.follow_in(scope, [&over, &others], stop, observer);
            // Whatever is still looked for.
            over.store(true, Ordering::Relaxed);
            followed
        })
    }

    fn follow_in<'s>(
        &mut self,
        scope: &'s Scope<'s, '_>,
        flags: [&'s AtomicBool; 2],
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        self.act(observer)?;
        let others = flags[1];
        self.spare(observer);
        let mut search = self.may_seek().then(|| self.seek(scope, flags));
        let mut next_probe = clock::monotonic();
        let mut next_look = next_probe;
        while !stop.load(Ordering::Relaxed) {
            let now = clock::monotonic();
            self.meet(now, observer)?;
            if now >= next_probe {
                self.count()?;
                if let Some(reflector) = self.choice.used_mut()
                    && reflector.is_due(now)
                {
                    if !reflector.is_seldom() {
                        self.controller.probed(now);
                    }
                    if self.purse.as_ref().is_none_or(|p| p.allows(1)) {
                        reflector.ask(now)?;
                        self.purse.iter_mut().for_each(|p| p.spend(1));
                    }
                }
                self.watch(now, observer)?;
                next_probe = now + self.pace;
            }
            match search.as_ref().map(Receiver::try_recv) {
                Some(Ok(sought)) => match sought? {
                    Sought::First(found) => self.found(found, now, observer),
                    Sought::SerializationRate(rate) => self.controller.large_probes_told(rate),
                    Sought::All(all) => self.found_all(&all, now, observer),
                },
                Some(Err(TryRecvError::Disconnected)) => search = None,
                Some(Err(TryRecvError::Empty)) | None => {}
            }
            if now >= next_look {
                self.tend(observer)?;
                self.spare(observer);
                if search.is_none() || !others.load(Ordering::Relaxed) {
                    self.judge(now, observer)?;
                }
                others.fetch_or(self.wants_others(now), Ordering::Relaxed);
                next_look = now + LOOK;
                let lost = if self.choice.used().is_some() {
                    self.no_signal
                } else {
                    !self.choice.believes_none()
                };
                let due = now.saturating_sub(self.sought) > SEEK.max(self.spared * 20);
                if lost && search.is_none() && due && self.may_seek() {
                    search = Some(self.seek(scope, flags));
                }
            }
            let pace = self.pace;
            self.act(observer)?;
            if self.pace < pace {
                next_probe = next_probe.min(now + self.pace);
            }
            let until = next_probe.min(next_look).min(now + NAP);
            self.hear(until, observer)?;
            self.act(observer)?;
        }
        Ok(())
    }

    /// Whether the device has gone.
    pub fn has_gone(&mut self) -> bool {
        self.live.has_gone()
    }

    /// What somebody has taken away of what was set up, in words; `None`: nothing.
    pub fn damage(&mut self) -> Option<String> {
        // What cannot be asked fails elsewhere, with more to say.
        self.live.damage().ok().flatten()
    }

    /// Takes everything back.
    pub fn stop(self) -> Result<(), Error> {
        Ok(self.live.stop()?)
    }

    /// Leaves the device shaped at what its line carries.
    pub fn leave(self) -> Result<(), Error> {
        Ok(self.live.leave()?)
    }

    /// What has to be done at each look.
    fn tend(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        self.live.tend(clock::monotonic())?;
        let now = clock::monotonic();
        if now.saturating_sub(self.examined) >= EXAMINE {
            self.examined = now;
            if let Some(what) = self.live.damage()? {
                return Err(Error::Damaged {
                    device: self.device.clone(),
                    what,
                });
            }
        }
        let queues = self.live.own_queues()?;
        if let Some(payload) = self.live.tcp_payload(&queues)? {
            self.controller.tcp_payload(now, payload);
        }
        observer.snapshot(&Snapshot {
            own_queue: queues.waits,
            ..self.snapshot()
        });
        Ok(())
    }

    /// Reads the counters.
    fn count(&mut self) -> Result<(), Error> {
        let c = self.live.counters()?;
        let now = clock::monotonic();
        let header = f64::from(self.live.frame().0);
        let beacons = self.cooperation.as_ref().map(Cooperation::beacons);
        let beacons = beacons.unwrap_or_default();
        let ip = |bytes: u64, packets: u64| Passed {
            bytes: bytes as f64 - header * packets as f64,
            packets: packets as f64,
        };
        self.passed = PerDirection {
            up: ip(c.tx_bytes, c.tx_packets),
            down: ip(c.rx_bytes, c.rx_packets),
        };
        let framed = self.live.framed()?;
        self.carried = PerDirection::of(|d| {
            let (Passed { bytes, packets }, (ours, of)) = (self.passed[d], beacons[d]);
            if let Some(framed) = framed {
                self.wire[d].framed(framed[d]);
            }
            self.wire[d].passed(Passed {
                bytes: bytes - ours,
                packets: packets - of,
            })
        });
        let others = self.cooperation.as_mut();
        let others = others.map(|group| group.carried(now, self.in_force));
        let others = others.unwrap_or_default();
        let is_alone = others.up == 0.0 && others.down == 0.0;
        let counted = Counted {
            up: self.carried.up + others.up,
            down: self.carried.down + others.down,
            // How long the packets of others are is not known.
            packets: is_alone.then(|| PerDirection::of(|d| self.passed[d].packets - beacons[d].1)),
        };
        self.controller.counted(now, counted);
        Ok(())
    }

    /// Meets the others: hears them, tells them about us, and takes what of the line is ours.
    fn meet(&mut self, now: Duration, observer: &mut dyn Observer) -> Result<(), Error> {
        if let Some(behind) = &mut self.behind {
            behind.tell(now);
        }
        let Some(group) = &mut self.cooperation else {
            return Ok(());
        };
        let news = group.hear(now);
        if let Some((hosts, has_newcomer)) = group.hosts(now) {
            self.controller.probed_by(now, hosts, has_newcomer);
        }
        if let Some(together) = group.newly_met() {
            for d in Direction::BOTH {
                self.controller.met(now, d, together[d]);
            }
        }
        for news in news {
            observer.event(Event::Cooperation(news));
        }
        let capacity = self.controller.view(now).capacity();
        if group.is_due(now, self.carried, capacity) {
            let median = group.median(capacity);
            for d in Direction::BOTH {
                if let Some(median) = median[d] {
                    self.controller.agree(now, d, median);
                }
            }
            let targets = self.targets_of_line;
            let known = cooperation::Now {
                capacity,
                has_stranger: PerDirection::of(|d| self.controller.competes(d)),
                carried: self.carried,
                tiers: self.live.tiers()?,
                waits: self.live.own_queues()?.waits,
                shaped: self.live.shaped(),
                permille: targets.map(|t| t.map_or(1000, |t| t.permille.min(1000))),
            };
            group.tell(now, &known);
        }
        self.put(false)
    }

    /// Puts in force what of the line is ours, if that is other than what is; `anew`: what the line is shaped to is.
    fn put(&mut self, anew: bool) -> Result<(), Error> {
        let now = clock::monotonic();
        let targets = self.targets_of_line;
        let bounded = match &mut self.cooperation {
            None => targets,
            Some(group) => group.bound(targets, self.controller.view(now).capacity()),
        };
        if anew || !cooperation::are_same(bounded, self.in_force) {
            self.live.set(bounded, now)?;
            self.in_force = bounded;
        }
        Ok(())
    }

    /// Does what the controller wants.
    fn act(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        while let Some(action) = self.controller.poll() {
            match action {
                Action::Shape { targets, why } => {
                    self.targets_of_line = targets;
                    self.put(true)?;
                    let elsewhere = self.cooperation.as_ref();
                    if !elsewhere.is_some_and(Cooperation::is_behind) {
                        observer.event(Event::Shaped { targets, why });
                    }
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
