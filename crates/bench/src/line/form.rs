//! What `line` found, as it is written and read.
//!
//! Principles: fields are added, never renamed; what is not known is absent; evidence stands beside each
//! verdict. Non-goals: words for people (`text`).

use std::net::{IpAddr, SocketAddr};

use evenkeel_autorate::Measured;
use evenkeel_core::linklayer::idle::{Stairs, Sweep};
use evenkeel_core::linklayer::saturation::{Depth, Saturation, Slope};
use evenkeel_core::linklayer::survey::Survey;
use evenkeel_core::linklayer::{Verdict, keywords};
use evenkeel_core::{Direction, Framing, Rate};
use evenkeel_measure::hops::NearHop;
use serde::Serialize;

use super::device::Facts;
use super::igd::Router;

/// The version this code writes.
const VERSION: u32 = 1;

/// Who ended the trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answering {
    /// `evenkeel serve`.
    Serves,
    /// A host that answers echoes.
    Echoes,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Form {
    /// Always `VERSION`.
    pub line_version: u32,
    /// The device that leads there.
    pub device: Facts,
    /// The first hop beyond the access line.
    pub near: Option<Near>,
    /// What was named with `--server`.
    pub server: Option<SocketAddr>,
    /// What that is.
    pub answering: Option<Answering>,
    /// Echoes of many sizes.
    pub echoes: Option<EchoesForm>,
    /// From us.
    pub up: Option<DirectionForm>,
    /// Towards us.
    pub down: Option<DirectionForm>,
    /// What the router says.
    pub router: Option<Router>,
}

/// The hop behind the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Near {
    /// How many hops away.
    pub ttl: u8,
    /// Its address.
    pub address: IpAddr,
    /// It answers to its own address.
    pub answers: bool,
}

/// What echoes of many sizes said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EchoesForm {
    /// Who answered.
    pub to: IpAddr,
    /// Sent.
    pub sent: u32,
    /// Answered.
    pub answered: u32,
    /// The smallest round trip, ms.
    pub base_ms: Option<f64>,
    /// What they say.
    pub stairs: Stairs,
    /// The logarithm of how much better that explains them than the other does.
    pub margin: f64,
    /// The smallest round trip of each size: bytes of the IP packet, ms.
    pub minima: Vec<(u32, f64)>,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DirectionForm {
    /// What was found, with its confidence.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What to shape with: what was found, or what is on the safe side.
    pub assumed: Framing,
    /// The rate that goes with it.
    pub assumed_rate: Option<Rate>,
    /// The same in tc-cake(8)'s words.
    pub tc_cake: String,
    /// What full packets lose to what is assumed rather than known, as a share.
    pub price: f64,
    /// The largest packet that arrives whole, bytes; absent where nobody counted.
    pub mtu: Option<u32>,
    /// Round trip of a marker on the idle line, ms.
    pub idle_ms: Option<f64>,
    /// The noise of that, ms.
    pub noise_ms: Option<f64>,
    /// Trains that were sent.
    pub trains: usize,
    /// What they took of the line, s.
    pub spent_s: f64,
    /// The null test.
    pub slopes: Vec<Slope>,
    /// Where the queue ended, if it did.
    pub depth: Option<Depth>,
}

impl DirectionForm {
    /// What trains said.
    pub(crate) fn new(v: &Verdict, s: &Saturation, mtu: Option<u32>) -> Self {
        let idle = s.idle();
        let (trains, spent_s) = s.cost();
        DirectionForm {
            assumed: v.assumed(),
            assumed_rate: v.assumed_rate(),
            tc_cake: v.keywords(),
            price: v.price(mtu.unwrap_or(1500)),
            mtu,
            idle_ms: idle.map(|i| 1e3 * i.0),
            noise_ms: idle.map(|i| 1e3 * i.1),
            trains,
            spent_s,
            slopes: s.slopes().cloned().collect(),
            depth: s.depth(),
            verdict: v.clone(),
        }
    }

