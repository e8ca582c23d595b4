//! Drawn lines on which one thing happens: what `run` has to live through at home.
//!
//! Principles: each kind of change by itself, on lines of 0.5 to 300 Mbit/s and 5 to 80 ms (some as far as drawn lines
//! go), in a direction that is loaded all the time; the same seed is the same line for ever. Non-goals: what comes of it
//! (`evenkeel lab lines --changes`).

use super::draw::draw;
use super::scene::Scene;
use crate::pipe::SplitMix64;
use crate::{Direction, PerDirection};

/// How long such a line is looked at, when its load begins, and when something happens, s.
const LENGTH: f64 = 100.0;
const LOADED: f64 = 4.0;
const HAPPENS: f64 = 40.0;
/// What a line carries at least, bytes/s.
const LEAST: f64 = 0.5e6 / 8.0;
/// A mobile line changes each, s.
const WALKS: f64 = 0.25;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The line carries less: down to a tenth.
    Falls,
    /// It carries more: up to tenfold.
    Rises,
    /// The way becomes longer, by up to 200 ms.
    LongerWay,
    /// Everything stands still for 20 to 220 ms, six times.
    Stalls,
    /// Somebody takes up to nine tenths for 20 s and does not yield.
    Taken,
    /// One to four flows of somebody else, whom nobody shapes, for 25 s.
    Competitors,
    /// Rates and the round trip of both directions never settle, as those of mobile lines.
    Mobile,
}

impl Change {
    /// All of them.
    pub const ALL: [Change; 7] = [
        Change::Falls,
        Change::Rises,
        Change::LongerWay,
        Change::Stalls,
        Change::Taken,
        Change::Competitors,
        Change::Mobile,
    ];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Change::Falls => "falls",
            Change::Rises => "rises",
            Change::LongerWay => "longer way",
            Change::Stalls => "stalls",
            Change::Taken => "taken by others",
            Change::Competitors => "shared with others",
            Change::Mobile => "mobile",
        }
    }
}

/// A line on which this happens in direction `d`.
pub fn draw_change(seed: u64, change: Change, d: Direction) -> Scene {
    let mut r = SplitMix64::new(seed ^ 0x1234);
    let mut scene = draw(seed);
    scene.length = LENGTH;
    if r.unit() < 0.95 {
        scene.rtt = 0.005 * 16f64.powf(r.unit());
    }
    resize(&mut scene, &mut r);
    let flows = 1 + (r.unit() * r.unit() * 8.0) as u32;
    scene.loads[d] = vec![(LOADED, LENGTH, flows)];
    if r.unit() < 0.5 {
        scene.loads[d.other()].clear();
    }
    let carries = scene.sides[d].capacity.first().map_or(LEAST, |c| c.1);
    let less = (carries / 10f64.powf(r.unit())).max(LEAST);
    let at = HAPPENS + r.unit();
    match change {
        Change::Falls => scene.sides[d].capacity = vec![(0.0, carries), (at, less)],
        Change::Rises => scene.sides[d].capacity = vec![(0.0, less), (at, carries)],
        Change::LongerWay => scene.wander = vec![(at, 0.2 * r.unit() * r.unit())],
        Change::Stalls => {
            for n in 0..6 {
                let from = 20.0 + 13.0 * f64::from(n);
                scene.wander.push((from, 0.03 + 0.1 * r.unit()));
                scene.wander.push((from + 0.02 + 0.2 * r.unit(), 0.0));
            }
        }
        Change::Taken => scene.cross_traffic[d] = vec![(at, carries - less), (at + 20.0, 0.0)],
        Change::Competitors => {
            let flows = 1 + (r.unit() * 4.0) as u32;
            scene.competitors[d] = vec![(at, at + 25.0, flows)];
        }
        Change::Mobile => mobile(&mut scene, &mut r),
    }
    scene
}

/// Rates walk between all and a twentieth of what the line carries at most, by up to a factor of two each quarter of
/// a second; the round trip walks between its least and up to 60 ms more, any share of that on the way from us.
fn mobile(scene: &mut Scene, r: &mut SplitMix64) {
    let most = PerDirection::of(|d| scene.sides[d].capacity.first().map_or(LEAST, |c| c.1));
    let longest = 0.06 * r.unit();
    scene.wander_up = r.unit();
    let mut shares = PerDirection::of(|_| r.unit());
    let mut longer = longest * r.unit();
    for n in 0..(LENGTH / WALKS) as u32 {
        let t = f64::from(n) * WALKS;
        for d in Direction::BOTH {
            shares[d] =
                (shares[d] + (2.0 * r.unit() - 1.0) * 2f64.ln() / 20f64.ln()).clamp(0.0, 1.0);
            let carries = (most[d] / 20f64.powf(1.0 - shares[d])).max(0.2 * LEAST);
            let capacity = &mut scene.sides[d].capacity;
            if n == 0 {
                capacity.clear();
            }
            capacity.push((t, carries));
        }
        longer = (longer + 0.25 * longest * (r.unit() - 0.5)).clamp(0.0, longest);
        scene.wander.push((t, longer));
    }
}

/// 0.5 to 300 Mbit/s towards us, from us a twentieth of that at least; buffers hold as long as before.
fn resize(scene: &mut Scene, r: &mut SplitMix64) {
    let down = LEAST * 600f64.powf(r.unit());
    let up = (down / 20f64.powf(r.unit())).max(LEAST);
    for (side, carries) in scene.sides.iter_mut().zip([up, down]) {
        if let Some(first) = side.capacity.first_mut() {
            side.buffer = (side.buffer * carries / first.1).max(6000.0);
            first.1 = carries;
        }
    }
}
