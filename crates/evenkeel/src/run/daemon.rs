//! The process: its lines, its socket, its server of pages, its signals.
//!
//! Principles: this thread owns them all and does one thing after the other, so that a reload cannot meet another; a
//! file that is wrong changes nothing; one line that fails is tried again while others are followed, and ends the
//! process where it is the only one. Non-goals: following a line (`line`), answering (`answers`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use evenkeel_core::plan::Mode;
use evenkeel_kernel::StateDir;
use evenkeel_socket::{Reply, Request, Server};
use evenkeel_sys::clock;
use evenkeel_terminal::{Failure, asked_to_reload, cancelled_by_signals};

use super::answers::{Answers, Order};
use super::line::{Common, Line, Outcome};
use super::pages::{Pages, PagesConfig};
use super::pauses::{LONGEST, Pause, Pauses};
use super::settings::{Override, Run, mode, settings};
use super::watcher::Voice;
use crate::config::Config;
use crate::flows::Moved;
use crate::quiet;
use crate::service::Service;

/// Between two looks at signals, lines and children.
const LOOK: Duration = Duration::from_millis(200);
/// A line that has shown nothing for so long hangs. It shows something twice a second.
const HANGS: Duration = Duration::from_secs(3);
/// From one sign of life to the next.
const SIGN: Duration = Duration::from_millis(250);
/// A line of several that failed is tried again after this.
const AGAIN: Duration = Duration::from_secs(10);

/// `evenkeel run`, with what the file says.
pub(crate) fn run(args: Run, config: Config) -> Result<(), Failure> {
    let cancel = cancelled_by_signals()?;
    let hang_up = asked_to_reload()?;
    let voice = Arc::new(Voice::new(Service::from_environment()));
    let wanted = wanted(&args, &config);
    for device in &wanted {
        // What makes no sense is said before anything is done.
        settings(
            &args,
            &config,
            device.as_deref().unwrap_or_default(),
            &Override::default(),
        )?;
    }
    let dir = StateDir::new(&args.state.state_dir);
    let (orders, heard) = channel();
    let several = wanted.len() > 1;
    let mut daemon = Daemon {
        common: Arc::new(Common {
            args,
            config,
            voice,
            several,
        }),
        dir,
        lines: Vec::new(),
        again: Vec::new(),
        pauses: Pauses::default(),
        modes: HashMap::new(),
        failed: None,
        orders,
        server: None,
        pages: None,
        ready: false,
        signed: Instant::now(),
    };
    for named in wanted {
        daemon.start(named, Override::default())?;
    }
    daemon.serve();
    daemon.stay(&heard, &cancel, &hang_up)
}

/// Which devices are to be followed; `None`: that of the default route.
fn wanted(args: &Run, config: &Config) -> Vec<Option<String>> {
    match (&args.device, &config.devices[..]) {
        (Some(device), _) => vec![Some(device.clone())],
        (None, []) => vec![None],
        (None, devices) => devices.iter().cloned().map(Some).collect(),
    }
}

struct Daemon {
    common: Arc<Common>,
    dir: StateDir,
    lines: Vec<Line>,
    /// Lines that failed, and when they are tried again.
    again: Vec<(Instant, Option<String>, Override)>,
    /// Lines that are let go of for a while.
    pauses: Pauses,
    /// The mode that each device was seen in last.
    modes: HashMap<String, Mode>,
    /// What the last one failed with.
    failed: Option<Failure>,
    orders: Sender<Order>,
    server: Option<Server>,
    pages: Option<Pages>,
    ready: bool,
    signed: Instant,
}

impl Daemon {
    fn start(&mut self, named: Option<String>, told: Override) -> Result<(), Failure> {
        let line = Line::start(Arc::clone(&self.common), named, told, false)?;
        self.lines.push(line);
        Ok(())
    }

    /// Goes on where it was paused, from what was known of the line then.
    fn resume(&mut self, pause: Pause) -> Result<(), Failure> {
        let common = Arc::clone(&self.common);
        let line = Line::start(common, pause.named, pause.told, true)?;
        self.lines.push(line);
        Ok(())
    }

