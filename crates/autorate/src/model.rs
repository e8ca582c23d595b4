//! What `run` knows, for `status` and for programs: `/run/evenkeel/DEV.model.json`.
//!
//! Principles: a small file, replaced each second and removed at the end; one that is older than
//! that is of a `run` that is gone; the price of shaping is counted only while a direction is used
//! to the full (`price`). Non-goals: history, and what is kept for the next start (`profile`).

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use evenkeel_core::control::DirectionView;
use evenkeel_core::plan::{Mode, Target};
use evenkeel_core::units::rounded::{self, age, milliseconds, wrapped};
use evenkeel_core::{Framing, PerDirection, Rate};
use evenkeel_kernel::StateDir;
use evenkeel_sys::clock;
use serde::{Deserialize, Serialize};

use crate::budget::Spent;
use crate::cooperation::Shared;
use crate::cross_traffic::{CrossTraffic, News};
use crate::error::Error;
use crate::event::{Event, Snapshot};
use crate::learned::Learned;
use crate::passing::{Cost, Seen};
use crate::price::{Days, Price, date};
use crate::profile::Profile;

/// From one writing to the next.
const EACH: Duration = Duration::from_secs(1);
/// Older than this it is of a `run` that is gone, s.
const FRESH: f64 = 3.0;
/// So many changes are kept.
const CHANGES: usize = 10;
/// A direction is used to the full from this share of what it is shaped to.
const FULL: f64 = 0.9;

/// The file. Times are seconds of the steady clock (`CLOCK_MONOTONIC`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// When it was written.
    time_s: f64,
    /// When `run` began.
    began_s: f64,
    mode: Mode,
    /// Since when there is no such device; absent while there is.
    gone_since_s: Option<f64>,
    /// What is probed, if anything answers.
    #[serde(rename = "near")]
    reflector: Option<IpAddr>,
    /// Round trip to it on the idle line; absent until it answered.
    base_ms: Option<f64>,
    /// From which on a delay counts as a queue.
    rise_ms: f64,
    down: DirectionModel,
    up: DirectionModel,
    /// Since when somebody else loads the line, if somebody does.
    #[serde(rename = "others_since_s")]
    cross_traffic_since_s: Option<f64>,
    /// What probing took this month, if there is a budget for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    probing: Option<Spent>,
    /// Others on the LAN who share the line.
    #[serde(default)]
    shared: Shared,
    /// The price by day.
    days: Days,
    /// The framing that `evenkeel line` measured.
    #[serde(default)]
    framing: Option<Framing>,
    /// What a packet costs beyond its own bytes, told by what passed.
    #[serde(default)]
    packet_cost: PerDirection<Option<Cost>>,
    /// The latest changes and what was noticed, oldest first.
    changes: VecDeque<Change>,
}

/// What is known of one direction, what is done there, and its price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionModel {
    /// What the line carries; absent until that is known.
    capacity: Option<Rate>,
    /// How old the evidence is.
    age_s: f64,
    /// What passes now.
    passing_kbit: f64,
    /// Queue at the bottleneck now.
    queue_ms: f64,
    /// Queue in our own shaper now.
    #[serde(default)]
    own_queue_ms: f64,
    /// Longest one that was seen while nothing was shaped.
    unshaped_queue_ms: f64,
    /// What was decided; absent while it is not shaped.
    target: Option<Target>,
    /// What the kernel was told; absent while it is not shaped.
    shaped: Option<Rate>,
    /// How much less that is than what the line carries.
    headroom_kbit: Option<f64>,
    /// What that took and brought since `run` began.
    price: Price,
}

/// A line of what happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Change {
    at_s: f64,
    text: String,
}

