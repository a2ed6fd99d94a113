// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A topology as SVG: boxes from left to right, with the links between them. Each box is as high as all below it, so that every
//! link is one straight line.

use crate::canvas::FigureError;
use crate::canvas::{self, Area, HEAD, INK, SERIES, drawing, font, text_width};
use lab::{Sketch, SketchedEnd, SketchedHost, SketchedLink};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Margin around the picture, in pixels.
const MARGIN: i32 = 24;
/// Size of the font in boxes and at links.
const FONT: i32 = 15;
/// Height of a line of text, in pixels.
const LINE: i32 = 18;
/// Distance between two boxes of a column, in pixels.
const GAP: i32 = 18;
/// Space between text and the border of a box, in pixels.
const PADDING: i32 = 10;
/// Half of the side of a port, in pixels.
const PORT: i32 = 4;

/// The kind of a box, which selects its colour.
#[derive(Clone, Copy)]
enum Part {
    Host,
    Switch,
    Device,
}

/// A box: a component with the links below it.
struct Node {
    part: Part,
    /// Its lines of text, the name first.
    lines: Vec<String>,
    /// Its links, from the first port on.
    links: Vec<Link>,
}

/// A link of a box to one on its right, with the texts above and below its line.
struct Link {
    above: String,
    below: Vec<String>,
    end: Node,
}

/// A picture of a topology.
pub struct Topology {
    title: String,
    subtitle: String,
    /// The hosts, from top to bottom.
    hosts: Vec<Node>,
    /// Lines of text below the picture.
    notes: Vec<String>,
}

impl From<&SketchedHost> for Node {
    fn from(host: &SketchedHost) -> Node {
        let lines = std::iter::once(format!("host {}", host.name)).chain(host.facts.clone());
        Node { part: Part::Host, lines: lines.collect(), links: host.links.iter().map(Link::from).collect() }
    }
}

impl From<&SketchedLink> for Link {
    fn from(link: &SketchedLink) -> Link {
        let (part, lines) = match &link.end {
            SketchedEnd::Slot { name, device, bus } => {
                (Part::Device, vec![name.clone(), device.clone(), format!("bus {bus:02x}")])
            }
            SketchedEnd::Switch { name, facts } => {
                (Part::Switch, std::iter::once(format!("switch {name}")).chain(facts.clone()).collect())
            }
        };
        Link {
            above: format!("{}: {}", link.port, link.speed),
            below: std::iter::once(&link.mps).chain(&link.details).cloned().collect(),
            end: Node { part, lines, links: link.below.iter().map(Link::from).collect() },
        }
    }
}

/// Left and right edges of the boxes of a column, in pixels.
type Column = (i32, i32);

impl Node {
    /// Returns the numbers of slots and of switches on the right of the box.
    fn count(&self) -> [usize; 2] {
        let count = |link: &Link| {
            let [slots, switches] = link.end.count();
            let is_switch = matches!(link.end.part, Part::Switch);
            [slots + usize::from(!is_switch), switches + usize::from(is_switch)]
        };
        self.links.iter().map(count).fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]])
    }

    /// Height of the box, and of all boxes on its right, in pixels.
    fn height(&self) -> i32 {
        self.own_height().max(stack(self.links.iter().map(Link::height)))
    }

    fn own_height(&self) -> i32 {
        lines(self.lines.len()) + 2 * PADDING
    }

    fn width(&self) -> i32 {
        self.lines.iter().map(|line| text_width(line, FONT)).max().unwrap_or(0) + 2 * PADDING
    }

    /// Widens the columns of boxes and of links so that this box, and all on its right, fit.
    fn measure(&self, depth: usize, widths: &mut Vec<(i32, i32)>) {
        if widths.len() <= depth {
            widths.push((0, 0));
        }
        let links = self.links.iter().map(Link::width).max().unwrap_or(0);
        let (box_width, link_width) = widths[depth];
        widths[depth] = (box_width.max(self.width()), link_width.max(links));
        self.links.iter().for_each(|link| link.end.measure(depth + 1, widths));
    }
}

impl Link {
    /// Height of the link with its texts and its end, in pixels.
    fn height(&self) -> i32 {
        self.end.height().max(2 * lines(self.below.len().max(1)) + PADDING)
    }

