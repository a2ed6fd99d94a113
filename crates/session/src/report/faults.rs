// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults in reports: the frames that each has matched and affected.

use fabric::{Alteration, FaultAction, FaultCounts};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};

/// The frames that a fault has matched and affected.
#[derive(Clone, Debug, Serialize)]
pub struct FaultReport {
    /// Number of the fault among the `[[fault]]` tables of the lab, from 0 as in `--set fault.0=...`. Faults of the
    /// command `fault` follow.
    pub fault: usize,
    /// Name of the slot or switch below the link.
    pub slot: String,
    /// `downstream` (from the host) or `upstream` (from the device).
    pub direction: &'static str,
    /// Number of frames that matched, until the fault ended.
    pub frames_matched: u64,
    /// Number of frames that were affected.
    pub frames_affected: u64,
    /// Why no frame was affected; omitted if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl FaultReport {
    /// Returns a report of `counts` for a fault above the slot or switch `slot`.
    pub(crate) fn new(counts: &FaultCounts, slot: String) -> FaultReport {
        FaultReport {
            fault: counts.number,
            slot,
            direction: counts.rule.direction.name(),
            frames_matched: counts.matched,
            frames_affected: counts.affected,
            note: (counts.affected == 0).then(|| without_effect(counts)),
        }
    }

    /// Returns a warning if no frame was affected.
    pub fn warning(&self) -> Option<String> {
        let FaultReport { fault, slot, direction, note, .. } = self;
        note.as_ref().map(|note| format!("fault.{fault} on {slot}, {direction}, affected no frame: {note}"))
    }
}

/// Returns why a fault affected no frame.
fn without_effect(counts: &FaultCounts) -> String {
    let FaultCounts { rule, matched, without_field, .. } = counts;
    match rule.action {
        _ if *matched == 0 => "no frame matched".to_owned(),
        FaultAction::Alter(Alteration::WrongEcrc) if *without_field > 0 => {
            "the frames that matched have no ECRC, expected `ecrc` in [host] that adds one".to_owned()
        }
        _ if *without_field > 0 => {
            "the frames that matched do not have the field that the action changes, or have its value already"
                .to_owned()
        }
        _ if *matched < rule.nth => format!("{matched} matched, expected nth = {} of them", rule.nth),
        _ => "probability spared all frames".to_owned(),
    }
}

/// `fault.0 on nic, upstream: 59 frames matched, 1 affected`
impl Display for FaultReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let FaultReport { fault, slot, direction, frames_matched, frames_affected, note } = self;
        let plural = if *frames_matched == 1 { "" } else { "s" };
        write!(
            f,
            "fault.{fault} on {slot}, {direction}: {frames_matched} frame{plural} matched, {frames_affected} affected"
        )?;
        note.iter().try_for_each(|note| write!(f, " ({note})"))
    }
}
