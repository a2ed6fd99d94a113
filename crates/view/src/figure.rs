// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Line charts as SVG, and pages with a line chart, for papers and slides.
//!
//! The `plotters` crate draws the charts. Colours follow the viewer's light or dark theme by CSS; a viewer without CSS
//! shows the light theme. A chart has no script and no font, and loads nothing.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use std::fmt::Write;

/// Width and height of a chart in CSS pixels. Viewers can scale it.
const SIZE: (u32, u32) = (900, 560);

/// Colours of text and axes, of the grid, and of the background.
const INK: Tone = Tone { light: RGBColor(0x22, 0x22, 0x22), dark: RGBColor(0xE6, 0xE6, 0xE6) };
const GRID: Tone = Tone { light: RGBColor(0xDE, 0xDE, 0xDE), dark: RGBColor(0x3A, 0x3A, 0x3A) };
const PAPER: Tone = Tone { light: RGBColor(0xFE, 0xFE, 0xFE), dark: RGBColor(0x16, 0x16, 0x18) };

/// Colours of series, used in order and then repeated. They follow Okabe and Ito, so colour-blind readers can
/// distinguish them. The dark theme has lighter ones.
const SERIES: [Tone; 6] = [
    Tone { light: RGBColor(0x00, 0x72, 0xB2), dark: RGBColor(0x56, 0xB4, 0xE9) },
    Tone { light: RGBColor(0x6E, 0x6E, 0x6E), dark: RGBColor(0xB4, 0xB4, 0xB4) },
    Tone { light: RGBColor(0xD5, 0x5E, 0x00), dark: RGBColor(0xFF, 0x8C, 0x3A) },
    Tone { light: RGBColor(0x00, 0x9E, 0x73), dark: RGBColor(0x2F, 0xD0, 0xA0) },
    Tone { light: RGBColor(0xA8, 0x4F, 0x86), dark: RGBColor(0xE3, 0x9B, 0xC6) },
    Tone { light: RGBColor(0xB0, 0x7A, 0x00), dark: RGBColor(0xF0, 0xC0, 0x40) },
];

/// Maximum number of series in a chart.
pub const MAX_SERIES: usize = 24;

/// One colour in both themes.
struct Tone {
    light: RGBColor,
    dark: RGBColor,
}

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
    /// Error of the drawing library.
    #[error("the chart cannot be drawn: {0}")]
    Drawing(String),
}

/// An axis: its label and its range.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Smallest value.
    pub from: f64,
    /// Largest value.
    pub to: f64,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stroke {
    /// A line.
    #[default]
    Solid,
    /// A dashed line, for a target.
    Dashed,
}

/// One line of a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points by increasing x. Parts outside the axes are cut off.
    pub points: Vec<(f64, f64)>,
    /// Style of the line.
    pub stroke: Stroke,
}

/// A chart of lines over one x axis, with a legend.
#[derive(Clone, PartialEq, Debug)]
pub struct LineChart {
    /// Title.
    pub title: String,
    /// Conditions, in a line below the title.
    pub subtitle: String,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub series: Vec<Series>,
}

