//! Who hears what happens on a line: the terminal or the journal, the service manager, the history.
//!
//! Principles: a person reads what is news, the history keeps the same; a history that cannot be written is a warning,
//! once, and nothing else. Non-goals: what is news (`evenkeel-autorate`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_autorate::{CooperationNews, Event, Snapshot, Watcher};
use evenkeel_core::control::{DirectionView, Notice, Reason};
use evenkeel_core::{Direction, Rate};
use evenkeel_history::{Kind, Look, Recorder};
use evenkeel_sys::clock;
use evenkeel_terminal::print;

use super::people::People;
use crate::service::Service;

/// Says things to people, from several lines.
pub(crate) struct Voice {
    begun: Duration,
    pub(crate) service: Service,
}

impl Voice {
    pub(crate) fn new(service: Service) -> Self {
        Voice {
            begun: clock::monotonic(),
            service,
        }
    }

    /// A line, with the time since the start.
    pub(crate) fn say(&self, text: &str) {
        let at = clock::monotonic().saturating_sub(self.begun).as_secs_f64();
        let _ = print(&format!("{at:>9.3} s  {text}\n"));
        self.service.status(text);
    }
}

/// When a line last showed that it lives, ms of the steady clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pulse(Arc<AtomicU64>);

impl Pulse {
    pub(crate) fn beat(&self) {
        let now = clock::monotonic().as_millis() as u64;
        self.0.store(now, Ordering::Relaxed);
    }

    /// `None`: never yet.
    pub(crate) fn last(&self) -> Option<Duration> {
        Some(self.0.load(Ordering::Relaxed))
            .filter(|ms| *ms > 0)
            .map(Duration::from_millis)
    }
}

/// One line's.
pub(crate) struct LineWatcher {
    voice: Arc<Voice>,
    pulse: Pulse,
    verbose: bool,
    /// What is said begins so, where there are several lines.
    head: String,
    history: Recorder,
    /// The last look; `None`: the line is not followed yet.
    looked: Option<Duration>,
    /// Starts `people` once the line is followed: a line that is refused has nothing to count.
    starts: Option<Box<dyn FnOnce() -> People>>,
    people: Option<People>,
}

impl LineWatcher {
    pub(crate) fn new(
        voice: Arc<Voice>,
        pulse: Pulse,
        verbose: bool,
        head: String,
        dir: &Path,
        device: &str,
    ) -> Self {
        LineWatcher {
            voice,
            pulse,
            verbose,
            head,
            history: Recorder::new(dir, device),
            looked: None,
            starts: None,
            people: None,
        }
    }

    /// `starts` is called once, when the line is followed.
    pub(crate) fn with_people(self, starts: impl FnOnce() -> People + 'static) -> Self {
        LineWatcher {
            starts: Some(Box::new(starts)),
            ..self
        }
    }

    fn say(&self, text: &str) {
        self.voice.say(&format!("{}{text}", self.head));
    }

    /// Into the history.
    fn keep(&mut self, kind: Kind, text: &str) {
        let trouble = self
            .history
            .happened(clock::realtime().as_secs(), kind, text);
        self.warn(trouble);
    }

    fn warn(&self, trouble: Option<String>) {
        if let Some(why) = trouble {
            self.say(&format!("warning: {why}"));
        }
    }

    /// The line is followed no more; in words.
    pub(crate) fn close(mut self, how: &str) {
        if self.looked.is_none() {
            return;
        }
        self.people = None;
        self.keep(Kind::Ended, how);
        let trouble = self.history.close();
        self.warn(trouble);
    }
}

impl Watcher for LineWatcher {
    fn event(&mut self, event: &Event, news: bool) {
        // Most lines are nobody else's: that nothing is shared is told to who asks for all.
        let news = news && !matches!(event, Event::Cooperation(CooperationNews::Without(_)));
        if self.verbose || news {
            self.say(&event.to_string());
        }
        if news {
            self.keep(kind(event), &event.to_string());
        }
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.pulse.beat();
        let now = clock::monotonic();
        if self.looked.is_none() {
            self.keep(Kind::Began, "evenkeel run began");
            self.people = self.starts.take().map(|starts| starts());
        }
        let span = self
            .looked
            .map_or(0.0, |at| now.saturating_sub(at).as_secs_f64());
        self.looked = Some(now);
        let view = &snapshot.view;
        let down = look(
            &view.down,
            snapshot.down,
            snapshot.own_queue[Direction::Down],
        );
        let up = look(&view.up, snapshot.up, snapshot.own_queue[Direction::Up]);
        let at = clock::realtime().as_secs();
        let trouble = self.history.look(at, span, view.base_ms, &down, &up);
        self.warn(trouble);
    }

    fn waits(&mut self) {
        self.pulse.beat();
    }
}

fn look(view: &DirectionView, shaped: Option<Rate>, own: Duration) -> Look {
    let kbit = |rate: Rate| rate.bps() as f64 / 1e3;
    Look {
        capacity_kbit: view.capacity.map_or(0.0, kbit),
        shaped_kbit: shaped.map_or(0.0, kbit),
        passes_kbit: kbit(view.throughput),
        queue_ms: view.queue_ms,
        own_ms: own.as_secs_f64() * 1e3,
    }
}

fn kind(event: &Event) -> Kind {
    match event {
        Event::Shaped {
            why: Reason::Queue { .. },
            ..
        } => Kind::Queue,
        Event::Shaped { .. } | Event::Cooperation(_) | Event::Noticed(Notice::BaseRose { .. }) => {
            Kind::Changed
        }
        Event::NoReflector { .. } | Event::Noticed(Notice::NoSignal) => Kind::NoSignal,
        Event::CrossTraffic(_) => Kind::CrossTraffic,
        Event::Gone => Kind::Gone,
        Event::Back => Kind::Back,
        Event::Warning(_) | Event::Damaged(_) => Kind::Warning,
        Event::Reflector(_)
        | Event::Reserve(_)
        | Event::FarEnd(_)
        | Event::Doubted { .. }
        | Event::Limited { .. }
        | Event::Budget { .. }
        | Event::Stamps { .. }
        | Event::Noticed(Notice::SignalBack) => Kind::Reflector,
    }
}
