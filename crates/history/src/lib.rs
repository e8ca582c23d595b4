//! What a line did: a record for each minute of 60 days, and what happened, in files of bounded size.
//!
//! A newcomer's way in: [`Minute`] is what is kept, [`Ring`] is the file, [`Recorder`] writes while `run` runs,
//! [`Book`] reads for `evenkeel history`;
//! [`usage::Usage`] is how much the line has moved. Principles: a record has its own checksum and its own place, so that
//! whatever happens to a file costs the records that it happened to and no other; nothing is ever moved, so nothing
//! can be half moved; what cannot be read is counted and said. Non-goals: rates of single flows, seconds, and drawing
//! (`picture` makes text; pages are others').

mod book;
mod happening;
mod minute;
pub mod picture;
mod recorder;
mod ring;
pub mod usage;
mod use_time;
mod week;

pub use book::{Book, Read};
pub use happening::Happening;
pub use minute::{Kind, Minute, Way};
pub use recorder::{Look, Recorder};
pub use ring::{Found, Record, Ring};
pub use use_time::{InUse, UseTimer};
pub use week::{Hour, Week};

/// So long minutes are kept.
pub const DAYS: u64 = 60;
/// Minutes of a day.
pub const MINUTES_OF_A_DAY: u64 = 1440;
/// So many minutes are kept.
pub const MINUTES: u64 = DAYS * MINUTES_OF_A_DAY;
/// So many happenings are kept: one each twenty minutes for 56 days.
pub const HAPPENINGS: u64 = 4096;