    fn width(&self) -> i32 {
        let texts = self.below.iter().chain([&self.above]);
        texts.map(|text| text_width(text, FONT)).max().unwrap_or(0) + 4 * PADDING
    }
}

fn lines(count: usize) -> i32 {
    LINE * i32::try_from(count).unwrap_or(i32::MAX / LINE)
}

/// Returns the height of boxes one below the other.
fn stack(heights: impl Iterator<Item = i32>) -> i32 {
    heights.reduce(|all, next| all.saturating_add(GAP).saturating_add(next)).unwrap_or(0)
}

impl Topology {
    /// Returns the picture of a lab.
    pub fn of(name: &str, sketch: &Sketch) -> Topology {
        let hosts: Vec<Node> = sketch.hosts.iter().map(Node::from).collect();
        let counts = hosts.iter().map(Node::count).fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
        let [slots, switches] = counts;
        let subtitle = format!("slots: {slots}, switches: {switches}");
        Topology { title: name.to_owned(), subtitle, hosts, notes: sketch.events.clone() }
    }

    /// Returns the picture as one SVG document. Equal topologies give equal bytes.
    ///
    /// # Errors
    /// The picture would be too large.
    pub fn svg(&self) -> Result<String, FigureError> {
        let mut widths = Vec::new();
        self.hosts.iter().for_each(|host| host.measure(0, &mut widths));
        let columns = columns(&widths);
        let titles = [(&self.title, 22), (&self.subtitle, 16)].map(|(text, size)| text_width(text, size));
        let notes = self.notes.iter().map(|note| MARGIN + text_width(note, FONT));
        let right = columns.iter().map(|(_, right)| *right).chain(titles).chain(notes).max().unwrap_or(0);
        let hosts = stack(self.hosts.iter().map(Node::height));
        let height = HEAD + hosts + lines(self.notes.len()) + GAP + MARGIN;
        let size = ((right + MARGIN).unsigned_abs(), height.unsigned_abs());
        canvas::svg(size, &self.title, &self.subtitle, |area| self.draw(area, &columns))
    }

    fn draw(&self, area: &Area<'_>, columns: &[Column]) -> Result<(), FigureError> {
        let mut top = HEAD;
        for host in &self.hosts {
            draw_node(area, columns, host, top, top + host.height())?;
            top += host.height() + GAP;
        }
        self.notes.iter().enumerate().try_for_each(|(n, note)| {
            area.draw_text(note, &font(FONT), (MARGIN, top + lines(n))).map_err(drawing)
        })
    }
}

/// Places columns of boxes, each with a width and the width of the links on its right.
fn columns(widths: &[(i32, i32)]) -> Vec<Column> {
    let mut left = MARGIN;
    let place = |(own, links): &(i32, i32)| {
        let column = (left, left + own);
        left = left.saturating_add(own + links);
        column
    };
    widths.iter().map(place).collect()
}

/// Draws a box from `top` to `bottom` in the first column, and all on its right.
fn draw_node(
    area: &Area<'_>,
    columns: &[Column],
    node: &Node,
    top: i32,
    bottom: i32,
) -> Result<(), FigureError> {
    let Some(((left, right), columns)) = columns.split_first() else { return Ok(()) };
    let style = SERIES[node.part as usize].light.stroke_width(2);
    area.draw(&Rectangle::new([(*left, top), (*right, bottom)], style)).map_err(drawing)?;
    let first = (top + bottom - lines(node.lines.len())) / 2;
    for (n, line) in node.lines.iter().enumerate() {
        let style = if n == 0 { font(FONT).color(&SERIES[node.part as usize].light) } else { font(FONT) };
        area.draw_text(line, &style, (left + PADDING, first + lines(n))).map_err(drawing)?;
    }
    let mut top = (top + bottom - stack(node.links.iter().map(Link::height))) / 2;
    for link in &node.links {
        draw_link(area, (*right, columns), link, top)?;
        top += link.height() + GAP;
    }
    Ok(())
}

