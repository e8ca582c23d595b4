//! The three figures of each load: ping over time, its distribution, and the three panels.
//!
//! Principles: the habits of the papers. Ping over time with and without overlaid, light colour
//! without, dark with, dashed averages; an unbinned ECDF from 0 to 1; download, upload and ping
//! stacked on one time axis. Time series show the run that is nearest to the median, the ECDF
//! all runs that count. Non-goals: how a line gets onto a drawing (see `chart`).

use evenkeel_core::result::{ResultFile, Run};

use crate::axis::Axis;
use crate::chart::{Drawing, Frame, LEFT, Layout, Level, Line, Panel, RIGHT, head, panel};
use crate::rows::{Row, conditions, is_ours, is_series, loads, rows};
use crate::words;

/// Which of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ping,
    Ecdf,
    Panels,
}

impl Kind {
    /// Beginning of its file name.
    pub(crate) fn stem(self) -> &'static str {
        match self {
            Kind::Ping => "ping",
            Kind::Ecdf => "ecdf",
            Kind::Panels => "panels",
        }
    }
}

/// What one load showed, ready to be drawn in any layout.
#[derive(Debug)]
pub(crate) struct Story<'a> {
    pub(crate) load: &'a str,
    /// Its rows with their colours, the same ones in the whole file.
    rows: Vec<(usize, Row<'a>)>,
    /// More than evenkeel is compared: conditions go by their bare names.
    series: bool,
}

/// More conditions than this are not drawn over time.
const MOST_OVER_TIME: usize = 3;

/// One story for each load that has runs that count. Idle comes last: it is the reference.
pub(crate) fn stories(file: &ResultFile) -> Vec<Story<'_>> {
    // The first two colours are for the first two questions: without, and with evenkeel.
    let mut colours = vec!["none", "evenkeel"];
    for condition in conditions(file) {
        if !colours.contains(&condition) {
            colours.push(condition);
        }
    }
    let rows = rows(file);
    let series = is_series(&rows);
    let mut all: Vec<Story<'_>> = loads(file)
        .into_iter()
        .map(|load| Story {
            load,
            rows: Vec::new(),
            series,
        })
        .collect();
    for row in rows {
        let colour = colours.iter().position(|c| *c == row.condition);
        if let Some(story) = all.iter_mut().find(|s| s.load == row.load) {
            story.rows.push((colour.unwrap_or(0), row));
        }
    }
    all.retain(|s| !s.rows.is_empty());
    all.sort_by_key(|s| s.load == "idle");
    all
}

impl<'a> Story<'a> {
    /// Draws one figure; `None` if there is nothing to be drawn.
    pub(crate) fn draw(&self, kind: Kind, layout: Layout) -> Option<Drawing> {
        match kind {
            Kind::Ping => self.ping(layout),
            Kind::Ecdf => self.ecdf(layout),
            Kind::Panels => self.panels(layout),
        }
    }

    /// Its figures in the order of reading: of many conditions the distribution says most.
    pub(crate) fn kinds(&self) -> [Kind; 3] {
        if self.series {
            [Kind::Ecdf, Kind::Ping, Kind::Panels]
        } else {
            [Kind::Ping, Kind::Ecdf, Kind::Panels]
        }
    }

    /// What a figure shows, for those who cannot see it.
    pub(crate) fn alt(&self, kind: Kind) -> String {
        let what = match kind {
            Kind::Ping => "Ping over time",
            Kind::Ecdf => "Distribution of the ping",
            Kind::Panels => "Download, upload and ping over time",
        };
        let all = || self.rows.iter().collect();
        let shown = match kind {
            Kind::Ecdf => all(),
            Kind::Ping | Kind::Panels => self.over_time(),
        };
        let rows: Vec<String> = shown
            .into_iter()
            .map(|(_, r)| {
                let (avg, p99) = (r.ping.median, r.increase_p99.median);
                let (avg, p99) = (words::ms(avg), words::ms(p99));
                let condition = words::condition(r.condition);
                format!("{condition} {avg} ms on average, 99 % raised by less than {p99} ms")
            })
            .collect();
        format!("{what} {}: {}", words::during(self.load), rows.join("; "))
    }

