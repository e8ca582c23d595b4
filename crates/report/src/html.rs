//! `report.html`: one page that explains a result file, works offline and on a phone.
//!
//! Principles: nothing is loaded from anywhere, no scripts; light or dark as the reader's
//! machine asks; every figure is drawn twice, for a desk and for a phone, so that its text stays
//! readable. First what it means, then the comparison, then the pictures, then cost and gain
//! and what others published, then how it was measured.
//! Non-goals: interaction.

use std::fmt::Write;

use evenkeel_core::result::ResultFile;

use crate::chart::{NARROW, WIDE, xml};
use crate::figures::{Story, stories};
use crate::rows::{Row, rows, void_runs};
use crate::tables::{Column, Grid, comparison, more};
use crate::theme::{DARK, LIGHT, Theme, inline};
use crate::{text, words};

/// The page. Complete: it refers to nothing else.
pub fn html(file: &ResultFile) -> String {
    let rows = rows(file);
    let title = xml(&format!("evenkeel: {}", file.experiment));
    let mut page = head(&title);
    if !file.about.is_empty() {
        let _ = writeln!(page, "<p>{}</p>", xml(&file.about));
    }
    let findings = text::findings(file, &rows);
    if !findings.is_empty() {
        let _ = writeln!(page, "<ul class=\"findings\">");
        for finding in findings {
            let _ = writeln!(page, "<li>{}</li>", xml(&finding));
        }
        let _ = writeln!(page, "</ul>");
    }
    table(&mut page, &comparison(&rows));
    notes(&mut page, &words::notes(file, &rows));
    for story in stories(file) {
        figures(&mut page, &story);
    }
    for grid in more(file, &rows) {
        let _ = writeln!(page, "<section>\n<h2>{}</h2>", grid.title);
        table(&mut page, &grid);
        for note in &grid.notes {
            let _ = writeln!(page, "<p>{}</p>", xml(note));
        }
        page.push_str("</section>\n");
    }
    about(&mut page, file, &rows);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// The start of a page, up to its heading. `title` is XML.
pub(crate) fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n",
        style()
    )
}

