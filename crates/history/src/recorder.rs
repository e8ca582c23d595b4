//! Writes the history while a line is followed: looks go in, a record comes out each minute.
//!
//! Principles: the wall clock is only asked which minute it is, spans come from whoever looks; what cannot be written
//! is said once, and tried again with the next minute; a disk that is full stops nothing. Non-goals: what is looked at.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Happening, Kind, Minute, Ring, Way};

/// Happenings that are written in a minute, at most: a line that never settles must not push out a week.
const EACH_MINUTE: usize = 4;

/// One look at one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Look {
    /// What the line carries, kbit/s; 0: not known.
    pub capacity_kbit: f64,
    /// What it is shaped to, kbit/s; 0: not shaped.
    pub shaped_kbit: f64,
    /// What passes now, kbit/s.
    pub passes_kbit: f64,
    /// Queue at the bottleneck, ms.
    pub queue_ms: f64,
    /// Queue in our own shaper, ms.
    pub own_ms: f64,
}

/// Sums of a minute that is not over.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    seconds: f64,
    passed: f64,
    most: f64,
    queue: f64,
    own: f64,
    last: Look,
}

impl Sums {
    fn add(&mut self, look: &Look, seconds: f64) {
        self.seconds += seconds;
        self.passed += look.passes_kbit * seconds;
        self.queue += look.queue_ms * seconds;
        self.own += look.own_ms * seconds;
        self.most = self.most.max(look.passes_kbit);
        self.last = *look;
    }

    fn way(&self) -> Way {
        let mean = |sum: f64| {
            if self.seconds > 0.0 {
                sum / self.seconds
            } else {
                0.0
            }
        };
        Way {
            capacity_kbit: self.last.capacity_kbit.round() as u32,
            shaped_kbit: self.last.shaped_kbit.round() as u32,
            passed_kbit: mean(self.passed).round() as u32,
            most_kbit: self.most.round() as u32,
            queue_cms: hundredths(mean(self.queue)),
            own_cms: hundredths(mean(self.own)),
        }
    }
}

/// Hundredths of a millisecond; 655 ms and more are the same.
fn hundredths(ms: f64) -> u16 {
    (ms * 100.0).round() as u16
}

/// A minute that is not over.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    minute: u32,
    down: Sums,
    up: Sums,
    base_ms: f64,
    felt: f64,
    worst: f64,
    kinds: u16,
}

impl Open {
    fn close(&self) -> Minute {
        let seconds = self.down.seconds;
        Minute {
            minute: self.minute,
            seconds: seconds.round().min(60.0) as u8,
            down: self.down.way(),
            up: self.up.way(),
            // Nought would mean that it is not known.
            base_cms: hundredths(self.base_ms).max(u16::from(self.base_ms > 0.0)),
            felt_cms: hundredths(if seconds > 0.0 {
                self.felt / seconds
            } else {
                0.0
            }),
            worst_cms: hundredths(self.worst),
            kinds: self.kinds,
        }
    }
}

/// Writes the two files of a line.
#[derive(Debug)]
pub struct Recorder {
    minutes: PathBuf,
    happenings: PathBuf,
    files: Option<(Ring, Ring)>,
    open: Option<Open>,
    waiting: VecDeque<Happening>,
    /// Happenings of this minute that were taken.
    taken: usize,
    next: u64,
    /// The last attempt failed, which was said.
    failed: bool,
}

/// The files of a device below `dir`.
pub(crate) fn files(dir: &Path, device: &str) -> [PathBuf; 2] {
    let plain = device.replace(
        |c: char| !(c.is_ascii_alphanumeric() || ".:_-".contains(c)),
        "-",
    );
    ["minutes", "happenings"].map(|end| dir.join(format!("{plain}.{end}")))
}

impl Recorder {
    /// For `device`, below `dir`. Nothing is written yet.
    pub fn new(dir: &Path, device: &str) -> Self {
        let [minutes, happenings] = files(dir, device);
        Recorder {
            minutes,
            happenings,
            files: None,
            open: None,
            waiting: VecDeque::new(),
            taken: 0,
            next: 0,
            failed: false,
        }
    }

    /// Looks at both directions, `seconds` after the last look, at `now` (seconds since 1970). Says what could not be
    /// written, once.
    pub fn look(
        &mut self,
        now: u64,
        seconds: f64,
        base_ms: Option<f64>,
        down: &Look,
        up: &Look,
    ) -> Option<String> {
        let said = self.turn(now);
        let open = self.open.get_or_insert_default();
        // A machine that slept does not make a minute of hours.
        let seconds = if seconds.is_finite() {
            seconds.clamp(0.0, 5.0)
        } else {
            0.0
        };
        open.down.add(down, seconds);
        open.up.add(up, seconds);
        open.base_ms = base_ms.unwrap_or(0.0);
        let felt = open.base_ms + down.queue_ms + up.queue_ms + down.own_ms + up.own_ms;
        open.felt += felt * seconds;
        open.worst = open.worst.max(felt);
        said
    }

    /// Something happened, in words.
    pub fn happened(&mut self, now: u64, kind: Kind, text: &str) -> Option<String> {
        let said = self.turn(now);
        self.open.get_or_insert_default().kinds |= kind.bit();
        if self.taken < EACH_MINUTE {
            self.taken += 1;
            self.waiting.push_back(Happening::new(0, now, kind, text));
        }
        said
    }

    /// Writes what there is, also of a minute that is not over.
    pub fn close(&mut self) -> Option<String> {
        let open = self.open.take();
        self.write(open.map(|o| o.close()))
    }

    /// Begins another minute if it is time.
    fn turn(&mut self, now: u64) -> Option<String> {
        let minute = (now / 60) as u32;
        let before = self.open.filter(|o| o.minute != minute);
        if self.open.is_some() && before.is_none() {
            return None;
        }
        self.open = Some(Open {
            minute,
            ..Open::default()
        });
        self.taken = 0;
        before.and_then(|o| self.write(Some(o.close())))
    }

    fn write(&mut self, minute: Option<Minute>) -> Option<String> {
        match self.try_write(minute) {
            Ok(said) => {
                self.failed = false;
                said
            }
            Err(e) => {
                // No more than a minute's: the rest is lost, and so is this minute.
                self.waiting.truncate(EACH_MINUTE);
                self.files = None;
                let first = !std::mem::replace(&mut self.failed, true);
                first.then(|| {
                    format!(
                        "write {}: {e}; this minute is not kept",
                        self.minutes.display()
                    )
                })
            }
        }
    }

    fn try_write(&mut self, minute: Option<Minute>) -> io::Result<Option<String>> {
        let mut said = None;
        if self.files.is_none() {
            let (minutes, first) = Ring::open::<Minute>(&self.minutes)?;
            let (happenings, second) = Ring::open::<Happening>(&self.happenings)?;
            let known = Ring::read::<Happening>(&self.happenings)?;
            self.next = known.records.last().map_or(0, |h| h.number + 1);
            said = first.or(second);
            self.files = Some((minutes, happenings));
        }
        let Some((minutes, happenings)) = &self.files else {
            return Ok(said);
        };
        if let Some(minute) = minute.filter(|m| m.seconds > 0 || m.kinds != 0) {
            minutes.put(&minute)?;
        }
        while let Some(mut happening) = self.waiting.front().cloned() {
            happening.number = self.next;
            happenings.put(&happening)?;
            self.waiting.pop_front();
            self.next += 1;
        }
        Ok(said)
    }
}
