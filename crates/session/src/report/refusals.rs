// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refused TLPs in reports.

use fabric::{Fabric, PlacedRefusal};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use tlp::rules::Refusal;

/// TLPs that a part of the lab refused for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct RefusalReport {
    /// The part that refused them, for example ``slot `nic` ``.
    pub place: String,
    /// Name of the rule; `riser rules NAME` explains it.
    pub rule: &'static str,
    /// Section of `PCIe 5.0`; §2.2.9.1 is of `PCIe 6.0`.
    pub section: &'static str,
    /// The field whose value the rule restricts.
    pub field: &'static str,
    /// The value in the first TLP.
    pub found: String,
    /// The legal values.
    pub expected: String,
    /// The first TLP or DLLP as a line, in the format of `riser trace`; for a timeout, the request.
    pub tlp: String,
    /// Virtual time of the first one, in picoseconds.
    pub time_ps: u64,
    /// The number of TLPs.
    pub count: u64,
    /// Time that the first request had waited when it timed out, in picoseconds; omitted for other reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ps: Option<u64>,
    /// True in normal operation: configuration reads that search for a function, and TLPs that the link replays. The text of a
    /// report omits them.
    pub routine: bool,
    /// The windows of root ports, if none of them contains an address of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(skip)]
    refusal: Refusal,
}

impl RefusalReport {
    /// Returns a report of each of `refusals`, by the part with this name.
    pub fn all(place: &str, refusals: &[Refusal]) -> Vec<RefusalReport> {
        refusals.iter().map(|refusal| RefusalReport::new(place.to_owned(), *refusal)).collect()
    }

    /// Returns a line for each report that is not routine.
    pub fn lines(all: &[RefusalReport]) -> impl Iterator<Item = String> {
        all.iter().filter(|refusal| !refusal.routine).map(RefusalReport::to_string)
    }

    /// Returns a report of `refusal` by the part of the lab with this name.
    pub fn new(place: String, refusal: Refusal) -> RefusalReport {
        let (violation, rule) = (refusal.violation, refusal.violation.rule());
        let (mut found, mut expected) = (String::new(), String::new());
        // Writing to a string cannot fail.
        let _ = rule.unit.write(&mut found, violation.found);
        let _ = violation.write_expected(&mut expected);
        RefusalReport {
            place,
            rule: rule.name,
            section: rule.section,
            field: rule.field,
            found,
            expected,
            tlp: refusal.tlp.to_string(),
            time_ps: refusal.at.as_ps(),
            count: refusal.count,
            waited_ps: refusal.waited.map(|waited| waited.as_ps()),
            routine: refusal.routine,
            note: None,
            refusal,
        }
    }

    /// True if `other` is about the same rule and place.
    pub fn is_kind_of(&self, other: &RefusalReport) -> bool {
        (self.rule, &self.place, self.routine) == (other.rule, &other.place, other.routine)
    }
}

/// The kinds of refused TLPs that were seen so far.
#[derive(Default)]
pub struct SeenRefusals {
    kinds: usize,
    refusals: Vec<RefusalReport>,
}

impl SeenRefusals {
    /// Returns the first TLP of each new kind, without routine refusals. Calls `describe` only if `kinds` has changed.
    pub fn new_kinds(
        &mut self,
        kinds: usize,
        describe: impl FnOnce() -> Vec<RefusalReport>,
    ) -> Vec<RefusalReport> {
        if kinds == self.kinds {
            return Vec::new();
        }
        let all = describe();
        let is_new =
            |new: &&RefusalReport| !new.routine && !self.refusals.iter().any(|old| old.is_kind_of(new));
        let found = all.iter().filter(is_new).cloned().collect();
        (self.kinds, self.refusals) = (kinds, all);
        found
    }
}

/// ``slot `nic`: 4 completions refused: Lower Address 0x0, expected 0x40 ...``
impl Display for RefusalReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.refusal)?;
        self.note.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

pub(crate) fn refusals(fabric: &Fabric) -> Vec<RefusalReport> {
    let report =
        |PlacedRefusal { place, refusal, note }| RefusalReport { note, ..RefusalReport::new(place, refusal) };
    fabric.refusals().into_iter().map(report).collect()
}
