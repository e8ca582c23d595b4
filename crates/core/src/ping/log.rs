//! The log of a run: a line of text for each probe.
//!
//! ```text
//! # evenkeel ping 1
//! # target heise.de
//! # columns time_s seq size fate from received ttl felt_us queue_us path_us stamps ingress_us
//! 1760000000.123456789 0 32 reply 193.99.144.80 32 57 12345.678 12.300 11333.378 kernel 1000.000
//! 1760000000.323456789 1 32 timeout - - - - - - program -
//! ```
//!
//! Principles: columns are separated by one space, `-` is what is absent; times are microseconds
//! with three decimals, so nothing of the kernel's stamps is lost; lines stand in the order in
//! which fates became known; what a run was stands above them as `# key value`; a last line
//! without its end (a full disk, a kill) is left out. Readers skip other `#` lines and further
//! columns. Non-goals: sizes beyond what memory holds.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use super::{Delays, Outcome};

/// The first line.
pub const MAGIC: &str = "# evenkeel ping 1";
const COLUMNS: &str =
    "# columns time_s seq size fate from received ttl felt_us queue_us path_us stamps ingress_us";

/// A log that was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    /// What the run was: `# key value`.
    pub about: Vec<(String, String)>,
    /// The probes in the order of the file.
    pub outcomes: Vec<Outcome>,
}

/// Why a text is no log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct LogError {
    line: usize,
    why: String,
}

/// The lines above the probes. Line breaks in keys and values become spaces.
pub fn header(about: &[(&str, String)]) -> String {
    let mut text = format!("{MAGIC}\n");
    for (key, value) in about {
        let value: String = value
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let _ = writeln!(text, "# {key} {value}");
    }
    text + COLUMNS + "\n"
}

fn put(text: &mut String, value: Option<impl std::fmt::Display>) {
    let _ = match value {
        Some(v) => write!(text, " {v}"),
        None => write!(text, " -"),
    };
}

/// The line of a probe, with its end.
pub fn line(o: &Outcome) -> String {
    let mut text = format!(
        "{}.{:09} {} {} {}",
        o.sent.as_secs(),
        o.sent.subsec_nanos(),
        o.seq,
        o.size,
        o.fate
    );
    put(&mut text, o.from);
    put(&mut text, o.received);
    put(&mut text, o.ttl);
    let us = |d: Duration| format!("{}.{:03}", d.as_micros(), d.subsec_nanos() % 1000);
    put(&mut text, o.delays.map(|d| us(d.felt)));
    put(&mut text, o.delays.and_then(|d| d.queue).map(us));
    put(&mut text, o.delays.and_then(|d| d.path).map(us));
    put(
        &mut text,
        Some(if o.stamped { "kernel" } else { "program" }),
    );
    put(&mut text, o.delays.and_then(|d| d.ingress).map(us));
    text.push('\n');
    text
}

/// Whether a text begins as a log does.
pub fn is_log(text: &str) -> bool {
    text.lines()
        .next()
        .is_some_and(|l| l.starts_with("# evenkeel ping "))
}

impl FromStr for Log {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        let mut log = Log::default();
        if !is_log(text) {
            return Err(LogError {
                line: 1,
                why: format!("no log of evenkeel ping: it does not begin with {MAGIC:?}"),
            });
        }
        if text.lines().next() != Some(MAGIC) {
            return Err(LogError {
                line: 1,
                why: "a later form than this evenkeel knows: update evenkeel".into(),
            });
        }
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let Some(line) = line.strip_suffix('\n') else {
                break;
            };
            let line = line.strip_suffix('\r').unwrap_or(line);
            if let Some(comment) = line.strip_prefix('#') {
                if let Some((key, value)) = comment.trim_start().split_once(' ')
                    && !matches!(key, "evenkeel" | "columns")
                {
                    log.about.push((key.to_owned(), value.to_owned()));
                }
            } else if !line.trim().is_empty() {
                let probe = parse(line).map_err(|column| LogError {
                    line: number,
                    why: format!("its column {column:?} cannot be read"),
                })?;
                log.outcomes.push(probe);
            }
        }
        Ok(log)
    }
}

impl Log {
    /// A value of the lines above the probes.
    pub fn about(&self, key: &str) -> Option<&str> {
        let found = self.about.iter().find(|(k, _)| k == key);
        found.map(|(_, v)| v.as_str())
    }
}

