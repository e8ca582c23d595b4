//! What is heard of the line: answers to probes, echoes of far ends, round trips and time stamps of connections that pass.
//!
//! Principles: whatever is heard becomes a round trip to one place and the queue that it met, split by direction, so
//! that the rest of the controller need not know where it came from; the best that there is is heard alone: how long
//! something waited in our own queue is only about known. Non-goals: whose queue it is (`attribution`), what follows
//! (`direction`).

use std::time::Duration;

use super::direction::{ACKNOWLEDGES, DirectionState, Outcome, Phase};
use super::passive_rtt::RoundTrip;
use super::rate_fit::Point;
use super::{
    Action, Answered, Base, CALM, CLOCKS_TELL, Controller, DOWN, ECHOES, NO_SIGNAL, Notice, OneWay,
    RttSample, Rule, SLOWEST, SerializationRate, TcpTimestamp, UP, bytes_per_s, seconds,
};
use crate::Direction;

/// What comes is known over so long, s.
const COMES_OVER: f64 = 0.1;
/// Acknowledgements are sparse flows (RFC 8290, section 5.2) and go first in our own shaper, as long as they take no more
/// than this share of what it lets out: beside one upload a fair queue gives them half (decision 0102).
const ACKNOWLEDGEMENTS_SHARE: f64 = 0.5;

impl Controller {
    /// A probe is being sent. To be called after [`Controller::counted`].
    pub fn probed(&mut self, now: Duration) {
        let now = seconds(now);
        // What never answers is not heard either.
        self.heard.get_or_insert(now);
        self.beat(now);
    }

    /// Large probes have told what the line carries from us; towards us it hardly carries less.
    pub fn large_probes_told(&mut self, rate: SerializationRate) {
        for direction in self.directions.iter_mut() {
            direction.large_probes_told(rate);
        }
    }

    /// A far end of busy connections is being asked for an echo. To be called after [`Controller::counted`].
    pub fn asked(&mut self, now: Duration) {
        self.beat(seconds(now));
    }

    /// A probe was sent, or a connection's packet that will be echoed: where an upload is followed by pulses, the next begins
    /// when it is due.
    fn beat(&mut self, now: f64) {
        let context = self.context(UP, now);
        let sends = self.is_load(UP, now);
        self.directions[UP].beat(&context, sends);
        self.apply(now);
    }

    /// A probe was answered.
    pub fn answered(&mut self, now: Duration, a: Answered) {
        if self.passive.take().is_some() {
            // What is probed is at another distance.
            self.base = Base::default();
        }
        if self.no_signal {
            self.no_signal = false;
            self.actions.push_back(Action::Noticed(Notice::SignalBack));
        }
        let (sent, came) = (seconds(a.sent), seconds(a.came));
        if came >= sent {
            let (now, delay) = (seconds(now), came - sent);
            let base = self.base.value().unwrap_or(delay);
            let held = if a.left_unseen {
                self.in_our_shaper(now).min((delay - base).max(0.0))
            } else {
                0.0
            };
            let heard = RoundTrip {
                sent: sent + held,
                came,
                delay: delay - held,
            };
            let has_stamps = self.left_out != Some(Rule::HopStamps);
            self.on_rtt(now, heard, a.one_way.filter(|_| has_stamps));
        }
    }

    /// How long the longest packet takes to leave our own shaper, s; zero where the line is idle or not shaped.
    fn in_our_shaper(&self, now: f64) -> f64 {
        let shaped = self.shaped[UP].filter(|_| self.idle_since.is_none());
        let rate = shaped.map(|t| bytes_per_s(t.let_out()));
        rate.map_or(0.0, |rate| self.longest_packet(UP, now) / rate)
    }

    /// Whether acknowledgements of what comes may wait in our own shaper although it lets them out first: they need more
    /// than half of what is let out, so an upload beside them may have its share of the rest.
    pub fn acknowledgements_may_wait(&self) -> bool {
        let needed = ACKNOWLEDGES * self.directions[DOWN].meter.rate(COMES_OVER).unwrap_or(0.0);
        let let_out = self.shaped[UP].map(|t| bytes_per_s(t.let_out()));
        let_out.is_some_and(|rate| needed > ACKNOWLEDGEMENTS_SHARE * rate)
    }

    /// Round trips of connections that passed since the last call, where nothing answers probes.
    /// While nothing passes nothing is heard, and that is no reason for anything.
    pub fn passed(&mut self, now: Duration, samples: &[RttSample]) {
        if self.left_out == Some(Rule::PassiveRtt) {
            return;
        }
        let now = seconds(now);
        let heard = self.passive_rtt(samples, now);
        // How long something waited in our own queue is only about known, and an echo did not wait there.
        let has_better = self.has_echoes(now)
            || self.directions[UP].awaits_echoes(self.base.value().unwrap_or(0.0), now);
        if let Some(heard) = heard.filter(|_| !has_better) {
            self.on_passive_rtt(heard, now);
        }
    }

