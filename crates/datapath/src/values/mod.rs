//! What stands in maps, by meaning: with units, and as the types of Rust and of `evenkeel_core`.
//!
//! Principles: a file for each idea; each value is made of its twin in `layout` by the names of its fields,
//! and what is written names all of them, so that a new one cannot be forgotten; nothing panics whatever a
//! map says. Non-goals: where bytes lie (`layout`), reading and writing maps (`maps`).

use std::net::{IpAddr, Ipv6Addr};

use evenkeel_core::units::{Direction, PerDirection};
use evenkeel_core::{Framing, framing};

use crate::layout;

mod config;
mod counts;
mod flow;
mod line;
mod name;
mod policer;
mod probe;
mod rtt;
mod rule;

pub(crate) use config::Config;
pub use config::{DirectionConfig, PriorityMode};
pub use counts::{Counts, DirectionCounts};
pub use flow::{DirectionState, Flow, Grant, Key, Lan, Reason};
pub use line::Line;
pub use name::{Name, NameKey, RuleSet};
pub use policer::Policed;
pub(crate) use policer::to_layout as policer_to_layout;
pub(crate) use probe::{answer_key, sender_key};
pub(crate) use rtt::step_end;
pub use rtt::{RTT_SAMPLES, RttHistogram, RttSample};
pub use rule::{End, MAX_RULES, Rule};

/// An address as in a map: IPv4 mapped into IPv6.
fn address(words: [[u8; 4]; 4]) -> IpAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(words.as_flattened());
    let v6 = Ipv6Addr::from(octets);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

/// 128 bits as four words of a map, as on the wire.
fn words(bits: u128) -> [[u8; 4]; 4] {
    [96, 64, 32, 0].map(|shift| ((bits >> shift) as u32).to_be_bytes())
}

/// Framing as in a map.
fn framing(framing: Framing) -> layout::Framing {
    layout::Framing {
        mode: match framing.mode {
            framing::Mode::None => layout::FRAMING_NONE,
            framing::Mode::Atm => layout::FRAMING_ATM,
            framing::Mode::Ptm => layout::FRAMING_PTM,
        },
        overhead: framing.overhead.into(),
        mpu: framing.mpu.into(),
    }
}

/// The same from a map.
fn framing_of(f: layout::Framing) -> Framing {
    let mode = match f.mode {
        layout::FRAMING_ATM => framing::Mode::Atm,
        layout::FRAMING_PTM => framing::Mode::Ptm,
        _ => framing::Mode::None,
    };
    Framing::new(mode, f.overhead as i16, f.mpu as u16)
}

/// What a map has for both directions, in the order of `enum direction`.
fn per_direction<T: Copy>(both: [T; 2]) -> PerDirection<T> {
    PerDirection::of(|d| match d {
        Direction::Up => both[layout::UP as usize],
        Direction::Down => both[layout::DOWN as usize],
    })
}

/// The same as a map has it.
fn by_index<T: Copy>(both: PerDirection<T>) -> [T; 2] {
    let mut all = [both.up; 2];
    all[layout::DOWN as usize] = both.down;
    all
}
