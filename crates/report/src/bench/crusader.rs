//! Crusader's files (`.crr`, versions 1 and 2), read: a head of two numbers, then MessagePack in Snappy's
//! frames.
//!
//! Principles: each of a file's loads becomes a run, with the file's idle phase before it; what Crusader
//! holds against its own result is said of each. Non-goals: writing, version 0 (of 2022), the pings of a
//! second machine, Crusader's own smoothing.

use std::io::Read as _;
use std::time::Duration;

use serde::Deserialize;

use super::form::{BIN_S, Bench, Check, Phases, Probe, Probes, Stream, VERSION, Verdict, Way};

/// What a file begins with, least significant byte first.
const MAGIC: u64 = 0x5372_ab82_ae7c_59cb;
/// Bytes of the head: the magic number and the version.
const HEAD: usize = 16;
/// The largest file that is read, bytes without compression.
const LARGEST: u64 = 256 << 20;
/// The longest test that is read, s.
const LONGEST: f64 = 3600.0;
/// The most streams.
const STREAMS: usize = 1024;

/// The parts of a file that matter here. Crusader writes maps, so the others may come and go.
#[derive(Deserialize)]
struct File {
    config: Config,
    /// From the time axis's zero to the test's begin.
    start: Duration,
    duration: Duration,
    stream_groups: Vec<Group>,
    pings: Vec<Ping>,
    /// Since version 2.
    #[serde(default)]
    test_data: Vec<Load>,
    #[serde(default)]
    server_overload: bool,
    #[serde(default)]
    load_termination_timeout: bool,
    #[serde(default)]
    generated_by: String,
}

#[derive(Deserialize)]
struct Config {
    load_duration: Duration,
    grace_duration: Duration,
}

/// The streams of one load and one direction.
#[derive(Deserialize)]
struct Group {
    download: bool,
    /// Of the load in both directions.
    both: bool,
    streams: Vec<Points>,
}

#[derive(Deserialize)]
struct Points {
    data: Vec<Point>,
}

/// What had arrived by then.
#[derive(Deserialize)]
struct Point {
    time: Duration,
    bytes: u64,
}

#[derive(Deserialize)]
struct Ping {
    sent: Duration,
    latency: Option<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    /// Absent if only the server saw the ping.
    total: Option<Duration>,
    up: Duration,
}

#[derive(Deserialize, Clone, Copy)]
struct Load {
    start: Duration,
    end: Duration,
    kind: Kind,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Download,
    Upload,
    Bidirectional,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Download, Kind::Upload, Kind::Bidirectional];

    /// As our own loads are called.
    fn name(self) -> &'static str {
        match self {
            Kind::Download => "download",
            Kind::Upload => "upload",
            Kind::Bidirectional => "both",
        }
    }

    fn has(self, g: &Group) -> bool {
        match self {
            Kind::Download => g.download && !g.both,
            Kind::Upload => !g.download && !g.both,
            Kind::Bidirectional => g.both,
        }
    }
}

/// Whether bytes are a file of Crusader.
pub fn is(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

/// Reads a file: a run for each of its loads, in their order; one without load if there was none.
pub fn read(bytes: &[u8]) -> Result<Vec<Bench>, String> {
    let head = bytes.get(..HEAD).filter(|_| is(bytes));
    let head = head.ok_or("it does not begin as a file of Crusader does")?;
    let version = head[8..]
        .iter()
        .rev()
        .fold(0, |v, b| v << 8 | u64::from(*b));
    if !(1..=2).contains(&version) {
        return Err(format!(
            "it is of Crusader's version {version}, and 1 and 2 are known: open and save it with a Crusader of 2024"
        ));
    }
    let mut plain = Vec::new();
    snap::read::FrameDecoder::new(&bytes[HEAD..])
        .take(LARGEST)
        .read_to_end(&mut plain)
        .map_err(|e| format!("its Snappy frames: {e}"))?;
    let file: File = rmp_serde::from_slice(&plain).map_err(|e| format!("its MessagePack: {e}"))?;
    runs(&file)
}

/// Begin and end of a load on the file's axis, s.
#[derive(Clone, Copy)]
struct Span(f64, f64);

fn runs(file: &File) -> Result<Vec<Bench>, String> {
    let (start, length) = (file.start.as_secs_f64(), file.duration.as_secs_f64());
    let streams: usize = file.stream_groups.iter().map(|g| g.streams.len()).sum();
    if start + length > LONGEST {
        return Err(format!("it is longer than {LONGEST} s"));
    }
    if streams > STREAMS {
        return Err(format!("it has {streams} streams, more than {STREAMS}"));
    }
    let end = start + length;
    let mut loads: Vec<(Kind, Span)> = Kind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind, span(file, kind)?)))
        .filter(|(_, s)| start <= s.0 && s.0 < s.1 && s.1 <= end)
        .collect();
    loads.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let Some(first) = loads.first().map(|l| l.1.0) else {
        return Ok(vec![without_load(file, start, end)]);
    };
    let idle = first - start;
    let mut all = Vec::new();
    for (i, &(kind, span)) in loads.iter().enumerate() {
        let next = loads.get(i + 1).map_or(end, |l| l.1.0);
        let until = next.min(span.1 + file.config.grace_duration.as_secs_f64());
        // The axis of the run: the idle phase, and at once the load.
        let zero = span.0 - idle;
        let mut probes = pings(file, start, first, start);
        probes.extend(pings(file, span.0, until, zero));
        let phases = Phases {
            load: idle,
            tail: span.1 - zero,
            end: until - zero,
        };
        all.push(Bench {
            test: kind.name().into(),
            streams: of_load(file, kind, span, zero),
            ..bench(file, phases, probes)
        });
    }
    Ok(all)
}

