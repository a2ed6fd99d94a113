// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects the results of a figure: its configurations, its rows, and what is missing.

use super::{Line, Point, Role};
use crate::BenchError;
use crate::configurations::SheetLink;
use crate::experiments::{Cache, Key, Test};
use crate::pairing::{find, renamed};
use crate::results::{Figures, RECORD, ResultRow, ResultSet, Tables};
use crate::score::short_name;

/// The results that figures are drawn from.
pub(super) struct Sets<'a> {
    run: &'a ResultSet,
    reference: Option<(&'a str, ResultSet)>,
}

/// Subject of a drawing: one or several configurations, by names without the card.
pub(super) type Subject = Vec<String>;

impl<'a> Sets<'a> {
    pub(super) fn new(run: &'a ResultSet, reference: Option<(&'a str, &'a ResultSet)>) -> Sets<'a> {
        Sets { run, reference: reference.map(|(name, set)| (name, renamed(run, set))) }
    }

    /// Returns the reference, with the names of the run's configurations.
    pub(super) fn reference(&self) -> Option<(&str, &ResultSet)> {
        self.reference.as_ref().map(|(label, set)| (*label, set))
    }

    /// Returns the names of all configurations of the run, without the card.
    pub(super) fn names(&self) -> Vec<String> {
        self.run.configurations.keys().map(|name| short_name(name).to_owned()).collect()
    }

    /// Returns the link that a configuration of the run was measured over.
    ///
    /// # Errors
    /// The reason why it is unknown, for the notes of a figure.
    pub(super) fn link(&self, name: &str) -> Result<SheetLink, BenchError> {
        let unknown = |why: String| BenchError::Unknown(format!("No model for {name}: {why}."));
        let (name, tables) =
            find(self.run, name).ok_or_else(|| unknown("it is not in the results".into()))?;
        let link = tables.link_of(name).map_err(|e| unknown(e.to_string()))?;
        link.ok_or_else(|| unknown(format!("its link is not known: the folder has no {RECORD}")))
    }

    /// Returns the link of all configurations of the run; `None` if they differ.
    pub(super) fn only_link(&self) -> Option<SheetLink> {
        let mut links = self.run.configurations.keys().map(|name| self.link(name).ok());
        let first = links.next()??;
        links.all(|link| link == Some(first)).then_some(first)
    }

    /// Chooses the subject to draw: the first of `candidates` that the run has. The paper shows the first candidate. If
    /// the reference lacks this subject, adds the first one that both have. A set has a subject if all its
    /// configurations have at least one of `experiments`.
    pub(super) fn choose(
        &self,
        candidates: &[Subject],
        experiments: &[&str],
        notes: &mut Vec<String>,
    ) -> Vec<Subject> {
        let [paper, ..] = candidates else { return Vec::new() };
        let in_run = |subject: &&Subject| has(self.run, subject, experiments);
        let in_reference = |subject: &&Subject| {
            self.reference.as_ref().is_some_and(|(_, set)| has(set, subject, experiments))
        };
        let Some(first) = candidates.iter().find(in_run) else {
            notes.push(format!("Needs {} of {}.", experiments.join(", "), paper.join(" and ")));
            return Vec::new();
        };
        if first != paper {
            notes.push(format!(
                "The paper shows {}, which the results lack: {} replaces it.",
                paper.join(" and "),
                first.join(" and ")
            ));
        }
        let mut chosen = vec![first.clone()];
        if let (Some((name, _)), false) = (&self.reference, in_reference(&first)) {
            let both = candidates.iter().filter(in_run).find(in_reference);
            let instead =
                both.map_or(String::new(), |s| format!(" {}, which it has, is drawn too.", s.join(" and ")));
            notes.push(format!("{name} lacks this for {}.{instead}", first.join(" and ")));
            chosen.extend(both.cloned());
        }
        chosen
    }

    /// Returns the lines of a subject, one of the run and one of the reference, as `points` makes them of its tables. If the run has no points, adds to `notes`
    /// that `experiment` is missing.
    pub(super) fn lines(
        &self,
        subject: &Subject,
        name: &str,
        group: usize,
        experiment: &str,
        notes: &mut Vec<String>,
        points: impl Fn(&[&Tables]) -> Vec<Point>,
    ) -> Vec<Line> {
        let of = |set: &ResultSet| tables(set, subject).map(|found| points(&found)).unwrap_or_default();
        let run = Line { name: name.to_owned(), role: Role::Run, group, points: of(self.run) };
        if run.points.is_empty() {
            push_once(notes, format!("Not in the results: {experiment} of {}.", subject.join(" and ")));
        }
        let reference = self.reference.as_ref().map(|(label, set)| Line {
            name: format!("{name}, {label}"),
            role: Role::Reference,
            group,
            points: of(set),
        });
        std::iter::once(run).chain(reference).filter(|line| !line.points.is_empty()).collect()
    }
}

/// Adds a note, unless it exists already.
pub(super) fn push_once(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// Returns the tables of all configurations of a subject; `None` if one is missing.
fn tables<'a>(set: &'a ResultSet, subject: &Subject) -> Option<Vec<&'a Tables>> {
    subject.iter().map(|name| find(set, name).map(|(_, tables)| tables)).collect()
}

fn has(set: &ResultSet, subject: &Subject, experiments: &[&str]) -> bool {
    let all_have = |experiment: &&str| {
        tables(set, subject).is_some_and(|all| all.iter().all(|t| t.experiments.contains_key(*experiment)))
    };
    experiments.iter().any(all_have)
}

/// Returns the rows of an experiment with this test and cache state, in the order of the file.
pub(super) fn rows<'a>(
    tables: &'a Tables,
    experiment: &str,
    test: Test,
    cache: Cache,
) -> impl Iterator<Item = &'a ResultRow> + use<'a> {
    let rows = tables.experiments.get(experiment).map_or(&[][..], Vec::as_slice);
    rows.iter().filter(move |row| row.key.test == test && row.key.cache == cache)
}

/// Returns the points of rows by increasing `x`, each `x` once; for latencies with minimum and 95th percentile.
pub(super) fn points<'a>(rows: impl Iterator<Item = &'a ResultRow>, x: impl Fn(&Key) -> f64) -> Vec<Point> {
    placed(rows.map(|row| (row, x(&row.key))))
}

/// Like [`points`], for rows with their x.
pub(super) fn placed<'a>(rows: impl Iterator<Item = (&'a ResultRow, f64)>) -> Vec<Point> {
    let mut points: Vec<Point> = rows.map(|(row, x)| point(row, x)).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points.dedup_by(|later, first| later.x == first.x);
    points
}

fn point(row: &ResultRow, x: f64) -> Point {
    let range = match &row.figures {
        Figures::Latency(latency) => Some((latency.ns.min, latency.ns.p95)),
        Figures::Bandwidth(_) => None,
    };
    Point { x, y: row.value(), range }
}

/// Returns the transfer size of a row in bytes.
pub(super) fn size(key: &Key) -> f64 {
    f64::from(key.size_bytes)
}

/// Returns the window of a row in bytes.
pub(super) fn window(key: &Key) -> f64 {
    key.window_bytes as f64
}
