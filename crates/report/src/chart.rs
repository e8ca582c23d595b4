//! A small line chart in SVG: panels with axes, lines, levels, and a legend that never covers
//! data.
//!
//! Principles: a figure knows roles, not colours, so that one drawing serves the light page, the
//! dark page and a PNG; few grid lines; labels horizontal and with units; hundreds of thousands
//! of samples become at most four points per pixel column, none of the peaks lost (the M4 of
//! Jugel et al., VLDB 2014). Non-goals: bars, boxes, animation, interaction.

use std::fmt::Write;

use crate::axis::Axis;
use crate::words::wrap;

/// How many conditions have a colour of their own; more share them, with other strokes.
pub(crate) const COLOURS: usize = 8;

/// The colour of the condition at this place: the first two have one to themselves.
fn shade(place: usize) -> usize {
    match place.checked_sub(2) {
        Some(other) => 2 + other % (COLOURS - 2),
        None => place,
    }
}

/// The classes of the line of the condition at this place, if many cross: its colour, and a
/// stroke. Neighbours differ in it, so that curves that coincide can both be seen; the first two
/// are broad.
fn stroke(place: usize) -> String {
    let colour = shade(place);
    match place.checked_sub(2) {
        None => format!("b c{colour}"),
        Some(other) => {
            let round = other / (COLOURS - 2) * 2;
            format!("s{} c{colour}", (round + other % 2) % 4)
        }
    }
}

/// The classes of a line.
fn pen(place: usize, stroked: bool) -> String {
    if stroked {
        stroke(place)
    } else {
        format!("c{}", shade(place))
    }
}

/// Where the text and the panels of a drawing go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Width of the drawing, px.
    pub(crate) width: f64,
    /// Height of one panel's plot, px, if it is alone in its column.
    pub(crate) panel: f64,
    /// Steps on an x axis.
    pub(crate) x_ticks: usize,
    /// Columns of panels side by side.
    pub(crate) columns: usize,
    /// Size of the text, px.
    pub(crate) text: f64,
    /// Size of the title, px.
    pub(crate) title: f64,
}

impl Layout {
    /// Columns for so many panels: three stand in one line where two do.
    pub(crate) fn columns(&self, panels: usize) -> usize {
        let most = if panels == 3 && self.columns == 2 {
            3
        } else {
            self.columns
        };
        most.min(panels).max(1)
    }
}

/// For a page as wide as a desk's and for the PNGs.
pub(crate) const WIDE: Layout = Layout {
    width: 860.0,
    panel: 300.0,
    x_ticks: 10,
    columns: 2,
    text: 13.0,
    title: 18.0,
};

/// For a phone held upright.
pub(crate) const NARROW: Layout = Layout {
    width: 360.0,
    panel: 220.0,
    x_ticks: 5,
    columns: 1,
    text: 12.0,
    title: 15.0,
};

/// A finished drawing without its colours.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// What is between the `svg` tags.
    pub(crate) body: String,
}

/// One line of samples: x, and y or a gap. `colour` is the place of its condition.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, Option<f64>)>,
}

/// A dashed level across the panel with its value in the right margin.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    /// `None` draws it in the colour of the text.
    pub(crate) colour: Option<usize>,
    pub(crate) y: f64,
    pub(crate) label: String,
}

/// One plot.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// What y is, with its unit; stands above the axis.
    pub(crate) y_label: String,
    /// What x is, with its unit; without it the panel has no x labels.
    pub(crate) x_label: Option<String>,
    /// Lines differ in their strokes as well as in their colours: for many that cross.
    pub(crate) stroked: bool,
    pub(crate) lines: Vec<Line>,
    pub(crate) levels: Vec<Level>,
    /// Places (x) of crosses above the plot, by colour.
    pub(crate) crosses: Vec<(usize, Vec<f64>)>,
}

/// A rectangle on the drawing, px.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Room to the left of a plot for the labels of its y axis, px.
pub(crate) const LEFT: f64 = 46.0;
/// Room to the right of a plot for the labels of its levels, px.
pub(crate) const RIGHT: f64 = 70.0;

