// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of results in the native format, for any swept settings. There is one for each test: its values by transfer size and by each other column that
//! varies, and the difference between two sets. This module does not depend on the paper's experiments.

use super::sets::placed;
use super::{Figure, Line, Plot, Point, Quantity, Role};
use crate::experiments::{Key, Test};
use crate::pairing::{by_key, find};
use crate::results::sheet::{RowSettings, varying};
use crate::results::{ResultRow, ResultSet};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of lines of one set in a plot, which is the number of colours. From more lines, this many are chosen,
/// evenly spread.
const MAX_LINES: usize = 6;

/// A row with its settings.
struct Sample<'a> {
    place: &'a RowSettings,
    row: &'a ResultRow,
}

/// Quantity of the x axis: transfer size, window, or a column of settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Across {
    Size,
    Window,
    Setting(&'static str),
}

/// Key of a line: the common settings of its rows.
type Rest = (RowSettings, Key);

/// The rows of a test in both sets.
struct Pair<'a> {
    test: Test,
    run: Vec<Sample<'a>>,
    reference: Option<(&'a str, Vec<Sample<'a>>)>,
}

/// Draws a figure for each test that `run` has in the native format. Matching rows of `reference` are drawn over it, and their difference next to it.
pub(super) fn figures(run: &ResultSet, reference: Option<(&str, &ResultSet)>) -> Vec<Figure> {
    let of = |test| {
        let pair = Pair {
            test,
            run: samples(run, run, test),
            reference: reference.map(|(label, set)| (label, samples(run, set, test))),
        };
        (!pair.run.is_empty()).then(|| pair.figure())
    };
    Test::ALL.into_iter().filter_map(of).collect()
}

/// Returns the rows of a test in `from`, with their settings in `run`, of each configuration that `run` has in the native format.
fn samples<'a>(run: &'a ResultSet, from: &'a ResultSet, test: Test) -> Vec<Sample<'a>> {
    let mut samples = Vec::new();
    for (name, tables) in &run.configurations {
        let (Some(place), Some((_, found))) = (&tables.settings, find(from, name)) else { continue };
        let rows = by_key(found.experiments.values().flatten().filter(|row| row.key.test == test));
        samples.extend(rows.into_values().map(|row| Sample { place, row }));
    }
    samples
}

/// Returns key and title of a test's figure, by the names of `riser bench --suite`.
const fn named(test: Test) -> (&'static str, &'static str) {
    match test {
        Test::LatCmdRd => ("lat-cmd-rd", "LAT_CMD_RD: latency of reads, command interface"),
        Test::LatCmdWrRd => {
            ("lat-cmd-wrrd", "LAT_CMD_WRRD: latency of writes followed by a read, command interface")
        }
        Test::LatDmaRd => ("lat-rd", "LAT_RD: latency of reads"),
        Test::LatDmaWrRd => ("lat-wrrd", "LAT_WRRD: latency of writes followed by a read"),
        Test::BwDmaRd => ("bw-rd", "BW_RD: bandwidth of reads"),
        Test::BwDmaWr => ("bw-wr", "BW_WR: bandwidth of writes"),
        Test::BwDmaRw => {
            ("bw-rdwr", "BW_RDWR: bandwidth of alternating reads and writes, one direction counted")
        }
    }
}

impl Pair<'_> {
    fn figure(&self) -> Figure {
        let (key, title) = named(self.test);
        let mut notes = Vec::new();
        if let Some((label, _)) = self.reference.as_ref().filter(|(_, samples)| samples.is_empty()) {
            notes.push(format!("{label} has no rows of this test."));
        }
        let text = match self.test.is_latency() {
            true => "Medians; bars go from the minimum to the 95th percentile.",
            false => "Data rate, in the middle of a test.",
        };
        let plots = self.swept().into_iter().flat_map(|across| self.plots(across, &mut notes)).collect();
        Figure { key, title, text, notes, plots }
    }

    /// Returns the settings that vary in the run, or the transfer size if no setting varies.
    fn swept(&self) -> Vec<Across> {
        let several = |of: &dyn Fn(&Key) -> u64| {
            self.run.iter().map(|s| of(&s.row.key)).collect::<BTreeSet<_>>().len() > 1
        };
        let mut swept = Vec::new();
        if several(&|key| key.size_bytes.into()) {
            swept.push(Across::Size);
        }
        if several(&|key| key.window_bytes) {
            swept.push(Across::Window);
        }
        let columns = varying(self.run.iter().map(|s| s.place));
        let is_number = |column: &&str| self.run.iter().all(|s| s.number(column).is_some());
        swept.extend(columns.into_iter().filter(is_number).map(Across::Setting));
        if swept.is_empty() { vec![Across::Size] } else { swept }
    }

    /// Plots values over one column, and their difference.
    fn plots(&self, across: Across, notes: &mut Vec<String>) -> Vec<Plot> {
        let run = groups(&self.run, across);
        let reference = self.reference.as_ref().map(|(label, samples)| (*label, groups(samples, across)));
        let names = Names::of(&run);
        let chosen = chosen(&run, across, notes);
        let y = if self.test.is_latency() { Quantity::LatencyNs } else { Quantity::BandwidthGbps };
        let (mut values, mut differences) = (Vec::new(), Vec::new());
        for (group, (rest, points)) in chosen.into_iter().enumerate() {
            let name = names.name(self.test, rest);
            let line = |name: &str, role, points| Line { name: name.to_owned(), role, group, points };
            values.push(line(&name, Role::Run, points.clone()));
            let Some((label, theirs)) = &reference else { continue };
            let Some(theirs) = theirs.get(rest) else { continue };
            values.push(line(&format!("{name}, {label}"), Role::Reference, theirs.clone()));
            let change = difference(points, theirs);
            differences.extend((!change.is_empty()).then(|| line(&name, Role::Run, change)));
        }
        let by = across.words();
        let value = Plot { title: format!("By {by}"), x: across.quantity(), y, lines: values };
        let label = reference.map_or("", |(label, _)| label);
        let title = format!("Difference from {label} by {by}");
        let difference =
            Plot { title, x: across.quantity(), y: Quantity::DifferencePercent, lines: differences };
        [value, difference].into_iter().filter(|plot| !plot.lines.is_empty()).collect()
    }
}

