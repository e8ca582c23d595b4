//! flent's files (`.flent.gz`, format 4): gzipped JSON, written and read.
//!
//! Principles: the names of series are those of flent's own tests, so that its plots find them; what
//! flent computes while it measures (sums, averages) is computed here; times have fractional seconds
//! and a Z. Reading takes what other versions wrote, too. Non-goals: flent's plots.

use std::io::{Read as _, Write as _};

use serde_json::{Map, Value, json};

use super::form::{BIN_S, Bench, Phases, Probe, Probes, Stream, VERSION, Way};

/// Its interval, s.
const STEP: f64 = 0.2;
/// The largest file that is read, bytes of JSON.
const LARGEST: u64 = 256 << 20;

/// Where the ends of our phases stand among a test's parameters: flent's have whole seconds.
const PHASES: &str = "evenkeel_phases";

/// The name of flent's test that has such series.
fn test(b: &Bench) -> &'static str {
    match b.test.as_str() {
        "rrul" => "rrul",
        "download" => "tcp_ndown",
        "upload" => "tcp_nup",
        "idle" => "ping",
        _ => "rrul_be",
    }
}

/// Series of flent's by their names: values at each step.
fn series(b: &Bench) -> Vec<(String, Vec<Option<f64>>)> {
    let steps = (b.phases.end / STEP).ceil() as usize;
    let mut all: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    for (way, word) in [(Way::Up, "upload"), (Way::Down, "download")] {
        let streams: Vec<&Stream> = b.streams.iter().filter(|s| s.way == way).collect();
        if streams.is_empty() {
            continue;
        }
        let many = test(b).starts_with("tcp_n");
        let mut each = Vec::new();
        for (i, s) in streams.iter().enumerate() {
            let name = match (many, i) {
                (true, i) => format!("TCP {word}::{}", i + 1),
                _ if b.test == "rrul" && i < 4 => format!("TCP {word} {}", s.mark),
                (_, 0) => format!("TCP {word} BE"),
                (_, i) => format!("TCP {word} BE{}", i + 1),
            };
            each.push((name, goodput(s, b.phases, steps)));
        }
        let sum = combine(&each, |v| v.iter().sum());
        let average = combine(&each, |v| v.iter().sum::<f64>() / v.len() as f64);
        all.extend(each);
        all.push((format!("TCP {word} avg"), average));
        all.push((format!("TCP {word} sum"), sum));
    }
    let sums: Vec<_> = all
        .iter()
        .filter(|s| s.0.ends_with(" sum"))
        .cloned()
        .collect();
    if !sums.is_empty() {
        all.push(("TCP totals".into(), combine(&sums, |v| v.iter().sum())));
    }
    let pings: Vec<(String, Vec<Option<f64>>)> = b
        .probes
        .iter()
        .map(|p| (ping_name(b, p), binned(p, steps)))
        .collect();
    if !pings.is_empty() {
        let average = combine(&pings, |v| v.iter().sum::<f64>() / v.len() as f64);
        all.extend(pings);
        all.push(("Ping (ms) avg".into(), average));
    }
    all
}

fn ping_name(b: &Bench, p: &Probes) -> String {
    match p.kind.as_str() {
        "UDP" if b.test != "rrul" && p.mark == "BE" => "Ping (ms) UDP BE1".into(),
        "UDP" => format!("Ping (ms) UDP {}", p.mark),
        kind => format!("Ping (ms) {kind}"),
    }
}

/// Mbit/s at each step that the load touches; nothing before and after, as flent's netperf.
fn goodput(s: &Stream, phases: Phases, steps: usize) -> Vec<Option<f64>> {
    let bins = (STEP / BIN_S).round() as usize;
    let at = |i: usize| {
        let t = i as f64 * STEP;
        let bytes: u64 = s.bytes.iter().skip(i * bins).take(bins).sum();
        (phases.load < t + STEP && t < phases.tail).then(|| bytes as f64 * 8.0 / 1e6 / STEP)
    };
    (0..steps).map(at).collect()
}

fn binned(p: &Probes, steps: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0u32); steps];
    for probe in &p.probes {
        let bin = sums.get_mut((probe.t / STEP).max(0.0) as usize);
        if let (Some(bin), Some(rtt)) = (bin, probe.rtt) {
            *bin = (bin.0 + rtt, bin.1 + 1);
        }
    }
    sums.into_iter()
        .map(|(sum, n)| (n > 0).then(|| sum / f64::from(n)))
        .collect()
}