/// Draws the title and the legend; returns the height that they take.
pub(crate) fn head(
    out: &mut String,
    layout: Layout,
    title: &str,
    legend: &[(usize, String)],
    stroked: bool,
) -> f64 {
    let stroked = stroked && legend.len() > 2;
    let size = layout.title;
    let mut y = 6.0;
    for line in wrap(title, (layout.width / size / 0.6) as usize) {
        y += size * 1.2;
        let _ = writeln!(
            out,
            r#"<text class="h" x="2" y="{y:.1}" font-size="{size}">{}</text>"#,
            xml(&line)
        );
    }
    let (mut x, mut first) = (2.0, true);
    for (colour, text) in legend {
        // Inter's letters are 0.55 em wide on average; a wide guess only moves things apart.
        let needed = 30.0 + text.chars().count() as f64 * layout.text * 0.58 + 18.0;
        if first || x + needed - 18.0 > layout.width {
            (x, first) = (2.0, false);
            y += layout.text * 1.75;
        }
        let _ = writeln!(
            out,
            r#"<path class="k {}" d="M{x:.1} {:.1}h22"/><text x="{:.1}" y="{y:.1}" font-size="{}">{}</text>"#,
            pen(*colour, stroked),
            y - layout.text * 0.33,
            x + 29.0,
            layout.text,
            xml(text),
        );
        x += needed;
    }
    y + 12.0
}

