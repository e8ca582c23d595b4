//! Bench results in words: a sentence, a table, the measures of others, the checks.
//!
//! Principle: every sentence is made from the figures; what is void says so first. Non-goals: markup.

use std::fmt::Write as _;

use super::draw::groups;
use super::figures::{Confidence, Difference, Figures, figures, paired};
use super::form::{Bench, Verdict};
use crate::words::{ms, plain, times};

/// Increases below this count as this in a factor, ms (see `evenkeel_core::result`).
const FLOOR_MS: f64 = evenkeel_core::result::INCREASE_FLOOR_MS;

/// What a run came to, in a sentence.
pub(crate) fn sentence(b: &Bench, f: &Figures) -> String {
    let void = b.void();
    if !void.is_empty() {
        return format!("This run says nothing about the line: {void}.");
    }
    let idle = f.idle_ms.map(|s| s.avg);
    let carried = |v: Option<f64>, way: &str| v.map(|v| format!("{} Mbit/s {way}", mbit(v)));
    let both: Vec<String> = [carried(f.down_mbit, "down"), carried(f.up_mbit, "up")]
        .into_iter()
        .flatten()
        .collect();
    match (idle, f.increase, f.loaded_ms, &f.grades) {
        (Some(idle), Some(grew), Some(loaded), Some(grades)) if !both.is_empty() => format!(
            "While {} were carried, the ping was {} ms instead of {} ms ({} ms more on average, 99 % less than {} ms more): grade {}.",
            both.join(" and "),
            ms(loaded.avg),
            ms(idle),
            ms(grew.avg),
            ms(grew.p99),
            grades.dslreports
        ),
        (_, _, Some(l), _) if both.is_empty() => {
            format!(
                "Without a load the ping was {} ms on average, 99 % of them below {} ms.",
                ms(l.avg),
                ms(l.p99)
            )
        }
        (Some(idle), ..) => format!("On the idle line the ping was {} ms.", ms(idle)),
        _ => "No ping was answered, so nothing can be said about latency.".into(),
    }
}

