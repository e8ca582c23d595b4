//! Figures of bench results: three panels on one time axis, distributions, latency against goodput.
//!
//! Principles: the papers' habits, as in `figures`; the phase of the load is shaded; several runs are
//! laid over one another by their phases, light without and dark with. Non-goals: how a line gets onto
//! a drawing (`chart`).

use std::fmt::Write as _;

use super::figures::{Figures, figures, goodput_series, round_trips, within};
use super::form::{Bench, Way};
use crate::axis::Axis;
use crate::chart::{Drawing, Frame, LEFT, Layout, Level, Line, Panel, RIGHT, head, panel};
use crate::figures::{range, single, steps};

/// Runs with the names that legends give them.
pub(crate) type Named = [(String, Bench)];

/// Which figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Panels,
    Ecdf,
    Arrows,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Panels, Kind::Ecdf, Kind::Arrows];

    /// Beginning of its file's name.
    pub(crate) fn stem(self) -> &'static str {
        match self {
            Kind::Panels => "bench-time",
            Kind::Ecdf => "bench-ecdf",
            Kind::Arrows => "bench-goodput",
        }
    }

    /// What it shows, for those who cannot see it.
    pub(crate) fn alt(self) -> &'static str {
        match self {
            Kind::Panels => "Download, upload and ping over time",
            Kind::Ecdf => "Distribution of the ping",
            Kind::Arrows => "Increase of the ping against goodput",
        }
    }

    /// Draws it; `None` if there is nothing to be drawn.
    pub(crate) fn draw(self, runs: &Named, layout: Layout) -> Option<Drawing> {
        match self {
            Kind::Panels => panels(runs, layout),
            Kind::Ecdf => ecdf(runs, layout),
            Kind::Arrows => arrows(runs, layout),
        }
    }
}

/// Groups of runs by label, in the order of their first: runs of a comparison belong together.
pub(crate) fn groups(runs: &Named) -> Vec<(String, Vec<&Bench>)> {
    let mut groups: Vec<(String, Vec<&Bench>)> = Vec::new();
    for (name, b) in runs {
        let key = if b.label.is_empty() { name } else { &b.label };
        match groups.iter_mut().find(|g| g.0 == *key) {
            Some(g) => g.1.push(b),
            None => groups.push((key.clone(), vec![b])),
        }
    }
    groups
}

/// A single run is dark; of several the first is light.
pub(crate) fn colour(i: usize, of: usize) -> usize {
    if of == 1 { 1 } else { i }
}

/// What the legend says.
fn legend(names: impl ExactSizeIterator<Item = String>) -> Vec<(usize, String)> {
    let n = names.len();
    names
        .enumerate()
        .map(|(i, name)| (colour(i, n), name))
        .collect()
}

/// Of each group the run with the median increase, whose series are shown.
fn typical<'a>(groups: &[(String, Vec<&'a Bench>)]) -> Vec<(String, &'a Bench)> {
    let of = |runs: &Vec<&'a Bench>| {
        let mut sorted = runs.clone();
        let key = |b: &Bench| figures(b).increase.map_or(f64::INFINITY, |i| i.avg);
        sorted.sort_by(|a, b| key(a).total_cmp(&key(b)));
        sorted.get((sorted.len().max(1) - 1) / 2).copied()
    };
    groups
        .iter()
        .filter_map(|(name, runs)| Some((name.clone(), of(runs)?)))
        .collect()
}

/// The judged round trips, ms by s from the load's begin.
fn pings(b: &Bench) -> Vec<(f64, Option<f64>)> {
    let all = b.judged().map_or(&[][..], |p| &p.probes);
    all.iter().map(|p| (p.t - b.phases.load, p.rtt)).collect()
}

/// One of the stacked panels.
struct Stacked {
    label: String,
    y: Axis,
    lines: Vec<Line>,
    crosses: Vec<(usize, Vec<f64>)>,
    /// Of a panel's usual height.
    share: f64,
}