    /// The socket, and the server of pages that asks there.
    fn serve(&mut self) {
        self.pages = None;
        self.server = None;
        let Common { args, config, .. } = &*self.common;
        let wanted = PagesConfig::of(config);
        let path = self.dir.socket_file();
        let answers = Answers::new(
            self.dir.clone(),
            args.profile_dir.clone(),
            self.orders.clone(),
        );
        let pages = wanted.map(|config| Pages::prepare(config, &path, &args.profile_dir));
        let pages = pages.transpose().unwrap_or_else(|e| {
            self.common
                .voice
                .say(&format!("warning: no pages are served: {e}"));
            None
        });
        let rights = pages.as_ref().map_or_else(Pages::no_rights, Pages::rights);
        match Server::start(&path, rights, Arc::new(move |r: Request| answers.answer(r))) {
            Ok(server) => {
                self.server = Some(server);
                self.pages = pages;
            }
            // Another `run` by hand, for another device.
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(e) => {
                let text = format!("warning: nobody can ask: listen at {}: {e}", path.display());
                self.common.voice.say(&text);
            }
        }
    }

    /// Until it is told to end, or has nothing to do any more.
    fn stay(
        mut self,
        heard: &Receiver<Order>,
        cancel: &AtomicBool,
        hang_up: &AtomicBool,
    ) -> Outcome {
        loop {
            if cancel.load(Ordering::Relaxed) {
                self.common.voice.service.stopping();
                let keep = self.common.args.keep || self.common.config.keep;
                return self.end(keep);
            }
            self.reap();
            self.keep_to_times();
            if self.lines.is_empty() && self.again.is_empty() && self.pauses.0.is_empty() {
                self.server = None;
                return self.failed.take().map_or(Ok(()), Err);
            }
            self.show_life();
            if let Some(pages) = &mut self.pages {
                pages.tend(&self.common.voice);
            }
            if hang_up.swap(false, Ordering::Relaxed) {
                let said = self.reload().unwrap_or_else(|e| e.to_string());
                self.common.voice.say(&said);
            }
            match heard.recv_timeout(LOOK) {
                Ok(Order { request, reply }) => {
                    // Who has gone meanwhile does not hear it.
                    let _ = reply.send(self.carry_out(request));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    /// Stops everything; the first failure is what it ends with.
    fn end(mut self, keep: bool) -> Outcome {
        self.pages = None;
        self.server = None;
        for line in &self.lines {
            line.tell_to_stop(keep);
        }
        // All of them are waited for, whatever one says.
        let all: Vec<Outcome> = self.lines.drain(..).map(Line::join).collect();
        all.into_iter().collect()
    }

    /// Lines that have ended by themselves, and those whose time has come again.
    fn reap(&mut self) {
        let (ended, live) = self.lines.drain(..).partition(Line::has_ended);
        self.lines = live;
        let ended: Vec<Line> = ended;
        for line in ended {
            let (named, told) = (line.named.clone(), line.told.clone());
            let Err(e) = line.join() else {
                continue;
            };
            if self.common.several {
                self.common
                    .voice
                    .say(&format!("{e}; trying again in {} s", AGAIN.as_secs()));
                self.again.push((Instant::now() + AGAIN, named, told));
            } else {
                self.failed = Some(e);
            }
        }
        let now = Instant::now();
        let due: Vec<_> = self.again.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, named, told) in due {
            if let Err(e) = self.start(named, told) {
                self.failed = Some(e);
            }
        }
        for pause in self.pauses.ended() {
            let text = format!(
                "{}: nobody asked for the pause to go on; it is followed again",
                pause.device
            );
            self.common.voice.say(&text);
            if let Err(e) = self.resume(pause) {
                self.failed = Some(e);
            }
        }
    }

    /// Lines whose time for another mode has come go on in it.
    fn keep_to_times(&mut self) {
        let common = Arc::clone(&self.common);
        for line in std::mem::take(&mut self.lines) {
            let Some(device) = line.device() else {
                self.lines.push(line);
                continue;
            };
            let now = mode(&common.args, &common.config, &device, &line.told);
            let before = self.modes.insert(device.clone(), now);
            let has_times = !common.config.of(&device).mode_at.is_empty();
            if !has_times || before.is_none_or(|b| b == now) {
                self.lines.push(line);
                continue;
            }
            let (named, told) = (line.named.clone(), line.told.clone());
            common
                .voice
                .say(&format!("{device}: mode {now}, as the time says"));
            if let Err(e) = line.stop(true).and_then(|()| self.start(named, told)) {
                self.failed = Some(e);
            }
        }
    }

    /// Tells the service manager that every line lives, if it does.
    fn show_life(&mut self) {
        let now = clock::monotonic();
        let lives = |l: &Line| {
            l.pulse
                .last()
                .is_some_and(|at| now.saturating_sub(at) < HANGS)
        };
        if self.signed.elapsed() < SIGN || !self.lines.iter().all(lives) {
            return;
        }
        self.signed = Instant::now();
        let service = &self.common.voice.service;
        if !std::mem::replace(&mut self.ready, true) {
            service.ready();
        }
        service.alive();
    }

    /// Does what changes something.
    fn carry_out(&mut self, request: Request) -> Reply {
        // A pause that goes on was said when it began.
        let quiet = matches!(&request, Request::Pause { device, .. }
            if self.pauses.0.iter().any(|p| p.device == *device));
        let done = match request {
            Request::Reload { .. } => self.reload(),
            Request::Set {
                device,
                mode,
                rules,
                ..
            } => self.set(device.as_deref(), mode.as_deref(), rules.as_deref()),
            Request::Clear { device, .. } => {
                return match self.clear(device.as_deref()) {
                    Ok(cleared) => Reply::done(cleared),
                    Err(e) => Reply::refused(e.code(), e),
                };
            }
            Request::Pause {
                device, seconds, ..
            } => self.pause(&device, Duration::from_secs(seconds.into())),
            Request::Move {
                device,
                flow,
                raise,
                ..
            } => self.move_flow(device.as_deref(), flow, raise),
            Request::Quiet {
                device, seconds, ..
            } => quiet::set(&self.dir, device.as_deref(), seconds),
            Request::Resume { device, .. } => match self.pauses.take(&device) {
                Some(pause) => self
                    .resume(pause)
                    .map(|()| format!("{device}: followed again")),
                None => Err(Failure::usage(format_args!("{device} is not paused"))),
            },
            // The others are answered where they are heard.
            _ => Err(Failure::work("this is no order")),
        };
        match done {
            Ok(said) => {
                if !quiet {
                    self.common.voice.say(&said);
                }
                Reply::done(said)
            }
            Err(e) => Reply::refused(e.code(), e),
        }
    }

    /// Puts a flow into another tier.
    fn move_flow(&self, device: Option<&str>, flow: u16, raise: bool) -> Result<String, Failure> {
        let moved = Moved::find(&self.dir, device, flow, raise)?;
        let followed = self
            .lines
            .iter()
            .find(|l| l.device().as_ref() == Some(&moved.device));
        let line = followed.ok_or_else(|| {
            Failure::usage(format_args!(
                "{} is not followed by this daemon",
                moved.device
            ))
        })?;
        if !line.by_hand.put(moved.key, moved.tier) {
            return Err(Failure::usage("too many flows are raised or lowered"));
        }
        moved.tell()?;
        Ok(moved.said)
    }

    /// Lets go of a device until the lease ends.
    fn pause(&mut self, device: &str, lease: Duration) -> Result<String, Failure> {
        if !self.pauses.prolong(device, lease) {
            let is_meant = |l: &Line| l.device().as_deref() == Some(device);
            let Some(at) = self.lines.iter().position(is_meant) else {
                return Err(Failure::usage(format_args!(
                    "{device} is not followed by this daemon"
                )));
            };
            let line = self.lines.swap_remove(at);
            let (named, told) = (line.named.clone(), line.told.clone());
            // What cannot be taken back is tried again by whoever follows it next.
            let stopped = line.stop(false);
            self.pauses
                .0
                .push(Pause::new(device.to_owned(), named, told, lease));
            stopped?;
        }
        Ok(format!(
            "{device}: paused, for {} s unless that is asked for again",
            lease.min(LONGEST).as_secs()
        ))
    }

    /// Reads the file again. Lines whose settings are the same are not touched.
    fn reload(&mut self) -> Result<String, Failure> {
        let stays = |e: Failure| {
            Failure::with_code(
                e.code(),
                format_args!("{e}; what was told before stays in force"),
            )
        };
        let args = &self.common.args;
        let config = Config::load(&args.config).map_err(stays)?;
        let wanted = wanted(args, &config);
        for device in &wanted {
            let device = device.as_deref().unwrap_or_default();
            settings(args, &config, device, &Override::default()).map_err(stays)?;
        }
        let old = Arc::clone(&self.common);
        let pages_changed = PagesConfig::of(&config) != PagesConfig::of(&old.config);
        self.common = Arc::new(Common {
            args: old.args.clone(),
            voice: Arc::clone(&old.voice),
            several: wanted.len() > 1,
            config,
        });
        self.again.clear();
        let mut changed = 0;
        let mut have = Vec::new();
        for line in std::mem::take(&mut self.lines) {
            let name = line.device().unwrap_or_default();
            let is_wanted = wanted.contains(&line.named);
            let same = old.config.of(&name) == self.common.config.of(&name)
                && old.config.rules == self.common.config.rules
                && line.told == Override::default();
            if is_wanted && same {
                have.push(line.named.clone());
                self.lines.push(line);
                continue;
            }
            changed += 1;
            // What comes again goes on from what is in force.
            line.stop(is_wanted)?;
        }
        // What is paused begins with the new settings, once the pause is over.
        self.pauses.0.retain(|p| wanted.contains(&p.named));
        for pause in &mut self.pauses.0 {
            pause.told = Override::default();
            have.push(pause.named.clone());
        }
        for named in wanted.into_iter().filter(|w| !have.contains(w)) {
            changed += 1;
            self.start(named, Override::default())?;
        }
        if pages_changed {
            self.serve();
        }
        Ok(match changed {
            0 if !pages_changed => "settings read again: nothing has changed".to_owned(),
            _ => "settings read again, and in force".to_owned(),
        })
    }

    /// Does something in another way on one line, or on all.
    fn set(
        &mut self,
        device: Option<&str>,
        mode: Option<&str>,
        rules: Option<&[String]>,
    ) -> Result<String, Failure> {
        let mode = mode.map(str::parse).transpose().map_err(Failure::usage)?;
        let rules = rules.map(|r| r.iter().map(|r| r.parse()).collect());
        let rules: Option<Vec<_>> = rules.transpose().map_err(Failure::usage)?;
        let is_meant = |l: &Line| device.is_none_or(|d| l.device().as_deref() == Some(d));
        if !self.lines.iter().any(is_meant) {
            let name = device.unwrap_or("a device");
            return Err(Failure::usage(format_args!(
                "{name} is not followed by this daemon"
            )));
        }
        for line in std::mem::take(&mut self.lines) {
            if !is_meant(&line) {
                self.lines.push(line);
                continue;
            }
            let told = Override {
                mode: mode.or(line.told.mode),
                rules: rules.clone().or_else(|| line.told.rules.clone()),
            };
            if told == line.told {
                self.lines.push(line);
                continue;
            }
            let named = line.named.clone();
            line.stop(true)?;
            self.start(named, told)?;
        }
        let mode = mode.map(|m| format!("mode {m}"));
        let rules = rules.map(|r| match r.len() {
            1 => "one rule of your own".to_owned(),
            n => format!("{n} rules of your own"),
        });
        let what: Vec<String> = mode.into_iter().chain(rules).collect();
        let where_ = device.map_or(String::new(), |d| format!("{d}: "));
        Ok(format!(
            "{where_}{}, until the next reload",
            what.join(" and ")
        ))
    }

    /// Follows a device no more, or none; which these are.
    fn clear(&mut self, device: Option<&str>) -> Result<Vec<String>, Failure> {
        let mut cleared = Vec::new();
        for line in std::mem::take(&mut self.lines) {
            let name = line.device();
            if device.is_some() && name.as_deref() != device {
                self.lines.push(line);
                continue;
            }
            line.stop(false)?;
            cleared.extend(name);
        }
        self.again
            .retain(|(_, named, _)| device.is_some() && named.as_deref() != device);
        self.pauses
            .0
            .retain(|p| device.is_some_and(|d| d != p.device));
        Ok(cleared)
    }
}