/// Megabits in a second: three digits.
pub(crate) fn mbit(v: f64) -> String {
    match v {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// The columns of the seeds' table.
pub(crate) const HEAD: [(&str, &str); 10] = [
    ("Run", ""),
    ("Idle", "ms"),
    ("Ping", "ms"),
    ("Increase", "ms"),
    ("99 % below", "ms"),
    ("99.9 % below", "ms"),
    ("Factor", ""),
    ("Download", "Mbit/s"),
    ("Upload", "Mbit/s"),
    ("Lost", "%"),
];

/// The means of a group of runs: name, and a cell for each column. Factor and what was kept are against
/// the first group.
pub(crate) fn rows(runs: &[(String, Bench)]) -> Vec<Vec<String>> {
    let groups = groups(runs);
    let mean = |of: &[&Bench], what: &dyn Fn(&Figures) -> Option<f64>| {
        let counted: Vec<&&Bench> = of.iter().filter(|b| b.void().is_empty()).collect();
        let all: Vec<f64> = counted.iter().filter_map(|b| what(&figures(b))).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let increase = |f: &Figures| f.increase.map(|i| i.avg);
    let first = groups.first().map(|g| g.1.clone()).unwrap_or_default();
    let base = mean(&first, &increase);
    let cell = |v: Option<f64>, how: fn(f64) -> String| v.map_or("–".to_owned(), how);
    let kept = |v: Option<f64>, of: Option<f64>, i: usize| match (v, of) {
        (Some(v), Some(of)) if i > 0 && of > 0.0 => {
            format!("{} ({:.0} %)", mbit(v), v / of * 100.0)
        }
        (v, _) => cell(v, mbit),
    };
    groups
        .iter()
        .enumerate()
        .map(|(i, (name, of))| {
            let grew = mean(of, &increase);
            let factor = base
                .zip(grew)
                .filter(|_| i > 0)
                .map(|(b, g)| b.max(FLOOR_MS) / g.max(FLOOR_MS));
            let name = match of.len() {
                1 => plain(name),
                n => format!("{} ({n} runs)", plain(name)),
            };
            vec![
                name,
                cell(mean(of, &|f| Some(f.idle_ms?.avg)), ms),
                cell(mean(of, &|f| Some(f.loaded_ms?.avg)), ms),
                cell(grew, ms),
                cell(mean(of, &|f| Some(f.increase?.p99)), ms),
                cell(mean(of, &|f| f.increase?.p999), ms),
                cell(factor, times),
                kept(
                    mean(of, &|f| f.down_mbit),
                    mean(&first, &|f| f.down_mbit),
                    i,
                ),
                kept(mean(of, &|f| f.up_mbit), mean(&first, &|f| f.up_mbit), i),
                cell(mean(of, &|f| Some(f.loss * 100.0)), |v| format!("{v:.2}")),
            ]
        })
        .collect()
}

/// A figure, if a run has it.
type What = fn(&Figures) -> Option<f64>;

/// What a comparison A B A B ... came to: figure, unit, difference of the second group from the first.
pub(crate) fn differences(
    runs: &[(String, Bench)],
) -> Vec<(&'static str, &'static str, Difference)> {
    let groups = groups(runs);
    let [(first, a), (_, b)] = &groups[..] else {
        return Vec::new();
    };
    let in_turn = runs.iter().enumerate().all(|(i, (name, run))| {
        let label = if run.label.is_empty() {
            name
        } else {
            &run.label
        };
        (label == first) == (i % 2 == 0)
    });
    if !in_turn || a.len().min(b.len()) < 2 {
        return Vec::new();
    }
    let all: [(&str, &str, What); 4] = [
        ("increase", "ms", |f| f.increase.map(|i| i.avg)),
        ("increase, 99 %", "ms", |f| f.increase.map(|i| i.p99)),
        ("download", "Mbit/s", |f| f.down_mbit),
        ("upload", "Mbit/s", |f| f.up_mbit),
    ];
    let of = |(name, unit, what): (&'static str, &'static str, What)| {
        let series: Option<Vec<f64>> = runs.iter().map(|(_, b)| what(&figures(b))).collect();
        Some((name, unit, paired(&series?)?))
    };
    all.into_iter().filter_map(of).collect()
}

/// A difference as people read it.
pub(crate) fn difference(what: &str, unit: &str, d: Difference) -> String {
    let word = if d.mean < 0.0 { "less" } else { "more" };
    let sure = if d.mean.abs() > d.half {
        ""
    } else {
        "; that may be chance"
    };
    format!(
        "{what}: {:.2} {unit} {word} (95 % interval {:.2} to {:.2}, {} pairs{sure})",
        d.mean.abs(),
        d.mean - d.half,
        d.mean + d.half,
        d.pairs
    )
}

/// Measures that others have defined: name, value, where it comes from.
pub(crate) fn measures(f: &Figures) -> Vec<(String, String, &'static str)> {
    let mut all = Vec::new();
    if let Some(g) = &f.grades {
        all.push((
            "Bufferbloat grade".into(),
            g.dslreports.into(),
            "DSLReports: mean increase below 5, 30, 60, 200, 400 ms",
        ));
        all.push((
            "Grade".into(),
            g.libreqos.into(),
            "LibreQoS: below 5, 25, 50, 75, 100 ms",
        ));
        all.push((
            "Loaded latency".into(),
            format!("{} ms", ms(g.loaded_latency_ms)),
            "Cloudflare: median ping under load",
        ));
        all.push((
            "AIM, loaded latency".into(),
            format!("{} points", g.aim_points),
            "Cloudflare: 20 to -20",
        ));
    }
    if let Some(r) = f.rpm {
        let part = |v: Option<f64>| v.map_or("–".into(), |v| format!("{v:.0}"));
        let confidence = match r.confidence {
            Confidence::High => "high confidence",
            Confidence::Medium => "medium confidence: not stable, a longer run says more",
            Confidence::Low => "low confidence: a longer run says more",
        };
        let value = format!(
            "{:.0} RPM (foreign {}, self {}; {confidence})",
            r.rpm,
            part(r.foreign),
            part(r.loaded)
        );
        all.push((
            "Responsiveness".into(),
            value,
            "draft-ietf-ippm-responsiveness-09",
        ));
    }
    if let Some(p) = f.pages_ms {
        all.push((
            "Pages of 500 kB".into(),
            format!(
                "{} ms, 95 % below {} ms ({} of them)",
                ms(p.median),
                ms(p.p95),
                p.n
            ),
            "median; one every 2 s, on a connection of its own",
        ));
    }
    if let Some(c) = f.call {
        all.push((
            "Call".into(),
            format!(
                "{} ms there and back, 95 % below {} ms, {:.2} % lost",
                ms(c.rtt_ms.median),
                ms(c.rtt_ms.p95),
                c.loss * 100.0
            ),
            "median; 50 packets of 200 bytes a second each way",
        ));
    }
    for q in &f.qoo {
        all.push((
            format!("Good for a {}", q.name),
            format!("{:.0} of 100", q.score),
            "QoO, draft-ietf-ippm-qoo; bounds in docs/bench.md",
        ));
    }
    all
}

/// Increases of both ways, where known.
pub(crate) fn ways(f: &Figures) -> Option<String> {
    let (up, down) = (f.increase_up?, f.increase_down?);
    Some(format!(
        "By direction: {} ms more on the way up (99 % below {}), {} ms on the way down (99 % below {}).",
        ms(up.avg),
        ms(up.p99),
        ms(down.avg),
        ms(down.p99)
    ))
}

/// The word for a check.
pub(crate) fn verdict(v: Verdict) -> &'static str {
    match v {
        Verdict::Ok => "ok",
        Verdict::Unknown => "not known",
        Verdict::Doubt => "doubt",
        Verdict::Void => "VOID",
    }
}

/// Everything for a terminal.
pub fn text(runs: &[(String, Bench)]) -> String {
    use evenkeel_terminal::table::{Table, figures as right, words as left};
    let mut out = String::new();
    let head: Vec<_> = HEAD
        .iter()
        .enumerate()
        .map(|(i, (name, unit))| {
            let name = if unit.is_empty() {
                (*name).to_owned()
            } else {
                format!("{name}, {unit}")
            };
            if i == 0 { left(name) } else { right(name) }
        })
        .collect();
    let mut table = Table::new(&head);
    for row in rows(runs) {
        table.row(row);
    }
    if let [(_, b)] = runs {
        let f = figures(b);
        let _ = writeln!(out, "{}", sentence(b, &f));
        if b.interrupted {
            let _ = writeln!(out, "It was interrupted: these are the figures until then.");
        }
        if let Some(ways) = ways(&f).filter(|_| b.void().is_empty()) {
            let _ = writeln!(out, "{ways}");
        }
        if !b.backlog.is_empty() {
            let most = b.backlog.iter().map(|p| p.1).fold(0.0, f64::max) / 1000.0;
            let _ = writeln!(
                out,
                "Our own queues dropped {} packets and held {most:.0} kB at most.",
                b.dropped_by_us
            );
        }
        let _ = write!(out, "\n{table}");
        let mut others = Table::new(&[left("Measure"), left("Value"), left("By")]);
        let all = if b.void().is_empty() {
            measures(&f)
        } else {
            Vec::new()
        };
        let any = !all.is_empty();
        for (name, value, source) in all {
            others.row([name, value, source.to_owned()]);
        }
        if any {
            let _ = write!(out, "\n{others}");
        }
    } else {
        let _ = write!(out, "{table}");
    }
    for (what, unit, d) in differences(runs) {
        let _ = writeln!(out, "{}", difference(what, unit, d));
    }
    let _ = writeln!(out);
    for (name, b) in runs {
        for c in &b.checks {
            if runs.len() == 1 {
                let _ = writeln!(out, "{:<9} {}: {}", verdict(c.verdict), c.name, c.says);
            } else if c.verdict >= Verdict::Doubt {
                let _ = writeln!(
                    out,
                    "{:<9} {name}: {}: {}",
                    verdict(c.verdict),
                    c.name,
                    c.says
                );
            }
        }
    }
    out
}
