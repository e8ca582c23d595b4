//! `evenkeel bench` and `evenkeel serve`: latency under load on the real line.
//!
//! Principles: goodput is what the receiver got; time stamps are the kernel's; what could have
//! spoiled a figure is looked at and said; nobody is loaded who was not named. Non-goals: pictures
//! and figures (crate `evenkeel-report`), emulated lines (crate `evenkeel-lab`).

pub mod client;
mod failed;
pub mod line;
pub mod proto;
pub mod serve;
pub mod trains;
mod unsent;
pub mod usage;

mod web;

use std::io::Read as _;

/// What streams carry: bytes that no link on the way can compress.
pub(crate) fn payload(length: usize) -> Vec<u8> {
    // xorshift64* (Vigna 2016); not secret, only shapeless.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut word = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_be_bytes()
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| word()).collect();
    bytes.truncate(length);
    bytes
}

/// A number that nobody can guess.
pub(crate) fn random() -> Option<u64> {
    let mut b = [0; 8];
    std::fs::File::open("/dev/urandom")
        .ok()?
        .read_exact(&mut b)
        .ok()?;
    Some(u64::from_ne_bytes(b))
}