/// A table; on a phone each cell says what it is.
fn table(page: &mut String, grid: &Grid) {
    page.push_str("<table>\n<thead><tr>");
    for column in &grid.head {
        let unit = match column.unit {
            "" => String::new(),
            unit => format!("<br><small>{unit}</small>"),
        };
        let class = if column.words { " class=\"words\"" } else { "" };
        let _ = write!(page, "<th scope=\"col\"{class}>{}{unit}</th>", column.name);
    }
    page.push_str("</tr></thead>\n");
    for group in &grid.groups {
        page.push_str("<tbody>");
        if let Some(name) = &group.name {
            let span = grid.head.len();
            let name = xml(name);
            let _ = writeln!(
                page,
                "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{span}\">{name}</th></tr>"
            );
        }
        for line in &group.lines {
            page.push_str(if line.ours {
                "<tr class=\"ours\">"
            } else {
                "<tr>"
            });
            for (i, (cell, column)) in line.cells.iter().zip(&grid.head).enumerate() {
                put(page, i, cell, column);
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n");
    }
    page.push_str("</table>\n");
}

fn put(page: &mut String, i: usize, cell: &str, column: &Column) {
    // A range or a share stands below its figure.
    let text = match text::split(column, cell) {
        (_, "") => format!("<span>{}</span>", xml(cell)),
        (figure, rest) => format!(
            "<span>{} <small>{}</small></span>",
            xml(figure),
            xml(rest.trim_start())
        ),
    };
    let _ = if i == 0 {
        write!(page, "<th scope=\"row\">{text}</th>")
    } else {
        let label = match column.unit {
            "" => column.name.to_owned(),
            unit => format!("{}, {unit}", column.name),
        };
        // On a phone, what has no figure has no line.
        let class = match (cell, column.words) {
            ("–", _) => " class=\"none\"",
            (_, true) => " class=\"words\"",
            _ => "",
        };
        write!(page, "<td data-label=\"{label}\"{class}>{text}</td>")
    };
}

fn notes(page: &mut String, notes: &[String]) {
    let _ = writeln!(page, "<p class=\"notes\">");
    for note in notes {
        let _ = writeln!(page, "{}<br>", xml(note));
    }
    let _ = writeln!(page, "</p>");
}

fn figures(page: &mut String, story: &Story<'_>) {
    let heading = words::heading(story.load);
    let _ = writeln!(page, "<section>\n<h2>{}</h2>", xml(&heading));
    let mut drawn = false;
    for kind in story.kinds() {
        for (layout, class) in [(WIDE, "wide"), (NARROW, "narrow")] {
            if let Some(drawing) = story.draw(kind, layout) {
                page.push_str(&inline(&drawing, class, &story.alt(kind)));
                page.push('\n');
                drawn = true;
            }
        }
    }
    page.push_str(if drawn {
        "</section>\n"
    } else {
        "<p>No samples were kept.</p>\n</section>\n"
    });
}

fn about(page: &mut String, file: &ResultFile, rows: &[Row<'_>]) {
    let _ = writeln!(page, "<section>\n<h2>What was measured</h2>");
    let _ = writeln!(
        page,
        "<p>An emulated line: {}. The packets went through the queues and the TCP of {}{}.</p>",
        xml(&words::line(file)),
        xml(&words::engine(&file.engine)),
        if file.kernel.is_empty() {
            String::new()
        } else {
            format!(" (Linux {})", xml(&file.kernel))
        },
    );
    page.push_str(
        "<p>While a load filled the line, small UDP packets without any mark, to a port that no \
         rule names, were answered by the server. Their round trip is the ping: ICMP, which \
         shapers prefer, would flatter them. The increase is the ping less that of the idle line; 99 % of the probes stayed \
         below the figure beside it. \
         Figures are taken from the start of the connections on. A lost packet counts as the \
         worst value. The factor divides the average increase without evenkeel by that with it. \
         The speed is TCP goodput; in brackets what was kept of it.</p>\n\
         <p>Figures over time show the run that is nearest to the median; dashed lines are its \
         averages; of many conditions they show none, evenkeel and the one of the others that \
         raised the ping least. The distributions contain every probe of every run that counts.</p>\n",
    );
    let _ = writeln!(page, "<h2>How to get it again</h2>");
    if file.command.is_empty() {
        let _ = writeln!(page, "<p>The command was not recorded.</p>");
    } else {
        let _ = writeln!(page, "<pre>{}</pre>", xml(&file.command));
    }
    let date = match file.date.as_str() {
        "" => "not recorded".to_owned(),
        date => xml(date),
    };
    let _ = writeln!(page, "<p>Seeds: {}. Date: {date}.</p>", words::seeds(file));
    let _ = writeln!(page, "<h2>How far to trust it</h2>\n<ul>");
    let counted = || rows.iter().flat_map(|r| &r.runs).map(|r| &r.instrument);
    let worst = |figure: fn(&evenkeel_core::result::Instrument) -> f64| {
        counted().map(figure).fold(0.0, f64::max)
    };
    if counted().next().is_some() {
        let _ = writeln!(
            page,
            "<li>Of the runs that count, in the worst: 99 % of the packets left the emulator less \
             than {} ms late, the last one {} ms; the CPU was {} busy, {} of it stolen by other \
             machines.</li>",
            words::ms(worst(|i| i.lag_p99_ms)),
            words::ms(worst(|i| i.lag_max_ms)),
            words::percent(worst(|i| i.cpu_busy)),
            words::percent(worst(|i| i.cpu_steal)),
        );
    }
    match void_runs(file).count() {
        0 => page.push_str("<li>No run was void.</li>\n"),
        n => {
            let _ = writeln!(
                page,
                "<li>{n} of {} runs were void, because the instrument was disturbed; they are \
                 named below the table and are in no figure.</li>",
                file.runs.len()
            );
        }
    }
    page.push_str(
        "<li>The line is emulated: a real one adds what its modem and its provider do.</li>\n\
         </ul>\n<p>All samples are in <code>result.json</code> beside this page.</p>\n</section>\n",
    );
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