/// A line for each run; `None` if there is nothing on them.
fn lines_of(
    shown: &[(String, &Bench)],
    points: impl Fn(&Bench) -> Vec<(f64, Option<f64>)>,
) -> Option<(Vec<Line>, f64)> {
    let n = shown.len();
    let line = |(i, (_, b)): (usize, &(String, &Bench))| Line {
        colour: colour(i, n),
        points: points(b),
    };
    let lines: Vec<Line> = shown.iter().enumerate().map(line).collect();
    let (_, high) = range(
        lines
            .iter()
            .flat_map(|l| l.points.iter().filter_map(|p| p.1)),
    )?;
    (high > 0.0).then_some((lines, high))
}

fn stacked_goodput(shown: &[(String, &Bench)], way: Way, name: &str) -> Option<Stacked> {
    let (lines, high) = lines_of(shown, |b| smooth(b, way))?;
    Some(Stacked {
        label: format!("{name} (Mbit/s)"),
        y: Axis::from_zero(high, 3),
        lines,
        crosses: Vec::new(),
        share: 0.5,
    })
}

fn stacked_ping(shown: &[(String, &Bench)]) -> Option<Stacked> {
    let (lines, high) = lines_of(shown, pings)?;
    let crosses = lines.iter().map(|l| {
        let lost = l.points.iter().filter(|p| p.1.is_none()).map(|p| p.0);
        (l.colour, lost.collect())
    });
    Some(Stacked {
        label: format!("Ping, {} (ms)", shown.first()?.1.judged()?.kind),
        y: Axis::from_zero(high, 4),
        crosses: crosses.collect(),
        lines,
        share: 0.9,
    })
}

/// Means while loaded, at the side of the panel.
fn means(lines: &[Line], loaded: f64) -> Vec<Level> {
    let mean = |l: &Line| {
        let inside = l.points.iter().filter(|p| (0.0..loaded).contains(&p.0));
        let v: Vec<f64> = inside.filter_map(|p| p.1).collect();
        let mean = v.iter().sum::<f64>() / v.len().max(1) as f64;
        (!v.is_empty()).then(|| Level {
            colour: Some(l.colour),
            y: mean,
            label: format!("avg {mean:.*}", usize::from(mean < 100.0)),
        })
    };
    lines.iter().filter_map(mean).collect()
}

fn panels(runs: &Named, layout: Layout) -> Option<Drawing> {
    let shown = typical(&groups(runs));
    let ends = shown.iter().map(|(_, b)| b.phases);
    let lo = ends.clone().map(|p| -p.load).reduce(f64::min)?;
    let hi = ends.clone().map(|p| p.end - p.load).reduce(f64::max)?;
    let loaded = ends.map(|p| p.tail - p.load).reduce(f64::max)?;
    let x = Axis::exact(lo, hi, layout.x_ticks);
    let mut body = String::new();
    let title = match &shown[..] {
        [(_, b)] => format!("Download, upload and ping: {} to {}", b.test, b.to),
        _ => "Download, upload and ping".into(),
    };
    let keys = match shown.len() {
        1 => Vec::new(),
        _ => legend(shown.iter().map(|(name, _)| name.clone())),
    };
    let mut y = head(&mut body, layout, &title, &keys, false);
    let all = [
        stacked_goodput(&shown, Way::Down, "Download"),
        stacked_goodput(&shown, Way::Up, "Upload"),
        stacked_ping(&shown),
    ];
    let all: Vec<Stacked> = all.into_iter().flatten().collect();
    let last = all.len();
    for (k, s) in all.into_iter().enumerate() {
        y += layout.text * 2.2;
        let frame = Frame {
            left: LEFT,
            top: y,
            width: layout.width - LEFT - RIGHT,
            height: s.share * layout.panel,
        };
        let (from, to) = (x.place(0.0), x.place(loaded));
        let _ = writeln!(
            body,
            r##"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="#888" fill-opacity="0.12"/>"##,
            frame.left + from * frame.width,
            frame.top,
            (to - from) * frame.width,
            frame.height
        );
        let plot = Panel {
            x: x.clone(),
            y: s.y,
            y_label: s.label,
            x_label: (k + 1 == last).then(|| "Seconds from the load's begin (shaded: load)".into()),
            stroked: false,
            levels: means(&s.lines, loaded),
            crosses: s.crosses,
            lines: s.lines,
        };
        panel(&mut body, &plot, frame, layout.text);
        y += frame.height + layout.text * 0.6;
    }
    Some(Drawing {
        width: layout.width,
        height: (y + layout.text * 3.2).ceil(),
        body,
    })
}

