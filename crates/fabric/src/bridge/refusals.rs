// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules broken by TLPs that a bridge refuses. Never decides which TLPs are refused.

use super::{Bridge, Routes};
use config::Uncorrectable;
use tlp::rules::reasons::{of_transaction, poisoned, request_type, unrouted, unsupported_prefixes};
use tlp::{Body, RuleId, Tlp, Violation};

impl Bridge {
    /// Returns the rule broken by a TLP for the bridge's link, which is down.
    #[cold]
    pub(crate) fn closed(&self) -> Violation {
        match self.is_contained() {
            true => Violation::new(RuleId::Containment, 1),
            false => Violation::new(RuleId::LinkUp, 0),
        }
    }
}

/// The rule that `tlp` breaks if a port reports it as `error`. `from` has the registers of the port through which the
/// TLP came from below; `None` if it came from above.
#[cold]
pub(crate) fn violation(error: Uncorrectable, tlp: &Tlp, from: Option<&Routes>) -> Violation {
    match error {
        Uncorrectable::PoisonedTlp => poisoned(),
        Uncorrectable::Ecrc => tlp.ecrc_violation(),
        Uncorrectable::ReceiverOverflow => Violation::new(RuleId::Credits, tlp.data_credits().into()),
        Uncorrectable::AtomicOpEgressBlocked => {
            Violation::new(RuleId::AtomicEgressBlocking, request_type(&tlp.repr).found)
        }
        Uncorrectable::TlpPrefixBlocked => {
            Violation::new(RuleId::PrefixEgressBlocking, tlp.prefixes.end_to_end() as u64)
        }
        Uncorrectable::PoisonedTlpEgressBlocked => Violation::new(RuleId::PoisonedEgressBlocking, 1),
        Uncorrectable::UnexpectedCompletion => of_transaction(RuleId::UnexpectedCompletion, &tlp.repr),
        Uncorrectable::AcsViolation => acs(tlp, from),
        _ => unsupported(tlp, from),
    }
}

fn acs(tlp: &Tlp, from: Option<&Routes>) -> Violation {
    let requester = tlp.repr.transaction().0;
    match from {
        Some(from) if from.is_foreign(requester) => {
            Violation::new(RuleId::AcsSourceValidation, requester.bits().into())
        }
        Some(from) if from.blocks_translation(tlp) => {
            Violation::new(RuleId::AcsTranslationBlocking, tlp.repr.at.bits().into())
        }
        _ => Violation::new(RuleId::AcsEgressControl, unrouted(&tlp.repr).found),
    }
}

fn unsupported(tlp: &Tlp, from: Option<&Routes>) -> Violation {
    let is_request = matches!(tlp.repr.body, Body::Memory(_) | Body::Io(_) | Body::Atomic(_));
    match from {
        _ if tlp.prefixes.has_reserved() => unsupported_prefixes(&tlp.prefixes),
        Some(from) if is_request && !from.windows.bus_master_enable => {
            Violation::new(RuleId::BusMasterEnable, 0)
        }
        Some(_) if matches!(tlp.repr.body, Body::Config(_)) => request_type(&tlp.repr),
        _ => unrouted(&tlp.repr),
    }
}