/// Draws `panel` so that its plot fills `frame`. The labels stand outside of it: [`LEFT`] and
/// [`RIGHT`] beside, a line and a half of text above, two and a half below if it has `x_label`.
pub(crate) fn panel(out: &mut String, panel: &Panel, frame: Frame, text: f64) {
    let Frame {
        left,
        top,
        width,
        height,
    } = frame;
    let at_x = |v| left + panel.x.place(v) * width;
    let at_y = |v| top + (1.0 - panel.y.place(v)) * height;
    let _ = writeln!(
        out,
        r#"<text class="m" x="{:.1}" y="{:.1}" font-size="{text}">{}</text>"#,
        left - LEFT + 2.0,
        top - text * 0.85,
        xml(&panel.y_label)
    );
    for (v, label) in panel.y.ticks() {
        let y = at_y(v);
        let class = if v == 0.0 { "a" } else { "g" };
        let _ = writeln!(
            out,
            r#"<path class="{class}" d="M{left:.1} {y:.1}h{width:.1}"/><text class="m" x="{:.1}" y="{:.1}" font-size="{text}" text-anchor="end">{label}</text>"#,
            left - 7.0,
            y + text * 0.35,
        );
    }
    if let Some(x_label) = &panel.x_label {
        let below = top + height + text * 1.5;
        for (v, label) in panel.x.ticks() {
            let x = at_x(v);
            let _ = writeln!(
                out,
                r#"<path class="a" d="M{x:.1} {:.1}v4"/><text class="m" x="{x:.1}" y="{below:.1}" font-size="{text}" text-anchor="middle">{label}</text>"#,
                top + height
            );
        }
        let _ = writeln!(
            out,
            r#"<text class="m" x="{:.1}" y="{:.1}" font-size="{text}" text-anchor="middle">{}</text>"#,
            left + width / 2.0,
            below + text * 1.5,
            xml(x_label)
        );
    }
    let stroked = panel.stroked && panel.lines.len() > 2;
    for line in &panel.lines {
        let places = line
            .points
            .iter()
            .filter(|(x, y)| x.is_finite() && y.is_none_or(f64::is_finite))
            .map(|&(x, y)| (at_x(x), y.map(at_y)));
        let d = path(&thin(places, left));
        if !d.is_empty() {
            let _ = writeln!(
                out,
                r#"<path class="l {}" d="{d}"/>"#,
                pen(line.colour, stroked)
            );
        }
    }
    for (colour, places) in &panel.crosses {
        let mut d = String::new();
        let mut last = f64::NEG_INFINITY;
        for x in places.iter().filter(|x| x.is_finite()).map(|x| at_x(*x)) {
            // Crosses closer than their size would only be a smear.
            if x - last >= 7.0 {
                let _ = write!(d, "M{:.1} {:.1}l6 6m-6 0l6 -6", x - 3.0, top - 8.0);
                last = x;
            }
        }
        if !d.is_empty() {
            let _ = writeln!(out, r#"<path class="l c{}" d="{d}"/>"#, shade(*colour));
        }
    }
    levels(out, &panel.levels, frame, text, at_y);
}

/// Dashed lines, and their labels moved apart so that all can be read.
fn levels(out: &mut String, levels: &[Level], frame: Frame, text: f64, at_y: impl Fn(f64) -> f64) {
    let mut sorted: Vec<(f64, &Level)> = levels
        .iter()
        .filter(|l| l.y.is_finite())
        .map(|l| (at_y(l.y), l))
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let gap = text * 1.15;
    let mut labels: Vec<f64> = sorted.iter().map(|l| l.0).collect();
    for i in 1..labels.len() {
        labels[i] = labels[i].max(labels[i - 1] + gap);
    }
    // What was pushed below the plot pushes the others up again.
    let mut limit = frame.top + frame.height - text * 0.25;
    for y in labels.iter_mut().rev() {
        *y = y.min(limit);
        limit = *y - gap;
    }
    for ((y, level), label) in sorted.iter().zip(labels) {
        let (line, name) = match level.colour {
            Some(c) => (format!("d c{}", shade(c)), format!("t{}", shade(c))),
            None => ("d n".to_owned(), "m".to_owned()),
        };
        let _ = writeln!(
            out,
            r#"<path class="{line}" d="M{:.1} {y:.1}h{:.1}"/><text class="{name}" x="{:.1}" y="{:.1}" font-size="{text}">{}</text>"#,
            frame.left,
            frame.width,
            frame.left + frame.width + 6.0,
            label + text * 0.35,
            xml(&level.label),
        );
    }
}

/// At most four points per half pixel column: the first, the lowest, the highest and the last,
/// in their order. Gaps stay if a column holds nothing else.
fn thin(points: impl Iterator<Item = (f64, Option<f64>)>, left: f64) -> Vec<(f64, Option<f64>)> {
    let mut out: Vec<(f64, Option<f64>)> = Vec::new();
    let mut column: Vec<(f64, f64)> = Vec::new();
    let mut current = i64::MIN;
    let flush = |column: &mut Vec<(f64, f64)>, out: &mut Vec<(f64, Option<f64>)>| {
        let by_y = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        if let Some(last) = column.len().checked_sub(1) {
            let low = (0..=last).min_by(by_y).unwrap_or(0);
            let high = (0..=last).max_by(by_y).unwrap_or(0);
            let mut keep = [0, low, high, last];
            keep.sort_unstable();
            let mut before = None;
            for i in keep {
                if before != Some(i) {
                    out.push((column[i].0, Some(column[i].1)));
                    before = Some(i);
                }
            }
        }
        column.clear();
    };
    for (x, y) in points {
        let here = ((x - left) * 2.0).floor() as i64;
        if here != current {
            flush(&mut column, &mut out);
            current = here;
        }
        match y {
            Some(y) => column.push((x, y)),
            None if column.is_empty() && out.last().is_some_and(|p| p.1.is_some()) => {
                out.push((x, None));
            }
            None => {}
        }
    }
    flush(&mut column, &mut out);
    out
}

/// The `d` of a path with a new start after each gap; a lone point becomes a dot.
fn path(points: &[(f64, Option<f64>)]) -> String {
    let mut d = String::new();
    let mut drawn = 0;
    for (x, y) in points {
        match y {
            Some(y) if drawn == 0 => {
                let _ = write!(d, "M{x:.1} {y:.1}");
                drawn = 1;
            }
            Some(y) => {
                let _ = write!(d, "L{x:.1} {y:.1}");
                drawn += 1;
            }
            None => {
                if drawn == 1 {
                    d.push_str("h.1");
                }
                drawn = 0;
            }
        }
    }
    if drawn == 1 {
        d.push_str("h.1");
    }
    d
}

/// `text` so that no XML or HTML parser takes any of it for markup.
pub(crate) fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_every_peak() {
        let n = 300_000;
        let points = (0..n).map(|i| {
            let y = if i == 123_457 {
                900.0
            } else {
                f64::from(i % 7)
            };
            (f64::from(i) / f64::from(n) * 800.0, Some(y))
        });
        let thinned = thin(points, 0.0);
        assert!(thinned.len() <= 4 * 1600, "{}", thinned.len());
        assert!(thinned.iter().any(|p| p.1 == Some(900.0)));
        assert!(thinned.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn gaps_and_lone_points() {
        let points = [
            (0.0, Some(1.0)),
            (10.0, None),
            (11.0, None),
            (20.0, Some(2.0)),
            (30.0, Some(3.0)),
        ];
        let thinned = thin(points.into_iter(), 0.0);
        assert_eq!(thinned.len(), 4);
        assert_eq!(path(&thinned), "M0.0 1.0h.1M20.0 2.0L30.0 3.0");
        assert_eq!(path(&[]), "");
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(xml("a<b>&\"'\u{1b}"), "a&lt;b&gt;&amp;&quot;&#39;?");
    }
}