    /// Echoes since the last call of far ends that those connections lead to.
    pub fn echoed(&mut self, now: Duration, echoes: &[RttSample]) {
        if self.left_out == Some(Rule::Echoes) {
            return;
        }
        let now = seconds(now);
        if let Some(heard) = self.passive_rtt(echoes, now) {
            self.echoed = now;
            self.on_passive_rtt(heard, now);
        }
    }

    /// Far ends answer.
    pub(super) fn has_echoes(&self, now: f64) -> bool {
        now - self.echoed < ECHOES
    }

    /// Time stamps of connections' packets that came since the last call.
    pub fn tcp_timestamps(&mut self, now: Duration, stamps: &[TcpTimestamp]) {
        if self.left_out == Some(Rule::PeerClocks) {
            return;
        }
        let calm = self.is_calm(seconds(now));
        self.peer_clocks.note(stamps, calm);
    }

    /// No queue stands.
    pub(super) fn is_calm(&self, now: f64) -> bool {
        let rise = self.context(UP, now).rise;
        let long = |w: &DirectionState| w.latest.is_some_and(|p| p.queue > rise);
        self.idle_since.is_some() || !self.directions.iter().any(long)
    }

    /// It is known whose queue it is: by a reflector's stamps, or by far sides' clocks.
    pub(super) fn tells_apart(&self, now: f64) -> bool {
        self.offsets.is_some() || now - self.told_apart < CLOCKS_TELL
    }

    /// What `samples` say of a probe to the nearest place.
    fn passive_rtt(&mut self, samples: &[RttSample], now: f64) -> Option<RoundTrip> {
        let calm = self.is_calm(now);
        self.passive_rtt.on_rtt(samples, calm, now)
    }

    fn on_passive_rtt(&mut self, heard: RoundTrip, now: f64) {
        let since = self
            .heard
            .map_or(SLOWEST, |h| (now - h).clamp(0.0, SLOWEST));
        if self.passive.is_none() {
            self.base = Base::default();
        }
        let often = self.passive.unwrap_or(since);
        self.passive = Some(often + 0.25 * (since - often));
        self.on_rtt(now, heard, None);
    }

    fn on_rtt(&mut self, now: f64, heard: RoundTrip, one_way: Option<OneWay>) {
        let RoundTrip { sent, came, delay } = heard;
        self.heard = Some(now);
        let idle = self.idle_since.is_some_and(|since| sent - since > CALM);
        let shorter = self
            .base
            .value()
            .is_some_and(|b| delay < b - self.base.rise());
        let longer = self.base.sample(now, delay, idle);
        if shorter || longer {
            self.rerouted(now);
        }
        // Neither direction has a queue: what one was thought to have become longer by is forgotten (decision 0121).
        if let Some(before) = self
            .lengthened_from
            .filter(|_| shorter && one_way.is_some())
        {
            self.offsets = None;
            self.more = 0.0;
            let still = delay > before + self.base.rise();
            self.lengthened_from = still.then_some(before);
        }
        if longer {
            let base_ms = self.base.value().unwrap_or(delay) * 1e3;
            self.actions
                .push_back(Action::Noticed(Notice::BaseRose { base_ms }));
        }
        let queue = delay - self.base.value().unwrap_or(delay);
        let shares = self.attribute(queue, [sent, came], one_way, now);
        for i in Direction::BOTH {
            let share = shares[i];
            let context = self.context(i, now);
            let point = Point {
                left: sent,
                came,
                queue: share,
            };
            self.directions[i].observe(point, &context);
        }
        self.on_tick(now);
    }

    /// Nothing passes that could be heard of: what stood at the bottleneck has left it.
    pub(super) fn nothing_passes(&mut self, now: f64) {
        if self.idle_since.is_none_or(|since| now - since < NO_SIGNAL) {
            return;
        }
        for i in Direction::BOTH {
            if matches!(self.directions[i].phase, Phase::Drain(_)) {
                let context = self.context(i, now);
                let point = Point {
                    left: now,
                    came: now,
                    queue: 0.0,
                };
                self.directions[i].observe(point, &context);
                if let Outcome::Changed(why) = self.directions[i].decide(&context, false) {
                    self.why = why;
                }
            }
        }
        self.apply(now);
    }

    /// Nothing is heard: what is known of the line is used as it is.
    pub(super) fn end_cuts(&mut self, now: f64) {
        for i in Direction::BOTH {
            let context = self.context(i, now);
            if let Outcome::Changed(why) = self.directions[i].end_cut(&context) {
                self.why = why;
            }
        }
        self.apply(now);
    }
}
