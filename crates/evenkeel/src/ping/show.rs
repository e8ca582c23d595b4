//! How probes and their statistics are told to people, and as JSON.
//!
//! Principles: a line for a probe says its fate in words, who said so, and the time; own queues
//! and path stand apart where a queue of ours is worth telling; tables are in ms with microseconds.
//! Non-goals: deciding what is shown (the command's flags do).

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use evenkeel_core::Summary;
use evenkeel_core::ping::fit::Fit;
use evenkeel_core::ping::spread::Spread;
use evenkeel_core::ping::tally::Tally;
use evenkeel_core::ping::track::Event;
use evenkeel_core::ping::{Fate, Outcome};
use evenkeel_terminal::table::{self, Table, figures};
use serde_json::{Value, json};

/// An own queue that is worth a word.
const WORTH_TELLING: Duration = Duration::from_micros(100);

/// `12.345 ms`.
pub(crate) fn ms(d: Duration) -> String {
    format!("{:.3} ms", d.as_secs_f64() * 1000.0)
}

/// What a fate is to people.
fn words(fate: Fate) -> &'static str {
    match fate {
        Fate::Reply => "reply",
        Fate::Expired => "TTL expired",
        Fate::NetUnreachable => "network unreachable",
        Fate::HostUnreachable => "host unreachable",
        Fate::ProtocolUnreachable => "protocol unreachable",
        Fate::PortUnreachable => "port unreachable",
        Fate::TooBig => "too big for a link",
        Fate::Prohibited => "prohibited",
        Fate::Unreachable => "unreachable",
        Fate::Refused => "connection refused",
        Fate::Damaged => "truncated reply",
        Fate::Timeout => "no answer",
        Fate::Void => "the clock was stepped: does not count",
        Fate::Unsent => "not sent by this machine",
    }
}

/// The line of an event; `name` of the address that answered.
pub(crate) fn line(event: &Event, timeout: Duration, name: &dyn Fn(IpAddr) -> String) -> String {
    let from = |a: Option<IpAddr>| a.map_or_else(|| "?".to_owned(), name);
    match event {
        Event::Outcome(o) => outcome(o, timeout, &from(o.from)),
        Event::Late(seq, after) => format!("seq {seq}: answered too late, after {}", ms(*after)),
        Event::Duplicate(seq) => format!("seq {seq}: answered once more"),
        Event::Foreign(seq, a) => format!("seq {seq}: answered by {}, who was not asked", from(*a)),
        Event::Far(seq, at) => format!("seq {seq}: there {at} ms after midnight, by its clock"),
        Event::Stray => "an answer that belongs to no probe".to_owned(),
    }
}

fn outcome(o: &Outcome, timeout: Duration, from: &str) -> String {
    let Outcome { seq, fate, .. } = *o;
    let Some(d) = o
        .delays
        .filter(|_| fate.is_timed() || fate == Fate::Damaged)
    else {
        return match fate {
            Fate::Timeout => format!("seq {seq}: no answer in {} ms", timeout.as_millis()),
            fate => format!("seq {seq}: {}", words(fate)),
        };
    };
    let mut line = match fate {
        Fate::Reply => match o.received {
            Some(bytes) => format!("{bytes} bytes from {from}: seq {seq}"),
            None => format!("connected to {from}: seq {seq}"),
        },
        fate => format!("{} says {from}: seq {seq}", words(fate)),
    };
    if let Some(ttl) = o.ttl {
        let _ = write!(line, ", TTL {ttl}");
    }
    let _ = write!(line, ", {}", ms(d.felt));
    let worth = |own: Option<Duration>| own.is_some_and(|own| own >= WORTH_TELLING);
    if worth(d.queue) || worth(d.ingress) {
        let parts = [
            ("own queue", d.queue),
            ("path", d.path),
            ("own ingress queue", d.ingress),
        ];
        let parts = parts.map(|(name, time)| time.map(|t| format!("{name} {}", ms(t))));
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let _ = write!(line, " ({})", parts.join(", "));
    }
    line
}

/// Replies, errors, losses in one line.
pub(crate) fn counts(t: &Tally) -> String {
    let percent = |n: u64| match t.sent {
        0 => String::new(),
        sent => format!(" ({:.1} %)", n as f64 * 100.0 / sent as f64),
    };
    let mut line = format!(
        "{} sent, {} replies{}, {} errors{}, {} lost{}",
        t.sent,
        t.replies,
        percent(t.replies),
        t.errors,
        percent(t.errors),
        t.lost,
        percent(t.lost)
    );
    for (n, what) in [
        (t.late, "answered too late"),
        (t.damaged, "truncated"),
        (t.duplicates, "duplicates"),
        (t.reordered, "reordered"),
        (t.foreign, "from addresses not asked"),
        (t.strays, "answers that belong to no probe"),
        (t.void, "void (the clock was stepped)"),
        (t.unsent, "not sent by this machine"),
    ] {
        if n > 0 {
            let _ = write!(line, ", {n} {what}");
        }
    }
    line
}

/// One line for the last seconds.
pub(crate) fn recent(t: &Tally, seconds: Duration) -> String {
    let mut line = format!("last {:.0} s: {}", seconds.as_secs_f64(), counts(t));
    for (fate, spread) in t.all_times() {
        if let Some(s) = spread.summary() {
            let _ = write!(
                line,
                "; {} min/avg/max/dev {:.3}/{:.3}/{:.3}/{:.3} ms",
                words(fate),
                s.min,
                s.avg,
                s.max,
                s.stddev
            );
        }
    }
    line
}

