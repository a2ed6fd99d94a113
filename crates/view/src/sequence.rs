// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sequence diagram as SVG: components as vertical lines, and packets as arrows between them, from top to bottom in order of
//! time.

use crate::canvas::FigureError;
use crate::canvas::{self, Area, GRID, HEAD, INK, SERIES, drawing, font, text_width};
use capture::diagram::{Arranged, Arrow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Margin around the picture, in pixels.
const MARGIN: i32 = 24;
/// Size of the font.
const FONT: i32 = 15;
/// Height of the names of components, in pixels.
const NAMES: i32 = 30;
/// Distance between two arrows, in pixels.
const STEP: i32 = 34;
/// Length and half of the width of an arrow's head, in pixels.
const ARROW: (i32, i32) = (10, 4);
/// Smallest distance between two components, in pixels.
const MIN_GAP: i32 = 120;

/// A sequence diagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sequence {
    /// Title.
    pub title: String,
    /// Text below the title.
    pub subtitle: String,
    /// Names of the components, from left to right.
    pub components: Vec<String>,
    /// The packets, from top to bottom. The transaction of a packet selects its colour.
    pub arrows: Vec<Arrow>,
}

impl Sequence {
    /// Returns the diagram of the transactions of a capture.
    pub fn of(title: String, arranged: &Arranged) -> Sequence {
        let arrow = |arrow: &Arrow| Arrow { label: arranged.label(arrow), ..arrow.clone() };
        let arrows = arranged.arrows.iter().map(arrow).collect();
        Sequence { title, subtitle: arranged.times(), components: arranged.components.clone(), arrows }
    }

    /// Returns the picture as one SVG document. Equal diagrams give equal bytes.
    ///
    /// # Errors
    /// The picture would be too large.
    pub fn svg(&self) -> Result<String, FigureError> {
        let places = self.places();
        let titles = [(&self.title, 22), (&self.subtitle, 16)].map(|(text, size)| text_width(text, size));
        let last = self.components.last().map_or(0, |name| text_width(name, FONT) / 2);
        let lines = places.last().map_or(0, |x| x + last.max(MARGIN));
        let right = titles.into_iter().chain([lines]).max().unwrap_or(0);
        let size = ((right + MARGIN).unsigned_abs(), (self.bottom() + MARGIN).unsigned_abs());
        canvas::svg(size, &self.title, &self.subtitle, |area| self.draw(area, &places))
    }

    /// Returns the lower end of the components' lines.
    fn bottom(&self) -> i32 {
        let arrows = i32::try_from(self.arrows.len()).unwrap_or(i32::MAX / 64);
        HEAD + NAMES + STEP * arrows.min(i32::MAX / 64) + STEP / 2
    }

    /// Returns the x of each component. The gap between two neighbours has room for the longest text between them.
    fn places(&self) -> Vec<i32> {
        let times = self.arrows.iter().map(|arrow| text_width(&arrow.when, FONT)).max().unwrap_or(0);
        let half = |n: usize| self.components.get(n).map_or(0, |name| text_width(name, FONT) / 2);
        let mut places = Vec::new();
        let mut x = MARGIN + times + half(0).max(MARGIN);
        for n in 0..self.components.len() {
            places.push(x);
            let over = |arrow: &&Arrow| arrow.from.min(arrow.to) <= n && n < arrow.from.max(arrow.to);
            let share = |arrow: &Arrow| {
                let gaps = i32::try_from(arrow.from.abs_diff(arrow.to)).unwrap_or(1).max(1);
                (text_width(&arrow.label, FONT) + 2 * ARROW.0) / gaps
            };
            let text = self.arrows.iter().filter(over).map(share).max().unwrap_or(0);
            x = x.saturating_add(text.max(half(n) + half(n + 1) + MARGIN).max(MIN_GAP));
        }
        places
    }

    fn draw(&self, area: &Area<'_>, places: &[i32]) -> Result<(), FigureError> {
        let name_style = font(FONT).pos(Pos::new(HPos::Center, VPos::Top));
        for (name, x) in self.components.iter().zip(places) {
            area.draw_text(name, &name_style, (*x, HEAD)).map_err(drawing)?;
            let line = [(*x, HEAD + NAMES - 6), (*x, self.bottom())];
            area.draw(&PathElement::new(line, GRID.light.stroke_width(2))).map_err(drawing)?;
        }
        self.arrows
            .iter()
            .zip(1..)
            .try_for_each(|(arrow, row)| draw_arrow(area, places, arrow, HEAD + NAMES + STEP * row))
    }
}

fn draw_arrow(area: &Area<'_>, places: &[i32], arrow: &Arrow, y: i32) -> Result<(), FigureError> {
    let (Some(from), Some(to)) = (places.get(arrow.from), places.get(arrow.to)) else { return Ok(()) };
    let colour = SERIES[arrow.transaction % SERIES.len()].light;
    let (length, half) = ARROW;
    let back = if to > from { -length } else { length };
    area.draw(&PathElement::new([(*from, y), (*to, y)], colour.stroke_width(2))).map_err(drawing)?;
    let head = vec![(*to, y), (to + back, y - half), (to + back, y + half)];
    area.draw(&Polygon::new(head, colour)).map_err(drawing)?;
    let label = font(FONT).pos(Pos::new(HPos::Center, VPos::Bottom));
    area.draw_text(&arrow.label, &label, ((from + to) / 2, y - half)).map_err(drawing)?;
    let time = font(FONT).color(&INK.light).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw_text(&arrow.when, &time, (MARGIN, y)).map_err(drawing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence() -> Sequence {
        let arrow = |from, to, when: &str, label: &str| Arrow {
            from,
            to,
            when: when.to_owned(),
            label: label.to_owned(),
            transaction: 0,
        };
        Sequence {
            title: "MRd & CplD".to_owned(),
            subtitle: "times at the device".to_owned(),
            components: ["nic", "switch", "root complex"].map(str::to_owned).to_vec(),
            arrows: vec![
                arrow(0, 1, "1.000 ns", "MRd <64 B>"),
                arrow(1, 2, "2.000 ns", "MRd 64 B"),
                arrow(2, 0, "9.000 ns", "CplD"),
            ],
        }
    }

    #[test]
    fn picture_contains_all_texts() {
        let svg = sequence().svg().unwrap();
        for text in
            ["nic", "switch", "root complex", "1.000 ns", "MRd &lt;64 B&gt;", "CplD", "MRd &amp; CplD"]
        {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert_eq!(svg.matches("<polygon").count(), 3, "{svg}");
    }

    #[test]
    fn arrows_end_at_their_receivers() {
        let sequence = sequence();
        let places = sequence.places();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= MIN_GAP), "{places:?}");
        let svg = sequence.svg().unwrap();
        let tips: Vec<i32> = svg
            .split("<polygon")
            .skip(1)
            .map(|rest| rest.split("points=\"").nth(1).unwrap().split(',').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(tips, [places[1], places[2], places[0]]);
    }

    #[test]
    fn gap_has_room_for_its_longest_label() {
        let mut sequence = sequence();
        sequence.arrows[0].label = "x".repeat(100);
        let places = sequence.places();
        assert!(places[1] - places[0] >= text_width(&"x".repeat(100), FONT), "{places:?}");
    }
}
