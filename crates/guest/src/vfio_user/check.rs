// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that several commands share.

use super::refusal::{Legal, Refusal};

/// Checks that a payload has the length of its command.
pub(super) fn length(command: u16, payload: &[u8], legal: usize) -> Result<(), Refusal> {
    let (bytes, legal) = (payload.len(), legal as u64);
    if bytes as u64 == legal { Ok(()) } else { Err(Refusal::Length { command, bytes, legal }) }
}

/// Checks that `argsz` is large enough for the reply, or for the structure of the command.
pub(super) fn argsz(command: u16, argsz: u32, least: usize) -> Result<(), Refusal> {
    let legal = Legal::From(least as u64);
    if argsz as usize >= least { Ok(()) } else { Err(bad(command, "argsz", argsz, legal)) }
}

/// Checks that unused fields are zero.
pub(super) fn zeros(command: u16, fields: &[(&'static str, u64)]) -> Result<(), Refusal> {
    let wrong = fields.iter().find(|(_, value)| *value != 0);
    wrong.map_or(Ok(()), |&(field, value)| Err(bad(command, field, value, Legal::Zero)))
}

/// Returns the refusal of a field with an illegal value.
pub(super) fn bad(command: u16, field: &'static str, value: impl Into<u64>, legal: Legal) -> Refusal {
    Refusal::Field { command, field, value: value.into(), legal }
}
