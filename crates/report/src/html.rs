//! `report.html`: one page that explains a result file, works offline and on a phone.
//!
//! Principles: nothing is loaded from anywhere, no scripts; light or dark as the reader's
//! machine asks; every figure is drawn twice, for a desk and for a phone, so that its text stays
//! readable. First what it means, then the comparison, then the pictures, then cost and gain
//! and what others published, then how it was measured.
//! Non-goals: interaction.

use evenkeel_core::result::{Instrument, ResultFile};
use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use crate::chart::{NARROW, WIDE};
use crate::figures::{Story, stories};
use crate::rows::{Row, rows, void_runs};
use crate::tables::{Column, Grid, comparison, more};
use crate::theme::{DARK, LIGHT, Theme, inline};
use crate::{text, words};

/// The page. Complete: it refers to nothing else.
pub fn html(file: &ResultFile) -> String {
    let rows = rows(file);
    let findings = text::findings(file, &rows);
    let body = markup! {
        @if !file.about.is_empty() {
            p { (words::plain(&file.about)) }
        }
        @if !findings.is_empty() {
            ul.findings {
                @for finding in findings { li { (finding) } }
            }
        }
        (table(&comparison(&rows)))
        p.notes {
            @for note in words::notes(file, &rows) { (note) br; }
        }
        @for story in stories(file) { (figures(&story)) }
        @for grid in more(file, &rows) {
            section {
                h2 { (grid.title) }
                (table(&grid))
                @for note in &grid.notes { p { (note) } }
            }
        }
        section {
            (method(file))
            (origin(file))
            (trust(file, &rows))
        }
    };
    page(
        &words::plain(&format!("evenkeel: {}", file.experiment)),
        &body,
    )
}

/// A page with `title` as its heading.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(style())) }
            }
            body {
                main {
                    h1 { (title) }
                    (body)
                }
            }
        }
    };
    page.into_string() + "\n"
}

/// A table; on a phone each cell says what it is.
fn table(grid: &Grid) -> Markup {
    markup! {
        table {
            thead {
                tr {
                    @for column in &grid.head {
                        th scope="col" class=[column.words.then_some("words")] {
                            (column.name)
                            @if !column.unit.is_empty() { br; small { (column.unit) } }
                        }
                    }
                }
            }
            @for group in &grid.groups {
                tbody {
                    @if let Some(name) = &group.name {
                        tr.group { th scope="rowgroup" colspan=(grid.head.len()) { (name) } }
                    }
                    @for line in &group.lines {
                        tr class=[line.ours.then_some("ours")] {
                            @for (i, (text, column)) in line.cells.iter().zip(&grid.head).enumerate() {
                                (cell(i, text, column))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Cell `i` of a line. A range or a share stands below its figure.
fn cell(i: usize, cell: &str, column: &Column) -> Markup {
    let (figure, rest) = text::split(column, cell);
    let text = markup! {
        span {
            (figure)
            @if !rest.is_empty() { " " small { (rest.trim_start()) } }
        }
    };
    let label = match column.unit {
        "" => column.name.to_owned(),
        unit => format!("{}, {unit}", column.name),
    };
    // On a phone, what has no figure has no line.
    let class = match (cell, column.words) {
        ("–", _) => Some("none"),
        (_, true) => Some("words"),
        _ => None,
    };
    markup! {
        @if i == 0 {
            th scope="row" { (text) }
        } @else {
            td data-label=(label) class=[class] { (text) }
        }
    }
}

fn figures(story: &Story<'_>) -> Markup {
    let mut drawings = Vec::new();
    for kind in story.kinds() {
        for (layout, class) in [(WIDE, "wide"), (NARROW, "narrow")] {
            if let Some(drawing) = story.draw(kind, layout) {
                drawings.push(PreEscaped(inline(&drawing, class, &story.alt(kind))));
            }
        }
    }
    markup! {
        section {
            h2 { (words::heading(story.load)) }
            @if drawings.is_empty() { p { "No samples were kept." } }
            @for drawing in drawings { (drawing) }
        }
    }
}

/// What was measured.
fn method(file: &ResultFile) -> Markup {
    markup! {
        h2 { "What was measured" }
        p {
            "An emulated line: " (words::line(file)) ". The packets went through the queues and the TCP of "
            (words::engine(&file.engine))
            @if !file.kernel.is_empty() { " (Linux " (words::plain(&file.kernel)) ")" }
            "."
        }
        p {
            "While a load filled the line, small UDP packets without any mark, to a port that no \
             rule names, were answered by the server. Their round trip is the ping: ICMP, which \
             shapers prefer, would flatter them. The increase is the ping less that of the idle \
             line; 99 % of the probes stayed below the figure beside it. Figures are taken from \
             the start of the connections on. A lost packet counts as the worst value. The factor \
             divides the average increase without evenkeel by that with it. The speed is TCP \
             goodput; in brackets what was kept of it."
        }
        p {
            "Figures over time show the run that is nearest to the median; dashed lines are its \
             averages; of many conditions they show none, evenkeel and the one of the others that \
             raised the ping least. The distributions contain every probe of every run that counts."
        }
    }
}

/// How to get it again.
fn origin(file: &ResultFile) -> Markup {
    let date = match file.date.as_str() {
        "" => "not recorded",
        date => date,
    };
    markup! {
        h2 { "How to get it again" }
        @if file.command.is_empty() {
            p { "The command was not recorded." }
        } @else {
            pre { (words::plain(&file.command)) }
        }
        p { "Seeds: " (words::seeds(file)) ". Date: " (date) "." }
    }
}

/// How far to trust it.
fn trust(file: &ResultFile, rows: &[Row<'_>]) -> Markup {
    let counted = || rows.iter().flat_map(|r| &r.runs).map(|r| &r.instrument);
    let worst = |figure: fn(&Instrument) -> f64| counted().map(figure).fold(0.0, f64::max);
    let void = void_runs(file).count();
    markup! {
        h2 { "How far to trust it" }
        ul {
            @if counted().next().is_some() {
                li {
                    "Of the runs that count, in the worst: 99 % of the packets left the emulator \
                     less than " (words::ms(worst(|i| i.lag_p99_ms))) " ms late, the last one "
                    (words::ms(worst(|i| i.lag_max_ms))) " ms; the CPU was "
                    (words::percent(worst(|i| i.cpu_busy))) " busy, "
                    (words::percent(worst(|i| i.cpu_steal))) " of it stolen by other machines."
                }
            }
            @if void == 0 {
                li { "No run was void." }
            } @else {
                li {
                    (void) " of " (file.runs.len()) " runs were void, because the instrument was \
                     disturbed; they are named below the table and are in no figure."
                }
            }
            li { "The line is emulated: a real one adds what its modem and its provider do." }
        }
        p { "All samples are in " code { "result.json" } " beside this page." }
    }
}

fn style() -> String {
    let page = |t: &Theme| {
        format!(
            ":root{{--bg:{};--text:{};--muted:{};--grid:{};--link:{}}}{}",
            t.background,
            t.text,
            t.muted,
            t.grid,
            t.names[1],
            t.rules(".fig ")
        )
    };
    format!(
        "{}@media(prefers-color-scheme:dark){{{}}}{}",
        page(&LIGHT),
        page(&DARK),
        include_str!("../assets/page.css")
    )
}
