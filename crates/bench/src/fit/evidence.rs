// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines which figures of a server its measurements determine, and on which rows. Simulates no row.

use super::{Input, Parameter};

/// Origin of the profile before the fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begun {
    /// The profile belongs to the measured server, or replaces its profile, so figures that no row determines are
    /// known.
    Own,
    /// The profile belongs to another server, so figures that no row determines are unknown.
    Another,
}

/// The rows on which a figure is fitted, or the reason why it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// Rows that depend on this figure alone.
    Rows,
    /// Rows that depend on it together with the named figure, which stays unchanged, because no rows depend on this
    /// figure alone.
    Together(Parameter),
    /// Not fitted: no row depends on it.
    Missing,
    /// Not fitted: its rows also depend on the named figure, which the data do not determine.
    NotApart(Parameter),
    /// Not fitted: the profile has no such figure.
    Absent,
}

impl Evidence {
    /// Whether the data determine the figure.
    pub const fn determines(self) -> bool {
        matches!(self, Evidence::Rows | Evidence::Together(_))
    }

    /// Returns why the figure is kept, or on which other figure its rows depend; `None` if rows depend on the figure
    /// alone.
    pub fn reason(self, parameter: Parameter) -> Option<String> {
        match self {
            Evidence::Rows => None,
            Evidence::Together(with) => Some(format!(
                "fitted on {}, since there are no {}: {} is unchanged, and this figure includes its error",
                with.shown_by(),
                parameter.shown_by(),
                with.name()
            )),
            Evidence::Missing => {
                Some(format!("not determined, value unchanged: needs {}", parameter.needs_rows()))
            }
            Evidence::NotApart(from) => Some(format!(
                "not determined, value unchanged: its rows cannot distinguish it from {}, which needs {}",
                from.name(),
                from.needs_rows()
            )),
            Evidence::Absent => {
                Some("not determined: the profile that the fit begins with has no such figure".into())
            }
        }
    }
}

/// The evidence for each of [`Parameter::ALL`], in its order. `has` returns whether the profile has a figure.
pub(super) fn of(
    inputs: &[Input],
    begun: Begun,
    has: impl Fn(Parameter) -> bool,
) -> Vec<(Parameter, Evidence)> {
    let shown = |parameter| inputs.iter().any(|input| !input.rows_of(parameter).is_empty());
    let mut all: Vec<(Parameter, Evidence)> = Vec::new();
    for parameter in Parameter::ALL {
        // If two figures are fitted together, their sum is known, and that is enough for other figures.
        let known = |other: &Parameter| {
            let by = |(of, evidence): &(Parameter, Evidence)| {
                of == other && evidence.determines() || *evidence == Evidence::Together(*other)
            };
            begun == Begun::Own || all.iter().any(by)
        };
        let taken = |(_, evidence): &(Parameter, Evidence)| *evidence == Evidence::Together(parameter);
        let stand_in = parameter.stand_ins().iter().find(|other| begun == Begun::Another && shown(**other));
        let evidence = match parameter.needs().iter().find(|other| !known(other)) {
            _ if !has(parameter) => Evidence::Absent,
            _ if !shown(parameter) => stand_in.map_or(Evidence::Missing, |with| Evidence::Together(*with)),
            Some(unknown) => Evidence::NotApart(*unknown),
            None => match all.iter().find(|of| taken(of)) {
                Some((taker, _)) => Evidence::NotApart(*taker),
                None => Evidence::Rows,
            },
        };
        all.push((parameter, evidence));
    }
    all
}
