//! Lines drawn from the ranges that lines have.
//!
//! Principles: the same seed is the same line for ever; ranges are those of `evenkeel lab lines`.
//! Non-goals: what happens on them.

use super::scene::{MTU, Scene, Side};
use crate::PerDirection;
use crate::framing::{Framing, Mode};
use crate::pipe::SplitMix64;

/// A line from ranges that lines have, the same for the same seed.
pub fn draw(seed: u64) -> Scene {
    let mut r = SplitMix64::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(17));
    let log = |r: &mut SplitMix64, low: f64, high: f64| low * (high / low).powf(r.unit());
    let length = 300.0;
    let down = log(&mut r, 0.3e6, 2e9) / 8.0;
    let up = (down / log(&mut r, 1.0, 20.0)).max(0.3e6 / 8.0);
    let rtt = log(&mut r, 0.002, 0.6);
    let framing = match (r.unit() * 3.0) as u32 {
        0 => Framing::new(Mode::Atm, 40, 0),
        1 => Framing::new(Mode::Ptm, 22, 0),
        _ => Framing::new(Mode::None, 18, 64),
    };
    let packet = f64::from(framing.wire_len(MTU));
    let sides = PerDirection { up, down }.map(|c| {
        let buffer = log(&mut r, 0.005, 2.0);
        Side {
            capacity: vec![(0.0, c)],
            buffer: (c * buffer).max(4.0 * packet),
        }
    });
    let jitter = if r.unit() < 0.5 {
        0.0
    } else {
        log(&mut r, 0.0001, 0.003)
    };
    let loss = if r.unit() < 0.7 { 0.0 } else { 0.005 };
    let mut loads = PerDirection::<Vec<_>>::default();
    for load in loads.iter_mut() {
        let mut t = 3.0 + r.unit() * 20.0;
        while t < length {
            let lasts = log(&mut r, 2.0, 60.0);
            let flows = log(&mut r, 1.0, 16.0) as u32;
            load.push((t, (t + lasts).min(length), flows));
            t += lasts + log(&mut r, 1.0, 40.0);
        }
    }
    Scene {
        sides,
        rtt,
        jitter,
        loss,
        wander: Vec::new(),
        wander_up: 0.5,
        cross_traffic: PerDirection::default(),
        competitors: PerDirection::default(),
        framing,
        stamps: r.unit() < 0.7,
        silent: false,
        far_ends: false,
        dated: false,
        answers_until: f64::MAX,
        windows: r.unit() < 0.7,
        loads,
        length,
        seed,
        without: None,
    }
}
