//! A minute of a line, in 60 bytes.
//!
//! Principles: what a person asks of an evening: how much passed, what the line carried, how late packets were, and
//! whether anything happened; nought means not known, so a capacity of nought is none. Non-goals: seconds.

use evenkeel_core::Rate;
use evenkeel_core::units::rounded::rate;
use serde::{Deserialize, Serialize};

use crate::{MINUTES, Record};

/// What happened in a minute, as bits of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `run` began.
    Began,
    /// It ended.
    Ended,
    /// Rates were changed for a reason that is news.
    Changed,
    /// A queue stood at the bottleneck.
    Queue,
    /// Something else is probed.
    Reflector,
    /// Nothing answers.
    NoSignal,
    /// Somebody else loads the line.
    CrossTraffic,
    /// The device has gone.
    Gone,
    /// It is there again.
    Back,
    /// Something to mind.
    Warning,
    /// Somebody told it something.
    Told,
}

impl Kind {
    /// All, by their bits.
    pub const ALL: [Kind; 11] = [
        Kind::Began,
        Kind::Ended,
        Kind::Changed,
        Kind::Queue,
        Kind::Reflector,
        Kind::NoSignal,
        Kind::CrossTraffic,
        Kind::Gone,
        Kind::Back,
        Kind::Warning,
        Kind::Told,
    ];

    /// Its bit.
    pub fn bit(self) -> u16 {
        1 << (self as u16)
    }

    /// That of a number.
    pub(crate) fn of(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number)).copied()
    }
}

/// One direction. Rates are at the link layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// What the line carried at the end of the minute, kbit/s; 0: not known.
    pub capacity_kbit: u32,
    /// What it was shaped to then, kbit/s; 0: not shaped.
    pub shaped_kbit: u32,
    /// What passed, the mean, kbit/s.
    pub passed_kbit: u32,
    /// The most that passed in half a second, kbit/s.
    pub most_kbit: u32,
    /// Queue at the bottleneck, the mean, hundredths of a millisecond.
    pub queue_cms: u16,
    /// Queue in our own shaper, the mean, hundredths of a millisecond.
    pub own_cms: u16,
}

/// A minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minute {
    /// Minutes since 1970, UTC.
    pub minute: u32,
    /// Seconds of it that were watched.
    pub seconds: u8,
    /// Towards us.
    pub down: Way,
    /// From us.
    pub up: Way,
    /// Round trip of the idle line, hundredths of a millisecond; 0: not known.
    pub base_cms: u16,
    /// Round trip that was felt (base, the line's queues and ours): the mean, hundredths of a millisecond.
    pub felt_cms: u16,
    /// The longest of it.
    pub worst_cms: u16,
    /// What happened, bits of [`Kind`].
    pub kinds: u16,
}

impl Minute {
    /// Whether `kind` happened.
    pub fn has(&self, kind: Kind) -> bool {
        self.kinds & kind.bit() != 0
    }

    /// Its beginning, seconds since 1970.
    pub fn begins(&self) -> u64 {
        u64::from(self.minute) * 60
    }
}

/// Milliseconds of hundredths.
pub(crate) fn ms(hundredths: u16) -> f64 {
    f64::from(hundredths) / 100.0
}

/// As people read it.
pub(crate) fn kbit(kbit: u32) -> String {
    rate(Rate::from_kbit(kbit.into()))
}

impl Record for Minute {
    const SIZE: usize = 60;
    const KIND: u32 = 1;
    const SLOTS: u64 = MINUTES;

    fn number(&self) -> u64 {
        self.minute.into()
    }

    fn encode(&self, to: &mut [u8]) {
        let mut all = Vec::with_capacity(Self::SIZE);
        all.extend(self.minute.to_le_bytes());
        for way in [&self.down, &self.up] {
            for word in [
                way.capacity_kbit,
                way.shaped_kbit,
                way.passed_kbit,
                way.most_kbit,
            ] {
                all.extend(word.to_le_bytes());
            }
            all.extend(way.queue_cms.to_le_bytes());
            all.extend(way.own_cms.to_le_bytes());
        }
        for half in [self.base_cms, self.felt_cms, self.worst_cms, self.kinds] {
            all.extend(half.to_le_bytes());
        }
        all.push(self.seconds);
        all.resize(Self::SIZE, 0);
        to.copy_from_slice(&all);
    }

    fn decode(from: &[u8]) -> Option<Self> {
        let mut rest = from;
        let mut word = || {
            let (bytes, after) = rest.split_first_chunk::<4>()?;
            rest = after;
            Some(u32::from_le_bytes(*bytes))
        };
        let minute = word()?;
        let mut way = || {
            let [capacity_kbit, shaped_kbit, passed_kbit, most_kbit] =
                [word()?, word()?, word()?, word()?];
            let queues = word()?;
            Some(Way {
                capacity_kbit,
                shaped_kbit,
                passed_kbit,
                most_kbit,
                queue_cms: queues as u16,
                own_cms: (queues >> 16) as u16,
            })
        };
        let (down, up) = (way()?, way()?);
        let (trips, more) = (word()?, word()?);
        let seconds = word()? as u8;
        Some(Minute {
            minute,
            seconds,
            down,
            up,
            base_cms: trips as u16,
            felt_cms: (trips >> 16) as u16,
            worst_cms: more as u16,
            kinds: (more >> 16) as u16,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_minute() {
        let minute = Minute {
            minute: 0x0102_0304,
            seconds: 60,
            down: Way {
                capacity_kbit: 100_000,
                shaped_kbit: 99_500,
                passed_kbit: 7,
                most_kbit: 8,
                queue_cms: 0x1112,
                own_cms: 0x2122,
            },
            up: Way::default(),
            base_cms: 920,
            felt_cms: 1010,
            worst_cms: 65_535,
            kinds: Kind::Began.bit() | Kind::Told.bit(),
        };
        let mut bytes = [0xff; Minute::SIZE];
        minute.encode(&mut bytes);
        assert_eq!(bytes[..8], [4, 3, 2, 1, 0xa0, 0x86, 1, 0]);
        assert_eq!(bytes[20..24], [0x12, 0x11, 0x22, 0x21]);
        assert_eq!(
            bytes[44..60],
            [0x98, 3, 0xf2, 3, 0xff, 0xff, 1, 4, 60, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(Minute::decode(&bytes), Some(minute));
        assert_eq!(Minute::decode(&bytes[..50]), None);
        assert!(minute.has(Kind::Told) && !minute.has(Kind::Gone));
    }
}