/// A page with a chart, notes below it, and its values as a table.
#[derive(Clone, PartialEq, Debug)]
pub struct FigurePage {
    /// The chart.
    pub chart: LineChart,
    /// Notes on the chart, one paragraph each.
    pub notes: Vec<String>,
    /// Headings of the table's columns.
    pub columns: Vec<String>,
    /// Rows of the table, with one cell per column.
    pub rows: Vec<Vec<String>>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn drawing(error: impl std::fmt::Display) -> FigureError {
    FigureError::Drawing(error.to_string())
}

impl LineChart {
    /// Returns the chart as one SVG document. Equal charts give equal bytes.
    ///
    /// # Errors
    /// If there are no series or too many, or if an axis or a point is not finite.
    pub fn svg(&self) -> Result<String, FigureError> {
        self.check()?;
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&area)?;
            area.present().map_err(drawing)?;
        }
        Ok(self.with_head(&svg))
    }

    fn check(&self) -> Result<(), FigureError> {
        if !(1..=MAX_SERIES).contains(&self.series.len()) {
            return Err(FigureError::Series(self.series.len()));
        }
        for axis in [&self.x, &self.y] {
            if !(axis.from.is_finite() && axis.to.is_finite() && axis.from < axis.to) {
                return Err(FigureError::Axis(format!("{} to {}", axis.from, axis.to)));
            }
        }
        let bad = |s: &&Series| s.points.iter().any(|(x, y)| !(x.is_finite() && y.is_finite()));
        match self.series.iter().find(bad) {
            Some(series) => Err(FigureError::Point(series.name.clone())),
            None => Ok(()),
        }
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), FigureError> {
        area.fill(&PAPER.light).map_err(drawing)?;
        area.draw_text(&self.title, &font(22), (20, 14)).map_err(drawing)?;
        area.draw_text(&self.subtitle, &font(16), (20, 42)).map_err(drawing)?;
        let mut chart = ChartBuilder::on(area)
            .margin_top(64)
            .margin_right(24)
            .margin_bottom(10)
            .margin_left(10)
            .x_label_area_size(46)
            .y_label_area_size(58)
            .build_cartesian_2d(self.x.from..self.x.to, self.y.from..self.y.to)
            .map_err(drawing)?;
        self.draw_axes(&mut chart)?;
        for (at, series) in self.series.iter().enumerate() {
            self.draw_series(&mut chart, at, series)?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .margin(14)
            .legend_area_size(34)
            .label_font(font(16))
            .border_style(GRID.light)
            .background_style(PAPER.light)
            .draw()
            .map_err(drawing)
    }

    fn draw_axes(&self, chart: &mut Chart<'_, '_>) -> Result<(), FigureError> {
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|x| tick(*x))
            .y_label_formatter(&|y| tick(*y))
            .axis_style(INK.light)
            .bold_line_style(GRID.light)
            .light_line_style(TRANSPARENT)
            .label_style(font(15))
            .axis_desc_style(font(17))
            .draw()
            .map_err(drawing)
    }

    fn draw_series(&self, chart: &mut Chart<'_, '_>, at: usize, series: &Series) -> Result<(), FigureError> {
        let style = SERIES[at % SERIES.len()].light.stroke_width(2);
        let inside = |(x, y): &&(f64, f64)| {
            (self.x.from..=self.x.to).contains(x) && (self.y.from..=self.y.to).contains(y)
        };
        let points: Vec<(f64, f64)> = series.points.iter().filter(inside).copied().collect();
        let label = match series.stroke {
            Stroke::Solid => chart.draw_series(LineSeries::new(points, style)),
            Stroke::Dashed => chart.draw_series(DashedLineSeries::new(points, 7, 5, style)),
        };
        let label = label.map_err(drawing)?.label(&series.name);
        match series.stroke {
            Stroke::Solid => label.legend(move |(x, y)| PathElement::new([(x, y), (x + 26, y)], style)),
            Stroke::Dashed => {
                label.legend(move |(x, y)| DashedPathElement::new([(x, y), (x + 26, y)], 7, 5, style))
            }
        };
        Ok(())
    }

    /// Adds a title for screen readers and the colours of the dark theme.
    fn with_head(&self, svg: &str) -> String {
        let Some((open, rest)) = svg.split_once('>') else { return svg.to_owned() };
        format!(
            "{open} role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>{}</style>{rest}",
            escaped(&self.title),
            escaped(&self.subtitle),
            dark_style()
        )
    }
}

/// Returns the font of all text. `size` is in the library's unit: about 5/4 of the height in pixels.
fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK.light)
}