/// Rows of times, with their names.
fn rows(t: &Tally) -> Vec<(&'static str, Summary)> {
    let fates = t.all_times().map(|(fate, s)| (words(fate), s));
    let own = [
        ("  own queue", &t.queue),
        ("  path", &t.path),
        ("  own ingress queue", &t.ingress),
    ];
    let all = fates.chain(own);
    all.filter_map(|(name, s): (_, &Spread)| Some((name, s.summary()?)))
        .collect()
}

/// The table of times.
fn times(rows: &[(&str, Summary)]) -> Table {
    let heads = [
        "n", "min", "avg", "max", "stddev", "median", "p90", "p95", "p99",
    ];
    let mut table = Table::new(&[vec![table::words("ms")], heads.map(figures).to_vec()].concat());
    for (name, s) in rows {
        let times = [s.min, s.avg, s.max, s.stddev, s.median, s.p90, s.p95, s.p99];
        let mut cells = vec![(*name).to_owned(), s.n.to_string()];
        cells.extend(times.map(|v| format!("{v:.3}")));
        table.row(cells);
    }
    table
}

/// Everything at the end.
pub(crate) fn statistics(
    t: &Tally,
    what: &str,
    took: Duration,
    wire_bytes: u32,
    sweep: bool,
) -> String {
    let mut text = format!("\n--- {what}: {:.1} s\n{}\n", took.as_secs_f64(), counts(t));
    let rows = rows(t);
    if !rows.is_empty() {
        text += &times(&rows).to_string();
    }
    if t.unstamped > 0 {
        let _ = writeln!(
            text,
            "{} of them timed by the program's clock, not by the kernel's stamps",
            t.unstamped
        );
    }
    if took > Duration::from_millis(100) {
        let sizes = t.sizes.iter();
        let bytes: u64 = sizes
            .map(|(size, r)| u64::from(size + wire_bytes) * r.sent)
            .sum();
        let kbit = bytes as f64 * 8.0 / 1000.0 / took.as_secs_f64();
        let _ = writeln!(text, "sent {kbit:.1} kbit/s of IP packets");
    }
    if sweep {
        text += &sizes(t);
    }
    text
}

/// The table of a sweep and the line through it.
fn sizes(t: &Tally) -> String {
    let mut table = Table::new(&["payload", "sent", "answered", "min ms"].map(figures));
    for (size, row) in &t.sizes {
        let min = row.min.map_or("-".to_owned(), |m| {
            format!("{:.3}", m.as_secs_f64() * 1000.0)
        });
        let (sent, answered) = (row.sent.to_string(), row.answered.to_string());
        table.row([size.to_string(), sent, answered, min]);
    }
    let mut text = table.to_string();
    let Some(fit) = Fit::through(&t.sizes) else {
        return text + "no line through it: fewer than three sizes were answered\n";
    };
    let _ = writeln!(
        text,
        "slope {:.4} ± {:.4} us/byte, intercept {:.1} ± {:.1} us, correlation {:.4}, {} sizes \
         (least squares through the minima, 95 % confidence)",
        fit.slope.value,
        fit.slope.within,
        fit.intercept.value,
        fit.intercept.within,
        fit.correlation,
        fit.sizes
    );
    text += &match fit.kbit() {
        Some((rate, low, high)) => format!(
            "estimated rate {rate:.0} kbit/s ({low:.0} to {high:.0}), all links that carry the \
             payload one after another; an echo passes each twice\n"
        ),
        None => "no estimated rate: the slope may as well be zero\n".to_owned(),
    };
    text
}

/// Everything at the end, for programs.
pub(crate) fn json(t: &Tally, about: &[(&str, String)], took: Duration) -> Value {
    let times: serde_json::Map<String, Value> = t
        .all_times()
        .filter_map(|(fate, s)| Some((fate.to_string(), json!(s.summary()?))))
        .collect();
    let sizes: Vec<Value> = t
        .sizes
        .iter()
        .map(|(size, r)| {
            let min = r.min.map(|m| m.as_secs_f64() * 1000.0);
            json!({"payload": size, "sent": r.sent, "answered": r.answered, "min_ms": min})
        })
        .collect();
    let fit = Fit::through(&t.sizes).map(|f| {
        json!({
            "sizes": f.sizes,
            "slope_us_per_byte": f.slope.value, "slope_within": f.slope.within,
            "intercept_us": f.intercept.value, "intercept_within": f.intercept.within,
            "correlation": f.correlation,
            "rate_kbit": f.kbit().map(|k| k.0),
        })
    });
    let about: serde_json::Map<String, Value> = about
        .iter()
        .map(|(k, v)| ((*k).to_owned(), json!(v)))
        .collect();
    json!({
        "about": about, "seconds": took.as_secs_f64(),
        "sent": t.sent, "replies": t.replies, "errors": t.errors, "lost": t.lost,
        "late": t.late, "damaged": t.damaged, "duplicates": t.duplicates,
        "reordered": t.reordered, "foreign": t.foreign, "strays": t.strays,
        "void": t.void, "unsent": t.unsent, "unstamped": t.unstamped,
        "times_ms": times,
        "own_queue_ms": t.queue.summary(), "path_ms": t.path.summary(),
        "own_ingress_ms": t.ingress.summary(),
        "sizes": sizes, "fit": fit,
    })
}
