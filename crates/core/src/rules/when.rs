//! Times of the week: `22:00-06:00 mon-fri`.
//!
//! Principles: by the clock on the wall; a time that ends before it begins ends on the next day, and belongs to the day
//! on which it began. Non-goals: dates, time zones (whoever asks knows the wall's clock).

use std::fmt;

/// Minutes of a day.
const DAY: u16 = 24 * 60;
const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const EVERY: u8 = 0x7f;

/// When something holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct When {
    /// First minute of the day, and the one after the last; `None`: the whole day.
    span: Option<(u16, u16)>,
    /// Days, Monday is bit 0; 0: all.
    days: u8,
}

/// Whether a word speaks of time.
pub(super) fn is_part(word: &str) -> bool {
    let first = word.split(['-', ',']).next().unwrap_or_default();
    word.as_bytes().first().is_some_and(u8::is_ascii_digit) && first.contains(':')
        || NAMES.contains(&first)
}

impl When {
    /// Adds a word to what was said before.
    pub(super) fn add(to: &mut Option<When>, word: &str) -> Result<(), String> {
        let mut when = to.unwrap_or_default();
        let twice = || format!("{word:?}: that was said before");
        if word.contains(':') {
            let (from, until) = word
                .split_once('-')
                .ok_or_else(|| format!("{word:?} has no end: 22:00-06:00"))?;
            if when.span.replace((minute(from)?, minute(until)?)).is_some() {
                return Err(twice());
            }
        } else {
            if when.days != 0 {
                return Err(twice());
            }
            when.days = days(word)?;
        }
        *to = Some(when);
        Ok(())
    }

    /// Of words as in a rule.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut when = None;
        for word in text.split_whitespace() {
            if !is_part(word) {
                return Err(format!("{word:?} is no time: 22:00-06:00 mon-fri"));
            }
            When::add(&mut when, word)?;
        }
        when.ok_or_else(|| "no time is said: 22:00-06:00 mon-fri".into())
    }

    /// Whether it holds in this minute of the week, which begins on Monday.
    pub fn holds(&self, minute: u16) -> bool {
        let (day, minute) = ((minute / DAY) % 7, minute % DAY);
        let days = if self.days == 0 { EVERY } else { self.days };
        let on = |day: u16| days & (1 << (day % 7)) != 0;
        match self.span {
            None => on(day),
            Some((from, until)) if from < until => on(day) && (from..until).contains(&minute),
            Some((from, until)) => on(day) && minute >= from || on(day + 6) && minute < until,
        }
    }
}

fn minute(text: &str) -> Result<u16, String> {
    let parsed = text.split_once(':').and_then(|(hours, minutes)| {
        let two = |t: &str| {
            t.parse::<u16>()
                .ok()
                .filter(|_| t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit()))
        };
        Some((two(hours)?, two(minutes)?))
    });
    match parsed {
        Some((24, 0)) => Ok(DAY),
        Some((hours @ 0..24, minutes @ 0..60)) => Ok(60 * hours + minutes),
        _ => Err(format!("{text:?} is no time of the day, like 22:00")),
    }
}

fn days(text: &str) -> Result<u8, String> {
    let number = |name: &str| {
        let found = NAMES.iter().position(|n| *n == name);
        found.ok_or_else(|| format!("{name:?} is no day, like mon"))
    };
    let mut all = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        // `fri-mon` goes over the weekend.
        let count = (last + 7 - first) % 7;
        all |= (0..=count).fold(0, |all, n| all | 1u8 << ((first + n) % 7));
    }
    Ok(all)
}

/// In the form that is read.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((from, until)) = self.span {
            let clock = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
            write!(f, "{}-{}", clock(from), clock(until))?;
            if self.days != 0 {
                f.write_str(" ")?;
            }
        }
        let on = |day: usize| self.days & (1 << day) != 0;
        let mut day = 0;
        let mut before = "";
        while day < 7 {
            let length = (day..7).take_while(|d| on(*d)).count();
            match length {
                0 => {}
                1 => write!(f, "{before}{}", NAMES[day])?,
                2 => write!(f, "{before}{},{}", NAMES[day], NAMES[day + 1])?,
                n => write!(f, "{before}{}-{}", NAMES[day], NAMES[day + n - 1])?,
            }
            if length > 0 {
                before = ",";
            }
            day += length.max(1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn when(text: &str) -> When {
        When::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn nights_belong_to_the_evening() {
        let at = |day: u16, hour: u16| day * DAY + hour * 60;
        let night = when("22:00-06:00 mon-fri");
        for (day, hour, holds) in [
            (0, 5, false), // Monday morning is Sunday's night
            (0, 21, false),
            (0, 22, true),
            (1, 5, true),
            (1, 6, false),
            (4, 23, true),
            (5, 5, true), // Saturday morning is Friday's
            (5, 23, false),
            (6, 3, false),
        ] {
            assert_eq!(night.holds(at(day, hour)), holds, "{day} {hour}");
        }
        assert!(when("sun").holds(at(6, 0)) && !when("sun").holds(at(0, 0)));
        assert!(when("fri-mon 00:00-24:00").holds(at(0, 12)) && !when("fri-mon").holds(at(1, 12)));
        // It ends where it begins: a whole day and night.
        assert!((0..7 * 24).all(|h| when("06:00-06:00").holds(h * 60)));
    }

    #[test]
    fn forms() {
        for text in [
            "22:00-06:00",
            "mon-fri",
            "00:00-24:00 sat,sun",
            "mon,wed-fri,sun",
        ] {
            assert_eq!(when(text).to_string(), text);
        }
        assert_eq!(when("fri-mon"), when("mon,fri-sun"));
        for text in [
            "",
            "22:00",
            "22:60-23:00",
            "24:01-05:00",
            "1:00-2:00",
            "mon mon",
            "x",
            "mon-",
        ] {
            assert!(When::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read(from in 0..DAY, until in 0..=DAY, days in 0..=EVERY) {
            let when = When { span: Some((from, until)), days };
            prop_assert_eq!(When::parse(&when.to_string()), Ok(when));
        }

        #[test]
        fn any_text(text: String) {
            let _ = When::parse(&text);
        }
    }
}