    fn title(&self, what: &str) -> String {
        format!("{what} {}", words::during(self.load))
    }

    /// What time series show: all, or of many none, evenkeel (where it was not told anything or
    /// made to do otherwise, the best of these) and the best of the others.
    fn over_time(&self) -> Vec<&(usize, Row<'a>)> {
        if self.rows.len() <= MOST_OVER_TIME {
            return self.rows.iter().collect();
        }
        let best = |of: &dyn Fn(&str) -> bool| {
            let some = self.rows.iter().filter(|(_, r)| of(r.condition));
            some.min_by(|a, b| a.1.increase.median.total_cmp(&b.1.increase.median))
                .map(|b| b.0)
        };
        let shown = [
            best(&|c| c == "none"),
            best(&|c| c == "evenkeel").or_else(|| best(&is_ours)),
            best(&|c| c != "none" && !is_ours(c)),
        ];
        let is_shown = |r: &&(usize, Row<'a>)| shown.contains(&Some(r.0));
        self.rows.iter().filter(is_shown).collect()
    }

    /// The runs that time series show, with their colours.
    fn drawn(&self) -> impl Iterator<Item = (usize, &'a Run)> {
        let typical = |(colour, row): &(usize, Row<'a>)| Some((*colour, row.typical()?));
        self.over_time().into_iter().filter_map(typical)
    }

    fn legend<'b>(&self, rows: impl Iterator<Item = &'b (usize, Row<'a>)>) -> Vec<(usize, String)>
    where
        'a: 'b,
    {
        let name = if self.series {
            words::plain
        } else {
            words::condition
        };
        rows.map(|(colour, row)| (*colour, name(row.condition)))
            .collect()
    }

    /// The time axis that holds every drawn sample.
    fn time(&self, ticks: usize) -> Axis {
        let ends = self.drawn().flat_map(|(_, run)| {
            let s = &run.series;
            let probes = s.udp.iter().map(|p| p.0);
            let goodput = s.down_kbit.iter().chain(&s.up_kbit).map(|p| p.0);
            probes.chain(goodput)
        });
        let (lo, hi) = range(ends).unwrap_or((0.0, 1.0));
        Axis::exact(lo.min(0.0), hi, ticks)
    }

    fn ping_panel(&self, runs: &[(usize, &Run)], x: Axis, ticks: usize) -> Panel {
        let top = range(self.drawn().flat_map(|(_, run)| answered(run)));
        let base = self.drawn().map(|(_, run)| run.base_ms).next();
        let mut levels: Vec<Level> = runs
            .iter()
            .filter(|(_, run)| !run.series.udp.is_empty())
            .map(|(colour, run)| Level {
                colour: Some(*colour),
                y: run.ping_ms.avg,
                label: format!("avg {}", short(run.ping_ms.avg)),
            })
            .collect();
        if let Some(base) = base.filter(|b| self.load != "idle" && b.is_finite()) {
            levels.push(Level {
                colour: None,
                y: base,
                label: format!("idle {}", short(base)),
            });
        }
        Panel {
            x,
            y: Axis::from_zero(top.map_or(1.0, |t| t.1), ticks),
            y_label: "Ping (ms)".to_owned(),
            stroked: false,
            x_label: Some("Seconds since the start of the load".to_owned()),
            lines: runs
                .iter()
                .map(|(colour, run)| Line {
                    colour: *colour,
                    points: run.series.udp.clone(),
                })
                .collect(),
            levels,
            crosses: runs
                .iter()
                .map(|(colour, run)| {
                    let lost = run.series.udp.iter().filter(|p| p.1.is_none());
                    (*colour, lost.map(|p| p.0).collect())
                })
                .collect(),
        }
    }

    /// Figure 1: all conditions overlaid.
    fn ping(&self, layout: Layout) -> Option<Drawing> {
        let runs: Vec<(usize, &Run)> = self.drawn().collect();
        if runs.iter().all(|(_, run)| run.series.udp.is_empty()) {
            return None;
        }
        let panel = self.ping_panel(&runs, self.time(layout.x_ticks), 5);
        let mut legend = self.legend(self.over_time().into_iter());
        if panel.crosses.iter().any(|c| !c.1.is_empty()) {
            for (colour, text) in &mut legend {
                let lost = panel.crosses.iter().find(|c| c.0 == *colour);
                let lost = lost.map_or(0, |c| c.1.len());
                if lost > 0 {
                    *text += &format!(" (× {lost} lost)");
                }
            }
        }
        Some(single(layout, &self.title("Ping"), &legend, &panel))
    }

    /// Figure 2: the share of probes that were answered within x.
    fn ecdf(&self, layout: Layout) -> Option<Drawing> {
        let mut samples: Vec<(usize, Vec<f64>)> = self
            .rows
            .iter()
            .map(|(colour, row)| (*colour, distribution(&row.runs)))
            .filter(|(_, values)| !values.is_empty())
            .collect();
        // evenkeel's on top.
        samples.sort_by_key(|s| s.0 == 1);
        let (lo, hi) = range(samples.iter().flat_map(|s| s.1.iter().copied()))?;
        // Many conditions are told apart where the good ones are: the tails get less room.
        let factor = if self.series { 3.0 } else { 6.0 };
        let x = Axis::for_spread(lo, hi, factor, layout.x_ticks / 2 + 1);
        let panel = Panel {
            x,
            y: Axis::from_zero(1.0, 4),
            y_label: "Share of the probes answered within".to_owned(),
            x_label: Some("Ping (ms)".to_owned()),
            stroked: true,
            lines: samples
                .into_iter()
                .map(|(colour, values)| Line {
                    colour,
                    points: steps(&values, lo, hi),
                })
                .collect(),
            levels: Vec::new(),
            crosses: Vec::new(),
        };
        let title = self.title("Distribution of the ping");
        let legend = self.legend(self.rows.iter());
        Some(single(layout, &title, &legend, &panel))
    }

    /// Figure 3: a column of three panels for each condition, the scales shared.
    fn panels(&self, layout: Layout) -> Option<Drawing> {
        let runs: Vec<(usize, &Run)> = self.drawn().collect();
        let carried = |r: &Run| {
            let s = &r.series;
            s.down_kbit.iter().chain(&s.up_kbit).any(|p| p.1 > 0.0)
        };
        // Without goodput it would be figure 1 again, below two empty panels.
        if !runs.iter().any(|(_, run)| carried(run)) {
            return None;
        }
        let columns = layout.columns(runs.len());
        let gap = 10.0;
        let text = layout.text;
        let column = (layout.width - gap * (columns - 1) as f64) / columns as f64;
        let heights = [0.3, 0.3, 0.45].map(|share| share * layout.panel);
        let mut body = String::new();
        let title = self.title("Download, upload and ping");
        let legend = self.legend(self.over_time().into_iter());
        let mut top = head(&mut body, layout, &title, &legend, false);
        let goodput = |side: fn(&Run) -> &Vec<(f64, f64)>| {
            let all = self
                .drawn()
                .flat_map(|(_, run)| side(run).iter().map(|p| p.1));
            let highest = range(all).map_or(0.0, |r| r.1);
            if highest > 0.0 && highest < 2000.0 {
                (Axis::from_zero(highest, 3), 1.0, "kbit/s")
            } else {
                let highest = if highest > 0.0 { highest / 1000.0 } else { 1.0 };
                (Axis::from_zero(highest, 3), 1000.0, "Mbit/s")
            }
        };
        let sides = [
            ("Download", goodput(|r| &r.series.down_kbit), 0),
            ("Upload", goodput(|r| &r.series.up_kbit), 1),
        ];
        for line in runs.chunks(columns) {
            let mut bottom = top;
            for (i, pair) in line.iter().enumerate() {
                let (colour, run) = *pair;
                let x = self.time(layout.x_ticks / columns);
                let mut y = top;
                for ((name, (axis, unit, suffix), which), height) in sides.iter().zip(heights) {
                    let series = [&run.series.down_kbit, &run.series.up_kbit][*which];
                    let plot = Panel {
                        x: x.clone(),
                        y: axis.clone(),
                        y_label: format!("{name} ({suffix})"),
                        stroked: false,
                        x_label: None,
                        lines: vec![Line {
                            colour,
                            points: series.iter().map(|(t, v)| (*t, Some(v / unit))).collect(),
                        }],
                        levels: Vec::new(),
                        crosses: Vec::new(),
                    };
                    y += text * 2.2;
                    let left = i as f64 * (column + gap);
                    panel(&mut body, &plot, frame(left, y, column, height), text);
                    y += height + text * 0.6;
                }
                y += text * 2.2;
                let plot = self.ping_panel(&[*pair], x, 3);
                let left = i as f64 * (column + gap);
                panel(&mut body, &plot, frame(left, y, column, heights[2]), text);
                bottom = f64::max(bottom, y + heights[2] + text * 3.8);
            }
            top = bottom;
        }
        Some(Drawing {
            width: layout.width,
            height: top.ceil(),
            body,
        })
    }
}

/// A drawing with one panel.
pub(crate) fn single(
    layout: Layout,
    title: &str,
    legend: &[(usize, String)],
    plot: &Panel,
) -> Drawing {
    let mut body = String::new();
    let top = head(&mut body, layout, title, legend, plot.stroked) + layout.text * 2.2;
    let place = frame(0.0, top, layout.width, layout.panel);
    panel(&mut body, plot, place, layout.text);
    Drawing {
        width: layout.width,
        height: (top + layout.panel + layout.text * 3.6).ceil(),
        body,
    }
}

/// The plot within a column that starts at `left` and is `width` wide with its labels.
fn frame(left: f64, top: f64, width: f64, height: f64) -> Frame {
    Frame {
        left: left + LEFT,
        top,
        width: width - LEFT - RIGHT,
        height,
    }
}

/// Round trips that were answered, ms.
fn answered(run: &Run) -> impl Iterator<Item = f64> {
    run.series.udp.iter().filter_map(|p| p.1)
}

/// Every round trip of `runs`, ascending, ms; a lost probe is as bad as the worst of its run.
fn distribution(runs: &[&Run]) -> Vec<f64> {
    let mut values = Vec::new();
    for run in runs {
        let Some((_, worst)) = range(answered(run)) else {
            continue;
        };
        let worst = worst.max(if run.ping_ms.max.is_finite() {
            run.ping_ms.max
        } else {
            worst
        });
        let probes = run.series.udp.iter().map(|p| p.1.unwrap_or(worst));
        values.extend(probes.filter(|v| v.is_finite()));
    }
    values.sort_by(f64::total_cmp);
    values
}

/// The ECDF of ascending `values` as steps, from `lo` to `hi`.
pub(crate) fn steps(values: &[f64], lo: f64, hi: f64) -> Vec<(f64, Option<f64>)> {
    let n = values.len() as f64;
    let mut points = Vec::with_capacity(2 * values.len() + 2);
    points.push((lo, Some(0.0)));
    for (i, v) in values.iter().enumerate() {
        points.push((*v, Some(i as f64 / n)));
        points.push((*v, Some((i + 1) as f64 / n)));
    }
    points.push((hi, Some(1.0)));
    points
}

/// Smallest and largest of the finite `values`; `None` if there are none.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values
        .filter(|v| v.is_finite())
        .fold(None, |r: Option<(f64, f64)>, v| {
            Some(r.map_or((v, v), |(lo, hi)| (lo.min(v), hi.max(v))))
        })
}

/// Milliseconds in a margin: three digits.
fn short(v: f64) -> String {
    match v {
        v if v < 9.95 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
