//! `history`: what the line did, as a sentence and a picture.
//!
//! Principles: times are local, as people say them; what could not be read is said below; where a daemon runs it is
//! asked, so that no rights to its files are needed. Non-goals: pictures in files (`evenkeel-lab`), seconds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use evenkeel_autorate::PROFILE_DIR;
use evenkeel_core::units::rounded::wrapped;
use evenkeel_history::{Book, Happening, Read, picture};
use evenkeel_kernel::StateDir;
use evenkeel_socket::Request;
use evenkeel_sys::clock;
use evenkeel_terminal::paint::{Ink, ink};
use evenkeel_terminal::{Failure, print};

use crate::args::StateArg;
use crate::ask;

/// Arguments of `history`.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// The device; without it, each that has a history
    device: Option<String>,
    /// A moment: 20:15 (today's, or yesterday's), or 2026-11-23T20:15
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// So many days, up to 60
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u64).range(1..=evenkeel_history::DAYS))]
    days: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where histories are kept
    #[arg(long, value_name = "DIR", default_value = PROFILE_DIR, hide = true)]
    profile_dir: PathBuf,
    #[command(flatten)]
    state: StateArg,
}

/// A day, s.
const DAY: u64 = 86_400;
/// Around a moment so much is drawn on each side, s.
const AROUND: u64 = 1800;
/// No less than this is drawn, s.
const SHORTEST: u64 = 3600;
/// Points of a span for programs.
pub(crate) const POINTS: usize = 2000;
/// Rows of what happened.
const ROWS: usize = 20;
/// Where there is no terminal.
const WIDTH: usize = 100;

/// `evenkeel history`.
pub(crate) fn history(args: &History) -> Result<(), Failure> {
    let now = clock::realtime().as_secs();
    let at = args.at.as_deref().map(|t| moment(t, now)).transpose()?;
    let (from, to) = span(at, args.days, now);
    let request = Request::History {
        device: args.device.clone(),
        from,
        to,
        points: POINTS,
        at,
    };
    let dir = StateDir::new(&args.state.state_dir);
    let all: Vec<Read> = ask::ask(&dir, &request, || {
        let span = Span {
            from,
            to,
            points: POINTS,
            at,
        };
        read(&args.profile_dir, args.device.as_deref(), &span)
    })?;
    if all.is_empty() {
        let dir = args.profile_dir.display();
        return Err(Failure::work(format_args!(
            "there is no history in {dir}: `evenkeel run` writes one"
        )));
    }
    if !args.json {
        let all: String = all.iter().map(shown).collect();
        return print(&all);
    }
    {
        let text = serde_json::to_string(&all).map_err(Failure::work)?;
        print(&(text + "\n"))
    }
}

/// What is asked of a history.
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// At most so many minutes.
    pub(crate) points: usize,
    /// The story of this moment, rather than of the whole.
    pub(crate) at: Option<u64>,
}

/// That of `device`, or of all that have one, from the files below `dir`.
pub(crate) fn read(dir: &Path, device: Option<&str>, span: &Span) -> Result<Vec<Read>, Failure> {
    let failed = |e| Failure::work(format_args!("read {}: {e}", dir.display()));
    let now = clock::realtime().as_secs();
    let devices = match device {
        Some(device) => vec![device.to_owned()],
        None => Book::devices(dir).map_err(failed)?,
    };
    let mut all = Vec::new();
    for device in &devices {
        let book = Book::open(dir, device, now).map_err(failed)?;
        let mut read = book.read(
            device,
            (span.from, span.to),
            span.points,
            clock::local_offset(now),
        );
        if let Some(at) = span.at {
            (read.sentence, read.happenings) = book.at(device, at, &words(at, true));
        }
        all.push(read);
    }
    Ok(all)
}

/// What is drawn.
fn span(at: Option<u64>, days: u64, now: u64) -> (u64, u64) {
    match at {
        Some(at) => (at.saturating_sub(AROUND) / 60 * 60, (at + AROUND) / 60 * 60),
        None => (
            (now + 60).saturating_sub(days * DAY) / 60 * 60,
            (now + 60) / 60 * 60,
        ),
    }
}

