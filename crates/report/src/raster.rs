//! PNGs of the figures, the same on every machine.
//!
//! Principles: the fonts are part of the program (Inter, cut down to what figures need; its
//! licence is in `assets/OFL.txt`), the system's are never asked. Non-goals: other formats.

use std::sync::{Arc, OnceLock};

use resvg::{tiny_skia, usvg};

/// Pixels of the PNG per unit of the drawing: sharp on today's screens.
const SCALE: f32 = 2.0;

/// The PNG of a standalone SVG. The error is a text for [`crate::Error::Draw`].
pub(crate) fn png(svg: &str) -> Result<Vec<u8>, String> {
    let options = usvg::Options {
        font_family: "Inter".to_owned(),
        fontdb: fonts(),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|e| e.to_string())?;
    let side = |v: f32| (v * SCALE).ceil().clamp(1.0, 20_000.0) as u32;
    let (width, height) = (side(tree.size().width()), side(tree.size().height()));
    let mut image = tiny_skia::Pixmap::new(width, height)
        .ok_or_else(|| format!("no memory for {width} x {height} pixels"))?;
    let scale = tiny_skia::Transform::from_scale(SCALE, SCALE);
    resvg::render(&tree, scale, &mut image.as_mut());
    image.encode_png().map_err(|e| e.to_string())
}

fn fonts() -> Arc<usvg::fontdb::Database> {
    static FONTS: OnceLock<Arc<usvg::fontdb::Database>> = OnceLock::new();
    Arc::clone(FONTS.get_or_init(|| {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_font_data(include_bytes!("../assets/Inter-Regular.otf").to_vec());
        fonts.load_font_data(include_bytes!("../assets/Inter-SemiBold.otf").to_vec());
        Arc::new(fonts)
    }))
}