fn combine(of: &[(String, Vec<Option<f64>>)], how: impl Fn(&[f64]) -> f64) -> Vec<Option<f64>> {
    let steps = of.iter().map(|s| s.1.len()).max().unwrap_or(0);
    let at = |i: usize| {
        let values: Vec<f64> = of.iter().filter_map(|s| *s.1.get(i)?).collect();
        (!values.is_empty()).then(|| how(&values))
    };
    (0..steps).map(at).collect()
}

/// A time of flent's: `2025-10-09T08:53:20.000000Z`.
pub(crate) fn time(since_1970: f64) -> String {
    let us = (since_1970.max(0.0) * 1e6).round() as u64;
    let (days, rest) = (us / 86_400_000_000, us % 86_400_000_000);
    // Days to a date (Hinnant, "chrono-compatible low-level date algorithms").
    let z = days as i64 + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (
        doy - (153 * mp + 2) / 5 + 1,
        if mp < 10 { mp + 3 } else { mp - 9 },
    );
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (s, us) = (rest / 1_000_000, rest % 1_000_000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{us:06}Z",
        s / 3600,
        s / 60 % 60,
        s % 60
    )
}

/// A time of flent's, s since 1970.
fn parse_time(text: &str) -> Option<f64> {
    let (date, clock) = text.trim_end_matches('Z').split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let mut next = || date.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    if !(1970..3000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let mut seconds = 0.0;
    let mut parts = clock.splitn(3, ':').map(str::parse::<f64>);
    for unit in [3600.0, 60.0, 1.0] {
        seconds += parts.next()?.ok()? * unit;
    }
    // March is the first month, so that leap days stand at the end.
    let (year, since_march) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (year / 400, year % 400);
    let days = of_era * 365 + of_era / 4 - of_era / 100 + (153 * since_march + 2) / 5 + day - 1;
    Some((era * 146_097 + days - 719_468) as f64 * 86_400.0 + seconds)
}

/// The file's JSON.
fn document(b: &Bench) -> Value {
    let all = series(b);
    let steps = all.iter().map(|s| s.1.len()).max().unwrap_or(0);
    let x: Vec<f64> = (0..steps)
        .map(|i| (i as f64 * STEP * 1e6).round() / 1e6)
        .collect();
    let mut results = Map::new();
    for (name, values) in &all {
        results.insert(name.clone(), json!(values));
    }
    let mut raw = Map::new();
    for p in &b.probes {
        let values =
            p.probes.iter().enumerate().filter_map(|(seq, p)| {
                Some(json!({ "t": b.began + p.t, "val": p.rtt?, "seq": seq }))
            });
        raw.insert(ping_name(b, p), Value::Array(values.collect()));
    }
    let began = time(b.began);
    let p = b.phases;
    let count = |way: Way| b.streams.iter().filter(|s| s.way == way).count();
    json!({
        "version": 4,
        "x_values": x,
        "results": results,
        "raw_values": raw,
        "metadata": {
            "NAME": test(b), "TITLE": b.label, "HOST": b.to, "LOCAL_HOST": b.host,
            "TIME": began, "T0": began,
            "LENGTH": (b.phases.tail - b.phases.load).round(), "TOTAL_LENGTH": b.phases.end.round(),
            "STEP_SIZE": STEP, "DATA_FILENAME": Value::Null, "NOTE": b.command,
            "TEST_PARAMETERS": {
                "download_streams": count(Way::Down).to_string(),
                "upload_streams": count(Way::Up).to_string(),
                PHASES: format!("{:.4} {:.4} {:.4}", p.load, p.tail, p.end),
            },
        },
    })
}

/// The bytes of a `.flent.gz`.
pub fn write(b: &Bench) -> std::io::Result<Vec<u8>> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    serde_json::to_writer(&mut gz, &document(b))?;
    gz.flush()?;
    gz.finish()
}

/// Whether bytes are gzipped.
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Reads a `.flent.gz`.
pub fn read(bytes: &[u8]) -> Result<Bench, String> {
    let mut text = Vec::new();
    let plain = flate2::read::MultiGzDecoder::new(bytes);
    plain
        .take(LARGEST)
        .read_to_end(&mut text)
        .map_err(|e| e.to_string())?;
    parse(&text)
}