/// Returns the text of a tick, without trailing zeros.
fn tick(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns CSS that replaces each colour in the dark theme.
fn dark_style() -> String {
    let mut css = String::from("@media (prefers-color-scheme: dark) {");
    for tone in [&INK, &GRID, &PAPER].into_iter().chain(&SERIES) {
        let (light, dark) = (hex(tone.light), hex(tone.dark));
        let _ =
            write!(css, " [fill=\"{light}\"] {{ fill: {dark} }} [stroke=\"{light}\"] {{ stroke: {dark} }}");
    }
    css + " }"
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// Escapes text for XML and HTML.
fn escaped(text: &str) -> String {
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

const PAGE_STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 900px; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .8rem; text-align: right; }
th { border-bottom: 1px solid; }
@media (prefers-color-scheme: dark) { body { background: #161618; color: #e6e6e6; } }";

impl FigurePage {
    /// Returns the page as one HTML document. Equal pages give equal bytes.
    ///
    /// # Errors
    /// Those of [`LineChart::svg`].
    pub fn html(&self) -> Result<String, FigureError> {
        let title = escaped(&self.chart.title);
        let svg = self.chart.svg()?;
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <style>\n{PAGE_STYLE}\n</style>\n</head>\n<body>\n{svg}\n"
        );
        for note in &self.notes {
            let _ = writeln!(html, "<p>{}</p>", escaped(note));
        }
        html += "<table>\n<thead>\n";
        html += &row("th", &self.columns);
        html += "</thead>\n<tbody>\n";
        for cells in &self.rows {
            html += &row("td", cells);
        }
        Ok(html + "</tbody>\n</table>\n</body>\n</html>\n")
    }
}

fn row(tag: &str, cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
    format!("<tr>{cells}</tr>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> LineChart {
        LineChart {
            title: "Bandwidth & \"more\" <1>".to_owned(),
            subtitle: "Gen3 x8".to_owned(),
            x: Axis { label: "packet, B".to_owned(), from: 0.0, to: 1500.0 },
            y: Axis { label: "Gb/s".to_owned(), from: 0.0, to: 60.0 },
            series: vec![
                Series {
                    name: "first <b>".to_owned(),
                    points: vec![(0.0, 0.0), (1500.0, 60.0), (2000.0, 10.0)],
                    stroke: Stroke::Solid,
                },
                Series {
                    name: "mark".to_owned(),
                    points: vec![(0.0, 30.0), (1500.0, 30.0)],
                    stroke: Stroke::Dashed,
                },
            ],
        }
    }

    #[test]
    fn chart_contains_all_its_labels() {
        let svg = chart().svg().unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "packet, B",
            "Gb/s",
            "first &lt;b&gt;",
            "mark",
            "Gen3 x8",
            "Bandwidth &amp; &quot;more&quot; &lt;1&gt;",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        let head = svg.split_once('>').unwrap().0;
        for attribute in ["viewBox=", "width=", "height=", "xmlns=", "role="] {
            assert_eq!(head.matches(attribute).count(), 1, "{attribute}: {head}");
        }
        assert!(!svg.contains("<b>") && !svg.contains("<1>"), "{svg}");
        assert_eq!(svg, chart().svg().unwrap(), "the same chart is the same bytes");
    }

    /// Every colour of the chart has a variant for the dark theme.
    #[test]
    fn every_colour_has_dark_variant() {
        let svg = chart().svg().unwrap();
        let style = dark_style();
        for attribute in ["fill=\"", "stroke=\""] {
            let drawn = svg.split("</style>").nth(1).unwrap();
            let colours = drawn.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
            for colour in colours.filter(|c| *c != "none") {
                assert!(style.contains(&format!("[{attribute}{colour}\"]")), "{attribute}{colour}");
            }
        }
    }

    /// The line goes from one corner of the axes to the opposite one. A point outside the axes is not drawn.
    #[test]
    fn axes_determine_positions_of_points() {
        let svg = chart().svg().unwrap();
        let drawn = svg.split("</style>").nth(1).unwrap();
        let line = drawn.split("<polyline").find(|l| l.contains(&hex(SERIES[0].light))).unwrap();
        let points: Vec<&str> =
            line.split("points=\"").nth(1).unwrap().split('"').next().unwrap().split_whitespace().collect();
        let (left, bottom) = (10 + 58, 560 - 10 - 46);
        let number = |p: &str, at: usize| p.split(',').nth(at).unwrap().parse::<i32>().unwrap();
        assert_eq!(points.len(), 2, "{points:?}");
        assert!(
            (number(points[0], 0) - left).abs() <= 1 && (number(points[0], 1) - bottom).abs() <= 1,
            "{points:?}"
        );
        assert!(
            (number(points[1], 0) - 876).abs() <= 1 && (number(points[1], 1) - 64).abs() <= 1,
            "{points:?}"
        );
    }

    #[test]
    fn page_loads_nothing() {
        let page = FigurePage {
            chart: chart(),
            notes: vec!["a < b".to_owned()],
            columns: vec!["size B".to_owned(), "Gb/s".to_owned()],
            rows: vec![vec!["64".to_owned(), "1.5".to_owned()]],
        };
        let html = page.html().unwrap();
        assert!(html.contains("<p>a &lt; b</p>") && html.contains("<td>64</td><td>1.5</td>"));
        let foreign = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for word in ["http:", "https:", "src=", "href=", "@import", "url(", "<script"] {
            assert!(!foreign.contains(word), "{word}");
        }
    }

    #[test]
    fn errors_contain_invalid_value() {
        let error = |change: fn(&mut LineChart)| {
            let mut chart = chart();
            change(&mut chart);
            chart.svg().unwrap_err().to_string()
        };
        for (change, says) in [
            ((|c| c.series.clear()) as fn(&mut LineChart), "a chart of 0 series: expected 1 to 24"),
            (|c| c.x.to = 0.0, "an axis from 0 to 0"),
            (|c| c.y.to = f64::INFINITY, "an axis from 0 to inf"),
            (|c| c.series[1].points[0].1 = f64::NAN, "series \"mark\" has a point that is not finite"),
        ] {
            assert!(error(change).starts_with(says), "{}", error(change));
        }
    }

    #[test]
    fn ticks_have_no_trailing_zeros() {
        for (value, text) in [(0.0, "0"), (250.0, "250"), (0.5, "0.5"), (12.25, "12.25")] {
            assert_eq!(tick(value), text);
        }
    }
}
