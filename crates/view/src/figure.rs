// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Line charts as SVG, and pages with a line chart, for papers and slides.
//!
//! The common [canvas](crate::canvas) draws the charts. This module calculates no values.

use crate::canvas::{self, Area, GRID, INK, PAPER, SERIES, drawing, escaped, font, tick};
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use std::fmt::Write;

pub use crate::canvas::{FigureError, MAX_BARS, MAX_SERIES};

/// Width and height of a chart in CSS pixels. Viewers can scale it.
const SIZE: (u32, u32) = (900, 560);

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

/// A page with a chart, notes below it, and its values as tables.
#[derive(Clone, PartialEq, Debug)]
pub struct FigurePage {
    /// A paragraph above the chart; `None` for no paragraph.
    pub lead: Option<String>,
    /// The chart.
    pub chart: LineChart,
    /// Notes on the chart, one paragraph each.
    pub notes: Vec<String>,
    /// The tables, below the notes.
    pub tables: Vec<PageTable>,
}

/// A page with several sections, such as the figures of a paper.
#[derive(Clone, PartialEq, Debug)]
pub struct Collection {
    /// Title of the page.
    pub title: String,
    /// A paragraph above the sections.
    pub lead: String,
    /// The sections, with a list of them above the first.
    pub sections: Vec<Section>,
}

/// A section of a [`Collection`].
#[derive(Clone, PartialEq, Debug)]
pub struct Section {
    /// Name in the list and in the heading; it is also the fragment of the address.
    pub name: String,
    /// Subject, in the heading.
    pub title: String,
    /// A paragraph above the chart, which is in the list too; `None` for no paragraph.
    pub lead: Option<String>,
    /// The chart, if there is one.
    pub chart: Option<LineChart>,
    /// Notes, one paragraph each.
    pub notes: Vec<String>,
    /// The tables, below the notes.
    pub tables: Vec<PageTable>,
}

/// A table of a [`FigurePage`] or a [`Section`].
#[derive(Clone, PartialEq, Debug)]
pub struct PageTable {
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// Rows, with one cell per column.
    pub rows: Vec<Vec<String>>,
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl LineChart {
    /// Returns the chart as one SVG document. Equal charts give equal bytes.
    ///
    /// # Errors
    /// If there are no series or too many, or if an axis or a point is not finite.
    pub fn svg(&self) -> Result<String, FigureError> {
        self.check()?;
        canvas::svg(SIZE, &self.title, &self.subtitle, |area| self.draw(area))
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
        let mut html = start(&self.chart.title);
        html += &body(self.lead.as_deref(), Some(&self.chart), &self.notes, &self.tables)?;
        Ok(html + END)
    }
}

impl Collection {
    /// Returns the page as one HTML document. Equal pages give equal bytes.
    ///
    /// # Errors
    /// Those of [`LineChart::svg`].
    pub fn html(&self) -> Result<String, FigureError> {
        let mut html = start(&self.title);
        let _ = writeln!(html, "<h1>{}</h1>\n<p>{}</p>\n<ul>", escaped(&self.title), escaped(&self.lead));
        for Section { name, lead, .. } in &self.sections {
            let (name, lead) = (escaped(name), escaped(lead.as_deref().unwrap_or_default()));
            let _ = writeln!(html, "<li><a href=\"#{name}\">{name}</a> {lead}</li>");
        }
        html += "</ul>\n";
        for Section { name, title, lead, chart, notes, tables } in &self.sections {
            let (name, title) = (escaped(name), escaped(title));
            let _ = writeln!(html, "<h2 id=\"{name}\">{name}: {title}</h2>");
            html += &body(lead.as_deref(), chart.as_ref(), notes, tables)?;
        }
        Ok(html + END)
    }
}

const END: &str = "</body>\n</html>\n";

/// Returns the start of a document with this title.
fn start(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>\n{PAGE_STYLE}\n</style>\n</head>\n<body>\n"
    )
}

/// Returns a paragraph, a chart, notes and tables.
fn body(
    lead: Option<&str>,
    chart: Option<&LineChart>,
    notes: &[String],
    tables: &[PageTable],
) -> Result<String, FigureError> {
    let mut html = String::new();
    if let Some(lead) = lead {
        let _ = writeln!(html, "<p><strong>{}</strong></p>", escaped(lead));
    }
    if let Some(chart) = chart {
        let _ = writeln!(html, "{}", chart.svg()?);
    }
    for note in notes {
        let _ = writeln!(html, "<p>{}</p>", escaped(note));
    }
    for table in tables {
        html += &table.html();
    }
    Ok(html)
}

impl PageTable {
    fn html(&self) -> String {
        let head = row("th", &self.columns);
        let body: String = self.rows.iter().map(|cells| row("td", cells)).collect();
        format!("<table>\n<thead>\n{head}</thead>\n<tbody>\n{body}</tbody>\n</table>\n")
    }
}

fn row(tag: &str, cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
    format!("<tr>{cells}</tr>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::{dark_style, hex};

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

    #[test]
    fn collection_lists_its_sections() {
        let section = |name: &str, chart| Section {
            name: name.to_owned(),
            title: "A & B".to_owned(),
            lead: Some(format!("verdict of {name}")),
            chart,
            notes: vec!["a note".to_owned()],
            tables: vec![PageTable { columns: vec!["x".into()], rows: vec![vec!["1".into()]] }],
        };
        let (title, lead) = ("Figures".to_owned(), "2 of 2".to_owned());
        let sections = vec![section("first", Some(chart())), section("second", None)];
        let html = Collection { title, lead, sections }.html().unwrap();
        for name in ["first", "second"] {
            let item = format!("<li><a href=\"#{name}\">{name}</a> verdict of {name}</li>");
            let heading = format!("<h2 id=\"{name}\">{name}: A &amp; B</h2>");
            assert!(html.find(&item).unwrap() < html.find(&heading).unwrap(), "{html}");
        }
        assert_eq!([html.matches("<svg").count(), html.matches("<table>").count()], [1, 2]);
        assert!(html.ends_with("</body>\n</html>\n"));
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
            lead: Some("c < d".to_owned()),
            notes: vec!["a < b".to_owned()],
            tables: vec![PageTable {
                columns: vec!["size B".to_owned(), "Gb/s".to_owned()],
                rows: vec![vec!["64".to_owned(), "1.5".to_owned()]],
            }],
        };
        let html = page.html().unwrap();
        assert!(html.contains("<strong>c &lt; d</strong>"), "{html}");
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
