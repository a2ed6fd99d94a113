// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stacked bars as SVG: one bar per row, with one colour per part, and a legend.

use crate::canvas::{
    self, Area, FigureError, GRID, HEAD, INK, MAX_BARS, MAX_SERIES, PAPER, SERIES, drawing, font, text_width,
    tick,
};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use session::SessionReport;

/// Margin around the picture, in pixels.
const MARGIN: i32 = 24;
/// Size of the font.
const FONT: i32 = 15;
/// Height of a row, and of the bar in it, in pixels.
const ROW: (i32, i32) = (30, 20);
/// Height of a line of the legend, in pixels.
const LEGEND: i32 = 22;
/// Width of the longest bar, in pixels.
const WIDTH: i32 = 620;
/// Number of intervals of the axis.
const TICKS: i32 = 5;

/// Rows of a report that are drawn.
const DRAWN: [&str; 2] = ["mean", "p99"];

/// A bar.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// Text on the left.
    pub name: String,
    /// Length of each part.
    pub parts: Vec<f64>,
}

/// A chart of bars that consist of the same parts.
#[derive(Clone, PartialEq, Debug)]
pub struct StackedBars {
    /// Title.
    pub title: String,
    /// Conditions, in a line below the title.
    pub subtitle: String,
    /// Quantity and unit of the lengths.
    pub label: String,
    /// Names of the parts. A part that is zero in all bars is not in the legend.
    pub parts: Vec<String>,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
}

impl StackedBars {
    /// Returns the parts of the latencies in a report: of each kind of transaction the mean and the 99th percentile. `None` if no
    /// transaction finished.
    pub fn of_latencies(report: &SessionReport) -> Option<StackedBars> {
        let first = report.links.iter().find_map(|link| link.transactions.first())?;
        let all = report.links.iter().flat_map(|link| link.transactions.iter().map(|t| (&link.slot, t)));
        let bars = all.flat_map(|(slot, t)| {
            let rows = t.rows().into_iter().filter(|(which, ..)| DRAWN.contains(which));
            rows.map(move |(which, _, parts)| Bar {
                name: format!("{slot} {} {which}", t.kind),
                parts: parts.columns().map(|(_, ns)| ns).to_vec(),
            })
        });
        Some(StackedBars {
            title: format!("{}: parts of the latency", report.lab),
            subtitle: format!("mean and 99th percentile; basis: {}", report.basis.name()),
            label: "ns".to_owned(),
            parts: first.mean.columns().map(|(name, _)| name.to_owned()).to_vec(),
            bars: bars.collect(),
        })
    }
}

/// Positions of a chart, in pixels.
struct Layout {
    /// Left end of the bars.
    left: i32,
    /// Lower end of the bars.
    bottom: i32,
    /// Value at the right end of the axis.
    most: f64,
}

impl Layout {
    fn x(&self, value: f64) -> i32 {
        self.left + (value / self.most * f64::from(WIDTH)).round() as i32
    }
}

impl StackedBars {
    /// Returns the chart as one SVG document. Equal charts give equal bytes.
    ///
    /// # Errors
    /// No bars, too many bars or parts, or a length that is negative or not a number.
    pub fn svg(&self) -> Result<String, FigureError> {
        self.check()?;
        let names = self.bars.iter().map(|bar| text_width(&bar.name, FONT)).max().unwrap_or(0);
        let rows = i32::try_from(self.bars.len()).unwrap_or(0);
        let total = |bar: &Bar| bar.parts.iter().sum::<f64>();
        let layout = Layout {
            left: MARGIN + names + 12,
            bottom: HEAD + rows * ROW.0,
            most: round_up(self.bars.iter().map(total).fold(0.0, f64::max)),
        };
        let sums = self.bars.iter().map(|bar| text_width(&tick(total(bar)), FONT)).max().unwrap_or(0);
        let width = layout.left + WIDTH + sums + MARGIN;
        let titles = [(&self.title, 22), (&self.subtitle, 16)].map(|(text, size)| text_width(text, size));
        let width = titles.into_iter().fold(width, i32::max) + MARGIN;
        let used = i32::try_from(self.used().count()).unwrap_or(0);
        let height = layout.bottom + 60 + used * LEGEND + MARGIN;
        canvas::svg((width.unsigned_abs(), height.unsigned_abs()), &self.title, &self.subtitle, |area| {
            self.draw(area, &layout)
        })
    }

    fn check(&self) -> Result<(), FigureError> {
        if !(1..=MAX_BARS).contains(&self.bars.len()) || !(1..=MAX_SERIES).contains(&self.parts.len()) {
            return Err(FigureError::Bars(self.bars.len(), self.parts.len()));
        }
        let bad = |bar: &&Bar| bar.parts.iter().any(|part| !part.is_finite() || *part < 0.0);
        self.bars.iter().find(bad).map_or(Ok(()), |bar| Err(FigureError::Part(bar.name.clone())))
    }

    /// Returns the parts that are not zero in all bars, each with its index.
    fn used(&self) -> impl Iterator<Item = (usize, &String)> {
        let is_used = |n: usize| self.bars.iter().any(|bar| bar.parts.get(n).is_some_and(|part| *part > 0.0));
        self.parts.iter().enumerate().filter(move |(n, _)| is_used(*n))
    }

