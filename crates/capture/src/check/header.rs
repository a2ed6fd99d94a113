// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules of one TLP: its prefixes, its header and its size.

use crate::decode::{Bad, Ecrc, Kind, Record, TlpRecord};
use tlp::{
    AddressType, Body, Completion, Header, MemoryOp, ParseError, RuleId, Status, Violation, crc, rules,
};

/// Reports each rule of one TLP that it breaks. Returns false if not enough of the TLP was captured.
pub(crate) fn judge(record: &Record<'_>, report: &mut impl FnMut(Violation)) -> bool {
    match &record.kind {
        Kind::Tlp(tlp) => {
            if tlp.ecrc == Some(Ecrc::Bad)
                && let Some((covered, digest)) = record.tlp_bytes.split_last_chunk()
            {
                let found = u32::from_be_bytes(*digest).into();
                report(Violation::expecting(RuleId::Ecrc, found, crc::ecrc(covered).into()));
            }
            if !is_plain(tlp, record.tlp_bytes)
                && let Ok(header) = Header::new(record.tlp_bytes)
            {
                rules::tolerated(&header).for_each(report);
            }
        }
        Kind::Bad(Bad::Tlp(error)) => {
            let is_cut = record.truncated || record.captured_len < record.original_len;
            if is_cut && matches!(error, ParseError::Truncated { .. }) {
                return false;
            }
            let Ok(header) = Header::new(record.tlp_bytes) else {
                report(error.on_a_link());
                return true;
            };
            rules::broken(&header).for_each(&mut *report);
            if !is_cut {
                judge_size(&header, record.tlp_bytes.len(), report);
            }
        }
        Kind::Bad(Bad::TlpLength { have, .. }) => {
            let Ok(header) = Header::new(record.tlp_bytes) else { return false };
            judge_size(&header, *have, report);
            rules::tolerated(&header).for_each(report);
        }
        _ => {}
    }
    true
}

/// Compares the size of a TLP with its header.
fn judge_size(header: &Header<'_>, have: usize, report: &mut impl FnMut(Violation)) {
    let needed = header.tlp_len();
    if have < needed {
        report(Violation::expecting(RuleId::Length, have as u64, needed as u64));
    } else if let Err(violation) = rules::check_size(header, have) {
        report(violation);
    }
}

/// Returns true if a quick check of a few fields shows that a TLP breaks no rule, as for most TLPs of most traces.
fn is_plain(tlp: &TlpRecord<'_>, bytes: &[u8]) -> bool {
    let repr = &tlp.repr;
    if !tlp.prefixes.is_empty() || repr.at != AddressType::Untranslated {
        return false;
    }
    match &repr.body {
        Body::Memory(m) => {
            let is_long = bytes.first().is_some_and(|first| first >> 5 & 1 == 1);
            matches!(m.op, MemoryOp::Read | MemoryOp::Write)
                && (!is_long || m.span.address() > u64::from(u32::MAX))
        }
        Body::Completion(c) => {
            let has_th = bytes.get(1).is_none_or(|byte| byte & 1 == 1);
            !has_th && !c.locked && c.status == Status::Success && has_data_counted(c)
        }
        _ => false,
    }
}

/// Returns true if a completion has no more data than its Byte Count.
fn has_data_counted(c: &Completion) -> bool {
    let most = (u32::from(c.lower_address & 3) + u32::from(c.byte_count)).next_multiple_of(4);
    c.length_dw.is_none_or(|dw| u32::from(dw) * 4 <= most)
}