/// Goodput in half-second means: bins of 0.1 s show the kernel's habits rather than the line's.
fn smooth(b: &Bench, way: Way) -> Vec<(f64, Option<f64>)> {
    let series = goodput_series(b, way);
    let end = b.phases.end;
    let chunks = series.chunks(5).map(|c| {
        let n = c.len() as f64;
        let (t, v) = c.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
        (t / n, v / n)
    });
    let inside = chunks.filter(|c| c.0 <= end);
    inside.map(|(t, v)| (t - b.phases.load, Some(v))).collect()
}

fn ecdf(runs: &Named, layout: Layout) -> Option<Drawing> {
    let sets: Vec<(usize, String, Vec<f64>)> = if let [(_, b)] = runs {
        let p = b.phases;
        let phases = [
            ("idle", 0.0, p.load, 2),
            ("load", p.load, p.tail, 1),
            ("tail", p.tail, p.end, 0),
        ];
        let of = |(name, from, to, colour): (&str, f64, f64, usize)| {
            (
                colour,
                name.to_owned(),
                round_trips(&within(b.judged(), from, to)),
            )
        };
        phases.into_iter().map(of).collect()
    } else {
        let groups = groups(runs);
        let n = groups.len();
        let loaded = |b: &&Bench| round_trips(&within(b.judged(), b.phases.load, b.phases.tail));
        let of = |(i, (name, runs)): (usize, (String, Vec<&Bench>))| {
            (colour(i, n), name, runs.iter().flat_map(loaded).collect())
        };
        groups.into_iter().enumerate().map(of).collect()
    };
    let mut sets: Vec<_> = sets.into_iter().filter(|s| !s.2.is_empty()).collect();
    for s in &mut sets {
        s.2.sort_by(f64::total_cmp);
    }
    let (lo, hi) = range(sets.iter().flat_map(|s| s.2.iter().copied()))?;
    let keys: Vec<_> = sets.iter().map(|s| (s.0, s.1.clone())).collect();
    let plot = Panel {
        x: Axis::for_spread(lo, hi, 6.0, layout.x_ticks / 2 + 1),
        y: Axis::from_zero(1.0, 4),
        y_label: "Share of the pings answered within".into(),
        x_label: Some("Ping (ms)".into()),
        stroked: false,
        lines: sets
            .iter()
            .map(|s| Line {
                colour: s.0,
                points: steps(&s.2, lo, hi),
            })
            .collect(),
        levels: Vec::new(),
        crosses: Vec::new(),
    };
    let title = if runs.len() == 1 {
        "Distribution of the ping by phase"
    } else {
        "Distribution of the ping under load"
    };
    Some(single(layout, title, &keys, &plot))
}

/// Of a run: goodput of a way, if it had any.
type Carried = fn(&Figures) -> Option<f64>;

/// Goodput and increase of a run.
fn point(b: &Bench, way: Carried) -> Option<(f64, f64)> {
    let f = figures(b);
    Some((way(&f)?, f.increase?.avg))
}

fn mean(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let sum = points
        .iter()
        .fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
    (n > 0.0).then_some((sum.0 / n, sum.1 / n))
}