    fn draw(&self, area: &Area<'_>, layout: &Layout) -> Result<(), FigureError> {
        self.draw_axis(area, layout)?;
        for (bar, row) in self.bars.iter().zip(0..) {
            draw_bar(area, layout, bar, HEAD + row * ROW.0)?;
        }
        for ((n, name), row) in self.used().zip(0..) {
            let y = layout.bottom + 60 + row * LEGEND;
            area.draw(&Rectangle::new([(layout.left, y), (layout.left + 24, y + 14)], fill(n)))
                .map_err(drawing)?;
            draw_pattern(area, n, (layout.left, y), (layout.left + 24, y + 14))?;
            area.draw_text(name, &font(FONT), (layout.left + 34, y)).map_err(drawing)?;
        }
        Ok(())
    }

    fn draw_axis(&self, area: &Area<'_>, layout: &Layout) -> Result<(), FigureError> {
        let number = font(FONT).pos(Pos::new(HPos::Center, VPos::Top));
        for n in 0..=TICKS {
            let value = layout.most * f64::from(n) / f64::from(TICKS);
            let line = [(layout.x(value), HEAD), (layout.x(value), layout.bottom + 4)];
            area.draw(&PathElement::new(line, GRID.light)).map_err(drawing)?;
            area.draw_text(&tick(value), &number, (layout.x(value), layout.bottom + 8)).map_err(drawing)?;
        }
        let middle = layout.left + WIDTH / 2;
        area.draw_text(&self.label, &number, (middle, layout.bottom + 28)).map_err(drawing)
    }
}

/// Colour of part `n`. Parts beyond the number of colours also have a pattern.
fn fill(n: usize) -> ShapeStyle {
    SERIES[n % SERIES.len()].light.filled()
}

/// Draws stripes over a part whose colour an earlier part has.
fn draw_pattern(area: &Area<'_>, n: usize, from: (i32, i32), to: (i32, i32)) -> Result<(), FigureError> {
    let distance = 6;
    let stripes = if n < SERIES.len() { 0 } else { (to.0 - from.0) / distance };
    (1..=stripes).try_for_each(|stripe| {
        let x = from.0 + stripe * distance - distance / 2;
        area.draw(&PathElement::new([(x, from.1), (x, to.1)], PAPER.light.stroke_width(2))).map_err(drawing)
    })
}

fn draw_bar(area: &Area<'_>, layout: &Layout, bar: &Bar, top: i32) -> Result<(), FigureError> {
    let middle = top + ROW.0 / 2;
    let name = font(FONT).pos(Pos::new(HPos::Right, VPos::Center));
    area.draw_text(&bar.name, &name, (layout.left - 12, middle)).map_err(drawing)?;
    let mut sum = 0.0;
    for (n, part) in bar.parts.iter().enumerate() {
        let (from, to) = (layout.x(sum), layout.x(sum + part));
        sum += part;
        if to > from {
            let (upper, lower) = (middle - ROW.1 / 2, middle + ROW.1 / 2);
            area.draw(&Rectangle::new([(from, upper), (to, lower)], fill(n))).map_err(drawing)?;
            draw_pattern(area, n, (from, upper), (to, lower))?;
        }
    }
    let total = font(FONT).color(&INK.light).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw_text(&tick(sum), &total, (layout.x(sum) + 8, middle)).map_err(drawing)
}

/// Returns the least round number that is not below `value`, or 1 for zero.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let factors = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
    factors.into_iter().map(|factor| factor * power).find(|end| *end >= value).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars() -> StackedBars {
        let bar = |name: &str, parts: [f64; 3]| Bar { name: name.to_owned(), parts: parts.to_vec() };
        StackedBars {
            title: "Latency & parts".to_owned(),
            subtitle: "mean".to_owned(),
            label: "ns".to_owned(),
            parts: ["queue", "replay", "wire"].map(str::to_owned).to_vec(),
            bars: vec![bar("nic read", [100.0, 0.0, 300.0]), bar("nic write", [50.0, 0.0, 25.5])],
        }
    }

    #[test]
    fn chart_contains_its_texts_and_no_unused_part() {
        let svg = bars().svg().unwrap();
        for text in ["queue", "wire", "nic read", "nic write", "400", "75.5", "Latency &amp; parts"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("replay"), "{svg}");
    }

    /// The axis ends at 400, the longest bar.
    #[test]
    fn lengths_of_parts_follow_their_values() {
        let svg = bars().svg().unwrap();
        let width = |colour: usize| {
            let fill = format!("fill=\"{}\"", canvas::hex(SERIES[colour].light));
            let rect = svg.split("<rect").skip(1).find(|rect| rect.contains(&fill)).unwrap();
            rect.split(" width=\"").nth(1).unwrap().split('"').next().unwrap().parse::<i32>().unwrap()
        };
        let (queue, wire) = (width(0), width(2));
        assert!((queue - WIDTH / 4).abs() <= 1 && (wire - WIDTH * 3 / 4).abs() <= 1, "{queue} {wire}");
    }

    #[test]
    fn errors_name_the_value() {
        let error = |change: fn(&mut StackedBars)| {
            let mut bars = bars();
            change(&mut bars);
            bars.svg().unwrap_err().to_string()
        };
        assert!(error(|b| b.bars.clear()).starts_with("a chart of 0 bars"));
        assert!(error(|b| b.bars[0].parts[1] = -1.0).contains("\"nic read\""));
        assert!(error(|b| b.bars[1].parts[0] = f64::NAN).contains("\"nic write\""));
    }

    #[test]
    fn axis_ends_at_round_numbers() {
        for (value, end) in
            [(0.0, 1.0), (0.3, 0.3), (1.0, 1.0), (4.1, 5.0), (801.0, 1000.0), (2946.0, 3000.0)]
        {
            assert!((round_up(value) - end).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }
}
