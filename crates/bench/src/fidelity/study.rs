// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All scores of the shipped profiles, one kind after another, and their report.

use super::{
    Ablation, Base, Fidelity, MECHANISMS, Mechanism, Progress, THINNED_ROWS, ablation, scores, thinned,
};
use crate::BenchError;
use crate::score::GroupScore;
use lab::profile::Basis;
use serde::Serialize;
use std::collections::BTreeMap;

/// A part of the data that is left out of the fit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum LeftOut {
    /// Each configuration of a server; its figures are fitted to the other configurations of that server.
    #[serde(rename = "configuration_left_out")]
    Configuration,
    /// Each server with all its configurations; figures come from the other servers.
    #[serde(rename = "server_left_out")]
    Server,
}

impl LeftOut {
    /// Both parts.
    pub const ALL: [LeftOut; 2] = [LeftOut::Configuration, LeftOut::Server];

    /// Heading of its column.
    const fn head(self) -> &'static str {
        match self {
            LeftOut::Configuration => "configuration left out",
            LeftOut::Server => "server left out",
        }
    }
}

/// Scores as JSON.
#[derive(Serialize)]
pub struct FidelityReport {
    /// The weakest basis of all rows.
    basis: Option<Basis>,
    as_shipped: Vec<GroupScore>,
    #[serde(flatten)]
    left_out: BTreeMap<LeftOut, Vec<GroupScore>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ablation: Option<Ablations>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ablation_server_left_out: Option<Ablations>,
}

#[derive(Serialize)]
struct Ablations {
    every_eleventh_row: Vec<GroupScore>,
    without: Vec<Ablation>,
}

/// A part of the page with the scores.
pub struct Part {
    /// Name of the marks in the page.
    pub name: &'static str,
    /// The tables, in Markdown.
    pub text: String,
    /// False if further scores will be added.
    pub is_whole: bool,
}

impl FidelityReport {
    /// Measures the scores of the shipped profiles, and with each of `left_out`; with `ablations`, also with each mechanism switched off.
    /// Calls `show` with a part of the page after each score.
    ///
    /// # Errors
    /// A row that cannot be simulated, a file that cannot be written, and those of `show`.
    pub fn measure<E: From<BenchError>>(
        fidelity: &Fidelity<'_>,
        left_out: &[LeftOut],
        ablations: bool,
        say: Progress<'_>,
        show: &mut dyn FnMut(Part) -> Result<(), E>,
    ) -> Result<FidelityReport, E> {
        let mut report = FidelityReport {
            basis: fidelity.basis(),
            as_shipped: fidelity.shipped(say)?,
            left_out: BTreeMap::new(),
            ablation: None,
            ablation_server_left_out: None,
        };
        for what in left_out {
            let scores = match what {
                LeftOut::Configuration => fidelity.configuration_left_out(say),
                LeftOut::Server => fidelity.server_left_out(say),
            };
            report.left_out.insert(*what, scores?);
            show(Part { name: "scores", text: report.scores(), is_whole: false })?;
        }
        show(Part { name: "scores", text: report.scores(), is_whole: true })?;
        if ablations {
            let some = thinned(fidelity.data, THINNED_ROWS);
            let fidelity = Fidelity { data: &some, ..fidelity.clone() };
            let of_unknown_cause = MECHANISMS.iter().filter(|mechanism| !mechanism.is_explained);
            let base = ("unexplained", Base::ServerLeftOut);
            let left_out = Ablations::measure(&fidelity, base, of_unknown_cause, say, show)?;
            let base = ("ablation", Base::Shipped);
            let shipped = Ablations::measure(&fidelity, base, MECHANISMS.iter(), say, show)?;
            (report.ablation, report.ablation_server_left_out) = (Some(shipped), Some(left_out));
        }
        Ok(report)
    }

    /// Returns the scores as tables.
    fn scores(&self) -> String {
        let left_out = self.left_out.iter().map(|(what, scores)| (what.head(), &scores[..]));
        let columns: Vec<_> = [("as shipped", &self.as_shipped[..])].into_iter().chain(left_out).collect();
        scores(&columns)
    }
}

impl Ablations {
    /// Switches off one of `mechanisms` at a time and scores the profiles of `base`.
    fn measure<'m, E: From<BenchError>>(
        fidelity: &Fidelity<'_>,
        (name, base): (&'static str, Base),
        mechanisms: impl Iterator<Item = &'m Mechanism>,
        say: Progress<'_>,
        show: &mut dyn FnMut(Part) -> Result<(), E>,
    ) -> Result<Ablations, E> {
        let every_eleventh_row = match base {
            Base::Shipped => fidelity.shipped(say)?,
            Base::ServerLeftOut => fidelity.server_left_out(say)?,
        };
        let mut all = Ablations { every_eleventh_row, without: Vec::new() };
        let part = |all: &Ablations, is_whole| Part {
            name,
            text: ablation(&all.every_eleventh_row, &all.without),
            is_whole,
        };
        for mechanism in mechanisms {
            all.without.push(fidelity.without(mechanism, base, say)?);
            show(part(&all, false))?;
        }
        show(part(&all, true))?;
        Ok(all)
    }
}