impl Sample<'_> {
    fn number(&self, column: &str) -> Option<f64> {
        self.place.get(column)?.parse().ok()
    }

    fn at(&self, across: Across) -> f64 {
        match across {
            Across::Size => self.row.key.size_bytes.into(),
            Across::Window => self.row.key.window_bytes as f64,
            Across::Setting(column) => self.number(column).unwrap_or_default(),
        }
    }

    fn rest(&self, across: Across) -> Rest {
        let (mut place, mut key) = (self.place.clone(), self.row.key);
        match across {
            Across::Size => key.size_bytes = 0,
            Across::Window => key.window_bytes = 0,
            Across::Setting(column) => drop(place.remove(column)),
        }
        (place, key)
    }
}

impl Across {
    fn quantity(self) -> Quantity {
        match self {
            Across::Size => Quantity::TransferBytes,
            Across::Window => Quantity::WindowBytes,
            Across::Setting(column) => Quantity::Setting(column),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Across::Size => "transfer size",
            Across::Window => "window",
            Across::Setting(column) => column,
        }
    }
}

/// Returns the points of each line, by the common parts of its rows.
fn groups(samples: &[Sample<'_>], across: Across) -> BTreeMap<Rest, Vec<Point>> {
    let mut found: BTreeMap<Rest, Vec<&Sample<'_>>> = BTreeMap::new();
    for sample in samples {
        found.entry(sample.rest(across)).or_default().push(sample);
    }
    let line = |samples: Vec<&Sample<'_>>| placed(samples.iter().map(|s| (s.row, s.at(across))));
    found.into_iter().map(|(rest, samples)| (rest, line(samples))).collect()
}

/// Returns the lines to draw: those of several points if there are any, and an evenly spread selection of too many.
fn chosen<'a>(
    groups: &'a BTreeMap<Rest, Vec<Point>>,
    across: Across,
    notes: &mut Vec<String>,
) -> Vec<(&'a Rest, &'a Vec<Point>)> {
    let is_swept = groups.values().any(|points| points.len() > 1);
    let lines: Vec<_> = groups.iter().filter(|(_, points)| !is_swept || points.len() > 1).collect();
    let count = lines.len();
    if count <= MAX_LINES {
        return lines;
    }
    notes.push(format!(
        "By {}: {MAX_LINES} of {count} lines, evenly spread; the tables have all lines.",
        across.words()
    ));
    (0..MAX_LINES).map(|i| lines[i * (count - 1) / (MAX_LINES - 1)]).collect()
}

/// Returns the difference in percent of the reference, at each x that both have.
fn difference(run: &[Point], reference: &[Point]) -> Vec<Point> {
    let of = |point: &Point| {
        let theirs = reference.iter().find(|other| other.x == point.x && other.y != 0.0)?;
        Some(Point { x: point.x, y: (point.y / theirs.y - 1.0) * 100.0, range: None })
    };
    run.iter().filter_map(of).collect()
}

/// The properties that distinguish lines.
struct Names {
    columns: BTreeSet<&'static str>,
    parts: [bool; PARTS.len()],
}

/// Parts of a line's name in addition to its settings.
const PARTS: [fn(&Key) -> String; 6] = [
    |key| format!("{} B", key.size_bytes),
    |key| format!("window {} B", key.window_bytes),
    |key| key.cache.name().to_owned(),
    |key| key.pattern.name().to_owned(),
    |key| format!("host offset {} B", key.host_offset_bytes),
    |key| format!("device offset {} B", key.device_offset_bytes),
];

impl Names {
    fn of(groups: &BTreeMap<Rest, Vec<Point>>) -> Names {
        let columns = varying(groups.keys().map(|(place, _)| place));
        let several = |part: &fn(&Key) -> String| {
            groups.keys().map(|(_, key)| part(key)).collect::<BTreeSet<_>>().len() > 1
        };
        Names { columns, parts: PARTS.each_ref().map(several) }
    }

    /// Returns the name of a line, or the test's name if there is only one line.
    fn name(&self, test: Test, (place, key): &Rest) -> String {
        let setting = |column: &&str| {
            let value = place.get(*column)?;
            Some(if value.parse::<f64>().is_ok() { format!("{column} {value}") } else { value.clone() })
        };
        let parts = PARTS.iter().zip(self.parts).filter(|(_, varies)| *varies).map(|(part, _)| part(key));
        let all: Vec<String> = self.columns.iter().filter_map(setting).chain(parts).collect();
        if all.is_empty() {
            named(test).1.split(':').next().unwrap_or_default().to_owned()
        } else {
            all.join(", ")
        }
    }
}