/// Draws a link from `left` to the first of `columns`, and its end.
fn draw_link(
    area: &Area<'_>,
    (left, columns): (i32, &[Column]),
    link: &Link,
    top: i32,
) -> Result<(), FigureError> {
    let Some((right, _)) = columns.first() else { return Ok(()) };
    let (bottom, middle) = (top + link.height(), top + link.height() / 2);
    let line = PathElement::new([(left, middle), (*right, middle)], INK.light.stroke_width(2));
    area.draw(&line).map_err(drawing)?;
    for at in [left, *right] {
        let port = [(at - PORT, middle - PORT), (at + PORT, middle + PORT)];
        area.draw(&Rectangle::new(port, INK.light.filled())).map_err(drawing)?;
    }
    let text = |text: &str, y: i32, vertical: VPos| {
        let style = font(FONT).pos(Pos::new(HPos::Center, vertical));
        area.draw_text(text, &style, ((left + right) / 2, y)).map_err(drawing)
    };
    text(&link.above, middle - PORT, VPos::Bottom)?;
    for (n, detail) in link.below.iter().enumerate() {
        text(detail, middle + PORT + lines(n), VPos::Top)?;
    }
    draw_node(area, columns, &link.end, top, bottom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str) -> Node {
        Node { part: Part::Device, lines: vec![name.to_owned(), "memory".to_owned()], links: Vec::new() }
    }

    fn link(end: Node) -> Link {
        Link { above: "root port 0, Gen3 x8".to_owned(), below: vec!["MPS 256".to_owned()], end }
    }

    fn topology(links: Vec<Link>) -> Topology {
        let host = Node { part: Part::Host, lines: vec!["host".to_owned()], links };
        let notes = vec!["fault on a < b".to_owned()];
        Topology { title: "lab & more".to_owned(), subtitle: "seed 1".to_owned(), hosts: vec![host], notes }
    }

    /// Returns the x, y, width and height of the boxes with a border of 2 pixels.
    fn boxes(svg: &str) -> Vec<[i32; 4]> {
        let number = |text: &str, key: &str| {
            let rest = text.split(&format!(" {key}=\"")).nth(1)?;
            rest.split('"').next()?.parse().ok()
        };
        let rectangle =
            |text: &str| Some(["x", "y", "width", "height"].map(|key| number(text, key).unwrap_or(-1)));
        let drawn = svg.split("<rect").skip(1).filter(|rect| rect.contains("fill=\"none\""));
        drawn.filter_map(rectangle).collect()
    }

    #[test]
    fn picture_contains_all_texts() {
        let svg = topology(vec![link(device("nic")), link(device("disk"))]).svg().unwrap();
        for text in [
            "host",
            "nic",
            "disk",
            "memory",
            "root port 0, Gen3 x8",
            "MPS 256",
            "fault on a &lt; b",
            "lab &amp; more",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert_eq!(svg, topology(vec![link(device("nic")), link(device("disk"))]).svg().unwrap());
    }

    #[test]
    fn boxes_are_beside_their_parents_and_do_not_overlap() {
        let mut switch = device("switch");
        switch.links = vec![link(device("a")), link(device("b")), link(device("c"))];
        let svg = topology(vec![link(switch), link(device("d"))]).svg().unwrap();
        let all = boxes(&svg);
        assert_eq!(all.len(), 6, "{svg}");
        let [host, switch, a, b, c, d] = <[[i32; 4]; 6]>::try_from(all.clone()).unwrap();
        let inside = |inner: [i32; 4], outer: [i32; 4]| {
            inner[1] >= outer[1]
                && inner[1] + inner[3] <= outer[1] + outer[3]
                && inner[0] > outer[0] + outer[2]
        };
        assert!([switch, d].into_iter().all(|child| inside(child, host)), "{all:?}");
        assert!([a, b, c].into_iter().all(|child| inside(child, switch)), "{all:?}");
        for pair in [a, b, c, d].windows(2) {
            assert!(pair[0][1] + pair[0][3] < pair[1][1] || pair[0][0] > pair[1][0], "{all:?}");
        }
    }

    #[test]
    fn refuses_pictures_that_are_too_large() {
        let wide = topology(vec![link(device(&"x".repeat(10_000)))]).svg().unwrap_err().to_string();
        assert!(wide.contains("expected at most 30000"), "{wide}");
    }
}