fn shown(read: &Read) -> String {
    let minutes = &read.minutes;
    let mut text = format!(
        "{}\n",
        ink(Ink::Bold, wrapped("", &read.sentence).trim_end())
    );
    if let Some(week) = read.week.as_ref().filter(|w| !w.sentence.is_empty()) {
        text += &wrapped("", &week.sentence);
    }
    if !minutes.is_empty() {
        let width = terminal_size::terminal_size().map_or(WIDTH, |(w, _)| usize::from(w.0));
        // A history that has just begun is not drawn at the edge of an empty day.
        let begins = minutes
            .first()
            .map_or(read.from, evenkeel_history::Minute::begins);
        let from = begins.min(read.to.saturating_sub(SHORTEST)).max(read.from);
        let long = read.to - from > DAY;
        text += &picture::draw(minutes, (from, read.to), width, &|t| words(t, long));
    }
    let more = read.happenings.len().saturating_sub(ROWS);
    if more > 0 {
        text += &format!("  {more} things that happened before are left out; --json has them\n");
    }
    for h in read.happenings.iter().skip(more) {
        text += &happening(h);
    }
    for why in &read.trouble {
        text += &format!("{}: {why}\n", ink(Ink::Yellow, "warning"));
    }
    text
}

fn happening(h: &Happening) -> String {
    wrapped(&format!("  {}  ", words(h.at, true)), &h.text)
}

/// A time as people here say it.
fn words(at: u64, with_date: bool) -> String {
    let local = at.saturating_add_signed(clock::local_offset(at));
    let local = humantime::format_rfc3339_seconds(
        std::time::UNIX_EPOCH + Duration::from_secs(local.min(1 << 37)),
    );
    let local = local.to_string();
    let (date, clock) = (
        local.get(5..10).unwrap_or(""),
        local.get(11..16).unwrap_or(""),
    );
    if with_date {
        format!("{date} {clock}")
    } else {
        clock.to_owned()
    }
}

/// `20:15`, the latest one that is over, or `2026-11-23T20:15`, in local time.
fn moment(text: &str, now: u64) -> Result<u64, Failure> {
    let wrong = || {
        Failure::usage(format_args!(
            "--at {text:?} is neither like 20:15 nor like 2026-11-23T20:15"
        ))
    };
    if text.len() > 16 {
        let full = text.get(..16).ok_or_else(wrong)?;
        return moment(full, now);
    }
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (Some(date), time),
        None => (None, text),
    };
    let (hours, minutes) = time.split_once(':').ok_or_else(wrong)?;
    let number = |t: &str, most: u64| t.parse::<u64>().ok().filter(|n| *n < most);
    let (Some(hours), Some(minutes)) = (number(hours, 24), number(minutes, 60)) else {
        return Err(wrong());
    };
    let seconds = hours * 3600 + minutes * 60;
    let local = |day: u64| {
        let utc = day + seconds;
        utc.saturating_add_signed(-clock::local_offset(utc))
    };
    if let Some(date) = date {
        let day = humantime::parse_rfc3339(&format!("{date}T00:00:00Z")).map_err(|_| wrong())?;
        let day = day
            .duration_since(std::time::UNIX_EPOCH)
            .map_err(|_| wrong())?;
        return Ok(local(day.as_secs()));
    }
    let today = now.saturating_add_signed(clock::local_offset(now)) / DAY * DAY;
    let at = local(today);
    Ok(if at <= now {
        at
    } else {
        local(today.saturating_sub(DAY))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_latest_one_that_is_over() {
        let now = 1_788_220_800 + 12 * 3600;
        for text in ["20:15", "00:00", "23:59", "9:05"] {
            let at = moment(text, now).unwrap();
            assert!(at <= now && at + DAY > now, "{text}");
            assert!(
                words(at, true).ends_with(&format!("{text:0>5}")),
                "{text}: {}",
                words(at, true)
            );
        }
        let at = moment("2026-08-31T20:15", now).unwrap();
        assert_eq!(words(at, true), "08-31 20:15");
        assert_eq!(moment("2026-08-31 20:15:59", now).unwrap(), at);
        for wrong in [
            "",
            "20",
            "24:00",
            "20:60",
            "20:15x",
            "2026-13-01T00:00",
            "a:b",
            "ü:ü",
            "T",
            "99999999999999999:1",
        ] {
            assert!(moment(wrong, now).is_err(), "{wrong}");
        }
    }
}
