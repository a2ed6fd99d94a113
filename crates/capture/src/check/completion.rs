// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules about a completion and its request (`PCIe 5.0 §2.2.9`, §2.3.1.1).

use super::outstanding::Waiting;
use tlp::{Attributes, Body, CompletedRequest, Completion, MemoryOp, Rcb, Repr, RuleId, Status, Violation};

/// Low four bits of the Type of Cpl and CplD, and of CplLk and CplDLk.
const TYPES: [u64; 2] = [0b01010, 0b01011];
/// Fmt of a completion without data and with data.
const FMTS: [u64; 2] = [0b000, 0b010];

/// Checks a completion against its request. Returns true if no further completion can follow.
///
/// The Byte Count of an unsuccessful completion covers all remaining bytes (`PCIe 5.0 §2.3.2`).
pub(super) fn judge(
    waiting: &mut Waiting,
    repr: &Repr,
    completion: &Completion,
    rcb: Rcb,
    report: &mut impl FnMut(Violation),
) -> bool {
    let asked = CompletedRequest::of_non_posted(&waiting.repr);
    judge_copies(&asked, repr, completion, report);
    let body = &waiting.repr.body;
    let may_retry = match body {
        Body::Config(_) => true,
        Body::Memory(m) => m.op == MemoryOp::WriteDeferrable,
        _ => false,
    };
    if completion.status == Status::ConfigRetry && !may_retry {
        report(Violation::new(RuleId::CompletionRetry, 0b010));
    }
    let is_memory_read = matches!(body, Body::Memory(m) if m.op.is_read());
    // Lower Address is reserved in completions of AtomicOps, and not checked in unsuccessful completions of memory
    // reads.
    let has_lower_address_0 = !is_memory_read && !matches!(body, Body::Atomic(_));
    if completion.status != Status::Success {
        // With BCM, which only PCI-X completers set, Byte Count of a read has another meaning.
        if !is_memory_read || !completion.bcm {
            judge_fixed(waiting.rest.byte_count, has_lower_address_0, completion, report);
        }
        return true;
    }
    let data_dw = data_dw(&waiting.repr);
    let (found, due) = (usize::from(completion.length_dw.is_some()), usize::from(data_dw > 0));
    if found != due {
        report(Violation::expecting(RuleId::CompletionType, FMTS[found], FMTS[due]));
        return true;
    }
    if is_memory_read {
        return judge_read(waiting, completion, rcb, report);
    }
    judge_fixed(waiting.rest.byte_count, has_lower_address_0, completion, report);
    if let Some(dw) = completion.length_dw.map(u32::from).filter(|dw| *dw != data_dw) {
        report(Violation::expecting(RuleId::CompletionLength, dw.into(), data_dw.into()));
    }
    true
}

/// Returns true if `completion` ends an ATS translation request: it reports an error, or has all remaining
/// translations (`PCIe 5.0 §10.2.3`). A completer may return fewer translations than requested.
pub(super) fn ends_translation(completion: &Completion) -> bool {
    let bytes = completion.length_dw.map_or(u32::MAX, |dw| u32::from(dw) * 4);
    completion.status != Status::Success || u32::from(completion.byte_count) <= bytes
}

/// Checks the fields that a completion copies from its request.
fn judge_copies(
    asked: &CompletedRequest,
    repr: &Repr,
    completion: &Completion,
    report: &mut impl FnMut(Violation),
) {
    if repr.tc != asked.tc {
        report(Violation::expecting(RuleId::CompletionTc, repr.tc.bits().into(), asked.tc.bits().into()));
    }
    let attr = repr.attr & Attributes::COMPLETED;
    if attr != asked.attr {
        report(Violation::expecting(RuleId::CompletionAttr, attr.bits().into(), asked.attr.bits().into()));
    }
    let (found, due) = (usize::from(completion.locked), usize::from(asked.locked));
    if found != due {
        report(Violation::expecting(RuleId::CompletionLocked, TYPES[found], TYPES[due]));
    }
}

/// Checks Byte Count and Lower Address of any completion except a successful one of a memory read.
fn judge_fixed(
    byte_count: u32,
    has_lower_address_0: bool,
    completion: &Completion,
    report: &mut impl FnMut(Violation),
) {
    let found = completion.byte_count;
    if u32::from(found) != byte_count {
        report(Violation::expecting(RuleId::ByteCount, found.into(), byte_count.into()));
    }
    if completion.lower_address != 0 && has_lower_address_0 {
        report(Violation::expecting(RuleId::LowerAddress, completion.lower_address.into(), 0));
    }
}

/// Checks a successful completion of a memory read. Returns true if it is the last one.
fn judge_read(
    waiting: &mut Waiting,
    completion: &Completion,
    rcb: Rcb,
    report: &mut impl FnMut(Violation),
) -> bool {
    let byte_count = u32::from(completion.byte_count);
    let remaining = waiting.rest.byte_count;
    // With BCM, which only PCI-X completers set, Byte Count covers only this completion.
    if !completion.bcm && byte_count != remaining {
        report(Violation::expecting(RuleId::ByteCount, byte_count.into(), remaining.into()));
        // If Lower Address fits this Byte Count, an earlier completion is missing. Otherwise Byte Count is wrong.
        let skipped = remaining.checked_sub(byte_count).map(|missing| waiting.rest.behind(missing));
        let is_after = |rest: &tlp::Awaited| {
            completion.lower_address == rest.lower_address()
                && completion.lower_address != waiting.rest.lower_address()
        };
        waiting.rest = skipped.filter(is_after).unwrap_or(waiting.rest);
    }
    let rest = waiting.rest;
    if completion.lower_address != rest.lower_address() {
        let (found, due) = (completion.lower_address, rest.lower_address());
        report(Violation::expecting(RuleId::LowerAddress, found.into(), due.into()));
    }
    let dw = completion.length_dw.map_or(0, u32::from);
    if dw > (rest.lead() + rest.byte_count).div_ceil(4) {
        report(Violation::new(RuleId::CompletionLength, dw.into()));
    }
    let bytes = (dw * 4).saturating_sub(rest.lead()).min(rest.byte_count);
    waiting.rest = rest.behind(bytes);
    if waiting.rest.byte_count == 0 {
        return true;
    }
    if !waiting.rest.first_byte.is_multiple_of(rcb.bytes().into()) {
        report(Violation::new(RuleId::CompletionBoundary, waiting.rest.first_byte));
    }
    false
}

/// DWs of data in the successful completion of a request; 1 for a memory read, whose completions may have any number.
fn data_dw(request: &Repr) -> u32 {
    match &request.body {
        Body::Atomic(a) => a.operand.bytes() / 4,
        Body::Memory(m) => u32::from(m.op.is_read()),
        Body::Io(_) | Body::Config(_) => u32::from(request.data_dw() == 0),
        Body::Completion(_) | Body::Message(_) => 0,
    }
}
