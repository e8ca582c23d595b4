//! Reads a line's history: a span of it, a moment, a sentence about either.
//!
//! Principles: records of another time than the last 60 days are none (a clock that stood wrong); spans are thinned by
//! means, extremes stay; a sentence has its subject first and says nothing that was not seen. Non-goals: printing,
//! time zones (who asks brings the offset).

use std::io;
use std::path::Path;

use evenkeel_core::units::rounded::milliseconds;
use serde::{Deserialize, Serialize};

use crate::minute::{kbit, ms};
use crate::recorder::files;
use crate::{DAYS, Happening, Minute, Ring, Week};

/// A day, s.
const DAY: u64 = 86_400;
/// Minutes around a moment that belong to its story.
const AROUND: u64 = 5;

/// What is known of a device's line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Book {
    /// Minutes, oldest first.
    pub minutes: Vec<Minute>,
    /// What happened, oldest first.
    pub happenings: Vec<Happening>,
    /// What could not be read, in words.
    pub trouble: Vec<String>,
}

/// A span of it, for programs and pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Read {
    /// Which.
    pub device: String,
    /// Its ends, seconds since 1970.
    pub from: u64,
    /// Not included.
    pub to: u64,
    /// In words.
    pub sentence: String,
    /// Minutes, or means of so many that there are not too many.
    pub minutes: Vec<Minute>,
    /// What happened.
    pub happenings: Vec<Happening>,
    /// By hour of the week, of all that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub week: Option<Week>,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trouble: Vec<String>,
}

impl Book {
    /// All that is kept of `device` below `dir`, at `now` (seconds since 1970).
    pub fn open(dir: &Path, device: &str, now: u64) -> io::Result<Self> {
        let [minutes, happenings] = files(dir, device);
        let mut book = Book::default();
        let read = Ring::read::<Minute>(&minutes)?;
        book.note(&minutes, read.damaged, read.trouble);
        book.minutes = read.records;
        let read = Ring::read::<Happening>(&happenings)?;
        book.note(&happenings, read.damaged, read.trouble);
        book.happenings = read.records;
        let is_kept = |at: u64| at <= now + DAY && at.saturating_add(DAYS * DAY) > now;
        book.minutes.retain(|m| is_kept(m.begins()));
        book.happenings.retain(|h| is_kept(h.at));
        Ok(book)
    }

    /// Devices that have a history below `dir`, sorted.
    pub fn devices(dir: &Path) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok());
        let mut all: Vec<String> = names
            .filter_map(|n| Some(n.strip_suffix(".minutes")?.to_owned()))
            .collect();
        all.sort();
        Ok(all)
    }

    fn note(&mut self, file: &Path, damaged: u64, trouble: Option<String>) {
        let file = file.display();
        if let Some(why) = trouble {
            self.trouble
                .push(format!("{file}: {why}; nothing of it is shown"));
        }
        if damaged > 0 {
            let what = if damaged == 1 {
                "record is"
            } else {
                "records are"
            };
            self.trouble
                .push(format!("{file}: {damaged} {what} damaged, and left out"));
        }
    }

    /// Minutes of a span.
    pub fn between(&self, from: u64, to: u64) -> Vec<Minute> {
        let is_in = |m: &&Minute| (from..to).contains(&m.begins());
        self.minutes.iter().filter(is_in).copied().collect()
    }

    /// A span, with at most `points` minutes; `offset`: seconds that local time is before UTC's.
    pub fn read(&self, device: &str, (from, to): (u64, u64), points: usize, offset: i64) -> Read {
        let minutes = self.between(from, to);
        let happened = self
            .happenings
            .iter()
            .filter(|h| (from..to).contains(&h.at));
        Read {
            device: device.to_owned(),
            from,
            to,
            sentence: sentence(device, &minutes),
            minutes: thin(&minutes, points),
            happenings: happened.cloned().collect(),
            week: Week::of(&self.minutes, offset),
            trouble: self.trouble.clone(),
        }
    }

    /// What is known of a moment: its minute, in words, and what happened around it.
    pub fn at(&self, device: &str, at: u64, clock: &str) -> (String, Vec<Happening>) {
        let minute = self.minutes.iter().find(|m| u64::from(m.minute) == at / 60);
        let around = (
            at.saturating_sub(AROUND * 60),
            at.saturating_add(AROUND * 60),
        );
        let happened = |h: &&Happening| (around.0..=around.1).contains(&h.at);
        let story = self.happenings.iter().filter(happened).cloned().collect();
        let Some(m) = minute else {
            return (format!("{device}: nothing is known of {clock}"), story);
        };
        let way = |passed, capacity: u32| match capacity {
            0 => kbit(passed),
            c => format!("{} of {}", kbit(passed), kbit(c)),
        };
        let mut text = format!(
            "{device} at {clock}: down {}, up {}",
            way(m.down.passed_kbit, m.down.capacity_kbit),
            way(m.up.passed_kbit, m.up.capacity_kbit)
        );
        if m.base_cms > 0 {
            text += &format!(
                "; latency felt {}, {} at worst, {} idle",
                milliseconds(ms(m.felt_cms)),
                milliseconds(ms(m.worst_cms)),
                milliseconds(ms(m.base_cms))
            );
        }
        text += where_the_delay_was(m);
        (text, story)
    }
}

