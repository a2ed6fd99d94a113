// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers that a paper prints, by figure, from the files in `data/papers`, and their comparison with riser's.

use super::PaperError;
use super::verdict::{Compared, Limit};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A number of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    what: String,
    unit: String,
    value: f64,
    /// Largest difference in the unit of the number; `None`: the limit of [`Compared::usual`].
    points: Option<f64>,
    source: String,
}

/// Numbers of one figure, by key.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Numbers(BTreeMap<String, Published>);

impl Numbers {
    /// Compares the number `key` with riser's.
    ///
    /// # Errors
    /// The figure has no such number.
    pub(super) fn compare(&self, key: &str, riser: f64) -> Result<Compared, PaperError> {
        let of = self.0.get(key).ok_or_else(|| PaperError::Lab(format!("data/papers: no number {key}")))?;
        let usual = Compared::usual(format!("{} ({})", of.what, of.source), &of.unit, of.value, riser);
        let limit = of.points.map_or(usual.limit, Limit::Points);
        Ok(Compared { limit, ..usual })
    }

    /// Compares several numbers, each with its key.
    ///
    /// # Errors
    /// As [`compare`](Self::compare).
    pub(super) fn compare_all(&self, riser: &[(&str, f64)]) -> Result<Vec<Compared>, PaperError> {
        riser.iter().map(|(key, value)| self.compare(key, *value)).collect()
    }
}

/// Returns the numbers of figure `of` of a paper, whose file is `name` with the text `text`.
///
/// # Errors
/// The file is invalid or has no such figure.
fn numbers(name: &str, text: &str, of: &str) -> Result<Numbers, PaperError> {
    let fail = |why: String| PaperError::Lab(format!("data/papers/{name}: {why}"));
    let mut figures: BTreeMap<String, Numbers> = toml::from_str(text).map_err(|e| fail(e.to_string()))?;
    figures.remove(of).ok_or_else(|| fail(format!("no figure {of}")))
}

/// Returns the numbers of a figure of pcie-bench (SIGCOMM'18).
///
/// # Errors
/// The paper prints no numbers for this figure.
pub(super) fn pcie_bench(figure: &str) -> Result<Numbers, PaperError> {
    let name = "pcie-bench-measured.toml";
    numbers(name, include_str!("../../data/papers/pcie-bench-measured.toml"), figure)
}

/// Returns the numbers of a figure of NetTLP (NSDI'20).
///
/// # Errors
/// The paper prints no numbers for this figure.
pub(super) fn nettlp(figure: &str) -> Result<Numbers, PaperError> {
    numbers("nettlp.toml", include_str!("../../data/papers/nettlp.toml"), figure)
}

/// Returns the numbers of a table of the DMA engine (ReConFig'15).
///
/// # Errors
/// The paper prints no numbers for this table.
pub(super) fn dma_engine(table: &str) -> Result<Numbers, PaperError> {
    let name = "dma-engine-measured.toml";
    numbers(name, include_str!("../../data/papers/dma-engine-measured.toml"), table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_that_of_the_file_or_ten_per_cent() {
        let text = "[f]\na = { what = \"a\", unit = \"ns\", value = 50, source = \"§1\" }\n\
                    b = { what = \"b\", unit = \"%\", value = 50, points = 2, source = \"§1\" }\n";
        let f = numbers("x.toml", text, "f").unwrap();
        let [a, b] = ["a", "b"].map(|key| f.compare(key, 51.0).unwrap());
        assert_eq!((a.limit, b.limit), (Limit::Percent(10.0), Limit::Points(2.0)));
        assert_eq!((&*a.what, a.paper, a.riser), ("a (§1)", 50.0, 51.0));
        assert!(f.compare("c", 1.0).is_err() && numbers("x.toml", text, "g").is_err());
    }
}
