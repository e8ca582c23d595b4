//! Colours: from the roles of a drawing to a light page, a dark page or a PNG.
//!
//! Principles: without is light and with is dark, as in the papers (on a dark page: dim and
//! bright); pairs differ in lightness as well as in hue, so that neither colour blindness nor a
//! grey print makes them one. Based on the palette of Okabe and Ito.

use std::fmt::Write;

use crate::chart::{COLOURS, Drawing, xml};

/// The colours of one look.
pub(crate) struct Theme {
    pub(crate) background: &'static str,
    pub(crate) text: &'static str,
    pub(crate) muted: &'static str,
    pub(crate) grid: &'static str,
    /// By the place of the condition; `none` is the first.
    pub(crate) lines: [&'static str; COLOURS],
    /// The same for text, where a light line would be hard to read.
    pub(crate) names: [&'static str; COLOURS],
}

/// Dark on light; also the PNGs.
pub(crate) const LIGHT: Theme = Theme {
    background: "#ffffff",
    text: "#1a1d21",
    muted: "#5b636d",
    grid: "#e3e6ea",
    lines: [
        "#f0a83c", "#0b3d91", "#00885f", "#c2497e", "#56a8dc", "#7a4b1e", "#d9480f", "#8a8f98",
    ],
    names: [
        "#9a5f00", "#0b3d91", "#006b4a", "#a32f64", "#1f6fa3", "#7a4b1e", "#b83a08", "#5b636d",
    ],
};

/// Light on dark.
pub(crate) const DARK: Theme = Theme {
    background: "#14171b",
    text: "#e8eaed",
    muted: "#a3abb5",
    grid: "#2c3138",
    lines: [
        "#a8701c", "#86bcff", "#3fd6a2", "#f08fb8", "#3c82ad", "#d9a679", "#ff8a5c", "#8b929b",
    ],
    names: [
        "#d99a3d", "#86bcff", "#3fd6a2", "#f08fb8", "#6fb4de", "#d9a679", "#ff8a5c", "#a3abb5",
    ],
};

impl Theme {
    /// The rules that give a drawing its colours, each selector after `prefix`.
    pub(crate) fn rules(&self, prefix: &str) -> String {
        let mut css = String::new();
        let (text, muted, grid) = (self.text, self.muted, self.grid);
        let _ = write!(
            css,
            "{prefix}.h{{fill:{text};font-weight:600}}{prefix}text{{fill:{text}}}\
             {prefix}.m{{fill:{muted}}}{prefix}.g{{stroke:{grid};fill:none}}\
             {prefix}.a{{stroke:{muted};fill:none}}{prefix}.l{{fill:none;stroke-width:1.6;\
             stroke-linejoin:round;stroke-linecap:round}}{prefix}.k{{fill:none;stroke-width:4}}{prefix}.d{{fill:none;\
             stroke-width:1.6;stroke-dasharray:7 5}}{prefix}.n{{stroke:{muted};stroke-width:1;\
             stroke-dasharray:2 4}}{prefix}.l.b{{stroke-width:2.4}}{prefix}.l.b.c0{{stroke-width:3.6}}{prefix}.s1{{stroke-dasharray:6 4}}\
             {prefix}.s2{{stroke-dasharray:1.5 3}}{prefix}.s3{{stroke-dasharray:9 3 2 3}}"
        );
        for (i, (line, name)) in self.lines.iter().zip(&self.names).enumerate() {
            let _ = write!(
                css,
                "{prefix}.c{i}{{stroke:{line}}}{prefix}.t{i}{{fill:{name};font-weight:600}}"
            );
        }
        css
    }
}

/// A drawing for a page that carries [`Theme::rules`] itself.
pub(crate) fn inline(drawing: &Drawing, class: &str, alt: &str) -> String {
    let Drawing {
        width,
        height,
        body,
    } = drawing;
    let alt = xml(alt);
    format!(
        r#"<svg class="fig {class}" viewBox="0 0 {width} {height}" role="img" aria-label="{alt}">{body}</svg>"#
    )
}

/// A drawing as a file of its own, with a margin and an opaque background.
pub(crate) fn standalone(drawing: &Drawing, theme: &Theme) -> String {
    let margin = 18.0;
    let (width, height) = (drawing.width + 2.0 * margin, drawing.height + 2.0 * margin);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="Inter"><style>{}</style><rect width="100%" height="100%" fill="{}"/><g transform="translate({margin} {margin})">{}</g></svg>"#,
        theme.rules(""),
        theme.background,
        drawing.body
    )
}