/// A probe from its line, or the name of the column that is wrong.
fn parse(line: &str) -> Result<Outcome, &'static str> {
    fn maybe<T>(
        column: Option<&str>,
        name: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, &'static str> {
        match column {
            None => Err(name),
            Some("-") => Ok(None),
            Some(text) => read(text).map(Some).ok_or(name),
        }
    }
    let mut columns = line.split(' ');
    let mut next = || columns.next();
    let sent = next().and_then(|c| decimal(c, 9)).ok_or("time_s")?;
    let seq = next().and_then(|c| c.parse().ok()).ok_or("seq")?;
    let size = next().and_then(|c| c.parse().ok()).ok_or("size")?;
    let fate = next().and_then(|c| c.parse().ok()).ok_or("fate")?;
    let from = maybe(next(), "from", |c| c.parse().ok())?;
    let received = maybe(next(), "received", |c| c.parse().ok())?;
    let ttl = maybe(next(), "ttl", |c| c.parse().ok())?;
    let us = |c: &str| decimal(c, 3);
    let felt = maybe(next(), "felt_us", us)?;
    let queue = maybe(next(), "queue_us", us)?;
    let path = maybe(next(), "path_us", us)?;
    let stamped = match next() {
        Some("kernel") => true,
        Some("program") => false,
        _ => return Err("stamps"),
    };
    // The first logs end here.
    let ingress = match next() {
        None => None,
        column => maybe(column, "ingress_us", us)?,
    };
    let time = Duration::from_nanos;
    Ok(Outcome {
        seq,
        sent: time(sent),
        size,
        fate,
        from,
        received,
        ttl,
        delays: felt.map(|felt| Delays {
            felt: time(felt),
            queue: queue.map(time),
            path: path.map(time),
            ingress: ingress.map(time),
        }),
        stamped,
    })
}

