// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of device software, as JSON and as text.

use super::Rows;
use serde::Serialize;
use serde_json::{Map, Value};
use session::report::RefusalReport;
use std::fmt::{Display, Formatter, Result};
use tlp::rules::Refusals;

/// Report of device software.
#[derive(Serialize)]
pub struct SoftwareReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    session: bool,
    #[serde(flatten)]
    counts: Rows,
    came_back: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<RefusalReport>,
}

impl SoftwareReport {
    /// Returns the report of a tool with the counters of its TLPs. `is_session` is false for a port per tag; `came_back` is how often the adapter
    /// came back.
    pub fn new(
        tool: &str,
        (is_session, came_back): (bool, u64),
        counts: impl IntoIterator<Item = (&'static str, u64)>,
        refused: &Refusals,
    ) -> SoftwareReport {
        SoftwareReport {
            model: None,
            session: is_session,
            counts: Rows::new(counts.into_iter()),
            came_back,
            counters: None,
            refusals: RefusalReport::all(tool, refused.kinds()),
        }
    }

    /// Adds a model with its own counters.
    #[must_use]
    pub fn with_model(self, model: String, counters: Map<String, Value>) -> SoftwareReport {
        SoftwareReport { model: Some(model), counters: Some(counters), ..self }
    }
}

/// The counters that are not zero, a line each; those of a model are in alphabetical order.
impl Display for SoftwareReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut rows: Vec<_> = self.counts.iter().chain([("came_back", self.came_back)]).collect();
        if self.counters.is_some() {
            rows.sort_unstable();
        }
        let own = self.counters.iter().flatten().filter_map(|(name, value)| Some((&**name, value.as_u64()?)));
        let rows = rows.into_iter().chain(own).filter(|(_, count)| *count > 0);
        let rows = rows.map(|(name, count)| format!("{name:20} {count:>10}"));
        let lines: Vec<String> = rows.chain(RefusalReport::lines(&self.refusals)).collect();
        f.write_str(&lines.join("\n"))
    }
}
