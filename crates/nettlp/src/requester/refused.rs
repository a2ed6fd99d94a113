// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions that a requester refuses: the kind that it counts, and the rule that each breaks. Decides nothing.

use super::Stray;
use tlp::{Awaited, Completion, Misfit, RuleId, Violation};

/// A completion that answers nothing.
#[derive(Clone, Copy)]
pub(super) struct Refused {
    pub(super) stray: Stray,
    pub(super) why: Violation,
}

impl Refused {
    #[cold]
    pub(super) fn new(stray: Stray, rule: RuleId, found: u64) -> Refused {
        Refused { stray, why: Violation::new(rule, found) }
    }

    /// A completion that does not fit the bytes that are awaited.
    #[cold]
    pub(super) fn misfit(awaited: Awaited, completion: &Completion, misfit: Misfit) -> Refused {
        let stray = match misfit {
            Misfit::WithoutData => Stray::WithoutData,
            Misfit::ByteCount => Stray::ByteCount,
            Misfit::LowerAddress => Stray::LowerAddress,
            Misfit::Length => Stray::Length,
        };
        Refused { stray, why: awaited.violation(completion, misfit) }
    }

    /// A completion whose bytes have arrived before, or too early.
    #[cold]
    pub(super) fn again(stray: Stray, completion: &Completion) -> Refused {
        let rule =
            if stray == Stray::Scattered { RuleId::CompletionOrder } else { RuleId::CompletionRepeated };
        Refused::new(stray, rule, completion.byte_count.into())
    }
}

/// A CplLk or CplDLk: the requester sends no locked reads.
#[cold]
pub(super) fn locked() -> Refused {
    Refused { stray: Stray::Locked, why: Violation::expecting(RuleId::CompletionLocked, 0x0b, 0x0a) }
}