/// From the JSON of a flent file.
pub fn parse(text: &[u8]) -> Result<Bench, String> {
    let document: Value = serde_json::from_slice(text).map_err(|e| format!("no JSON: {e}"))?;
    let metadata = &document["metadata"];
    let word = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
    let name = word("NAME");
    if name.is_empty() {
        return Err("it has no metadata.NAME, so it is no flent file".into());
    }
    let x: Vec<f64> = document["x_values"]
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    let step = metadata["STEP_SIZE"]
        .as_f64()
        .filter(|s| *s > 0.001 && *s < 1000.0)
        .unwrap_or(STEP);
    let total = metadata["TOTAL_LENGTH"]
        .as_f64()
        .or(x.last().copied())
        .unwrap_or(0.0)
        .clamp(0.0, 1e6);
    let length = metadata["LENGTH"]
        .as_f64()
        .unwrap_or(total)
        .clamp(0.0, total);
    let before = ((total - length) / 2.0).max(0.0);
    let t0 = parse_time(&word("T0"))
        .or_else(|| parse_time(&word("TIME")))
        .unwrap_or(0.0);
    let mut b = Bench {
        bench_version: VERSION,
        label: word("TITLE"),
        test: match name.as_str() {
            "tcp_ndown" | "tcp_download" => "download".into(),
            "tcp_nup" | "tcp_upload" => "upload".into(),
            "ping" => "idle".into(),
            n => n.replace('_', "-"),
        },
        to: word("HOST"),
        far_end: "flent".into(),
        host: word("LOCAL_HOST"),
        began: t0,
        phases: ours(metadata).unwrap_or(Phases {
            load: before,
            tail: before + length,
            end: total,
        }),
        ..Bench::default()
    };
    let empty = Map::new();
    for (name, values) in document["results"].as_object().unwrap_or(&empty) {
        let values = values.as_array().map_or(&[][..], Vec::as_slice);
        let points = x.iter().zip(values.iter().map(Value::as_f64));
        let derived =
            [" avg", " sum"].iter().any(|d| name.ends_with(d)) || name.starts_with("TCP totals");
        if let (Some(way), false) = (way(name), derived) {
            b.streams.push(stream(way, name, points, step));
        } else if let (Some(kind), false) = (name.strip_prefix("Ping (ms) "), derived) {
            let raw = document["raw_values"][name].as_array();
            b.probes.push(probes(kind, raw, points, t0));
        }
    }
    // The judged kind first: unmarked UDP.
    b.probes.sort_by_key(|p| (p.kind != "UDP", p.mark != "BE"));
    Ok(b)
}

/// The phases, if the file is one of ours.
fn ours(metadata: &Value) -> Option<Phases> {
    let text = metadata["TEST_PARAMETERS"][PHASES].as_str()?;
    let mut ends = text.split(' ').map(str::parse::<f64>);
    let (load, tail, end) = (ends.next()?.ok()?, ends.next()?.ok()?, ends.next()?.ok()?);
    let sane = 0.0 <= load && load <= tail && tail <= end && end < LONGEST;
    sane.then_some(Phases { load, tail, end })
}

fn way(name: &str) -> Option<Way> {
    if name.starts_with("TCP download") {
        Some(Way::Down)
    } else if name.starts_with("TCP upload") {
        Some(Way::Up)
    } else {
        None
    }
}

/// The longest run that is read, s.
const LONGEST: f64 = 86_400.0;

fn stream<'a>(
    way: Way,
    name: &str,
    points: impl Iterator<Item = (&'a f64, Option<f64>)>,
    step: f64,
) -> Stream {
    let mut bytes: Vec<u64> = Vec::new();
    for (t, mbit) in points {
        let Some(mbit) = mbit.filter(|v| *v > 0.0 && t.is_finite() && *t >= 0.0 && *t < LONGEST)
        else {
            continue;
        };
        let (first, bins) = (
            (t / BIN_S).round() as usize,
            (step / BIN_S).round().clamp(1.0, 1000.0) as usize,
        );
        if bytes.len() < first + bins {
            bytes.resize(first + bins, 0);
        }
        let each = (mbit.min(1e7) * 1e6 / 8.0 * step / bins as f64) as u64;
        bytes[first..first + bins]
            .iter_mut()
            .for_each(|b| *b += each);
    }
    Stream {
        way,
        mark: name.rsplit([' ', ':']).next().unwrap_or_default().into(),
        bytes,
        by_sender: way == Way::Up,
        retransmits: None,
        rtt_ms: Vec::new(),
    }
}