impl DirectionModel {
    /// `span`: seconds since the last look. The price of that time.
    fn look(&mut self, way: &DirectionView, shaped: Option<Rate>, span: f64) -> Price {
        self.capacity = way.capacity;
        self.age_s = way.age_s;
        self.passing_kbit = kbit(way.throughput);
        self.queue_ms = way.queue_ms;
        self.unshaped_queue_ms = self.unshaped_queue_ms.max(way.unshaped_queue_ms);
        self.shaped = shaped;
        let (Some(shaped), Some(capacity)) = (shaped, way.capacity) else {
            self.headroom_kbit = None;
            return Price::default();
        };
        let headroom = (kbit(capacity) - kbit(shaped)).max(0.0);
        self.headroom_kbit = Some(headroom);
        if self.passing_kbit < FULL * kbit(shaped) {
            return Price::default();
        }
        // Without a queue that was seen nothing is said to be won.
        let won = if self.unshaped_queue_ms > 0.0 {
            self.unshaped_queue_ms - way.queue_ms
        } else {
            0.0
        };
        let price = Price {
            headroom_bytes: headroom * 1000.0 / 8.0 * span,
            full_s: span,
            latency_won_ms: won,
        };
        self.price.add(&price);
        price
    }
}

impl DirectionModel {
    /// For people.
    fn show(&self, name: &str) -> String {
        let carries = self.capacity.map_or("line not known yet".into(), |c| {
            format!("line {} (seen {} ago)", rounded::rate(c), age(self.age_s))
        });
        let shaped = self.shaped.map_or("not shaped".into(), |r| {
            format!("shaped to {}", rounded::rate(r))
        });
        let passing = rounded::rate(Rate::from_bps((self.passing_kbit * 1e3).round() as u64));
        let queue = milliseconds(self.queue_ms);
        let mut text =
            format!("    {name:<9} {carries}, {shaped}, {passing} pass, queue {queue}\n");
        let Some(headroom) = self.headroom_kbit else {
            return text;
        };
        let free = rounded::rate(Rate::from_bps((headroom * 1e3).round() as u64));
        let _ = write!(text, "              {free} of it stay free");
        if self.price.full_s > 0.0 {
            let _ = write!(
                text,
                ": {} so far while it was full, and {} of queue were won",
                rounded::bytes(self.price.headroom_bytes),
                milliseconds(self.price.latency_won_ms)
            );
        }
        text + "\n"
    }
}

/// Keeps the file while `run` runs.
pub(crate) struct Keeper {
    model: Model,
    written: Option<Duration>,
    looked: Duration,
    cross_traffic: CrossTraffic,
    learned: PerDirection<Learned>,
    passing: Seen,
}

impl Keeper {
    /// `known`: what was learned of the line before.
    pub(crate) fn new(mode: Mode, known: Option<&Profile>, now: Duration) -> Self {
        let way = |i: usize| DirectionModel {
            unshaped_queue_ms: known.map_or(0.0, |k| k.unshaped_queue_ms[i]),
            ..DirectionModel::default()
        };
        let model = Model {
            time_s: now.as_secs_f64(),
            began_s: now.as_secs_f64(),
            mode,
            gone_since_s: None,
            reflector: None,
            probing: None,
            shared: Shared::default(),
            base_ms: None,
            rise_ms: 0.0,
            down: way(0),
            up: way(1),
            cross_traffic_since_s: None,
            days: known.map_or_else(Days::default, |k| k.days.clone()),
            framing: known.and_then(|k| k.framing),
            packet_cost: PerDirection::default(),
            changes: VecDeque::new(),
        };
        Keeper {
            model,
            written: None,
            looked: now,
            passing: Seen::new(known.map_or_else(PerDirection::default, |k| k.passing)),
            cross_traffic: CrossTraffic::default(),
            learned: PerDirection {
                up: Learned::before(known.and_then(|k| k.up)),
                down: Learned::before(known.and_then(|k| k.down)),
            },
        }
    }

    /// For the next start.
    pub(crate) fn profile(&self, look: &Snapshot) -> Profile {
        let queues = [&self.model.down, &self.model.up].map(|w| w.unshaped_queue_ms);
        let learned = self.learned.map(|l| l.rate());
        Profile::new(look.view.base_ms, learned, queues, &self.model.days)
            .framed(self.model.framing, self.passing.known())
    }

    /// Load that is not ours, if there is news of it.
    pub(crate) fn cross_traffic(&mut self, look: &Snapshot, now: Duration) -> Option<News> {
        let news = self.cross_traffic.look(&look.view, now);
        self.model.cross_traffic_since_s = self.cross_traffic.since().map(|s| s.as_secs_f64());
        news
    }