    fn without_trains(v: &Verdict, mtu: u32) -> Self {
        DirectionForm {
            assumed: v.assumed(),
            assumed_rate: None,
            tc_cake: v.keywords(),
            price: v.price(mtu),
            mtu: None,
            idle_ms: None,
            noise_ms: None,
            trains: 0,
            spent_s: 0.0,
            slopes: Vec::new(),
            depth: None,
            verdict: v.clone(),
        }
    }
}

impl Form {
    pub(crate) fn new(
        name: &str,
        facts: Facts,
        near: Option<NearHop>,
        server: Option<SocketAddr>,
    ) -> Self {
        Form {
            line_version: VERSION,
            device: Facts {
                name: name.into(),
                ..facts
            },
            near: near.map(|n| Near {
                ttl: n.ttl,
                address: n.address,
                answers: n.answers,
            }),
            server,
            answering: None,
            echoes: None,
            up: None,
            down: None,
            router: None,
        }
    }

    pub(crate) fn echoes(&mut self, to: IpAddr, sweep: &Sweep) {
        let (sent, answered) = sweep.counts();
        self.echoes = Some(EchoesForm {
            to,
            sent,
            answered,
            base_ms: sweep.base().map(|b| 1e3 * b.as_secs_f64()),
            stairs: sweep.found(),
            margin: sweep.margin(),
            minima: sweep.minima().iter().map(|(s, m)| (*s, 1e3 * m)).collect(),
        });
    }

    /// What echoes say.
    pub fn stairs(&self) -> Option<Stairs> {
        self.echoes.as_ref().map(|e| e.stairs)
    }

    /// One direction's place.
    pub(crate) fn way(&mut self, d: Direction) -> &mut Option<DirectionForm> {
        match d {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// One direction.
    pub fn direction(&self, d: Direction) -> Option<&DirectionForm> {
        match d {
            Direction::Up => self.up.as_ref(),
            Direction::Down => self.down.as_ref(),
        }
    }

    /// All put together.
    pub(crate) fn found(&mut self, survey: &Survey) {
        let mtu = self.device.mtu;
        for d in Direction::BOTH {
            let v = &survey.direction[d];
            let place = self.way(d);
            match place {
                Some(form) => {
                    form.verdict = v.clone();
                    form.assumed = v.assumed();
                    form.assumed_rate = v.assumed_rate();
                    form.tc_cake = v.keywords();
                    form.price = v.price(form.mtu.unwrap_or(mtu));
                }
                None => *place = Some(DirectionForm::without_trains(v, mtu)),
            }
        }
    }

    /// The framing to shape with, of both directions: what was found, the one that charges full and small
    /// packets more where they differ, or what is on the safe side. `true`: it was found.
    pub fn framing(&self) -> (Framing, bool) {
        let ways: Vec<&DirectionForm> = [&self.up, &self.down].into_iter().flatten().collect();
        let found: Vec<Framing> = ways.iter().filter_map(|w| w.verdict.framing).collect();
        let charges = |f: &Framing| (f.wire_len(1500) + f.wire_len(64), f.overhead);
        if let Some(framing) = found.iter().copied().max_by_key(charges) {
            return (framing, true);
        }
        let assumed = ways.iter().map(|w| w.assumed).max_by_key(charges);
        let usual = Framing::new(evenkeel_core::framing::Mode::Ptm, 38, 84);
        (assumed.unwrap_or(usual), false)
    }

    /// What is known well enough for `run` to begin with.
    pub fn measured(&self) -> Measured {
        let (framing, found) = self.framing();
        // Without a framing a rate is one of its assumption, and `run` has another.
        let rate = |w: &Option<DirectionForm>| {
            let w = w.as_ref().filter(|w| w.trains > 0)?;
            w.verdict
                .rate
                .filter(|_| w.verdict.framing == Some(framing))
        };
        Measured {
            down: rate(&self.down),
            up: rate(&self.up),
            framing: found.then_some(framing),
            base_ms: self.echoes.as_ref().and_then(|e| e.base_ms),
        }
    }

    /// tc-cake(8)'s words for that.
    pub fn tc_cake(&self) -> String {
        keywords(self.framing().0)
    }
}

/// As people say it.
pub(crate) fn words(d: Direction) -> &'static str {
    match d {
        Direction::Up => "from you",
        Direction::Down => "towards you",
    }
}
