//! Something that is probed: what sends, what came back, and what is known of it.
//!
//! Principles: answers leave here on the steady clock and without our own queues; what it does
//! badly (few answers, a clock that steps, delays of its own) is judged in files of their own.
//! Non-goals: which one is used (`choice`).

use std::collections::VecDeque;
use std::time::Duration;

use evenkeel_core::control::{Answered, OneWay};
use evenkeel_core::ping::Outcome;
use evenkeel_core::ping::track::Event as Probe;
use evenkeel_measure::ping::Pinger;
use evenkeel_sys::clock;

use crate::answer_limit::AnswerLimit;
use crate::candidates::Candidate;
use crate::error::Error;
use crate::places;
use crate::reflector::{Found, Origin, SELDOM, SIZE};
use crate::stamps::{self, Stamps};
use crate::trust::{Doubts, Trust};

/// Milliseconds of a day.
const DAY: f64 = 86_400_000.0;
/// A reflector that answers less often than this is no better than connections that pass.
const OFTEN: Duration = Duration::from_millis(250);
/// While the line is idle the least delay is kept for each stretch of so long, so many of them.
const STRETCH: Duration = Duration::from_secs(10);
const STRETCHES: usize = 30;
/// One that left so many probes in a row unanswered is not there any more.
const GONE: u32 = 3;
/// What waits in a socket is taken in by so many looks: an answer and its two stamps, and more.
const LOOKS: u32 = 8;

/// Something that is probed.
pub(crate) struct Reflector {
    pub(crate) found: Found,
    pub(crate) pinger: Pinger,
    pub(crate) trust: Trust,
    limit: AnswerLimit,
    /// What is to be spared: no more often than this.
    pub(crate) spared: Duration,
    stamps: Stamps,
    /// Which probe reached it when, ms since midnight by its clock.
    far: Option<(u64, u32)>,
    /// Probes that are neither answered nor overtaken by an answer to a later one, and when they were sent.
    under_way: VecDeque<(u64, Duration)>,
    /// When it was probed last.
    asked: Duration,
    /// Least delays of the idle line, and when their stretches began.
    idle: VecDeque<(Duration, Duration)>,
    /// The least delay ever.
    least_ever: Option<Duration>,
    unanswered: u32,
    /// Delays since the latest look.
    delays: Vec<Duration>,
    pub(crate) doubts: Doubts,
}

/// What its answers took in a stretch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delay {
    /// In the middle, and by how much that is more than the least ever, as it is known of places that connections lead to.
    pub(crate) middle: Duration,
    pub(crate) queue: Duration,
    /// How far the middle one and the least were apart; `None`: there were too few.
    pub(crate) spread: Option<Duration>,
}

/// What was heard of it.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) answers: Vec<Answered>,
    /// It answers less often, or more often, than was known.
    pub(crate) limit: bool,
    /// Of its time stamps.
    pub(crate) stamps: Option<stamps::News>,
}

impl Reflector {
    /// A candidate, from now on; `None` if the kernel does not let it be probed (any more).
    pub(crate) fn open(device: &str, of: &Candidate, now: Duration) -> Option<Self> {
        let least = of.least.map(|least| (now, least));
        Some(Reflector {
            found: of.found,
            pinger: of.found.pinger(device, true)?,
            trust: Trust::default(),
            limit: AnswerLimit::new(of.interval.unwrap_or(of.assumed()), now),
            spared: Duration::ZERO,
            stamps: Stamps::default(),
            far: None,
            under_way: VecDeque::new(),
            asked: Duration::ZERO,
            idle: least.into_iter().collect(),
            least_ever: of.least,
            unanswered: 0,
            delays: Vec::new(),
            doubts: Doubts::default(),
        })
    }

    /// What became known since it was opened.
    pub(crate) fn learn(&mut self, of: &Candidate, now: Duration) {
        if let Some(interval) = of.interval {
            self.limit = AnswerLimit::new(interval, now);
        }
        if let Some(least) = of.least {
            self.note_idle(least, now);
        }
    }

    /// From one probe to the next at least.
    pub(crate) fn interval(&self) -> Duration {
        let public = self.found.origin == Origin::Public;
        let least = if public { SELDOM } else { Duration::ZERO };
        least.max(self.limit.interval()).max(self.spared)
    }

    /// Its answers are too few to follow a line by.
    pub(crate) fn is_seldom(&self) -> bool {
        self.interval() > OFTEN
    }