    /// Remembers what was told, if it is `news`.
    pub(crate) fn tell(&mut self, event: &Event, news: bool, now: Duration) {
        match event {
            Event::Reflector(probed) => self.model.reflector = Some(probed.address),
            Event::Doubted { next, .. } => self.model.reflector = next.map(|n| n.address),
            Event::NoReflector { .. } => self.model.reflector = None,
            Event::Shaped { targets, .. } => {
                self.model.down.target = targets.down;
                self.model.up.target = targets.up;
            }
            Event::Gone => self.model.gone_since_s = Some(now.as_secs_f64()),
            Event::Back => self.model.gone_since_s = None,
            Event::Noticed(_)
            | Event::Damaged(_)
            | Event::CrossTraffic(_)
            | Event::Cooperation(_)
            | Event::Limited { .. }
            | Event::Budget { .. }
            | Event::Stamps { .. } => {}
            Event::Warning(_) | Event::Reserve(_) | Event::FarEnd(_) => return,
        }
        if !news {
            return;
        }
        if self.model.changes.len() == CHANGES {
            self.model.changes.pop_front();
        }
        self.model.changes.push_back(Change {
            at_s: now.as_secs_f64(),
            text: event.to_string(),
        });
    }

    /// Takes a look, and writes it if it is time.
    pub(crate) fn look(
        &mut self,
        look: &Snapshot,
        now: Duration,
        dir: &StateDir,
        device: &str,
    ) -> Result<(), evenkeel_kernel::Error> {
        let span = now.saturating_sub(self.looked).as_secs_f64();
        self.looked = now;
        self.model.base_ms = look.view.base_ms;
        self.model.rise_ms = look.view.rise_ms;
        self.model.probing = look.probing;
        self.model.shared = look.shared.clone();
        let own = look.own_queue.map(|q| q.as_secs_f64() * 1e3);
        self.model.down.own_queue_ms = own.down;
        self.model.up.own_queue_ms = own.up;
        let down = self.model.down.look(&look.view.down, look.down, span);
        let up = self.model.up.look(&look.view.up, look.up, span);
        self.learned.down.look(&look.view.down, span);
        self.learned.up.look(&look.view.up, span);
        // The queue is of all who share the line, and what passed of us alone.
        if look.shared.peers.is_empty() {
            self.passing.look(&look.view, look.passed, now);
        }
        self.model.packet_cost = self.passing.cost();
        self.model.days.add(&date(clock::realtime()), &down, &up);
        self.write(now, dir, device)
    }

    /// Writes it if it is time.
    pub(crate) fn write(
        &mut self,
        now: Duration,
        dir: &StateDir,
        device: &str,
    ) -> Result<(), evenkeel_kernel::Error> {
        if self.written.is_some_and(|w| now.saturating_sub(w) < EACH) {
            return Ok(());
        }
        self.model.time_s = now.as_secs_f64();
        self.written = Some(now);
        let text = serde_json::to_string(&self.model).expect("a Model has no maps with odd keys");
        dir.save_model(device, &text)
    }
}