/// Which queue was the longest, if there was one worth the name.
fn where_the_delay_was(m: &Minute) -> &'static str {
    /// Less than this nobody feels, hundredths of a millisecond.
    const LITTLE: u16 = 300;
    let queues = [
        (m.down.queue_cms, "; a download's queue stood at the line"),
        (m.up.queue_cms, "; an upload's queue stood at the line"),
        (m.down.own_cms, "; downloads waited in our own queue"),
        (m.up.own_cms, "; uploads waited in our own queue"),
    ];
    match queues.iter().max_by_key(|q| q.0) {
        Some((longest, words)) if *longest >= LITTLE => words,
        _ => "",
    }
}

/// A span in words.
fn sentence(device: &str, minutes: &[Minute]) -> String {
    let watched: u64 = minutes.iter().map(|m| u64::from(m.seconds)).sum();
    if watched == 0 {
        return format!("{device}: nothing was seen in that time");
    }
    let moved = |of: fn(&Minute) -> u32| {
        let kbit: f64 = minutes
            .iter()
            .map(|m| f64::from(of(m)) * f64::from(m.seconds))
            .sum();
        evenkeel_core::units::rounded::bytes(kbit * 1000.0 / 8.0)
    };
    let most = |of: fn(&Minute) -> u32| minutes.iter().map(of).max().unwrap_or(0);
    let mut text = format!(
        "{device}: {} down and {} up, at most {} and {}",
        moved(|m| m.down.passed_kbit),
        moved(|m| m.up.passed_kbit),
        kbit(most(|m| m.down.most_kbit)),
        kbit(most(|m| m.up.most_kbit)),
    );
    let mut felt: Vec<u16> = minutes
        .iter()
        .filter(|m| m.base_cms > 0)
        .map(|m| m.felt_cms)
        .collect();
    felt.sort_unstable();
    if let (Some(half), Some(worst)) = (
        felt.get(felt.len() / 2),
        minutes.iter().map(|m| m.worst_cms).max(),
    ) {
        text += &format!(
            "; latency felt {}, {} at worst",
            milliseconds(ms(*half)),
            milliseconds(ms(worst))
        );
    }
    text
}

/// At most `points` minutes: means of neighbours, their worst, and all that happened in them.
pub(crate) fn thin(minutes: &[Minute], points: usize) -> Vec<Minute> {
    let each = minutes.len().div_ceil(points.max(1)).max(1);
    minutes.chunks(each).filter_map(merge).collect()
}

/// Several minutes as one.
pub(crate) fn merge(minutes: &[Minute]) -> Option<Minute> {
    let (first, last) = (minutes.first()?, minutes.last()?);
    let n = minutes.len() as u64;
    let mean = |of: &dyn Fn(&Minute) -> u64| minutes.iter().map(of).sum::<u64>() / n;
    let most = |of: &dyn Fn(&Minute) -> u64| minutes.iter().map(of).max().unwrap_or(0);
    let way = |pick: fn(&Minute) -> &crate::Way| crate::Way {
        capacity_kbit: pick(last).capacity_kbit,
        shaped_kbit: pick(last).shaped_kbit,
        passed_kbit: mean(&|m| pick(m).passed_kbit.into()) as u32,
        most_kbit: most(&|m| pick(m).most_kbit.into()) as u32,
        queue_cms: mean(&|m| pick(m).queue_cms.into()) as u16,
        own_cms: mean(&|m| pick(m).own_cms.into()) as u16,
    };
    Some(Minute {
        minute: first.minute,
        seconds: mean(&|m| m.seconds.into()) as u8,
        down: way(|m| &m.down),
        up: way(|m| &m.up),
        base_cms: mean(&|m| m.base_cms.into()) as u16,
        felt_cms: mean(&|m| m.felt_cms.into()) as u16,
        worst_cms: most(&|m| m.worst_cms.into()) as u16,
        kinds: minutes.iter().fold(0, |all, m| all | m.kinds),
    })
}