fn without_load(file: &File, start: f64, end: f64) -> Bench {
    let phases = Phases {
        load: 0.0,
        tail: end - start,
        end: end - start,
    };
    Bench {
        test: "idle".into(),
        ..bench(file, phases, pings(file, start, end, start))
    }
}

fn bench(file: &File, phases: Phases, probes: Vec<Probe>) -> Bench {
    Bench {
        bench_version: VERSION,
        far_end: "Crusader".into(),
        program: file.generated_by.clone(),
        phases,
        probes: vec![Probes::new("UDP", "BE", probes)],
        checks: checks(file),
        ..Bench::default()
    }
}

/// When a load ran. Version 1 does not say it: then it began with the first byte.
fn span(file: &File, kind: Kind) -> Option<Span> {
    let mut groups = file.stream_groups.iter().filter(|g| kind.has(g)).peekable();
    groups.peek()?;
    if let Some(l) = file.test_data.iter().find(|l| l.kind == kind) {
        return Some(Span(l.start.as_secs_f64(), l.end.as_secs_f64()));
    }
    let points = groups.flat_map(|g| &g.streams).flat_map(|s| &s.data);
    let moved = points.filter(|p| p.bytes > 0).map(|p| p.time).min()?;
    let (from, length) = (moved.as_secs_f64(), file.config.load_duration.as_secs_f64());
    Some(Span(from, from + length))
}

/// The pings that were sent in `from..to`, on an axis that begins at `zero`.
fn pings(file: &File, from: f64, to: f64, zero: f64) -> Vec<Probe> {
    let ms = |d: Duration| d.as_secs_f64() * 1000.0;
    let of = |p: &Ping| {
        let came_back = p.latency.as_ref().and_then(|l| Some((l.total?, l.up)));
        Probe {
            up: came_back.map(|l| ms(l.1)),
            ..Probe::new(p.sent.as_secs_f64() - zero, came_back.map(|l| ms(l.0)))
        }
    };
    let inside = |p: &&Ping| (from..to).contains(&p.sent.as_secs_f64());
    let mut all: Vec<Probe> = file.pings.iter().filter(inside).map(of).collect();
    all.sort_by(|a, b| a.t.total_cmp(&b.t));
    all
}

fn of_load(file: &File, kind: Kind, span: Span, zero: f64) -> Vec<Stream> {
    let groups = file.stream_groups.iter().filter(|g| kind.has(g));
    let each = groups.flat_map(|g| g.streams.iter().map(|s| (g.download, s)));
    each.map(|(download, points)| Stream {
        way: if download { Way::Down } else { Way::Up },
        mark: "BE".into(),
        bytes: binned(&points.data, span, zero),
        by_sender: false,
        retransmits: None,
        rtt_ms: Vec::new(),
    })
    .collect()
}

/// Bytes of each interval of ours. What arrived from one point to the next came evenly.
fn binned(points: &[Point], span: Span, zero: f64) -> Vec<u64> {
    let mut bins: Vec<u64> = Vec::new();
    let mut before = (span.0 - zero, 0u64);
    for point in points {
        let now = (point.time.as_secs_f64() - zero, point.bytes);
        if !(0.0..LONGEST).contains(&now.0) {
            continue;
        }
        let came = now.1.saturating_sub(before.1);
        let width = now.0 - before.0;
        if came > 0 && width > 0.0 {
            spread(&mut bins, before.0, now.0, came);
        } else if came > 0 {
            spread(&mut bins, now.0, now.0 + BIN_S, came);
        }
        before = (now.0, now.1.max(before.1));
    }
    bins
}

fn spread(bins: &mut Vec<u64>, from: f64, to: f64, bytes: u64) {
    let (first, last) = ((from / BIN_S) as usize, (to / BIN_S) as usize);
    if bins.len() <= last {
        bins.resize(last + 1, 0);
    }
    let mut given = 0;
    for (i, bin) in bins.iter_mut().enumerate().take(last + 1).skip(first) {
        // What had come by this interval's end, so that nothing is lost to rounding.
        let part = ((i + 1) as f64 * BIN_S - from) / (to - from);
        let by_then = if i == last {
            bytes
        } else {
            (bytes as f64 * part.clamp(0.0, 1.0)) as u64
        };
        *bin = bin.saturating_add(by_then.saturating_sub(given));
        given = by_then.max(given);
    }
}

fn checks(file: &File) -> Vec<Check> {
    let check = |name: &str, verdict: Verdict, says: &str| Check {
        name: name.into(),
        verdict,
        says: says.into(),
    };
    let mut all = Vec::new();
    if file.server_overload {
        let says = "Crusader found its server overloaded";
        all.push(check("CPU of the far end", Verdict::Void, says));
    }
    if file.load_termination_timeout {
        let says = "Crusader could not end a load: traffic of it may have stayed on the line";
        all.push(check("other users of the line", Verdict::Doubt, says));
    }
    all
}

#[cfg(test)]
mod tests;