/// Induced latency against goodput, a dot for each run, an arrow from the first group's mean to each
/// other's.
fn arrows(runs: &Named, layout: Layout) -> Option<Drawing> {
    let groups = groups(runs);
    if groups.len() < 2 {
        return None;
    }
    let ways: [(&str, Carried); 2] = [("Download", |f| f.down_mbit), ("Upload", |f| f.up_mbit)];
    let has = |way: Carried| runs.iter().any(|(_, b)| point(b, way).is_some());
    let ways: Vec<_> = ways.into_iter().filter(|w| has(w.1)).collect();
    let mut body = String::new();
    let names = groups.iter().map(|g| g.0.clone()).collect::<Vec<_>>();
    let title = "Increase of the ping against goodput";
    let keys = legend(names.into_iter());
    let top = head(&mut body, layout, title, &keys, false) + layout.text * 2.2;
    let columns = layout.columns(ways.len());
    let column = layout.width / columns as f64;
    let step = layout.panel + layout.text * 6.0;
    for (k, (name, way)) in ways.iter().enumerate() {
        let of = |g: &(String, Vec<&Bench>)| g.1.iter().filter_map(|b| point(b, *way)).collect();
        let all: Vec<Vec<(f64, f64)>> = groups.iter().map(of).collect();
        let frame = Frame {
            left: (k % columns) as f64 * column + LEFT,
            top: top + (k / columns) as f64 * step,
            width: column - LEFT - RIGHT / 2.0,
            height: layout.panel,
        };
        plane(&mut body, name, &all, frame, layout.text)?;
    }
    let rows = ways.len().div_ceil(columns);
    Some(Drawing {
        width: layout.width,
        height: (top + rows as f64 * step).ceil(),
        body,
    })
}

/// One plane of goodput and increase, with the dots of each group.
fn plane(
    body: &mut String,
    name: &str,
    all: &[Vec<(f64, f64)>],
    frame: Frame,
    text: f64,
) -> Option<()> {
    let (_, right) = range(all.iter().flatten().map(|p| p.0))?;
    let (_, high) = range(all.iter().flatten().map(|p| p.1))?;
    let (x, y) = (
        Axis::from_zero(right * 1.05, 5),
        Axis::from_zero(high.max(1.0) * 1.05, 4),
    );
    let at = |p: (f64, f64)| {
        (
            frame.left + x.place(p.0) * frame.width,
            frame.top + (1.0 - y.place(p.1)) * frame.height,
        )
    };
    let plot = Panel {
        x: x.clone(),
        y: y.clone(),
        y_label: "Mean increase (ms): lower is better".into(),
        x_label: Some(format!("{name} (Mbit/s): right is better")),
        stroked: false,
        lines: Vec::new(),
        levels: Vec::new(),
        crosses: Vec::new(),
    };
    panel(body, &plot, frame, text);
    let n = all.len();
    let shade = |i: usize| colour(i, n) % crate::chart::COLOURS;
    for (i, points) in all.iter().enumerate() {
        for (px, py) in points.iter().map(|p| at(*p)) {
            let _ = writeln!(
                body,
                r#"<path class="l c{}" style="stroke-width:7" d="M{px:.1} {py:.1}h.1"/>"#,
                shade(i)
            );
        }
    }
    let from = mean(all.first()?).map(at)?;
    for (i, points) in all.iter().enumerate().skip(1) {
        if let Some(to) = mean(points).map(at) {
            arrow(body, from, to, shade(i));
        }
    }
    Some(())
}

fn arrow(out: &mut String, from: (f64, f64), to: (f64, f64), colour: usize) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length < 12.0 {
        return;
    }
    let (ux, uy) = (dx / length, dy / length);
    // It ends before the dots that it points at.
    let tip = (to.0 - ux * 7.0, to.1 - uy * 7.0);
    let wing = |side: f64| (tip.0 - ux * 10.0 - uy * side, tip.1 - uy * 10.0 + ux * side);
    let (a, b) = (wing(5.0), wing(-5.0));
    let _ = writeln!(
        out,
        r#"<path class="l c{colour}" d="M{:.1} {:.1}L{:.1} {:.1}M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}"/>"#,
        from.0, from.1, tip.0, tip.1, a.0, a.1, tip.0, tip.1, b.0, b.1
    );
}