    /// Whether it may be probed again; says yes once.
    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let due = !self.is_seldom() || now.saturating_sub(self.asked) >= self.interval();
        if due {
            self.asked = now;
        }
        due
    }

    /// Probes it.
    pub(crate) fn ask(&mut self, now: Duration) -> Result<(), Error> {
        // What the kernel refuses to send is its answer's fate.
        if let Ok(seq) = self.pinger.send(SIZE)? {
            self.under_way.push_back((seq, now));
        }
        Ok(())
    }

    /// Its stamps tell directions apart.
    pub(crate) fn tells_apart(&self) -> bool {
        self.found.stamps() && self.stamps.are_believed()
    }

    /// The least delay of the idle line.
    pub(crate) fn least(&self) -> Option<Duration> {
        self.idle.iter().map(|i| i.1).min()
    }

    /// An answer of the idle line took so long.
    pub(crate) fn note_idle(&mut self, delay: Duration, now: Duration) {
        self.least_ever = Some(self.least_ever.map_or(delay, |l| l.min(delay)));
        match self.idle.back_mut() {
            Some(last) if now.saturating_sub(last.0) < STRETCH => last.1 = last.1.min(delay),
            _ => self.idle.push_back((now, delay)),
        }
        if self.idle.len() > STRETCHES {
            self.idle.pop_front();
        }
    }

    /// The least delay ever.
    pub(crate) fn least_ever(&self) -> Option<Duration> {
        self.least_ever
    }

    /// So many probes in a row were not answered.
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// It can be probed instead of another one.
    pub(crate) fn is_there(&self, now: Duration) -> bool {
        self.least().is_some() && self.unanswered < GONE && !self.doubts.last(now)
    }

    /// Probes one that is only kept, once in a while; its answers are taken in. Whether one was sent.
    pub(crate) fn keep_warm(&mut self, now: Duration, idle: bool) -> Result<bool, Error> {
        let due = idle && now.saturating_sub(self.asked) >= STRETCH.max(self.spared);
        if due {
            self.asked = now;
            let _ = self.pinger.send(SIZE)?;
        }
        if self.pinger.open_probes() == 0 {
            return Ok(due);
        }
        self.take_in(now)?;
        while let Some(event) = self.pinger.poll() {
            let Probe::Outcome(o) = event else {
                continue;
            };
            let answer = Some(&o).filter(|o| self.found.is_answer(o));
            match answer.and_then(|o| answered(o, None)) {
                Some(a) => {
                    self.unanswered = 0;
                    self.note_idle(a.came.saturating_sub(a.sent), now);
                }
                None => self.unanswered = self.unanswered.saturating_add(1),
            }
        }
        Ok(due)
    }

    /// Takes in what waits in its sockets, without waiting for more.
    pub(crate) fn take_in(&mut self, now: Duration) -> Result<(), Error> {
        if self.pinger.open_probes() == 0 {
            return Ok(());
        }
        for _ in 0..LOOKS {
            self.pinger.wait(Some(now))?;
        }
        Ok(())
    }

    /// What its sockets have taken in, over a line whose delay wanders by so much, s.
    pub(crate) fn heard(&mut self, wander: f64) -> Heard {
        let mut heard = Heard::default();
        while let Some(event) = self.pinger.poll() {
            let o = match event {
                Probe::Far(seq, ms) => {
                    self.far = Some((seq, ms));
                    continue;
                }
                Probe::Outcome(o) => o,
                _ => continue,
            };
            let far = self.far.filter(|f| f.0 == o.seq).map(|f| f.1);
            let answer = Some(&o).filter(|o| self.found.is_answer(o));
            let mut answer = answer.and_then(|o| answered(o, far));
            let delay = answer.map(|a| a.came.saturating_sub(a.sent));
            heard.limit |= self.settle(o.seq, delay);
            self.delays.extend(delay);
            self.least_ever = self.least_ever.into_iter().chain(delay).min();
            if let Some(a) = &mut answer {
                self.unanswered = 0;
                heard.stamps = self.check_stamps(a, wander).or(heard.stamps);
            } else {
                self.unanswered = self.unanswered.saturating_add(1);
            }
            heard.answers.extend(answer);
        }
        heard
    }

    /// The probe `seq` was answered after `delay`, or never. A line keeps the order of what it carries, so those that
    /// were sent before an answered one are lost. True if it answers less often, or more often, than was known.
    fn settle(&mut self, seq: u64, delay: Option<Duration>) -> bool {
        let mut news = false;
        while let Some(&(at, sent)) = self.under_way.front().filter(|p| p.0 <= seq) {
            self.under_way.pop_front();
            news |= self.limit.note(sent, delay.filter(|_| at == seq));
        }
        news
    }

    /// Takes away stamps that cannot be true.
    fn check_stamps(&mut self, a: &mut Answered, wander: f64) -> Option<stamps::News> {
        let news = self.stamps.note(a.came, a.one_way?, wander);
        if !self.stamps.are_believed() {
            a.one_way = None;
        }
        news
    }

    /// What answers took since the latest look.
    pub(crate) fn take_delay(&mut self) -> Option<Delay> {
        let mut delays = std::mem::take(&mut self.delays);
        delays.sort_unstable();
        let middle = *delays.get(delays.len() / 2)?;
        Some(Delay {
            middle,
            queue: middle.saturating_sub(self.least_ever?),
            spread: places::spread(&delays),
        })
    }
}

/// A time of the wall clock on the steady one.
fn steady(wall: Duration) -> Duration {
    let ahead = clock::realtime().saturating_sub(clock::monotonic());
    wall.saturating_sub(ahead)
}

/// An answer as the controller takes it: on the steady clock, without our own queues.
fn answered(o: &Outcome, far: Option<u32>) -> Option<Answered> {
    let delays = o.delays?;
    let sent = steady(o.sent) + delays.queue.unwrap_or_default();
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
        left_unseen: delays.queue.is_none(),
        one_way,
    })
}