fn probes<'a>(
    kind: &str,
    raw: Option<&Vec<Value>>,
    points: impl Iterator<Item = (&'a f64, Option<f64>)>,
    t0: f64,
) -> Probes {
    let (kind, mark) = kind.split_once(' ').unwrap_or((kind, "BE"));
    let from_raw = raw.into_iter().flatten().filter_map(|v| {
        let t = v["t"].as_f64()? - t0;
        t.is_finite().then(|| Probe::new(t, v["val"].as_f64()))
    });
    let mut all: Vec<Probe> = from_raw.collect();
    if all.is_empty() {
        all = points
            .filter_map(|(t, v)| Some(Probe::new(*t, Some(v?))))
            .collect();
    }
    Probes {
        kind: kind.into(),
        mark: if mark.starts_with("BE") {
            "BE".into()
        } else {
            mark.into()
        },
        probes: all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times() {
        assert_eq!(time(1_760_000_000.25), "2025-10-09T08:53:20.250000Z");
        assert_eq!(time(951_782_400.0), "2000-02-29T00:00:00.000000Z");
        for t in [0.0, 951_782_400.0, 1_760_000_000.25, 4_102_444_799.5] {
            assert_eq!(parse_time(&time(t)), Some(t));
        }
        for wrong in ["", "T", "2025-13-01T00:00:00Z", "x-1-1T1:1:1", "2025-01-01"] {
            assert_eq!(parse_time(wrong), None);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let b = Bench {
            test: "rrul".into(),
            to: "srv".into(),
            label: "x".into(),
            began: 1_760_000_000.0,
            phases: Phases {
                load: 5.0,
                tail: 15.0,
                end: 20.0,
            },
            streams: vec![Stream {
                way: Way::Down,
                mark: "EF".into(),
                bytes: (0..200)
                    .map(|i| if (50..150).contains(&i) { 125_000 } else { 0 })
                    .collect(),
                by_sender: false,
                retransmits: None,
                rtt_ms: Vec::new(),
            }],
            probes: vec![Probes {
                kind: "UDP".into(),
                mark: "EF".into(),
                probes: (0..100)
                    .map(|i| Probe::new(f64::from(i) * 0.2, Some(12.5)))
                    .collect(),
            }],
            ..Bench::default()
        };
        let json = document(&b);
        assert_eq!(json["version"], 4);
        assert_eq!(json["metadata"]["NAME"], "rrul");
        assert_eq!(json["results"]["TCP download EF"][25], 10.0);
        assert_eq!(json["results"]["TCP download EF"][0], Value::Null);
        assert_eq!(json["results"]["Ping (ms) UDP EF"][3], 12.5);
        assert_eq!(
            json["raw_values"]["Ping (ms) UDP EF"][0]["t"],
            1_760_000_000.0
        );
        let again = read(&write(&b).unwrap()).unwrap();
        assert_eq!(
            (again.test.as_str(), again.to.as_str(), again.phases),
            ("rrul", "srv", b.phases)
        );
        assert_eq!(again.streams[0].bytes.iter().sum::<u64>(), 12_500_000);
        assert_eq!(again.probes[0].probes.len(), 100);
        assert!((again.probes[0].probes[7].t - 1.4).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = parse(&bytes);
        }

        #[test]
        fn odd_numbers_do_no_harm(x in prop::collection::vec(-1e300..1e300f64, 0..20), v in prop::collection::vec(prop::option::of(-1e300..1e300f64), 0..20), length in -1e300..1e300f64, step in -1e9..1e9f64) {
            let text = json!({"x_values": x, "results": {"TCP upload BE": v, "Ping (ms) ICMP": v},
                "metadata": {"NAME": "rrul", "LENGTH": length, "TOTAL_LENGTH": length, "STEP_SIZE": step}}).to_string();
            let b = parse(text.as_bytes()).unwrap();
            super::super::figures::figures(&b);
        }
    }
}
