// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The SVG documents of all charts and diagrams: colours, fonts, title and themes. The `plotters` crate draws.
//!
//! A picture follows the viewer's light or dark theme by CSS alone; without CSS support it is light. It has no script, no
//! font, and loads nothing.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::fmt::Write;

/// Colours of lines and text, the grid, and the background, in the light and the dark theme.
pub(crate) const INK: Tone = Tone { light: RGBColor(0x22, 0x22, 0x22), dark: RGBColor(0xE6, 0xE6, 0xE6) };
pub(crate) const GRID: Tone = Tone { light: RGBColor(0xDE, 0xDE, 0xDE), dark: RGBColor(0x3A, 0x3A, 0x3A) };
pub(crate) const PAPER: Tone = Tone { light: RGBColor(0xFE, 0xFE, 0xFE), dark: RGBColor(0x16, 0x16, 0x18) };

/// Colours of series, repeated in order: those of Okabe and Ito, which colour-blind readers can distinguish, and lighter
/// ones for the dark theme.
pub(crate) const SERIES: [Tone; 6] = [
    Tone { light: RGBColor(0x00, 0x72, 0xB2), dark: RGBColor(0x56, 0xB4, 0xE9) },
    Tone { light: RGBColor(0x6E, 0x6E, 0x6E), dark: RGBColor(0xB4, 0xB4, 0xB4) },
    Tone { light: RGBColor(0xD5, 0x5E, 0x00), dark: RGBColor(0xFF, 0x8C, 0x3A) },
    Tone { light: RGBColor(0x00, 0x9E, 0x73), dark: RGBColor(0x2F, 0xD0, 0xA0) },
    Tone { light: RGBColor(0xA8, 0x4F, 0x86), dark: RGBColor(0xE3, 0x9B, 0xC6) },
    Tone { light: RGBColor(0xB0, 0x7A, 0x00), dark: RGBColor(0xF0, 0xC0, 0x40) },
];

/// One colour in both themes.
pub(crate) struct Tone {
    pub(crate) light: RGBColor,
    pub(crate) dark: RGBColor,
}

/// Height of the title and the subtitle, in pixels.
pub(crate) const HEAD: i32 = 64;
/// Largest width and height of a picture, in pixels.
const MAX_SIDE: u32 = 30_000;

/// Maximum number of series in a chart.
pub const MAX_SERIES: usize = 24;

/// Most bars of a chart.
pub const MAX_BARS: usize = 400;

/// Reason why a chart cannot be drawn.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FigureError {
    /// The number of series is not 1 to [`MAX_SERIES`].
    #[error("a chart of {0} series: expected 1 to {MAX_SERIES}")]
    Series(usize),
    /// The ends of an axis are not finite, or the second is not greater.
    #[error("an axis from {0}: expected finite ends, with the second greater than the first")]
    Axis(String),
    /// A point of a series is not finite.
    #[error("series {0:?} has a point that is not finite")]
    Point(String),
    /// Invalid number of bars, or of their parts.
    #[error("a chart of {0} bars with {1} parts: expected 1 to {MAX_BARS} bars, 1 to {MAX_SERIES} parts")]
    Bars(usize, usize),
    /// A bar has a part that is negative or not a number.
    #[error("bar {0:?} has a part that is negative or not finite")]
    Part(String),
    /// The picture would be too large.
    #[error("a picture of {0} by {1} pixels: expected at most 30000 in each direction")]
    Size(u32, u32),
    /// Error of the drawing library.
    #[error("the chart cannot be drawn: {0}")]
    Drawing(String),
}

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Converts an error of the drawing library.
pub(crate) fn drawing(error: impl std::fmt::Display) -> FigureError {
    FigureError::Drawing(error.to_string())
}

/// Returns the text of a tick, without trailing zeros.
pub(crate) fn tick(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns one SVG document of this width and height, with a title, and a line below it. Equal pictures give equal bytes.
///
/// # Errors
/// Errors of `draw`, and a picture that is too large.
pub(crate) fn svg(
    (width, height): (u32, u32),
    title: &str,
    subtitle: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<(), FigureError>,
) -> Result<String, FigureError> {
    if width.max(height) > MAX_SIDE {
        return Err(FigureError::Size(width, height));
    }
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        area.fill(&PAPER.light).map_err(drawing)?;
        area.draw_text(title, &font(22), (20, 14)).map_err(drawing)?;
        area.draw_text(subtitle, &font(16), (20, 42)).map_err(drawing)?;
        draw(&area)?;
        area.present().map_err(drawing)?;
    }
    Ok(with_head(&svg, title, subtitle))
}

/// Adds a title for screen readers and the colours of the dark theme.
fn with_head(svg: &str, title: &str, subtitle: &str) -> String {
    let Some((open, rest)) = svg.split_once('>') else { return svg.to_owned() };
    format!(
        "{open} role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>{}</style>{rest}",
        escaped(title),
        escaped(subtitle),
        dark_style()
    )
}

/// Returns the font of all text. `size` is the library's: about five quarters of the height in pixels.
pub(crate) fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK.light)
}

/// Returns an upper estimate of the width of `text` in pixels, in a font of this size.
pub(crate) fn text_width(text: &str, size: i32) -> i32 {
    let characters = i32::try_from(text.chars().count()).unwrap_or(i32::MAX / 64);
    characters.saturating_mul(size) / 2
}

/// Returns CSS that replaces each colour in the dark theme.
pub(crate) fn dark_style() -> String {
    let mut css = String::from("@media (prefers-color-scheme: dark) {");
    for tone in [&INK, &GRID, &PAPER].into_iter().chain(&SERIES) {
        let (light, dark) = (hex(tone.light), hex(tone.dark));
        let _ =
            write!(css, " [fill=\"{light}\"] {{ fill: {dark} }} [stroke=\"{light}\"] {{ stroke: {dark} }}");
    }
    css + " }"
}

pub(crate) fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// Escapes text for XML and HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            _ => out.push(c),
        }
    }
    out
}
