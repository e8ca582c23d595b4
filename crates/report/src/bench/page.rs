//! The page of bench results: one that can be sent to somebody.
//!
//! Principles: complete, it refers to nothing else; light or dark as the reader's machine asks; runs can
//! be hidden by their names (style alone, no script); a pointer over a figure reads it off (a few lines
//! of script; without it the page is whole); it prints. Non-goals: the lab's results.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html as markup};

use super::draw::{Kind, colour, groups};
use super::figures::figures;
use super::flent::time;
use super::form::{Bench, Verdict};
use super::text;
use crate::chart::{NARROW, WIDE};
use crate::html;
use crate::theme::inline;
use crate::words::plain;

/// The page of one run, or of several compared.
pub fn page(runs: &[(String, Bench)]) -> String {
    let title = match runs {
        [(name, _)] => format!("evenkeel bench: {name}"),
        _ => "evenkeel bench: runs compared".into(),
    };
    let differences = text::differences(runs);
    let body = markup! {
        @if let [(_, b)] = runs { (one(b)) }
        (table(runs))
        @if runs.len() > 1 {
            p.notes { "Means of the runs of a name; void ones do not count. Factor and shares are against the first." }
        }
        @if !differences.is_empty() {
            h2 { "With against without" }
            ul.findings {
                @for (what, unit, d) in differences { li { (text::difference(what, unit, d)) } }
            }
        }
        (pictures(runs))
        @if let [(_, b)] = runs { (measures(b)) }
        (checks(runs))
        (origin(runs))
        script { (PreEscaped(include_str!("../../assets/hover.js"))) }
    };
    html::page(&title, &body)
}

fn one(b: &Bench) -> Markup {
    let f = figures(b);
    let grade = f
        .grades
        .as_ref()
        .filter(|_| b.void().is_empty())
        .map(|g| g.dslreports);
    markup! {
        @if let Some(grade) = grade {
            p style="float:right;margin:0 0 0 1em;text-align:center;line-height:1" {
                span style="font-size:3.4em;font-weight:700" { (grade) } br; small { "DSLReports' scale" }
            }
        }
        p style="font-size:1.15em" { (text::sentence(b, &f)) }
        @if b.interrupted { p { "It was interrupted: these are the figures until then." } }
        @if let Some(ways) = text::ways(&f).filter(|_| b.void().is_empty()) { p { (ways) } }
    }
}

fn table(runs: &[(String, Bench)]) -> Markup {
    let short: Vec<String> = text::HEAD
        .iter()
        .map(|(name, unit)| {
            if unit.is_empty() {
                (*name).into()
            } else {
                format!("{name}, {unit}")
            }
        })
        .collect();
    markup! {
        table {
            thead { tr {
                @for (name, unit) in text::HEAD {
                    th scope="col" { (name) @if !unit.is_empty() { br; small { (unit) } } }
                }
            } }
            tbody {
                @for row in text::rows(runs) {
                    tr {
                        @for (i, cell) in row.iter().enumerate() {
                            @if i == 0 { th scope="row" { (cell) } } @else {
                                td data-label=(short[i]) class=[(cell == "–").then_some("none")] { span { (figure(cell)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A cell; a share stands below its figure.
fn figure(cell: &str) -> Markup {
    let (figure, share) = cell.split_once(' ').unwrap_or((cell, ""));
    markup! { (figure) @if !share.is_empty() { " " small { (share) } } }
}

fn pictures(runs: &[(String, Bench)]) -> Markup {
    let groups = groups(runs);
    let n = groups.len();
    let mut hide = String::new();
    for i in 0..n {
        let c = colour(i, n);
        let _ = write!(
            hide,
            "#g{i}:not(:checked)~.fig .c{c},#g{i}:not(:checked)~.fig .t{c}{{visibility:hidden}}"
        );
    }
    let mut drawings = Vec::new();
    for kind in Kind::ALL {
        for (layout, class) in [(WIDE, "wide"), (NARROW, "narrow")] {
            if let Some(drawing) = kind.draw(runs, layout) {
                drawings.push(PreEscaped(inline(&drawing, class, kind.alt())));
            }
        }
    }
    markup! {
        section {
            @if n > 1 {
                style { (PreEscaped(hide)) "@media print{.toggle{display:none}}" }
                @for (i, (name, _)) in groups.iter().enumerate() {
                    input.toggle id=(format!("g{i}")) type="checkbox" checked style="margin-left:1.2em";
                    label.toggle for=(format!("g{i}")) { " " (plain(name)) }
                }
            }
            @for drawing in drawings { (drawing) }
        }
    }
}

fn measures(b: &Bench) -> Markup {
    let all = if b.void().is_empty() {
        text::measures(&figures(b))
    } else {
        Vec::new()
    };
    markup! {
        @if !all.is_empty() {
            h2 { "What scales of others say" }
            table {
                tbody {
                    @for (name, value, source) in all {
                        tr { th scope="row" { (name) } td.words { (value) } td.words { small { (source) } } }
                    }
                }
            }
        }
    }
}

fn checks(runs: &[(String, Bench)]) -> Markup {
    let single = runs.len() == 1;
    let shown = |b: &Bench| {
        b.checks
            .iter()
            .filter(|c| single || c.verdict >= Verdict::Doubt)
            .cloned()
            .collect::<Vec<_>>()
    };
    markup! {
        h2 { "How far to trust it" }
        ul {
            @for (name, b) in runs {
                @for c in shown(b) {
                    li {
                        @if c.verdict >= Verdict::Doubt { strong { (text::verdict(c.verdict)) ": " } }
                        @if !single { (name) ": " }
                        (c.name) ": " (c.says) "."
                    }
                }
            }
        }
        @if !single { p.notes { "Only what gives doubt is listed; each run's own page has every check." } }
    }
}

fn origin(runs: &[(String, Bench)]) -> Markup {
    markup! {
        h2 { "How it was measured" }
        p {
            "Pings ran through three phases: the idle line, the load (shaded), and what came after. The increase is \
             the ping under load less the mean of the idle line; a lost ping counts as the worst one. Goodput is \
             what the receiver got, from the load's begin to its end."
        }
        @for (name, b) in runs {
            p.notes {
                (name) ": " (plain(&b.test)) " to " (plain(&b.to)) " (" (plain(&b.far_end))
                @if !b.address.is_empty() { ", " (plain(&b.address)) }
                ")"
                // Files of others do not say where and when.
                @if !b.host.is_empty() { " from " (plain(&b.host)) }
                @if b.began > 0.0 { ", " (time(b.began)) }
                ", load " (format!("{:.0}", b.phases.tail - b.phases.load)) " s"
                @if !b.shaper.is_empty() { ", shaped by " (plain(&b.shaper)) }
                @if !b.kernel.is_empty() { ", Linux " (plain(&b.kernel)) }
                @if !b.program.is_empty() { ", " (plain(&b.program)) }
                "."
            }
            @if !b.command.is_empty() { pre { (plain(&b.command)) } }
        }
    }
}