/// `digits[.digits]` as an integer of the unit's `10^-decimals`; further decimals are refused.
fn decimal(text: &str, decimals: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let places = u32::try_from(fraction.len()).ok()?;
    if !digits(whole) || !digits(fraction) || places > decimals {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = fraction.parse().ok()?;
    whole
        .checked_mul(10u64.pow(decimals))?
        .checked_add(fraction * 10u64.pow(decimals - places))
}

#[cfg(test)]
mod tests {
    use super::super::Fate;
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: &str = "# evenkeel ping 1\n# target heise.de\n\
        # columns time_s seq size fate from received ttl felt_us queue_us path_us stamps ingress_us\n\
        1760000000.123456789 0 32 reply 193.99.144.80 32 57 12345.678 12.300 11333.378 kernel 1000.000\n\
        1760000000.323456789 1 32 timeout - - - - - - program -\n";

    fn example() -> [Outcome; 2] {
        let reply = Outcome {
            seq: 0,
            sent: Duration::new(1_760_000_000, 123_456_789),
            size: 32,
            fate: Fate::Reply,
            from: Some([193, 99, 144, 80].into()),
            received: Some(32),
            ttl: Some(57),
            delays: Some(Delays {
                felt: Duration::from_nanos(12_345_678),
                queue: Some(Duration::from_nanos(12_300)),
                path: Some(Duration::from_nanos(11_333_378)),
                ingress: Some(Duration::from_millis(1)),
            }),
            stamped: true,
        };
        let lost = Outcome {
            seq: 1,
            sent: Duration::new(1_760_000_000, 323_456_789),
            size: 32,
            fate: Fate::Timeout,
            from: None,
            received: None,
            ttl: None,
            delays: None,
            stamped: false,
        };
        [reply, lost]
    }

    #[test]
    fn literal_lines_and_back() {
        let text: String = std::iter::once(header(&[("target", "heise.de".into())]))
            .chain(example().iter().map(line))
            .collect();
        assert_eq!(text, EXAMPLE);
        let log: Log = EXAMPLE.parse().unwrap();
        assert_eq!(log.outcomes, example());
        assert_eq!(
            (log.about("target"), log.about("x")),
            (Some("heise.de"), None)
        );
    }

    #[test]
    fn the_first_logs_say_nothing_of_the_ingress_queue() {
        let old = EXAMPLE.replace(" ingress_us", "").replace(" 1000.000", "");
        let old: Log = old.replace("program -", "program").parse().unwrap();
        let mut known = example();
        known[0].delays.as_mut().unwrap().ingress = None;
        assert_eq!(old.outcomes, known);
    }

    #[test]
    fn an_unfinished_line_is_left_out_and_a_wrong_one_named() {
        for cut in 1..56 {
            let log: Log = EXAMPLE[..EXAMPLE.len() - cut].parse().unwrap();
            assert_eq!(log.outcomes, example()[..1], "{cut}");
        }
        let why = |text: &str| text.parse::<Log>().unwrap_err().to_string();
        assert!(why("time,rtt\n").contains("no log"));
        assert!(why("# evenkeel ping 2\n").contains("update"));
        let e = why(&EXAMPLE.replace("timeout", "lost"));
        assert!(e.contains("line 5") && e.contains("fate"), "{e}");
        let e = why(&EXAMPLE.replace("12345.678", "12345.6789"));
        assert!(e.contains("felt_us"), "{e}");
    }

    #[test]
    fn line_breaks_in_a_value_become_spaces() {
        let text = header(&[("target", "a\nb\tc".into()), ("every", "200 ms".into())]);
        assert_eq!(
            text,
            "# evenkeel ping 1\n# target a b c\n# every 200 ms\n\
            # columns time_s seq size fate from received ttl felt_us queue_us path_us stamps ingress_us\n"
        );
        let log: Log = text.parse().unwrap();
        assert_eq!(log.about.len(), 2);
        assert_eq!(log.about("target"), Some("a b c"));
        assert_eq!(log.about("every"), Some("200 ms"));
    }

    #[test]
    fn only_what_begins_like_a_log_is_one() {
        for (text, yes) in [
            (EXAMPLE, true),
            ("# evenkeel ping 1\n", true),
            ("# evenkeel ping 2\n", true),
            ("", false),
            ("# evenkeel trace 1\n", false),
            ("\n# evenkeel ping 1\n", false),
        ] {
            assert_eq!(is_log(text), yes, "{text:?}");
        }
    }

    #[test]
    fn empty_lines_and_the_ends_of_other_systems_lines_are_skipped() {
        let text = EXAMPLE.replace('\n', "\r\n");
        let log: Log = format!("{text}\r\n  \n").parse().unwrap();
        assert_eq!(log.outcomes, example());
        assert_eq!(log.about("target"), Some("heise.de"));
    }

    #[test]
    fn each_column_that_cannot_be_read_is_named() {
        let good = "17.5 0 32 reply 192.0.2.1 32 57 1.5 0.5 1.0 kernel 0.25";
        assert!(parse(good).is_ok());
        let names = [
            "time_s",
            "seq",
            "size",
            "fate",
            "from",
            "received",
            "ttl",
            "felt_us",
            "queue_us",
            "path_us",
            "stamps",
            "ingress_us",
        ];
        for (i, name) in names.iter().enumerate() {
            let mut columns: Vec<&str> = good.split(' ').collect();
            columns[i] = "x";
            assert_eq!(parse(&columns.join(" ")), Err(*name));
            // The first logs end before the last one.
            let shorter = columns[..i].join(" ");
            assert_eq!(parse(&shorter).is_ok(), *name == "ingress_us", "{name}");
        }
        assert_eq!(parse(""), Err("time_s"));
        let further = format!("{good} and more");
        assert_eq!(parse(&further), parse(good), "further columns are skipped");
    }

    #[test]
    fn decimals_are_shifted_and_none_is_lost() {
        for (text, decimals, value) in [
            ("12", 3, Some(12_000)),
            ("12.3", 3, Some(12_300)),
            ("12.345", 3, Some(12_345)),
            ("0.001", 3, Some(1)),
            ("007.5", 3, Some(7500)),
            ("12.3456", 3, None),
            ("1.000000001", 9, Some(1_000_000_001)),
            ("18446744073.709551615", 9, Some(u64::MAX)),
            ("18446744073.709551616", 9, None),
            ("18446744074", 9, None),
            ("99999999999999999999", 3, None),
            ("", 3, None),
            (".5", 3, None),
            ("5.", 3, None),
            ("+5", 3, None),
            ("5.+1", 3, None),
            ("+5.1", 3, None),
            ("-5", 3, None),
            ("1e3", 3, None),
            ("1.2.3", 3, None),
        ] {
            assert_eq!(decimal(text, decimals), value, "{text}");
        }
    }

    prop_compose! {
        fn outcomes()(
            seq: u64, sent in 0u64..4_000_000_000_000_000_000, size in 0u32..70_000,
            fate in prop::sample::select(vec![Fate::Reply, Fate::Expired, Fate::Void, Fate::Refused]),
            from: Option<std::net::IpAddr>, received: Option<u32>, ttl: Option<u8>,
            felt in prop::option::of(0u64..1 << 50), queue in prop::option::of(0u64..1 << 40),
            path in prop::option::of(0u64..1 << 50), ingress in prop::option::of(0u64..1 << 50),
            stamped: bool,
        ) -> Outcome {
            let time = Duration::from_nanos;
            Outcome {
                seq, sent: time(sent), size, fate, from, received, ttl, stamped,
                delays: felt.map(|felt| Delays {
                    felt: time(felt), queue: queue.map(time), path: path.map(time),
                    ingress: ingress.map(time),
                }),
            }
        }
    }

    proptest! {
        #[test]
        fn reads_back(all in prop::collection::vec(outcomes(), 0..20)) {
            let text: String =
                std::iter::once(header(&[])).chain(all.iter().map(line)).collect();
            prop_assert_eq!(text.parse::<Log>().unwrap().outcomes, all);
        }

        #[test]
        fn never_panics(text in ".{0,200}", at in 0usize..300, with in "\\PC{0,5}") {
            let _ = text.parse::<Log>();
            let mut broken = EXAMPLE.to_owned();
            if at < broken.len() {
                broken.replace_range(at..=at, &with);
            }
            let _ = broken.parse::<Log>();
        }
    }
}