impl Model {
    /// That of a device; `None` if there is none.
    pub fn read(file: &Path) -> Result<Option<Self>, Error> {
        let failed = |e: String| Error::Model {
            path: file.to_owned(),
            why: e,
        };
        match std::fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text).map_err(|e| failed(e.to_string())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed(e.to_string())),
        }
    }

    /// Whether it is of a `run` that waits for its device.
    pub fn is_waiting(&self) -> bool {
        self.gone_since_s.is_some() && self.is_fresh()
    }

    fn is_fresh(&self) -> bool {
        let age = clock::monotonic().as_secs_f64() - self.time_s;
        (0.0..=FRESH).contains(&age)
    }

    /// What is probed.
    fn show_probing(&self) -> String {
        let reflector = self
            .reflector
            .map_or("nothing that answers".into(), |n| n.to_string());
        let base = self.base_ms.map_or("not known".into(), milliseconds);
        let spent = self.probing.map_or(String::new(), |p| {
            let [spent, of] = [p.bytes, p.of].map(|b| rounded::bytes(b as f64));
            format!("  probing took {spent} of {of} this month\n")
        });
        format!(
            "  run: mode {}, probing {reflector}, base {base}, a queue from {} on\n{spent}",
            self.mode,
            milliseconds(self.rise_ms)
        )
    }

    /// Who shares the line, in lines; empty while nobody does.
    fn show_shared(&self) -> String {
        let rate = |r: Option<Rate>| r.map_or("any".into(), rounded::rate);
        let mut text = String::new();
        let peers = &self.shared.peers;
        if let Some(gateway) = peers.iter().find(|p| p.gateway) {
            let who = gateway.address;
            return format!("    shaping is left to the gateway {who}, which has an evenkeel\n");
        }
        if !peers.is_empty() {
            let (down, up) = (rate(self.shared.down), rate(self.shared.up));
            let _ = writeln!(
                text,
                "    shared     by {} hosts, ours of it down {down}, up {up}",
                peers.len() + 1
            );
        }
        for p in peers {
            let (down, up) = (rate(p.down), rate(p.up));
            let _ = writeln!(text, "               {}: down {down}, up {up}", p.address);
        }
        text
    }

    /// How sure the framing is, in lines; empty while nothing is known of it.
    pub fn show_framing(&self) -> String {
        let mut text = match self.framing {
            Some(f) => format!("  framing {f}, measured by `evenkeel line`\n"),
            None => String::new(),
        };
        for (name, cost) in [
            ("download", self.packet_cost.down),
            ("upload", self.packet_cost.up),
        ] {
            if let Some(c) = cost {
                let _ = writeln!(
                    text,
                    "  {name}: a packet costs {:.0} ± {:.0} bytes more than its own, as what passed tells",
                    c.bytes, c.within
                );
            }
        }
        text
    }

    /// For people.
    pub fn show(&self, device: &str) -> String {
        let now = clock::monotonic().as_secs_f64();
        if let Some(since) = self.gone_since_s.filter(|_| self.is_fresh()) {
            return format!(
                "{device}: there is no such device for {}; `evenkeel run` waits for it\n",
                age(now - since)
            );
        }
        if !self.is_fresh() {
            return format!(
                "  `evenkeel run` is gone: rates stay as they are\n  \
                 `evenkeel run {device}` goes on, `evenkeel clear {device}` takes them back\n"
            );
        }
        let mut text = self.show_probing() + &self.show_framing();
        for (name, way) in [("download", &self.down), ("upload", &self.up)] {
            text += &way.show(name);
        }
        text += &self.show_shared();
        if let Some(since) = self.cross_traffic_since_s {
            let _ = writeln!(
                text,
                "    somebody else loads the line, for {}: the queue is not ours",
                age(now - since)
            );
        }
        text += &self.days.show(&date(clock::realtime()));
        for c in &self.changes {
            let ago = format!("{} ago", age(now - c.at_s));
            text += &wrapped(&format!("    {ago:>11}  "), &c.text);
        }
        text
    }
}

fn kbit(rate: Rate) -> f64 {
    rate.bps() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(throughput: u64, queue_ms: f64) -> DirectionView {
        DirectionView {
            capacity: Some(Rate::from_kbit(1000)),
            age_s: 0.0,
            throughput: Rate::from_kbit(throughput),
            queue_ms,
            unshaped_queue_ms: 100.0,
        }
    }

    #[test]
    fn the_price_is_that_of_full_use() {
        let mut way = DirectionModel::default();
        let nothing = Price::default();
        assert_eq!(way.look(&seen(1000, 100.0), None, 10.0), nothing);
        assert_eq!(way.headroom_kbit, None);
        let shaped = Some(Rate::from_kbit(960));
        assert_eq!(way.look(&seen(10, 0.0), shaped, 10.0), nothing);
        assert_eq!((way.headroom_kbit, way.price), (Some(40.0), nothing));
        way.look(&seen(950, 4.0), shaped, 1.0);
        way.look(&seen(950, 2.0), shaped, 1.0);
        assert!((way.price.headroom_bytes - 10_000.0).abs() < 1e-6);
        assert_eq!((way.price.full_s, way.price.latency_won_ms), (2.0, 97.0));
    }
}
